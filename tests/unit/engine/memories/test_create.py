"""Creating memories, one or many."""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.errors import MemoryExistsError, MemoryNotFoundError, RequestIdReusedError
from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.write_requests import (
    BatchWriteResult,
    Draft,
    OnDuplicate,
    Outcome,
    RejectedItem,
    WriteOptions,
    WriteResult,
)
from memsvc.engine.commit.idempotency import forget_old_requests
from tests.unit.engine.memories.write_path import ADA, DIMENSION, Desk

S1 = Scope("ada", project_id="apollo", session_id="s1")
S2 = Scope("ada", project_id="apollo", session_id="s2")


def batch(desk: Desk, *drafts: Draft | RejectedItem, scope: Scope = ADA, **options: Any) -> BatchWriteResult:
    return desk.writing.remember.create_batch(scope, drafts, WriteOptions(**options))


def outcomes(written: BatchWriteResult) -> list[str]:
    return [result.outcome.value if isinstance(result, WriteResult) else result.reason for result in written.results]


def memories(written: BatchWriteResult) -> list[Memory]:
    return [result.memory for result in written.results if isinstance(result, WriteResult)]


def test_a_created_memory_is_there(desk: Desk) -> None:
    """What create returns is what the store holds."""
    written = desk.create("小王喜欢喝龙井茶。", title="口味", tags=("tea",), metadata={"a": [1, {"b": None}]})

    assert Outcome.CREATED is written.outcome
    assert written.position == 1
    assert desk.stored(written.memory.id) == written.memory


def test_equal_content_is_returned_and_counted(desk: Desk) -> None:
    """Equal content is not stored twice; meeting it again is an access, once an hour."""
    first = desk.create("Anna lives in Lisbon.")

    second = desk.create("Anna lives in Lisbon.")
    desk.create("Anna lives in Lisbon.")
    desk.writing.accesses.flush()

    assert (first.memory.id, Outcome.DUPLICATE) == (second.memory.id, second.outcome)
    assert second.position >= first.position
    stored = desk.stored(first.memory.id)
    assert stored is not None
    assert (1, 1, desk.clock()) == (stored.access_count, stored.revision, stored.access_time)


@pytest.mark.parametrize(
    ("scope", "fields"),
    [
        (Scope("ada", project_id="zeus"), {}),
        (Scope("bob", project_id="apollo"), {}),
        (ADA, {"kind": Kind.NOTE}),
        (ADA, {"content": "Anna lives in Lisbon. "}),
    ],
)
def test_equal_content_elsewhere_is_no_duplicate(desk: Desk, scope: Scope, fields: dict[str, Any]) -> None:
    """User, project, kind and every character of the content make a duplicate."""
    desk.create("Anna lives in Lisbon.")

    draft: dict[str, Any] = {"content": "Anna lives in Lisbon."} | fields

    assert desk.create(scope=scope, **draft).outcome is Outcome.CREATED


def test_messages_repeat_themselves(desk: Desk) -> None:
    """Equal messages are all stored."""
    assert [desk.create("ok", kind=Kind.MESSAGE, speaker="Anna").outcome for _ in range(2)] == [Outcome.CREATED] * 2


def test_duplicates_can_be_rejected(desk: Desk) -> None:
    """With REJECT equal content is an error that names the memory in the way."""
    first = desk.create("Anna lives in Lisbon.")

    with pytest.raises(MemoryExistsError) as refused:
        desk.create("Anna lives in Lisbon.", on_duplicate=OnDuplicate.REJECT)

    assert first.memory.id == refused.value.memory_id


def test_duplicates_can_be_kept(desk: Desk) -> None:
    """With KEEP_BOTH equal content is stored again, and the first one stays the one that duplicates meet."""
    first = desk.create("Anna lives in Lisbon.")
    second = desk.create("Anna lives in Lisbon.", on_duplicate=OnDuplicate.KEEP_BOTH)

    assert Outcome.CREATED is second.outcome
    assert first.memory.id == desk.create("Anna lives in Lisbon.").memory.id


def test_an_expired_memory_is_no_duplicate(desk: Desk) -> None:
    """Content that only an expired memory holds is stored anew, and the expired one is put away."""
    old = desk.create("Buy milk.", layer=Layer.SHORT_TERM, ttl=timedelta(hours=1)).memory
    desk.clock.advance(hours=1)

    new = desk.create("Buy milk.", layer=Layer.SHORT_TERM)

    assert Outcome.CREATED is new.outcome
    stored = desk.stored(old.id)
    assert stored is not None
    assert Status.EXPIRED is stored.status
    assert new.memory.id == desk.create("Buy milk.").memory.id


def test_work_in_progress_is_a_duplicate_after_its_time(desk: Desk) -> None:
    """It does not expire, so its content is not stored a second time."""
    old = desk.create("Buy milk.", layer=Layer.SHORT_TERM, ttl=timedelta(hours=1), work_in_progress=True).memory
    desk.clock.advance(hours=1)

    again = desk.create("Buy milk.", layer=Layer.SHORT_TERM)

    assert (old.id, Outcome.DUPLICATE) == (again.memory.id, again.outcome)
    with pytest.raises(MemoryExistsError):
        desk.create("Buy milk.", on_duplicate=OnDuplicate.REJECT)


def test_a_private_memory_is_no_duplicate_for_other_sessions(desk: Desk) -> None:
    """Equal content of another session's private memory is stored anew; its existence does not show."""
    desk.create("The password is 42.", S1, layer=Layer.SESSION)

    assert Outcome.CREATED is desk.create("The password is 42.", S2, layer=Layer.SESSION).outcome
    assert Outcome.DUPLICATE is desk.create("The password is 42.", S1, layer=Layer.SESSION).outcome


def test_an_existing_key_is_updated(desk: Desk) -> None:
    """Given fields replace, the others stay, and the memory keeps its id."""
    first = desk.create("Draft one.", key="plan", title="Plan", tags=("a",), importance=5).memory
    desk.clock.advance(minutes=1)

    second = desk.create("Draft two.", key="plan", tags=("b",))

    assert Outcome.UPDATED is second.outcome
    memory = second.memory
    assert (first.id, 2, first.create_time, desk.clock()) == (
        memory.id, memory.revision, memory.create_time, memory.update_time,
    )  # fmt: skip
    assert (memory.content, memory.title, memory.tags, memory.importance) == ("Draft two.", "Plan", ("b",), 5)
    assert desk.stored(memory.id) == memory
    assert desk.store.memories.revision(first.id, 1, reach=Reach.from_scope(ADA)) == first


def test_an_existing_key_with_nothing_new_is_a_duplicate(desk: Desk) -> None:
    """Writing the same under the same key makes no revision."""
    first = desk.create("Draft one.", key="plan", metadata={"a": 1, "b": 2})

    second = desk.create("Draft one.", key="plan", metadata={"b": 2, "a": 1})

    assert (Outcome.DUPLICATE, 1, first.memory.id) == (second.outcome, second.memory.revision, second.memory.id)


def test_a_key_of_another_project_is_another_key(desk: Desk) -> None:
    """Keys are unique within user and project."""
    desk.create("one", key="plan")

    assert Outcome.CREATED is desk.create("two", Scope("ada"), key="plan").outcome


@pytest.mark.parametrize("on_duplicate", list(OnDuplicate))
def test_a_key_update_takes_content_that_another_memory_holds(desk: Desk, on_duplicate: OnDuplicate) -> None:
    """What is written under a key is there under the key, whatever is chosen for duplicates."""
    other = desk.create("Anna lives in Lisbon.").memory
    plan = desk.create("Draft one.", key="plan").memory

    written = desk.create("Anna lives in Lisbon.", key="plan", on_duplicate=on_duplicate)

    assert (Outcome.UPDATED, plan.id, "Anna lives in Lisbon.") == (
        written.outcome,
        written.memory.id,
        written.memory.content,
    )
    assert other.id != written.memory.id


def test_a_given_vector_stays_while_the_content_does(desk: Desk) -> None:
    """A new title keeps a given vector, new content drops it, a new vector replaces it."""

    def vector() -> bytes:
        return desk.store.feed.documents([row])[0].given_vector

    row = desk.create("one", key="plan", vector=[1.0] * DIMENSION).memory.row
    given = vector()
    desk.create("one", key="plan", title="Plan")
    with_title = vector()
    desk.create("two", key="plan")
    without = vector()
    renewed = desk.create("two", key="plan", vector=[2.0] * DIMENSION)

    assert given == with_title
    assert without == b""
    assert (renewed.outcome, renewed.memory.revision) == (Outcome.UPDATED, 4)
    assert Outcome.DUPLICATE is desk.create("two", key="plan", vector=[2.0] * DIMENSION).outcome


def test_lines_of_a_session_know_the_line_before(desk: Desk) -> None:
    """Each memory of a session points to the one written before it there, within a batch as across writes."""
    first = desk.create("one", S1, speaker="Anna").memory
    desk.create("aside", S2, speaker="Bert")

    lines = memories(
        batch(
            desk, Draft("two", speaker="Bert"), Draft("note", session_id=""), Draft("three", speaker="Anna"), scope=S1
        )
    )

    assert first.previous_row is None
    assert [first.row, None, lines[0].row] == [line.previous_row for line in lines]
    assert [desk.stored(line.id) for line in lines] == lines


def test_a_batch_with_good_and_bad_items(desk: Desk) -> None:
    """Results stand in the order given; bad items and rejected duplicates fail alone."""
    desk.create("Anna lives in Lisbon.")
    edge = RejectedItem("INVALID_REQUEST", "memory.content: is required.")

    written = batch(
        desk,
        Draft("小王下周去杭州出差。"),
        edge,
        Draft("Anna lives in Lisbon."),
        Draft("bad", vector=[1.0]),
        Draft("小王下周去杭州出差。"),
        Draft("good"),
        on_duplicate=OnDuplicate.REJECT,
    )

    expected = ["CREATED", "INVALID_REQUEST", "MEMORY_EXISTS", "INVALID_REQUEST", "MEMORY_EXISTS", "CREATED"]
    assert expected == outcomes(written)
    assert edge is written.results[1]
    assert 3 == written.position == desk.store.feed.head_position()


def test_a_batch_meets_itself(desk: Desk) -> None:
    """Later items of a batch see the earlier ones: by content and by key."""
    written = batch(
        desk,
        Draft("same"),
        Draft("same"),
        Draft("v1", key="plan"),
        Draft("v2", key="plan"),
        Draft("v2"),
        Draft("v1"),
    )

    stored = memories(written)
    assert outcomes(written) == ["CREATED", "DUPLICATE", "CREATED", "UPDATED", "DUPLICATE", "CREATED"]
    assert stored[0] == stored[1]
    assert [stored[2].revision, stored[3].revision] == [1, 2]
    assert stored[3] == stored[4] == desk.stored(stored[2].id)
    assert all(memory.row for memory in stored)


def test_an_empty_batch_of_rejections_stores_nothing(desk: Desk) -> None:
    """A batch without any good item is answered all the same."""
    written = batch(desk, RejectedItem("INVALID_REQUEST", "x"))

    assert outcomes(written) == ["INVALID_REQUEST"]


def test_concurrent_creates_of_the_same_content_store_it_once(desk: Desk) -> None:
    """Of 16 writers of the same content one creates it, and 15 meet it."""
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda _: desk.create("Anna lives in Lisbon."), range(16)))

    assert [Outcome.CREATED, *[Outcome.DUPLICATE] * 15] == sorted(result.outcome for result in results)
    assert len({result.memory.id for result in results}) == 1
    assert desk.total() == 1


def test_concurrent_repeats_of_a_request_happen_once(desk: Desk) -> None:
    """The same request_id from 16 threads stores one memory, and all get the same answer."""
    with ThreadPoolExecutor(16) as pool:
        results = list(
            pool.map(lambda _: desk.create("hello", kind=Kind.MESSAGE, speaker="Anna", request_id="r1"), range(16))
        )

    assert len({(result.memory.id, result.outcome, result.position) for result in results}) == 1
    assert desk.total() == 1


def test_a_repeated_request_gets_the_answer_of_then(desk: Desk) -> None:
    """After a later change the repeated request still answers with the memory as it was."""
    first = desk.create("one", key="plan", request_id="r1", metadata={"a": 1, "b": 2})
    desk.create("two", key="plan")

    again = desk.create("one", key="plan", request_id="r1", metadata={"b": 2, "a": 1})

    assert first == again


def test_a_request_id_belongs_to_one_request(desk: Desk) -> None:
    """The same id with another request is refused; another user's is another id."""
    desk.create("one", request_id="r1")

    with pytest.raises(RequestIdReusedError):
        desk.create("two", request_id="r1")

    assert Outcome.CREATED is desk.create("two", Scope("bob"), request_id="r1").outcome


def test_a_request_with_another_vector_is_another_request(desk: Desk) -> None:
    """The vector is part of what was asked, to the last number; the same one makes the same request."""
    first = desk.create("one", request_id="r1", vector=array("f", [1.0, 2.0, 3.0, 4.0]))

    assert first == desk.create("one", request_id="r1", vector=array("f", [1.0, 2.0, 3.0, 4.0]))
    with pytest.raises(RequestIdReusedError):
        desk.create("one", request_id="r1", vector=array("f", [1.0, 2.0, 3.0, 4.5]))
    with pytest.raises(RequestIdReusedError):
        desk.create("one", request_id="r1")


def test_a_repeated_request_whose_memory_was_purged_is_not_found(desk: Desk) -> None:
    """What was removed for good does not come back by a repetition, neither as an answer nor as a memory."""
    first = desk.create("one", request_id="r1")
    desk.writing.revise.delete(ADA, first.memory.id, hard=True, expected_revision=0, options=WriteOptions())

    with pytest.raises(MemoryNotFoundError) as missing:
        desk.create("one", request_id="r1")

    assert first.memory.id == missing.value.name
    assert desk.total() == 0


def test_a_repeated_batch_gets_the_answer_of_then(desk: Desk) -> None:
    """A batch is remembered with every item's outcome, rejections included, over several projects."""
    drafts = (
        Draft("a"),
        Draft("b", vector=[1.0]),
        Draft("a"),
        Draft("c", project_id=""),
        Draft("d", project_id="zeus"),
    )

    first = batch(desk, *drafts, request_id="r1")
    again = batch(desk, *drafts, request_id="r1")

    assert outcomes(first) == ["CREATED", "INVALID_REQUEST", "DUPLICATE", "CREATED", "CREATED"]
    assert first == again


def test_requests_are_forgotten_after_a_day(desk: Desk) -> None:
    """After 24 hours an id is free again."""
    desk.create("one", request_id="r1")
    desk.clock.advance(hours=23)
    kept = forget_old_requests(desk.writing.committer, desk.clock())
    desk.clock.advance(hours=2)
    forgotten = forget_old_requests(desk.writing.committer, desk.clock())

    assert (kept, forgotten) == (0, 1)
    assert Outcome.CREATED is desk.create("two", request_id="r1").outcome


@pytest.mark.parametrize(("say", "count"), [("My locker is number {0}.", 150), ("我住在第{0}号村。", 150)])
def test_each_memory_of_a_batch_is_compared_with_those_before_it(desk: Desk, say: str, count: int) -> None:
    """However many of one topic follow it, it contradicts the one right before it."""
    results = batch(desk, *(Draft(say.format(number)) for number in range(count))).results

    written = [one for one in results if isinstance(one, WriteResult)]
    older = [[found.conflict.older_id for found in one.conflicts] for one in written]

    assert older == [[], *([one.memory.id] for one in written[:-1])]
