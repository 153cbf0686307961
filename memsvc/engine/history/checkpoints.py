"""Checkpoints: named moments of a project, and the differences since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from memsvc.domain.clock import from_micros, to_micros
from memsvc.domain.errors import (
    CheckpointExistsError,
    CheckpointNotFoundError,
    InvalidRequestError,
    Violation,
)
from memsvc.domain.filters import Field, Range, conjunction
from memsvc.domain.history import Checkpoint, Difference, DifferenceKind, difference_of
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope, Visibility
from memsvc.domain.search import Order, OrderField, PageCursor
from memsvc.domain.secrets import Redactor
from memsvc.domain.visibility import session_privacy, visible
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.engine.history.as_of_reads import AsOfState, cursor_of, latest_moment
from memsvc.ports.metadata import MetadataStore, Transaction

_BY_CHANGE = Order(OrderField.UPDATE_TIME, descending=False)
_MOST_PAGES = 10
"""Limit of pages read for one page of differences."""


def checkpoint_reach(scope: Scope) -> Reach:
    """Return the reach of a checkpoint: exactly the scope's project, or the global memories."""
    return Reach.from_scope(scope, Visibility.PROJECT)


class CheckpointService:
    """Creates, lists, compares and deletes checkpoints."""

    def __init__(
        self, store: MetadataStore, committer: GroupCommitter, now: Callable[[], datetime], redactor: Redactor
    ) -> None:
        """Keep checkpoints in *store*; *now* is the clock, and *redactor* replaces secrets in notes."""
        self._store = store
        self._committer = committer
        self._now = now
        self._redactor = redactor

    def create(self, scope: Scope, name: str, *, note: str, known_time: datetime | None, request_id: str) -> Checkpoint:
        """Create a checkpoint of the scope's project for now or an earlier moment.

        Raises:
            CheckpointExistsError: The project has a checkpoint of this name.
            CheckpointNotFoundError: The request is a repetition, and its checkpoint was deleted.
            InvalidRequestError: The moment is in the future.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, name, note, known_time) if request_id else ""
        request = IdempotentRequest("CreateCheckpoint", request_id, digest, checkpoint_reach(scope))

        clean, _ = self._redactor.text(note)

        def work(transaction: Transaction) -> Checkpoint:
            existing = transaction.find_checkpoint(scope.owner, scope.project_id, name)
            if recall_answer(transaction, request) is not None:
                if existing is None:
                    raise CheckpointNotFoundError(name)
                return existing
            if existing is not None:
                raise CheckpointExistsError(name)
            now = self._now()
            if known_time is not None and known_time > now:
                raise InvalidRequestError([Violation("known_time", "must not be in the future")])
            moment = known_time or latest_moment(self._store.memories, request.reach, now)
            made = Checkpoint(scope.owner, scope.project_id, name, moment, now, clean)
            transaction.add_checkpoint(made)
            remember_answer(transaction, request, {"name": name})
            return made

        return self._committer.submit(work, owner=scope.owner).value

    def delete(self, scope: Scope, name: str, *, request_id: str) -> Checkpoint:
        """Delete a checkpoint of the scope's project and return it; memories and revisions stay.

        Raises:
            CheckpointNotFoundError: The project has none of this name.
            RequestIdReusedError: The request_id was used for another request.
        """
        digest = request_digest(scope, name) if request_id else ""
        request = IdempotentRequest("DeleteCheckpoint", request_id, digest, checkpoint_reach(scope))

        def work(transaction: Transaction) -> Checkpoint:
            answer = recall_answer(transaction, request)
            if answer is not None:
                times = (from_micros(answer["known_time"]), from_micros(answer["create_time"]))
                return Checkpoint(scope.owner, scope.project_id, name, *times, answer["note"])
            found = transaction.find_checkpoint(scope.owner, scope.project_id, name)
            if found is None:
                raise CheckpointNotFoundError(name)
            transaction.delete_checkpoint(scope.owner, scope.project_id, name)
            micros = {"known_time": to_micros(found.known_time), "create_time": to_micros(found.create_time)}
            remember_answer(transaction, request, {**micros, "note": found.note})
            return found

        return self._committer.submit(work, owner=scope.owner).value

    def get(self, scope: Scope, name: str) -> Checkpoint:
        """Return a checkpoint of the scope's project.

        Raises:
            CheckpointNotFoundError: The project has none of this name.
        """
        found = self._store.checkpoints.get(scope.owner, scope.project_id, name)
        if found is None:
            raise CheckpointNotFoundError(name)
        return found

    def page(self, scope: Scope, *, after: tuple[datetime, str] | None, limit: int) -> tuple[list[Checkpoint], bool]:
        """Return the next *limit* checkpoints of the scope's project, newest first, and whether there are more."""
        found = self._store.checkpoints.page(scope.owner, scope.project_id, after=after, limit=limit + 1)
        return found[:limit], len(found) > limit

    def differences(
        self, scope: Scope, name: str, *, after: PageCursor | None, limit: int
    ) -> tuple[list[Difference], PageCursor | None]:
        """Return the differences since a checkpoint, by the time of the change, and the cursor of the next page.

        Purged memories come last. A memory that changes between two pages may be returned twice.

        Raises:
            CheckpointNotFoundError: The project has no checkpoint of this name.
        """
        past = AsOfState(self._store.memories, scope, checkpoint_reach(scope), self.get(scope, name).known_time)
        found: list[Difference] = []
        pages = 0
        while after is None or after.value is not None:
            part, after = self._load_changed(past, after, limit)
            pages += 1
            for cursor, difference in part:
                found.append(difference)
                if len(found) == limit:
                    return found, cursor
            if after is None:
                after = PageCursor(None, 0)
            elif pages == _MOST_PAGES:
                return found, after
        return self._load_purged(past, found, after, limit)

    def _load_changed(
        self, past: AsOfState, after: PageCursor | None, limit: int
    ) -> tuple[list[tuple[PageCursor, Difference]], PageCursor | None]:
        since = Range(Field.UPDATE_TIME, above=to_micros(past.moment))
        page = past.reads.page(
            reach=past.reach,
            where=conjunction(since, session_privacy(past.scope)),
            order=_BY_CHANGE,
            after=after,
            limit=limit,
        )
        known = past.reads.known_at([memory.row for memory in page], past.moment, reach=past.reach)
        found = [
            (cursor_of(memory, _BY_CHANGE), difference)
            for memory in page
            if (difference := _difference(known.get(memory.row), memory, past.scope)) is not None
        ]
        return found, cursor_of(page[-1], _BY_CHANGE) if len(page) == limit else None

    def _load_purged(
        self, past: AsOfState, found: list[Difference], after: PageCursor, limit: int
    ) -> tuple[list[Difference], PageCursor | None]:
        room = limit - len(found)
        gone = self._store.checkpoints.tombstones(
            reach=past.reach, moment=past.moment, after_row=after.row, limit=room + 1
        )
        found += [
            Difference(DifferenceKind.PURGED, tombstone.memory_id, None, None)
            for tombstone in gone[:room]
            if tombstone.session_id in {"", past.scope.session_id}
        ]
        return found, PageCursor(None, gone[room - 1].row) if len(gone) > room else None


def _difference(before: Memory | None, after: Memory, scope: Scope) -> Difference | None:
    if before is not None and not visible(before, scope):
        # It was private to another session: its earlier state is not returned.
        return Difference(DifferenceKind.CHANGED, after.id, None, after)
    kind = difference_of(before, after)
    return None if kind is None else Difference(kind, after.id, before, after)
