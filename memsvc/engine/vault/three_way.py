"""Merging what a person wrote into a file with what became of its memory meanwhile (requirement V2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memsvc.domain import limits
from memsvc.domain.memory import Memory
from memsvc.domain.three_way_merge import MergedFields, is_same, merge_fields
from memsvc.domain.vault import Merged, Note
from memsvc.text.front_matter import note_of

_MOST: Mapping[str, int] = {
    "content": limits.CONTENT,
    "summary": limits.SUMMARY,
    "tags": limits.TAGS,
    "related_ids": limits.RELATED_IDS,
    "file_refs": limits.FILE_REFS,
    "keywords": limits.KEYWORDS,
}


class ThreeWay:
    """Merges texts by lines and all else by fields.

    Where both sides changed the same, the file has its way, since the memory's side stays in its history anyway.
    """

    def merge(self, base: Memory | None, note: Note, memory: Memory) -> Merged:
        """Return what the memory says from now on, and its side to be laid beside the file where not all of it fits."""
        stored = note_of(memory).values
        if base is None:
            differs = any(not is_same(value, stored.get(name)) for name, value in note.values.items())
            return Merged(note, memory if differs else None)
        merged = _fitting(merge_fields(note_of(base).values, stored, note.values), note)
        whole = Note(merged.values, note.memory_id, note.agent_id, note.session_id)
        return Merged(whole, memory if merged.conflicts else None)


def _fitting(merged: MergedFields, theirs: Note) -> MergedFields:
    """Take the file's side of fields that together are more than a memory may have."""
    too_large = {name for name, value in merged.values.items() if not _fits(name, value)}
    values = {name: theirs.values[name] if name in too_large else value for name, value in merged.values.items()}
    return MergedFields(values, merged.conflicts | too_large)


def _fits(name: str, value: Any) -> bool:
    if name == "metadata":
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.METADATA_BYTES
    return name not in _MOST or len(value) <= _MOST[name]
