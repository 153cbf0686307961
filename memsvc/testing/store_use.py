"""Reports of use are stored with their call, counted by memory and owner, and removed with their memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from memsvc.domain.errors import ErasureRunningError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.maintenance import EVERYBODY, MaintenanceScope
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Scope, SessionVisibility
from memsvc.domain.use_feedback import (
    CALLS_KEPT,
    REPLAY_SHARE,
    RecordedUse,
    UseCall,
    UseCounts,
    UseFeedback,
    UseOutcome,
    UseReplay,
    UseReport,
    UseSelection,
)
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.ports.metadata import MetadataStore
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert, purge, reach_of, revise

USED, IGNORED, WRONG = UseOutcome
REPLAY = UseReplay(NOW, 9, 5, 0.25, 0.5, 0.125, 0.75, 0.0625)
ANY = UseSelection()
ALL = UseSelection(sessions=SessionVisibility.ALL)


def report(
    store: MetadataStore,
    *reported: tuple[Memory, UseOutcome],
    scope: Scope = Scope("ada"),  # noqa: B008 - frozen
    query: str = "q",
    hours: int = 0,
) -> None:
    """Store the reports of one call."""
    reports = [
        UseReport(memory.id, outcome, memory.revision, place) for place, (memory, outcome) in enumerate(reported)
    ]
    call = UseCall(scope, query, NOW + timedelta(hours=hours), reports)
    with store.transaction() as transaction:
        transaction.add_use(call, [memory.row for memory, _ in reported])


def found(
    store: MetadataStore, selection: UseSelection = ANY, projects: tuple[str, ...] = ("", "web")
) -> list[tuple[str, str, UseOutcome]]:
    """Return the queries, ids and outcomes of a page, long enough for all."""
    page = store.uses.page(reach=reach_of(projects=projects), selection=selection, after=None, limit=99)
    return [(one.query, one.report.memory_id, one.report.outcome) for one in page]


class StoreUseContract(StoreSeams):
    """Contract of reports of use."""

    def test_reports_are_listed_with_their_call(self, store: MetadataStore) -> None:
        """Newest call first, then the newest memory, with all that the call says, page by page."""
        one, two = insert(store, factories.memory("a"), factories.memory("你好"))
        scope = Scope("ada", "web", "agent", "s")
        report(store, (one, USED), (two, WRONG), scope=scope, query="茶？")
        report(store, (one, IGNORED), hours=1)

        every = store.uses.page(reach=ADA, selection=ALL, after=None, limit=9)
        newest, wrong, used = every
        assert (newest.report, newest.query, newest.time) == (
            UseReport(one.id, IGNORED, 1), "q", NOW + timedelta(hours=1),
        )  # fmt: skip
        assert (wrong.report, wrong.query, wrong.scope) == (UseReport(two.id, WRONG, 1, 1), "茶？", scope)
        assert used.report == UseReport(one.id, USED, 1)
        page = store.uses.page(reach=ADA, selection=ALL, after=(newest.call, newest.row), limit=1)
        assert page == [wrong]
        assert store.uses.page(reach=ADA, selection=ALL, after=(used.call, used.row), limit=9) == []
        assert store.uses.page(reach=ADA, selection=ALL, after=None, limit=0) == []

    def test_reports_are_selected(self, store: MetadataStore) -> None:
        """By their outcome and by their memory."""
        one, two = insert(store, factories.memory("a"), factories.memory("b"))
        report(store, (one, USED), (two, WRONG), query="x")
        report(store, (one, WRONG), (two, IGNORED), query="y")

        assert found(store, UseSelection(outcome=WRONG)) == [("y", one.id, WRONG), ("x", two.id, WRONG)]
        assert found(store, UseSelection(outcome=USED)) == [("x", one.id, USED)]
        assert found(store, UseSelection(row=two.row)) == [("y", two.id, IGNORED), ("x", two.id, WRONG)]
        assert found(store, UseSelection(row=two.row, outcome=WRONG)) == [("x", two.id, WRONG)]

    def test_reports_are_read_within_a_reach(self, store: MetadataStore) -> None:
        """Of the owner, made in the projects of the reach about memories of them, and not of another session."""
        [world] = insert(store, factories.memory("a"))
        [web] = insert(store, factories.memory("b", project_id="web"))
        [private] = insert(store, factories.memory("c", session_id="s", layer=Layer.SESSION))
        [other] = insert(store, factories.memory("d", user_id="ada2"))
        report(store, (world, USED), scope=Scope("ada", "web"), query="web")
        report(store, (world, USED), (private, USED), scope=Scope("ada", "", "", "s"), query="session")
        report(store, (web, USED), scope=Scope("ada", "web"), query="own")
        report(store, (other, USED), scope=Scope("ada2"), query="other")

        assert found(store, projects=("",)) == []
        assert found(store) == [("own", web.id, USED), ("web", world.id, USED)]
        assert found(store, UseSelection("s2"), ("",)) == []
        inside = [("session", private.id, USED), ("session", world.id, USED)]
        assert found(store, UseSelection("s"), ("",)) == found(store, ALL, ("",)) == inside
        assert len(found(store, ALL)) == 4
        gone = revise(store, world, ChangeAction.DELETED, status=Status.DELETED)
        assert found(store) == [("own", web.id, USED)]
        revise(store, gone, ChangeAction.RESTORED, status=Status.ACTIVE)
        assert len(found(store)) == 2

    def test_reports_are_counted(self, store: MetadataStore) -> None:
        """For each memory, and for the owner; what is not there counts 0."""
        one, two, three = insert(store, factories.memory("a"), factories.memory("b"), factories.memory("c"))
        [other] = insert(store, factories.memory("d", user_id="ada2"))
        for _ in range(2):
            report(store, (one, USED), (two, IGNORED))
        report(store, (one, WRONG))
        report(store, (other, USED), scope=Scope("ada2"))

        counts = {one.row: UseCounts(2, 0, 1), two.row: UseCounts(0, 2, 0)}
        state = UseFeedback(UseCounts(2, 2, 1), calls=3, pending=5)
        assert store.uses.feedback(OWNER) == state
        assert store.uses.signal(OWNER, [one.row, two.row, three.row, other.row]) == (state, counts)
        assert store.uses.signal(OWNER, []) == (state, {})
        assert store.uses.counts(one.row, owner=OWNER) == counts[one.row]
        assert store.uses.counts(three.row, owner=OWNER) == UseCounts()
        assert store.uses.counts(one.row, owner=other.scope.owner) == UseCounts()
        assert store.uses.feedback("\x1fnew") == UseFeedback()
        assert store.uses.signal("\x1fnew", [one.row]) == (UseFeedback(), {})

    def test_calls_are_read_for_a_replay(self, store: MetadataStore) -> None:
        """The newest ones, oldest first, each with its outcomes by row."""
        one, two = insert(store, factories.memory("a"), factories.memory("b"))
        scope = Scope("ada", "web", "agent", "s")
        report(store, (one, USED), query="x")
        report(store, (two, WRONG), (one, IGNORED), scope=scope, query="y")

        last = RecordedUse(scope, "y", {two.row: WRONG, one.row: IGNORED})
        assert store.uses.calls(OWNER, limit=9) == [RecordedUse(Scope("ada"), "x", {one.row: USED}), last]
        assert store.uses.calls(OWNER, limit=1) == [last]
        assert store.uses.calls("\x1fnew", limit=9) == []

    def test_a_replay_is_due_after_a_share_of_the_reports(self, store: MetadataStore) -> None:
        """Of those with enough reports, in the order of owners, of one owner or of all."""
        [one], [other] = insert(store, factories.memory("a")), insert(store, factories.memory("b", user_id="bob"))

        def due(least: int = 2, area: MaintenanceScope = EVERYBODY, after: str = "", limit: int = 9) -> Sequence[str]:
            return store.uses.due_for_replay(area, least=least, after=after, limit=limit)

        for _ in range(2 * REPLAY_SHARE - 1):
            report(store, (one, USED))
        report(store, (other, USED), scope=Scope("bob"))
        bob = Scope("bob").owner
        assert due(1) == [OWNER, bob]
        assert due(1, limit=1) == [OWNER]
        assert due(1, after=OWNER) == [bob]
        assert due(1, MaintenanceScope(bob)) == [bob]
        assert due(2) == [OWNER]
        pending = 2 * REPLAY_SHARE - 1
        with store.transaction() as transaction:
            transaction.set_replay(OWNER, REPLAY, pending=pending)
        expected = UseFeedback(UseCounts(used=pending), pending, 0, REPLAY)
        assert store.uses.feedback(OWNER) == expected
        assert due(1) == [bob]
        report(store, (one, USED))
        assert due(2) == []
        report(store, (one, USED))
        report(store, (one, USED))
        assert due(2) == [OWNER]

    def test_reports_during_a_replay_stay_pending(self, store: MetadataStore) -> None:
        """The next replay reads them; an owner without reports has no state."""
        [one] = insert(store, factories.memory("a"))
        report(store, (one, USED))
        report(store, (one, USED))
        with store.transaction() as transaction:
            transaction.set_replay(OWNER, REPLAY, pending=1)
            transaction.set_replay("\x1fnew", REPLAY, pending=1)

        assert store.uses.feedback(OWNER).pending == 1
        assert store.uses.due_for_replay(EVERYBODY, least=1, after="", limit=9) == [OWNER]
        assert store.uses.feedback("\x1fnew") == UseFeedback()

    def test_reports_go_with_their_memory(self, store: MetadataStore) -> None:
        """A purge takes reports and counts, and calls that have no other report; those about others stay."""
        one, two = insert(store, factories.memory("a"), factories.memory("b"))
        report(store, (one, USED), query="secret")
        report(store, (one, WRONG), (two, USED), query="both")
        purge(store, one)

        assert found(store, ALL) == [("both", two.id, USED)]
        assert store.uses.counts(one.row, owner=OWNER) == UseCounts()
        assert store.uses.calls(OWNER, limit=9) == [RecordedUse(Scope("ada"), "both", {two.row: USED})]
        state = store.uses.feedback(OWNER)
        assert (state.counts, state.calls) == (UseCounts(used=1), 1)
        assert store.erasures.traces(OWNER)["use_calls"] == 1

    def test_old_calls_are_removed(self, store: MetadataStore) -> None:
        """The newest are kept; the counts keep what the removed ones said."""
        [one] = insert(store, factories.memory("a"))
        call = UseCall(Scope("ada"), "q", NOW, [UseReport(one.id, USED)])
        with store.transaction() as transaction:
            for _ in range(CALLS_KEPT + 2):
                transaction.add_use(call, [one.row])

        state, traces = store.uses.feedback(OWNER), store.erasures.traces(OWNER)
        assert (state.calls, state.counts) == (CALLS_KEPT, UseCounts(used=CALLS_KEPT + 2))
        assert (traces["use_calls"], traces["use_reports"]) == (CALLS_KEPT, CALLS_KEPT)

    def test_an_erasure_removes_reports(self, store: MetadataStore) -> None:
        """All of the owner's, and takes no new ones while it runs; those of others stay."""
        [one], [other] = insert(store, factories.memory("a")), insert(store, factories.memory("b", user_id="bob"))
        report(store, (one, USED))
        report(store, (other, USED), scope=Scope("bob"))
        with store.transaction() as transaction:
            transaction.begin_erasure(Erasure(owner_digest(OWNER), OWNER, "r", NOW, projects=("",)))
        with pytest.raises(ErasureRunningError):
            report(store, (one, USED))
        with store.transaction() as transaction:
            transaction.erase_memories(OWNER, [one.row])
        removed: dict[str, int] = {}
        while True:
            with store.transaction() as transaction:
                part = transaction.erase_rest(OWNER, limit=1)
            if not part:
                break
            removed |= part

        assert {"use_calls", "use_reports", "use_counts", "use_feedback"} <= removed.keys()
        assert not any(store.erasures.traces(OWNER).values())
        assert store.uses.counts(other.row, owner=other.scope.owner) == UseCounts(used=1)

    def test_reports_outlive_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """A store that keeps its data has them when it is opened again."""
        [one] = insert(store, factories.memory("a"))
        report(store, (one, USED))
        with store.transaction() as transaction:
            transaction.set_replay(OWNER, REPLAY, pending=1)
        again = reopen()

        assert found(again) == [("q", one.id, USED)]
        assert again.uses.feedback(OWNER) == UseFeedback(UseCounts(used=1), 1, 0, REPLAY)
