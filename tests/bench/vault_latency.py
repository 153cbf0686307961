"""How long after a save in an editor searches find what was written."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.percentiles import Sample
from tests.bench.results import Row, at_most
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan

PART = "Editing files"
USER = "editor"
EDITS = 60
_QUICK_EDITS = 20
_MOST_MILLISECONDS = 1_500.0
_DEBOUNCE_MILLISECONDS = 1_000.0
_BETWEEN_SECONDS = 0.2
_ASK_SECONDS = 0.02
_PATIENCE_SECONDS = 30.0


async def measure_editing(plan: Plan) -> list[Row]:
    """Save files of a vault one after another, as editors do in turns, and ask for each until it is found."""
    count = _QUICK_EDITS if plan.is_quick else EDITS
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        vault = Path(folder) / "vault"
        async with running_server(Path(folder) / "data", {**plan.server, "vault.directory": str(vault)}) as server:
            await _create(server, count)
            files = await _files(vault, count)
            found = []
            for number, file in enumerate(files):
                found.append(asyncio.create_task(_edited(server, file, number)))
                await asyncio.sleep(_BETWEEN_SECONDS)
            sample = Sample.of(await asyncio.gather(*found))
    target = at_most(sample.p95, _MOST_MILLISECONDS, "1.5 s at p95")
    name = f"save in an editor to found by a search, {count} files"
    return [Row(PART, name, sample.p50, "ms", sample, _DEBOUNCE_MILLISECONDS, (target,))]


async def _create(server: Server, count: int) -> None:
    memories = [
        memory_pb.BatchMemory(memory=types_pb.Memory(title=f"Note {number}", content=f"What note {number} says."))
        for number in range(count)
    ]
    await server.memories.BatchCreateMemories(
        memory_pb.BatchCreateMemoriesRequest(scope=asking.scope(USER), memories=memories)
    )


async def _files(vault: Path, count: int) -> list[Path]:
    until = time.perf_counter() + _PATIENCE_SECONDS
    while time.perf_counter() < until:
        if len(files := sorted(await asyncio.to_thread(lambda: list(vault.rglob("*.md"))))) >= count:
            # What was written just now is not to be mistaken for an edit.
            await asyncio.sleep(2 * _DEBOUNCE_MILLISECONDS / 1_000)
            return files
        await asyncio.sleep(0.1)
    message = f"After {_PATIENCE_SECONDS} s the vault does not hold {count} files."
    raise TimeoutError(message)


async def _edited(server: Server, file: Path, number: int) -> float:
    """Save a file, every other one by renaming, and return after how many seconds a search finds it."""
    word = f"zebrafinch{number:04}"
    started = await asyncio.to_thread(_save, file, f"\nIt speaks of {word}.\n", number)
    request = search_pb.SearchRequest(scope=asking.scope(USER), query=word, mode=search_pb.SEARCH_MODE_KEYWORD, limit=1)
    while time.perf_counter() - started < _PATIENCE_SECONDS:
        reply = await server.searches.Search(request)
        if any(word in hit.memory.content for hit in reply.hits):
            return time.perf_counter() - started
        await asyncio.sleep(_ASK_SECONDS)
    message = f"After {_PATIENCE_SECONDS} s no search finds an edit."
    raise TimeoutError(message)


def _save(file: Path, addition: str, number: int) -> float:
    text = file.read_text(encoding="utf-8") + addition
    if number % 2:
        file.write_text(text, encoding="utf-8")
    else:
        temporary = file.with_name(f"{file.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(file)
    return time.perf_counter()
