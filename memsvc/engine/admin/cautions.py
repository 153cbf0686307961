"""What about the counts of a scope deserves attention (requirement C3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memsvc.domain.context import ACTIVE_COUNT, ALMOST_FULL, CORE_COUNT, NEARLY, NEARLY_FULL, Severity
from memsvc.domain.diagnostics import MemoryCounts, Notice, SessionFill
from memsvc.domain.memory import Status, Tier
from memsvc.domain.scope import Reach
from memsvc.domain.sessions import SessionState
from memsvc.ports.features import SessionReads

LOOKED_AT = 100
"""Sessions of one project whose tokens are counted: those opened last."""
FULLEST = 10
LITTLE_SPACE = 0.10
NO_SPACE = 0.03


def fullest(sessions: SessionReads, reach: Reach) -> list[SessionFill]:
    """Return how full the active sessions are, the fullest first, equal ones the newest first."""
    found: list[SessionFill] = []
    for project in reach.project_ids:
        page = sessions.page(reach.owner, project, states={SessionState.ACTIVE}, before=None, limit=LOOKED_AT)
        counts = sessions.counts(page)
        found += [
            SessionFill(one.scope.session_id, project, counts[one.row].live_tokens, one.token_limit) for one in page
        ]
    return sorted(found, key=lambda fill: -fill.usage)


def about_sessions(fills: Sequence[SessionFill]) -> Iterator[Notice]:
    """Name the sessions that are nearly full; *fills* are the fullest first."""
    for fill in fills:
        if fill.usage <= NEARLY_FULL:
            return
        severity = Severity.CRITICAL if fill.usage > ALMOST_FULL else Severity.WARNING
        message = (
            f"The session {fill.session_id!r} holds {fill.live_tokens} of {fill.token_limit} tokens "
            f"({fill.usage:.0%}): trim it with TrimSession, or let it be trimmed by itself when it is full."
        )
        yield Notice("SESSION_NEARLY_FULL", message, severity)


def about_counts(counts: MemoryCounts) -> Iterator[Notice]:
    """Name the tiers that hold nearly as many memories as they are meant for, or more, and what waits for a review."""
    for tier, limit in ((Tier.CORE, CORE_COUNT), (Tier.ACTIVE, ACTIVE_COUNT)):
        count = counts.by_tier.get(tier.value, 0)
        if count >= NEARLY * limit:
            message = f"{count} memories are of tier {tier.value}, which is meant for {limit}: lower the tier of some."
            yield Notice(f"{tier.value}_COUNT", message, Severity.WARNING if count > limit else Severity.INFO)
    if waiting := counts.by_status.get(Status.QUARANTINED.value, 0):
        message = f"{waiting} memories wait for a review: see ListQuarantined."
        yield Notice("QUARANTINE_WAITING", message, Severity.INFO)


def about_disk(total: int, free: int) -> Iterator[Notice]:
    """Say that the disk is nearly full; a total of 0 is not known."""
    if total and free < LITTLE_SPACE * total:
        message = f"{free / total:.0%} of the disk is free ({free:,} bytes): make room, or writes will be refused."
        severity = Severity.CRITICAL if free < NO_SPACE * total else Severity.WARNING
        yield Notice("STORAGE_NEARLY_FULL", message, severity)
