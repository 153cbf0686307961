"""Webhooks: the queue of changes for endpoints, retries with backoff, and dead letters."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from memsvc.domain.errors import InvalidRequestError, MemsvcError, Violation
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import UNNAMED, Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Scope
from memsvc.domain.watch import Effect, WatchEvent
from memsvc.engine.runtime.leader_lease import LeaderElection
from memsvc.engine.watch.watch import ErasureBarrier
from memsvc.ports.change_feed import ChangeFeed
from memsvc.ports.operations import WebhookDelivery, WebhookQueue, WebhookSelection, WebhookState

PAGE = 1_000
"""Changes that are read from the outbox at a time."""
MAX_PENDING = 100_000
"""Pending deliveries of an endpoint above which no further changes are queued: they stay in the outbox."""
MOST_DOUBLINGS = 30
_POSITION_DIGITS = 18
GONE = 410
RETRIED = frozenset({0, 408, 429})
"""Statuses after which a delivery is retried, beside those of 500 and above; 0: there was no answer."""
_OK, _REDIRECT, _SERVER_ERROR = 200, 300, 500
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Backoff of retries: *first* doubles with each attempt up to *longest*, less a random part of at most a half.

    A delivery becomes a dead letter after *attempts* attempts, or *age* after the first one.
    """

    first: timedelta
    longest: timedelta
    attempts: int
    age: timedelta

    def delay(self, attempt: int, random: Random, asked: timedelta | None) -> timedelta:
        """Return the pause after an attempt, at least *asked*, the Retry-After of the endpoint, within *longest*."""
        pause = min(self.longest, self.first * (1 << min(attempt - 1, MOST_DOUBLINGS)))
        return min(self.longest, max(pause * (1 - random.random() / 2), asked or timedelta(0)))


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of one attempt to send.

    Attributes:
        status: The HTTP status; 0: there was no answer.
        error: The reason of a failure; empty if the endpoint accepted the delivery.
        retry_after: The pause that the endpoint asked for.
    """

    status: int
    error: str = ""
    retry_after: timedelta | None = None

    @property
    def is_accepted(self) -> bool:
        """Return whether the status is one of 200 to 299."""
        return _OK <= self.status < _REDIRECT

    @property
    def is_retried(self) -> bool:
        """Return whether another attempt may succeed."""
        return self.status in RETRIED or self.status >= _SERVER_ERROR


class WebhookService:
    """Queue of deliveries of all endpoints, for the sender and for administrators."""

    def __init__(
        self,
        stores: tuple[WebhookQueue, ChangeFeed, ErasureBarrier],
        endpoints: Iterable[WebhookSelection],
        policy: RetryPolicy,
        clock: tuple[Callable[[], datetime], Random],
        election: LeaderElection,
    ) -> None:
        """Queue the changes of *endpoints*; *clock* also has the source of the jitter, *election* elects the sender."""
        self._queue, self._changes, self._erased = stores
        self.endpoints: Mapping[str, WebhookSelection] = {one.endpoint: one for one in endpoints}
        self._policy = policy
        self.now, self._random = clock
        self.election = election
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def event_id(self, delivery: WebhookDelivery) -> str:
        """Return the id of an event: the same for every attempt and every endpoint."""
        return f"msg_{self._changes.identity}_{delivery.change.position}"

    def collect(self, endpoint: str) -> bool:
        """Queue the changes that follow the cursor of an endpoint; return if there may be more.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        read, _ = self._queue.collect(self.endpoints[endpoint], limit=PAGE)
        return read == PAGE

    def state(self, endpoint: str) -> WebhookState:
        """Return the state of an endpoint.

        Raises:
            BackendUnavailableError: The store cannot be reached.
        """
        return self._queue.state(endpoint) or WebhookState(0, is_gone=False)

    def due(self, endpoint: str, limit: int) -> list[WebhookDelivery]:
        """Return the deliveries to send now, at most one of each user."""
        return self._queue.due(endpoint, at=self.now(), limit=limit)

    def event(self, delivery: WebhookDelivery) -> WatchEvent | None:
        """Return the event of a delivery, with the memory as of the change.

        None: the user was erased since, or the memory was in quarantine before and after the change.
        """
        erased = self._erased.before(delivery.owner)
        change = delivery.change
        if erased is None or change.position <= erased:
            return None
        states = self._changes.states(((change.row, change.revision), (change.row, change.revision - 1)))
        after = states.get((change.row, change.revision))
        if change.action is ChangeAction.PURGED or after is None:
            return WatchEvent(change, Effect.LEFT, None)
        was_seen = change.action is not ChangeAction.CREATED and _is_seen(states.get((change.row, change.revision - 1)))
        if _is_seen(after):
            return WatchEvent(change, Effect.STAYED if was_seen else Effect.ENTERED, after)
        return WatchEvent(change, Effect.LEFT, None) if was_seen else None

    def discard(self, delivery: WebhookDelivery) -> None:
        """Remove a delivery without an event."""
        self._queue.settle([delivery], [])

    def settle(self, delivery: WebhookDelivery, attempt: Attempt) -> None:
        """Remove a delivery that was accepted; retry any other later, or make it a dead letter."""
        if attempt.is_accepted:
            self._queue.settle([delivery], [])
            self._count(delivery.endpoint, "delivered")
            return
        now = self.now()
        attempts, first = delivery.attempts + 1, delivery.first_time or now
        is_over = attempts >= self._policy.attempts or now - first >= self._policy.age
        is_dead = is_over or not attempt.is_retried
        following = now + self._policy.delay(attempts, self._random, attempt.retry_after)
        noted = replace(delivery, attempts=attempts, first_time=first, next_time=following, is_dead=is_dead)
        self._queue.settle([], [replace(noted, status=attempt.status, error=attempt.error)])
        self._count(delivery.endpoint, "failed")
        if is_dead:
            self._count(delivery.endpoint, "dead")
        if attempt.status == GONE:
            self._queue.set_gone(delivery.endpoint, now)
            log.warning("the webhook endpoint %r answered 410 Gone and was turned off", delivery.endpoint)

    def dead_letters(self, endpoint: str, *, after: tuple[str, int], limit: int) -> list[WebhookDelivery]:
        """Return a page of dead letters of an endpoint, of all without one."""
        return self._queue.dead_letters(endpoint, after=after, limit=limit)

    def retry(self, endpoint: str, event_ids: Sequence[str]) -> int:
        """Send dead letters again, all without *event_ids*; an endpoint that was turned off is turned on.

        Raises:
            InvalidRequestError: There is no such endpoint, or an id is of another store.
        """
        positions = self._positions(endpoint, event_ids)
        count = self._queue.retry(endpoint, positions)
        self._queue.set_gone(endpoint, None)
        return count

    def drop(self, endpoint: str, event_ids: Sequence[str]) -> int:
        """Remove dead letters, all without *event_ids*.

        Raises:
            InvalidRequestError: There is no such endpoint, or an id is of another store.
        """
        return self._queue.drop(endpoint, self._positions(endpoint, event_ids))

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of attempts of this process by endpoint and "delivered", "failed" or "dead"."""
        with self._lock:
            return dict(self._counts)

    def states(self) -> dict[str, WebhookState]:
        """Return the state of each endpoint that was used; none while the store cannot be reached."""
        try:
            found = {name: self._queue.state(name) for name in self.endpoints}
        except MemsvcError:
            return {}
        return {name: state for name, state in found.items() if state is not None}

    def _positions(self, endpoint: str, event_ids: Sequence[str]) -> list[int]:
        violations = []
        # One that was removed from the settings may still have dead letters.
        if endpoint not in self.endpoints and self._queue.state(endpoint) is None:
            known = ", ".join(map(repr, self.endpoints)) or "none"
            violations.append(Violation("endpoint", f"must be a webhook of the settings: {known}"))
        positions = []
        for number, event_id in enumerate(event_ids):
            position = self._position(event_id)
            if position is None:
                violations.append(Violation(f"event_ids[{number}]", "must be the id of an event of this service"))
            else:
                positions.append(position)
        if violations:
            raise InvalidRequestError(violations)
        return positions

    def _position(self, event_id: str) -> int | None:
        prefix = f"msg_{self._changes.identity}_"
        digits = event_id.removeprefix(prefix)
        is_own = event_id.startswith(prefix) and digits.isascii() and digits.isdigit()
        return int(digits) if is_own and len(digits) <= _POSITION_DIGITS else None

    def _count(self, endpoint: str, outcome: str) -> None:
        with self._lock:
            self._counts[endpoint, outcome] += 1


def scope_of(delivery: WebhookDelivery) -> Scope:
    """Return the tenant, the user and the project of a delivery."""
    tenant_id, _, user_id = delivery.owner.partition(OWNER_SEPARATOR)
    return Scope(user_id, delivery.project_id, tenant_id=tenant_id)


def _is_seen(memory: Memory | None) -> bool:
    return memory is not None and memory.status not in UNNAMED
