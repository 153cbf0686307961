"""Changing memories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.errors import (
    InvalidRequestError,
    MemoryExistsError,
    MemoryNotFoundError,
    RequestIdReusedError,
)
from memsvc.domain.memory import Keyword, Kind, Layer, Status, content_hash
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import OnDuplicate, Outcome, Patch, WriteOptions
from memsvc.engine.records.memory_builder import keywords_from_texts
from tests.unit.engine.memories.support import update
from tests.unit.engine.memories.write_path import ADA, DIMENSION, Desk

LONG = "\n\n".join(f"Paragraph {number} tells about the harbour of Lisbon." for number in range(200))


def test_an_update_changes_what_it_names(desk: Desk) -> None:
    """New content brings its hash and extracted keywords with it; all else stays; the old revision is kept."""
    before = desk.create("Anna lives in Lisbon.", title="Home", tags=("a",)).memory
    later = desk.clock.advance(minutes=1)

    written = update(desk, before.id, content="小王搬到杭州了。")

    after = written.memory
    assert (Outcome.UPDATED, 2, later, 2) == (written.outcome, after.revision, after.update_time, written.position)
    assert (content_hash("小王搬到杭州了。"), "Home", ("a",)) == (after.content_hash, after.title, after.tags)
    assert {"home", "杭州"} <= {keyword.term for keyword in after.keywords}
    assert "lisbon" not in {keyword.term for keyword in after.keywords}
    assert desk.stored(before.id) == after
    assert desk.store.memories.revision(before.id, 1, reach=Reach.from_scope(ADA)) == before


def test_extracted_keywords_follow_the_summary(desk: Desk) -> None:
    """Also those of a memory of an earlier version, which extracted none from the summary."""
    memory = desk.create("Anna lives in Lisbon.", summary="Her residence").memory
    assert {"anna", "lives", "lisbon", "residence"} == {keyword.term for keyword in memory.keywords}

    earlier = keywords_from_texts("", "", memory.content)
    update(desk, memory.id, keywords=earlier)
    for summary, word in (("The domicile", "domicile"), ("The household", "household")):
        changed = update(desk, memory.id, summary=summary).memory
        assert {"anna", "lives", "lisbon", word} == {keyword.term for keyword in changed.keywords}


def test_given_keywords_outlive_new_content(desk: Desk) -> None:
    """Keywords that a caller gave are not replaced by extracted ones, unless cleared."""
    given = (Keyword("home", 1.0),)
    memory = desk.create("Anna lives in Lisbon.", keywords=given).memory

    kept = update(desk, memory.id, content="Anna lives in Porto.").memory.keywords
    cleared = update(desk, memory.id, keywords=()).memory.keywords

    assert given == kept
    assert "porto" in {keyword.term for keyword in cleared}


def test_an_update_may_name_its_memory_by_key(desk: Desk) -> None:
    """Without an id the key is looked up in exactly the scope's project."""
    desk.create("one", Scope("ada"), key="plan")
    mine = desk.create("two", key="plan").memory
    patch, options = Patch({"title": "Plan"}), WriteOptions()

    written = desk.writing.revise.update(
        ADA, memory_id="", key="plan", patch=patch, expected_revision=0, options=options
    )
    with pytest.raises(MemoryNotFoundError):
        desk.writing.revise.update(
            Scope("ada", project_id="zeus"), memory_id="", key="plan", patch=patch, expected_revision=0, options=options
        )

    assert (mine.id, "Plan") == (written.memory.id, written.memory.title)


def test_a_change_that_changes_nothing_makes_no_revision(desk: Desk) -> None:
    """Equal values, in whatever order of names, are no change."""
    memory = desk.create("one", title="Plan", metadata={"a": 1, "b": {"c": 2}}).memory

    written = update(desk, memory.id, title="Plan", metadata={"b": {"c": 2}, "a": 1})

    assert (memory, Outcome.DUPLICATE) == (written.memory, written.outcome)
    assert desk.store.feed.head_position() == 1


def test_true_is_not_one(desk: Desk) -> None:
    """Metadata are compared as JSON."""
    memory = desk.create("one", metadata={"a": 1}).memory

    assert update(desk, memory.id, metadata={"a": True}).memory.metadata == {"a": True}


def test_cleared_fields_get_their_defaults(desk: Desk) -> None:
    """A field without a value is cleared or gets its default."""
    memory = desk.create("one", speaker="Anna", kind=Kind.NOTE, importance=5, tags=("a",), confidence=0.1).memory

    after = update(desk, memory.id, kind=None, importance=None, tags=None, confidence=None).memory

    assert (after.kind, after.importance, after.tags, after.confidence) == (Kind.FACT, 3, (), 1.0)


def test_global_memories_are_within_reach_of_a_project(desk: Desk) -> None:
    """A caller in a project may change global memories."""
    memory = desk.create("one", Scope("ada")).memory

    assert update(desk, memory.id, title="x").memory.title == "x"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"status": Status.DELETED}, "memory.status"),
        ({"content": ""}, "memory.content"),
        ({"revision": 7}, "update_mask"),
        ({"layer": Layer.SESSION}, "memory.layer"),
    ],
)
def test_what_cannot_be_set(desk: Desk, values: dict[str, Any], field: str) -> None:
    """Output-only fields, statuses of the service and empty content are refused."""
    memory = desk.create("one").memory

    with pytest.raises(InvalidRequestError) as refused:
        update(desk, memory.id, **values)

    assert [field] == [violation.field for violation in refused.value.violations]


def test_a_vector_must_fit_the_new_content(desk: Desk) -> None:
    """A given vector is refused for long content and replaced with short content."""
    memory = desk.create("one").memory

    with pytest.raises(InvalidRequestError):
        update(desk, memory.id, content=LONG, vector=[1.0] * DIMENSION)
    written = update(desk, memory.id, vector=[1.0] * DIMENSION)

    assert (written.outcome, written.memory.revision) == (Outcome.UPDATED, 2)
    assert len(desk.store.feed.documents([memory.row])[0].given_vector) == 4 * DIMENSION


def test_long_content_is_chunked_anew(desk: Desk) -> None:
    """An update brings the chunks of its content."""
    memory = desk.create("one").memory

    update(desk, memory.id, content=LONG)
    many = desk.store.feed.documents([memory.row])[0].chunks
    update(desk, memory.id, content="two")

    assert len(many) > 1
    assert [piece.text for piece in desk.store.feed.documents([memory.row])[0].chunks] == ["two"]


def test_content_of_another_memory_is_refused(desk: Desk) -> None:
    """An update must not make a duplicate; the error names the memory in the way."""
    other = desk.create("Anna lives in Lisbon.").memory
    memory = desk.create("one").memory

    with pytest.raises(MemoryExistsError) as refused:
        update(desk, memory.id, content="Anna lives in Lisbon.")

    assert other.id == refused.value.memory_id
    assert memory == desk.stored(memory.id)


def test_a_key_can_be_given_and_freed_but_not_taken(desk: Desk) -> None:
    """A key that another memory bears is refused; a freed one can be had."""
    bearer = desk.create("one", key="plan").memory
    memory = desk.create("two").memory

    with pytest.raises(MemoryExistsError) as refused:
        update(desk, memory.id, key="plan")
    update(desk, bearer.id, key=None)

    assert bearer.id == refused.value.memory_id
    assert update(desk, memory.id, key="plan").memory.key == "plan"


def test_a_memory_kept_beside_its_duplicate_can_be_changed(desk: Desk) -> None:
    """Changing something else of a kept duplicate is no new duplicate."""
    desk.create("same")
    twin = desk.create("same", on_duplicate=OnDuplicate.KEEP_BOTH).memory

    assert update(desk, twin.id, title="x").memory.title == "x"


def test_archived_content_is_free(desk: Desk) -> None:
    """An archived memory does not claim its content, and can be ACTIVE again beside a newer one."""
    memory = desk.create("same").memory
    update(desk, memory.id, status=Status.ARCHIVED)

    assert Outcome.CREATED is desk.create("same").outcome
    assert Status.ACTIVE is update(desk, memory.id, status=Status.ACTIVE).memory.status


def test_the_layer_decides_the_expiry(desk: Desk) -> None:
    """Becoming SHORT_TERM gives 14 days, ceasing to be takes them away."""
    memory = desk.create("one").memory

    short = update(desk, memory.id, layer=Layer.SHORT_TERM).memory
    given = update(desk, memory.id, expire_time=desk.clock() + timedelta(days=1)).memory
    cleared = update(desk, memory.id, expire_time=None).memory
    long = update(desk, memory.id, layer=Layer.LONG_TERM).memory

    expected = [timedelta(days=14), timedelta(days=1), timedelta(days=14)]
    assert expected == [m.expire_time - desk.clock() for m in (short, given, cleared) if m.expire_time]
    assert long.expire_time is None


def test_a_repeated_update_is_answered_as_before(desk: Desk) -> None:
    """The same request_id changes once, whatever happened since; another patch is refused."""
    memory = desk.create("one").memory
    first = update(desk, memory.id, title="a", expected=1, request_id="r1")
    update(desk, memory.id, title="b")

    assert first == update(desk, memory.id, title="a", expected=1, request_id="r1")
    with pytest.raises(RequestIdReusedError):
        update(desk, memory.id, title="c", expected=1, request_id="r1")


def test_a_time_to_live_counts_from_the_change_and_its_repetition_is_the_same_request(desk: Desk) -> None:
    """ttl sets the expiry once; sent again a minute later with the same request_id it changes nothing."""
    before = desk.create("Anna lives in Lisbon.").memory

    first = update(desk, before.id, request_id="r", ttl=timedelta(hours=1))
    desk.clock.advance(minutes=1)
    again = update(desk, before.id, request_id="r", ttl=timedelta(hours=1))

    assert before.create_time + timedelta(hours=1) == first.memory.expire_time
    assert first.memory == again.memory
