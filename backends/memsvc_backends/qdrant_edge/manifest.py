"""Manifest of a directory of generations: the live one and its contents."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from memsvc.data_directory import sync
from memsvc.domain.index_entries import VectorManifest, content_of, manifest_of

_FILE = "manifest.json"
_FORMAT = 3
"""2: points say whether their memory is plain. 3: a graph is of one owner."""
_SCANNED_FORMAT = 2
"""The points are those of today, and are scanned until new graphs are built."""


class ManifestError(Exception):
    """The manifest cannot be read."""


def generation_name(number: int) -> str:
    """Return the name of a generation, and of its folder."""
    return f"gen-{number:06d}"


def write_manifest(directory: Path, manifest: VectorManifest) -> None:
    """Make *manifest* the live one in one step that survives a power cut."""
    content = {"format": _FORMAT, **content_of(manifest)}
    partial = directory / f"{_FILE}.new"
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(directory / _FILE)
    sync(directory)


def read_manifest(directory: Path) -> VectorManifest | None:
    """Return the manifest of the live generation, or None when there is none.

    Raises:
        ManifestError: The file is not what `write_manifest` writes.
    """
    path = directory / _FILE
    if not path.exists():
        return None
    try:
        return _manifest_from(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"The manifest {path.name!r} cannot be read."
        raise ManifestError(message) from error


def remove_manifest(directory: Path) -> None:
    """Leave no live generation."""
    (directory / _FILE).unlink(missing_ok=True)
    sync(directory)


def remove_leftovers(directory: Path, live: VectorManifest | None) -> None:
    """Remove every generation but the live one."""
    kept = None if live is None else generation_name(live.generation)
    for path in directory.glob("gen-*"):
        if path.name != kept:
            shutil.rmtree(path, ignore_errors=True)


def disk_bytes(directory: Path) -> int:
    """Return the bytes that the folder's files take up; the log's files are set aside and mostly empty."""
    blocks = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                blocks += Path(folder, name).stat().st_blocks
            except FileNotFoundError:
                continue
    return blocks * 512


def _manifest_from(content: dict[str, Any]) -> VectorManifest:
    if content["format"] == _SCANNED_FORMAT:
        return replace(manifest_of(content), hnsw=False)
    if content["format"] != _FORMAT:
        raise ValueError(content["format"])
    return manifest_of(content)
