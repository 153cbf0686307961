"""The file that names the live generation."""

from __future__ import annotations

import json
import os
from pathlib import Path

from memsvc.domain.index_entries import LexicalManifest
from memsvc.fsync import sync
from memsvc_backends.tantivy.schema import FORMAT

_NAME = "manifest.json"
_DRAFT = "manifest.json.tmp"


class UnreadableManifestError(ValueError):
    """The manifest is broken or of another format."""


def read_manifest(directory: Path) -> LexicalManifest | None:
    """Return the manifest in the directory, or None when there is none.

    Raises:
        UnreadableManifestError: The file is not a manifest of this format.
    """
    try:
        text = (directory / _NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableManifestError(str(error)) from error
    try:
        values = json.loads(text)
        if values["format"] != FORMAT:
            message = f"The format is {values['format']!r}, not {FORMAT}."
            raise UnreadableManifestError(message)
        return LexicalManifest(int(values["generation"]), int(values["position"]), str(values["analysis"]))
    except (ValueError, TypeError, LookupError) as error:
        raise UnreadableManifestError(str(error)) from error


def write_manifest(directory: Path, manifest: LexicalManifest) -> None:
    """Replace the manifest in one step that survives the loss of power."""
    values = {
        "format": FORMAT,
        "generation": manifest.generation,
        "position": manifest.position,
        "analysis": manifest.analysis,
    }
    draft = directory / _DRAFT
    with draft.open("w", encoding="utf-8") as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / _NAME)
    sync(directory)


def remove_manifest(directory: Path) -> None:
    """Leave the directory without a manifest."""
    (directory / _NAME).unlink(missing_ok=True)
    sync(directory)
