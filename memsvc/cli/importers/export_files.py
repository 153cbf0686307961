"""JSON of exported files, directories and archives, and memories made of its values."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.cli.errors import CommandError
from memsvc.domain import limits
from memsvc.json_faults import syntax_fault
from memsvc.v1 import types_pb2 as types_pb

Document: TypeAlias = "tuple[str, Any]"
"""The name of a file and the value that it holds."""
_SURROGATE = re.compile(r"\\u[Dd][89A-Fa-f]")
MILLISECONDS_FROM = 100_000_000_000
"""A number of seconds from which on it is taken for milliseconds: as seconds it would be the year 5138."""


def json_documents(path: Path, *patterns: str) -> Iterator[Document]:
    """Yield the JSON of a file, or of the files of a directory or a ZIP archive whose names match a pattern.

    A file that ends in "l", such as "items.jsonl", gives the list of its lines.

    Raises:
        CommandError: No file matches, or one is no JSON.
    """
    if path.is_dir():
        names = sorted(file for file in path.rglob("*") if file.is_file() and _matches(file.name, patterns))
        found = [(file.relative_to(path).as_posix(), file.read_bytes) for file in names]
    elif zipfile.is_zipfile(path):
        yield from _archived(path, patterns)
        return
    else:
        found = [(path.name, path.read_bytes)]
    if not found:
        message = f"{str(path)!r} has no file {' or '.join(patterns)}."
        raise CommandError(message)
    for name, read in found:
        yield name, _parsed(name, read())


def _archived(path: Path, patterns: Sequence[str]) -> Iterator[Document]:
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if _matches(name.rpartition("/")[2], patterns))
        if not names:
            message = f"{str(path)!r} has no file {' or '.join(patterns)}."
            raise CommandError(message)
        for name in names:
            try:
                data = archive.read(name)
            except (RuntimeError, zipfile.BadZipFile, NotImplementedError) as error:
                message = f"{name} in {str(path)!r} cannot be read: {error}."
                raise CommandError(message) from error
            yield name, _parsed(name, data)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name.lower(), pattern) for pattern in patterns)


def _parsed(name: str, data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
        if name.lower().endswith("l"):
            return [_loaded(line, f"Line {number} of {name}") for number, line in _numbered(text)]
        return _loaded(text, name)
    except UnicodeDecodeError as error:
        message = f"{name} is no UTF-8 text."
        raise CommandError(message) from error


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers from 1 on."""
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _loaded(text: str, place: str) -> Any:
    """Return the value of a JSON text, with "?" in place of halves of surrogate pairs.

    Systems in JavaScript write a half where they cut a text within an emoji; it has no UTF-8.
    """
    try:
        value = json.loads(text)
        if _SURROGATE.search(text):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError) as error:
        message = f"{place} is no JSON: {syntax_fault(text)}."
        raise CommandError(message) from error
    return value


def listed(value: Any, *names: str) -> list[Any]:
    """Return the list that *value* is, or the lists that it has under *names*, one after another."""
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return [one for name in names if isinstance(value.get(name), list) for one in value[name]]
    return []


def mapping(value: Any) -> Mapping[str, Any]:
    """Return *value* if it has names and values, else nothing."""
    return value if isinstance(value, Mapping) else {}


def text_in(value: Any, *names: str) -> str:
    """Return the first text that is not blank under one of *names*, without white space around it."""
    for name in names:
        found = mapping(value).get(name)
        if isinstance(found, str) and found.strip():
            return found.strip()
    return ""


def moment_in(value: Any, *names: str) -> Timestamp | None:
    """Return the first time under one of *names*: seconds or milliseconds since 1970, or a text of ISO 8601."""
    for name in names:
        found = timestamp_of(mapping(value).get(name))
        if found is not None:
            return found
    return None


def timestamp_of(value: Any) -> Timestamp | None:
    """Return a time; None when it cannot be understood. One without a zone is in UTC."""
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, date):
            moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
        elif isinstance(value, str) and value.strip():
            moment = datetime.fromisoformat(value.strip())
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            moment = datetime.fromtimestamp(value / 1_000 if value >= MILLISECONDS_FROM else value, UTC)
        else:
            return None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    found = Timestamp()
    found.FromDatetime(moment)
    return found


def key_of(system: str, *parts: str) -> str:
    """Return the key of an item of another system; one that would be too long is a digest."""
    key = "/".join((system, *parts))
    if len(key) <= limits.KEY and key.isprintable():
        return key
    return f"{system}/{sha256(key.encode(errors='surrogatepass')).hexdigest()}"


def memory_of(
    content: str, *, key: str, source: str, metadata: Mapping[str, Any] | None = None, **fields: Any
) -> types_pb.Memory:
    """Return a memory; what its source gives beyond the limits of title, tags and speaker is cut off."""
    tags = [tag[: limits.TAG] for tag in fields.pop("tags", ()) if isinstance(tag, str) and tag.strip()]
    memory = types_pb.Memory(
        content=content,
        key=key,
        source=source[: limits.SOURCE],
        title=fields.pop("title", "")[: limits.TITLE],
        speaker=fields.pop("speaker", "")[: limits.SPEAKER],
        tags=list(dict.fromkeys(tags))[: limits.TAGS],
        **{name: value for name, value in fields.items() if value is not None},
    )
    if given := {name: value for name, value in (metadata or {}).items() if value not in (None, "", [], {})}:
        # Through JSON: values of YAML such as dates become texts.
        memory.metadata.update(json.loads(json.dumps(given, default=str)))
    return memory


def joined(parts: Iterable[str]) -> str:
    """Return the parts that are not blank as paragraphs."""
    return "\n\n".join(part.strip() for part in parts if part.strip())
