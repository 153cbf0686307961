"""How soon a watcher is told of a commit: `python -m tests.bench.watching [WATCHERS WRITES PAUSE_MS]`.

Times are from the beginning of the transaction, as the change says, to the arrival at the client, so they include the
commit itself.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import rich

from memsvc.client import AsyncMemsvc
from memsvc.client.values import Draft
from tests.e2e.running import ServerProcess

NANOS, MILLI = 1e9, 1e3
WRITERS = 4


async def measure(address: str, watchers: int, writes: int, pause_ms: int) -> list[float]:
    """Return the delays in milliseconds, of every change at every watcher."""
    delays: list[float] = []
    async with AsyncMemsvc(address, user_id="bench") as client:
        begun = [asyncio.Event() for _ in range(watchers)]

        async def watch(number: int) -> None:
            seen = 0
            async for response in client.watch(heartbeats=True):
                begun[number].set()
                if response.HasField("change"):
                    delays.append((time.time() - response.change.time.ToNanoseconds() / NANOS) * MILLI)
                    seen += 1
                if seen == writes:
                    return

        async def write(writer: int) -> None:
            for number in range(writes // WRITERS):
                draft = Draft(content=f"Writer {writer} says {number}.")
                await client.create_many([draft], wait_for="STORED")
                await asyncio.sleep(pause_ms / MILLI)

        tasks = [asyncio.create_task(watch(number)) for number in range(watchers)]
        await asyncio.gather(*(event.wait() for event in begun))
        await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
        await asyncio.gather(*tasks)
    return delays


def main() -> None:
    """Measure and print."""
    given = [int(text) for text in sys.argv[1:]]
    watchers, writes, pause_ms = given or (1, 400, 50)
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "data") as server:
        delays = asyncio.run(measure(server.bound, watchers, writes, pause_ms))
    cuts = statistics.quantiles(delays, n=100)
    rich.print(
        f"{watchers} watchers, {writes} writes, {pause_ms} ms between those of each of {WRITERS} writers: p50 {cuts[49]:.1f} ms, p95 {cuts[94]:.1f} ms, p99 {cuts[98]:.1f} ms"
    )


if __name__ == "__main__":
    main()
