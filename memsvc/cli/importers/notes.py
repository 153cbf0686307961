"""Folders of Markdown notes with YAML front matter: Basic Memory, and bundles of the Open Knowledge Format (OKF)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.cli.errors import CommandError
from memsvc.cli.import_sources import Entry
from memsvc.cli.importers.export_files import key_of, memory_of, moment_in, text_in, timestamp_of
from memsvc.v1 import types_pb2 as types_pb

_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_RELATION = re.compile(r"^[-*] +([^\[\]\n]*?) *\[\[([^\]\n]+)\]\]", re.MULTILINE)
_OBSERVED_TAG = re.compile(r"(?:^|\s)#([^\s#.,;:!?]+)")
_OBSERVATION = re.compile(r"^[-*] +\[[^\[\]\n]{1,64}\] +(.+)$", re.MULTILINE)
_RESERVED = frozenset({"index.md", "log.md"})
"""Names that OKF keeps for lists of what a folder holds and for its history."""
_OKF_FIELDS = frozenset({"title", "description", "tags", "generated", "timestamp", "stale_after", "key"})
"""Front matter that becomes fields of the memory; everything else becomes metadata."""


def basic_memory(path: Path) -> Iterator[Entry]:
    """Yield a memory for each note; relations and tags of observations are kept beside its text."""
    for name, front, body in _notes(path):
        place = f"The note {name}"
        if front is None:
            yield Entry(place, None, body)
            continue
        if not body.strip():
            yield Entry(place, None, is_left_out=True)
            continue
        title = text_in(front, "title") or Path(name).stem
        observed = [tag for line in _OBSERVATION.findall(body) for tag in _OBSERVED_TAG.findall(line)]
        memory = memory_of(
            body.strip(),
            key=key_of("basic-memory", text_in(front, "permalink") or name.removesuffix(".md")),
            source="basic-memory",
            kind=types_pb.MEMORY_KIND_NOTE,
            title=title,
            tags=[*_tags(front.get("tags")), *observed],
            event_time=moment_in(front, "created", "date"),
            metadata={
                **{one: value for one, value in front.items() if one not in {"title", "tags", "permalink"}},
                "relations": [
                    {"type": kind or "relates_to", "target": target} for kind, target in _RELATION.findall(body)
                ],
            },
        )
        yield Entry(place, memory)


def okf(path: Path) -> Iterator[Entry]:
    """Yield a memory for each concept of a bundle of OKF 0.1 or 0.2.

    A type that is a kind of memory gives the kind, any other is a DOCUMENT of that category. What is deprecated was
    valid until it was; what goes stale expires on that day. Sources, verifications and unknown names are metadata.
    """
    for name, front, body in _notes(path):
        place = f"The concept {name}"
        if Path(name).name in _RESERVED:
            continue
        if front is None or not text_in(front, "type"):
            yield Entry(place, None, body if front is None else 'it has no "type"')
            continue
        text = body.strip() or text_in(front, "description")
        if not text:
            yield Entry(place, None, is_left_out=True)
            continue
        yield Entry(place, _concept(name, front, text))


def _concept(name: str, front: Mapping[str, Any], text: str) -> types_pb.Memory:
    kind = f"MEMORY_KIND_{text_in(front, 'type').upper().replace(' ', '_')}"
    is_kind = kind in types_pb.MemoryKind.DESCRIPTOR.values_by_name and kind != "MEMORY_KIND_UNSPECIFIED"
    made = moment_in(front.get("generated"), "at") or moment_in(front, "timestamp")
    others = {one: value for one, value in front.items() if one not in _OKF_FIELDS and not (is_kind and one == "type")}
    return memory_of(
        text,
        key=text_in(front, "key") or key_of("okf", name.removesuffix(".md")),
        source=text_in(front.get("generated"), "by") or "okf",
        kind=types_pb.MemoryKind.Value(kind) if is_kind else types_pb.MEMORY_KIND_DOCUMENT,
        category="" if is_kind else text_in(front, "type")[:64],
        title=text_in(front, "title") or Path(name).stem,
        summary=text_in(front, "description") if text != text_in(front, "description") else "",
        tags=_tags(front.get("tags")),
        event_time=made,
        expire_time=_first_moment(front.get("stale_after")),
        valid_to=(made or _now()) if text_in(front, "status") == "deprecated" else None,
        metadata=others,
    )


def _first_moment(day: Any) -> Timestamp | None:
    """Return the first moment of a day: what is stale on it is stale from then on."""
    return timestamp_of(day if isinstance(day, (date, datetime)) else str(day or ""))


def _now() -> Timestamp:
    found = Timestamp()
    found.GetCurrentTime()
    return found


def _tags(value: Any) -> list[str]:
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",")]
    return [str(tag) for tag in value] if isinstance(value, list) else []


def _notes(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | None, str]]:
    """Yield name, front matter and text of each note; without front matter, why it cannot be read instead of the text.

    Raises:
        CommandError: There are none.
    """
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*.md") if _is_note(file, path))
    if not files:
        message = f"There are no Markdown notes in {str(path)!r}."
        raise CommandError(message)
    for file in files:
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            yield name, None, "it is no UTF-8 text"
            continue
        except OSError as error:
            yield name, None, f"it cannot be read: {error.strerror}"
            continue
        found = _FRONT.match(text)
        front = _front_values(found[1]) if found else {}
        if front is None:
            yield name, None, "its front matter is no YAML"
        else:
            yield name, front, text[found.end() :] if found else text


def _is_note(file: Path, folder: Path) -> bool:
    parts = file.relative_to(folder).parts
    return file.is_file() and not any(part.startswith(".") for part in parts)


def _front_values(text: str) -> Mapping[str, Any] | None:
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return (
        {}
        if found is None
        else ({str(one): value for one, value in found.items()} if isinstance(found, dict) else None)
    )
