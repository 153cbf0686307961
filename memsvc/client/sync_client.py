"""The client for code without asyncio: the same client, run on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from memsvc.client.async_client import AsyncMemsvc
from memsvc.client.channel import CLIENT_CLOSED, DEFAULT_ADDRESS, Tls

P = ParamSpec("P")
R = TypeVar("R")


class _LoopThread:
    """A thread with a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="memsvc-client", daemon=True)
        self._thread.start()

    def wait_for(self, work: Coroutine[Any, Any, R]) -> R:
        """Run *work* on the loop and return its result; when the wait is interrupted, the work is cancelled.

        Raises:
            RuntimeError: The loop ended before the work did, because the client was closed.
        """
        future = self.submit(work)
        try:
            return future.result()
        except CancelledError as error:
            raise RuntimeError(CLIENT_CLOSED) from error
        finally:
            future.cancel()

    def submit(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Start *work* on the loop; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def abandon(self, source: AsyncGenerator[Any, None]) -> None:
        """Close a stream without waiting for it: it may be dropped by any thread, even this one."""
        with suppress(RuntimeError):  # the loop has ended, and closed the stream with it
            self._loop.call_soon_threadsafe(lambda: self.submit(_closed(source)))

    def stop(self) -> None:
        """End the loop and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            # A call that waits, such as for the delay that a rate limit asks for, would keep its thread waiting.
            under_way = asyncio.all_tasks(self._loop)
            for task in under_way:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*under_way, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


class _SharedLoop:
    """One loop for all clients of the process: gRPC complains when it has to serve two."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: _LoopThread | None = None

    def enter(self) -> _LoopThread:
        with self._lock:
            self._users += 1
            self._thread = self._thread or _LoopThread()
            return self._thread

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._thread is not None:
                self._thread.stop()
                self._thread = None


_SHARED = _SharedLoop()


def _sync(
    method: Callable[Concatenate[AsyncMemsvc, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Memsvc, P], R]:
    """Return a method that waits for the one of the asynchronous client."""

    @functools.wraps(method)
    def call(self: Memsvc, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.loop.wait_for(method(self.client, *args, **kwargs))

    return call


def _stream(
    method: Callable[Concatenate[AsyncMemsvc, P], AsyncGenerator[R, None]],
) -> Callable[Concatenate[Memsvc, P], Iterator[R]]:
    """Return a method that yields what the one of the asynchronous client does."""

    @functools.wraps(method)
    def call(self: Memsvc, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        loop = self.loop
        source = method(self.client, *args, **kwargs)
        try:
            while True:
                try:
                    yield loop.wait_for(_next(source))
                except StopAsyncIteration:
                    return
        finally:
            loop.abandon(source)

    signature = inspect.signature(method)
    del call.__wrapped__  # else tools would show the signature of the asynchronous method
    kept = str(signature.return_annotation).removeprefix("AsyncGenerator[").rpartition(",")[0]
    call.__signature__ = signature.replace(return_annotation=f"Iterator[{kept}]")  # type: ignore[attr-defined]
    call.__annotations__ = {**call.__annotations__, "return": f"Iterator[{kept}]"}
    return call


async def _next(source: AsyncGenerator[R, None]) -> R:
    return await anext(source)


async def _closed(source: AsyncGenerator[R, None]) -> None:
    await source.aclose()


class Memsvc:
    """A connection to a memory service, for one user and project. Use it as a context manager.

    It does what AsyncMemsvc does, method by method, and may be used from several threads. Streams are iterators; to
    leave one early, close it or drop it.
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
        self.client = AsyncMemsvc(
            address,
            user_id=user_id,
            project_id=project_id,
            agent_id=agent_id,
            session_id=session_id,
            timeout=timeout,
            api_key=api_key,
            tls=tls,
            on_notice=on_notice,
        )
        self._loop: _LoopThread | None = None

    def open(self) -> Self:
        """Open the channel; it connects with the first call. Close the client when done. Opening twice is no error."""
        if self._loop is None:
            self._loop = _SHARED.enter()
            self._loop.wait_for(self.client.__aenter__())
        return self

    def __enter__(self) -> Self:
        """Open the channel. It connects with the first call."""
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channel and end what is under way."""
        self.close()

    def close(self) -> None:
        """Close the channel and end what is under way. Closing twice is no error."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.wait_for(self.client.close())
            finally:
                _SHARED.leave()

    @property
    def loop(self) -> _LoopThread:
        """The thread that does the work.

        Raises:
            RuntimeError: The client is not open.
        """
        if self._loop is None:
            message = "The client is not open; use it as a context manager, or call open() first."
            raise RuntimeError(message)
        return self._loop

    wait_ready = _sync(AsyncMemsvc.wait_ready)
    create = _sync(AsyncMemsvc.create)
    create_many = _sync(AsyncMemsvc.create_many)
    import_memories = _stream(AsyncMemsvc.import_memories)
    get = _sync(AsyncMemsvc.get)
    get_many = _sync(AsyncMemsvc.get_many)
    get_with_files = _sync(AsyncMemsvc.get_with_files)
    update = _sync(AsyncMemsvc.update)
    delete = _sync(AsyncMemsvc.delete)
    delete_memories = _stream(AsyncMemsvc.delete_memories)
    update_memories = _stream(AsyncMemsvc.update_memories)
    list_scopes = _stream(AsyncMemsvc.list_scopes)
    restore = _sync(AsyncMemsvc.restore)
    promote = _sync(AsyncMemsvc.promote)
    due_reminders = _stream(AsyncMemsvc.due_reminders)
    acknowledge_reminder = _sync(AsyncMemsvc.acknowledge_reminder)
    consolidate = _sync(AsyncMemsvc.consolidate)
    undo_consolidation = _sync(AsyncMemsvc.undo_consolidation)
    summarize = _sync(AsyncMemsvc.summarize)
    archive = _sync(AsyncMemsvc.archive)
    maintain = _stream(AsyncMemsvc.maintain)
    supersede = _sync(AsyncMemsvc.supersede)
    chain = _sync(AsyncMemsvc.chain)
    conflicts = _stream(AsyncMemsvc.conflicts)
    detect_conflicts = _stream(AsyncMemsvc.detect_conflicts)
    resolve = _sync(AsyncMemsvc.resolve)
    capture = _sync(AsyncMemsvc.capture)
    flush = _sync(AsyncMemsvc.flush)
    append = _sync(AsyncMemsvc.append)
    ingest = _sync(AsyncMemsvc.ingest)
    search = _sync(AsyncMemsvc.search)
    search_many = _sync(AsyncMemsvc.search_many)
    create_session = _sync(AsyncMemsvc.create_session)
    append_messages = _sync(AsyncMemsvc.append_messages)
    pop_messages = _sync(AsyncMemsvc.pop_messages)
    clear_messages = _sync(AsyncMemsvc.clear_messages)
    get_session = _sync(AsyncMemsvc.get_session)
    list_sessions = _stream(AsyncMemsvc.list_sessions)
    list_messages = _stream(AsyncMemsvc.list_messages)
    trim_session = _sync(AsyncMemsvc.trim_session)
    close_session = _sync(AsyncMemsvc.close_session)
    reopen_session = _sync(AsyncMemsvc.reopen_session)
    upload_file = _sync(AsyncMemsvc.upload_file)
    download_file = _stream(AsyncMemsvc.download_file)
    read_file = _sync(AsyncMemsvc.read_file)
    save_file = _sync(AsyncMemsvc.save_file)
    get_file = _sync(AsyncMemsvc.get_file)
    list_files = _stream(AsyncMemsvc.list_files)
    delete_file = _sync(AsyncMemsvc.delete_file)
    search_all = _sync(AsyncMemsvc.search_all)
    resolve_file_refs = _sync(AsyncMemsvc.resolve_file_refs)
    stream_search = _stream(AsyncMemsvc.stream_search)
    build_context = _stream(AsyncMemsvc.build_context)
    render_context = _sync(AsyncMemsvc.render_context)
    resolve_citations = _sync(AsyncMemsvc.resolve_citations)
    load_core = _sync(AsyncMemsvc.load_core)
    report_use = _sync(AsyncMemsvc.report_use)
    use_reports = _stream(AsyncMemsvc.use_reports)
    use_feedback = _sync(AsyncMemsvc.use_feedback)
    use_counts = _sync(AsyncMemsvc.use_counts)
    stats = _sync(AsyncMemsvc.stats)
    list_users = _stream(AsyncMemsvc.list_users)
    list_projects = _stream(AsyncMemsvc.list_projects)
    list_agents = _stream(AsyncMemsvc.list_agents)
    diagnose = _sync(AsyncMemsvc.diagnose)
    performance = _sync(AsyncMemsvc.performance)
    reindex = _stream(AsyncMemsvc.reindex)
    check_integrity = _stream(AsyncMemsvc.check_integrity)
    export_user = _stream(AsyncMemsvc.export_user)
    import_user = _stream(AsyncMemsvc.import_user)
    erase_user = _sync(AsyncMemsvc.erase_user)
    create_backup = _stream(AsyncMemsvc.create_backup)
    migrate_backend = _stream(AsyncMemsvc.migrate_backend)
    create_api_key = _sync(AsyncMemsvc.create_api_key)
    api_keys = _stream(AsyncMemsvc.api_keys)
    revoke_api_key = _sync(AsyncMemsvc.revoke_api_key)
    set_quota = _sync(AsyncMemsvc.set_quota)
    quota = _sync(AsyncMemsvc.quota)
    quotas = _stream(AsyncMemsvc.quotas)
    dead_letters = _stream(AsyncMemsvc.dead_letters)
    retry_dead_letters = _sync(AsyncMemsvc.retry_dead_letters)
    drop_dead_letters = _sync(AsyncMemsvc.drop_dead_letters)
    sync_vault = _stream(AsyncMemsvc.sync_vault)
    watch = _stream(AsyncMemsvc.watch)
    quarantined = _stream(AsyncMemsvc.quarantined)
    review = _sync(AsyncMemsvc.review)
    revisions = _stream(AsyncMemsvc.revisions)
    rollback = _sync(AsyncMemsvc.rollback)
    create_checkpoint = _sync(AsyncMemsvc.create_checkpoint)
    delete_checkpoint = _sync(AsyncMemsvc.delete_checkpoint)
    checkpoints = _stream(AsyncMemsvc.checkpoints)
    diff_checkpoint = _stream(AsyncMemsvc.diff_checkpoint)
    rollback_to_checkpoint = _sync(AsyncMemsvc.rollback_to_checkpoint)
    list = _stream(AsyncMemsvc.list)
