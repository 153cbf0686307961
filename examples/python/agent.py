"""A small agent with a long-term memory: it plans a trip.

It writes what it hears in two languages, searches it, builds a context, and watches its memories. It calls the service
that the first argument or MEMSVC_ADDRESS names, with the key in MEMSVC_API_KEY, and over TLS if MEMSVC_TLS_CA names the
file of an authority.
"""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from uuid import uuid4

from memsvc.client import DEFAULT_ADDRESS, Draft, Memsvc, MemsvcCallError, Tls
from memsvc.v1.memory_service_pb2 import MemoryChangeAction
from memsvc.v1.search_service_pb2 import ContextSection
from memsvc.v1.types_pb2 import WriteOutcome

HEARD: tuple[Draft, ...] = (
    {
        "key": "hotel",
        "content": "The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.",
        "tags": ["hotel"],
    },
    {"content": "我对花生过敏，点菜前要先告诉餐厅。", "layer": "CORE", "tags": ["food"]},
    {"content": "Ann wants a window seat on long flights.", "kind": "PREFERENCE"},
    {"content": "找一家可以听法多音乐的餐厅。", "kind": "TASK", "metadata": {"party": 2, "booked": False}},
    {"key": "hotel", "content": "The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro."},
)
"""In this order. The last one has the key of the first, so it changes that memory."""


def run(memory: Memsvc) -> None:
    """Plan the trip."""
    watch = memory.watch(heartbeats=True)
    next(watch)  # the first response is a heartbeat: from now on no change is missed
    for draft in HEARD:
        stored = memory.create(**draft)
        print(f"  {WriteOutcome.Name(stored.outcome)} {stored.memory.content}")
    try:
        memory.create("", importance=9)
    except MemsvcCallError as error:
        print(f"A wrong request is rejected: {error.code.name} {error.reason}")
        for violation in error.violations:
            print(f"  {violation.field}: {violation.description}")
    for query in ("Where is our hotel?", "餐厅要注意什么？"):
        print(f'Found for "{query}":')
        for hit in memory.search(query, filters={"tags_any": ["hotel", "food"]}, limit=3).hits:
            print(f"  {hit.score:.2f} {hit.memory.content}")
    print("Context:")
    for event in memory.build_context("Book a table for dinner near the hotel.", total_tokens=400):
        for item in event.items.items:
            print(f"  {ContextSection.Name(item.section)}: {item.text.strip()}")
    print("The watch saw:")
    changes = list(islice((event for event in watch if event.HasField("change")), len(HEARD)))
    for event in changes:
        change = event.change
        print(f"  {MemoryChangeAction.Name(change.action)} {change.revision} {change.memory.content}")
    resumed = next(memory.watch(cursor=changes[0].cursor))
    print(f"Resumed after the first of them: {resumed.change.memory.content}")


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MEMSVC_ADDRESS", DEFAULT_ADDRESS)
    authority = os.environ.get("MEMSVC_TLS_CA")
    tls = Tls(ca=Path(authority)) if authority else None
    project = f"trip-{uuid4()}"
    try:
        with Memsvc(address, user_id="ann", project_id=project, agent_id="planner-python", tls=tls) as memory:
            run(memory)
        print(f"Done: project {project}")
    except (MemsvcCallError, OSError, ValueError) as error:
        sys.exit(str(error))
