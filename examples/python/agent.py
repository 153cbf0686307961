"""A small agent with a long-term memory: it plans a trip.

It remembers what it is told in two languages, recalls it, and watches what happens to its memories meanwhile. It talks
to the service that the first argument or MEMSVC_ADDRESS names, with the key in MEMSVC_API_KEY, and over TLS when
MEMSVC_TLS_CA names the file of an authority. The client makes a request id for each write, tries calls again when
nobody answers, and decodes errors; plain_stubs.py does without it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import grpc
from google.protobuf.struct_pb2 import Value

from memsvc.client import DEFAULT_ADDRESS, AsyncMemsvc, Draft, Filters, MemsvcCallError, Tls
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

CALL_SECONDS = 10.0
CONTEXT_TOKENS = 400

R = TypeVar("R")

TOLD: tuple[Draft, ...] = (
    {
        "key": "hotel",
        "content": "The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.",
        "tags": ["hotel"],
        "importance": 4,
    },
    {"content": "我对花生过敏，点菜前要先告诉餐厅。", "layer": "CORE", "tags": ["food"], "importance": 5},
    {
        "content": "Ann wants a window seat on long flights.",
        "kind": "PREFERENCE",
        "tags": ["flight"],
        "importance": 4,
    },
    {
        "content": "找一家可以听法多音乐的餐厅。",
        "kind": "TASK",
        "tags": ["food", "music"],
        "importance": 4,
        "metadata": {"party": 2, "booked": False},
    },
    {"key": "hotel", "content": "The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro."},
)
"""What the agent hears, in this order. The last one has the key of the first, so it changes that memory."""

NO_TASK = filters_pb.FilterExpression(
    condition=filters_pb.FilterCondition(
        field=filters_pb.FILTER_FIELD_KIND,
        operator=filters_pb.FILTER_OPERATOR_NOT_EQUALS,
        values=[Value(string_value="TASK")],
    )
)


def main() -> None:
    """Run the agent; when it fails, say why in one sentence and exit with 1."""
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MEMSVC_ADDRESS", DEFAULT_ADDRESS)
    try:
        asyncio.run(run(address))
    except MemsvcCallError as error:
        sys.exit(explain(error, address))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


async def run(address: str) -> None:
    """Do what the agent does, in a project of its own."""
    project = f"trip-{uuid4()}"
    authority = os.environ.get("MEMSVC_TLS_CA")
    async with AsyncMemsvc(
        address,
        user_id="ann",
        project_id=project,
        agent_id="planner-python",
        timeout=CALL_SECONDS,
        tls=Tls(ca=Path(authority)) if authority else None,
    ) as memsvc:
        async with aclosing(memsvc.watch(heartbeats=True, patience_seconds=0)) as watch:
            await anext(watch)  # the first response is a heartbeat: from now on no change is missed
            print(f"Connected to {address}: user ann, project {project}")
            await remember(memsvc)
            await send_wrong_request(memsvc)
            found = await recall(memsvc)
            shown = await patiently(lambda: prepare(memsvc))
            cursor = await report(watch)
        await patiently(lambda: resume(memsvc, cursor))
    print(f"Done: {len(TOLD)} writes, {found} hits, {shown} items of context, {len(TOLD)} changes.")


async def remember(memsvc: AsyncMemsvc) -> None:
    """Write what the agent is told; the first time twice, as if the reply had been lost."""
    for draft in TOLD:
        write = partial(memsvc.create, **draft, request_id=str(uuid4()))
        stored = await patiently(write)
        outcome = types_pb.WriteOutcome.Name(stored.outcome).removeprefix("WRITE_OUTCOME_")
        print(f"  {outcome} {stored.memory.content}")
        if draft is TOLD[0]:
            again = await patiently(write)
            if (again.memory.id, again.outcome) != (stored.memory.id, stored.outcome):
                raise ValueError("A repeated request was carried out twice.")
            print("  Sent again with the same request_id: the same answer, stored once.")


async def patiently(call: Callable[[], Awaitable[R]]) -> R:
    """Make a call again after the delay that the service asks for, as it does when a key's rate is used up."""
    async with asyncio.timeout(CALL_SECONDS):
        while True:
            try:
                return await call()
            except MemsvcCallError as error:
                if error.retry_seconds is None:
                    raise
                await asyncio.sleep(error.retry_seconds)


async def send_wrong_request(memsvc: AsyncMemsvc) -> None:
    """Show what a refusal looks like: every broken rule at once, each with its field."""
    try:
        await patiently(lambda: memsvc.create("", importance=9, tags=[""]))
    except MemsvcCallError as error:
        if error.reason != "INVALID_REQUEST":
            raise
        print(f"A wrong request is refused: {error.code.name} ERROR_REASON_{error.reason}: {error.message}")
        for violation in error.violations:
            print(f"  {violation.field}: {violation.description}")
    else:
        raise ValueError("A wrong request was not refused.")


async def recall(memsvc: AsyncMemsvc) -> int:
    """Ask for what was remembered, in both languages: by meaning and by words, what matters and is no task."""
    found = 0
    for query in ("Where is our hotel?", "餐厅要注意什么？"):
        filters: Filters = {"tags_any": ["hotel", "food"], "min_importance": 4, "where": NO_TASK}
        reply = await patiently(partial(memsvc.search, query, mode="HYBRID", filters=filters, limit=3))
        print(f'Found for "{query}":')
        for hit in reply.hits:
            print(f"  {hit.score:.2f} {hit.memory.content}")
        found += len(reply.hits)
    return found


async def prepare(memsvc: AsyncMemsvc) -> int:
    """Stream the context for the next answer, write it as it comes, and return how many items it has."""
    items = 0
    query = "Book a table for dinner near the hotel."
    async for event in memsvc.build_context(query, total_tokens=CONTEXT_TOKENS, timeout=CALL_SECONDS):
        items += show(event)
    return items


def show(event: search_pb.BuildContextResponse) -> int:
    """Write one event of a context, and return how many items it holds. The texts of all events are the prompt."""
    match event.WhichOneof("event"):
        case "plan":
            print(f"Context of at most {event.plan.total_tokens} tokens ({event.plan.tokenizer}):")
        case "items":
            for item in event.items.items:
                section = search_pb.ContextSection.Name(item.section).removeprefix("CONTEXT_SECTION_")
                print(f"  {section}, {item.token_count} tokens:\n{item.text}", end="")
        case "warning":
            print(f"Warning: {event.warning.message}", file=sys.stderr)
        case "summary":
            print(f"  {event.summary.token_count} tokens in all")
    return len(event.items.items)


async def report(watch: AsyncIterator[memory_pb.WatchMemoriesResponse]) -> str:
    """Write what the watch saw, and return the cursor of the first change."""
    print("Meanwhile the watch saw:")
    first = ""
    async with asyncio.timeout(CALL_SECONDS):
        for _ in TOLD:
            response = await next_change(watch)
            first = first or response.cursor
            print(f"  {line(response.change)}")
    return first


async def resume(memsvc: AsyncMemsvc, cursor: str) -> None:
    """Go on after a cursor, as another process would, and write the next change."""
    async with aclosing(memsvc.watch(cursor=cursor)) as watch, asyncio.timeout(CALL_SECONDS):
        response = await next_change(watch)
        print(f"Resumed after the first of them: {line(response.change)}")


async def next_change(watch: AsyncIterator[memory_pb.WatchMemoriesResponse]) -> memory_pb.WatchMemoriesResponse:
    """Return the next response that is no heartbeat."""
    while not (response := await anext(watch)).HasField("change"):
        pass
    return response


def line(change: memory_pb.MemoryChange) -> str:
    """Say in a line what a change was."""
    action = memory_pb.MemoryChangeAction.Name(change.action).removeprefix("MEMORY_CHANGE_ACTION_")
    return f"{action} revision {change.revision}: {change.memory.content}"


def explain(error: MemsvcCallError, address: str) -> str:
    """Say in one sentence what went wrong and what to do about it."""
    if error.code is grpc.StatusCode.UNAVAILABLE and not error.reason:
        return (
            f'No memory service answers at {address}: start one with "memsvc serve", or give its address as the first '
            "argument or in MEMSVC_ADDRESS (and in MEMSVC_TLS_CA the file of its authority, if it speaks TLS)."
        )
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        return f'{error.message}: give a key in MEMSVC_API_KEY ("memsvc keys create" makes one).'
    return str(error)


if __name__ == "__main__":
    main()
