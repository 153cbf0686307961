"""Where contents refer to files that may get other ids here, and the contents with those ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from memsvc.domain.files import FILE_CATEGORIES, REF, ref_from
from memsvc.domain.memory import FileRef
from memsvc.text.file_refs import refs_in, with_references

PASSES = 8
"""A content is looked at so many times at most; each finds as many references as a memory may have."""
_REF = re.compile(REF)
_MARKS = tuple(f"{category}:" for category in FILE_CATEGORIES)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_STAND_INS = UUID("ffffffff-ffff-ffff-ffff-000000000000").int


@dataclass(frozen=True, slots=True)
class Place:
    """A reference in a content to what may be a file of the service, and where it stands."""

    start: int
    end: int
    ref: FileRef


def is_uuid(name: str) -> bool:
    """Return whether a memory or a file of the service may have this id; what others name otherwise is theirs."""
    return _UUID.fullmatch(name) is not None


def places_in(content: str) -> tuple[Place, ...]:
    """Return where *content* refers to files, by place: exactly there where `refs_in` finds references.

    `refs_in` does not tell where. So each text that might be a reference is given an id of its own, by which it is
    known among those that are found. Of a reference that is repeated hundreds of times the last ones may be left out.
    """
    if not any(mark in content for mark in _MARKS):
        return ()
    matches = [(match, ref_from(match[0])) for match in _REF.finditer(content)]
    open_places = [Place(*match.span(), ref) for match, ref in matches if ref is not None and is_uuid(ref.id)]
    real: list[Place] = []
    for _ in range(PASSES):
        new = _found(content, open_places)
        if not new:
            break
        real += new
        open_places = [place for place in open_places if place not in new]
    return tuple(sorted(real, key=lambda place: place.start))


def _found(content: str, places: Sequence[Place]) -> set[Place]:
    """Return those of *places* that are found when each has an id of its own."""
    if not places:
        return set()
    stand_ins = {FileRef(place.ref.category, str(UUID(int=_STAND_INS + place.start))): place for place in places}
    of_place = {place: ref for ref, place in stand_ins.items()}
    found = refs_in(with_references(content, places, of_place.__getitem__))
    return {stand_ins[ref] for ref in found if ref in stand_ins}


def renamed(content: str, places: Sequence[Place], names: Mapping[str, str]) -> str:
    """Return *content* with the ids that *names* gives in those of its *places* that refer to files with other ids."""
    moved = [place for place in places if place.ref.id in names]
    if not moved:
        return content
    return with_references(content, moved, lambda place: FileRef(place.ref.category, names[place.ref.id]))
