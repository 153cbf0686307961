"""Which messages make room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.sessions import MessageRecord, Role, dropped_ordinals

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


def test_a_pinned_call_keeps_its_answers() -> None:
    """An answer without its call, or a call without its answer, is of no use to a model."""
    roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
    messages = [
        MessageRecord(0, ordinal, role, 10, is_pinned=ordinal == 2) for ordinal, role in enumerate(roles, start=1)
    ]

    assert dropped_ordinals(messages, target_tokens=0, keep_rounds=0) == [1, 5]


def automatic(messages: list[MessageRecord], limit: int = 200, rounds: int = 3) -> list[int]:
    """Return what goes by itself at the limit, half of which remains."""
    return dropped_ordinals(messages, target_tokens=limit // 2, keep_rounds=rounds, keep_last=True)


def talk(*spoken: tuple[Role, int]) -> list[MessageRecord]:
    """Return messages of these roles and sizes."""
    return [MessageRecord(0, ordinal, role, tokens) for ordinal, (role, tokens) in enumerate(spoken, start=1)]


@given(records, st.integers(1, 600), st.integers(0, 5))
def test_only_what_must_stay_can_fill_a_session(drawn: list[MessageRecord], limit: int, rounds: int) -> None:
    """System and pinned messages stay, the last rounds and the last message, with what its tools answered."""
    messages = numbered(drawn)
    dropped = automatic(messages, limit, rounds)

    gone = set(dropped)
    assert dropped == sorted(gone)
    begins = [one.ordinal for one in messages if one.role is Role.USER]
    first_kept = begins[-min(rounds, len(begins))] if begins and rounds else len(messages)
    fixed = {one.ordinal for one in messages if one.is_pinned or one.role is Role.SYSTEM or one.ordinal >= first_kept}
    assert not gone & (fixed | {len(messages)})
    left = [one for one in messages if one.ordinal not in gone]
    if sum(one.token_count for one in left) > limit // 2:
        # Answers of tools stay with a call that stays.
        assert all(one.ordinal in fixed or one is messages[-1] or _is_of_a_kept_unit(messages, one) for one in left)


def _is_of_a_kept_unit(messages: list[MessageRecord], message: MessageRecord) -> bool:
    """Return whether a message is a call or an answer of which a part is protected or last."""
    return message.role is Role.TOOL or (
        message.ordinal < len(messages) and messages[message.ordinal].role is Role.TOOL
    )


def test_a_conversation_of_an_agent_alone_is_trimmed() -> None:
    """Without a user's message there are no rounds to keep: the oldest go until the target is met."""
    assert automatic(talk(*[(Role.ASSISTANT, 10)] * 30)) == list(range(1, 21))
    assert automatic(talk(*[(Role.ASSISTANT, 110)] * 2)) == [1]
    assert automatic(talk((Role.ASSISTANT, 150), (Role.ASSISTANT, 110), (Role.TOOL, 110))) == [1]
    assert dropped_ordinals(talk(*[(Role.ASSISTANT, 10)] * 3), target_tokens=15, keep_rounds=3) == [1, 2]


def test_the_last_rounds_stay_beyond_the_target() -> None:
    """However large they are, and however many messages one has; older rounds go as far as needed."""
    steps = [(Role.ASSISTANT, 10), (Role.TOOL, 10)] * 10
    assert automatic(talk((Role.SYSTEM, 10), (Role.USER, 10), *steps)) == []
    size = [(Role.USER, 10), (Role.ASSISTANT, 35)]
    assert automatic(talk(*size * 5)) == [1, 2, 3, 4]
    assert automatic(talk((Role.USER, 900), (Role.ASSISTANT, 900), *size * 2)) == []
    assert automatic(talk(*size * 5), rounds=1) == [1, 2, 3, 4, 5, 6]
    assert automatic(talk(*size * 5), limit=400) == [1, 2]
