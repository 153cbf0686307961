"""Chunks to rows and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsvc.domain.index_entries import Chunk, View, entry_id, ordinal_of
from memsvc.domain.memory import Memory
from memsvc_backends.sql.jsontext import json_text, json_value


def chunk_values(row: int, chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    """Return a row of `memory_chunks` for each chunk, none when there is only one: that is the content itself."""
    if len(chunks) <= 1:
        return []
    return [
        {
            "entry": entry_id(row, View.CHUNK, chunk.ordinal),
            "start_line": chunk.start_line,
            "end_line": chunk.end_line,
            "heading_path": json_text(chunk.heading_path),
            "text": chunk.text,
        }
        for chunk in chunks
    ]


def chunk_from_row(row: Sequence[Any]) -> Chunk:
    """Return the chunk in a row of `memory_chunks`."""
    entry, start_line, end_line, heading_path, text = row
    return Chunk(ordinal_of(entry), text, tuple(json_value(heading_path)), start_line, end_line)


def sole_chunk(memory: Memory) -> Chunk:
    """Return the one chunk of a memory that has no more than one."""
    lines = memory.content.count("\n") + 1
    return Chunk(ordinal=0, text=memory.content, heading_path=(), start_line=1, end_line=lines)
