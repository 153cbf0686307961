"""The steps of upkeep that merge and compact."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.history import changed_fields
from memsvc.domain.maintenance import EVERYBODY, DueChange, MaintenancePlan, MaintenanceScope, StepTally, UpkeepStep
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import WriteOptions
from tests.unit.engine.consolidation.conftest import ADA, Desk, opened

BOB = Scope("bob", "apollo")
ONCE = WriteOptions()
OLD = "daily/2025-11-03"
FOOD = ("tofu", "noodles", "rice", "plums", "figs")
LOGS = (
    "Met Anna about the budget. We decided to spend 400 euros on chairs.\nLunch was fine.\nCalled the bank at noon.",
    "和安娜谈了预算。我们决定花400元买椅子。\n午饭还行。\n中午给银行打了电话。",
)


def run(
    desk: Desk, step: UpkeepStep, area: MaintenanceScope = EVERYBODY, doing: MaintenancePlan = MaintenancePlan.PERFORM
) -> tuple[list[DueChange], StepTally]:
    """Run one step a minute later; return what was changed, or would be."""
    desk.clock.advance(minutes=1)
    changes: list[DueChange] = []
    for progress in desk.app.maintenance.run(area, [step], doing):
        changes += progress.changes
    desk.settle()
    return changes, progress.tallies[step]


def test_similar_memories_of_everybody_are_merged(desk: Desk) -> None:
    """Each user's with their own; a dry run lists what a run does, and the next run finds nothing more."""
    mine = [desk.write("I like hiking."), desk.write("The user likes hiking")]
    his = [desk.write("I like hiking.", BOB), desk.write("The user likes hiking", BOB)]
    alone = desk.write("I like chess.", BOB)
    planned, _ = run(desk, UpkeepStep.CONSOLIDATE, doing=MaintenancePlan.DRY_RUN)
    done, tally = run(desk, UpkeepStep.CONSOLIDATE)

    assert planned == done
    assert {(mine[1].id, mine[0].id), (his[1].id, his[0].id)} == {tuple(ids(due)) for due in done}
    assert (2, 2, 0, True) == (tally.due, tally.changed, tally.skipped, tally.is_complete)
    assert [Status.ARCHIVED] * 4 == [desk.stored(memory).status for memory in (*mine, *his)]
    assert Status.ACTIVE is desk.stored(alone).status
    assert [] == run(desk, UpkeepStep.CONSOLIDATE)[0]


def test_later_runs_look_at_what_is_new(desk: Desk) -> None:
    """They compare it with all that is there, and find what was changed in place too."""
    first, chess = desk.write("I like hiking."), desk.write("I like chess.")
    assert [] == run(desk, UpkeepStep.CONSOLIDATE)[0]
    second = desk.write("The user likes hiking")
    [due], _ = run(desk, UpkeepStep.CONSOLIDATE)
    assert [second.id, first.id] == ids(due)
    merged = desk.stored(first).superseded_by_id
    desk.update(chess, content="I enjoy hiking.")
    [due], _ = run(desk, UpkeepStep.CONSOLIDATE)

    assert {merged, chess.id} == set(ids(due))


def test_new_ones_meet_each_other_whatever_ran_between(desk: Desk) -> None:
    """A run over one project, or a dry run, takes nothing from what runs over everybody know."""
    desk.write("I like chess.")
    assert [] == run(desk, UpkeepStep.CONSOLIDATE)[0]
    assert [] == run(desk, UpkeepStep.CONSOLIDATE, MaintenanceScope.of(ADA))[0]
    english = [desk.write("I like hiking."), desk.write("The user likes hiking")]
    chinese = [desk.write("我喜欢爬山。", BOB), desk.write("用户喜欢爬山", BOB)]
    again = desk.write("The user likes chess")
    planned, _ = run(desk, UpkeepStep.CONSOLIDATE, doing=MaintenancePlan.DRY_RUN)
    done, _ = run(desk, UpkeepStep.CONSOLIDATE)

    assert {frozenset(ids(due)) for due in planned} == {frozenset(ids(due)) for due in done}
    new = {memory.id for memory in (*english, *chinese, again)}
    assert new == new & {one for due in done for one in ids(due)}
    assert 3 == len(done)


@pytest.mark.parametrize("between", ["nothing", "another area", "a dry run", "a run that breaks off"])
def test_runs_look_at_so_many_memories_and_go_on(tmp_path: Path, between: str) -> None:
    """Until all were looked at; nothing is looked at twice, and what is written meanwhile is found in the end."""
    with opened(tmp_path, consolidation={"run_memories": 4}) as desk:
        pairs = [
            (desk.write(f"I like {what}."), desk.write(f"I often eat {what} number {n}."))
            for n, what in enumerate(FOOD)
        ]
        first, tally = run(desk, UpkeepStep.CONSOLIDATE)
        assert ([], False) == (first, tally.is_complete)
        late = desk.write(f"The user likes {FOOD[0]}")
        twins = [desk.write(f"The user likes {FOOD[-1]}"), desk.write("我喜欢豆腐。"), desk.write("用户喜欢豆腐")]
        if between == "another area":
            run(desk, UpkeepStep.CONSOLIDATE, MaintenanceScope(BOB.owner))
        if between == "a dry run":
            run(desk, UpkeepStep.CONSOLIDATE, doing=MaintenancePlan.DRY_RUN)
        if between == "a run that breaks off":
            broken_off = desk.app.maintenance.run(EVERYBODY, [UpkeepStep.CONSOLIDATE], MaintenancePlan.PERFORM)
            next(broken_off), next(broken_off)
            broken_off.close()

        done: list[DueChange] = []
        runs = 0
        while not tally.is_complete:
            found, tally = run(desk, UpkeepStep.CONSOLIDATE)
            done, runs = [*done, *found], runs + 1

        assert 2 < runs < 12
        assert {frozenset(ids(due)) for due in done} == {
            frozenset((pairs[0][0].id, late.id)),
            frozenset((pairs[-1][0].id, twins[0].id)),
            frozenset((twins[1].id, twins[2].id)),
        }
        assert ([], True) == (run(desk, UpkeepStep.CONSOLIDATE)[0], tally.is_complete)


def test_a_run_is_held_to_its_area(desk: Desk) -> None:
    """To a user, and to one of their projects."""
    other = Scope("ada", "gemini")
    for scope in (ADA, other, BOB):
        desk.write("I like hiking.", scope), desk.write("The user likes hiking", scope)

    [mine], _ = run(desk, UpkeepStep.CONSOLIDATE, MaintenanceScope.of(ADA))
    assert "apollo" == mine.scope.project_id
    [his], _ = run(desk, UpkeepStep.CONSOLIDATE, MaintenanceScope(BOB.owner))
    assert BOB.owner == his.scope.owner
    [rest], _ = run(desk, UpkeepStep.CONSOLIDATE)
    assert "gemini" == rest.scope.project_id


@pytest.mark.parametrize("log", LOGS, ids=["en", "zh"])
def test_old_log_is_summed_up_and_archived(desk: Desk, log: str) -> None:
    """It can be read by its key, word for word; the summary is linked both ways, and the next run does nothing."""
    written = desk.write(log, key=OLD, tags=("work",), importance=4)
    before = desk.stored(written)
    [due], tally = run(desk, UpkeepStep.COMPACT)

    after = desk.stored(written)
    summary = desk.app.memory_reader.get_by_key(ADA, f"summary/{OLD}")
    assert ((written.id,), 1) == ((due.memory_id,), tally.changed)
    assert ("status", "related_ids") == tuple(sorted(changed_fields(before, after), reverse=True))
    assert (Status.ARCHIVED, (summary.id,), (written.id,)) == (
        after.status,
        after.related_ids,
        summary.derived_from_ids,
    )
    assert after.content == desk.app.memory_reader.get_by_key(ADA, OLD).content == log
    assert (Kind.SUMMARY, Layer.LONG_TERM, ("work",), 4) == (
        summary.kind,
        summary.layer,
        summary.tags,
        summary.importance,
    )
    assert "400" in summary.content
    assert summary.event_time == written.event_time
    assert [] == run(desk, UpkeepStep.COMPACT)[0]


def test_restored_log_is_left_alone_until_it_is_changed(desk: Desk) -> None:
    """Then its summary is made anew."""
    log = desk.write(LOGS[0], key=OLD)
    run(desk, UpkeepStep.COMPACT)
    summary = desk.app.memory_reader.get_by_key(ADA, f"summary/{OLD}")
    desk.app.memory_updater.restore(ADA, log.id, expected_revision=0, options=ONCE)
    assert [] == run(desk, UpkeepStep.COMPACT)[0]
    desk.app.memory_appender.append(ADA, OLD, "Paid 77 euros for lamps.", separator=None, options=ONCE)
    assert 1 == len(run(desk, UpkeepStep.COMPACT)[0])

    again = desk.app.memory_reader.get_by_key(ADA, f"summary/{OLD}")
    assert (summary.id, 2, Status.ARCHIVED) == (again.id, again.revision, desk.stored(log).status)
    assert "77" in again.content
    assert "77" in desk.stored(log).content


def test_only_old_logs_are_compacted(desk: Desk) -> None:
    """Older than seven days, in use, not core, and no other keys."""
    today = desk.clock()
    days = {age: f"daily/{(today - timedelta(days=age)).date().isoformat()}" for age in (6, 7, 8)}
    logs = {age: desk.write(f"Log of {age} days ago.", key=key) for age, key in days.items()}
    left: list[Memory] = [
        desk.write("A note.", key="notes/2020-01-01"),
        desk.write("Core.", BOB, key="daily/2020-01-01", layer=Layer.CORE),
        desk.write("Core too.", BOB, key="daily/2020-01-02", tier=Tier.CORE),
        desk.write("At work.", BOB, key="daily/2020-01-03", work_in_progress=True),
    ]
    done, _ = run(desk, UpkeepStep.COMPACT)

    assert [logs[8].id] == [due.memory_id for due in done]
    assert {Status.ACTIVE} == {desk.stored(memory).status for memory in (*left, logs[6], logs[7])}


def test_summary_of_a_log_takes_nobodys_key(desk: Desk) -> None:
    """A memory that has it keeps it; the summary does without."""
    own = desk.write("My own summary.", key=f"summary/{OLD}")
    log = desk.write(LOGS[0], key=OLD)
    run(desk, UpkeepStep.COMPACT)

    assert own.id == desk.app.memory_reader.get_by_key(ADA, f"summary/{OLD}").id
    [summary_id] = desk.stored(log).related_ids
    assert ("", (log.id,)) == (desk.by_id(summary_id).key, desk.by_id(summary_id).derived_from_ids)


def ids(due: DueChange) -> list[str]:
    """Return the ids of a group."""
    return [due.memory_id, *due.member_ids]
