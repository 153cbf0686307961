"""Items as messages: the content is the text of an item, and the metadata hold its exact JSON.

The JSON of a large item is the content instead, in as many messages as it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from memsvc.client import Message, ToolCall
from memsvc.client.request_types import Role
from memsvc.v1 import types_pb2 as types_pb

FIELD = "openai_agents"
MOST_ITEM_BYTES = 12_000
"""The largest item in the metadata, which have at most 16 KiB."""
MOST_CONTENT_CHARS = 90_000
MOST_MESSAGES = 100
"""The most messages that one call appends or removes."""
_MOST_ID_CHARS = 128
_ROLES: Mapping[str, Role] = {"user": "USER", "assistant": "ASSISTANT", "system": "SYSTEM", "developer": "SYSTEM"}


def messages_of(item: Any) -> list[Message]:
    """Return the messages that hold an item.

    Raises:
        TypeError: The item is not JSON.
        ValueError: The item needs more messages than one call appends.
    """
    exact = _json(item)
    if len(json.dumps(exact)) <= MOST_ITEM_BYTES:
        return [_message(item, exact)]
    # An image in Markdown would become a file: the escape keeps the item and breaks the mark.
    safe = exact.replace("![", "!\\u005b")
    chunks = [safe[start : start + MOST_CONTENT_CHARS] for start in range(0, len(safe), MOST_CONTENT_CHARS)]
    if len(chunks) > MOST_MESSAGES:
        raise ValueError(f"An item has {len(exact)} characters; a session holds {MOST_CONTENT_CHARS * MOST_MESSAGES}.")
    role = _role(item)
    return [
        Message(role=role, content=chunk, metadata={FIELD: {"part": number, "parts": len(chunks)}})
        for number, chunk in enumerate(chunks, 1)
    ]


def parts_of(message: types_pb.ChatMessage) -> int:
    """Return the number of messages of the item that a message belongs to."""
    fields: Any = message.metadata[FIELD] if FIELD in message.metadata else {}  # noqa: SIM401 - a Struct has no get
    return int(fields["parts"]) if "parts" in fields else 1


def item_of(messages: list[types_pb.ChatMessage]) -> Any:
    """Return the item that messages hold; a message that another program appended is an item with its role."""
    first = messages[0]
    if FIELD not in first.metadata:
        name = types_pb.MessageRole.Name(first.role).removeprefix("MESSAGE_ROLE_").lower()
        return {"role": name if name in _ROLES else "user", "content": first.content}
    fields: Any = first.metadata[FIELD]
    return json.loads(fields["item"] if "item" in fields else "".join(each.content for each in messages))


def _message(item: Any, exact: str) -> Message:
    role = _role(item)
    text = "\n".join(_texts(item)).replace("](data:", "] (data:").replace("\0", " ").encode("utf-8", "replace").decode()
    message = Message(role=role, content=text, metadata={FIELD: {"item": exact}})
    if isinstance(item, Mapping) and item.get("type") == "function_call":
        message["tool_calls"] = [_tool_call(item)]
    elif not text:
        message["content"] = f"({item.get('type', 'item') if isinstance(item, Mapping) else 'item'})"
    if role == "TOOL":
        message["tool_call_id"] = _id(item)
    return message


def _role(item: Any) -> Role:
    if not isinstance(item, Mapping):
        return "USER"
    if "role" in item:
        return _ROLES.get(str(item["role"]), "USER")
    return "TOOL" if str(item.get("type", "")).endswith("_output") else "ASSISTANT"


def _tool_call(item: Mapping[str, Any]) -> ToolCall:
    try:
        arguments = json.loads(item.get("arguments") or "{}")
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        arguments = {}
    call = ToolCall(name=str(item.get("name") or "function")[:_MOST_ID_CHARS], id=_id(item))
    if isinstance(arguments, dict):
        call["arguments"] = arguments
    return call


def _id(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id") or "")[:_MOST_ID_CHARS]


def _texts(item: Any) -> Iterable[str]:
    """Yield what a person or a model said: the strings of content, output and summary."""
    if not isinstance(item, Mapping):
        return
    for name in ("content", "output", "summary"):
        value = item.get(name)
        for part in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str):
                yield text


def _json(item: Any) -> str:
    exact = json.dumps(item, ensure_ascii=False)
    try:
        exact.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(item)
    return exact


def items_of(messages: Iterable[types_pb.ChatMessage]) -> list[Any]:
    """Return the items of messages in their order; parts of an item whose other parts are missing are left out."""
    items: list[Any] = []
    parts: list[types_pb.ChatMessage] = []
    for message in messages:
        wanted = parts_of(message)
        if wanted > 1:
            number = int(cast("Any", message.metadata[FIELD])["part"])
            parts = [*parts, message] if number == len(parts) + 1 else [message] if number == 1 else []
            if len(parts) == wanted:
                items.append(item_of(parts))
                parts = []
        else:
            parts = []
            items.append(item_of([message]))
    return items
