"""Which memories say the same: told by all that they say, never by their vectors alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memsvc.domain.consolidation import (
    LASTING,
    MOST_MEMBERS,
    agree,
    may_be_merged,
    same_day,
    same_day_of_writing,
)
from memsvc.domain.memory import Memory
from memsvc.engine.conflicts.statements import contradiction
from memsvc.text.paraphrase import NormalizedText, are_alike, gist_of


def are_equivalent(one: Memory, other: Memory) -> bool:
    """Return whether one of two memories can take the place of both: every doubt speaks against it.

    They agree in all that is not text, do not contradict each other, and one says all that the other says. What is
    told of a day counts as the same only on the same day, and what "she" or "this" does only under the same title.
    """
    if one.id == other.id or not (may_be_merged(one) and may_be_merged(other) and agree(one, other)):
        return False
    mine, theirs = _gist(one, other), _gist(other, one)
    if (mine.is_pointing or theirs.is_pointing) and (not one.title or one.title != other.title):
        return False
    if (mine.is_relative or theirs.is_relative) and not same_day_of_writing(one, other):
        return False
    is_lasting = one.kind in LASTING or (mine.is_lasting and theirs.is_lasting)
    if not is_lasting and not same_day(one, other):
        return False
    return are_alike(mine, theirs) and not contradiction(one, other) and not contradiction(other, one)


def coherent_groups(seed: Memory, others: Iterable[Memory]) -> list[Memory]:
    """Return *seed* with those of *others* that say the same as it and as each other; earlier ones go first."""
    members = [seed]
    for other in others:
        if len(members) < MOST_MEMBERS and all(are_equivalent(member, other) for member in members):
            members.append(other)
    return members


def cohere(members: Sequence[Memory]) -> bool:
    """Return whether all of at least two memories say the same."""
    return len(members) > 1 and len(coherent_groups(members[0], members[1:])) == len(members)


def _gist(memory: Memory, other: Memory) -> NormalizedText:
    """Return what a memory says; a title that the other has not belongs to it."""
    if not memory.title or memory.title.casefold() == other.title.casefold():
        return gist_of(memory.content, memory.speaker)
    return gist_of(f"{memory.title}\n{memory.content}", memory.speaker)
