"""A toolset with which an agent remembers, recalls and forgets, and instructions with what it knows.

The dependencies of a run hold the client, so that one agent serves many users.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import grpc
from pydantic_ai import FunctionToolset, ModelRetry, RunContext

from memsvc.client import AsyncMemsvc, MemsvcCallError, currency_of
from memsvc.v1 import search_service_pb2 as search_pb

Deps = TypeVar("Deps")
MemoryKind = Literal["FACT", "PREFERENCE", "EXPERIENCE", "DECISION", "TASK", "NOTE"]
_MOST_HITS = 20


def memory_toolset(client_of: Callable[[Deps], AsyncMemsvc]) -> FunctionToolset[Deps]:
    """Return the tools `remember`, `recall` and `forget` for the client that *client_of* finds in the dependencies.

    A request that the service refuses as invalid is returned to the model to correct; other failures are raised.
    """
    toolset: FunctionToolset[Any] = FunctionToolset(id="memsvc")

    async def remember(context: RunContext[Any], statement: str, kind: MemoryKind = "FACT") -> str:
        """Store one statement for later conversations.

        Args:
            context: The run.
            statement: A full sentence that is understood without this conversation.
            kind: The type of statement.
        """
        with _corrected_by_model():
            stored = await client_of(context.deps).create(statement, kind=kind)
        return f"Stored as {stored.memory.id}."

    async def recall(context: RunContext[Any], query: str, limit: int = 5) -> list[dict[str, str]]:
        """Search the memories of earlier conversations by meaning and by words, best first.

        `currency` says if a memory is outdated or conflicted; prefer the memory `newer_id`.

        Args:
            context: The run.
            query: A question or keywords.
            limit: The maximum number of memories, 1 to 20.
        """
        with _corrected_by_model():
            found = await client_of(context.deps).search(
                query, limit=min(max(limit, 1), _MOST_HITS), judge_currency=True
            )
        return [_shown(hit) for hit in found.hits]

    async def forget(context: RunContext[Any], memory_id: str) -> str:
        """Delete a memory that is wrong or no longer wanted.

        Args:
            context: The run.
            memory_id: The id, as `recall` returns it.
        """
        try:
            with _corrected_by_model():
                await client_of(context.deps).delete(memory_id)
        except MemsvcCallError as error:
            if error.code is grpc.StatusCode.NOT_FOUND:
                return "There is no such memory."
            raise
        return "Deleted."

    for tool in (remember, recall, forget):
        toolset.add_function(tool)
    return toolset


def known_instructions(
    client_of: Callable[[Deps], AsyncMemsvc], *, total_tokens: int = 1_000
) -> Callable[[RunContext[Deps]], Awaitable[str]]:
    """Return instructions for an agent: a context of the memories that fit the prompt of the run, as Markdown."""

    async def known(context: RunContext[Any]) -> str:
        prompt = context.prompt if isinstance(context.prompt, str) else ""
        reply = await client_of(context.deps).render_context(prompt, total_tokens=total_tokens)
        return reply.markdown

    return known


def _shown(hit: search_pb.Hit) -> dict[str, str]:
    shown = {
        "id": hit.memory.id,
        "statement": hit.memory.content,
        "stored": hit.memory.create_time.ToDatetime().date().isoformat(),
        "currency": currency_of(hit),
        "newer_id": hit.newer_memory_id,
    }
    return {name: value for name, value in shown.items() if value}


@contextmanager
def _corrected_by_model() -> Iterator[None]:
    """Return an invalid request to the model, which can correct the call."""
    try:
        yield
    except MemsvcCallError as error:
        if error.code is grpc.StatusCode.INVALID_ARGUMENT:
            raise ModelRetry(str(error)) from error
        raise
