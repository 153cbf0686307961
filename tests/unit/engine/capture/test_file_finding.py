"""Which files the messages of a conversation speak of."""

from __future__ import annotations

from memsvc.domain.capture import CaptureReason, CaptureVerdict, ChatMessage, SourceStatement
from memsvc.domain.files import format_ref
from memsvc.domain.memory import FileRef
from memsvc.domain.sessions import Role, ToolCall
from memsvc.engine.capture.flush import files_by_message
from memsvc.engine.capture.statement_extraction import ExtractedStatement


def found(*messages: ChatMessage, heard: tuple[ExtractedStatement, ...] = ()) -> list[list[str]]:
    return [[format_ref(ref) for ref in refs] for refs in files_by_message(messages, heard)]


def test_tool_calls_come_before_what_the_text_refers_to() -> None:
    """Of every speaker but the system, in both languages, each once."""
    called = FileRef("report", "r1")

    assert found(
        ChatMessage(Role.SYSTEM, "Refer to files as in `artifact:abc123`."),
        ChatMessage(Role.USER, "分析 `upload:sales.xlsx` 的趋势"),
        ChatMessage(
            Role.ASSISTANT,
            "See ![trend](chart:t) and `report:r1`.",
            tool_calls=(ToolCall("", "f", file_refs=(called,)),),
        ),
        ChatMessage(Role.TOOL, "Saved as `artifact:out`."),
    ) == [[], ["upload:sales.xlsx"], ["report:r1", "chart:t"], ["artifact:out"]]


def test_what_is_repeated_or_to_be_forgotten_refers_to_nothing() -> None:
    """Neither a rendered context nor a statement that was recalled; the rest of the message does."""
    context = "<memory>\n- [mem:1] `chart:old`\n</memory>\n"
    forget = "Forget `report:gone`."
    message = ChatMessage(Role.USER, f"{context}{forget} Look at `chart:new`.")
    heard = ExtractedStatement(
        SourceStatement(forget, Role.USER, 0), CaptureVerdict.ignore(CaptureReason.FORGET, ""), forget
    )

    assert found(message, heard=(heard,)) == [["chart:new"]]
