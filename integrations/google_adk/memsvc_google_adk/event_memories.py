"""Events and entries as memories, and memories as entries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from memsvc.client import Draft
from memsvc.v1 import types_pb2 as types_pb

FIELD = "google_adk"
"""The member of the metadata that holds the content of an event or entry, and what it came with."""
_SOURCE = "google-adk"
_USER = "user"
"""The author of events of the user; other authors are agents. It is also the category of what a user says."""
_MOST_BYTES = 12_000
"""The largest content in the metadata, which have at most 16 KiB; of a larger one the text is kept."""
_MOST_ID_CHARS = 96
_MOST_SPEAKER_CHARS = 128


def session_prefix(session_id: str) -> str:
    """Return the beginning of the keys of a session's events."""
    return f"adk/{_segment(session_id)}/"


def draft_of_event(event: Event, session_id: str, custom: Mapping[str, object]) -> Draft | None:
    """Return the memory of an event, or None if nothing is said in it.

    Its category is that of a message of a session: "user" or "assistant".
    """
    text = _text_of(event.content)
    if event.partial or event.content is None or not text:
        return None
    return Draft(
        content=text,
        key=session_prefix(session_id) + _segment(event.id),
        kind="MESSAGE",
        category=_USER if event.author == _USER else "assistant",
        speaker=event.author[:_MOST_SPEAKER_CHARS],
        event_time=datetime.fromtimestamp(event.timestamp, UTC),
        source=_SOURCE,
        metadata=_metadata(event.content, custom),
    )


def draft_of_entry(entry: MemoryEntry, custom: Mapping[str, object]) -> Draft:
    """Return the memory of an entry; its id is the key.

    Raises:
        ValueError: The entry has no text.
    """
    text = _text_of(entry.content)
    if not text:
        raise ValueError(f"The entry {entry.id or ''!r} has no text.")
    draft = Draft(
        content=text,
        speaker=(entry.author or "")[:_MOST_SPEAKER_CHARS],
        source=_SOURCE,
        metadata=_metadata(entry.content, {**custom, **entry.custom_metadata}),
    )
    if entry.author == _USER:
        draft["category"] = _USER
    if entry.id:
        draft["key"] = f"adk-entries/{_segment(entry.id)}"
    moment = _moment(entry.timestamp)
    if moment is not None:
        draft["event_time"] = moment
    return draft


def entry_of(memory: types_pb.Memory, mark: str = "") -> MemoryEntry:
    """Return the entry of any memory; its id is that of the memory, and its content begins with *mark* in brackets."""
    fields: Any = memory.metadata[FIELD] if FIELD in memory.metadata else {}  # noqa: SIM401 - a Struct has no get
    moment = memory.event_time if memory.HasField("event_time") else memory.create_time
    content = (
        types.Content.model_validate_json(fields["content"])
        if "content" in fields
        else types.Content(role="user", parts=[types.Part(text=memory.content)])
    )
    if mark:
        content.parts = [types.Part(text=f"[{mark}]"), *(content.parts or ())]
    return MemoryEntry(
        id=memory.id,
        content=content,
        author=memory.speaker or None,
        timestamp=moment.ToDatetime(UTC).isoformat(),
        custom_metadata=json.loads(fields["custom"]) if "custom" in fields else {},
    )


def _metadata(content: types.Content, custom: Mapping[str, object]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if custom:
        fields["custom"] = json.dumps(dict(custom))
    exact = content.model_dump_json(exclude_none=True)
    if len(json.dumps(exact)) + len(json.dumps(fields)) <= _MOST_BYTES:
        fields["content"] = exact
    return {FIELD: fields}


def _text_of(content: types.Content | None) -> str:
    parts = content.parts if content is not None and content.parts else []
    text = "\n".join(part.text for part in parts if part.text and not part.thought)
    # An image in Markdown would become a file: the space breaks the mark.
    return text.replace("](data:", "] (data:").replace("\0", " ").strip()


def _moment(timestamp: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.astimezone()


def _segment(name: str) -> str:
    """Return a part of a key that is different for each name."""
    escaped = quote(name, safe=" ")
    if len(escaped) <= _MOST_ID_CHARS:
        return escaped
    return f"%h{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"
