"""Manifests as one string of a collection's metadata, which all who share the server read."""

from __future__ import annotations

import json

from memsvc.domain.entries import View
from memsvc.domain.indexing import LexicalManifest, VectorManifest

FORMAT = 1
"""Raise it with every change of payloads, of the hash of terms or of the manifest: such an index is built anew."""


class ForeignManifestError(Exception):
    """What the collection says of itself is not ours, or of another format."""


def vector_text(manifest: VectorManifest) -> str:
    """Return the manifest as a string."""
    return json.dumps(
        {
            "format": FORMAT,
            "generation": manifest.generation,
            "model": manifest.model,
            "dimension": manifest.dimension,
            "position": manifest.position,
            "views": [view.name for view in manifest.views],
            "means": {view.name: list(mean) for view, mean in manifest.means.items()},
            "mean_samples": manifest.mean_samples,
            "hnsw": manifest.hnsw,
        }
    )


def vector_manifest(text: str) -> VectorManifest:
    """Return the manifest of a string.

    Raises:
        ForeignManifestError: It is not what `vector_text` makes.
    """
    try:
        content = json.loads(text)
        _require_format(content["format"])
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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForeignManifestError(str(error)) from error


def lexical_text(manifest: LexicalManifest) -> str:
    """Return the manifest as a string."""
    return json.dumps(
        {
            "format": FORMAT,
            "generation": manifest.generation,
            "position": manifest.position,
            "analysis": manifest.analysis,
        }
    )


def lexical_manifest(text: str) -> LexicalManifest:
    """Return the manifest of a string.

    Raises:
        ForeignManifestError: It is not what `lexical_text` makes.
    """
    try:
        content = json.loads(text)
        _require_format(content["format"])
        return LexicalManifest(int(content["generation"]), int(content["position"]), str(content["analysis"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignManifestError(str(error)) from error


def _require_format(found: object) -> None:
    if found != FORMAT:
        message = f"The format is {found!r}, not {FORMAT}."
        raise ForeignManifestError(message)
