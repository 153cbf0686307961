"""Whether a call may go on: whose key it brings, what that is good for, and whether it is within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from memsvc.domain.api_keys import ApiKey, Role
from memsvc.domain.errors import (
    ApiKeyExpiredError,
    ApiKeyInvalidError,
    LimitExceededError,
    MemsvcError,
    PermissionDeniedError,
)
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator
from memsvc.server import call_context
from memsvc.server.addresses import is_local_peer
from memsvc.server.executors import NamedExecutor
from memsvc.server.interceptors.chain import Call, Context, Following

HEADER = "authorization"
SCHEME = "bearer "


class Admission:
    """Admits calls. What it knows of a key is in memory as a rule; else the store is asked in *executor*."""

    def __init__(
        self, keyring: ApiKeyAuthenticator, limits: KeyRateLimiter, executor: NamedExecutor, *, recheck_seconds: float
    ) -> None:
        """Look every *recheck_seconds* whether the keys of open streams are still good."""
        self._keyring = keyring
        self._limits = limits
        self._executor = executor
        self._recheck_seconds = recheck_seconds

    async def around(self, call: Call, following: Following) -> Any:
        """Admit the call, or refuse it before anything is done for it."""
        demanded = self._keyring.is_demanded()
        if demanded is None:
            demanded = await self._executor.proceed(self._keyring.look_for_any)
        if not demanded:
            if call.method in KEY_METHODS and not is_local_peer(call.context.peer()):
                message = "Where nobody is asked for a key, keys are managed from the machine of the service only."
                raise PermissionDeniedError(message, needed="ADMIN")
            return await following(call)
        text = key_text(call.context)
        key = await self._known(text)
        call_context.principal.set(principal_of(key))
        needed = role_for(call.method, call.request)
        if not key.role.covers(needed):
            message = f"{call.method} needs a key of role {needed}; the key {key.id!r} is {key.role}."
            raise PermissionDeniedError(message, key_id=key.id, needed=needed)
        with self._limits.taken(key):
            if not call.streams:
                return await following(call)
            async with self._rechecked(text):
                return await following(call)

    async def _known(self, text: str) -> ApiKey:
        known = self._keyring.glance(text)
        return await self._executor.proceed(self._keyring.look, text) if known is None else known

    @asynccontextmanager
    async def _rechecked(self, text: str) -> AsyncIterator[None]:
        """End what is inside when the key is good no more."""
        refusals: list[MemsvcError] = []

        async def watch(limit: asyncio.Timeout) -> None:
            while not refusals:
                await asyncio.sleep(self._recheck_seconds)
                try:
                    await self._known(text)
                except (ApiKeyInvalidError, ApiKeyExpiredError) as refusal:
                    refusals.append(refusal)
                except MemsvcError:
                    # The store is not there, or busy: that is no reason to end what goes on.
                    continue
            limit.reschedule(asyncio.get_running_loop().time())

        try:
            async with asyncio.timeout(None) as limit:
                watching = asyncio.create_task(watch(limit), name="key")
                try:
                    yield
                finally:
                    watching.cancel()
        except TimeoutError as error:
            if refusals:
                raise refusals[0] from error
            raise


def key_text(context: Context) -> str:
    """Return the key that came with a call; empty when none did."""
    for name, value in context.invocation_metadata() or ():
        if name == HEADER and isinstance(value, str):
            is_bearer = value[: len(SCHEME)].lower() == SCHEME
            return value[len(SCHEME) :].strip() if is_bearer else ""
    return ""


def principal_of(key: ApiKey) -> call_context.Principal:
    """Return who calls with a key."""
    return call_context.Principal(key.tenant_id, key.id, key.role, frozenset(key.user_ids), frozenset(key.project_ids))


# What a key must be good for to make a call: every method of the API, by name.
#
# A method that is missing here needs an ADMIN; a test asks that none is.


READS = frozenset(
    {
        "GetMemory", "BatchGetMemories", "ListMemories", "ListConflicts", "ListQuarantined", "ListRevisions",
        "WatchMemories", "Search", "BatchSearch", "StreamSearch", "SearchAll", "BuildContext", "RenderContext",
        "LoadCore", "GetSession", "ListSessions", "ListMessages", "DownloadFile", "GetFile", "ListFiles",
        "ResolveFileRefs", "GetStats", "ListCheckpoints", "DiffCheckpoint", "ListDueReminders", "ExportUser",
    }
)  # fmt: skip
"""What changes nothing."""
WRITES = frozenset(
    {
        "CreateMemory", "BatchCreateMemories", "ImportMemories", "UpdateMemory", "DeleteMemory", "RestoreMemory",
        "SupersedeMemory", "ResolveConflict", "CaptureMemory", "FlushMessages", "AppendMemory", "IngestDocument",
        "ReviewMemory", "RollbackMemory", "CreateSession", "AppendMessages", "TrimSession", "CloseSession",
        "ReopenSession", "UploadFile", "DeleteFile", "CreateCheckpoint", "RollbackToCheckpoint", "PromoteMemory",
        "AcknowledgeReminder", "CheckIntegrity", "ConsolidateMemories", "UndoConsolidation", "SummarizePeriod",
        "RunMaintenance", "ArchiveMemory", "ImportUser", "EraseUser", "SyncVault",
    }
)  # fmt: skip
"""What can change what a scope names."""
LOOKS: Mapping[str, Mapping[str, bool]] = {
    "CaptureMemory": {"dry_run": True},
    "CheckIntegrity": {"repair": False, "remove_broken_refs": False, "remove_orphan_files": False},
    "ConsolidateMemories": {"dry_run": True},
    "EraseUser": {"confirm": False},
    "RollbackToCheckpoint": {"dry_run": True},
    "RunMaintenance": {"dry_run": True},
    "SyncVault": {"dry_run": True},
}
"""Those of `WRITES` that change nothing, and only say what they would, when the request's fields are as named here."""
KEY_METHODS = frozenset({"CreateApiKey", "ListApiKeys", "RevokeApiKey"})
ADMINS = KEY_METHODS | {"Diagnose", "GetPerformance", "Reindex", "CreateBackup", "MigrateBackend"}
"""What is about the service as a whole."""
WITHOUT_SCOPE = frozenset({"CheckIntegrity", "RunMaintenance", "SyncVault"})
"""What is about everybody when the request has no scope."""


def role_for(method: str, request: Any) -> Role:
    """Return the role that a call needs."""
    if method in READS:
        return Role.READ_ONLY
    if method in WRITES and not (method in WITHOUT_SCOPE and _lacks_scope(request)):
        return Role.READ_ONLY if _only_looks(method, request) else Role.READ_WRITE
    return Role.ADMIN


def is_noted(method: str) -> bool:
    """Return whether the audit log tells of every call of a method."""
    return method not in READS and method not in {"ListApiKeys", "Diagnose", "GetPerformance"}


def _only_looks(method: str, request: Any) -> bool:
    """Return whether a request says itself that it changes nothing; a stream of requests says nothing beforehand."""
    if method not in LOOKS or not isinstance(request, Message):
        return False
    return all(getattr(request, name) is wanted for name, wanted in LOOKS[method].items())


def _lacks_scope(request: Any) -> bool:
    # What is no message (bytes that could not be read) goes on, to be refused for that.
    return isinstance(request, Message) and not request.HasField("scope")


# How many calls each key may begin in a second, and have under way.


KEPT = 10_000
"""How many keys are counted for before those that are idle are forgotten."""
BUSY_RETRY_SECONDS = 0.1


@dataclass(slots=True)
class _Use:
    """What a key does.

    Attributes:
        due: When its next call would be on time, were they evenly spread (the generic cell rate algorithm).
    """

    under_way: int = 0
    due: float = 0.0


class KeyRateLimiter:
    """Counts calls by key. To be used in one thread: that of the event loop."""

    def __init__(self, *, calls_per_second: float, concurrent_calls: int, clock: Callable[[], float]) -> None:
        """Hold keys that say nothing themselves to these limits, 0 being none, by the seconds of *clock*."""
        self._calls_per_second = calls_per_second
        self._concurrent_calls = concurrent_calls
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def taken(self, key: ApiKey) -> Iterator[None]:
        """Count a call while it lasts.

        Raises:
            LimitExceededError: The key is at one of its limits; it says when to come back. Nothing was counted.
        """
        rate = key.calls_per_second or self._calls_per_second
        most = key.concurrent_calls or self._concurrent_calls
        if not rate and not most:
            yield
            return
        use = self._use(key.id)
        if most and use.under_way >= most:
            limit = f"{most} calls of the key {key.id!r} under way"
            raise LimitExceededError(limit, retry_seconds=BUSY_RETRY_SECONDS)
        if rate:
            self._space(key, use, rate)
        use.under_way += 1
        try:
            yield
        finally:
            use.under_way -= 1

    def _space(self, key: ApiKey, use: _Use, rate: float) -> None:
        now, apart = self._clock(), 1 / rate
        ahead = max(1.0, apart)
        due = max(use.due, now) + apart
        wait = due - now - ahead
        # A little less than nothing is what sums of fractions leave of it.
        if wait > apart * 1e-6:
            limit = f"{rate:g} calls a second of the key {key.id!r}"
            raise LimitExceededError(limit, retry_seconds=wait)
        use.due = due

    def _use(self, key_id: str) -> _Use:
        use = self._uses.get(key_id)
        if use is None:
            if len(self._uses) >= KEPT:
                now = self._clock()
                self._uses = {name: one for name, one in self._uses.items() if one.under_way or one.due > now}
            use = self._uses[key_id] = _Use()
        return use
