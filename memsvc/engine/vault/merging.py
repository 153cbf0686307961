"""Merging what a person wrote into a file with what became of its memory meanwhile (requirement V2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memsvc.domain import limits
from memsvc.domain.field_merge import MergedFields, is_same, merge_fields
from memsvc.domain.memory import Memory
from memsvc.domain.vault import Merged, Note
from memsvc.text.notes.writing import note_of

_MOST: Mapping[str, int] = {
    "content": limits.CONTENT,
    "summary": limits.SUMMARY,
    "tags": limits.TAGS,
    "related_ids": limits.RELATED_IDS,
    "file_refs": limits.FILE_REFS,
    "keywords": limits.KEYWORDS,
}


def merge(base: Memory | None, ours: Memory, theirs: Note) -> Merged:
    """Return what the memory says from now on, and its side to be laid beside the file where not all of it fits.

    Texts are merged by lines and all else by fields. Where both sides changed the same, the file has its way, since
    the memory's side stays in its history anyway.

    Args:
        base: What the file said before it was edited; None: nobody knows any more.
        ours: The memory as it is.
        theirs: The file as it is.
    """
    stored = note_of(ours).values
    if base is None:
        differs = any(not is_same(value, stored.get(name)) for name, value in theirs.values.items())
        return Merged(theirs, ours if differs else None)
    merged = merge_fields(note_of(base).values, stored, theirs.values)
    fitting = _fitting(merged, theirs)
    note = Note(fitting.values, theirs.memory_id, theirs.agent_id, theirs.session_id)
    return Merged(note, ours if fitting.conflicts else None)


def _fitting(merged: MergedFields, theirs: Note) -> MergedFields:
    """Take the file's side of fields that together are more than a memory may have."""
    too_large = {name for name, value in merged.values.items() if not _fits(name, value)}
    values = {name: theirs.values[name] if name in too_large else value for name, value in merged.values.items()}
    return MergedFields(values, merged.conflicts | too_large)


def _fits(name: str, value: Any) -> bool:
    if name == "metadata":
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.METADATA_BYTES
    return name not in _MOST or len(value) <= _MOST[name]
