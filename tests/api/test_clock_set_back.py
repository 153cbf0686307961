"""A clock that is set back: what replaced a memory stays in use, and what is to begin later still does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, WAYS, at_rest, create, get, list_all, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.user_data import export, take_in

TEN_MINUTES = timedelta(minutes=10)


class Clock:
    """A clock that tests set back; the next test begins later than all that were before."""

    def __init__(self) -> None:
        self.now = datetime(2027, 1, 4, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the present moment, which is a little later each time."""
        self.now += timedelta(microseconds=1)
        return self.now


@pytest.fixture(scope="module")
def shared_clock() -> Clock:
    """The clock of this module's server."""
    return Clock()


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The same a day later."""
    shared_clock.now += timedelta(days=1)
    return shared_clock


@pytest.fixture(scope="module")
def stubs(shared_clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server with that clock."""
    with served(tmp_path_factory.mktemp("clock") / "data", now=shared_clock, call_now=shared_clock) as stubs:
        yield stubs


def supersede(stubs: Stubs, scope: types_pb.Scope, old: types_pb.Memory, **fields: Any) -> types_pb.Memory:
    """Supersede *old* by a memory with these fields, or by the one whose id they give; return the successor."""
    request = memory_pb.SupersedeMemoryRequest(scope=scope, id=old.id, memory=types_pb.Memory(**fields))
    return stubs.memory.SupersedeMemory(request, timeout=TIMEOUT).memory


def in_use(stubs: Stubs, scope: types_pb.Scope, query: str) -> list[str]:
    """Return what a list, every way of searching, and a context show; they must agree."""
    listed = sorted(memory.content for memory in list_all(stubs, scope))
    for way in WAYS.values():
        request = search_pb.SearchRequest(scope=scope, query=query, **way)
        hits = stubs.search.Search(request, timeout=TIMEOUT).hits
        assert sorted(hit.memory.content for hit in hits) == listed
    asked = search_pb.RenderContextRequest(scope=scope, query=query)
    text = stubs.search.RenderContext(asked, timeout=TIMEOUT).markdown
    assert all(content in text for content in listed)
    return listed


def at(moment: datetime) -> Timestamp:
    """Return a moment of the API."""
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


def true_at(stubs: Stubs, scope: types_pb.Scope, moment: datetime) -> list[str]:
    """Return what was true at a moment, by what is known now."""
    as_of = types_pb.AsOf(valid_time=at(moment))
    return [memory.content for memory in list_all(stubs, scope, as_of=as_of)]


OLD, NEW, QUERY = "The zebra gate has the code 4711.", "Since today the zebra gate has the code 9090.", "zebra gate"


@pytest.fixture
def scope(user: str) -> types_pb.Scope:
    """The scope of a new user."""
    return types_pb.Scope(user_id=user)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_successor_stays_in_use(stubs: Stubs, scope: types_pb.Scope, clock: Clock, *, is_old: bool) -> None:
    """One written by the call, and one that existed."""
    old = create(stubs, scope, OLD)
    fields = {"id": create(stubs, scope, NEW).id} if is_old else {"content": NEW}
    clock.now += TEN_MINUTES
    supersede(stubs, scope, old, **fields)
    clock.now -= TEN_MINUTES / 2

    assert in_use(stubs, scope, QUERY) == [NEW]


def test_a_contradicting_memory_stays_in_use(stubs: Stubs, scope: types_pb.Scope, clock: Clock) -> None:
    """The one that superseded another by what it says."""
    old = create(stubs, scope, "Anna lives in Lisbon.")
    written = write(stubs, scope, "Anna lives in Porto.", conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE)
    assert get(stubs, scope, old.id).superseded_by_id == written.memory.id
    clock.now -= TEN_MINUTES

    assert in_use(stubs, scope, "Where does Anna live?") == ["Anna lives in Porto."]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_successor_that_is_changed_stays_in_use(
    stubs: Stubs, scope: types_pb.Scope, clock: Clock, *, is_old: bool
) -> None:
    """By an update, and by a write under its key."""
    old = create(stubs, scope, OLD)
    fields = {"id": create(stubs, scope, NEW, key="gate").id} if is_old else {"content": NEW, "key": "gate"}
    clock.now += TEN_MINUTES
    successor = supersede(stubs, scope, old, **fields)
    clock.now -= TEN_MINUTES / 2
    named = types_pb.Memory(id=successor.id, title="Gate")
    stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(scope=scope, memory=named, update_mask={"paths": ["title"]}), timeout=TIMEOUT
    )

    assert in_use(stubs, scope, QUERY) == [NEW]
    last = create(stubs, scope, "The zebra gate has no code now.", key="gate")
    assert last.id == successor.id
    assert in_use(stubs, scope, QUERY) == [last.content]


def test_a_chain_across_two_setbacks_ends_in_use(stubs: Stubs, scope: types_pb.Scope, clock: Clock) -> None:
    """Each link by an earlier clock than the one before."""
    last = create(stubs, scope, OLD)
    for number in range(3):
        clock.now -= TEN_MINUTES
        last = supersede(stubs, scope, last, content=f"Code {number} opens the zebra gate.")
        clock.now -= TEN_MINUTES
        assert in_use(stubs, scope, QUERY) == [last.content]


def test_a_memory_that_was_promoted_or_imported_stays_in_use(
    stubs: Stubs, scope: types_pb.Scope, clock: Clock, user: str
) -> None:
    """By the clock that is behind."""
    successor = supersede(stubs, scope, create(stubs, scope, OLD), content=NEW, layer=types_pb.MEMORY_LAYER_SHORT_TERM)
    clock.now -= TEN_MINUTES
    take_in(stubs, f"{user}-2", export(stubs, user))
    there = types_pb.Scope(user_id=f"{user}-2")
    at_rest(stubs)
    assert in_use(stubs, there, QUERY) == [NEW]

    stubs.lifecycle.PromoteMemory(lifecycle_pb.PromoteMemoryRequest(scope=scope, id=successor.id), timeout=TIMEOUT)
    assert in_use(stubs, scope, QUERY) == [NEW]


def test_a_given_start_stays_in_the_future(stubs: Stubs, scope: types_pb.Scope, clock: Clock) -> None:
    """Of a successor too, whichever clock wrote it, until the clock has reached it."""
    start = clock.now + timedelta(minutes=30)
    create(stubs, scope, NEW, valid_from=at(start))
    supersede(stubs, scope, create(stubs, scope, "The walrus eats fish."), content=f"{QUERY}!", valid_from=at(start))
    assert in_use(stubs, scope, QUERY) == []
    clock.now -= TEN_MINUTES

    assert in_use(stubs, scope, QUERY) == []
    clock.now = start
    assert in_use(stubs, scope, QUERY) == [NEW, f"{QUERY}!"]


def test_as_of_a_time_before_the_supersession_the_old_memory_was_true(
    stubs: Stubs, scope: types_pb.Scope, clock: Clock
) -> None:
    """Also when that time is the present one by the clock that was set back."""
    old = create(stubs, scope, OLD)
    clock.now += TEN_MINUTES
    successor = supersede(stubs, scope, old, content=NEW)
    clock.now -= TEN_MINUTES / 2

    assert get(stubs, scope, old.id).valid_to == successor.valid_from
    assert true_at(stubs, scope, clock.now) == [OLD]
    assert true_at(stubs, scope, successor.valid_from.ToDatetime(UTC)) == [NEW]


def test_a_memory_is_superseded_by_a_clock_before_its_creation(
    stubs: Stubs, scope: types_pb.Scope, clock: Clock
) -> None:
    """It is in use until then, and true until then; its revisions keep their order."""
    old = create(stubs, scope, OLD)
    clock.now -= TEN_MINUTES
    assert in_use(stubs, scope, QUERY) == [OLD]
    successor = supersede(stubs, scope, old, content=NEW)

    assert in_use(stubs, scope, QUERY) == [NEW]
    assert true_at(stubs, scope, clock.now) == [NEW]
    assert true_at(stubs, scope, clock.now - TEN_MINUTES) == [OLD]
    asked = memory_pb.ListRevisionsRequest(scope=scope, id=old.id)
    revisions = stubs.memory.ListRevisions(asked, timeout=TIMEOUT).revisions
    assert [one.memory.superseded_by_id for one in revisions] == [successor.id, ""]
