"""Whether a call may go on: whose key it brings, what that is good for, and whether it is within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from memsvc.domain.api_keys import ApiKey
from memsvc.domain.errors import ApiKeyExpiredError, ApiKeyInvalidError, MemsvcError, PermissionDeniedError
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator
from memsvc.server import call_context
from memsvc.server.addresses import is_local_peer
from memsvc.server.executors import NamedExecutor
from memsvc.server.interceptors.chain import Call, Context, Following
from memsvc.server.key_limits import KeyRateLimiter
from memsvc.server.permissions import KEY_METHODS, role_for

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
