"""A context's events, as messages of a stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.context import ContextItem, ContextNotice, Event, NoticeSeverity, Section
from memsvc.server import tokens
from memsvc.server.responses.search import PACK_CHARS, PACK_ITEMS, build_context_responses

RUN = bytes(12)
MOST_BYTES = 1024 * 1024
LENGTHS = st.sampled_from([1, 40, PACK_CHARS // 2, PACK_CHARS, PACK_CHARS + 1])


def item(number: int, length: int) -> ContextItem:
    """Return an item with a text so long, of the widest characters."""
    return ContextItem(Section.SESSION, f"memory-{number}", 1, "𝄞" * length, 1, 0.0)


@st.composite
def told(draw: st.DrawFn) -> list[Event]:
    """Items of any length with warnings between them, or many short ones."""
    lengths = draw(st.lists(LENGTHS | st.none(), max_size=6) | st.integers(0, 3 * PACK_ITEMS).map(lambda n: [1] * n))
    notice = ContextNotice(NoticeSeverity.INFO, "BUDGET_TOO_SMALL", "words", 0, 0)
    return [notice if length is None else item(number, length) for number, length in enumerate(lengths)]


@given(told())
def test_items_go_together_and_each_cursor_is_the_place_after_its_message(events: list[Event]) -> None:
    """In order, nothing lost, none too large; going on after any message gives what follows it."""
    numbered = [*enumerate(events)]

    responses = build_context_responses(RUN, numbered)

    place = -1
    for response in responses:
        items = response.items.items
        place += len(items) or 1
        assert (RUN, place) == tokens.context_position(response.cursor, field="cursor")
        assert [one.memory_id for one in items] == [
            f"memory-{n}" for n in range(place - len(items) + 1, place + 1)
        ] * bool(items)
        assert len(items) <= PACK_ITEMS
        assert response.ByteSize() < MOST_BYTES or len(items) == 1
    assert place + 1 == len(events)


def test_short_items_take_as_few_messages_as_can_be() -> None:
    """A context of 600 memories comes in three."""
    responses = build_context_responses(RUN, [*enumerate(item(number, 40) for number in range(600))])

    assert [len(response.items.items) for response in responses] == [PACK_ITEMS, PACK_ITEMS, 600 - 2 * PACK_ITEMS]
