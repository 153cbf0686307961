"""A manifest of vectors as the content of a JSON object, wherever a backend keeps it.

What changes here changes the format of every place where it is kept.
"""

from __future__ import annotations

from typing import Any

from memsvc.domain.index_entries import View
from memsvc.domain.indexing import VectorManifest


def content_of(manifest: VectorManifest) -> dict[str, Any]:
    """Return all that the manifest says, as JSON can have it."""
    return {
        "generation": manifest.generation,
        "model": manifest.model,
        "dimension": manifest.dimension,
        "position": manifest.position,
        "views": [view.name for view in manifest.views],
        "means": {view.name: list(mean) for view, mean in manifest.means.items()},
        "mean_samples": manifest.mean_samples,
        "hnsw": manifest.hnsw,
    }


def manifest_of(content: dict[str, Any]) -> VectorManifest:
    """Return the manifest of what `content_of` makes.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is not that.
    """
    return VectorManifest(
        generation=int(content["generation"]),
        model=str(content["model"]),
        dimension=int(content["dimension"]),
        position=int(content["position"]),
        views=tuple(View[name] for name in content["views"]),
        means={View[name]: tuple(mean) for name, mean in content["means"].items()},
        mean_samples=int(content["mean_samples"]),
        hnsw=bool(content["hnsw"]),
    )
