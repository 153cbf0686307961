"""The tools that change nothing: recall, context, get_memory, recent, conflicts."""

from __future__ import annotations

import re
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import anyio

from memsvc.mcp.formatting import (
    ARCHIVED,
    DATA,
    OpenConflict,
    OpenConflicts,
    Shows,
    cut,
    described,
    framed,
    hit_shown,
    lines,
    shown,
    whole,
)
from memsvc.mcp.tool_inputs import PART_CHARS, Conflicts, Context, GetMemory, Recall, Recent, Reply, ToolCall
from memsvc.text.context_phrases import as_data
from memsvc.text.recalled_text import HANDLE, citation, handle_number

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from memsvc.client import ContextOptions, Filters, SearchOptions
    from memsvc.v1 import search_service_pb2 as search_pb
    from memsvc.v1 import types_pb2 as types_pb

SNIPPET_CHARS = 500
NEAREST = 3
"""Hits that `recall` shows though they are not relevant."""
FAR_FROM_RELEVANT = 0.02
"""A relevance far below `ranking.min_relevance`, whose default is 0.1."""
PROGRESS_SECONDS = 1.0
"""A client that does not take a report within this time gets no more of them: other contexts wait for this one."""
MOST_IN_CONTEXT = 1_000
"""Memories that one context names, at most."""
_HANDLE_IN_TEXT = re.compile(r"\b[m-z][1-9]\d{0,2}\b")
T = TypeVar("T")


async def recall(asked: ToolCall, given: Recall) -> Reply:
    """Search."""
    place = asked.link.place
    filters: Filters = {"kinds": given.kinds, "tags_all": given.tags, "min_importance": given.min_importance or 0}
    options: SearchOptions = {"limit": given.limit, "filters": filters, "snippet_chars": SNIPPET_CHARS}
    options["judge_currency"] = True
    if given.mode is not None:
        options["mode"] = given.mode
    since = None if given.since is None else place.moment(given.since)
    until = None if given.until is None else place.moment(given.until)
    if since is not None and until is not None and since >= until:
        message = f"until: must be later than since, and {until.isoformat()} is not later than {since.isoformat()}"
        raise ValueError(message)
    if since is not None or until is not None:
        options["time_range"] = (since, until)
    found = await asked.link.call(lambda: asked.link.here.search(given.query, **options))
    hits = worth_showing(found)
    memories = [hit_shown(hit, place) for hit in hits]
    note = " ".join(f"The hits are incomplete: {each.message or each.reason}." for each in found.degraded)
    if chars := found.embedded_query_chars:
        note = f"{note} Only the first {chars} characters of the query were searched by meaning.".lstrip()
    if left_out := len(found.hits) - len(hits):
        note = f"{note} Left out: {left_out} less relevant.".lstrip()
    head = "Nothing relevant found. The nearest memories" if found.nothing_relevant else f"{len(memories)} memories"
    text = f"{head}, best first ({DATA}):\n{lines(memories)}" if memories else "Nothing relevant found."
    archived = [hit_shown(hit, place).model_copy(update={"currency": ARCHIVED}) for hit in found.archived_hits]
    if archived:
        text += f"\nArchived memories that fit, not used for long ({DATA}):\n{lines(archived)}"
    return Reply(f"{text}\n{note}".rstrip(), Shows(memories=memories + archived, note=note))


def worth_showing(found: search_pb.SearchResponse) -> list[search_pb.Hit]:
    """Return the first hits, and of the others those that may be relevant.

    The first `NEAREST` are returned whatever their relevance, and only these if nothing relevant was found.
    """
    nearest, others = list(found.hits[:NEAREST]), found.hits[NEAREST:]
    if found.nothing_relevant:
        return nearest
    return nearest + [hit for hit in others if not (hit.HasField("relevance") and hit.relevance < FAR_FROM_RELEVANT)]


async def context(asked: ToolCall, given: Context) -> Reply:
    """Gather a context, telling how far it is."""
    place, handles = asked.link.place, asked.link.handles
    options: ContextOptions = {
        "total_tokens": given.total_tokens,
        "time_zone": place.time_zone,
        "locale": place.locale,
    }

    async def gather() -> str:
        options["first_handle"] = handles.first
        texts: list[str] = []
        steps, spent, patience = count(1), 0, PROGRESS_SECONDS
        cited.clear()
        async for event in asked.link.here.build_context(given.query, **options):
            match event.WhichOneof("event"):
                case "plan":
                    texts.append(event.plan.text)
                    spent += event.plan.token_count
                case "items":
                    texts += [item.text for item in event.items.items]
                    for item in event.items.items:
                        cited.update(handles_of(item, first=options["first_handle"]))
                    spent += sum(item.token_count for item in event.items.items)
                case "warning":
                    warnings.append(event.warning.message)
                    continue
                case _:
                    texts.append(event.summary.text)
                    spent = event.summary.token_count
            with anyio.move_on_after(patience) as sending:
                await asked.progress(next(steps), f"{spent} of {given.total_tokens} tokens")
            patience = 0.0 if sending.cancelled_caught else patience
        return "".join(texts)

    warnings: list[str] = []
    cited: dict[str, str] = {}
    async with handles.lock:
        markdown = await asked.link.call(gather)
        handles.add(cited)
    return Reply("\n".join([markdown.rstrip("\n") or "Nothing is remembered.", *dict.fromkeys(warnings)]))


def handles_of(item: search_pb.ContextItem, *, first: int) -> Iterator[tuple[str, str]]:
    """Yield the handles of an item and the memories that they name: its own, and that of the newer memory."""
    own = item.citation.strip("[]")
    if HANDLE.fullmatch(own):
        yield own, item.memory_id
    if item.newer_memory_id:
        others = (name for name in _HANDLE_IN_TEXT.findall(item.text) if name != own)
        # The content may have such words, too, hardly of so great a number.
        yield from (
            (name, item.newer_memory_id) for name in others if 0 <= handle_number(name) - first < MOST_IN_CONTEXT
        )


async def get_memory(asked: ToolCall, given: GetMemory) -> Reply:
    """Read one memory whole."""
    memory = await asked.link.call(lambda: asked.link.here.get(given.id, key=given.key))
    if given.offset and given.offset >= len(memory.content):
        message = f"offset: the text has {len(memory.content)} characters, and {given.offset} is behind its end"
        raise ValueError(message)
    found = whole(memory, asked.link.place, offset=given.offset, most=PART_CHARS)
    return Reply(described(found), found)


async def conflicts(asked: ToolCall, given: Conflicts) -> Reply:
    """List open conflicts, the newest first, each with the question that settles it."""
    # One more than wanted shows whether these are all.
    listed = await asked.link.call(
        lambda: _first(given.limit + 1, asked.link.here.conflicts(page_size=given.limit + 1))
    )
    found, has_more = listed[: given.limit], len(listed) > given.limit
    opened = [
        OpenConflict(id=each.id, question=each.question, newer_id=each.newer_memory.id, older_id=each.older_memory.id)
        for each in found
    ]
    if not opened:
        return Reply("No memories contradict each other.", OpenConflicts(conflicts=[]))
    cited = framed(
        f"- conflict {each.id}: newer {_cited(each.newer_memory)} / older {_cited(each.older_memory)} / ask: "
        f"{as_data(each.question)}"
        for each in found
    )
    head = f"{len(opened)} open conflicts{', and there are more' if has_more else ''} ({DATA})"
    return Reply(f"{head}:\n{cited}", OpenConflicts(conflicts=opened))


def _cited(memory: types_pb.Memory) -> str:
    return f"{citation(memory.id)} {as_data(cut(memory.content))}"


async def _first(most: int, listed: AsyncGenerator[T, None]) -> list[T]:
    """Return the first items of a list that is read page by page."""
    async with aclosing(listed):
        found: list[T] = []
        async for item in listed:
            found.append(item)
            if len(found) == most:
                break
        return found


async def recent(asked: ToolCall, given: Recent) -> Reply:
    """List the newest memories."""
    filters: Filters = {"kinds": given.kinds, "tags_all": given.tags, "last_days": given.last_days or 0}
    newest = await asked.link.call(lambda: _first(given.limit, asked.link.here.list(filters, page_size=given.limit)))
    memories = [shown(memory, asked.link.place) for memory in newest]
    if not memories:
        return Reply("Nothing is remembered.", Shows(memories=[]))
    return Reply(f"{len(memories)} memories, newest first ({DATA}):\n{lines(memories)}", Shows(memories=memories))
