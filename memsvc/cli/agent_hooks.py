"""The command hook: what a coding agent runs at events of a session, to recall memories and to keep what was said."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import HookAgent
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.output import write

if TYPE_CHECKING:
    from memsvc.client import Memsvc
    from memsvc.client.request_types import Filters, Section
    from memsvc.v1 import types_pb2 as types_pb

TIMEOUT_SECONDS = 10.0
"""A coding agent waits for its hooks."""
START_TOKENS = 1_500
PROMPT_TOKENS = 800
MOST_QUERY_CHARS = 8_192
BATCH = 100
MESSAGE_CHARS = 100_000
"""Longer messages are cut, as those that hold a whole file."""
_RECALLED: Sequence[Section] = ("LONG_TERM", "SHORT_TERM", "GLOBAL", "EVIDENCE")
"""Sections for a prompt: core memories are given at the start of the session."""
_RECALLED_EACH_TURN: Sequence[Section] = ("GLOBAL_CORE", "PROJECT_CORE", *_RECALLED)
"""Sections for a prompt of an agent that has no event for the start of a session."""
_KEPT = frozenset({"Stop", "PreCompact", "SessionEnd"})
_MARKUP = ("<command-", "<local-command-", "<system-reminder>", "Caveat: ")
"""Beginnings of messages that a person did not write."""


@connected
def hook(
    session: CliContext,
    *,
    agent: Annotated[HookAgent, typer.Argument(help="The coding agent that runs this command.")],
) -> None:
    """Handle an event of a coding agent.

    The event is JSON on stdin. `memsvc setup` configures the command.

    At the start of a session and at each prompt it writes memories for the agent; at the end of a turn, before
    a compaction and at the end of the session it keeps what was said. A failure never stops the agent.
    """
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    event = _event()
    name = str(event.get("hook_event_name", ""))
    try:
        conversation = _session_id(agent, event)
        with session.client(timeout=TIMEOUT_SECONDS, conversation=conversation) as client:
            prompt = str(event.get("prompt", ""))
            if name == "SessionStart":
                _tell(agent, name, _recall(client, "", START_TOKENS, ()))
            elif name == "UserPromptSubmit" and prompt.strip():
                sections = _RECALLED if agent is HookAgent.CLAUDE_CODE else _RECALLED_EACH_TURN
                _tell(agent, name, _recall(client, prompt, PROMPT_TOKENS, sections, without=conversation))
            elif name in _KEPT:
                _keep(client, conversation, _turns(event))
    except MemsvcCallError as error:
        # What was not kept now is kept at the next event: the service knows the last message that it has.
        print_error(f"memsvc: {error}")


def _event() -> Mapping[str, Any]:
    try:
        event = json.loads(sys.stdin.read())
    except ValueError as error:
        message = "The command hook reads the event of a coding agent as JSON from stdin."
        raise CommandError(message) from error
    if not isinstance(event, Mapping):
        message = "The event must be a JSON object."
        raise CommandError(message)
    return event


def _session_id(agent: HookAgent, event: Mapping[str, Any]) -> str:
    named = str(event.get("session_id", ""))
    return f"{agent}-{named}"[:128] if named else ""


def _recall(client: Memsvc, query: str, tokens: int, sections: Sequence[Section], *, without: str = "") -> str:
    """Return a context for the agent; empty if there is none.

    Messages of the conversation *without*, which the agent has, are left out. It is also empty if nothing is relevant
    to the query, unless the sections have core memories.
    """
    from memsvc.v1 import filters_pb2 as filters_pb  # noqa: PLC0415 - a quick start
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415

    filters: Filters = {}
    if without:
        condition = filters_pb.FilterCondition(
            field=filters_pb.FILTER_FIELD_SESSION_ID, operator=filters_pb.FILTER_OPERATOR_NOT_EQUALS
        )
        condition.values.add().string_value = without
        filters = {"where": filters_pb.FilterExpression(condition=condition)}
    found = client.render_context(query[:MOST_QUERY_CHARS], total_tokens=tokens, sections=sections, filters=filters)
    is_irrelevant = any(one.code == types_pb.WARNING_CODE_NOTHING_RELEVANT for one in found.warnings)
    if not found.citations or (query and is_irrelevant and "GLOBAL_CORE" not in sections):
        return ""
    return f"From memory (memsvc):\n\n{found.markdown.rstrip()}"


def _tell(agent: HookAgent, event: str, context: str) -> None:
    """Write a context, unless it is empty, in the form that the agent reads."""
    if context and agent is HookAgent.CLAUDE_CODE:
        output = {"hookEventName": event, "additionalContext": context}
        write(json.dumps({"hookSpecificOutput": output}, ensure_ascii=False))
    elif context:
        write(context)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A message of the transcript."""

    id: str
    role: str
    text: str
    time: str


def _turns(event: Mapping[str, Any]) -> list[_Turn]:
    """Return what the person and the agent said, in order, from the event or the transcript that it names."""
    if "messages" in event:
        return _given(event["messages"])
    path = Path(str(event.get("transcript_path") or "")).expanduser()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    except OSError as error:
        message = f"The transcript {str(path)!r} cannot be read: {error.strerror}."
        raise CommandError(message) from error
    return list(_said(lines))


def _given(messages: Any) -> list[_Turn]:
    """Return the messages of an event: each has an id, a role and a text.

    Raises:
        CommandError: They have another form.
    """
    wrong = "The messages of the event must be a list of objects with id, role and text."
    if not isinstance(messages, list) or not all(isinstance(one, Mapping) for one in messages):
        raise CommandError(wrong)
    turns = [
        _Turn(str(one.get("id", "")), str(one.get("role", "")), _text(one.get("text", "")), str(one.get("time", "")))
        for one in messages
    ]
    if not all(turn.id and turn.role in {"user", "assistant"} for turn in turns):
        raise CommandError(wrong)
    return [replace(turn, text=turn.text[:MESSAGE_CHARS]) for turn in turns if turn.text]


def _said(lines: list[str]) -> Iterator[_Turn]:
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, Mapping) or entry.get("isMeta") or entry.get("isSidechain"):
            continue
        message = entry.get("message")
        role, text = str(entry.get("type", "")), _text(message.get("content") if isinstance(message, Mapping) else "")
        if role in {"user", "assistant"} and text and not text.startswith(_MARKUP) and entry.get("uuid"):
            yield _Turn(str(entry["uuid"]), role, text[:MESSAGE_CHARS], str(entry.get("timestamp", "")))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    texts = [one.get("text") for one in blocks if isinstance(one, Mapping) and one.get("type") == "text"]
    return "\n\n".join(text for text in texts if isinstance(text, str)).strip()


def _keep(client: Memsvc, conversation: str, turns: list[_Turn]) -> None:
    """Append what the session does not have yet, and extract memories from it; each message is kept once."""
    new = _after(turns, _last(client))
    if not new:
        return
    _open(client, conversation)
    for start in range(0, len(new), BATCH):
        batch = new[start : start + BATCH]
        client.append_messages(
            [_message(turn) for turn in batch], request_id=f"{batch[0].id}-{len(batch)}-{batch[-1].id}"[:128]
        )
    client.close_session(flush=True)


def _last(client: Memsvc) -> str:
    """Return the id of the last message that the session has; empty without a session or a message."""
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        for message in client.list_messages(newest_first=True, include_archived=True, page_size=1):
            return str(dict(message.metadata).get("uuid", ""))
    except MemsvcCallError as error:
        if error.reason != "SESSION_NOT_FOUND":
            raise
    return ""


def _after(turns: list[_Turn], last: str) -> list[_Turn]:
    """Return the turns after the one of the id *last*; all of them if it is not among them."""
    places = [place for place, turn in enumerate(turns) if turn.id == last]
    return turns[places[-1] + 1 :] if places else turns


def _open(client: Memsvc, conversation: str) -> None:
    """Open the session, which the end of the last turn closed."""
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        client.reopen_session()
    except MemsvcCallError as error:
        if error.reason == "SESSION_NOT_FOUND":
            client.create_session(conversation)
        else:
            raise


def _message(turn: _Turn) -> types_pb.ChatMessage:
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    role = types_pb.MESSAGE_ROLE_USER if turn.role == "user" else types_pb.MESSAGE_ROLE_ASSISTANT
    message = types_pb.ChatMessage(role=role, content=turn.text)
    message.metadata["uuid"] = turn.id
    try:
        message.event_time.FromDatetime(datetime.fromisoformat(turn.time))
    except ValueError:
        message.ClearField("event_time")
    return message
