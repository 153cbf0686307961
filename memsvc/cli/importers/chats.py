"""Exports of chat applications: each message of a conversation is a memory of kind MESSAGE, with its time and speaker.

Formats: the archives that ChatGPT and Claude send on "export data", or the files in them.
"""

from __future__ import annotations

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

_SPEAKERS = {"user": "user", "human": "user", "assistant": "assistant"}


def chatgpt(path: Path) -> Iterator[Entry]:
    """Yield the messages that are shown in each conversation, and what the assistant noted as its memory of the user.

    A conversation is a tree: answers that were generated again, and questions that were edited, are left out.
    """
    for name, document in json_documents(path, "conversations*.json"):
        for number, conversation in enumerate(_conversations(document, name, "mapping"), start=1):
            title = text_in(conversation, "title")
            place = f"Conversation {number} of {name}"
            conversation_id = text_in(conversation, "conversation_id", "id") or f"{title}-{number}"
            for node_id, message in _shown(conversation):
                yield _chatgpt_entry(message, place, (conversation_id, node_id), title)


def _conversations(document: Any, name: str, needed: str) -> list[Any]:
    found = document if isinstance(document, list) else listed(document, "conversations")
    if found and not any(needed in mapping(one) for one in found):
        message = f'{name} is no such export: its conversations have no "{needed}".'
        raise CommandError(message)
    return found


def _shown(conversation: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the messages from the first one to the one that was shown last."""
    nodes = mapping(mapping(conversation).get("mapping"))
    node_id = text_in(conversation, "current_node") or _latest(nodes)
    found: list[tuple[str, Mapping[str, Any]]] = []
    seen: set[str] = set()
    while node_id and node_id not in seen:
        seen.add(node_id)
        node = mapping(nodes.get(node_id))
        if message := mapping(node.get("message")):
            found.append((text_in(message, "id") or node_id, message))
        node_id = text_in(node, "parent")
    return found[::-1]


def _latest(nodes: Mapping[str, Any]) -> str:
    leaves = [name for name, node in nodes.items() if not mapping(node).get("children")]
    return max(leaves, key=lambda name: _seconds(nodes[name]), default="")


def _seconds(node: Any) -> float:
    found = mapping(mapping(node).get("message")).get("create_time")
    return float(found) if isinstance(found, (int, float)) else 0.0


def _chatgpt_entry(message: Mapping[str, Any], place: str, ids: tuple[str, str], title: str) -> Entry:
    role = text_in(message.get("author"), "role")
    text = _parts(mapping(message.get("content")))
    is_noted = message.get("recipient") == "bio"
    is_hidden = bool(mapping(message.get("metadata")).get("is_visually_hidden_from_conversation"))
    if not text or is_hidden or role not in _SPEAKERS or message.get("recipient", "all") not in ("all", "bio"):
        return Entry(place, None, is_left_out=True)
    memory = memory_of(
        text,
        key=key_of("chatgpt", *ids),
        source="chatgpt",
        kind=types_pb.MEMORY_KIND_FACT if is_noted else types_pb.MEMORY_KIND_MESSAGE,
        speaker="" if is_noted else _SPEAKERS[role],
        event_time=moment_in(message, "create_time"),
        metadata={"conversation": ids[0], "conversation_title": title},
    )
    return Entry(place, memory)


def _parts(content: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    if isinstance(parts, list):
        # Images and sounds are objects; what was said in a sound is its text.
        return joined(part if isinstance(part, str) else text_in(part, "text") for part in parts)
    return text_in(content, "text", "result")


def claude(path: Path) -> Iterator[Entry]:
    """Yield the messages of each conversation, and what is remembered of the user and of projects."""
    for name, document in json_documents(path, "conversations.json", "conversations.jsonl", "memories.json"):
        if name.rpartition("/")[2].lower() == "memories.json":
            yield from _claude_memories(document, name)
            continue
        for number, conversation in enumerate(_conversations(document, name, "chat_messages"), start=1):
            yield from _claude_conversation(conversation, f"Conversation {number} of {name}")


def _claude_conversation(conversation: Any, place: str) -> Iterator[Entry]:
    conversation_id, title = text_in(conversation, "uuid"), text_in(conversation, "name", "title")
    for number, message in enumerate(listed(conversation, "chat_messages"), start=1):
        text, speaker = _claude_text(message), _SPEAKERS.get(text_in(message, "sender"), "")
        if not text or not speaker:
            yield Entry(place, None, is_left_out=True)
            continue
        memory = memory_of(
            text,
            key=key_of("claude", conversation_id, text_in(message, "uuid") or str(number)),
            source="claude",
            kind=types_pb.MEMORY_KIND_MESSAGE,
            speaker=speaker,
            event_time=moment_in(message, "created_at") or moment_in(conversation, "created_at"),
            metadata={
                "conversation": conversation_id,
                "conversation_title": title,
                "project": text_in(conversation, "project_uuid")
                or text_in(mapping(conversation).get("project"), "uuid"),
            },
        )
        yield Entry(place, memory)


def _claude_text(message: Any) -> str:
    blocks = listed(message, "content")
    said = joined(text_in(block, "text") for block in blocks if text_in(block, "type") == "text")
    return said or text_in(message, "text")


def _claude_memories(document: Any, name: str) -> Iterator[Entry]:
    accounts = document if isinstance(document, list) else [document]
    for account in accounts:
        if text := text_in(account, "conversations_memory"):
            yield _claude_memory(text, name, "memory", "")
        for project, text in mapping(mapping(account).get("project_memories")).items():
            if isinstance(text, str) and text.strip():
                yield _claude_memory(text.strip(), name, f"memory/{project}", project)


def _claude_memory(text: str, name: str, key: str, project: str) -> Entry:
    memory = memory_of(
        text,
        key=key_of("claude", key),
        source="claude",
        title="Claude's memory",
        kind=types_pb.MEMORY_KIND_SUMMARY,
        metadata={"project": project},
    )
    return Entry(f"A memory of {name}", memory)
