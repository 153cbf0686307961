"""From the lines of an exported user to what they hold, each checked field by field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.memory import Layer
from memsvc.engine.user_data.schema import (
    CheckpointLine,
    ConflictLine,
    FileLine,
    FooterLine,
    HeaderLine,
    Line,
    MemoryFields,
    MemoryLine,
    RevisionLine,
    SessionLine,
    TombstoneLine,
)  # fmt: skip

M = TypeVar("M", bound=BaseModel)


class _Sort(BaseModel):
    """What is looked at first: what kind of line it is, and whether it may be left out."""

    record: str
    optional: bool = False


HEADER, FOOTER = "header", "footer"
KINDS: Mapping[str, type[Line]] = {
    HEADER: HeaderLine,
    "session": SessionLine,
    "memory": MemoryLine,
    "revision": RevisionLine,
    "conflict": ConflictLine,
    "checkpoint": CheckpointLine,
    "tombstone": TombstoneLine,
    "file": FileLine,
    FOOTER: FooterLine,
}
"""Another kind of record is another class here, and a way to store it in `memsvc.engine.user_data.import_user`."""
_KIND = re.compile(rb'^\s*\{\s*"record"\s*:\s*"([a-z_]+)"')


def read_line(number: int, line: bytes) -> Line | str:
    """Return what a line holds, or the name of an unknown kind that says that it may be left out.

    Raises:
        InvalidRequestError: It is no line of an exported user; the fields are named "data.lines[NUMBER].…".
    """
    found = _KIND.match(line)
    name = found.group(1).decode() if found else ""
    if (model := KINDS.get(name)) is not None:
        return _agreeing(number, _checked(number, lambda: model.model_validate_json(line)))
    sort = _checked(number, lambda: _Sort.model_validate_json(line))
    if (late := KINDS.get(sort.record)) is not None:
        return _agreeing(number, _checked(number, lambda: late.model_validate_json(line)))
    if sort.optional:
        return sort.record
    known = ", ".join(KINDS)
    raise bad_line(number, "record", f"is {sort.record!r}, which this version does not know (it knows {known})")


def bad_line(number: int, field: str, description: str) -> InvalidRequestError:
    """Return the error that a field of a line is wrong."""
    return InvalidRequestError([Violation(_path(number, (field,) if field else ()), description)])


def _checked(number: int, read: Callable[[], M]) -> M:
    try:
        return read()
    except ValidationError as error:
        broken = error.errors(include_url=False, include_context=False, include_input=False)
        violations = [Violation(_path(number, one["loc"]), one["msg"]) for one in broken[: limits.VIOLATIONS]]
        raise InvalidRequestError(violations) from None


def _agreeing(number: int, line: Line) -> Line:
    """Return a line whose fields are right together, too, by the rules of those who write memories.

    What is asked first is what most memories lack: this is done for each of them.
    """
    if isinstance(line, MemoryFields) and (violations := list(_disagreements(number, line))):
        raise InvalidRequestError(violations)
    return line


def _disagreements(number: int, line: MemoryFields) -> Iterator[Violation]:
    if line.valid_to is not None and line.valid_from is not None and line.valid_to <= line.valid_from:
        yield Violation(_path(number, ("valid_to",)), "must lie after valid_from")
    if line.layer is Layer.SESSION and not line.session_id:
        yield Violation(_path(number, ("layer",)), "can be SESSION only with a session_id")
    for field in ("supersedes_id", "superseded_by_id"):
        if getattr(line, field) == line.id:
            yield Violation(_path(number, (field,)), "must be the id of another memory")


def _path(number: int, location: tuple[str | int, ...]) -> str:
    path = f"data.lines[{number}]"
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path
