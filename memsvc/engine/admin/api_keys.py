"""Creation, listing, revocation and authentication of API keys; quotas of keys and tenants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memsvc.domain.api_keys import (
    ApiKey,
    ApiKeyRole,
    KeyDemand,
    KeyState,
    Quota,
    QuotaSubject,
    QuotaUse,
    digest_of_key,
    key_id_of,
    new_key_text,
)
from memsvc.domain.errors import (
    ApiKeyExpiredError,
    ApiKeyInvalidError,
    ApiKeyNotFoundError,
    ApiKeyRequiredError,
    BackendUnavailableError,
    InvalidRequestError,
    Violation,
)
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import IdempotentRequest, recall_answer, remember_answer, request_digest
from memsvc.ports.features import CallRates, KeyReads
from memsvc.ports.metadata import MetadataStore, Transaction

_NOBODYS = Reach(Scope("").owner, ())
"""The owner of stored requests about keys: no user has an empty id."""
MAX_CACHED_KEYS = 10_000
"""Maximum number of cached keys; the oldest lookups are evicted."""


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """The properties of a new key; the fields are those of `ApiKey`, and *ttl* may replace expire_time."""

    name: str = ""
    role: ApiKeyRole = ApiKeyRole.READ_WRITE
    tenant_id: str = ""
    user_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    expire_time: datetime | None = None
    ttl: timedelta | None = None
    calls_per_second: float = 0.0
    concurrent_calls: int = 0


@dataclass(frozen=True, slots=True)
class CreatedApiKey:
    """A key and its text, which is empty when an earlier request with the same id created the key."""

    key: ApiKey
    text: str


class ApiKeyService:
    """The keys of a store. *changed* is called with the id of every created or revoked key, once that is durable."""

    def __init__(
        self,
        reads: KeyReads,
        committer: GroupCommitter,
        *,
        now: Callable[[], datetime],
        random: Callable[[int], bytes],
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Write through *committer*; *random* must be cryptographically secure."""
        self._reads = reads
        self._committer = committer
        self._now = now
        self._random = random
        self._changed = changed

    def create(self, new: NewApiKey, *, request_id: str = "") -> CreatedApiKey:
        """Create a key. The text is returned only here and not stored.

        Raises:
            InvalidRequestError: The key would never be valid.
            RequestIdReusedError: The id was used for another request.
        """
        now = self._now()
        key_id, text = new_key_text(now, self._random)
        request = IdempotentRequest("CreateApiKey", request_id, request_digest(new), _NOBODYS)

        def work(transaction: Transaction) -> str:
            known = recall_answer(transaction, request)
            if known is not None:
                return str(known["id"])
            transaction.add_key(_key(new, key_id, digest_of_key(text), now))
            remember_answer(transaction, request, {"id": key_id})
            return key_id

        made = self._committer.submit(work).value
        self._changed(made)
        return CreatedApiKey(self._get(made), text if made == key_id else "")

    def page(self, *, after: str, limit: int, include_ended: bool) -> Sequence[ApiKey]:
        """Return the next *limit* keys after the id *after*, oldest first."""
        return self._reads.page(after=after, limit=limit, alive_at=None if include_ended else self._now())

    def revoke(self, key_id: str, *, request_id: str = "") -> ApiKey:
        """Revoke a key, and return it; a revoked key is not changed.

        Raises:
            ApiKeyNotFoundError: There is no such key.
            RequestIdReusedError: The id was used for another request.
        """
        request = IdempotentRequest("RevokeApiKey", request_id, request_digest(key_id), _NOBODYS)

        def work(transaction: Transaction) -> ApiKey | None:
            recall_answer(transaction, request)
            key = transaction.revoke_key(key_id, self._now())
            if key is not None:
                remember_answer(transaction, request, {"id": key_id})
            return key

        key = self._committer.submit(work).value
        self._changed(key_id)
        if key is None:
            raise ApiKeyNotFoundError(key_id)
        return key

    def _get(self, key_id: str) -> ApiKey:
        key = self._reads.get(key_id)
        if key is None:
            raise ApiKeyNotFoundError(key_id)
        return key


class QuotaService:
    """The quotas of a store, which the store observes. *changed* is called once a new one is durable."""

    def __init__(
        self,
        store: MetadataStore,
        committer: GroupCommitter,
        *,
        now: Callable[[], datetime],
        changed: Callable[[], None],
    ) -> None:
        """Write through *committer*."""
        self._reads = store.quotas
        self._keys = store.api_keys
        self._committer = committer
        self._now = now
        self._changed = changed

    def set(self, quota: Quota, *, resets_use: bool = False) -> QuotaUse:
        """Replace the quota of a tenant or a key, or remove it if nothing is limited; return it.

        Raises:
            ApiKeyNotFoundError: There is no such key.
        """
        self._require_key(quota.subject, quota.id)
        dated = replace(quota, update_time=self._now())

        def work(transaction: Transaction) -> None:
            transaction.set_quota(dated)
            if resets_use:
                transaction.add_usage(quota.subject, quota.id, -self._reads.get(quota.subject, quota.id).used)

        self._committer.submit(work)
        self._changed()
        return self._reads.get(quota.subject, quota.id)

    def get(self, subject: QuotaSubject, name: str) -> QuotaUse:
        """Return the quota of a tenant or a key, an empty one if there is none, with what is stored.

        Raises:
            ApiKeyNotFoundError: There is no such key.
        """
        self._require_key(subject, name)
        return self._reads.get(subject, name)

    def page(self, *, after: tuple[QuotaSubject, str] | None = None, limit: int) -> Sequence[QuotaUse]:
        """Return the next *limit* quotas."""
        return self._reads.page(after=after, limit=limit)

    def _require_key(self, subject: QuotaSubject, name: str) -> None:
        if subject is QuotaSubject.KEY and self._keys.get(name) is None:
            raise ApiKeyNotFoundError(name)


@dataclass(frozen=True, slots=True)
class ApiKeyAccess:
    """The key management, the quotas and the authenticator of a running service.

    Attributes:
        shared_rates: Counts the calls of keys and tenants for all servers of the store; None: this one is alone.
    """

    keys: ApiKeyService
    authenticator: ApiKeyAuthenticator
    quotas: QuotaService
    shared_rates: CallRates | None


def _key(new: NewApiKey, key_id: str, digest: bytes, now: datetime) -> ApiKey:
    expire_time = new.expire_time if new.ttl is None else now + new.ttl
    if expire_time is not None and expire_time <= now:
        raise InvalidRequestError([Violation("expire_time", "must be in the future")])
    return ApiKey(
        id=key_id,
        name=new.name,
        role=new.role,
        digest=digest,
        create_time=now,
        tenant_id=new.tenant_id,
        user_ids=new.user_ids,
        project_ids=new.project_ids,
        expire_time=expire_time,
        calls_per_second=new.calls_per_second,
        concurrent_calls=new.concurrent_calls,
    )


# Authentication: from the cache, or from the store when the entry is stale.


@dataclass(frozen=True, slots=True)
class _CachedKey:
    key: ApiKey
    time: datetime


class ApiKeyAuthenticator:
    """An authenticator of key texts. Thread-safe.

    Cached keys are at most *refresh* old: a key that another process revoked may be accepted here for that time.
    Changes by this process apply at once, by `forget`.
    """

    def __init__(self, reads: KeyReads, *, demand: KeyDemand, refresh: timedelta, now: Callable[[], datetime]) -> None:
        """Start with an empty cache; look up keys in *reads*."""
        self._reads = reads
        self._demand = demand
        self._refresh = refresh
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[str, _CachedKey] = {}
        self._changes = 0
        self._are_there = demand is KeyDemand.REQUIRED
        self._none_at: datetime | None = None

    def is_key_required(self) -> bool | None:
        """Return whether callers need a key, or None when `check_for_keys` must query the store."""
        if self._demand is KeyDemand.OFF:
            return False
        # A key is never removed, so a positive result is final.
        if self._are_there:
            return True
        return False if self._none_at is not None and self._is_fresh(self._none_at) else None

    def check_for_keys(self) -> bool:
        """Query the store for whether callers need a key, and return it.

        While the store cannot be reached the last known result holds: a service without keys can still be diagnosed.

        Raises:
            BackendUnavailableError: The store cannot be reached, and there is no known result.
        """
        changes, moment = self._changes, self._now()
        try:
            found = self._demand is not KeyDemand.OFF and self._reads.has_any()
        except BackendUnavailableError:
            if self._none_at is None:
                raise
            return False
        with self._lock:
            self._are_there = self._are_there or found
            if not found and changes == self._changes:
                self._none_at = moment
        return self._are_there

    def find_cached(self, text: str) -> ApiKey | None:
        """Return the key with this text from the cache, else None.

        Raises:
            ApiKeyRequiredError: The text is empty.
            ApiKeyInvalidError: The text is not that of a valid key, by the cache.
            ApiKeyExpiredError: The key has expired.
        """
        looked = self._known.get(_id_of(text))
        if looked is None or not self._is_fresh(looked.time):
            return None
        return self._open_key(looked.key, text)

    def authenticate(self, text: str) -> ApiKey:
        """Return the key with this text from the store.

        Raises:
            ApiKeyRequiredError: The text is empty.
            ApiKeyInvalidError: There is no such key, or it was revoked.
            ApiKeyExpiredError: The key has expired.
            BackendUnavailableError: The store cannot be reached.
        """
        key_id = _id_of(text)
        changes, moment = self._changes, self._now()
        key = self._reads.get(key_id)
        # Failed lookups are not cached, so guesses cannot evict keys.
        if key is None or not key.is_opened_by(text):
            raise ApiKeyInvalidError
        with self._lock:
            if changes == self._changes:
                self._known.pop(key_id, None)
                self._known[key_id] = _CachedKey(key, moment)
                if len(self._known) > MAX_CACHED_KEYS:
                    self._known.pop(next(iter(self._known)))
        return self._open_key(key, text)

    def forget(self, key_id: str) -> None:
        """Drop a changed key, and whether there is any key, from the cache."""
        with self._lock:
            self._changes += 1
            self._known.pop(key_id, None)
            self._none_at = None

    def forget_all(self) -> None:
        """Drop all keys from the cache: a quota was changed, which may be that of any."""
        with self._lock:
            self._changes += 1
            self._known.clear()

    def _open_key(self, key: ApiKey, text: str) -> ApiKey:
        # The text is checked first: only its holder learns the state of the key.
        if not key.is_opened_by(text):
            raise ApiKeyInvalidError
        state = key.state(self._now())
        if state is KeyState.REVOKED:
            raise ApiKeyInvalidError
        if state is KeyState.EXPIRED:
            raise ApiKeyExpiredError(key.id, key.expire_time)
        return key

    def _is_fresh(self, moment: datetime) -> bool:
        return timedelta() <= self._now() - moment < self._refresh


def _id_of(text: str) -> str:
    if not text:
        raise ApiKeyRequiredError
    key_id = key_id_of(text)
    if key_id is None:
        raise ApiKeyInvalidError
    return key_id
