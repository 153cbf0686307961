"""The vault: its cost for writes, the first synchronisation of a folder, and the time from a save to a hit."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.results import Row, Sample, at_most
from tests.bench.seed import vector_dimension
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan

PART = "Vault"
USER = "vault"
COUNT = 10_000
_QUICK_COUNT = 1_000
_BATCH = 250
_ROUNDS = 2
_MOST_TIMES = 1.3
_MOST_SECONDS = 60.0
EDITING = "Editing files"
EDITOR = "editor"
EDITS = 60
_QUICK_EDITS = 20
_MOST_EDIT_MILLISECONDS = 1_500.0
_DEBOUNCE_MILLISECONDS = 1_000.0
_BETWEEN_SECONDS = 0.2
_ASK_SECONDS = 0.02
_PATIENCE_SECONDS = 30.0


async def measure_vault(plan: Plan) -> list[Row]:
    """Write memories with given vectors into fresh services with and without a vault in turn, then sync a folder."""
    count = _QUICK_COUNT if plan.is_quick else COUNT
    plain, kept, caught_up = [], [], []
    for _ in range(_ROUNDS):
        plain.append((await _written(plan, count, has_vault=False))[0])
        seconds, behind = await _written(plan, count, has_vault=True)
        kept.append(seconds)
        caught_up.append(behind)
    cost, first = min(kept) / min(plain), await _first_sync(plan, count)
    at = f"{count:,}".replace(",", " ")
    return [
        Row(PART, f"{at}: writes without a vault", count / min(plain), "1/s"),
        Row(PART, f"{at}: writes with a vault", count / min(kept), "1/s"),
        Row(PART, f"{at}: what writes cost with a vault", cost, "x", targets=(at_most(cost, _MOST_TIMES, "1.3 x"),)),
        Row(PART, f"{at}: until all files are there after that", min(caught_up), "s"),
        Row(PART, f"{at}: first sync", first, "s", targets=(at_most(first, _MOST_SECONDS, f"{_MOST_SECONDS:g} s"),)),
    ]


async def _written(plan: Plan, count: int, *, has_vault: bool) -> tuple[float, float]:
    """Return how many seconds the writes took, and how many more the files of them."""
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        settings = dict(plan.server) | ({"vault.directory": str(Path(folder, "notes"))} if has_vault else {})
        async with running_server(Path(folder, "data"), settings) as server:
            dimension = await vector_dimension(server)
            started = time.perf_counter()
            for start in range(0, count, _BATCH):
                batch = [_memory(number, dimension) for number in range(start, start + _BATCH)]
                request = memory_pb.BatchCreateMemoriesRequest(
                    scope=asking.scope(USER), memories=batch, wait_for=types_pb.WAIT_FOR_STORED
                )
                await server.memories.BatchCreateMemories(request)
            stored = time.perf_counter()
            while has_vault and (await _synced(server, is_dry=True)).pending_count:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
            return stored - started, time.perf_counter() - stored


async def _first_sync(plan: Plan, count: int) -> float:
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        notes = Path(folder, "notes")
        # The watcher would take some of the files before.
        settings = {**plan.server, "vault.directory": str(notes), "vault.watch": "off"}
        async with running_server(Path(folder, "data"), settings) as server:
            place = notes / "users" / USER / "long_term"
            place.mkdir(parents=True)
            for number in range(count):
                (place / f"20260206_bench_note-{number}.md").write_text(_text(number), encoding="utf-8")
            started = time.perf_counter()
            summary = await _synced(server, is_dry=False)
            assert summary.count_by_action["CREATED"] == count
            return time.perf_counter() - started


async def _synced(server: Server, *, is_dry: bool) -> admin_pb.VaultSummary:
    summary = admin_pb.VaultSummary()
    async for event in server.admin.SyncVault(admin_pb.SyncVaultRequest(all=True, dry_run=is_dry)):
        summary = event.summary
    return summary


def _memory(number: int, dimension: int) -> memory_pb.BatchMemory:
    vector = [1.0] + [0.0] * (dimension - 1)
    memory = types_pb.Memory(content=_text(number), title=f"Note {number}", category="bench")
    return memory_pb.BatchMemory(memory=memory, vector=vector)


def _text(number: int) -> str:
    return (
        f"Note {number} of the release: the build of host{number} took {number % 50} minutes and was signed by Ann.\n"
    )


async def measure_editing(plan: Plan) -> list[Row]:
    """Save files of a vault one after another, as editors do in turns, and ask for each until it is found."""
    count = _QUICK_EDITS if plan.is_quick else EDITS
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        vault = Path(folder) / "vault"
        async with running_server(Path(folder) / "data", {**plan.server, "vault.directory": str(vault)}) as server:
            await _create_notes(server, count)
            files = await _note_files(vault, count)
            found = []
            for number, file in enumerate(files):
                found.append(asyncio.create_task(_edit(server, file, number)))
                await asyncio.sleep(_BETWEEN_SECONDS)
            sample = Sample.of(await asyncio.gather(*found))
    target = at_most(sample.p95, _MOST_EDIT_MILLISECONDS, "1.5 s at p95")
    name = f"save in an editor to found by a search, {count} files"
    return [Row(EDITING, name, sample.p50, "ms", sample, _DEBOUNCE_MILLISECONDS, (target,))]


async def _create_notes(server: Server, count: int) -> None:
    memories = [
        memory_pb.BatchMemory(memory=types_pb.Memory(title=f"Note {number}", content=f"What note {number} says."))
        for number in range(count)
    ]
    await server.memories.BatchCreateMemories(
        memory_pb.BatchCreateMemoriesRequest(scope=asking.scope(EDITOR), memories=memories)
    )


async def _note_files(vault: Path, count: int) -> list[Path]:
    until = time.perf_counter() + _PATIENCE_SECONDS
    while time.perf_counter() < until:
        if len(files := sorted(await asyncio.to_thread(lambda: list(vault.rglob("*.md"))))) >= count:
            # What was written just now is not to be mistaken for an edit.
            await asyncio.sleep(2 * _DEBOUNCE_MILLISECONDS / 1_000)
            return files
        await asyncio.sleep(0.1)
    message = f"After {_PATIENCE_SECONDS} s the vault does not hold {count} files."
    raise TimeoutError(message)


async def _edit(server: Server, file: Path, number: int) -> float:
    """Save a file, every other one by renaming, and return after how many seconds a search finds it."""
    word = f"zebrafinch{number:04}"
    started = await asyncio.to_thread(_save_note, file, f"\nIt speaks of {word}.\n", number)
    request = search_pb.SearchRequest(
        scope=asking.scope(EDITOR), query=word, mode=search_pb.SEARCH_MODE_KEYWORD, limit=1
    )
    while time.perf_counter() - started < _PATIENCE_SECONDS:
        reply = await server.searches.Search(request)
        if any(word in hit.memory.content for hit in reply.hits):
            return time.perf_counter() - started
        await asyncio.sleep(_ASK_SECONDS)
    message = f"After {_PATIENCE_SECONDS} s no search finds an edit."
    raise TimeoutError(message)


def _save_note(file: Path, addition: str, number: int) -> float:
    text = file.read_text(encoding="utf-8") + addition
    if number % 2:
        file.write_text(text, encoding="utf-8")
    else:
        temporary = file.with_name(f"{file.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(file)
    return time.perf_counter()
