"""Conflicts on their way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memsvc.domain.conflicts import Contradiction
from memsvc.domain.write_requests import Written
from memsvc.server.convert.enums import CONFLICT_RULE, CONFLICT_STATE
from memsvc.server.convert.memory import fill_memory
from memsvc.server.convert.redactions import redactions_to_proto
from memsvc.server.convert.times import fill_time
from memsvc.server.convert.tokens import consistency_token
from memsvc.v1 import conflicts_pb2 as pb


class Conflicts(Protocol):
    """A repeated field of conflicts."""

    def add(self) -> pb.Conflict:
        """Add an empty one and return it."""
        ...


def fill_conflicts(messages: Conflicts, contradictions: Sequence[Contradiction]) -> None:
    """Add *contradictions* to a repeated field."""
    for one in contradictions:
        fill_conflict(messages.add(), one)


def fill_conflict(message: pb.Conflict, contradiction: Contradiction) -> None:
    """Make an empty message the conflict as replies show it."""
    conflict = contradiction.conflict
    message.id = conflict.id
    message.rule = CONFLICT_RULE.to_proto[conflict.rule]
    message.topic = conflict.topic
    message.older_value = conflict.older_value
    message.newer_value = conflict.newer_value
    message.state = CONFLICT_STATE.to_proto[conflict.state]
    message.older_memory_id = conflict.older_id
    message.newer_memory_id = conflict.newer_id
    if contradiction.older is not None:
        fill_memory(message.older_memory, contradiction.older)
    if contradiction.newer is not None:
        fill_memory(message.newer_memory, contradiction.newer)
    fill_time(message.create_time, conflict.create_time)
    if conflict.resolve_time is not None:
        fill_time(message.resolve_time, conflict.resolve_time)


def superseded_to_proto(new: Written, old: Written) -> pb.SupersedeMemoryResponse:
    """Return the answer to a supersession."""
    response = pb.SupersedeMemoryResponse(consistency_token=consistency_token(new.position))
    fill_memory(response.memory, new.memory)
    fill_memory(response.superseded, old.memory)
    fill_conflicts(response.conflicts, new.conflicts)
    response.redactions.extend(redactions_to_proto(new.redactions))
    return response


def resolved_to_proto(contradiction: Contradiction, position: int) -> pb.ResolveConflictResponse:
    """Return the answer to a decision."""
    response = pb.ResolveConflictResponse(consistency_token=consistency_token(position))
    fill_conflict(response.conflict, contradiction)
    return response
