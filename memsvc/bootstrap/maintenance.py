"""What looks after the memories by itself."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from random import Random

from memsvc.bootstrap.backends import Backends
from memsvc.bootstrap.memories import MemoryServices
from memsvc.engine.maintenance.archive_step import Archive, ArchiveRules
from memsvc.engine.maintenance.expire_step import Expire
from memsvc.engine.maintenance.promote_step import PromoteStep
from memsvc.engine.maintenance.runner import Bounds, Maintenance, Measures
from memsvc.engine.maintenance.scheduler import Schedule, Timetable
from memsvc.engine.maintenance.step import Step
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.settings import MaintenanceSettings, Settings


def upkeep(
    settings: Settings,
    backends: Backends,
    measures: Measures,
    writes: MemoryServices,
    others: Sequence[Step],
    stack: ExitStack,
) -> Maintenance:
    """Make what runs the steps, *others* too, and start the clock that runs them; *stack* stops it."""
    chosen, now = settings.maintenance, backends.now
    leading = LeaderElection(backends.metadata.leases, now, lambda: uuid.uuid4().hex)
    maintenance = Maintenance(
        [*_steps(chosen, backends, writes), *others],
        leading,
        measures,
        now,
        Bounds(chosen.changes_per_step, chosen.steps),
        flush_accesses=writes.accesses.flush,
    )
    if chosen.interval_minutes:
        interval, jitter = timedelta(minutes=chosen.interval_minutes), timedelta(minutes=chosen.jitter_minutes)
        timetable = Timetable(interval, jitter, chosen.steps)
        schedule = Schedule(maintenance, leading, timetable, now, Random())  # noqa: S311 - no secret
        schedule.start()
        stack.callback(schedule.stop)
    return maintenance


def _steps(chosen: MaintenanceSettings, backends: Backends, writes: MemoryServices) -> list[Step]:
    reads, now = backends.metadata.upkeep, backends.now
    committer, recording = writes.committer, writes.recording
    rules = ArchiveRules(timedelta(days=chosen.archive_unread_days), chosen.storage_limit_bytes)
    return [
        Expire(reads, committer, recording, writes.drafting.reminding, now),
        PromoteStep(reads, committer, writes.promote, now, least_accesses=chosen.promote_accesses),
        Archive(reads, committer, recording, now, rules),
    ]
