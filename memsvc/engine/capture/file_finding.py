"""Which files the messages of a conversation speak of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from memsvc.domain.capture import ChatMessage, Reason
from memsvc.domain.memory import FileRef
from memsvc.domain.sessions import Role
from memsvc.engine.capture.statement_extraction import ExtractedStatement
from memsvc.text.file_refs import refs_in
from memsvc.text.recalled_text import rendered_spans

_UNREFERRED = frozenset({Reason.RECALLED, Reason.FORGET})
"""A statement that only repeats memories, or asks to forget, refers to no file."""


def files_by_message(messages: Sequence[ChatMessage], heard: Iterable[ExtractedStatement]) -> list[tuple[FileRef, ...]]:
    """Return the files of each message: those of its tool calls, then those that its text refers to.

    Not those of statements that only repeat memories or ask to forget, nor of instructions of the system.
    """
    unreferred: dict[int, list[str]] = defaultdict(list)
    for one in heard:
        if one.verdict.reason in _UNREFERRED:
            unreferred[one.statement.place].append(one.statement.text)
    return [
        tuple(dict.fromkeys((*message.files, *_said(message, unreferred[place]))))
        for place, message in enumerate(messages)
    ]


def _said(message: ChatMessage, unreferred: Sequence[str]) -> tuple[FileRef, ...]:
    if message.role is Role.SYSTEM:
        return ()
    found = refs_in(message.content)
    contexts = rendered_spans(message.content) if found else []
    if not found or not (contexts or unreferred):
        return found
    start, parts = 0, []
    for first, last in contexts:
        parts.append(message.content[start:first])
        start = last
    text = "".join((*parts, message.content[start:]))
    for statement in unreferred:
        text = text.replace(statement, " ")
    return refs_in(text)
