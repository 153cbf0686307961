"""The client for asyncio. Everything the client can do is in it; the other face only waits for it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from memsvc.client.admin import AdminMethods
from memsvc.client.channel import DEFAULT_ADDRESS, Connection, Tls
from memsvc.client.files import FileMethods
from memsvc.client.memories import MemoryMethods
from memsvc.client.search import SearchMethods
from memsvc.client.sessions import SessionMethods
from memsvc.client.watch import WatchMethods
from memsvc.v1 import types_pb2 as types_pb

if TYPE_CHECKING:
    import grpc


class AsyncMemsvc(MemoryMethods, SearchMethods, SessionMethods, FileMethods, AdminMethods, WatchMethods):
    """A connection to a memory service, for one user and project. Use it as an async context manager.

    Every method may raise MemsvcCallError, ValueError for a value that no message can hold, and RuntimeError if the
    client is not open, or is closed during the call. Mutations that are
    given no request_id make their own, so that a call which is tried again still happens once. A timeout is in seconds
    and holds for all tries together.
    """

    def __init__(  # noqa: PLR0913 - an option each
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        user_id: str,
        project_id: str = "",
        agent_id: str = "",
        session_id: str = "",
        timeout: float = 30.0,
        api_key: str | None = None,
        tls: Tls | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """Remember where to connect: "HOST:PORT" or "unix:PATH". *timeout* holds for calls that name none.

        The *api_key* is that of MEMSVC_API_KEY unless another one is given. Without *tls* nothing is encrypted.
        *on_notice* gets the notice of a change that is stored and that searches do not find yet, or of a key that was
        not stored.
        """
        super().__init__(
            types_pb.Scope(user_id=user_id, project_id=project_id, agent_id=agent_id, session_id=session_id)
        )
        self._address = address
        self._timeout = timeout
        self._api_key = api_key
        self._tls = tls
        self._on_notice = on_notice

    def open(self, channel: grpc.aio.Channel | None = None) -> Self:
        """Open the channel inside a running event loop; it connects with the first call. Opening twice is no error.

        A given *channel* is used as it is, in place of one to the address.
        """
        if self._opened is None:
            self._opened = Connection(
                self._address,
                timeout_seconds=self._timeout,
                api_key=self._api_key,
                tls=self._tls,
                channel=channel,
                on_notice=self._on_notice,
            )
        return self

    async def __aenter__(self) -> Self:
        """Open the channel. It connects with the first call."""
        return self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channel and end what is under way."""
        await self.close()

    async def close(self) -> None:
        """Close the channel and end what is under way. Closing twice is no error."""
        connection, self._opened = self._opened, None
        if connection is not None:
            await connection.close()
