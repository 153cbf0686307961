"""The filter tree, as a store holds it: every field, alone, negated and combined."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import MAX_DEPTH, And, AnyOf, Begun, Field, Filter, Match, Not, Or, Range, metadata_term
from memsvc.domain.memory import Json, Keyword, Kind, Layer, Memory, Origin, Status, Tier
from memsvc.domain.search import Order
from memsvc.ports.metadata import MetadataStore
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, StoreSeams, insert, revise

LATER = NOW + timedelta(days=1, microseconds=1)
STRINGS: dict[Field, tuple[str, str]] = {
    Field.KEY: ("daily/1", "daily/10"),
    Field.AGENT_ID: ("coder", "coder-2"),
    Field.SESSION_ID: ("s1", "s10"),
    Field.LAYER: (Layer.CORE, Layer.SESSION),
    Field.KIND: (Kind.TASK, Kind.NOTE),
    Field.CATEGORY: ("work", "Work"),
    Field.TIER: (Tier.ACTIVE, Tier.ARCHIVED),
    Field.STATUS: (Status.ACTIVE, Status.DELETED),
    Field.SPEAKER: ("Anna", ""),
    Field.ORIGIN: (Origin.USER, Origin.TOOL),
    Field.TAGS: ("python", "python3"),
    Field.METADATA: ("a.b=1", "a.b=10"),
}
TIMES = (
    Field.CREATE_TIME,
    Field.UPDATE_TIME,
    Field.ACCESS_TIME,
    Field.EVENT_TIME,
    Field.EXPIRE_TIME,
    Field.VALID_FROM,
    Field.VALID_TO,
)
ABSENT = (Field.ACCESS_TIME, Field.EVENT_TIME, Field.EXPIRE_TIME, Field.VALID_FROM, Field.VALID_TO)
NUMBERS: dict[Field, tuple[int, int]] = {
    Field.IMPORTANCE: (2, 4),
    Field.CONFIDENCE: (0, 1),
    Field.TRUST: (0, 1),
    **dict.fromkeys(TIMES, (to_micros(NOW), to_micros(LATER))),
}
ODD = [
    "it's",
    'say "hi"',
    "a*",
    "%",
    "_",
    "a b",
    "你好，世界",
    "🙂",
    "ｆｕｌｌ",
    "x" * 2000,
    "'; DROP TABLE memories; --",
    "\\",
]


def everything(number: int, **fields: Any) -> Memory:
    """Return a memory that has a value in every field."""
    plain = factories.memory(
        f"{number}",
        access_time=NOW,
        event_time=NOW,
        expire_time=LATER,
        valid_from=LATER,
        valid_to=LATER,
        tags=("a",),
        metadata={"k": "v"},
        key=f"k{number}",
    )
    scope = {name: fields.pop(name) for name in ("agent_id", "session_id") if name in fields}
    return replace(plain, scope=replace(plain.scope, **scope), **fields)


def valued(number: int, field: Field, value: Any) -> Memory:
    """Return a memory that has this value in *field*."""
    if field is Field.METADATA:
        return everything(number, metadata={"a": {"b": int(value.partition("=")[2])}, "c": [value]})
    if field is Field.TAGS:
        return everything(number, tags=("z", value))
    if field in TIMES:
        value = NOW if value == to_micros(NOW) else LATER
    return everything(number, **{field.value: value})


class StoreFiltersContract(StoreSeams):
    """`where`, in lists, rows and keyword hits alike."""

    def rows(self, store: MetadataStore, where: Filter) -> list[int]:
        """Return the rows that match, by every way there is to ask for them."""
        rows = store.memories.rows_where(where, reach=ADA)
        page = store.memories.page(reach=ADA, where=where, order=Order(), after=None, limit=10_000)
        assert sorted(memory.row for memory in page) == rows
        return rows

    @pytest.mark.parametrize("field", STRINGS, ids=str)
    def test_any_of_strings_compares_whole(self, store: MetadataStore, field: Field) -> None:
        """A string matches exactly, not by prefix, case or part; several values match any of them."""
        one, other = STRINGS[field]
        insert(store, valued(1, field, one), valued(2, field, other))

        assert self.rows(store, AnyOf(field, (one,))) == [1]
        assert self.rows(store, AnyOf(field, (other,))) == [2]
        assert self.rows(store, AnyOf(field, (one, other, "?"))) == [1, 2]
        assert self.rows(store, AnyOf(field, (one + "x", one[:-1] + "_", one.swapcase() + " "))) == []
        assert self.rows(store, AnyOf(field, ())) == []
        assert self.rows(store, Not(AnyOf(field, (one,)))) == [2]
        assert self.rows(store, Not(AnyOf(field, ()))) == [1, 2]

    def test_work_in_progress_has_no_time_of_expiry(self, store: MetadataStore) -> None:
        """It does not expire, so no test of its expiry finds it, and every negated one does."""
        insert(store, everything(1), everything(2, work_in_progress=True))
        moment = to_micros(LATER)

        for test in (Range(Field.EXPIRE_TIME, at_most=moment), AnyOf(Field.EXPIRE_TIME, (moment,))):
            assert self.rows(store, test) == [1]
            assert self.rows(store, Not(test)) == [2]

    def test_a_start_that_had_passed_at_the_last_write_has_begun(self, store: MetadataStore) -> None:
        """Whatever the clock is set back to; one that was still to come begins in its time, to the microsecond."""
        insert(
            store,
            factories.memory("without"),
            factories.memory("passed at its creation", create_time=LATER, update_time=NOW, valid_from=LATER),
            factories.memory("passed at its last change", create_time=NOW, update_time=LATER, valid_from=LATER),
            factories.memory("to come", create_time=NOW, update_time=NOW, valid_from=LATER),
        )
        moment = to_micros(LATER)

        assert self.rows(store, Begun.at(moment)) == [1, 2, 3, 4]
        assert self.rows(store, Begun.at(moment - 1)) == self.rows(store, Begun.at(0)) == [1, 2, 3]
        assert self.rows(store, Not(Begun.at(moment - 1))) == [4]

    @pytest.mark.parametrize("field", NUMBERS, ids=str)
    def test_numbers_are_exact(self, store: MetadataStore, field: Field) -> None:
        """A number matches when it is one of the values, or within the bounds, to the microsecond."""
        low, high = NUMBERS[field]
        insert(store, valued(1, field, low), valued(2, field, high))

        def found(**bounds: Any) -> list[int]:
            return self.rows(store, Range(field, **bounds))

        assert self.rows(store, AnyOf(field, (low,))) == [1]
        assert self.rows(store, AnyOf(field, (high, low, 77))) == [1, 2]
        assert self.rows(store, AnyOf(field, (high + 1, 2**80))) == self.rows(store, AnyOf(field, ())) == []
        assert self.rows(store, Not(AnyOf(field, (low,)))) == [2]
        assert found(at_least=low) == found(at_most=high) == found(at_least=low, at_most=high) == found() == [1, 2]
        assert found(above=low) == found(at_least=high) == found(above=low, at_most=high) == [2]
        assert found(below=high) == found(at_most=low) == found(at_least=low, below=high) == [1]
        assert found(above=high) == found(below=low) == found(above=low, below=high) == []
        assert found(above=low, at_least=low, below=high + 1, at_most=high) == [2]
        assert found(above=low + 0.5) == found(at_least=high - 0.5) == [2]
        assert found(above=-1e30, below=10**30) == found(at_least=float("-inf"), at_most=float("inf")) == [1, 2]
        assert found(above=1e30) == found(at_most=-(10**30)) == found(above=float("inf")) == []

    def test_rows_and_ids(self, store: MetadataStore) -> None:
        """Rows are numbers, ids are strings; unknown ones match nothing."""
        one, two, three = insert(store, *(everything(number) for number in range(3)))

        assert self.rows(store, AnyOf(Field.ID, (two.id, "nobody"))) == [two.row]
        assert self.rows(store, Not(AnyOf(Field.ID, (two.id,)))) == [one.row, three.row]
        assert self.rows(store, AnyOf(Field.ROW, (three.row, 99))) == [three.row]
        assert self.rows(store, Range(Field.ROW, above=one.row, below=three.row)) == [two.row]

    @pytest.mark.parametrize("field", ABSENT, ids=str)
    def test_absent_number_matches_only_the_negation(self, store: MetadataStore, field: Field) -> None:
        """A memory without the time is in no range and is none of the values, and in the negation of each."""
        insert(store, factories.memory("without"), everything(2))
        far = to_micros(NOW) * 2

        for test in (Range(field, below=far), Range(field), AnyOf(field, NUMBERS[field])):
            assert self.rows(store, test) == [2]
            assert self.rows(store, Not(test)) == [1]
            assert self.rows(store, Not(Not(test))) == [2]
            assert self.rows(store, Or((Not(test), Range(field, above=far)))) == [1]

    def test_tags_and_metadata_match_by_any(self, store: MetadataStore) -> None:
        """A field of several strings matches when one of them does; a memory without any matches the negation."""
        insert(
            store,
            factories.memory("1", tags=("a", "b"), metadata={"x": {"y": [1.0, "z", True]}, "n": None}),
            factories.memory("2", tags=("b", "c"), metadata={"x": {"y": "1"}}),
            factories.memory("3"),
        )

        assert self.rows(store, AnyOf(Field.TAGS, ("a", "c"))) == [1, 2]
        assert self.rows(store, And((AnyOf(Field.TAGS, ("b",)), AnyOf(Field.TAGS, ("a",))))) == [1]
        assert self.rows(store, Not(AnyOf(Field.TAGS, ("a", "nobody")))) == [2, 3]
        assert self.rows(store, AnyOf(Field.METADATA, (metadata_term("x.y", 1),))) == [1]
        assert self.rows(store, AnyOf(Field.METADATA, (metadata_term("x.y", "1"), metadata_term("n", None)))) == [1, 2]
        assert self.rows(store, Not(AnyOf(Field.METADATA, ("x.y=true",)))) == [2, 3]
        assert self.rows(store, AnyOf(Field.METADATA, ("x.y",))) == []

    def test_ranges_of_metadata_numbers(self, store: MetadataStore) -> None:
        """A number at the path is within the bounds, exactly; of a list one is; texts and booleans are no numbers."""
        held: tuple[Json, ...] = (
            3, -3, 0.1, [1e300, -0.0], 5e-324, 2**53 + 2, "3", True, [None, {"x": 3}], [1, 9],
        )  # fmt: skip
        insert(store, *(factories.memory(f"{n}", metadata={"n": one}) for n, one in enumerate(held)))
        insert(store, factories.memory("of another", user_id="bob", metadata={"n": 3}))

        def found(path: str = "n", **bounds: Any) -> list[int]:
            rows = self.rows(store, Range(Field.METADATA, path=path, **bounds))
            others = self.rows(store, Not(Range(Field.METADATA, path=path, **bounds)))
            assert sorted(rows + others) == list(range(1, len(held) + 1))
            return rows

        assert found(at_least=3) == [1, 4, 6, 10]
        assert found(above=3) == [4, 6, 10]
        assert found(below=0) == [2]
        assert found(at_most=0) == [2, 4]
        assert found(above=0, at_most=0.1) == [3, 5]
        assert found(at_least=4, at_most=8) == found(at_least=0.1, below=0.1) == found(at_least=float("nan")) == []
        assert found(above=2**53, at_most=2**53 + 2) == [6]
        assert found() == found(at_least=float("-inf"), at_most=float("inf")) == [1, 2, 3, 4, 5, 6, 10]
        assert found("n.x", at_least=3) == [9]
        assert found("x", at_least=0) == found("n.", at_least=0) == []

    def test_ranges_follow_changes_of_metadata(self, store: MetadataStore) -> None:
        """A changed number is found by its new value, and a removed one by none."""
        one, two = insert(store, factories.memory("1", metadata={"n": 1}), factories.memory("2", metadata={"n": 1}))
        revise(store, one, metadata={"n": 5})
        revise(store, two, metadata={})

        assert self.rows(store, Range(Field.METADATA, path="n", at_least=5)) == [1]
        assert self.rows(store, Range(Field.METADATA, path="n", at_most=4)) == []

    def test_keys_by_prefix(self, store: MetadataStore) -> None:
        """A key begins with the prefix, character by character; memories that lost their key with their life, too."""
        keys = ("a", "a/b", "a/c", "A/b", "a%", "a_", "", "世", "世界", "a\U0010ffff", "a\ud7ffx", "b")
        insert(store, *(factories.memory(f"{n}", key=key) for n, key in enumerate(keys)))
        insert(store, factories.memory("gone", key="a/b", status=Status.DELETED))

        def found(*prefixes: str) -> list[int]:
            return self.rows(store, AnyOf(Field.KEY, prefixes, Match.PREFIX))

        assert found("a/") == [2, 3, 13]
        assert found("a") == [1, 2, 3, 5, 6, 10, 11, 13]
        assert found("世界", "A") == [4, 9]
        assert found("世") == [8, 9]
        assert found("a\U0010ffff") == [10]
        assert found("a\ud7ff") == [11]
        assert found("a%/", "nothing") == found() == []
        assert self.rows(store, Not(AnyOf(Field.KEY, ("a",), Match.PREFIX))) == [4, 7, 8, 9, 12]
        assert self.rows(store, And((AnyOf(Field.KEY, ("a",), Match.PREFIX), AnyOf(Field.STATUS, ("DELETED",))))) == [
            13
        ]

    @pytest.mark.parametrize("text", ODD, ids=lambda text: text[:12])
    def test_odd_strings_have_no_meaning(self, store: MetadataStore, text: str) -> None:
        """No character is special in a value."""
        insert(
            store,
            factories.memory("1", category=text, tags=(text,), metadata={text: text}, key=text, session_id=text),
            factories.memory("2", category="a", tags=("a",), metadata={"a": "a"}, key="a", session_id="a"),
        )

        for field in (Field.CATEGORY, Field.TAGS, Field.KEY, Field.SESSION_ID):
            assert self.rows(store, AnyOf(field, (text,))) == [1]
            assert self.rows(store, Not(AnyOf(field, (text, "b")))) == [2]
        assert self.rows(store, AnyOf(Field.METADATA, (metadata_term(text, text),))) == [1]

    def test_tests_are_combined(self, store: MetadataStore) -> None:
        """And, Or and Not nest; empty ones are everything and nothing."""
        insert(
            store,
            *(factories.memory(f"{n}", importance=n, category="even" if n % 2 == 0 else "odd") for n in range(1, 6)),
        )
        even, high = AnyOf(Field.CATEGORY, ("even",)), Range(Field.IMPORTANCE, at_least=4)

        assert self.rows(store, And((even, high))) == [4]
        assert self.rows(store, Or((even, high))) == [2, 4, 5]
        assert self.rows(store, Not(Or((even, high)))) == [1, 3]
        assert self.rows(store, And((Not(even), Not(And((even, high))), high))) == [5]
        assert self.rows(store, And(())) == self.rows(store, Not(Or(()))) == [1, 2, 3, 4, 5]
        assert self.rows(store, Or(())) == self.rows(store, Not(And(()))) == []
        assert self.rows(store, And((And(()), even, Not(Or(()))))) == [2, 4]

    def test_deep_and_wide_trees(self, store: MetadataStore) -> None:
        """A tree as deep and as wide as requests may be is answered."""
        insert(store, *(factories.memory(f"{n}", category=f"c{n}") for n in range(1, 4)))
        tree: Filter = AnyOf(Field.CATEGORY, tuple(f"c{number}" for number in range(2, 258)))
        for _ in range(MAX_DEPTH - 1):
            tree = Not(And((Or((tree, AnyOf(Field.CATEGORY, ("c",)))), Not(AnyOf(Field.CATEGORY, ("c1",))))))

        assert self.rows(store, tree) == [1]
        assert self.rows(store, Not(tree)) == [2, 3]

    def test_deleted_memories_match_too(self, store: MetadataStore) -> None:
        """A list holds memories of every status unless the filter says otherwise."""
        insert(store, *(factories.memory(status.value, status=status) for status in Status))

        assert self.rows(store, And(())) == list(range(1, len(Status) + 1))

    @pytest.mark.parametrize("field", [*STRINGS, *NUMBERS], ids=str)
    def test_keyword_hits_are_filtered(self, store: MetadataStore, field: Field) -> None:
        """The search in the keyword table keeps to the filter, in every field."""
        one: Any
        other: Any
        one, other = STRINGS[field] if field in STRINGS else NUMBERS[field]
        memories = (valued(1, field, one), valued(2, field, other))
        insert(store, *(replace(memory, keywords=(Keyword("w", 1.0),)) for memory in memories))

        def rows(where: Filter) -> list[int]:
            return [hit.entry_id >> 16 for hit in store.memories.keyword_hits(["w"], reach=ADA, where=where, limit=9)]

        live = {1: [1], 2: [] if field is Field.STATUS else [2]}
        assert rows(AnyOf(field, (one,))) == live[1]
        assert rows(AnyOf(field, (other,))) == live[2]
        assert rows(Not(AnyOf(field, (one,)))) == live[2]
