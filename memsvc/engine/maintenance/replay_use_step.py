"""The maintenance step that replays reports of use, and so decides whether they are part of the ranking."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.maintenance import DueChange, MaintenanceReason, MaintenanceScope, UpkeepStep
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.domain.use_feedback import FeedbackRules, UseReplay
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.maintenance.step import BEGINNING, StepPart, StepResult
from memsvc.engine.search.use_replay import UseReplayer
from memsvc.ports.features import UseReads
from memsvc.ports.metadata import Transaction

log = logging.getLogger(__name__)


class ReplayUseStep:
    """Replays the reports of users who reported enough since their last replay. It changes no memory."""

    kind = UpkeepStep.REPLAY_USE
    batch = 1

    def __init__(self, uses: UseReads, replayer: UseReplayer, committer: GroupCommitter, rules: FeedbackRules) -> None:
        """Find by *uses* users with enough reports by *rules*, and replay by *replayer*."""
        self._uses = uses
        self._replayer = replayer
        self._committer = committer
        self._rules = rules

    def find_due(self, area: MaintenanceScope, now: datetime, after: str, limit: int) -> StepPart:
        """Return the next users that are due; none in a run for a project, because users are decided as a whole."""
        del now
        if area.project_id:
            return StepPart(())
        owners = self._uses.due_for_replay(area, least=self._rules.min_reports, after=after, limit=limit)
        return StepPart(tuple(map(self._due, owners)), owners[-1] if len(owners) == limit else BEGINNING)

    def apply(self, due: Sequence[DueChange]) -> StepResult:
        """Replay, and store the result of each user; one whose searches fail is skipped until the next run."""
        done: list[DueChange] = []
        for one in due:
            owner = one.scope.owner
            # Before the replay: reports that arrive while it runs stay pending.
            pending = self._uses.feedback(owner).pending
            try:
                replay = self._replayer.replay(owner)
            except (BackendUnavailableError, DeadlineExceededError) as error:
                log.warning("a replay of reports of use was skipped: %s", error.message)
                continue
            self._committer.submit(partial(_store, owner, replay, pending), owner=owner)
            done.append(one)
        return StepResult(tuple(done), len(due) - len(done))

    def _due(self, owner: str) -> DueChange:
        tenant, _, user = owner.partition(OWNER_SEPARATOR)
        return DueChange(self.kind, MaintenanceReason.USE_REPORTED, Scope(user, tenant_id=tenant), "", 0)


def _store(owner: str, replay: UseReplay, pending: int, transaction: Transaction) -> None:
    transaction.set_replay(owner, replay, pending=pending)
