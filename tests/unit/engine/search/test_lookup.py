"""Reading by id, by key and by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain.errors import MemoryNotFoundError
from memsvc.domain.filters import AnyOf, Field
from memsvc.domain.memory import Layer, Memory
from memsvc.domain.scope import Scope, Visibility
from memsvc.domain.search import Order, OrderField, PageCursor, Selection
from memsvc.domain.write_requests import WriteOptions
from tests.unit.engine.memories.write_path import ADA, Desk, open_desk

GLOBAL = Scope("ada")
ZEUS = Scope("ada", project_id="zeus")
S1 = Scope("ada", project_id="apollo", session_id="s1")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as opened:
        yield opened


def walk(desk: Desk, scope: Scope, selection: Selection, order: Order, limit: int) -> list[list[Memory]]:
    pages: list[list[Memory]] = []
    after: PageCursor | None = None
    while True:
        page, after = desk.recollect.page(scope, selection, order=order, after=after, limit=limit)
        pages.append(page)
        if after is None:
            return pages


def test_get_finds_the_projects_and_the_global_memories(desk: Desk) -> None:
    """A memory is found from its project, a global one from everywhere of its user, and that counts as an access."""
    mine, everywhere = desk.create("one").memory, desk.create("two", GLOBAL).memory

    assert mine == desk.recollect.get(ADA, mine.id)
    assert everywhere == desk.recollect.get(ZEUS, everywhere.id)
    desk.writing.accesses.flush()
    assert desk.recollect.get(ADA, mine.id).access_count == 1


@pytest.mark.parametrize(
    "scope", [ZEUS, GLOBAL, Scope("ad", project_id="apollo"), Scope("ada", "apollo", tenant_id="t")]
)
def test_get_finds_nothing_out_of_reach(desk: Desk, scope: Scope) -> None:
    """Other projects, users and tenants see no trace, and no access is counted."""
    memory = desk.create("one", key="k").memory

    with pytest.raises(MemoryNotFoundError) as missing:
        desk.recollect.get(scope, memory.id)
    with pytest.raises(MemoryNotFoundError):
        desk.recollect.get_by_key(scope, "k")

    assert memory.id == missing.value.name
    assert desk.recollect.get_many(scope, [memory.id]) == {}
    desk.writing.accesses.flush()
    assert desk.recollect.get(ADA, memory.id).access_count == 0


def test_deleted_memories_are_not_found(desk: Desk) -> None:
    """A deleted memory is found neither by id nor by key."""
    memory = desk.create("one", key="k").memory
    desk.writing.revise.delete(ADA, memory.id, hard=False, expected_revision=0, options=WriteOptions())

    with pytest.raises(MemoryNotFoundError):
        desk.recollect.get(ADA, memory.id)
    with pytest.raises(MemoryNotFoundError):
        desk.recollect.get_by_key(ADA, "k")
    assert desk.recollect.get_many(ADA, [memory.id]) == {}


def test_a_key_is_looked_up_in_the_project_alone(desk: Desk) -> None:
    """A global memory of the same key does not stand in."""
    desk.create("everywhere", GLOBAL, key="k")

    with pytest.raises(MemoryNotFoundError):
        desk.recollect.get_by_key(ADA, "k")
    mine = desk.create("mine", key="k").memory
    assert mine == desk.recollect.get_by_key(ADA, "k")


def test_private_memories_are_there_for_their_session_alone(desk: Desk) -> None:
    """Layer SESSION is found by get, key and page from its own session only."""
    secret = desk.create("secret", S1, layer=Layer.SESSION, key="k").memory
    desk.clock.advance(seconds=1)
    shared = desk.create("shared", S1).memory
    order = Order()

    for scope in (ADA, Scope("ada", project_id="apollo", session_id="s2")):
        with pytest.raises(MemoryNotFoundError):
            desk.recollect.get(scope, secret.id)
        with pytest.raises(MemoryNotFoundError):
            desk.recollect.get_by_key(scope, "k")
        assert [[shared]] == walk(desk, scope, Selection(), order, 10)
    assert secret == desk.recollect.get(S1, secret.id)
    assert [[shared, secret]] == walk(desk, S1, Selection(), order, 10)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("field", list(OrderField))
def test_pages_hold_every_memory_once(desk: Desk, field: OrderField, descending: bool) -> None:  # noqa: FBT001 - a case
    """Whatever the order, a walk meets each memory once, full pages first, and ends without an empty page."""
    created = []
    for number in range(6):
        created.append(
            desk.create(
                f"memory {number}",
                importance=1 + number % 2,
                event_time=desk.clock() if number % 3 else None,
            ).memory.id
        )
        desk.clock.advance(microseconds=1)
    desk.recollect.get_many(ADA, created[:4])
    desk.writing.accesses.flush()

    pages = walk(desk, ADA, Selection(), Order(field, descending=descending), 2)

    assert [len(page) for page in pages] == [2, 2, 2]
    assert sorted(created) == sorted(memory.id for page in pages for memory in page)


def test_a_page_keeps_to_selection_and_visibility(desk: Desk) -> None:
    """The selection's filter and visibility both hold, and listing counts no access."""
    mine = desk.create("one", tags=("a",)).memory
    desk.clock.advance(seconds=1)
    desk.create("two")
    everywhere = desk.create("three", GLOBAL, tags=("a",)).memory
    where = AnyOf(Field.TAGS, ("a",))

    assert [[everywhere, mine]] == walk(desk, ADA, Selection(where), Order(), 10)
    assert [[mine]] == walk(desk, ADA, Selection(where, Visibility.PROJECT), Order(), 10)
    assert [[everywhere]] == walk(desk, ADA, Selection(where, Visibility.GLOBAL), Order(), 10)
    desk.writing.accesses.flush()
    assert desk.recollect.get(ADA, mine.id).access_count == 0
