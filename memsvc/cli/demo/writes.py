"""What the demo shows beside searching: filters, duplicates, revisions, and how soon a memory is found."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING

from memsvc.cli.output import MILLI, date_of, highlighted, write, write_table
from memsvc.client import MemsvcCallError
from memsvc.v1 import types_pb2 as types

if TYPE_CHECKING:
    from memsvc.client import Memsvc

MARCH = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))


def show_filter(client: Memsvc) -> list[str]:
    """Search with a filter; return what was not as expected."""
    reply = client.search(
        "What was broken, and who noticed?", limit=3, filters={"speakers": ["Tomas", "Priya"], "event_time": MARCH}
    )
    rows = [(f"{hit.score:.3f}", date_of(hit.memory), highlighted(hit, hit.memory.speaker)) for hit in reply.hits]
    write()
    write_table((">score", "=date", "found"), rows, title="The same with a filter: said by Tomas or Priya, in March")
    fits = all(
        hit.memory.speaker in {"Tomas", "Priya"} and date_of(hit.memory).startswith("2026-03") for hit in reply.hits
    )
    return [] if rows and fits else ["The filter let something else through, or nothing at all."]


def show_writes(client: Memsvc) -> list[str]:
    """Write, write again, write too late, and look how soon it is found; return what was not as expected."""
    failures = []
    text = "The spare key of the allotment shed hangs behind the third flowerpot."
    begun = perf_counter()
    first = client.create(text, tags=["keys"], importance=4)
    hits = client.search("Where is the key to the garden hut?", limit=5).hits
    seconds = perf_counter() - begun
    found = any(hit.memory.id == first.memory.id for hit in hits)
    if not found:
        failures.append("A new memory was not found right after it was created.")

    again = client.create(text)
    duplicate = again.outcome == types.WRITE_OUTCOME_DUPLICATE and again.memory.id == first.memory.id
    if not duplicate:
        failures.append("Equal content was not recognised as a duplicate.")

    changed = client.update(first.memory.id, content=text.replace("third", "second"), expected_revision=1)
    conflict = _late_update(client, first.memory.id)
    if changed.memory.revision == 1 or "REVISION_CONFLICT" not in conflict:
        failures.append("An update based on an old revision was not refused.")

    write()
    rows = [
        ("create, then search", f"found after {seconds * MILLI:,.0f} ms" if found else "not found"),
        ("create the same again", "DUPLICATE, the same id" if duplicate else "stored twice"),
        ("update revision 1", f"revision {changed.memory.revision}"),
        ("update revision 1 again", conflict),
    ]
    write_table(("write", "what became of it"), rows, title="Writing")
    return failures


def _late_update(client: Memsvc, memory_id: str) -> str:
    try:
        client.update(memory_id, importance=5, expected_revision=1)
    except MemsvcCallError as error:
        return f"{error.code.name}, {error.reason}: it is at revision {error.metadata.get('revision')}"
    return "accepted"
