"""The rule of private memories: those of layer SESSION exist only for the session they were written in.

It comes on top of `Reach`, which every store and index holds reads to.
"""

from __future__ import annotations

from memsvc.domain.filters import AnyOf, Field, Filter, Not, Or
from memsvc.domain.memory import Layer, Memory
from memsvc.domain.scope import Scope, SessionVisibility


def visible(memory: Memory, scope: Scope, sessions: SessionVisibility = SessionVisibility.CURRENT) -> bool:
    """Return whether a caller in *scope*, within whose reach *memory* lies, may know that it exists.

    A caller who asked for the private memories of all their sessions may know of every one.
    """
    if memory.layer is not Layer.SESSION or sessions is SessionVisibility.ALL:
        return True
    return scope.session_id != "" and memory.scope.session_id == scope.session_id


def session_privacy(scope: Scope, sessions: SessionVisibility = SessionVisibility.CURRENT) -> Filter | None:
    """Return the rule of `visible` as a filter, for every read that finds memories by other means than their id.

    None when the caller asked for the private memories of all their sessions.
    """
    if sessions is SessionVisibility.ALL:
        return None
    shared = Not(AnyOf(Field.LAYER, (Layer.SESSION.value,)))
    if not scope.session_id:
        return shared
    return Or((shared, AnyOf(Field.SESSION_ID, (scope.session_id,))))
