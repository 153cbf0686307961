"""Memories are read by name, searched by keyword, and counted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, product

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.diagnostics import MemoryCounts, PlacePart
from memsvc.domain.filters import And, AnyOf, Field, Filter, Not
from memsvc.domain.index_entries import ChangeAction, Hit, View, entry_id
from memsvc.domain.memory import Keyword, Kind, Layer, Memory, Status, Tier
from memsvc.domain.search import Order, OrderField, PageCursor, WordMatch
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, EVERYWHERE, StoreSeams, insert, purge, reach_of, revise
from memsvc.testing.store_writes import CHUNKS

COUNT = count()


def words(*weights: tuple[str, float]) -> tuple[Keyword, ...]:
    """Return keywords."""
    return tuple(Keyword(term, weight) for term, weight in weights)


class StoreReadsContract(StoreSeams):
    """Reads by id, key and row; the keyword table; counts."""

    def test_unknown_names_are_left_out(self, store: MetadataStore) -> None:
        """Ids, keys and rows that are not there are no error."""
        [one] = insert(store, factories.memory(key="k"))

        assert store.memories.get([one.id, "nobody", one.id, ""], reach=ADA) == {one.id: one}
        assert store.memories.by_rows([one.row, 99, one.row, -1, 0], reach=ADA) == {one.row: one}
        assert [candidate.row for candidate in store.memories.candidates([99, one.row, -1], reach=ADA)] == [one.row]
        assert store.memories.get([], reach=ADA) == {}
        assert store.memories.by_rows([], reach=ADA) == {}
        assert [*store.memories.candidates([], reach=ADA)] == []
        assert store.memories.get_by_key("K", reach=ADA) is None

    @pytest.mark.parametrize("confidences", [(0.1, 1 / 3, 0.8, 0.0, 1.0), (5e-324, 0.001, 1e-4 / 3, 1.0)], ids=len)
    def test_confidence_comes_back_to_the_last_bit(self, store: MetadataStore, confidences: tuple[float, ...]) -> None:
        """Whichever way a memory is read."""
        written = insert(store, *(factories.memory(str(one), confidence=one) for one in confidences))
        names, rows = [memory.id for memory in written], [memory.row for memory in written]

        found = (
            store.memories.get(names, reach=ADA).values(),
            store.memories.by_rows(rows, reach=ADA).values(),
            # What is fresh is given out once, and then read from where it is stored.
            [document.memory for document in store.feed.documents(rows)],
            [document.memory for document in store.feed.documents(rows)],
        )

        for memories in found:
            assert list(confidences) == [memory.confidence for memory in sorted(memories, key=lambda one: one.row)]

    def test_what_was_read_before_is_read_as_it_is_now(self, store: MetadataStore) -> None:
        """A read after a change sees it, and a change that was undone is not seen, however often was read before."""
        memory, gone = insert(store, factories.memory("1"), factories.memory("2"))
        rows = [memory.row, gone.row]

        def seen() -> tuple[dict[int, Memory], dict[int, int]]:
            found = store.memories.candidates(rows, reach=ADA)
            return store.memories.by_rows(rows, reach=ADA), {one.row: one.access_count for one in found}

        assert seen() == seen() == ({memory.row: memory, gone.row: gone}, dict.fromkeys(rows, 0))
        assert store.memories.by_rows(rows, reach=reach_of("bob")) == {}
        assert [*store.memories.candidates(rows, reach=reach_of("bob"))] == []
        revised = revise(store, memory, title="T")
        purge(store, gone)
        assert seen() == seen() == ({memory.row: revised}, {memory.row: 0})
        with store.transaction() as transaction:
            transaction.add_accesses({memory.id: (2, NOW)})
        read = replace(revised, access_count=2, access_time=NOW)
        assert seen() == seen() == ({memory.row: read}, {memory.row: 2})
        with suppress(ZeroDivisionError), store.transaction() as transaction:
            transaction.purge(memory)
            raise ZeroDivisionError
        assert seen() == ({memory.row: read}, {memory.row: 2})

    def test_thousands_are_read_at_once(self, store: MetadataStore) -> None:
        """One call may name more memories than a statement may have parameters."""
        written = insert(store, *(factories.memory(f"{number}") for number in range(1200)))
        rows = [memory.row for memory in written]

        assert store.memories.by_rows(rows, reach=ADA) == {memory.row: memory for memory in written}
        assert store.memories.get([memory.id for memory in written], reach=ADA).keys() == {m.id for m in written}
        assert sorted(candidate.row for candidate in store.memories.candidates(rows * 30, reach=ADA)) == rows
        assert store.memories.rows_where(AnyOf(Field.ROW, tuple(rows * 30)), reach=ADA) == rows

    def test_key_is_looked_up_in_the_order_of_the_reach(self, store: MetadataStore) -> None:
        """If several projects of the reach have the key, the first of them gives the memory."""
        there, here = insert(
            store, factories.memory("there", key="k"), factories.memory("here", key="k", project_id="web")
        )

        assert store.memories.get_by_key("k", reach=reach_of(projects=("web", ""))) == here
        assert store.memories.get_by_key("k", reach=reach_of(projects=("", "web"))) == there
        assert store.memories.get_by_key("k", reach=reach_of(projects=("web-2", ""))) == there
        assert store.memories.get_by_key("k", reach=reach_of(projects=("web-2",))) is None

    def test_former_holders_of_a_key_are_found_by_status_the_last_changed_first(self, store: MetadataStore) -> None:
        """Only in the reach, and never one that holds the key."""
        earlier, later = NOW - timedelta(days=1), NOW
        insert(
            store,
            factories.memory("holder", key="k"),
            factories.memory("old", key="k", status=Status.DELETED, update_time=earlier),
            factories.memory("new", key="k", status=Status.DELETED, update_time=later),
            factories.memory("held back", key="k", status=Status.QUARANTINED),
            factories.memory("else", key="k", status=Status.DELETED, project_id="web"),
        )
        find = store.memories.get_by_former_key

        assert [
            "" if memory is None else memory.content
            for memory in (
                find("k", Status.DELETED, reach=reach_of(projects=("",))),
                find("k", Status.QUARANTINED, reach=reach_of(projects=("",))),
                find("k", Status.DELETED, reach=reach_of(projects=("web",))),
                find("K", Status.DELETED, reach=reach_of(projects=("",))),
                find("", Status.DELETED, reach=reach_of(projects=("",))),
                find("k", Status.DELETED, reach=reach_of("bob", projects=("",))),
            )
        ] == ["new", "held back", "else", "", "", ""]

    @pytest.mark.parametrize(
        ("terms", "expected"),
        [
            (["a"], {1: 0.3 * 0.5 + 0.2, 3: 0.3 * 0.25 + 0.2}),
            (["a", "b"], {1: 0.3 * 1.5 + 0.4, 3: 0.3 * 0.25 + 0.2, 2: 0.3 * 0.2 + 0.2}),
            (["b", "a", "b", "a"], {1: 0.3 * 1.5 + 0.4, 3: 0.3 * 0.25 + 0.2, 2: 0.3 * 0.2 + 0.2}),
            (["世界"], {3: 0.3 * 1.0 + 0.2}),
            (["A", "aa", "", "世"], {}),
            ([], {}),
        ],
    )
    def test_keywords_are_scored_by_weight_and_number(
        self, store: MetadataStore, terms: list[str], expected: dict[int, float]
    ) -> None:
        """The score is 0.3 for each matched weight and 0.2 for each match; words match whole; repeats count once."""
        insert(
            store,
            factories.memory("1", keywords=words(("a", 0.5), ("b", 1.0))),
            factories.memory("2", keywords=words(("b", 0.2), ("c", 1.0))),
            factories.memory("3", keywords=words(("世界", 1.0), ("a", 0.25))),
        )

        hits = store.memories.keyword_hits(terms, reach=ADA, where=None, limit=9)

        wanted = sorted(expected.items(), key=lambda item: (-item[1], item[0]))
        assert [hit.entry_id for hit in hits] == [entry_id(row, View.CHUNK, 0) for row, _ in wanted]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in wanted])

    def test_keyword_score_is_at_most_one(self, store: MetadataStore) -> None:
        """Many matches make no score above 1, and equal scores are ordered by entry."""
        many = words(*((f"w{number}", 1.0) for number in range(10)))
        insert(store, *(factories.memory(f"{number}", keywords=many[number % 2 :]) for number in range(4)))

        hits = store.memories.keyword_hits([word.term for word in many], reach=ADA, where=None, limit=3)

        assert hits == [Hit(entry_id(row, View.CHUNK, 0), 1.0) for row in (1, 2, 3)]

    def test_sums_do_not_depend_on_their_order(self, store: MetadataStore) -> None:
        """Keywords of the same weights give the same score, whatever order they are added in."""
        weights = [0.1, 0.2, 0.3]
        turned = [words(*(("abc"[(n + turn) % 3], weights[n]) for n in range(3))) for turn in range(3)]
        insert(store, *(factories.memory(f"{turn}", keywords=keywords) for turn, keywords in enumerate(turned)))

        hits = store.memories.keyword_hits(["c", "a", "b"], reach=ADA, where=None, limit=9)

        assert [hit.entry_id for hit in hits] == [entry_id(row, View.CHUNK, 0) for row in (1, 2, 3)]

    @pytest.mark.parametrize("where", [None, AnyOf(Field.CATEGORY, ("odd",))])
    @pytest.mark.parametrize("limit", [0, 1, 7, 99, 2**31])
    def test_keyword_limit_is_filled_after_filtering(
        self, store: MetadataStore, where: Filter | None, limit: int
    ) -> None:
        """The limit counts hits that match: nothing is filtered after it."""
        insert(
            store,
            *(
                factories.memory(
                    f"{n}", category="odd" if n % 2 else "even", keywords=words(("w", 0.5 if n < 250 else 0.4))
                )
                for n in range(1, 301)
            ),
        )

        hits = store.memories.keyword_hits(["w"], reach=ADA, where=where, limit=limit)

        rows = range(1, 301, 1 if where is None else 2)
        assert [hit.entry_id for hit in hits] == [entry_id(row, View.CHUNK, 0) for row in rows][:limit]

    @pytest.mark.parametrize(
        ("match", "parts", "expected"),
        [
            (WordMatch.WHOLE, ["data"], []),
            (WordMatch.PREFIX, ["data"], ["data_x", "database", "databases"]),
            (WordMatch.PREFIX, ["数据", "database"], ["数据库", "databases"]),
            (WordMatch.PREFIX, ["x", "_", "%"], []),
            (WordMatch.PREFIX, ["\U0010ffff"], ["\U0010ffffb"]),
            (WordMatch.SUBSTRING, ["base"], ["database", "databases"]),
            (WordMatch.SUBSTRING, ["据", "_"], ["数据", "数据库", "data_x"]),
            (WordMatch.SUBSTRING, [], []),
        ],
    )
    def test_keywords_are_found_by_a_part(
        self, store: MetadataStore, match: WordMatch, parts: list[str], expected: list[str]
    ) -> None:
        """By their beginning or any part, as it is written, each once, the shortest first; the parts are left out."""
        terms = ("data", "database", "databases", "data_x", "dat", "数据", "数据库", "b\U0010ffff", "\U0010ffffb")
        keywords = words(*((term, 1.0) for term in terms))
        others = factories.memory("other", user_id="bo", keywords=words(("database_of_bo", 1.0)))
        insert(store, *(factories.memory(f"{number}", keywords=keywords) for number in range(2)), others)

        def found(limit: int) -> list[str]:
            return store.memories.keywords_with(parts, reach=ADA, where=None, match=match, limit=limit)

        assert found(9) == expected
        assert found(1) == expected[:1]
        assert match.chosen(terms, parts, 1) == expected[:1]

    def test_keywords_by_a_part_are_of_memories_that_match(self, store: MetadataStore) -> None:
        """Those of others take no place of the limit."""
        for status, terms in ((Status.ARCHIVED, ("data1", "both_data")), (Status.ACTIVE, ("database", "both_data"))):
            made = factories.memory(status.lower(), status=status, keywords=words(*((term, 1.0) for term in terms)))
            insert(store, made)
        where = AnyOf(Field.STATUS, (Status.ACTIVE,))

        def found(match: WordMatch, limit: int) -> list[str]:
            return store.memories.keywords_with(["data"], reach=ADA, where=where, match=match, limit=limit)

        assert found(WordMatch.PREFIX, 1) == ["database"]
        assert found(WordMatch.SUBSTRING, 9) == ["database", "both_data"]

    def test_keywords_follow_an_update(self, store: MetadataStore) -> None:
        """New keywords and weights hold at once, and the old ones are gone."""
        [before] = insert(store, factories.memory(keywords=words(("a", 0.5), ("b", 1.0))))
        revise(store, before, keywords=words(("b", 0.5), ("c", 1.0)))

        def score(term: str) -> list[float]:
            return [hit.score for hit in store.memories.keyword_hits([term], reach=ADA, where=None, limit=9)]

        assert score("a") == []
        assert score("b") == pytest.approx([0.35])
        assert score("c") == pytest.approx([0.5])

    def test_counts_are_of_what_is_not_deleted(self, store: MetadataStore) -> None:
        """Deleted memories count only by status; tokens are a quarter of the bytes of those in use."""
        insert(
            store,
            factories.memory("12345", layer=Layer.CORE, kind=Kind.FACT, tier=Tier.CORE),
            factories.memory("你好", layer=Layer.SESSION, kind=Kind.MESSAGE, project_id="web"),
            factories.memory("out", layer=Layer.SESSION, kind=Kind.MESSAGE, tier=Tier.CORE, status=Status.ARCHIVED),
            factories.memory("theirs", user_id="bob"),
        )
        insert(store, Record(factories.memory("long"), chunks=CHUNKS))
        [gone] = insert(store, factories.memory("gone", layer=Layer.CORE))
        revise(store, gone, ChangeAction.DELETED, status=Status.DELETED)

        assert store.memories.counts(reach=ADA) == MemoryCounts(
            total=4,
            by_layer={"CORE": 1, "SESSION": 2, "LONG_TERM": 1},
            by_kind={"FACT": 2, "MESSAGE": 2},
            by_tier={"CORE": 2, "CONTEXTUAL": 2},
            active_by_tier={"CORE": 1, "CONTEXTUAL": 2},
            by_status={"ACTIVE": 3, "ARCHIVED": 1, "DELETED": 1},
            content_bytes=18,
            core_tokens=2,
            session_tokens=2,
            chunks=5,
        )

    def test_counts_of_nothing_are_empty(self, store: MetadataStore) -> None:
        """A reach without memories has counts of zero and empty groups."""
        assert store.memories.counts(reach=ADA) == MemoryCounts(0, {}, {}, {}, {}, {}, 0, 0, 0, 0)


# Lists: every order, page by page.


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


class StorePlacesContract(StoreSeams):
    """Users, projects, agents and sessions, and what each holds; and the selection of many memories."""

    @pytest.fixture
    def places(self, store: MetadataStore) -> list[tuple[str, ...]]:
        """Write memories in several places, some of them twice; return the places of users ada, adam and 王."""
        for user, project, agent, session in (
            ("ada", "", "", ""), ("ada", "", "", ""), ("ada", "", "bot", ""), ("ada", "", "bot", "s1"),
            ("ada", "web", "", "s1"), ("ada", "web", "zeta", ""), ("adam", "web", "bot", ""), ("王", "", "", ""),
        ):  # fmt: skip
            text = f"{user} {project} {agent} {session}"
            memory = factories.memory(
                text,
                user_id=user,
                project_id=project,
                agent_id=agent,
                session_id=session,
                content_hash=str(next(COUNT)),
            )
            insert(store, memory)
        insert(store, factories.memory("gone", user_id="bob", status=Status.DELETED))
        return [
            ("\x1fada", "", "", ""), ("\x1fada", "", "bot", ""), ("\x1fada", "", "bot", "s1"),
            ("\x1fada", "web", "", "s1"), ("\x1fada", "web", "zeta", ""), ("\x1fadam", "web", "bot", ""),
            ("\x1fbob", "", "", ""), ("\x1f王", "", "", ""),
        ]  # fmt: skip

    @staticmethod
    def found(
        store: MetadataStore, *parts: PlacePart, after: tuple[str, ...] = (), live: bool = False, limit: int = 99
    ) -> list[tuple[str, ...]]:
        """Return the places only."""
        return [usage.place for usage in store.memories.places(parts, after=after, live=live, limit=limit)]

    def test_places_are_distinct_and_in_order(self, store: MetadataStore, places: list[tuple[str, ...]]) -> None:
        """Each once, of any number of parts."""
        for parts in (1, 2, 3, 4):
            expected = list(dict.fromkeys(place[:parts] for place in places))
            assert self.found(store, *[PlacePart()] * parts) == expected

    @pytest.mark.parametrize("limit", [1, 2, 3])
    @pytest.mark.parametrize("parts", [1, 2, 3, 4])
    def test_pages_of_places_join_into_the_list(
        self, store: MetadataStore, places: list[tuple[str, ...]], parts: int, limit: int
    ) -> None:
        """A page begins after the last place of the page before; the place need not be there any more."""
        expected = list(dict.fromkeys(place[:parts] for place in places))
        after: tuple[str, ...] = ()
        listed: list[tuple[str, ...]] = []
        while page := self.found(store, *[PlacePart()] * parts, after=after, limit=limit):
            listed, after = listed + page, page[-1]

        assert listed == expected
        assert self.found(store, *[PlacePart()] * parts, after=("\x1fadaa", "x", "y", "z")[:parts]) == [
            place for place in expected if place[0] > "\x1fadaa"
        ]

    @pytest.mark.usefixtures("places")
    def test_parts_are_restricted(self, store: MetadataStore) -> None:
        """To given values, of which unknown ones are left out, and to a beginning."""
        ada = PlacePart(("\x1fada",))
        assert self.found(store, PlacePart(("\x1fzoe", "\x1fadam", "\x1fada"))) == [("\x1fada",), ("\x1fadam",)]
        assert self.found(store, PlacePart(prefix="\x1fada")) == [("\x1fada",), ("\x1fadam",)]
        assert self.found(store, PlacePart(("\x1fada", "\x1fbob"), "\x1fb")) == [("\x1fbob",)]
        assert self.found(store, ada, PlacePart(prefix="w")) == [("\x1fada", "web")]
        assert self.found(store, ada, PlacePart(), PlacePart(prefix="b")) == [("\x1fada", "", "bot")]
        assert self.found(store, ada, PlacePart(("web",)), PlacePart(("",)), PlacePart()) == [
            ("\x1fada", "web", "", "s1")
        ]
        assert self.found(store, PlacePart(())) == self.found(store, PlacePart(prefix="\x1fadaz")) == []

    def test_usage_is_counted_by_status(self, store: MetadataStore) -> None:
        """With the time of the last change; places of deleted memories alone are left out on request."""
        one, _, other = insert(
            store,
            factories.memory("1", agent_id="a"),
            factories.memory("2", agent_id="a", status=Status.ARCHIVED),
            factories.memory("3", agent_id="b"),
        )
        later = NOW + timedelta(days=3)
        revise(store, one, importance=5, update_time=later)
        revise(store, other, status=Status.DELETED)
        parts = [PlacePart((ADA.owner,)), PlacePart(), PlacePart()]

        first, second = store.memories.places(parts, after=(), live=False, limit=9)

        assert (first.place[2], dict(first.by_status), first.count) == ("a", {"ACTIVE": 1, "ARCHIVED": 1}, 2)
        assert first.last_write == later
        assert (second.place[2], dict(second.by_status), second.count) == ("b", {"DELETED": 1}, 0)
        assert self.found(store, *parts, live=True) == [first.place]

    def test_selection_names_revisions(self, store: MetadataStore) -> None:
        """Of the memories that match within the reach, in the order of writing."""
        one, two, three = insert(store, *(factories.memory(f"{n}", category="c") for n in range(3)))
        insert(store, factories.memory("of another", user_id="bob", category="c"))
        revise(store, two, importance=5)
        where = AnyOf(Field.CATEGORY, ("c",))

        found = store.memories.select_revisions(where, reach=ADA, limit=9)

        assert [(each.row, each.revision) for each in found] == [(one.row, 1), (two.row, 2), (three.row, 1)]
        assert {(each.status, each.layer) for each in found} == {(one.status.value, one.layer.value)}
        assert store.memories.select_revisions(where, reach=ADA, limit=2) == found[:2]
        assert store.memories.select_revisions(None, reach=reach_of("nobody"), limit=9) == []
