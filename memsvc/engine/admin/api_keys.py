"""Making, listing and revoking keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memsvc.domain.api_keys import ApiKey, Role, digest_of_key, new_key_text
from memsvc.domain.errors import ApiKeyNotFoundError, InvalidRequestError, Violation
from memsvc.domain.scope import Reach, Scope
from memsvc.engine.access.keyring import ApiKeyAuthenticator
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.engine.commit.idempotency import Request, digest_of, recall, remember
from memsvc.ports.features import KeyReads
from memsvc.ports.metadata import Transaction

_NOBODYS = Reach(Scope("").owner, ())
"""Under whom requests about keys are remembered: no user has an empty id."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """What a key is to be like; the fields are those of `ApiKey`, and *ttl* may stand for expire_time."""

    name: str = ""
    role: Role = Role.READ_WRITE
    tenant_id: str = ""
    user_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    expire_time: datetime | None = None
    ttl: timedelta | None = None
    calls_per_second: float = 0.0
    concurrent_calls: int = 0


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key and its text; that is empty when the key was made by an earlier request of the same id."""

    key: ApiKey
    text: str


class Keys:
    """The keys of a store. *changed* is told the id of every key that was made or revoked, once that is durable."""

    def __init__(
        self,
        reads: KeyReads,
        committer: GroupCommitter,
        *,
        now: Callable[[], datetime],
        random: Callable[[int], bytes],
        changed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Write by *committer*; *random* must be fit for secrets."""
        self._reads = reads
        self._committer = committer
        self._now = now
        self._random = random
        self._changed = changed

    def create(self, new: NewKey, *, request_id: str = "") -> MadeKey:
        """Make a key. The text is returned this once and kept nowhere.

        Raises:
            InvalidRequestError: It would never be in force.
            RequestIdReusedError: The id was used for another request.
        """
        now = self._now()
        key_id, text = new_key_text(now, self._random)
        request = Request("CreateApiKey", request_id, digest_of(new), _NOBODYS)

        def work(transaction: Transaction) -> str:
            known = recall(transaction, request)
            if known is not None:
                return str(known["id"])
            transaction.add_key(_key(new, key_id, digest_of_key(text), now))
            remember(transaction, request, {"id": key_id})
            return key_id

        made = self._committer.submit(work).value
        self._changed(made)
        return MadeKey(self._get(made), text if made == key_id else "")

    def page(self, *, after: str, limit: int, include_ended: bool) -> Sequence[ApiKey]:
        """Return the next *limit* keys after the id *after*, oldest first."""
        return self._reads.page(after=after, limit=limit, alive_at=None if include_ended else self._now())

    def revoke(self, key_id: str, *, request_id: str = "") -> ApiKey:
        """Revoke a key, and return it; one that was revoked before stays as it is.

        Raises:
            ApiKeyNotFoundError: There is none.
            RequestIdReusedError: The id was used for another request.
        """
        request = Request("RevokeApiKey", request_id, digest_of(key_id), _NOBODYS)

        def work(transaction: Transaction) -> ApiKey | None:
            recall(transaction, request)
            key = transaction.revoke_key(key_id, self._now())
            if key is not None:
                remember(transaction, request, {"id": key_id})
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


@dataclass(frozen=True, slots=True)
class Access:
    """What makes the keys of a running service, and what knows them again."""

    keys: Keys
    keyring: ApiKeyAuthenticator


def _key(new: NewKey, key_id: str, digest: bytes, now: datetime) -> ApiKey:
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
