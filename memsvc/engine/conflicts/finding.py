"""Finding memories and chains on behalf of a caller."""

from __future__ import annotations

from memsvc.domain.errors import MemoryNotFoundError, RevisionConflictError
from memsvc.domain.memory import Memory, Status
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.visibility import visible
from memsvc.ports.metadata import MemoryReads, Transaction

SHOWN_CHAIN = 100
"""How many memories a chain shows at most."""


def require_memory(transaction: Transaction, scope: Scope, memory_id: str, *, expected_revision: int = 0) -> Memory:
    """Return a memory that is not deleted, held for this transaction.

    Raises:
        MemoryNotFoundError: It is not there for the scope.
        RevisionConflictError: It is at another revision than expected (0: any).
    """
    memory = transaction.get(memory_id, reach=Reach.from_scope(scope))
    if memory is None or memory.status is Status.DELETED or not visible(memory, scope):
        raise MemoryNotFoundError(memory_id)
    if expected_revision not in {0, memory.revision}:
        raise RevisionConflictError(memory.id, expected_revision, memory.revision)
    return memory


def supersession_chain(reads: MemoryReads, scope: Scope, memory: Memory) -> list[Memory]:
    """Return the chain of supersession that *memory* is part of, the oldest first, itself included.

    Links to what is deleted or not visible end it. At most `SHOWN_CHAIN` memories on either side of it.
    """
    older = _walk(reads, scope, memory, "supersedes_id")
    return [*reversed(older), memory, *_walk(reads, scope, memory, "superseded_by_id")]


def _walk(reads: MemoryReads, scope: Scope, memory: Memory, link: str) -> list[Memory]:
    reach = Reach.from_scope(scope)
    seen: list[Memory] = []
    following: str = getattr(memory, link)
    while following and len(seen) < SHOWN_CHAIN:
        found = reads.get([following], reach=reach).get(following)
        if found is None or found.status is Status.DELETED or not visible(found, scope):
            break
        seen.append(found)
        following = getattr(found, link)
    return seen
