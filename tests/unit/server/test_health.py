"""What probes are told when a service has just started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from grpc_health.v1 import health_pb2

from memsvc.domain.diagnostics import BackendHealth
from memsvc.server.monitoring.health import MEMORY_SERVICE, SEARCH_SERVICE, Health
from tests.support.until import until


class CatchingUp:
    """An indexer that has caught up as soon as somebody has looked whether it has."""

    def __init__(self) -> None:
        self._looks = [True]

    @property
    def is_replaying(self) -> bool:
        """Return whether it replays."""
        return bool(self._looks) and self._looks.pop()


async def _proceed(look: Callable[[], Any]) -> Any:
    return look()


async def _was_ready_at_first(health: Health) -> bool:
    """Follow until the service is ready; return whether it was when it began."""
    await health.begin()
    was_ready = health.is_ready
    following = asyncio.create_task(health.follow())
    await asyncio.to_thread(until, lambda: health.is_ready)
    following.cancel()
    await asyncio.wait({following})
    return was_ready


def test_readiness_is_told_soon_after_the_indexes_caught_up() -> None:
    """Not only when backends are looked at the next time, though they caught up right after probes were told not."""
    application = SimpleNamespace(indexer=CatchingUp(), diagnosis=SimpleNamespace(health=list, move_notice=""))
    executors, options = SimpleNamespace(meta=SimpleNamespace(proceed=_proceed)), SimpleNamespace(health_seconds=3600.0)
    health = Health(SimpleNamespace(application=application, executors=executors, options=options))  # type: ignore[arg-type]  # as much of it as is asked

    assert not asyncio.run(_was_ready_at_first(health))


def test_the_return_of_a_backend_is_noticed_soon() -> None:
    """A backend that is broken is pinged every second, however seldom the others are."""
    answers = [[BackendHealth("metadata", "sql", False, "away", 0.0)]]
    diagnosis = SimpleNamespace(health=lambda: answers.pop() if answers else [], move_notice="")
    application = SimpleNamespace(indexer=SimpleNamespace(is_replaying=False), diagnosis=diagnosis)
    executors, options = SimpleNamespace(meta=SimpleNamespace(proceed=_proceed)), SimpleNamespace(health_seconds=3600.0)
    health = Health(SimpleNamespace(application=application, executors=executors, options=options))  # type: ignore[arg-type]  # as much of it as is asked

    assert not asyncio.run(_was_ready_at_first(health))


def test_a_moved_store_serves_searches_alone_until_the_move_is_undone() -> None:
    """The store answers pings all the while, and the process is alive: only what may write is not serving."""
    diagnosis = SimpleNamespace(
        health=lambda: [BackendHealth("metadata", "sql", True, "", 0.0)], move_notice="elsewhere"
    )
    application = SimpleNamespace(indexer=SimpleNamespace(is_replaying=False), diagnosis=diagnosis)
    executors, options = SimpleNamespace(meta=SimpleNamespace(proceed=_proceed)), SimpleNamespace(health_seconds=3600.0)
    health = Health(SimpleNamespace(application=application, executors=executors, options=options))  # type: ignore[arg-type]  # as much of it as is asked

    async def run() -> tuple[dict[str, bool], bool]:
        await health.begin()
        names = ("liveness", "readiness", "writes", "", "backend.metadata", SEARCH_SERVICE, MEMORY_SERVICE)
        served = {name: await _serves(health, name) for name in names}
        diagnosis.move_notice = ""
        following = asyncio.create_task(health.follow())
        await asyncio.to_thread(until, lambda: health.is_ready)
        following.cancel()
        await asyncio.wait({following})
        return served, await _serves(health, "writes")

    served, serves_again = asyncio.run(run())

    assert {name for name, serves in served.items() if serves} == {"liveness", "backend.metadata", SEARCH_SERVICE}
    assert serves_again


async def _serves(health: Health, name: str) -> bool:
    answer = await health.servicer.Check(health_pb2.HealthCheckRequest(service=name), SimpleNamespace())
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
