"""The contract of `memsvc.ports.indexes.LexicalIndex`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.filters import Filter
from memsvc.domain.index_entries import Attributes, Hit, LexicalEntry, LexicalManifest, View, entry_id
from memsvc.domain.scope import Reach
from memsvc.ports.indexes import LexicalIndex
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH, FullIndex, chunk
from memsvc.testing.filter_contract import FilteringContract
from memsvc.testing.index_entries import EntriesContract
from memsvc.testing.index_generations import GenerationsContract

NEEDLE = "needle"
ODD_TERMS = [
    "AND",
    "OR",
    "NOT",
    "a:b",
    "body:x",
    '"',
    "'",
    "a*",
    "?",
    "~",
    "^2",
    "+a",
    "-a",
    "(",
    ")",
    "[a TO b]",
    "\\",
]
ODD_TERMS += [
    "{}",
    "c++",
    "a/b",
    "x@y.org",
    "🙂",
    "👩‍👩‍👧",
    "naïve",
    "naïve".encode().decode("latin-1"),
    "你好",
    "東京都",
    "ｗ",
]
ODD_TERMS += ["a b", "a\tb", "a\u3000b", "nul\x00x", "Anna", "anna", "the", "1", "1.0", "y" * 300, "長" * 100, "", " "]


def lexical_entry(attributes: Attributes, terms: Sequence[str], *, ordinal: int = 0) -> LexicalEntry:
    """Return an entry of the memory that the attributes are of."""
    return LexicalEntry(entry_id(attributes.row, View.CHUNK, ordinal), terms, attributes)


class LexicalIndexContract(
    EntriesContract[LexicalEntry, LexicalManifest],
    GenerationsContract[LexicalEntry, LexicalManifest],
    FilteringContract[LexicalEntry, LexicalManifest],
):
    """Subclass it, give the fixture `index`, and `close` and `reopen` where they apply: see IndexSeams.

    *counts_all_owners*: the rarity of a term is that among the entries of all owners.
    """

    counts_all_owners: ClassVar[bool] = False

    def manifest_of(self, generation: int) -> LexicalManifest:
        """Return a manifest with a value in every field."""
        return LexicalManifest(generation=generation, position=1000 + generation, analysis="分析/1 “x”")

    def entry(self, attributes: Attributes, *, ordinal: int = 0, strength: float = 1.0) -> LexicalEntry:
        """Return an entry in which other words thin out the one that is searched."""
        return lexical_entry(attributes, [NEEDLE, *["hay"] * round(20 * (1 - strength))], ordinal=ordinal)

    def hits(
        self,
        index: FullIndex[LexicalEntry, LexicalManifest],
        *,
        reach: Reach = REACH,
        where: Filter | None = None,
        limit: int = 100,
        deadline: Deadline = NO_HURRY,
    ) -> Sequence[Hit]:
        """Search for the needle."""
        lexical = cast("LexicalIndex", index)
        return lexical.search([NEEDLE], reach=reach, where=where, limit=limit, deadline=deadline)

    def write(self, index: FullIndex[LexicalEntry, LexicalManifest], *texts: Sequence[str]) -> None:
        """Give the memories from row 1 on one entry each."""
        index.replace(
            {row: [lexical_entry(factories.attributes(row), terms)] for row, terms in enumerate(texts, start=1)}
        )

    def write_elsewhere(self, index: LexicalIndex, *texts: Sequence[str]) -> None:
        """Give memories of another owner, from row 1 001 on, one entry each."""
        index.replace(
            {
                row: [lexical_entry(factories.attributes(row, user_id="ada-else"), terms)]
                for row, terms in enumerate(texts, start=1_001)
            }
        )

    def ranked(self, index: LexicalIndex, *terms: str) -> list[int]:
        """Return the rows that a search finds, best first."""
        hits = index.search(terms, reach=REACH, limit=100, deadline=NO_HURRY)
        assert all(hit.score > 0 for hit in hits)
        return [hit.entry_id >> 16 for hit in hits]

    def test_one_term_is_enough(self, live: LexicalIndex) -> None:
        """An entry is found when it holds any of the terms, and ranks higher the more it holds."""
        self.write(live, ["tea", "milk"], ["tea", "milk", "sugar"], ["cake", "plate"], ["sugar", "bowl"])

        assert self.ranked(live, "tea", "sugar") == [2, 4, 1] or self.ranked(live, "tea", "sugar") == [2, 1, 4]
        assert self.ranked(live, "cake", "jam") == [3]

    def test_no_terms_find_nothing(self, live: LexicalIndex) -> None:
        """Neither no terms nor unknown ones are an error."""
        self.write(live, ["tea"], ["milk"])

        assert self.ranked(live) == []
        assert self.ranked(live, "jam") == []

    def test_entry_without_terms_is_held_but_not_found(self, live: LexicalIndex) -> None:
        """An entry may have nothing to be found by."""
        self.write(live, [], ["tea"])

        assert self.ranked(live, "tea") == [2]
        assert live.count() == 2
        assert sorted(listed.entry_id for listed in live.inventory()) == [chunk(1), chunk(2)]

    def test_rarer_term_counts_more(self, live: LexicalIndex) -> None:
        """Of two entries alike, the one with the term that fewer entries hold comes first."""
        self.write(live, ["tea", "cup"], ["tea", "pot"], ["rum", "mug"], ["tea", "bag"])

        assert self.ranked(live, "tea", "rum") == [3, 1, 2, 4]

    def test_rarity_is_that_among_the_entries_of_the_owner(self, live: LexicalIndex) -> None:
        """A ranking does not depend on the words that others use."""
        if self.counts_all_owners:
            pytest.skip("The index counts the entries of all owners.")
        self.write(live, ["tea", "cup"], ["tea", "pot"], ["rum", "mug"], ["tea", "bag"])
        self.write_elsewhere(live, *(["rum", "keg"] for _ in range(40)))

        assert self.ranked(live, "tea", "rum") == [3, 1, 2, 4]

    def test_terms_of_others_are_unknown(self, live: LexicalIndex) -> None:
        """A term that only entries of another owner hold is matched one edit away."""
        if self.counts_all_owners:
            pytest.skip("The index counts the entries of all owners.")
        self.write(live, ["kitten"])
        self.write_elsewhere(live, ["mitten"])

        assert self.ranked(live, "mitten") == [1]

    def test_shorter_entry_comes_first(self, live: LexicalIndex) -> None:
        """The same term counts more among fewer others."""
        self.write(live, ["tea", *"abcdefgh"], ["tea", "a"], ["tea", *"abcd"])

        assert self.ranked(live, "tea") == [2, 3, 1]

    def test_repetition_raises_the_score(self, live: LexicalIndex) -> None:
        """Of entries of equal length, the one that repeats the term comes first."""
        self.write(live, ["tea", "a", "b", "c"], ["tea", "tea", "tea", "c"], ["tea", "tea", "b", "c"])

        assert self.ranked(live, "tea") == [2, 3, 1]

    def test_order_of_terms_does_not_matter(self, live: LexicalIndex) -> None:
        """A search is for a bag of terms."""
        self.write(live, ["tea", "milk"], ["milk", "cup", "tea"], ["milk"])

        assert self.ranked(live, "tea", "milk") == self.ranked(live, "milk", "tea")

    def test_terms_match_whole(self, live: LexicalIndex) -> None:
        """No prefix, part, other case or word form matches."""
        self.write(live, ["tea"], ["teas"], ["TEA"], ["tea-pot"], ["te"])

        assert self.ranked(live, "tea") == [1]
        assert self.ranked(live, "te") == [5]
        assert self.ranked(live, "pot") == []

    def test_odd_terms_match_themselves(self, live: LexicalIndex) -> None:
        """No character has a meaning: operators, quotes, spaces, emoji, NUL and long terms are plain terms."""
        self.write(live, *([term] for term in ODD_TERMS))

        assert [self.ranked(live, term) for term in ODD_TERMS] == [[row] for row in range(1, len(ODD_TERMS) + 1)]

    def test_odd_terms_stand_beside_others(self, live: LexicalIndex) -> None:
        """An odd term changes nothing for the other terms of its entry."""
        self.write(live, *(["tea", term, "milk"] for term in ODD_TERMS))

        assert [self.ranked(live, term) for term in ODD_TERMS] == [[row] for row in range(1, len(ODD_TERMS) + 1)]
        assert self.ranked(live, "tea") == self.ranked(live, "milk") == list(range(1, len(ODD_TERMS) + 1))

    def test_enormous_terms_are_kept(self, live: LexicalIndex) -> None:
        """A term of any length is found, and only by itself."""
        self.write(live, ["長" * 30_000, "tea"], ["長" * 29_999])

        assert self.ranked(live, "長" * 30_000) == self.ranked(live, "tea") == [1]
        assert self.ranked(live, "長" * 29_999) == [2]

    def test_long_entries_are_kept(self, live: LexicalIndex) -> None:
        """The last of thousands of terms is found."""
        self.write(live, [f"w{number}" for number in range(5000)], ["w4999"])

        assert self.ranked(live, "w4999") == [2, 1]
        assert self.ranked(live, "w2500") == [1]

    def test_many_terms_are_taken(self, live: LexicalIndex) -> None:
        """A search may hold hundreds of terms, and one of them several times."""
        self.write(live, ["w1"], ["w700"], ["tea"])

        assert sorted(self.ranked(live, *(f"w{number}" for number in range(800)), "w1", "w1")) == [1, 2]

    def test_replaced_terms_are_gone(self, live: LexicalIndex) -> None:
        """The terms given last count."""
        self.write(live, ["tea"])
        self.write(live, ["rum"])

        assert (self.ranked(live, "tea"), self.ranked(live, "rum")) == ([], [1])

    def test_limit_cuts_equal_scores_by_entry(self, live: LexicalIndex) -> None:
        """Of many entries of equal score those with the smallest numbers are returned."""
        for start in (60, 30, 0):
            rows = range(start + 30, start, -1)
            live.replace({row: [self.entry(factories.attributes(row))] for row in rows})

        assert [hit.entry_id for hit in self.hits(live, limit=5)] == [chunk(row) for row in range(1, 6)]

    @pytest.mark.parametrize("term", ["kiten", "kittten", "kitxen", "kittne", "itten", "kittenx", "xkitten"])
    def test_unknown_term_is_matched_one_edit_away(self, live: LexicalIndex, term: str) -> None:
        """A missing, doubled, wrong or swapped character in a term that nothing holds is forgiven."""
        self.write(live, ["kitten", "basket"], ["mitten"], ["tea"], ["kit"])

        assert 1 in self.ranked(live, term)
        assert set(self.ranked(live, term)) <= {1, 2}

    @pytest.mark.parametrize("term", ["kixxen", "kitt", "kittenxy", "KITTEN", "ktitne"])
    def test_two_edits_are_too_many(self, live: LexicalIndex, term: str) -> None:
        """Further away nothing is matched."""
        self.write(live, ["kitten"])

        assert self.ranked(live, term) == []

    def test_short_terms_are_not_forgiven(self, live: LexicalIndex) -> None:
        """Terms of four characters match exactly alone; the length is in characters, not bytes."""
        self.write(live, ["milks"], ["mild"], ["日本語学"])

        assert self.ranked(live, "milk") == []
        assert self.ranked(live, "日本語文") == []

    def test_forgiveness_counts_characters(self, live: LexicalIndex) -> None:
        """One character of several bytes is one edit."""
        self.write(live, ["überraschung"], ["東京都渋谷区"])

        assert self.ranked(live, "uberraschung") == [1]
        assert self.ranked(live, "東京都澁谷区") == [2]

    def test_known_term_is_matched_exactly(self, live: LexicalIndex) -> None:
        """A term that an entry holds does not match its neighbours, though they are one edit away."""
        self.write(live, ["kitten"], ["mitten"], ["bitten"])

        assert self.ranked(live, "mitten") == [2]

    def test_term_of_removed_entries_is_unknown(self, live: LexicalIndex) -> None:
        """A term that only removed entries held is matched one edit away again."""
        self.write(live, ["kitten"], ["mitten"])
        live.replace({2: ()})

        assert self.ranked(live, "mitten") == [1]

    def test_forgiven_and_exact_terms_add_up(self, live: LexicalIndex) -> None:
        """An entry with an exact and a forgiven match comes before one with either."""
        self.write(live, ["kitten", "tea"], ["kitten", "rum"], ["tea", "cup"])

        assert self.ranked(live, "kiten", "tea")[0] == 1
        assert sorted(self.ranked(live, "kiten", "tea")) == [1, 2, 3]
