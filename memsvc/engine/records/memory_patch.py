"""Patches: new values for some fields of a memory, and the revision that results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from typing import Any

from memsvc.domain.capture import CONVERSATION
from memsvc.domain.files import refs_after_change, union
from memsvc.domain.history import changed_fields
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import (
    Json,
    Keyword,
    Kind,
    Layer,
    Memory,
    Origin,
    Status,
    Tier,
    content_hash,
    keep_begun,
    normal_keywords,
)
from memsvc.domain.reminders import short_term_end
from memsvc.domain.write_requests import Draft, Patch
from memsvc.engine.records.memory_builder import STATEMENT_KINDS, ReminderDetector, keywords_from_texts
from memsvc.text.analysis import query_terms, terms
from memsvc.text.capture_rules import title_after
from memsvc.text.file_refs import refs_in, with_image_refs
from memsvc.text.passages import are_extracted

_DRAFT_FIELDS = (
    "content", "layer", "kind", "category", "speaker", "title", "summary", "tags", "keywords", "related_ids",
    "file_refs", "importance", "tier", "confidence", "event_time", "expire_time", "work_in_progress", "source",
    "metadata", "valid_from", "valid_to", "reminder",
)  # fmt: skip
"""Fields that a draft under an existing key writes to the memory there."""

_CLEARED: Mapping[str, Any] = {
    "key": "", "layer": Layer.LONG_TERM, "kind": Kind.FACT, "category": "", "speaker": "", "title": "", "summary": "",
    "tags": (), "related_ids": (), "file_refs": (), "importance": 3, "tier": Tier.CONTEXTUAL, "confidence": 1.0,
    "status": Status.ACTIVE, "work_in_progress": False, "source": "", "metadata": {},
    "origin": Origin.AGENT, "derived_from_ids": (),
}  # fmt: skip
"""Values of None in a patch; keywords and times are derived."""

_SAID_KINDS = (STATEMENT_KINDS | {Kind.TASK}) - {Kind.KNOWLEDGE}
"""Kinds of memories that state what a user said."""

_KEYWORD_TEXTS = ("title", "summary", "content")
"""The texts that keywords are extracted from."""


def values_of_draft(draft: Draft, now: datetime) -> dict[str, Any]:
    """Return the new values that *draft* gives to the memory with its key, which becomes ACTIVE again."""
    values = {name: value for name in _DRAFT_FIELDS if (value := getattr(draft, name)) is not None}
    if draft.ttl is not None:
        values["expire_time"] = now + draft.ttl
    if draft.keywords is not None and not draft.keywords:
        del values["keywords"]
    values["status"] = Status.ACTIVE
    return values


def values_of_patch(before: Memory, patch: Patch) -> dict[str, Any]:
    """Return the new values that *patch* gives to *before*; a field without a value gets its default."""
    values: dict[str, Any] = {
        name: _CLEARED.get(name) if value is None else value for name, value in patch.values.items()
    }
    if "keywords" in values and not values["keywords"]:
        values["keywords"] = _extracted_keywords(before, values)
    return values


def apply_values(
    before: Memory, values: Mapping[str, Any], now: datetime, reminder_detector: ReminderDetector
) -> Memory:
    """Return the next revision of *before* with new *values*, or *before* itself if they change nothing.

    Extracted keywords follow title, summary and content; a detected reminder, file references and a title that was made
    of the content follow the content, and a summary that names what is not there any more goes. What a statement says
    now is said *now*, unless *values* or the caller that created it gave an event_time.
    Given ones stay, and files that the content refers to are always included. A memory that becomes SHORT_TERM, or
    whose expiry is cleared while it is, expires as `short_term_end` says; one that leaves SHORT_TERM no longer expires,
    unless *values* set an expiry. A memory that is made ACTIVE after its expiry gets a new expiry, or none, by the same
    rule: otherwise it would expire again at once. A SHORT_TERM memory with a new reminder or valid_from does not expire
    before that.
    """
    wanted = dict(values)
    if wanted.get("keywords"):
        wanted["keywords"] = normal_keywords(wanted["keywords"])
    if "ttl" in wanted:
        ttl = wanted.pop("ttl")
        wanted["expire_time"] = now + ttl if ttl is not None else wanted.get("expire_time")
    _follow_layer(before, wanted, now)
    _follow_refs(before, wanted)
    differing = {name: value for name, value in wanted.items() if _differs(name, getattr(before, name), value)}
    if not differing:
        return before
    _follow_content(before, differing, now, given=values.keys())
    after = keep_begun(replace(before, **differing, update_time=now, revision=before.revision + 1), before, now)
    if "content" in differing and "reminder" not in values:
        after = replace(after, reminder=reminder_detector.update(before, after, now))
    is_expiry_given = any(values.get(name) is not None for name in ("expire_time", "ttl"))
    is_later = after.valid_from != before.valid_from and after.valid_from is not None and after.valid_from > now
    is_due_later = is_later or after.reminder != before.reminder
    return keep_until_due(after, now) if is_due_later and not is_expiry_given else after


def keep_until_due(memory: Memory, now: datetime) -> Memory:
    """Return *memory* with a later expiry if it is SHORT_TERM and would expire before its reminder or valid_from."""
    awaited = memory.reminder is not None or (memory.valid_from is not None and memory.valid_from > now)
    if memory.layer is not Layer.SHORT_TERM or not awaited or memory.expire_time is None:
        return memory
    end = short_term_end(memory.reminder, memory.valid_from, now)
    return replace(memory, expire_time=end) if end is None or end > memory.expire_time else memory


def _follow_layer(before: Memory, wanted: dict[str, Any], now: datetime) -> None:
    layer = wanted.get("layer", before.layer)
    reminder = wanted.get("reminder", before.reminder)
    valid_from = wanted.get("valid_from", before.valid_from)
    is_over = before.expire_time is not None and before.expire_time <= now and wanted.get("status") is Status.ACTIVE
    if "expire_time" in wanted:
        if wanted["expire_time"] is None and layer is Layer.SHORT_TERM:
            wanted["expire_time"] = short_term_end(reminder, valid_from, now)
    elif layer is Layer.SHORT_TERM and (is_over or before.expire_time is None):
        wanted["expire_time"] = short_term_end(reminder, valid_from, now)
    elif is_over or (before.layer is Layer.SHORT_TERM and layer is not Layer.SHORT_TERM):
        wanted["expire_time"] = None


def _follow_refs(before: Memory, wanted: dict[str, Any]) -> None:
    """Make file references follow the content; newly given references replace the earlier given ones."""
    if "file_refs" not in wanted and "content" not in wanted:
        return
    content = wanted.get("content", before.content)
    found = refs_in(content)
    if "file_refs" in wanted:
        wanted["file_refs"] = with_image_refs(content, union(wanted["file_refs"], found))
    elif found or before.file_refs:
        refs = refs_after_change(before.file_refs, refs_in(before.content), found)
        wanted["file_refs"] = with_image_refs(content, refs)


def _follow_content(before: Memory, differing: dict[str, Any], now: datetime, *, given: AbstractSet[str]) -> None:
    if "content" in differing:
        differing["content_hash"] = content_hash(differing["content"])
        differing |= _headings_of(before, differing["content"], given)
        is_of_before = before.event_time is None or before.source == CONVERSATION
        if "event_time" not in given and is_of_before and before.kind in _SAID_KINDS:
            differing["event_time"] = now
    if "keywords" in given or not differing.keys() & set(_KEYWORD_TEXTS):
        return
    if are_extracted(before.keywords, title=before.title, summary=before.summary, content=before.content):
        differing["keywords"] = _extracted_keywords(before, differing)


def _headings_of(before: Memory, content: str, given: AbstractSet[str]) -> dict[str, str]:
    """Return the title and the summary that follow a new *content*, unless they are *given* with it.

    A title that was made of the content is made of the new one; a summary that names what is not there any more goes.
    """
    found = {}
    if "title" not in given and (title := title_after(before.title, before.content, content)) is not None:
        found["title"] = title
    if "summary" not in given and before.summary:
        removed = set(terms(before.content)).difference(terms(content))
        if not removed.isdisjoint(query_terms(before.summary)):
            found["summary"] = ""
    return found


def _extracted_keywords(before: Memory, values: Mapping[str, Any]) -> tuple[Keyword, ...]:
    return keywords_from_texts(*(values.get(name, getattr(before, name)) for name in _KEYWORD_TEXTS))


def _differs(name: str, old: object, new: object) -> bool:
    if name == "metadata":
        # Compared as JSON, because True == 1 in Python.
        return _canonical(old) != _canonical(new)
    return old != new


def _canonical(metadata: Any) -> str:
    plain: dict[str, Json] = dict(metadata)
    return json.dumps(plain, sort_keys=True)


def revert_to(before: Memory, target: Memory | None, now: datetime) -> Memory | None:
    """Return the next revision of *before* with the state of *target*; None if *before* has that state already.

    Without a target the memory did not exist yet, and becomes DELETED and unlinked from its successor, which did not
    supersede it then.
    """
    restored = replace(before, status=Status.DELETED, superseded_by_id="") if target is None else target
    if not changed_fields(before, restored):
        return None
    return replace(
        restored,
        row=before.row,
        previous_row=before.previous_row,
        access_count=before.access_count,
        access_time=before.access_time,
        revision=before.revision + 1,
        update_time=now,
    )


def change_action(before: Memory, after: Memory) -> ChangeAction:
    """Return the action that watchers see for the change from *before* to *after*."""
    was_deleted, is_deleted = (one.status is Status.DELETED for one in (before, after))
    if was_deleted == is_deleted:
        return ChangeAction.UPDATED
    return ChangeAction.DELETED if is_deleted else ChangeAction.RESTORED
