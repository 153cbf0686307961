"""Which messages make room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.sessions import MessageRecord, Role, dropped_ordinals, ordinals_over_limit

records = st.lists(
    st.builds(
        MessageRecord, row=st.just(0), ordinal=st.just(0), role=st.sampled_from(Role), token_count=st.integers(0, 50),
        is_pinned=st.booleans(),
    ),
    max_size=40,
)  # fmt: skip


def numbered(given_records: list[MessageRecord]) -> list[MessageRecord]:
    """Return the messages with ordinals."""
    return [
        MessageRecord(0, ordinal, one.role, one.token_count, is_pinned=one.is_pinned)
        for ordinal, one in enumerate(given_records, start=1)
    ]


@given(records, st.integers(0, 600), st.integers(0, 5))
def test_what_is_protected_stays_and_no_more_goes_than_must(
    drawn: list[MessageRecord], target: int, keep_rounds: int
) -> None:
    """System and pinned messages and the last rounds stay; the target is met unless only they are left."""
    messages = numbered(drawn)
    dropped = dropped_ordinals(messages, target_tokens=target, keep_rounds=keep_rounds)

    gone = set(dropped)
    assert dropped == sorted(gone)
    begins = [one.ordinal for one in messages if one.role is Role.USER]
    first_kept = begins[-min(keep_rounds, len(begins))] if begins and keep_rounds else len(messages) + 1
    protected = {
        one.ordinal
        for one in messages
        if one.is_pinned or one.role is Role.SYSTEM or one.ordinal >= first_kept
    }  # fmt: skip
    assert not gone & protected
    total = sum(one.token_count for one in messages)
    left = total - sum(one.token_count for one in messages if one.ordinal in gone)
    if total <= target:
        assert not gone
    if left > target:
        droppable = {one.ordinal for one in messages} - protected
        # What a pinned answer holds back goes no further than its own call.
        assert all(one.role is Role.TOOL or one.ordinal in protected | gone or _is_held(messages, one, protected)
                   for one in messages if one.ordinal in droppable)  # fmt: skip


def _is_held(messages: list[MessageRecord], message: MessageRecord, protected: set[int]) -> bool:
    """Return whether an answer of a tool that goes with *message* is protected."""
    for one in messages[message.ordinal :]:
        if one.role is not Role.TOOL:
            return False
        if one.ordinal in protected:
            return True
    return False


def test_an_answer_goes_with_its_call() -> None:
    """Though the call alone would have been enough."""
    roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER]
    messages = [MessageRecord(0, ordinal, role, 10) for ordinal, role in enumerate(roles, start=1)]

    assert dropped_ordinals(messages, target_tokens=30, keep_rounds=1) == [1, 2, 3, 4]
    assert dropped_ordinals(messages, target_tokens=40, keep_rounds=1) == [1]
    assert dropped_ordinals(messages, target_tokens=0, keep_rounds=2) == []
    assert dropped_ordinals([], target_tokens=0, keep_rounds=0) == []


def automatic(messages: list[MessageRecord], limit: int = 200, rounds: int = 3) -> list[int]:
    """Return what goes by itself at the limit, half of which remains."""
    return ordinals_over_limit(
        messages, target_tokens=limit // 2, keep_rounds=rounds, rounds_tokens=limit // 2, token_limit=limit
    )


def talk(*spoken: tuple[Role, int]) -> list[MessageRecord]:
    """Return messages of these roles and sizes."""
    return [MessageRecord(0, ordinal, role, tokens) for ordinal, (role, tokens) in enumerate(spoken, start=1)]


@given(records, st.integers(1, 600), st.integers(0, 5))
def test_only_what_must_stay_can_fill_a_session(drawn: list[MessageRecord], limit: int, rounds: int) -> None:
    """System and pinned messages stay, and the last message; with anything else a full session gets below its limit."""
    messages = numbered(drawn)
    dropped = automatic(messages, limit, rounds)

    gone = set(dropped)
    assert dropped == sorted(gone)
    fixed = [one for one in messages if one.is_pinned or one.role is Role.SYSTEM or one is messages[-1]]
    assert not gone & {one.ordinal for one in fixed}
    left = sum(one.token_count for one in messages if one.ordinal not in gone)
    assert left < limit or left == sum(one.token_count for one in fixed)


def test_a_conversation_of_an_agent_alone_is_trimmed() -> None:
    """Without a user's message there are no rounds to keep: the oldest go until the target is met."""
    assert automatic(talk(*[(Role.ASSISTANT, 10)] * 30)) == list(range(1, 21))
    assert dropped_ordinals(talk(*[(Role.ASSISTANT, 10)] * 3), target_tokens=15, keep_rounds=3) == [1, 2]


def test_one_long_round_is_cut_and_what_was_asked_stays() -> None:
    """The task is what the agent works on; when it leaves no room for the rest, it goes as well."""
    steps = [(Role.ASSISTANT, 10), (Role.TOOL, 10)] * 10
    assert automatic(talk((Role.SYSTEM, 10), (Role.USER, 10), *steps)) == list(range(3, 15))
    assert automatic(talk((Role.USER, 95), *steps)) == [1, *range(2, 12)]
    assert automatic(talk((Role.USER, 10), (Role.ASSISTANT, 10), *[(Role.TOOL, 10)] * 30)) == list(range(1, 23))


def test_as_many_rounds_stay_as_there_is_room_for() -> None:
    """Large rounds go down to the share at once, so that not every further one trims again."""
    size = [(Role.USER, 10), (Role.ASSISTANT, 35)]
    assert automatic(talk(*size * 5)) == [1, 2, 3, 4, 5, 6]
    assert automatic(talk(*[(Role.USER, 5), (Role.ASSISTANT, 5)] * 20)) == list(range(1, 21))
    assert automatic(talk((Role.USER, 90), (Role.USER, 20), (Role.ASSISTANT, 130))) == [1]
    assert automatic(talk((Role.SYSTEM, 300), (Role.USER, 20))) == []
