"""Manifests as one string of a collection's metadata, which all who share the server read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from memsvc.domain.index_entries import LexicalManifest, VectorManifest, content_of, manifest_of

FORMAT = 1
"""Raise it with every change of payloads, of the hash of terms or of the manifest: such an index is built anew."""
M = TypeVar("M")


class ForeignManifestError(Exception):
    """What the collection says of itself is not ours, or of another format."""


def vector_text(manifest: VectorManifest) -> str:
    """Return the manifest as a string."""
    return _written(content_of(manifest))


def vector_manifest(text: str) -> VectorManifest:
    """Return the manifest of a string.

    Raises:
        ForeignManifestError: It is not what `vector_text` makes.
    """
    return _read(text, manifest_of)


def lexical_text(manifest: LexicalManifest) -> str:
    """Return the manifest as a string."""
    return _written({"generation": manifest.generation, "position": manifest.position, "analysis": manifest.analysis})


def lexical_manifest(text: str) -> LexicalManifest:
    """Return the manifest of a string.

    Raises:
        ForeignManifestError: It is not what `lexical_text` makes.
    """
    return _read(text, _lexical_manifest_of)


def _lexical_manifest_of(content: dict[str, Any]) -> LexicalManifest:
    return LexicalManifest(int(content["generation"]), int(content["position"]), str(content["analysis"]))


def _written(content: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, **content})


def _read(text: str, read: Callable[[dict[str, Any]], M]) -> M:
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            message = f"The format is {content['format']!r}, not {FORMAT}."
            raise ForeignManifestError(message)
        return read(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ForeignManifestError(str(error)) from error
