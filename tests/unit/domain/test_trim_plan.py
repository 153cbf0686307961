"""Which messages make room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.session import MessageRecord, Role, dropped_ordinals

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
    first_kept = len(messages) + 1 if keep_rounds == 0 else begins[-keep_rounds] if len(begins) >= keep_rounds else 0
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
