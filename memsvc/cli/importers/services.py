"""Exports of other memory services: Mem0, Zep, Letta and stores of LangGraph, as their APIs list what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memsvc.cli.errors import CommandError
from memsvc.cli.import_sources import Entry
from memsvc.cli.importers.export_files import (
    joined,
    json_documents,
    key_of,
    listed,
    mapping,
    memory_of,
    moment_in,
    text_in,
)
from memsvc.v1 import types_pb2 as types_pb

_ANY = ("*.json", "*.jsonl")


def mem0(path: Path) -> Iterator[Entry]:
    """Yield the memories of `get_all` or of an export; the time of a memory is that of its creation."""
    for name, document in json_documents(path, *_ANY):
        for number, item in enumerate(listed(document, "results", "memories"), start=1):
            place = f"Item {number} of {name}"
            text = text_in(item, "memory", "text", "data")
            if not text:
                yield Entry(place, None, 'it has no "memory"')
                continue
            ids = {one: text_in(item, one) for one in ("agent_id", "app_id", "run_id")}
            memory = memory_of(
                text,
                key=key_of("mem0", text_in(item, "id") or f"{name}-{number}"),
                source="mem0",
                tags=listed(item, "categories"),
                event_time=moment_in(item, "created_at"),
                expire_time=moment_in(item, "expiration_date"),
                metadata={**mapping(item.get("metadata")), **ids},
            )
            yield Entry(place, memory, user=text_in(item, "user_id"))


def zep(path: Path) -> Iterator[Entry]:
    """Yield facts with the time in which they are true, summaries of nodes, and messages of threads and episodes."""
    for name, document in json_documents(path, *_ANY):
        items = document if isinstance(document, list) else None
        is_found = False
        for kind, names in (("edge", ("edges", "facts")), ("node", ("nodes",)), ("episode", ("episodes", "messages"))):
            given = listed(document, *names) if items is None else [one for one in items if _zep_kind(one) == kind]
            for number, item in enumerate(given, start=1):
                is_found = True
                yield _zep_entry(kind, item, f"{kind.capitalize()} {number} of {name}")
        if not is_found:
            message = f"{name} is no export of Zep: it has no edges, facts, nodes, episodes or messages."
            raise CommandError(message)


def _zep_kind(item: Any) -> str:
    if text_in(item, "fact"):
        return "edge"
    return "episode" if text_in(item, "content") else "node"


def _zep_entry(kind: str, item: Any, place: str) -> Entry:
    if kind == "edge":
        text = text_in(item, "fact")
        fields: dict[str, Any] = {
            "event_time": moment_in(item, "created_at"),
            "valid_from": moment_in(item, "valid_at"),
            "valid_to": moment_in(item, "invalid_at", "expired_at"),
        }
    elif kind == "node":
        # A summary describes; what it says is true of its name.
        text = joined((text_in(item, "name"), text_in(item, "summary"))) if text_in(item, "summary") else ""
        fields = {"kind": types_pb.MEMORY_KIND_SUMMARY, "title": text_in(item, "name"), "tags": listed(item, "labels")}
    else:
        text = text_in(item, "content")
        fields = {
            "kind": types_pb.MEMORY_KIND_MESSAGE,
            "speaker": text_in(item, "name", "role", "role_type"),
            "event_time": moment_in(item, "created_at"),
        }
    if not text:
        return Entry(place, None, is_left_out=True)
    if not _is_span(fields):
        fields.pop("valid_to")
    memory = memory_of(
        text,
        key=key_of("zep", kind, text_in(item, "uuid", "uuid_", "id") or text[:64]),
        source="zep",
        metadata={
            "relation": text_in(item, "name") if kind == "edge" else "",
            "episodes": listed(item, "episodes", "episode_uuids"),
            "attributes": dict(mapping(mapping(item).get("attributes"))),
        },
        **fields,
    )
    return Entry(place, memory, user=text_in(item, "user_id"))


def _is_span(fields: Mapping[str, Any]) -> bool:
    """Return whether the end comes after the beginning; services note ends that came too late."""
    first, last = fields.get("valid_from"), fields.get("valid_to")
    return first is None or last is None or first.ToNanoseconds() < last.ToNanoseconds()


def letta(path: Path) -> Iterator[Entry]:
    """Yield blocks, which are core memories, archival passages, and messages, of an agent file or of lists of them."""
    for name, document in json_documents(path, "*.af", *_ANY):
        found = [*_letta_parts(document, name)]
        if not found:
            message = f"{name} is no export of Letta: it has no agents, blocks, passages or messages."
            raise CommandError(message)
        yield from found


def _letta_parts(document: Any, name: str) -> Iterator[Entry]:
    for number, block in enumerate(listed(mapping(document), "blocks", "core_memory"), start=1):
        yield _letta_block(block, f"Block {number} of {name}")
    for number, passage in enumerate(
        document if isinstance(document, list) else listed(document, "passages", "archival_memory"), start=1
    ):
        place = f"Passage {number} of {name}"
        text = text_in(passage, "text", "content")
        if not text:
            yield Entry(place, None, 'it has no "text"')
            continue
        memory = memory_of(
            text,
            key=key_of("letta", "passage", text_in(passage, "id") or text[:64]),
            source="letta",
            tags=listed(passage, "tags"),
            event_time=moment_in(passage, "created_at"),
            metadata=mapping(mapping(passage).get("metadata")),
        )
        yield Entry(place, memory)
    agents = listed(mapping(document), "agents") or [document]
    for agent in agents:
        for number, message in enumerate(listed(mapping(agent), "messages"), start=1):
            yield _letta_message(message, f"Message {number} of {name}", text_in(agent, "name", "id"))


def _letta_block(block: Any, place: str) -> Entry:
    text, label = text_in(block, "value"), text_in(block, "label")
    if not text:
        return Entry(place, None, is_left_out=True)
    memory = memory_of(
        text,
        key=key_of("letta", "block", label or text_in(block, "id") or text[:64]),
        source="letta",
        title=label,
        tier=types_pb.MEMORY_TIER_CORE,
        layer=types_pb.MEMORY_LAYER_CORE,
        metadata={"description": text_in(block, "description")},
    )
    return Entry(place, memory)


def _letta_message(message: Any, place: str, agent: str) -> Entry:
    role = text_in(message, "role")
    text = joined(text_in(part, "text") for part in listed(message, "content")) or text_in(message, "content", "text")
    if role not in {"user", "assistant"} or not text or _is_event(text):
        return Entry(place, None, is_left_out=True)
    memory = memory_of(
        text,
        key=key_of("letta", "message", agent, text_in(message, "id") or f"{role}-{text[:64]}"),
        source="letta",
        kind=types_pb.MEMORY_KIND_MESSAGE,
        speaker=text_in(message, "name") or role,
        event_time=moment_in(message, "created_at", "date"),
        metadata={"agent": agent},
    )
    return Entry(place, memory)


def _is_event(text: str) -> bool:
    """Return whether a message of the user is one that the server made, such as a login or a heartbeat."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return text_in(found, "type") in {"login", "heartbeat", "system_alert"}


def langgraph(path: Path) -> Iterator[Entry]:
    """Yield the items of a store; the text is that of a value, or the value as JSON."""
    for name, document in json_documents(path, *_ANY):
        for number, item in enumerate(listed(document, "items"), start=1):
            place = f"Item {number} of {name}"
            value, namespace = mapping(item).get("value"), _namespace(mapping(item).get("namespace"))
            key = text_in(item, "key")
            if not isinstance(value, Mapping) or not key:
                yield Entry(place, None, 'it has no "key" or no "value" with names')
                continue
            text = text_in(value, "text", "content", "memory", "data")
            rest = {one: found for one, found in value.items() if found != text}
            memory = memory_of(
                text or json.dumps(value, ensure_ascii=False, indent=2),
                key=key_of("langgraph", *namespace, key),
                source="langgraph",
                event_time=moment_in(item, "updated_at", "created_at"),
                metadata={"namespace": namespace, "value": rest if text else {}},
            )
            yield Entry(place, memory)


def _namespace(value: Any) -> list[str]:
    """Return the parts of a namespace: a list, or, as databases keep it, a text with dots."""
    if isinstance(value, str):
        return value.split(".")
    return [str(part) for part in value] if isinstance(value, list) else []
