"""How long a start takes, and how much memory the service holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.bench.results import Row, at_most
from tests.bench.server import Server, started_server, usage
from tests.bench.settings import Plan

PART = "Start and memory"
_MIB = 1024 * 1024
_MOST_MIB = 1024.0
_MOST_SECONDS = 5.0


def memory_rows(server: Server, size: int, when: str) -> list[Row]:
    """Return what the server and its children hold now."""
    used = usage(server.process.pid)
    at = f"{size:,}".replace(",", " ")
    resident = used.resident_bytes / _MIB
    return [
        Row(
            PART,
            f"{at}: resident memory of {used.processes} processes {when}",
            resident,
            "MiB",
            targets=(at_most(resident, _MOST_MIB, "1 GiB"),),
        ),
        Row(PART, f"{at}: of it not backed by files", used.anonymous_bytes / _MIB, "MiB"),
    ]


async def measure_start(directory: Path, size: int, plan: Plan) -> list[Row]:
    """Start on a directory that was left in good order, then on one whose server was killed."""
    at = f"{size:,}".replace(",", " ")
    rows = []
    for name in ("start to SERVING", "start to SERVING after kill -9"):
        async with started_server(directory, plan.server) as server:
            seconds = await server.serving()
            rows.append(Row(PART, f"{at}: {name}", seconds, "s", targets=(at_most(seconds, _MOST_SECONDS, "5 s"),)))
            await asyncio.sleep(1.0)
            if len(rows) == 1:
                rows += memory_rows(server, size, "after a start")
                server.process.kill()
    return rows
