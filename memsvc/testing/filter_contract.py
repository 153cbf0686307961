"""The meaning of the filter tree, as every index must hold it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import (
    MAX_DEPTH,
    NUMBERS,
    STORE_ONLY,
    VALIDITY,
    And,
    AnyOf,
    Begun,
    Field,
    Filter,
    Match,
    Not,
    Or,
    Range,
    key_test,
    metadata_term,
    number_test,
)
from memsvc.domain.index_entries import Attributes, attributes_of
from memsvc.domain.memory import Json, Kind, Layer, Status, Tier
from memsvc.testing import factories
from memsvc.testing.derived_index import E, FullIndex, IndexSeams, M
from memsvc.testing.factories import NOW

LATER = NOW + timedelta(days=1, microseconds=1)
STRINGS: dict[Field, tuple[str, str]] = {
    Field.AGENT_ID: ("coder", "coder-2"),
    Field.SESSION_ID: ("s1", "s10"),
    Field.LAYER: (Layer.CORE.value, Layer.SESSION.value),
    Field.KIND: (Kind.TASK.value, Kind.NOTE.value),
    Field.CATEGORY: ("work", "Work"),
    Field.TIER: (Tier.ACTIVE.value, Tier.ARCHIVED.value),
    Field.STATUS: (Status.ACTIVE.value, Status.ARCHIVED.value),
    Field.SPEAKER: ("Anna", ""),
}
"""Two values of each field that holds one string; each is no prefix trick for the other."""
VALUES: dict[Field, tuple[int, int]] = {
    Field.ROW: (1, 2),
    Field.IMPORTANCE: (2, 4),
    Field.CONFIDENCE: (0, 1),
    Field.CREATE_TIME: (to_micros(NOW), to_micros(LATER)),
    Field.UPDATE_TIME: (to_micros(NOW), to_micros(LATER)),
    Field.EVENT_TIME: (to_micros(NOW), to_micros(LATER)),
    Field.EXPIRE_TIME: (to_micros(NOW), to_micros(LATER)),
    Field.VALID_FROM: (to_micros(NOW), to_micros(LATER)),
    Field.VALID_TO: (to_micros(NOW), to_micros(LATER)),
}
"""A smaller and a larger value of each field that holds a number."""
ODD = [
    "it's",
    'say "hi"',
    "a*",
    "a?",
    "a:b AND c",
    "(",
    "\\",
    "%",
    "_",
    " ",
    "a b",
    "naïve",
    "你好，世界",
    "🙂",
    "x" * 2000,
]
ODD += ["null", "true", "1", "[1]", "{}", "a\nb", "a\tb", "nul\x00byte", "nul", "长" * 30_000, "ｆｕｌｌ", "\u202eltr"]


def everything(row: int, /, **values: Any) -> Attributes:
    """Return attributes that have a value in every field; *values* are those of `Attributes`."""
    times = {"event_time": NOW, "expire_time": LATER, "valid_from": NOW, "valid_to": LATER}
    plain = factories.attributes(row, **times, tags=("a",), metadata={"k": "v"})
    return plain._replace(**values)


class FilteringContract(IndexSeams[E, M]):
    """Each sort of test on each field, alone, combined and negated, before the best are chosen."""

    def put(self, live: FullIndex[E, M], *memories: Attributes) -> None:
        """Give each memory one entry."""
        live.replace(self.changes(*memories))

    def test_a_start_that_had_passed_at_the_last_write_has_begun(self, live: FullIndex[E, M]) -> None:
        """Whatever the clock is set back to; one that was to come begins in its time if it was written before that."""
        now, later = to_micros(NOW), to_micros(LATER)
        times = {"expire_time": None, "valid_from": later, "valid_to": None}
        self.put(
            live,
            everything(1, **times | {"valid_from": None}),
            everything(2, **times, create_time=later, update_time=now),
            everything(3, **times, create_time=now, update_time=later),
            everything(4, **times, create_time=now, update_time=now),
        )

        assert self.rows(live, where=Begun.at(later)) == [1, 2, 3, 4]
        assert self.rows(live, where=Begun.at(later - 1)) == self.rows(live, where=Begun.at(now)) == [1, 2, 3]
        assert self.rows(live, where=And((Begun.at(now), AnyOf(Field.TAGS, ("a",))))) == [1, 2, 3]

    @pytest.mark.parametrize("field", STRINGS, ids=str)
    def test_any_of_strings_compares_whole(self, live: FullIndex[E, M], field: Field) -> None:
        """A string matches exactly, not by prefix, case or part; several values match any of them."""
        one, other = STRINGS[field]
        self.put(live, *(everything(row, **{field.value: v}) for row, v in ((1, one), (2, other))))

        assert self.rows(live, where=AnyOf(field, (one,))) == [1]
        assert self.rows(live, where=AnyOf(field, (other,))) == [2]
        assert self.rows(live, where=AnyOf(field, (one, other, "?"))) == [1, 2]
        assert self.rows(live, where=AnyOf(field, (one + "x", one[:-1] + "_", one.swapcase() + " "))) == []
        assert self.rows(live, where=AnyOf(field, ())) == []
        assert self.rows(live, where=Not(AnyOf(field, (one,)))) == [2]

    @pytest.mark.parametrize("field", VALUES, ids=str)
    def test_any_of_numbers(self, live: FullIndex[E, M], field: Field) -> None:
        """A number matches when it is one of the values."""
        low, high = VALUES[field]
        self.put(live, *self._numbered(field))

        assert self.rows(live, where=AnyOf(field, (low,))) == [1]
        assert self.rows(live, where=AnyOf(field, (high, low, 77))) == [1, 2]
        assert self.rows(live, where=AnyOf(field, (high + 1,))) == []
        assert self.rows(live, where=AnyOf(field, ())) == []
        assert self.rows(live, where=Not(AnyOf(field, (low,)))) == [2]

    @pytest.mark.parametrize("field", VALUES, ids=str)
    def test_range_bounds_are_exact(self, live: FullIndex[E, M], field: Field) -> None:
        """Each bound includes or excludes the very number it names, to the microsecond."""
        low, high = VALUES[field]
        self.put(live, *self._numbered(field))

        def found(**bounds: Any) -> list[int]:
            return self.rows(live, where=Range(field, **bounds))

        assert found(at_least=low) == found(at_most=high) == found(at_least=low, at_most=high) == [1, 2]
        assert found(above=low) == found(at_least=high) == found(above=low, at_most=high) == [2]
        assert found(below=high) == found(at_most=low) == found(at_least=low, below=high) == [1]
        assert found(above=high) == found(below=low) == found(above=low, below=high) == []
        assert found(at_least=high, at_most=low) == []
        assert found(above=low, at_least=low, below=high + 1, at_most=high) == [2]
        assert found() == [1, 2]

    @pytest.mark.parametrize("field", VALUES, ids=str)
    def test_range_bounds_may_be_anything(self, live: FullIndex[E, M], field: Field) -> None:
        """Bounds between whole numbers, and far outside of what is stored, work."""
        low, high = VALUES[field]
        self.put(live, *self._numbered(field))

        def found(**bounds: Any) -> list[int]:
            return self.rows(live, where=Range(field, **bounds))

        assert found(above=low + 0.5) == found(at_least=high - 0.5) == [2]
        assert found(below=low + 0.5) == found(at_most=high - 0.5) == [1]
        assert found(above=-1e30, below=1e30) == found(at_least=float("-inf"), at_most=float("inf")) == [1, 2]
        assert found(above=1e30) == found(at_most=-1e30) == found(above=float("inf")) == []

    def _numbered(self, field: Field) -> list[Attributes]:
        return [everything(row, **{field.value: VALUES[field][row - 1]}) for row in (1, 2)]

    def test_range_of_fractions(self, live: FullIndex[E, M]) -> None:
        """Confidence is compared as the fraction it is."""
        self.put(live, *(factories.attributes(row, confidence=row / 10) for row in range(1, 6)))

        assert self.rows(live, where=Range(Field.CONFIDENCE, at_least=0.2, below=0.4)) == [2, 3]
        assert self.rows(live, where=Range(Field.CONFIDENCE, above=0.3)) == [4, 5]
        assert self.rows(live, where=AnyOf(Field.CONFIDENCE, (0, 1))) == []

    @pytest.mark.parametrize("field", [Field.EVENT_TIME, Field.EXPIRE_TIME, *sorted(VALIDITY)], ids=str)
    def test_absent_number_matches_only_the_negation(self, live: FullIndex[E, M], field: Field) -> None:
        """A memory without the time is in no range, and in the negation of each."""
        self.put(live, factories.attributes(1), everything(2))
        zero = to_micros(NOW) * 2

        assert self.rows(live, where=Range(field, below=zero)) == [2]
        assert self.rows(live, where=Range(field, at_least=0)) == [2]
        assert self.rows(live, where=Range(field)) == [2]
        assert self.rows(live, where=Not(Range(field, below=zero))) == [1]
        assert self.rows(live, where=Not(Range(field, above=zero))) == [1, 2]
        assert self.rows(live, where=AnyOf(field, (0,))) == []
        assert self.rows(live, where=Or((Not(Range(field)), Range(field, at_least=1)))) == [1, 2]

    def test_any_of_tags(self, live: FullIndex[E, M]) -> None:
        """One common tag is enough; tags are whole strings; no tags match only a negation."""
        tags = {1: ("red", "blue"), 2: ("blue",), 3: (), 4: ("blue sky", "Red")}
        self.put(live, *(factories.attributes(row, tags=value) for row, value in tags.items()))

        assert self.rows(live, where=AnyOf(Field.TAGS, ("blue",))) == [1, 2]
        assert self.rows(live, where=AnyOf(Field.TAGS, ("red", "sky", "blue sky"))) == [1, 4]
        assert self.rows(live, where=AnyOf(Field.TAGS, ())) == []
        assert self.rows(live, where=Not(AnyOf(Field.TAGS, ("blue",)))) == [3, 4]
        both = And((AnyOf(Field.TAGS, ("red",)), AnyOf(Field.TAGS, ("blue",))))
        assert self.rows(live, where=both) == [1]

    def test_any_of_metadata(self, live: FullIndex[E, M]) -> None:
        """Metadata match by path and value, in objects and lists, with equal numbers equal."""
        self.put(
            live,
            factories.attributes(1, metadata={"lang": "de", "n": 1, "deep": {"x": [True, None]}}),
            factories.attributes(2, metadata={"lang": ["de", "fr"], "n": 1.0}),
            factories.attributes(3, metadata={"lang.de": True}),
            factories.attributes(4),
        )

        def found(path: str, value: bool | float | str | None) -> list[int]:  # noqa: FBT001 - a value of metadata
            return self.rows(live, where=AnyOf(Field.METADATA, (metadata_term(path, value),)))

        assert found("lang", "de") == found("n", 1) == [1, 2]
        assert found("lang", "fr") == [2]
        assert found("deep.x", None) == found("deep.x", True) == [1]  # noqa: FBT003
        assert found("deep", "x") == found("n", "1") == found("lang", "d") == []

    def test_ranges_of_metadata_numbers(self, live: FullIndex[E, M]) -> None:
        """Numbers in metadata are found by ranges, exactly, as the terms that the engine makes of them."""
        numbers: dict[int, Json] = {
            1: 3, 2: -3, 3: 0.1, 4: [1e300, -0.0], 5: 5e-324, 6: 2**53 + 2, 7: "3", 8: True, 9: [None, {"x": 3}],
        }  # fmt: skip
        self.put(live, *(factories.attributes(row, metadata={"n": one}) for row, one in numbers.items()))

        def found(path: str = "n", **bounds: Any) -> list[int]:
            return self.rows(live, where=number_test(Range(Field.METADATA, path=path, **bounds)))

        assert found(at_least=3) == [1, 4, 6]
        assert found(above=3) == [4, 6]
        assert found(below=0) == [2]
        assert found(at_most=0) == [2, 4]
        assert found(above=0, at_most=0.1) == [3, 5]
        assert found(at_least=0.1, below=0.1) == found(above=3, at_most=2) == found(at_least=float("nan")) == []
        assert found(at_least=-3, at_most=3) == [1, 2, 3, 4, 5]
        assert found(above=2**53, at_most=2**53 + 2) == [6]
        assert found() == found(at_least=float("-inf"), at_most=float("inf")) == [1, 2, 3, 4, 5, 6]
        assert found("n.x", at_least=3) == [9]
        assert found("x", at_least=0) == found("n.", at_least=0) == []

    def test_folders_of_keys(self, live: FullIndex[E, M]) -> None:
        """Keys are found by their folders, whole and exactly, as the terms that the engine makes of them."""
        keys = ("a/b/c", "a/b", "a/bc/d", "A/b/c", "a b/c", "世/界", "a", "", "/a", "a=1/x")
        held = {row: factories.memory(key=key, row=row) for row, key in enumerate(keys, 1)}
        self.put(live, *map(attributes_of, held.values()))

        def found(*prefixes: str) -> list[int]:
            test = key_test(AnyOf(Field.KEY, prefixes, Match.PREFIX))
            assert test is not None
            return self.rows(live, where=test)

        assert found("a/") == [1, 2, 3]
        assert found("a/b/") == [1]
        assert found("a/bc/", "世/") == [3, 6]
        assert found("a b/") == [5]
        assert found("/") == [9]
        assert found("a=1/") == [10]
        assert found("b/", "a/b/c/") == []
        assert key_test(AnyOf(Field.KEY, ("a/b",), Match.PREFIX)) is None

    @pytest.mark.parametrize(
        ("where", "rows"),
        [
            (And(()), [1, 2, 3]),
            (Or(()), []),
            (Not(And(())), []),
            (Not(Or(())), [1, 2, 3]),
            (Not(Not(AnyOf(Field.ROW, (1,)))), [1]),
            (And((AnyOf(Field.ROW, (1, 2)), AnyOf(Field.ROW, (2, 3)))), [2]),
            (Or((AnyOf(Field.ROW, (1,)), AnyOf(Field.ROW, (3,)))), [1, 3]),
            (Or((Or(()), AnyOf(Field.ROW, (1,)))), [1]),
            (Or((And(()), AnyOf(Field.ROW, (1,)))), [1, 2, 3]),
            (And((Not(AnyOf(Field.ROW, (1,))), Not(AnyOf(Field.ROW, (2,))))), [3]),
            (Or((Not(AnyOf(Field.ROW, (1,))), Not(AnyOf(Field.ROW, (2,))))), [1, 2, 3]),
            (Not(Or((AnyOf(Field.ROW, (1,)), Range(Field.ROW, at_least=3)))), [2]),
            (Not(And((AnyOf(Field.ROW, (1, 2)), Not(Range(Field.ROW, above=1))))), [2, 3]),
            (And((And((And(()),)), Or((Not(Or(())),)))), [1, 2, 3]),
        ],
    )
    def test_trees(self, live: FullIndex[E, M], where: Filter, rows: list[int]) -> None:
        """Conjunctions, disjunctions and negations nest; empty ones mean all and nothing."""
        self.put(live, *(factories.attributes(row) for row in (1, 2, 3)))

        assert self.rows(live, where=where) == rows

    def test_deep_and_wide_trees(self, live: FullIndex[E, M]) -> None:
        """The deepest tree and the longest list of values that a request may hold work; rows may be thousands."""
        self.put(live, *(factories.attributes(row) for row in (1, 2, 3)))
        deep: Filter = AnyOf(Field.ROW, (2,))
        for level in range(2 * MAX_DEPTH):
            deep = (And((deep, And(()))), Or((deep, Or(()))), Not(Not(deep)))[level % 3]

        assert self.rows(live, where=deep) == [2]
        assert self.rows(live, where=AnyOf(Field.ROW, tuple(range(2, 5000)))) == [2, 3]

    def test_no_filter_can_leave_the_reach(self, live: FullIndex[E, M]) -> None:
        """Whatever the filter says, other owners' entries stay out."""
        self.put(live, factories.attributes(1), factories.attributes(2, user_id="bob"))
        trees: list[Filter] = [Not(Or(())), Or((And(()), AnyOf(Field.ROW, (2,)))), AnyOf(Field.ROW, (1, 2))]

        assert [self.rows(live, where=where) for where in trees] == [[1], [1], [1]]

    def test_filters_come_before_the_limit(self, live: FullIndex[E, M]) -> None:
        """The one entry that matches is found though many better ones do not."""
        better = {row: [self.entry(factories.attributes(row))] for row in range(1, 40)}
        live.replace({**better, 50: [self.entry(factories.attributes(50, tags=("x",)), strength=0.1)]})

        hits = self.hits(live, where=AnyOf(Field.TAGS, ("x",)), limit=1)

        assert [hit.entry_id >> 16 for hit in hits] == [50]

    def test_filters_leave_scores_alone(self, live: FullIndex[E, M]) -> None:
        """A filter decides what is found, not how well it scores."""
        self.put(live, everything(1), everything(2))
        where = And((AnyOf(Field.TAGS, ("a",)), Range(Field.EVENT_TIME, at_least=0), Not(AnyOf(Field.KIND, ("x",)))))

        plain, filtered = self.hits(live), self.hits(live, where=where)

        assert [hit.entry_id for hit in filtered] == [hit.entry_id for hit in plain]
        assert [hit.score for hit in filtered] == pytest.approx([hit.score for hit in plain])

    @pytest.mark.parametrize("field", [Field.CATEGORY, Field.TAGS, Field.METADATA], ids=str)
    def test_odd_strings_are_kept_exactly(self, live: FullIndex[E, M], field: Field) -> None:
        """Quotes, wildcards, spaces, every script, NUL, and very long strings match themselves and nothing else."""
        value: dict[int, Any] = {row: text if field is Field.CATEGORY else (text,) for row, text in enumerate(ODD)}
        self.put(live, *(everything(row, **{field.value: value[row]}) for row in value))

        found = [self.rows(live, where=AnyOf(field, (text,))) for text in ODD]

        assert found == [[row] for row in range(len(ODD))]
        assert self.rows(live, where=AnyOf(field, ("长" * 29_999,))) == []

    def test_every_number_is_tried(self) -> None:
        """The contract knows every field of numbers that an index filters by."""
        assert set(VALUES) == NUMBERS - STORE_ONLY


# Filters on times far from ours, in an index: exact to the microsecond there, too.


FIELDS = (Field.CREATE_TIME, Field.UPDATE_TIME, Field.EVENT_TIME, Field.EXPIRE_TIME, Field.VALID_FROM, Field.VALID_TO)
LAST = to_micros(datetime.max.replace(tzinfo=UTC))
FIRST = to_micros(datetime.min.replace(tzinfo=UTC))
PLACES = {
    "first": FIRST + 2,
    "before-the-double": -(2**53),
    "after-the-double": 2**53,
    "2300": to_micros(datetime(2300, 1, 1, tzinfo=UTC)),
    "power-of-two": 2**57,
    "last": LAST - 2,
}
"""Where doubles are as far apart as neighbouring integers, or nearly so; see `PLACES` +- 2."""


class FarTimesContract(IndexSeams[E, M]):
    """Ranges and equality among neighbours of one microsecond."""

    @pytest.mark.parametrize("field", FIELDS, ids=str)
    @pytest.mark.parametrize("place", PLACES)
    def test_far_times_are_told_apart(self, live: FullIndex[E, M], field: Field, place: str) -> None:
        """Of times one microsecond apart, in any year, each bound and each equality takes the right ones."""
        times = {row: PLACES[place] + row - 3 for row in range(1, 6)}
        live.replace(self.changes(*(_at(row, field, time) for row, time in times.items())))

        for row, time in times.items():
            found = [self.rows(live, where=where) for where in _tests(field, time)]
            below, above = list(range(1, row)), list(range(row + 1, 6))
            assert found == [[row], below + above, below, [*below, row], above, [row, *above], [row], []]

    def test_every_time_lies_between_the_limits(self, live: FullIndex[E, M]) -> None:
        """Bounds at the first and the last moment, and beyond them, leave all in or all out."""
        times = {1: FIRST, 2: 0, 3: LAST}
        live.replace(self.changes(*(_at(row, Field.EVENT_TIME, time) for row, time in times.items())))

        def found(**bounds: Any) -> list[int]:
            return self.rows(live, where=Range(Field.EVENT_TIME, **bounds))

        assert found(at_least=FIRST) == found(at_most=LAST) == found(above=FIRST - 1) == found(below=LAST + 1)
        assert found(at_least=FIRST, at_most=LAST) == [1, 2, 3]
        assert found(above=FIRST, below=LAST) == [2]
        assert found(below=FIRST) == found(above=LAST) == found(at_most=FIRST - 1) == found(at_least=LAST + 1) == []

    def test_far_range_spans_what_lies_between(self, live: FullIndex[E, M]) -> None:
        """Two bounds far apart, each between two doubles, take the values between them, and no others."""
        day = timedelta(days=1) // timedelta(microseconds=1)
        low, high = PLACES["2300"] + 1, PLACES["last"] - day
        held = (low - 1, low, low + 1, low + day, high - day, high - 1, high, high + 1)
        live.replace(self.changes(*(_at(row, Field.VALID_TO, time) for row, time in enumerate(held))))

        assert self.rows(live, where=Range(Field.VALID_TO, at_least=low, at_most=high)) == [1, 2, 3, 4, 5, 6]
        assert self.rows(live, where=Range(Field.VALID_TO, above=low, below=high)) == [2, 3, 4, 5]


def _at(row: int, field: Field, time: int) -> Attributes:
    values: dict[str, Any] = {field.value: time}
    return factories.attributes(row)._replace(**values)


def _tests(field: Field, time: int) -> list[Filter]:
    equal = AnyOf(field, (time,))
    return [
        equal,
        And((Range(field, at_least=FIRST), Not(equal))),
        Range(field, below=time),
        Range(field, at_most=time),
        Range(field, above=time),
        Range(field, at_least=time),
        Range(field, at_least=time, at_most=time),
        Range(field, above=time, below=time + 1),
    ]
