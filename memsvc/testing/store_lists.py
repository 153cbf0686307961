"""Lists: every order, page by page."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count, product

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not
from memsvc.domain.memory import Memory
from memsvc.domain.search import Order, OrderField, PageCursor
from memsvc.ports.metadata import MetadataStore
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, EVERYWHERE, StoreSeams, insert, reach_of

ORDERS = [Order(field, descending) for field in OrderField for descending in (True, False)]
_IDS = [f"{order.field}-{'descending' if order.descending else 'ascending'}" for order in ORDERS]
every_order = pytest.mark.parametrize("order", ORDERS, ids=_IDS)


def value_of(memory: Memory, order: Order) -> int | None:
    """Return the value that a list is ordered by."""
    value: datetime | int | None = getattr(memory, order.field.value)
    return to_micros(value) if isinstance(value, datetime) else value


def in_order(memories: list[Memory], order: Order) -> list[Memory]:
    """Return memories as a list in this order has them."""
    sign = -1 if order.descending else 1

    def place(memory: Memory) -> tuple[bool, int, int]:
        value = value_of(memory, order)
        return value is None, sign * (value or 0), memory.row

    return sorted(memories, key=place)


class StoreListsContract(StoreSeams):
    """`page`."""

    @pytest.fixture
    def written(self, store: MetadataStore) -> list[Memory]:
        """Store memories of three projects whose values differ, are equal and are absent, in no order."""
        moments = [NOW - timedelta(days=20_000), NOW, NOW + timedelta(microseconds=1), None]
        numbers = count()
        memories = [
            factories.memory(
                f"{next(numbers)}",
                project_id=EVERYWHERE[index % 3],
                session_id="s" if index % 2 else "t",
                create_time=NOW - timedelta(microseconds=index * 7 % 5),
                update_time=NOW + timedelta(seconds=index * 5 % 7),
                access_time=moments[index % 4],
                event_time=moments[index * 3 % 4],
                importance=1 + index * 3 % 5,
                access_count=(index * 11 % 4) * 2**33,
            )
            for index in range(24)
        ]
        insert(store, *(factories.memory("theirs", user_id="bob"), factories.memory("elsewhere", project_id="other")))
        return insert(store, *memories)

    @every_order
    def test_order_is_kept(self, store: MetadataStore, written: list[Memory], order: Order) -> None:
        """Values in order, absent ones last, equal ones by row."""
        found = store.memories.page(reach=ADA, where=None, order=order, after=None, limit=99)

        assert found == in_order(written, order)

    @every_order
    @pytest.mark.parametrize(
        "where",
        [
            None,
            AnyOf(Field.SESSION_ID, ("s",)),
            And((Not(AnyOf(Field.IMPORTANCE, (1,))), AnyOf(Field.SESSION_ID, ("t",)))),
        ],
        ids=["all", "session", "filter"],
    )
    def test_pages_join_into_the_list(
        self, store: MetadataStore, written: list[Memory], order: Order, where: Filter | None
    ) -> None:
        """Page after page, each from the cursor of the last memory before, nothing is left out or comes twice."""
        whole = store.memories.page(reach=ADA, where=where, order=order, after=None, limit=99)
        assert 0 < len(whole) <= len(written)
        for size, projects in product((1, 3), (EVERYWHERE, ("web",), ("", "web"))):
            found: list[Memory] = []
            after: PageCursor | None = None
            while page := store.memories.page(
                reach=reach_of(projects=projects), where=where, order=order, after=after, limit=size
            ):
                assert len(page) <= size
                found += page
                after = PageCursor(value_of(page[-1], order), page[-1].row)

            assert found == [memory for memory in whole if memory.scope.project_id in projects]

    @every_order
    def test_cursor_need_not_be_there(self, store: MetadataStore, written: list[Memory], order: Order) -> None:
        """A cursor names a place, not a memory: it holds when that memory has gone."""
        whole = in_order(written, order)
        for index in (0, 10, 23):
            value = value_of(whole[index], order)
            after = PageCursor(value, whole[index].row)
            before = PageCursor(value, whole[index].row - 1)

            assert store.memories.page(reach=ADA, where=None, order=order, after=after, limit=99) == whole[index + 1 :]
            found = store.memories.page(reach=ADA, where=None, order=order, after=before, limit=99)
            assert (
                found
                == [m for m in whole[: index + 1] if value_of(m, order) == value and m.row >= whole[index].row]
                + whole[index + 1 :]
            )

    @pytest.mark.usefixtures("written")
    @pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (24, 24), (25, 24), (2**31, 24)])
    def test_limit_is_kept(self, store: MetadataStore, limit: int, expected: int) -> None:
        """A page has at most as many memories as asked for, across the present and the absent values."""
        found = store.memories.page(reach=ADA, where=None, order=Order(OrderField.EVENT_TIME), after=None, limit=limit)

        assert len(found) == expected

    def test_list_of_nothing_is_empty(self, store: MetadataStore) -> None:
        """No memories, no page."""
        assert store.memories.page(reach=ADA, where=None, order=Order(), after=None, limit=9) == []
