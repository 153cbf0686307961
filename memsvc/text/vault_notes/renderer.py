"""From a memory to its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from memsvc.domain.files import union, without_block
from memsvc.domain.memory import FileRef, Memory, Recurrence, Reminder, Status, Tier
from memsvc.domain.vault import Note, NoteFormat
from memsvc.domain.write_requests import PatchValue
from memsvc.text.file_refs import content_with_block, refs_in
from memsvc.text.passages import are_extracted
from memsvc.text.vault_notes.okf import okf_front

FENCE = "---"
_WIDTH = 1 << 20

DEFAULTS: Mapping[str, PatchValue] = {
    "key": "", "category": "", "title": "", "tags": (), "importance": 3, "tier": Tier.CONTEXTUAL,
    "status": Status.ACTIVE, "confidence": 1.0, "speaker": "", "source": "", "event_time": None, "expire_time": None,
    "valid_from": None, "valid_to": None, "work_in_progress": False, "summary": "", "related_ids": (),
    "file_refs": (), "metadata": {},
}  # fmt: skip
"""The fields that a file leaves out where they have these values."""


class _Dumper(yaml.CSafeDumper):
    """Repeats a value wherever it occurs: an anchor would depend on which values are one object."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def note_of(memory: Memory) -> Note:
    """Return the note that the file of *memory* is read as."""
    values: dict[str, PatchValue] = {name: getattr(memory, name) for name in DEFAULTS}
    values |= {"layer": memory.layer, "kind": memory.kind, "content": memory.content}
    if has_given_keywords(memory):
        values["keywords"] = memory.keywords
    if memory.reminder is not None and not memory.reminder.phrase:
        values["reminder"] = memory.reminder
    return Note(values, memory.id, memory.scope.agent_id, memory.scope.session_id)


def render_note(memory: Memory, form: NoteFormat = NoteFormat.MEMSVC) -> bytes:
    """Return the file of *memory* in a format: the same bytes whatever became of its access counts."""
    body = content_with_block(memory.content, memory.file_refs)
    if body != memory.content and body.endswith("`\n"):
        body = body[:-1]
    front = _front(memory)
    if refs_to_list(body) != (memory.content, memory.file_refs):
        # Fields that the content and the block do not show are in the front matter; there is no block then.
        front["file_refs"] = [f"{ref.category}:{ref.id}" for ref in memory.file_refs]
        body = memory.content
    return file_bytes(okf_front(front, memory) if form is NoteFormat.OKF else front, body)


def refs_to_list(body: str) -> tuple[str, tuple[FileRef, ...]]:
    """Return what the body of a file is without the block of references, and all that it refers to."""
    content, listed = without_block(body)
    return content, union(listed, refs_in(content))


def file_bytes(front: Mapping[str, Any], content: str) -> bytes:
    """Return a file of this front matter, its keys in the order given, and this content."""
    text = yaml.dump(dict(front), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return f"{FENCE}\n{text}{FENCE}\n\n{content}\n".encode()


def has_given_keywords(memory: Memory) -> bool:
    """Return whether the keywords were given: extracted ones follow from the text and need no line."""
    return bool(memory.keywords) and not are_extracted(
        memory.keywords, title=memory.title, summary=memory.summary, content=memory.content
    )


def _front(memory: Memory) -> dict[str, Any]:
    front: dict[str, Any] = {
        "id": memory.id,
        "key": memory.key,
        "layer": memory.layer.value.lower(),
        "kind": memory.kind.value.lower(),
        "category": memory.category,
        "title": memory.title,
        "tags": list(memory.tags),
        "importance": memory.importance,
        "tier": memory.tier.value.lower(),
        "status": memory.status.value.lower(),
        "confidence": memory.confidence,
        "speaker": memory.speaker,
        "source": memory.source,
        "agent": memory.scope.agent_id,
        "session": memory.scope.session_id,
        "create_time": memory.create_time,
        "event_time": memory.event_time,
        "expire_time": memory.expire_time,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "work_in_progress": memory.work_in_progress,
        "summary": memory.summary,
        "keywords": {one.term: one.weight for one in memory.keywords} if has_given_keywords(memory) else {},
        "related_ids": list(memory.related_ids),
        "supersedes": memory.supersedes_id,
        "superseded_by": memory.superseded_by_id,
        "reminder": _reminder(memory.reminder),
        "metadata": _plain(memory.metadata),
    }
    return {name: value for name, value in front.items() if not _is_default(name, value)}


_PLAIN_DEFAULTS: Mapping[str, Any] = {
    "importance": 3, "tier": "contextual", "status": "active", "confidence": 1.0, "work_in_progress": False,
}  # fmt: skip


def _is_default(name: str, value: Any) -> bool:
    if name in _PLAIN_DEFAULTS:
        return bool(value == _PLAIN_DEFAULTS[name])
    return value is None or value in ("", [], {})


def _reminder(reminder: Reminder | None) -> dict[str, Any]:
    """Return a reminder that was given. One that was found in the content follows it, and is not shown."""
    if reminder is None or reminder.phrase:
        return {}
    shown: dict[str, Any] = {"month": reminder.month, "day": reminder.day}
    if reminder.year:
        shown["year"] = reminder.year
    if reminder.recurrence is not Recurrence.YEARLY:
        shown["recurrence"] = reminder.recurrence.value.lower()
    if reminder.minute is not None:
        shown["minute"] = reminder.minute
    if reminder.time_zone:
        shown["time_zone"] = reminder.time_zone
    if reminder.slot is not None:
        shown["slot"] = reminder.slot.value.lower()
    if reminder.is_lunar:
        shown["lunar"] = True
    return shown


def _plain(value: Any) -> Any:
    """Return JSON as PyYAML writes it: of lists and dictionaries."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value
