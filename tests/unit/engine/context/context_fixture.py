"""Memories for every section of a context, and what came of a context."""

from __future__ import annotations

from typing import Any

from memsvc.domain.clock import Deadline
from memsvc.domain.context import ContextItem, ContextNotice, ContextQuery, ContextSummary, Event, Section
from memsvc.domain.memory import Kind, Layer, Memory, Tier
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.services import Services

HERE = Scope("ada", project_id="web", session_id="s1")
WORLD = Scope("ada")
WHOLE = ContextQuery(HERE, text="otter river")


def remember(application: Services, scope: Scope, content: str, **fields: Any) -> Memory:
    """Store a memory and wait until searches find it."""
    written = application.memory_creator.create(scope, Draft(content, **fields), WriteOptions(wait_for=WaitFor.STORED))
    application.indexer.when_reached(written.position).result(timeout=30)
    return written.memory


def events(application: Services, query: ContextQuery) -> list[Event]:
    """Build a context and return its events."""
    return [*application.contexts.render(query, Deadline()).events]


def shown(happened: list[Event], section: Section | None = None) -> list[str]:
    """Return the ids of the memories shown, in order."""
    return [one.memory_id for one in happened if isinstance(one, ContextItem) and section in {None, one.section}]


def summary(happened: list[Event]) -> ContextSummary:
    """Return the last event."""
    last = happened[-1]
    assert isinstance(last, ContextSummary)
    return last


def text_of(happened: list[Event]) -> str:
    """Return the whole text."""
    return "".join(one.text for one in happened if not isinstance(one, ContextNotice))


def stock(application: Services) -> dict[str, Memory]:
    """Store a memory for every section, and some for none."""
    return {
        "rule": remember(application, WORLD, "Answer in short sentences.", layer=Layer.CORE, importance=5),
        "habit": remember(application, WORLD, "Coffee is black.", tier=Tier.ACTIVE),
        "project rule": remember(application, HERE, "The main branch is protected.", tier=Tier.CORE),
        "hello": remember(application, HERE, "Shall we count them?", kind=Kind.MESSAGE, speaker="Ann"),
        "secret": remember(application, HERE, "Yes, at noon.", layer=Layer.SESSION, kind=Kind.MESSAGE, speaker="Bo"),
        "fact": remember(application, Scope("ada", "web"), "The otter lives in the river."),
        "note": remember(application, Scope("ada", "web"), "Deployed at nine.", layer=Layer.SHORT_TERM),
        "global": remember(application, WORLD, "An otter eats fish from the river."),
        "elsewhere": remember(application, Scope("ada", "other"), "The otter of another river."),
        "private": remember(
            application, Scope("ada", "web", session_id="s2"), "A river otter too.", layer=Layer.SESSION
        ),
    }
