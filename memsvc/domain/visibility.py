"""The rule of private memories: those of layer SESSION exist only for the session they were written in.

It comes on top of `Reach`, which every store and index holds reads to.
"""

from __future__ import annotations

from datetime import datetime

from memsvc.domain.clock import to_micros
from memsvc.domain.filters import And, AnyOf, Begun, Field, Filter, Not, Or, Range
from memsvc.domain.index_entries import Attributes
from memsvc.domain.memory import Layer, Memory, Status, Tier
from memsvc.domain.scope import Scope, SessionVisibility

_STATUS = Status.ACTIVE.value
_ARCHIVED, _SESSION = Tier.ARCHIVED.value, Layer.SESSION.value
_NEVER = {Field.TIER: _ARCHIVED, Field.LAYER: _SESSION}
"""Values that no plain memory has; of the others it may have any."""
SHARED = Not(AnyOf(Field.LAYER, (_SESSION,)))
"""The rule for a caller outside of sessions."""
_ABSENT = frozenset({Field.EXPIRE_TIME, Field.VALID_FROM, Field.VALID_TO})


def visible(memory: Memory, scope: Scope, sessions: SessionVisibility = SessionVisibility.CURRENT) -> bool:
    """Return whether a caller in *scope*, whose reach contains *memory*, may know that it exists.

    A caller who asked for the private memories of all their sessions may know of every one.
    """
    if memory.layer is not Layer.SESSION or sessions is SessionVisibility.ALL:
        return True
    return scope.session_id != "" and memory.scope.session_id == scope.session_id


def usual_conditions(now: datetime) -> Filter:
    """Return the conditions that a search adds by default: active, not archived, not expired, and valid at *now*."""
    moment = to_micros(now)
    return And(
        (
            AnyOf(Field.STATUS, (_STATUS,)),
            Not(AnyOf(Field.TIER, (_ARCHIVED,))),
            Not(Range(Field.EXPIRE_TIME, at_most=moment)),
            Not(Range(Field.VALID_TO, at_most=moment)),
            Begun.at(moment),
        )
    )


def session_privacy(scope: Scope, sessions: SessionVisibility = SessionVisibility.CURRENT) -> Filter | None:
    """Return the rule of `visible` as a filter, for every read that finds memories by other means than their id.

    None when the caller asked for the private memories of all their sessions.
    """
    if sessions is SessionVisibility.ALL:
        return None
    if not scope.session_id:
        return SHARED
    return Or((SHARED, AnyOf(Field.SESSION_ID, (scope.session_id,))))


# Default-visible memories: they pass all conditions that a search adds by default.
#
# A search that asks for nothing special tests status, tier, expiry, both ends of validity and layer of every memory. So
# where many are tested a memory says in one number whether it passes whatever a plain memory passes, and the conditions
# themselves are only looked at for the others.


def is_default_visible(one: Attributes | Memory) -> bool:
    """Return whether a memory is active, not archived, no session's own, and bound to no time."""
    is_free = one.expire_time is None and one.valid_from is None and one.valid_to is None
    is_usual = one.tier != _ARCHIVED and one.layer != _SESSION
    return one.status == _STATUS and is_free and is_usual


def split_default_visible(where: Filter) -> tuple[list[Filter], list[Filter]]:
    """Return the conditions that *where* joins: those that every default-visible memory meets, and the others."""
    met: list[Filter] = []
    others: list[Filter] = []
    for child in _conjuncts(where):
        (met if _of_plain(child) else others).append(child)
    return met, others


def _conjuncts(where: Filter) -> list[Filter]:
    if isinstance(where, And):
        return [part for child in where.children for part in _conjuncts(child)]
    return [where]


def _of_plain(where: Filter) -> bool | None:
    """Return whether plain memories meet the filter: all of them, none, or, with None, it depends."""
    if isinstance(where, AnyOf):
        return _has_any(where)
    if isinstance(where, Range):
        return False if where.field in _ABSENT else None
    if isinstance(where, Not):
        inner = _of_plain(where.child)
        return None if inner is None else not inner
    found = {_of_plain(child) for child in where.children}
    decisive = isinstance(where, Or)
    if decisive in found:
        return decisive
    return None if None in found else not decisive


def _has_any(where: AnyOf) -> bool | None:
    if where.field is Field.STATUS:
        return _STATUS in where.values
    if where.field in _ABSENT:
        return False
    never = _NEVER.get(where.field)
    return False if all(value == never for value in where.values) else None
