"""Columns of candidates and of hits are sequences of what they were made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.index_entries import Hit
from memsvc.domain.search import Candidate
from memsvc.ports.candidates import Candidates, Hits, Names

NUMBER = st.integers(-(2**62), 2**62)
TEXT = st.sampled_from(("", "Anna", "安娜", "s-1", "ACTIVE"))
CANDIDATE = st.builds(
    Candidate,
    row=NUMBER,
    memory_id=st.text(max_size=3),
    previous_row=st.none() | NUMBER,
    session_id=TEXT,
    speaker=TEXT,
    layer=TEXT,
    status=TEXT,
    importance=st.integers(1, 5),
    access_count=NUMBER,
    create_time=NUMBER,
    event_time=st.none() | NUMBER,
    cues=st.integers(0, 2**21 - 1),
)
CANDIDATES = st.lists(CANDIDATE, max_size=6)
HITS = st.lists(st.builds(Hit, entry_id=NUMBER, score=st.floats(-9, 9)), max_size=6)


@given(one=CANDIDATES, other=CANDIDATES, data=st.data())
def test_candidates_come_out_as_they_went_in(one: list[Candidate], other: list[Candidate], data: st.DataObject) -> None:
    """One by one, chosen, and joined to those of another maker, whose numbers for texts are others."""
    columns = Candidates.of(one)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(one), max_size=len(one)))

    assert [*columns] == columns[:] == one
    assert columns[1:] == one[1:]
    assert [*columns.where(np.array(chosen, bool))] == [each for each, is_it in zip(one, chosen, strict=True) if is_it]
    assert [*columns.join(Candidates.of(other))] == one + other
    assert [columns.names.text(number) for number in columns.speakers.tolist()] == [each.speaker for each in one]


def test_equal_texts_have_equal_numbers() -> None:
    """A text that nobody asked a number for has none."""
    names = Names()

    numbers = [names.number(text) for text in ("", "Anna", "安娜", "Anna", "")]

    assert numbers == [0, 1, 2, 1, 0]
    assert (names.find("安娜"), names.find("Ben"), len(names)) == (2, -1, 3)


@given(hits=HITS)
def test_hits_come_out_as_they_went_in(hits: list[Hit]) -> None:
    """And are equal to a list of the same, in the same order."""
    columns = Hits.of(hits)

    assert columns == hits
    assert hits == columns
    assert columns[1:3] == hits[1:3]
    assert (len(columns), Hits.of(columns)) == (len(hits), columns)
    assert [columns[place] for place in range(len(hits))] == hits
    assert columns != [*hits, Hit(1, 0.5)]
    assert all(type(hit.entry_id) is int and type(hit.score) is float for hit in columns)
    assert repr(columns) == repr(hits)


def test_hits_that_are_not_there_cannot_be_asked_for() -> None:
    """As with a list."""
    with pytest.raises(IndexError):
        Hits.of(())[0]
