"""Chat messages, decoded and checked: of sessions, of a flush and of a capture."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.domain.capture import ChatMessage
from memsvc.domain.sessions import Role, ToolCall
from memsvc.server.enums import ROLE
from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.requests.memory_fields import decode_file_refs
from memsvc.v1 import types_pb2 as types_pb


def decode_chat_message(
    decoder: RequestDecoder, field: str, message: types_pb.ChatMessage, *, least: int = 0
) -> ChatMessage:
    """Return a message whose content has at least *least* characters; without a role it is the user's."""
    decoder.count(f"{field}.tool_calls", message.tool_calls, most=limits.TOOL_CALLS)
    return ChatMessage(
        role=decoder.enum(f"{field}.role", message.role, ROLE, Role.USER),
        content=decoder.text(f"{field}.content", message.content, least=least, most=limits.SPOKEN),
        speaker=decoder.name(f"{field}.speaker", message.speaker, most=limits.SPEAKER),
        event_time=decoder.optional_time(f"{field}.event_time", message, "event_time"),
        tool_calls=tuple(
            _tool_call(decoder, f"{field}.tool_calls[{index}]", call)
            for index, call in enumerate(message.tool_calls[: limits.TOOL_CALLS])
        ),
    )


def _tool_call(decoder: RequestDecoder, field: str, call: types_pb.ToolCall) -> ToolCall:
    decoder.count(f"{field}.file_refs", call.file_refs, most=limits.FILE_REFS)
    return ToolCall(
        id=decoder.name(f"{field}.id", call.id, most=limits.SCOPE_ID),
        name=decoder.name(f"{field}.name", call.name, most=limits.TOOL_NAME, least=1),
        arguments=decoder.metadata(f"{field}.arguments", call.arguments),
        file_refs=decode_file_refs(decoder, f"{field}.file_refs", call.file_refs[: limits.FILE_REFS]),
    )
