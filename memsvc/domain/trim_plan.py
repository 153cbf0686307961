"""Which messages of a session make room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from memsvc.domain.sessions import MessageRecord, Role


def dropped_ordinals(messages: Sequence[MessageRecord], *, target_tokens: int, keep_rounds: int) -> list[int]:
    """Return which of a session's live *messages*, given by ordinal, to drop so that at most *target_tokens* remain.

    The oldest go first. System messages, pinned ones and the last *keep_rounds* rounds stay, even when that is more
    than the target; a round begins with a user's message. What a tool answered goes with the message that called it.
    """
    return _dropped(_units(messages[: _first_kept(messages, keep_rounds)]), _tokens(messages) - target_tokens)


def ordinals_over_limit(
    messages: Sequence[MessageRecord], *, target_tokens: int, keep_rounds: int, rounds_tokens: int, token_limit: int
) -> list[int]:
    """Return which of a session's live *messages* to drop so that it is below its *token_limit* again.

    As `dropped_ordinals`, with the fewer rounds the larger they are: several stay while no more than *rounds_tokens*
    remain, the last one while that is below the limit. A round that is too large is cut: what was asked in it stays
    while the target is met, then the last message stays with what its tools answered, then the last message alone.
    Only system messages, pinned ones and that last message can leave a session at its limit.
    """
    excess = _tokens(messages) - target_tokens
    rounds = min(keep_rounds, sum(message.role is Role.USER for message in messages))
    for kept in range(rounds, 0, -1):
        dropped = _dropped(_units(messages[: _first_kept(messages, kept)]), excess)
        if _left(messages, dropped) <= (rounds_tokens if kept > 1 else token_limit - 1):
            return dropped
    for most, units in _cuts(messages, target_tokens, token_limit - 1):
        dropped = _dropped(units, excess)
        if _left(messages, dropped) <= most:
            return dropped
    return _dropped([[message] for message in messages[:-1]], excess)


def _cuts(
    messages: Sequence[MessageRecord], target_tokens: int, most_tokens: int
) -> Iterator[tuple[int, list[list[MessageRecord]]]]:
    """Yield what may go when not even the last round stays whole, and what may remain then."""
    units = _units(messages)[:-1]
    asked = max((message.ordinal for message in messages if message.role is Role.USER), default=0)
    yield target_tokens, [unit for unit in units if all(message.ordinal != asked for message in unit)]
    yield most_tokens, units


def _dropped(units: Sequence[Sequence[MessageRecord]], excess: int) -> list[int]:
    """Return the first of *units* that are not protected, until they take *excess* tokens."""
    dropped: list[int] = []
    for unit in units:
        if excess <= 0:
            break
        if any(_is_protected(message) for message in unit):
            continue
        dropped += [message.ordinal for message in unit]
        excess -= _tokens(unit)
    return dropped


def _tokens(messages: Sequence[MessageRecord]) -> int:
    return sum(message.token_count for message in messages)


def _left(messages: Sequence[MessageRecord], dropped: Collection[int]) -> int:
    gone = set(dropped)
    return sum(message.token_count for message in messages if message.ordinal not in gone)


def _is_protected(message: MessageRecord) -> bool:
    return message.is_pinned or message.role is Role.SYSTEM


def _first_kept(messages: Sequence[MessageRecord], keep_rounds: int) -> int:
    """Return the index of the first message of the last *keep_rounds* rounds."""
    begins = [index for index, message in enumerate(messages) if message.role is Role.USER]
    return begins[-min(keep_rounds, len(begins))] if begins and keep_rounds else len(messages)


def _units(messages: Sequence[MessageRecord]) -> list[list[MessageRecord]]:
    """Return the messages with what the tools they called answered."""
    units: list[list[MessageRecord]] = []
    for message in messages:
        if (
            message.role is Role.TOOL
            and units
            and units[-1][0].role is not Role.TOOL
            and not _is_protected(units[-1][0])
        ):
            units[-1].append(message)
        else:
            units.append([message])
    return units
