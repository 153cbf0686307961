"""The indexer: what is stored is found, and who waits is told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.diagnostics import IndexKind, ReindexMode, ReindexPhase
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError, ReindexRunningError
from memsvc.domain.index_entries import Change
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode, SearchQuery
from memsvc.domain.write_requests import Draft, OnDuplicate, Patch, WaitFor, WriteOptions
from memsvc.engine.indexing import indexer
from memsvc.engine.services import Services
from tests.support.until import until

ADA = Scope("ada")
STORED = WriteOptions(wait_for=WaitFor.STORED)


def contents(application: Services, text: str, mode: Mode = Mode.KEYWORD, scope: Scope = ADA) -> list[str]:
    """Search and return the contents found, best first."""
    reply = application.search.search(SearchQuery(scope=scope, text=text, mode=mode), Deadline())
    return [hit.memory.content for hit in reply.hits]


def remember(application: Services, content: str, scope: Scope = ADA) -> str:
    """Store a memory, wait until searches find it, and return its id."""
    written = application.memory_creator.create(scope, Draft(content=content), STORED)
    application.indexer.when_applied(written.position).result(timeout=30)
    return written.memory.id


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("content", "query"),
    [("Anna works as a nurse in Lisbon.", "nurse in Lisbon"), ("小明最喜欢的电影是《流浪地球》。", "小明喜欢的电影")],
)
def test_what_is_written_is_found(application: Services, content: str, query: str, mode: Mode) -> None:
    """A memory is found by every mode, in English and in Chinese, once its writer was told."""
    remember(application, content)

    assert [content] == contents(application, query, mode)


def test_an_update_replaces_what_is_found(application: Services) -> None:
    """After an update the old words find nothing, the new ones do."""
    memory_id = remember(application, "Anna works as a nurse.")

    written = application.memory_updater.update(
        ADA,
        memory_id=memory_id,
        key="",
        patch=Patch({"content": "Anna works as a pilot."}),
        expected_revision=1,
        options=STORED,
    )
    application.indexer.when_applied(written.position).result(timeout=30)

    assert contents(application, "nurse") == []
    assert contents(application, "pilot") == ["Anna works as a pilot."]


def test_a_deleted_memory_is_not_found_and_a_restored_one_is(application: Services) -> None:
    """Deletion and restoring reach the indexes like any other change."""
    memory_id = remember(application, "Anna works as a nurse.")

    deleted = application.memory_updater.delete(ADA, memory_id, hard=False, expected_revision=0, options=STORED)
    application.indexer.when_applied(deleted.position).result(timeout=30)
    after_deletion = contents(application, "nurse")
    restored = application.memory_updater.restore(ADA, memory_id, expected_revision=0, options=STORED)
    application.indexer.when_applied(restored.position).result(timeout=30)

    assert after_deletion == []
    assert contents(application, "nurse") == ["Anna works as a nurse."]


def test_a_position_that_is_reached_needs_no_wait(application: Services) -> None:
    """Waiting for nothing, or for what is applied, is over at once."""
    remember(application, "one")

    assert application.indexer.when_reached(0).done()
    assert application.indexer.when_reached(application.indexer.applied_position).done()
    assert application.indexer.when_applied(1, 0).done()


def test_reached_means_that_everything_before_is_found(application: Services) -> None:
    """A reader that waits for the position of an import finds the whole of it."""
    run = application.bulk_importer.begin(ADA, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING)
    progress = run.add(0, [Draft(content=f"Zebra number {number}") for number in range(300)])

    application.indexer.when_reached(progress.position).result(timeout=60)

    assert application.diagnosis.run(verify=True).indexes[1].present == 300


def test_changes_that_come_fast_are_gathered(application: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nobody waits for one; whoever does then need not wait for the others to come."""
    monkeypatch.setattr(indexer, "GATHER_SECONDS", 3_600.0)
    steps: list[int] = []
    apply = indexer.Indexer._apply

    def counted(self: indexer.Indexer, changes: Sequence[Change], wanted: Sequence[int], *, is_urgent: bool) -> None:
        steps.append(len(changes))
        apply(self, changes, wanted, is_urgent=is_urgent)

    monkeypatch.setattr(indexer.Indexer, "_apply", counted)
    run = application.bulk_importer.begin(ADA, request_id="", on_duplicate=OnDuplicate.RETURN_EXISTING)
    run.add(0, [Draft(content=f"Zebra number {number}") for number in range(indexer.GATHERED)])
    until(lambda: steps == [indexer.GATHERED])
    written = [application.memory_creator.create(ADA, Draft(content=f"Yak {n}"), STORED) for n in range(40)]
    application.indexer.when_reached(written[-1].position).result(timeout=30)

    assert sum(steps[1:]) == 40
    assert len(steps) <= 3
    assert remember(application, "An emu came alone.")


def test_many_writers_wait_side_by_side(application: Services) -> None:
    """Every one of many concurrent writers is told, and then found."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: remember(application, f"Zebra{number}x walked by."), range(48)))

    assert all(contents(application, f"zebra{number}x") for number in range(48))


def test_who_waits_when_the_indexer_stops_is_told(application: Services) -> None:
    """A waiter never hangs: it gets an error when the indexer stops before its change came."""
    application.indexer.stop()

    with pytest.raises(BackendClosedError):
        application.indexer.when_reached(10**9).result(timeout=10)


@pytest.mark.parametrize("kind", list(IndexKind))
def test_a_rebuild_loses_nothing(application: Services, kind: IndexKind) -> None:
    """A new generation holds what the old one held, and says so step by step."""
    for number in range(5):
        remember(application, f"Zebra{number}x walked by.")
    before = application.diagnosis.run(verify=True)

    phases = [step.phase for step in application.reindex.run([kind], ReindexMode.REBUILD)]

    after = application.diagnosis.run(verify=True)
    assert [phases[0], phases[-1]] == [ReindexPhase.READING, ReindexPhase.DONE]
    assert ReindexPhase.SWITCHED in phases
    assert [(index.expected, index.present) for index in after.indexes] == [(5, 5)] * 2
    place = list(IndexKind).index(kind)
    assert before.indexes[place].generation + 1 == after.indexes[place].generation


def test_what_is_written_during_a_rebuild_is_in_the_new_generation(application: Services) -> None:
    """Changes between the first read and the switch are taken over: new, changed and deleted memories alike."""
    kept, changed, deleted = (remember(application, f"Zebra{name}x walked by.") for name in ("kept", "old", "gone"))
    steps = application.reindex.run([IndexKind.LEXICAL], ReindexMode.REBUILD)
    while next(steps).phase is not ReindexPhase.BUILDING:
        pass

    remember(application, "Zebranewx walked by.")
    application.memory_updater.update(
        ADA,
        memory_id=changed,
        key="",
        patch=Patch({"content": "Zebrachangedx walked by."}),
        expected_revision=0,
        options=STORED,
    )
    gone = application.memory_updater.delete(ADA, deleted, hard=True, expected_revision=0, options=STORED)
    application.indexer.when_applied(gone.position).result(timeout=30)
    list(steps)

    found = {word: bool(contents(application, f"zebra{word}x")) for word in ("kept", "new", "changed", "old", "gone")}
    assert found == {"kept": True, "new": True, "changed": True, "old": False, "gone": False}
    assert kept


def test_a_rebuild_that_is_left_early_changes_nothing(application: Services) -> None:
    """A cancelled rebuild leaves the live generation as it was."""
    remember(application, "Zebra walked by.")
    steps = application.reindex.run([IndexKind.VECTORS], ReindexMode.REBUILD)
    next(steps)

    steps.close()

    assert application.diagnosis.run(verify=False).indexes[0].generation == 1
    assert contents(application, "zebra", Mode.SEMANTIC) == ["Zebra walked by."]


def test_one_reindex_at_a_time(application: Services) -> None:
    """A second run is refused while one is under way, and allowed after it."""
    steps = application.reindex.run([], ReindexMode.REPAIR)
    next(steps)

    with pytest.raises(ReindexRunningError):
        next(application.reindex.run([], ReindexMode.REPAIR))
    list(steps)

    assert list(application.reindex.run([], ReindexMode.REPAIR))


def test_repair_of_sound_indexes_has_nothing_to_do(application: Services) -> None:
    """Sound indexes are left alone."""
    remember(application, "Zebra walked by.")

    steps = list(application.reindex.run([], ReindexMode.REPAIR))

    assert [step.total for step in steps if step.phase is ReindexPhase.REPAIRED] == [0, 0]


def test_a_wait_for_one_owner_outlasts_a_failure_of_the_store(
    application: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away just as the indexer looks for the changes of that owner; it looks again."""
    feed = application.indexer._feed
    failures: list[int] = []
    is_written = threading.Event()
    head = type(feed).head_position

    def fail_before_the_write(store: Any) -> int:
        # A position beyond all changes is refused: the indexer must not see the one awaited before it exists.
        if threading.current_thread().name == "indexer" and not is_written.is_set():
            failures.append(1)
            raise BackendUnavailableError("metadata")
        return head(store)

    monkeypatch.setattr(type(feed), "head_position", fail_before_the_write)
    reached = application.indexer.when_reached(feed.head_position() + 1, ADA.owner)
    until(lambda: failures)
    application.memory_creator.create(ADA, Draft(content="Anna works as a nurse."), STORED)
    is_written.set()

    reached.result(timeout=30)
    assert contents(application, "nurse") == ["Anna works as a nurse."]
