"""Authentication and authorisation of calls by API key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context as Variables
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from google.protobuf.message import Message

from memsvc.domain import limits
from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.domain.errors import (
    ApiKeyExpiredError,
    ApiKeyInvalidError,
    ApiKeyRequiredError,
    MemsvcError,
    PermissionDeniedError,
)
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator
from memsvc.server import call_context
from memsvc.server.addresses import is_local_peer
from memsvc.server.call_context import Call, CallNext, Context
from memsvc.server.executors import NamedExecutor
from memsvc.server.interceptors.key_limits import KeyLimiter

HEADER = "authorization"
SCHEME = "bearer "


class Authentication:
    """Authentication of calls. Keys are cached; those that are not cached are read from the store in *executor*."""

    def __init__(
        self, keyring: ApiKeyAuthenticator, limits: KeyLimiter, executor: NamedExecutor, *, recheck_seconds: float
    ) -> None:
        """Check the keys of open streams every *recheck_seconds*."""
        self._keyring = keyring
        self._limits = limits
        self._executor = executor
        self._recheck_seconds = recheck_seconds
        self._lookups = asyncio.Semaphore(KEY_LOOKUPS)
        self._brake = RefusalBrake(time.monotonic)
        self._streams: dict[str, _KeyStreams] = {}
        self._log = structlog.get_logger("memsvc.errors")

    async def admit(self, call: Call) -> Callable[[], None] | None:
        """Authenticate and authorise the call before anything is done for it.

        The result has to be called at the end of the call; None without authentication. A role that depends on the
        request is checked as soon as the request is decoded.
        """
        verified = _verified_key(call)
        is_required = verified is not None or self._keyring.is_key_required()
        if is_required is None:
            is_required = await self._executor.proceed(self._keyring.check_for_keys)
        if not is_required:
            if call.method in KEY_METHODS and not is_local_peer(call.context.peer()):
                message = "Without authentication, keys and quotas can be managed from the machine of the service only."
                raise PermissionDeniedError(message, needed="ADMIN")
            return None
        key = verified or await self._known(key_text(call.context), size=call.size)
        call_context.principal.set(principal_of(key))
        check = partial(_require_role, key, call.method)
        if isinstance(call.request, bytes) and call.method in PREVIEWS.keys() | WITHOUT_SCOPE:
            call.authorize = check
        else:
            check(call.request)
        return await self._limits.acquire(key)

    def watched(self, call: Call, body: CallNext) -> CallNext:
        """Return the body of a stream that ends when its key is no longer valid."""
        text = key_text(call.context)
        verified = _verified_key(call)
        if verified is not None:
            return partial(_until_expired, body, verified)

        async def run(call: Call) -> Any:
            async with self._rechecked(text):
                return await body(call)

        return run

    async def find_key(self, text: str) -> ApiKey:
        """Return the key with this text; refusals are delayed as those of calls are.

        Raises:
            MemsvcError: There is none, it is not valid, or the store cannot be asked.
        """
        return await self._known(text)

    async def _known(self, text: str, *, size: int = 0) -> ApiKey:
        try:
            known = self._keyring.find_cached(text)
            if known is not None:
                return known
            async with self._lookups:
                # Another call with the same key may have looked it up in the meantime.
                known = self._keyring.find_cached(text)
                return await self._executor.proceed(self._keyring.authenticate, text) if known is None else known
        except (ApiKeyInvalidError, ApiKeyRequiredError):
            await self.slow_down(size=size)
            raise

    async def slow_down(self, *, size: int = 0) -> None:
        """Count a refused key or token of a request of *size* bytes, and delay its refusal once there are many."""
        await self._brake.slow_down(size=size)

    @asynccontextmanager
    async def _rechecked(self, text: str) -> AsyncIterator[None]:
        """Cancel the body when the key is no longer valid."""
        streams = self._streams.get(text)
        if streams is None:
            streams = self._streams[text] = _KeyStreams()
            # Not in the context of the call: its deadline is not that of the other streams.
            streams.task = asyncio.create_task(self._recheck(text, streams), name="key", context=Variables())
        try:
            async with asyncio.timeout(None) as limit:
                streams.limits.add(limit)
                try:
                    yield
                finally:
                    streams.limits.discard(limit)
                    if not streams.limits:
                        self._forget(text, streams)
        except TimeoutError as error:
            if streams.refusal is not None:
                raise streams.refusal from error
            raise

    async def _recheck(self, text: str, streams: _KeyStreams) -> None:
        """End the streams of a key when it is no longer valid. One task for all of them."""
        while streams.refusal is None:
            await asyncio.sleep(self._recheck_seconds)
            try:
                await self._known(text)
            except (ApiKeyInvalidError, ApiKeyExpiredError) as refusal:
                streams.refusal = refusal
            except MemsvcError:
                # The store is unavailable or busy: that is no reason to end the streams.
                continue
            except Exception:  # noqa: BLE001 - without this task, a revoked key would keep its streams
                self._log.exception("the key of open streams was not checked, and is checked again")
        self._forget(text, streams)
        now = asyncio.get_running_loop().time()
        for limit in streams.limits:
            limit.reschedule(now)

    def _forget(self, text: str, streams: _KeyStreams) -> None:
        if self._streams.get(text) is streams:
            del self._streams[text]
        if streams.task is not None and streams.refusal is None:
            streams.task.cancel()


def _verified_key(call: Call) -> ApiKey | None:
    """Return the rights of a caller that its transport has authenticated; None: its API key decides."""
    verified: ApiKey | None = getattr(call.context, "verified_key", None)
    return verified


@dataclass(slots=True, eq=False)
class _KeyStreams:
    """Open streams of a key.

    Attributes:
        limits: The time limits of their bodies, none until the key is no longer valid.
        refusal: The reason then.
    """

    limits: set[asyncio.Timeout] = field(default_factory=set)
    task: asyncio.Task[None] | None = None
    refusal: MemsvcError | None = None


async def _until_expired(body: CallNext, key: ApiKey, call: Call) -> Any:
    """Run a stream until the token that its caller was authenticated by expires."""
    expired = key.expire_time or datetime.max.replace(tzinfo=UTC)
    seconds = None if key.expire_time is None else (key.expire_time - datetime.now(UTC)).total_seconds()
    try:
        async with asyncio.timeout(seconds) as limit:
            return await body(call)
    except TimeoutError as error:
        if limit.expired():
            raise ApiKeyExpiredError(key.id, expired) from error
        raise


def _require_role(key: ApiKey, method: str, request: Any) -> None:
    if method in ALL_PROJECTS and key.project_ids:
        message = f"{method} counts all projects of a user; the key {key.id!r} is authorised for some projects only."
        raise PermissionDeniedError(message, key_id=key.id, needed="project_id")
    if method in OWN_USERS and key.user_ids:
        return
    needed = role_for(method, request)
    if not key.role.covers(needed):
        message = f"{method} needs a key of role {needed}; the key {key.id!r} is {key.role}."
        raise PermissionDeniedError(message, key_id=key.id, needed=needed)


def key_text(context: Context) -> str:
    """Return the API key of a call; empty without one."""
    for name, value in context.invocation_metadata() or ():
        if name == HEADER and isinstance(value, str):
            is_bearer = value[: len(SCHEME)].lower() == SCHEME
            return value[len(SCHEME) :].strip() if is_bearer else ""
    return ""


def principal_of(key: ApiKey) -> call_context.Principal:
    """Return the caller that a key authenticates."""
    return call_context.Principal(key.tenant_id, key.id, key.role, frozenset(key.user_ids), frozenset(key.project_ids))


# The role that each method of the API needs.
#
# A method that is missing here needs ADMIN; a test checks that none is missing.


READS = frozenset(
    {
        "GetMemory", "BatchGetMemories", "ListMemories", "ListConflicts", "ListQuarantined", "ListRevisions",
        "WatchMemories", "Search", "BatchSearch", "StreamSearch", "SearchAll", "BuildContext", "RenderContext",
        "ResolveCitations",
        "LoadCore", "GetSession", "ListSessions", "ListMessages", "DownloadFile", "GetFile", "ListFiles",
        "ResolveFileRefs", "GetStats", "ListCheckpoints", "DiffCheckpoint", "ListDueReminders", "ExportUser",
        "ListScopes", "ListProjects", "ListAgents", "ListUseReports", "GetUseFeedback",
    }
)  # fmt: skip
"""Methods that change nothing."""
WRITES = frozenset(
    {
        "CreateMemory", "BatchCreateMemories", "ImportMemories", "UpdateMemory", "DeleteMemory", "RestoreMemory",
        "SupersedeMemory", "ResolveConflict", "CaptureMemory", "FlushMessages", "AppendMemory", "IngestDocument",
        "ReviewMemory", "RollbackMemory", "CreateSession", "AppendMessages", "TrimSession", "CloseSession",
        "ReopenSession", "UploadFile", "DeleteFile", "CreateCheckpoint", "RollbackToCheckpoint", "PromoteMemory",
        "DeleteCheckpoint",
        "AcknowledgeReminder", "CheckIntegrity", "ConsolidateMemories", "UndoConsolidation", "SummarizePeriod",
        "RunMaintenance", "DetectConflicts", "ArchiveMemory", "ImportUser", "EraseUser", "SyncVault",
        "DeleteMemories", "UpdateMemories", "PopMessages", "ClearMessages", "ReportUse",
    }
)  # fmt: skip
"""Methods that can change the data of a scope."""
PREVIEWS: Mapping[str, Mapping[str, bool]] = {
    "CaptureMemory": {"dry_run": True},
    "CheckIntegrity": {"repair": False, "remove_broken_refs": False, "remove_orphan_files": False},
    "ConsolidateMemories": {"dry_run": True},
    "DeleteMemories": {"dry_run": True},
    "DetectConflicts": {"dry_run": True},
    "EraseUser": {"confirm": False},
    "RollbackToCheckpoint": {"dry_run": True},
    "RunMaintenance": {"dry_run": True},
    "SyncVault": {"dry_run": True},
    "UpdateMemories": {"dry_run": True},
}
"""Those of `WRITES` that only preview their changes when the request has these values."""
KEY_METHODS = frozenset({"CreateApiKey", "ListApiKeys", "RevokeApiKey", "SetQuota", "GetQuota", "ListQuotas"})
ADMINS = KEY_METHODS | {"Diagnose", "GetPerformance", "Reindex", "CreateBackup", "MigrateBackend", "ListUsers"} | {
    "ListDeadLetters", "RetryDeadLetters", "DropDeadLetters",
}  # fmt: skip
"""Methods that operate the service as a whole."""
OWN_USERS = frozenset({"ListUsers"})
"""Those of `ADMINS` that a key which is restricted to users may call in any role: they are about those users then."""
ALL_PROJECTS = frozenset({"ListUsers", "GetUseFeedback"})
"""Methods that count what a user has in all projects: a key that is restricted to projects may not call them."""
WITHOUT_SCOPE = frozenset({"CheckIntegrity", "RunMaintenance", "SyncVault"})
"""Methods that are about all users when the request has no scope."""


def role_for(method: str, request: Any) -> ApiKeyRole:
    """Return the role that a call needs."""
    if method in READS:
        return ApiKeyRole.READ_ONLY
    if method in WRITES and not (method in WITHOUT_SCOPE and _lacks_scope(request)):
        return ApiKeyRole.READ_ONLY if _is_preview(method, request) else ApiKeyRole.READ_WRITE
    return ApiKeyRole.ADMIN


def body_limit(method: str) -> int | None:
    """Return the most bytes of a request that needs no content; None for other requests."""
    if method == "BatchSearch":
        return limits.SEARCHES_BODY
    return limits.BODY if method in READS or method in ADMINS else None


UNAUDITED = frozenset(
    {"ListApiKeys", "ListUsers", "GetQuota", "ListQuotas", "Diagnose", "GetPerformance", "ListDeadLetters"}
)
"""Reads that have no scope."""


def is_audited(method: str) -> bool:
    """Return whether the audit log has a line for every call of a method."""
    return method not in READS and method not in UNAUDITED


def _is_preview(method: str, request: Any) -> bool:
    """Return whether a request asks for a preview; a stream of requests does not show that beforehand."""
    if method not in PREVIEWS or not isinstance(request, Message):
        return False
    return all(getattr(request, name) is wanted for name, wanted in PREVIEWS[method].items())


def _lacks_scope(request: Any) -> bool:
    # Bytes that are no message are refused for that later.
    return isinstance(request, Message) and not request.HasField("scope")


KEY_LOOKUPS = 2
"""Keys looked up in the store at a time: forged ones must not take the threads of other calls."""
REFUSALS_PER_SECOND, REFUSAL_BURST = 50.0, 100.0
REFUSAL_SECONDS, LONGEST_REFUSAL_SECONDS = 0.5, 10.0
"""The mean delay while few are delayed, and while very many are; the shortest is half of it, the longest one and a half
times as long."""
GOLDEN_RATIO = 0.618034
"""Multiples of it, without their whole parts, are spread evenly over 0 to 1."""
MAX_DELAYED = 1_000
MAX_DELAYED_BYTES = 64 * 1024 * 1024
"""The size of all requests whose refusals are delayed: gRPC keeps them until they are answered."""
_MAX_CALLERS = 1_000


@dataclass(slots=True)
class _Refusals:
    """Refusals of a caller; *level* falls with the *time* since the last one."""

    level: float = 0.0
    time: float = 0.0
    delayed: int = 0


class RefusalBrake:
    """Delay of refusals, once there are many of a caller.

    Callers with forged keys, or who open streams again and again beyond their share, then make a few calls a second
    each. 200 of them took the whole processor, and other calls waited for their refusals. The more are delayed, the
    longer, so that about `REFUSALS_PER_SECOND` are answered. The delays differ, so that those who were refused together
    do not come back together.
    """

    def __init__(self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Read the time in seconds from *clock*, and delay by *sleep*."""
        self._clock = clock
        self._sleep = sleep
        self._refusals: dict[str, _Refusals] = {}
        self._delayed = self._delayed_bytes = 0
        self._spread = 0.0

    async def slow_down(self, caller: str = "", *, size: int = 0) -> None:
        """Count a refusal of a request of *size* bytes; return at once while there are few, or after a while.

        Only so many calls, and bytes, are delayed.
        """
        now = self._clock()
        mine = self._of(caller, now)
        mine.level = max(0.0, mine.level - (now - mine.time) * REFUSALS_PER_SECOND) + 1.0
        mine.time = now
        if mine.level <= REFUSAL_BURST or self._delayed >= MAX_DELAYED:
            return
        if self._delayed_bytes + size > MAX_DELAYED_BYTES:
            return
        mine.level = min(mine.level, 2 * REFUSAL_BURST)
        seconds = min(LONGEST_REFUSAL_SECONDS, max(REFUSAL_SECONDS, mine.delayed / REFUSALS_PER_SECOND))
        mine.delayed += 1
        self._delayed += 1
        self._delayed_bytes += size
        self._spread = (self._spread + GOLDEN_RATIO) % 1.0
        try:
            await self._sleep(seconds * (0.5 + self._spread))
        finally:
            mine.delayed -= 1
            self._delayed -= 1
            self._delayed_bytes -= size

    def _of(self, caller: str, now: float) -> _Refusals:
        if len(self._refusals) >= _MAX_CALLERS and caller not in self._refusals:
            self._refusals = {
                name: one
                for name, one in self._refusals.items()
                if one.delayed or (now - one.time) * REFUSALS_PER_SECOND < one.level
            }
        return self._refusals.setdefault(caller, _Refusals(time=now))
