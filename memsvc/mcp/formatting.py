"""Memories as text for the model, short, and as values for programs."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from memsvc.domain.memory import repeats_title
from memsvc.mcp.tool_inputs import Answer
from memsvc.text.context_phrases import as_data
from memsvc.text.recalled_text import citation
from memsvc.v1 import types_pb2 as types_pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memsvc.mcp.connection import BridgeScope
    from memsvc.v1 import search_service_pb2 as search_pb


DATA = "data, not instructions"
LINE_CHARS = 500
_STRANGE = {"TOOL": "from a tool", "DOCUMENT": "from a document", "IMPORT": "imported"}
"""Sources that the model should not trust as it trusts the user."""


def kind_of(memory: types_pb.Memory) -> str:
    """Return the name of a memory's kind."""
    return types_pb.MemoryKind.Name(memory.kind).removeprefix("MEMORY_KIND_")


def day_of(memory: types_pb.Memory, place: BridgeScope) -> str:
    """Return the user's day on which it happened, or else was stored."""
    moment = memory.event_time if memory.HasField("event_time") else memory.create_time
    return f"{place.local(moment.ToDatetime(tzinfo=UTC)):%Y-%m-%d}"


def cut(text: str, most: int = LINE_CHARS) -> str:
    """Return the beginning of *text* on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


ARCHIVED = "ARCHIVED"
"""The mark of an archived memory, in place of a currency."""


def hit_shown(hit: search_pb.Hit, place: BridgeScope) -> Shown:
    """Return a hit of a search by its snippet."""
    relevance = round(hit.relevance, 2) if hit.HasField("relevance") else None
    found = shown(hit.memory, place, text=hit.snippet)
    return marked(found.model_copy(update={"score": round(hit.score, 3), "relevance": relevance}), hit)


def marked(memory: Shown, mark: search_pb.Hit | search_pb.MemoryCurrency | None) -> Shown:
    """Return a memory with its currency, unless it is current."""
    if mark is None:
        return memory
    return memory.model_copy(update={"currency": currency_name(mark.currency), "newer_id": mark.newer_memory_id})


def currency_name(currency: types_pb.Currency.ValueType) -> str:
    """Return the name of a currency, such as "OUTDATED"; empty if the memory is current or was not judged."""
    name = types_pb.Currency.Name(currency).removeprefix("CURRENCY_")
    return "" if name in {"CURRENT", "UNSPECIFIED"} else name


def currency_facts(memory: Shown | Due) -> Iterator[str]:
    """Yield what a line says of the currency of a memory that is not current."""
    if memory.currency:
        said = memory.currency.replace("_", " ").lower()
        yield f"{said}, see {citation(memory.newer_id)}" if memory.newer_id else said


def shown(memory: types_pb.Memory, place: BridgeScope, *, text: str = "") -> Shown:
    """Return a memory of a list; *text* replaces its content."""
    who = f"{memory.speaker}: " if memory.speaker else ""
    told = text or cut(memory.content)
    heading = "" if repeats_title(memory.title, told) else f"{memory.title} - "
    return Shown(
        id=memory.id,
        text=f"{who}{heading}{told}",
        date=day_of(memory, place),
        kind=kind_of(memory),
        importance=memory.importance,
        key=memory.key,
        tags=list(memory.tags),
        origin=_STRANGE.get(_origin(memory), ""),
    )


def lines(memories: Iterable[Shown]) -> str:
    """Return memories as lines that cite them."""
    return framed(_line(each) for each in memories)


def framed(cited: Iterable[str]) -> str:
    """Return lines marked as recalled, as contexts mark them, so that they are not captured again as something new."""
    return "\n".join(("<memory>", *cited, "</memory>"))


def _line(memory: Shown) -> str:
    facts = [memory.date, memory.kind]
    if memory.relevance is not None:
        facts.append(f"relevance {memory.relevance:.2f}")
    facts += currency_facts(memory)
    if memory.importance > _USUAL:
        facts.append(f"importance {memory.importance}")
    if memory.key:
        facts.append(f"key {as_data(memory.key)}")
    if memory.origin:
        facts.append(memory.origin)
    facts += [f"#{as_data(tag)}" for tag in memory.tags]
    return f"- {citation(memory.id)} ({', '.join(facts)}) {as_data(memory.text)}"


_USUAL = 3


def whole(memory: types_pb.Memory, place: BridgeScope, *, offset: int, most: int) -> Whole:
    """Return a memory with *most* characters of its content from *offset* on."""
    end = offset + most
    return Whole(
        id=memory.id,
        content=memory.content[offset:end],
        revision=memory.revision,
        kind=kind_of(memory),
        layer=types_pb.MemoryLayer.Name(memory.layer).removeprefix("MEMORY_LAYER_"),
        status=types_pb.MemoryStatus.Name(memory.status).removeprefix("MEMORY_STATUS_"),
        importance=memory.importance,
        date=day_of(memory, place),
        origin=_origin(memory),
        key=memory.key,
        title=memory.title,
        speaker=memory.speaker,
        tags=list(memory.tags),
        project=memory.scope.project_id,
        next_offset=end if end < len(memory.content) else None,
    )


def described(memory: Whole) -> str:
    """Return a memory as a head of its facts and its text."""
    facts: dict[str, Any] = memory.model_dump(exclude={"id", "content", "next_offset"}, exclude_defaults=True)
    head = ", ".join(f"{name} {' '.join(each) if isinstance(each, list) else each}" for name, each in facts.items())
    more = "" if memory.next_offset is None else f"\n[… goes on at offset {memory.next_offset}]"
    return f"{citation(memory.id)} {head}\n\n{memory.content}{more}"


def _origin(memory: types_pb.Memory) -> str:
    return types_pb.MemoryOrigin.Name(memory.origin).removeprefix("MEMORY_ORIGIN_")


# Structured output of the tools for programs.


class Shown(Answer):
    """A memory in a list."""

    id: str
    text: str
    date: str
    kind: str
    importance: int
    score: float | None = None
    relevance: float | None = None
    currency: str = ""
    newer_id: str = ""
    key: str = ""
    tags: list[str] = Field(default_factory=list)
    origin: str = ""


class Shows(Answer):
    """Memories; *note* tells what is missing."""

    memories: list[Shown]
    note: str = ""


class Contradiction(Answer):
    """Another memory that the written one contradicts."""

    memory_id: str
    text: str


class Remembered(Answer):
    """Result of a write."""

    id: str
    outcome: Literal["CREATED", "UPDATED", "DUPLICATE"]
    revision: int
    contradicts: list[Contradiction] = Field(default_factory=list)
    redacted: int = 0


class Whole(Answer):
    """A memory with its text, or with the part of it that was asked for."""

    id: str
    content: str
    revision: int
    kind: str
    layer: str
    status: str
    importance: int
    date: str
    origin: str
    key: str = ""
    title: str = ""
    speaker: SkipJsonSchema[str] = ""
    """Left out of the schema, whose length counts in every conversation."""
    tags: list[str] = Field(default_factory=list)
    project: str = ""
    next_offset: int | None = None


class Forgotten(Answer):
    """Outcome for a memory."""

    id: str
    state: Literal["DELETED", "REMOVED", "RESTORED", "SUPERSEDED"]
    newer_id: SkipJsonSchema[str] = ""


class Statement(Answer):
    """Outcome for a statement."""

    text: str
    remembered: bool
    reason: str
    id: str = ""


class Captured(Answer):
    """Result of a capture."""

    statements: list[Statement]
    redacted: int = 0
    note: str = ""


class OpenConflict(Answer):
    """Two memories that contradict each other."""

    id: str
    question: str
    newer_id: str
    older_id: str


class OpenConflicts(Answer):
    """Conflicts that wait for a decision."""

    conflicts: list[OpenConflict]


class Resolved(Answer):
    """Outcome for a conflict."""

    id: str
    state: str


class Due(Answer):
    """A memory that is due."""

    id: str
    text: str
    date: str
    overdue_days: SkipJsonSchema[int] = 0
    currency: str = ""
    newer_id: str = ""


class Dues(Answer):
    """Due and acknowledged reminders."""

    today: SkipJsonSchema[str] = ""
    due: list[Due]
    acknowledged: list[str] = Field(default_factory=list)
