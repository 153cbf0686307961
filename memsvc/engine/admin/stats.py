"""Counts and warnings of one scope, and the usage of users, projects, agents and scopes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from memsvc.domain.context import ACTIVE_COUNT, ALMOST_FULL, CORE_COUNT, NEARLY, NEARLY_FULL, SHORT_TERM, NoticeSeverity
from memsvc.domain.diagnostics import (
    HealthWarning,
    MemoryCounts,
    PlacePart,
    PlaceUsage,
    ReindexProgress,
    SessionFill,
    Stats,
)
from memsvc.domain.memory import Layer, Status, Tier
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.sessions import SessionState
from memsvc.engine.indexing.indexer import Indexer
from memsvc.engine.indexing.reindex import ReindexService
from memsvc.ports.features import SessionReads
from memsvc.ports.indexes import LexicalIndex, VectorIndex
from memsvc.ports.metadata import MemoryReads, MetadataStore

LAG_WARNING = 1_000
"""Minimum lag of an index behind the store, in changes, for a warning."""
MAX_SESSIONS = 100
"""Maximum number of sessions per project whose tokens are counted: the most recently opened."""
MAX_NAMED_SESSIONS = 10
LITTLE_SPACE = 0.10
NO_SPACE = 0.03
_WITHOUT_AMOUNTS = {
    "INDEX_LAGGING": "Changes of the service are stored but not yet found by searches.",
    "INDEX_BUILDING": "An index of the service is being built or repaired.",
    "STORAGE_NEARLY_FULL": "The disk of the service is nearly full: its operator must make room.",
}
"""Messages of warnings about the whole service for those who do not operate it, by their codes."""


class StatsService:
    """Statistics of the visible records of a scope, in the store and in the indexes."""

    def __init__(
        self,
        store: MetadataStore,
        indexes: tuple[VectorIndex, LexicalIndex],
        upkeep: tuple[Indexer, ReindexService],
        disk: Callable[[], tuple[int, int]],
        short_term_limit: int = 0,
    ) -> None:
        """Count in these; *disk* returns the total and free bytes of the data directory's disk.

        *short_term_limit* is the number of SHORT_TERM memories of a project above which to warn; 0: none.
        """
        self._short_term_limit = short_term_limit
        self._store = store
        self._vectors, self._lexical = indexes
        self._indexer, self._reindex = upkeep
        self._disk = disk
        self._others: list[Callable[[Scope], Sequence[HealthWarning]]] = []

    def _short_term_warnings(self, scope: Scope, counts: MemoryCounts) -> Iterator[HealthWarning]:
        limit = self._short_term_limit
        if not limit or counts.by_layer.get(Layer.SHORT_TERM.value, 0) < NEARLY * limit:
            return
        # That count has archived ones and global ones, too.
        count = len(self._store.memories.rows_where(SHORT_TERM, reach=Reach.from_scope(scope, Visibility.PROJECT)))
        if count >= NEARLY * limit:
            message = f"{count} memories are short-term; the limit is {limit}: promote, archive or consolidate some."
            severity = NoticeSeverity.WARNING if count > limit else NoticeSeverity.INFO
            yield HealthWarning("SHORT_TERM_COUNT", message, severity)

    def add_notice_source(self, notices: Callable[[Scope], Sequence[HealthWarning]]) -> None:
        """Add a source of warnings; to be called before the first request."""
        self._others.append(notices)

    def of(self, scope: Scope, *, is_operator: bool = True) -> Stats:
        """Return the counts of the records visible to *scope*.

        Without *is_operator* the amounts of the whole service, which show how much other users write, are 0, and
        warnings do not name them.

        Raises:
            BackendUnavailableError: The store or an index cannot be reached.
        """
        reach = Reach.from_scope(scope)
        pending = self._indexer.pending_count
        counts = self._store.memories.counts(reach=reach)
        sessions = session_fills(self._store.sessions, reach)
        found = [
            *session_warnings(sessions),
            *count_warnings(counts),
            *self._short_term_warnings(scope, counts),
            *disk_warnings(*self._disk()),
            *(notice for notices in self._others for notice in notices(scope)),
            *indexer_warnings(pending, replaying=self._indexer.is_replaying, building=self._reindex.progress),
        ]
        if not is_operator:
            found = [replace(one, message=_WITHOUT_AMOUNTS.get(one.code, one.message)) for one in found]
        parts = (self._store, self._vectors, self._lexical) if is_operator else ()
        return Stats(
            counts=counts,
            vector_count=self._vectors.count(reach=reach),
            lexical_count=self._lexical.count(reach=reach),
            storage_bytes=sum(part.storage_bytes() for part in parts),
            pending_changes=pending if is_operator else 0,
            warnings=tuple(found),
            sessions=tuple(sessions[:MAX_NAMED_SESSIONS]),
        )


class UsageReader:
    """Users, projects, agents and scopes, with the memories of each.

    The caller must have the right to what it asks for.

    Each method returns the next *limit* of them, in order, and whether there are more. *after* is the last place of the
    page before, as `PlaceUsage.place`.
    """

    def __init__(self, reads: MemoryReads) -> None:
        """Read from *reads*."""
        self._reads = reads

    def users(
        self, tenant_id: str, only: Collection[str], prefix: str, *, after: str, limit: int
    ) -> tuple[list[PlaceUsage], bool]:
        """Return the users of a tenant whose ids begin with *prefix*; only those in *only*, unless it is empty.

        They come after the user *after*; empty: from the first one on.
        """

        def owner(user_id: str) -> str:
            return Scope(user_id, tenant_id=tenant_id).owner

        part = PlacePart(tuple(map(owner, only)) if only else None, owner(prefix))
        return self._page([part], after=(owner(after),) if after else (), limit=limit, live=False)

    def projects(
        self, owner: str, only: Collection[str], prefix: str, *, after: Sequence[str], limit: int
    ) -> tuple[list[PlaceUsage], bool]:
        """Return the projects of an owner whose ids begin with *prefix*; only those in *only*, unless it is empty."""
        parts = [PlacePart((owner,)), PlacePart(tuple(only) or None, prefix)]
        return self._page(parts, after=after, limit=limit, live=False)

    def agents(
        self, owner: str, only: Collection[str], prefix: str, *, after: Sequence[str], limit: int
    ) -> tuple[list[PlaceUsage], bool]:
        """Return the agents of an owner whose ids begin with *prefix*, by project; *only* are the projects, if any."""
        parts = [PlacePart((owner,)), PlacePart(tuple(only) or None), PlacePart(prefix=prefix)]
        return self._page(parts, after=after, limit=limit, live=False)

    def scopes(
        self, owner: str, only: Collection[str], agent_id: str | None, *, after: Sequence[str], limit: int
    ) -> tuple[list[PlaceUsage], bool]:
        """Return the scopes of an owner in which memories are that are not deleted, of one agent or of all."""
        agent = PlacePart(None if agent_id is None else (agent_id,))
        parts = [PlacePart((owner,)), PlacePart(tuple(only) or None), agent, PlacePart()]
        return self._page(parts, after=after, limit=limit, live=True)

    def _page(
        self, parts: Sequence[PlacePart], *, after: Sequence[str], limit: int, live: bool
    ) -> tuple[list[PlaceUsage], bool]:
        found = self._reads.places(parts, after=after, live=live, limit=limit + 1)
        return found[:limit], len(found) > limit


def indexer_warnings(pending: int, *, replaying: bool, building: ReindexProgress | None) -> list[HealthWarning]:
    """Return the warnings about the indexer for an operator."""
    found = []
    if replaying:
        found.append(
            HealthWarning("REPLAYING", "The indexes are being brought up to date after a start; searches wait.")
        )
    if pending > LAG_WARNING:
        found.append(
            HealthWarning(
                "INDEX_LAGGING",
                f"{pending} changes are stored but not yet found by searches: an import is under way, "
                "or the embedder is too slow for the load.",
                NoticeSeverity.INFO,
            )
        )
    if building is not None:
        name, phase = building.index.value.lower(), building.phase.value.lower()
        progress = f"{phase}, {building.done} of {building.total}"
        message = f"{name}: generation {building.generation} is being built or repaired: {progress}."
        found.append(HealthWarning("INDEX_BUILDING", message, NoticeSeverity.INFO))
    return found


# Warnings about the counts of a scope.


def session_fills(sessions: SessionReads, reach: Reach) -> list[SessionFill]:
    """Return the fill of the active sessions, fullest first, then newest first."""
    found: list[SessionFill] = []
    for project in reach.project_ids:
        page = sessions.page(reach.owner, project, states={SessionState.ACTIVE}, before=None, limit=MAX_SESSIONS)
        counts = sessions.counts(page)
        found += [
            SessionFill(one.scope.session_id, project, counts[one.row].live_tokens, one.token_limit) for one in page
        ]
    return sorted(found, key=lambda fill: -fill.usage)


def session_warnings(fills: Sequence[SessionFill]) -> Iterator[HealthWarning]:
    """Yield warnings about nearly full sessions; *fills* are ordered fullest first."""
    for fill in fills:
        if fill.usage <= NEARLY_FULL:
            return
        severity = NoticeSeverity.CRITICAL if fill.usage > ALMOST_FULL else NoticeSeverity.WARNING
        advice = "trim it with TrimSession, or let it be trimmed by itself when it is full."
        if fill.usage >= 1:
            advice = (
                "trimming keeps its last rounds, system messages and pinned messages, whatever their size; if these "
                "fill it, trim it with fewer keep_rounds, or continue in a session with a higher limit."
            )
        message = (
            f"The session {fill.session_id!r} holds {fill.live_tokens} of {fill.token_limit} tokens "
            f"({fill.usage:.0%}): {advice}"
        )
        yield HealthWarning("SESSION_NEARLY_FULL", message, severity)


def count_warnings(counts: MemoryCounts) -> Iterator[HealthWarning]:
    """Yield warnings about tiers near or over their limit, and about memories that wait for a review."""
    for tier, limit in ((Tier.CORE, CORE_COUNT), (Tier.ACTIVE, ACTIVE_COUNT)):
        count = counts.active_by_tier.get(tier.value, 0)
        if count >= NEARLY * limit:
            message = f"{count} memories are of tier {tier.value}, which is meant for {limit}: lower the tier of some."
            yield HealthWarning(
                f"{tier.value}_COUNT", message, NoticeSeverity.WARNING if count > limit else NoticeSeverity.INFO
            )
    if waiting := counts.by_status.get(Status.QUARANTINED.value, 0):
        message = f"{waiting} memories wait for a review: see ListQuarantined."
        yield HealthWarning("QUARANTINE_WAITING", message, NoticeSeverity.INFO)


def disk_warnings(total: int, free: int) -> Iterator[HealthWarning]:
    """Yield a warning if the disk is nearly full; a total of 0 means unknown."""
    if total and free < LITTLE_SPACE * total:
        message = f"{free / total:.0%} of the disk is free ({free:,} bytes): make room, or writes will be refused."
        severity = NoticeSeverity.CRITICAL if free < NO_SPACE * total else NoticeSeverity.WARNING
        yield HealthWarning("STORAGE_NEARLY_FULL", message, severity)
