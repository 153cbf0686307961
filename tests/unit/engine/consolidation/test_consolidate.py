"""Merging memories that say the same, and taking them apart again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.consolidation import SOURCE
from memsvc.domain.errors import (
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    MemorySupersededError,
    RequestIdReusedError,
    RevisionConflictError,
)
from memsvc.domain.history import changed_fields
from memsvc.domain.memory import FileRef, Kind, Layer, Memory, Origin, Status, Tier
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Patch, WriteOptions
from memsvc.testing.factories import NOW
from tests.unit.engine.consolidation.conftest import ADA, Desk

ONCE = WriteOptions()
SAME = (
    ("I really like hiking.", "The user loves hiking."),
    ("用户喜欢喝热咖啡。", "我非常喜爱喝热咖啡"),
)


def undo(desk: Desk, memory: Memory, **options: Any) -> tuple[Memory, list[Memory]]:
    """Take a merged memory apart."""
    revision = options.pop("expected_revision", 0)
    scope = options.pop("scope", ADA)
    merged, originals = desk.app.consolidation_undo.undo(
        scope, memory.id, expected_revision=revision, options=WriteOptions(**options)
    )
    desk.app.indexer.when_reached(merged.position).result(timeout=30)
    return merged.memory, [one.memory for one in originals]


@pytest.mark.parametrize(("older", "newer"), SAME)
def test_same_is_said_once(desk: Desk, older: str, newer: str) -> None:
    """In the words of the newest; originals are archived, and each names the other."""
    one, two = desk.write(older), desk.write(newer)
    other = desk.write("The walrus sings.")
    report = desk.consolidate()

    [group] = report.groups
    merged = group.merged
    assert (newer, SOURCE, (two.id, one.id)) == (merged.content, merged.source, merged.derived_from_ids)
    assert [two.id, one.id] == [original.id for original in group.originals]
    for memory in (one, two):
        now = desk.stored(memory)
        assert (Status.ARCHIVED, merged.id, 2) == (now.status, now.superseded_by_id, now.revision)
    assert (merged, Status.ACTIVE) == (desk.stored(merged), desk.stored(other).status)
    assert (3, 0) == (report.examined, len(desk.consolidate().groups))


def test_merged_memory_carries_over_what_its_members_had(desk: Desk) -> None:
    """The key, all labels, the most important, the least trusted, all accesses; the facts of all, in order."""
    fields: dict[str, Any] = {"importance": 5, "tags": ("a", "b"), "origin": Origin.TOOL, "key": "tea", "trust": 0.4}
    one = desk.write("Anna prefers tea. She takes it with milk.", metadata={"n": 1}, title="Anna", **fields)
    two = desk.write("Anna prefers the tea", importance=2, tags=("b", "c"), title="Anna", tier=Tier.ACTIVE)
    for _ in range(2):
        desk.app.memory_reader.get(ADA, one.id)
    [group] = desk.consolidate().groups

    merged = group.merged
    assert "Anna prefers the tea. She takes it with milk." == merged.content
    assert ("tea", "Anna", ("b", "c", "a"), 5) == (merged.key, merged.title, merged.tags, merged.importance)
    assert (Origin.TOOL, 0.4, Tier.ACTIVE) == (merged.origin, merged.trust, merged.tier)
    assert {"n": 1} == dict(merged.metadata)
    assert (two.id, two.id) == (merged.supersedes_id, merged.derived_from_ids[0])
    assert merged.id == desk.app.memory_reader.get_by_key(ADA, "tea").id


def test_undo_gives_back_what_was(desk: Desk) -> None:
    """Field by field, but for the revision and its time; the merged memory is gone, and nothing is merged again."""
    one = desk.write("I like hiking.", key="hobby", tags=("a",), importance=4, metadata={"n": 1}, title="Hobby")
    two = desk.write("The user likes hiking", tags=("b",), title="Hobby")
    [group] = desk.consolidate().groups
    merged, originals = undo(desk, group.merged)

    assert [two.id, one.id] == [original.id for original in originals]
    for before, after in zip((two, one), originals, strict=True):
        assert after == desk.stored(before)
        assert () == changed_fields(before, after)
        assert 3 == after.revision
    assert (Status.DELETED, "") == (merged.status, merged.supersedes_id)
    assert "hobby" == desk.app.memory_reader.get_by_key(ADA, "hobby").key
    assert () == desk.consolidate().groups == desk.preview().groups


def test_undo_is_found_by_an_original_and_done_once(desk: Desk) -> None:
    """The same request is answered again; another one is told that it was done."""
    one, _ = desk.write("I like hiking."), desk.write("The user likes hiking")
    desk.consolidate()
    first = undo(desk, one, request_id="r")

    assert first == undo(desk, one, request_id="r")
    for memory in (one, first[0]):
        with pytest.raises(InvalidRequestError) as refusal:
            undo(desk, memory)
        assert ["id"] == [violation.field for violation in refusal.value.violations]
    with pytest.raises(RequestIdReusedError):
        undo(desk, first[0], request_id="r")


def test_a_changed_merged_memory_is_undone_only_knowingly(desk: Desk) -> None:
    """By its revision; what was changed stays in its revisions."""
    desk.write("I like hiking."), desk.write("The user likes hiking")
    [group] = desk.consolidate().groups
    patch = Patch({"content": "I like hiking in the Alps."})
    desk.app.memory_updater.update(
        ADA, memory_id=group.merged.id, key="", patch=patch, expected_revision=0, options=ONCE
    )
    with pytest.raises(RevisionConflictError) as refusal:
        undo(desk, group.merged)
    assert "2" == refusal.value.metadata["revision"]
    merged, originals = undo(desk, group.merged, expected_revision=2)

    assert ("I like hiking in the Alps.", Status.DELETED, 2) == (merged.content, merged.status, len(originals))


def test_mergers_are_undone_from_the_last_one_on(desk: Desk) -> None:
    """What was merged again is part of something else."""
    desk.write("I like hiking."), desk.write("The user likes hiking")
    [first] = desk.consolidate().groups
    desk.write("I enjoy hiking.")
    [second] = desk.consolidate().groups
    with pytest.raises(MemorySupersededError):
        undo(desk, first.merged)
    undo(desk, second.merged)
    undo(desk, first.merged)

    for original in first.originals:
        assert Status.ACTIVE is desk.stored(original).status


def test_undo_stops_at_a_key_that_was_taken(desk: Desk) -> None:
    """And changes nothing."""
    desk.write("I like hiking.", key="hobby"), desk.write("The user likes hiking")
    [group] = desk.consolidate().groups
    patch = Patch({"key": ""})
    desk.app.memory_updater.update(
        ADA, memory_id=group.merged.id, key="", patch=patch, expected_revision=0, options=ONCE
    )
    desk.write("Chess.", key="hobby")
    with pytest.raises(MemoryExistsError):
        undo(desk, group.merged, expected_revision=2)

    assert Status.ACTIVE is desk.stored(group.merged).status


def test_originals_are_purged_with_the_merged_memory(desk: Desk) -> None:
    """They say the same: nothing is left to restore."""
    one, two = desk.write("I like hiking."), desk.write("The user likes hiking")
    [group] = desk.consolidate().groups
    desk.app.memory_updater.delete(ADA, group.merged.id, hard=True, expected_revision=0, options=ONCE)
    for memory in (one, two):
        with pytest.raises(MemoryNotFoundError):
            desk.app.memory_updater.restore(ADA, memory.id, expected_revision=0, options=ONCE)
    with pytest.raises(MemoryNotFoundError):
        undo(desk, group.merged)


DIFFERENCES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"speaker": "Anna", "kind": Kind.FACT}, {"speaker": "Bob", "kind": Kind.FACT}),
    ({"kind": Kind.FACT}, {"kind": Kind.PREFERENCE}),
    ({"layer": Layer.LONG_TERM}, {"layer": Layer.SHORT_TERM}),
    ({"layer": Layer.CORE}, {"layer": Layer.CORE}),
    ({"tier": Tier.CORE}, {"tier": Tier.CORE}),
    ({"kind": Kind.TASK}, {"kind": Kind.TASK}),
    ({"kind": Kind.SUMMARY}, {"kind": Kind.SUMMARY}),
    ({"metadata": {"order": 1}}, {"metadata": {"order": 2}}),
    ({"key": "a"}, {"key": "b"}),
    ({"category": "work"}, {"category": "home"}),
    ({"title": "Anna"}, {"title": "Bob"}),
    ({"file_refs": (FileRef("image", "1"),)}, {"file_refs": (FileRef("image", "2"),)}),
    ({"valid_from": NOW}, {}),
    ({"status": Status.QUARANTINED}, {}),
    ({"project_id": "other"}, {}),
    ({"project_id": ""}, {}),
    ({"work_in_progress": True}, {}),
)


def test_what_differs_beside_the_words_is_left_apart(desk: Desk) -> None:
    """Who said it, what it is, where it belongs, what it is about, when it is true."""
    for number, (one, other) in enumerate(DIFFERENCES):
        scope = Scope(f"user-{number}", "apollo")
        desk.write("I like hiking.", scope, **one), desk.write("The user likes hiking", scope, **other)

        assert (number, ()) == (number, desk.consolidate(scope, threshold=0.0).groups)


def test_what_happened_twice_is_kept_twice(desk: Desk) -> None:
    """What is told of two days, and what "today" says on two days; a liking is no happening."""
    late = NOW + timedelta(days=1)
    for kind, words, same in (
        (Kind.EXPERIENCE, ("Went hiking with Tom.", "went hiking with Tom"), False),
        (Kind.FACT, ("The deploy failed.", "the deploy failed"), False),
        (Kind.PREFERENCE, ("Likes hiking today.", "likes hiking today"), False),
        (Kind.PREFERENCE, ("Likes hiking.", "likes hiking"), True),
        (Kind.FACT, ("I live in Oslo.", "My home is in Oslo."), True),
    ):
        scope = Scope(words[0])
        for content, when in zip(words, (NOW, late), strict=True):
            desk.write(content, scope, kind=kind, event_time=when)

        assert (words, same) == (words, bool(desk.consolidate(scope, threshold=0.0).groups))


def test_private_memories_and_those_of_others_are_left_alone(desk: Desk) -> None:
    """Memories of a session, and of another user, are in no group with anything."""
    mine = replace(ADA, session_id="s")
    for scope in (ADA, Scope("ada-2", "apollo"), Scope("ada", "apollo", tenant_id="t")):
        desk.write("I like hiking.", scope)
    for content in ("I like chess.", "The user likes chess"):
        desk.write(content, mine, layer=Layer.SESSION)

    assert () == desk.consolidate(mine, threshold=0.0).groups == desk.consolidate(threshold=0.0).groups


def test_a_request_is_answered_again(desk: Desk) -> None:
    """With what was merged then, though more could be merged now; a repetition merges nothing."""
    desk.write("I like hiking."), desk.write("The user likes hiking")
    first = desk.consolidate(request_id="r")
    desk.write("The walrus sings."), desk.write("the walrus sings")

    assert first == desk.consolidate(request_id="r")
    assert 1 == len(desk.consolidate(request_id="other").groups)
    with pytest.raises(RequestIdReusedError):
        desk.consolidate(threshold=0.9, request_id="r")


def test_preview_says_what_would_be_and_changes_nothing(desk: Desk) -> None:
    """Without ids, and again and again."""
    desk.write("I like hiking."), desk.write("The user likes hiking")
    [group] = desk.preview().groups

    assert ("", 0, "The user likes hiking") == (group.merged.id, group.merged.revision, group.merged.content)
    assert [Status.ACTIVE, Status.ACTIVE] == [original.status for original in group.originals]
    [done] = desk.consolidate().groups
    assert group.originals == tuple(replace(desk.app.as_of_reader.revision(ADA, one.id, 1)) for one in done.originals)


def test_contradicting_memories_are_left_to_their_conflict(desk: Desk) -> None:
    """Neither side of an open conflict is merged."""
    desk.write("I live in Paris."), desk.write("My home is in Paris.")
    desk.write("I live in Rome.")

    assert () == desk.consolidate(threshold=0.0).groups
