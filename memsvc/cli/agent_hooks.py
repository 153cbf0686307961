"""The command hook: what a coding agent runs at events of a session, to recall memories and to keep what was said."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import HookAgent
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.moments import in_machine_zone
from memsvc.cli.output import write, write_json_value

if TYPE_CHECKING:
    from memsvc.client import Memsvc
    from memsvc.client.request_types import Filters, Section
    from memsvc.v1 import session_service_pb2 as session_pb
    from memsvc.v1 import types_pb2 as types_pb

TIMEOUT_SECONDS = 10.0
"""A coding agent waits for its hooks."""
START_TOKENS = 1_500
PROMPT_TOKENS = 800
MOST_QUERY_CHARS = 8_192
MOST_ID_CHARS = 128
BATCH = 100
BATCH_BYTES = 2_000_000
"""The size of the texts at which a batch ends; a call holds 16 MiB."""
_PAGE = 1_000
MESSAGE_CHARS = 100_000
"""Longer messages are cut, as those that hold a whole file."""
_RECALLED: Sequence[Section] = ("LONG_TERM", "SHORT_TERM", "GLOBAL", "EVIDENCE")
"""Sections for a prompt: core memories are given at the start of the session."""
_RECALLED_EACH_TURN: Sequence[Section] = ("GLOBAL_CORE", "PROJECT_CORE", *_RECALLED)
"""Sections for a prompt of an agent that has no event for the start of a session."""
_KEPT = frozenset({"Stop", "PreCompact", "SessionEnd"})
_MARKUP = (
    "<command-", "<local-command-", "<system-reminder>", "<bash-input>", "<bash-stdout>", "<bash-stderr>", "<ide_",
    "<task-notification>", "[Request interrupted", "Caveat: The messages below",
)  # fmt: skip
"""Beginnings of parts of a user's message that a person did not write."""
_SYNTHETIC = "<synthetic>"
"""The model of answers that the agent itself wrote, such as "No response requested."."""
_ATTEMPTS = 5
"""Times that a hook tries while hooks of other terminals change the same session."""
_OVERTAKEN = frozenset({"REQUEST_ID_REUSED", "SESSION_EXISTS", "SESSION_NOT_ACTIVE"})
"""Reasons of failures by which another hook was faster."""
_UNSAID = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
"""Fields of lines that neither the user nor the agent said: notices, subagents, summaries, errors."""


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
    name = _field(event, "hook_event_name")
    try:
        conversation = _session_id(agent, event)
        with session.client(timeout=TIMEOUT_SECONDS, conversation=conversation) as client:
            prompt = _field(event, "prompt")
            if name == "SessionStart":
                _tell(agent, name, _recall(client, "", START_TOKENS, ()))
            elif name == "UserPromptSubmit" and prompt.strip():
                sections = _RECALLED if agent is HookAgent.CLAUDE_CODE else _RECALLED_EACH_TURN
                _tell(agent, name, _recall(client, prompt, PROMPT_TOKENS, sections, without=conversation))
            elif name in _KEPT:
                _keep(client, conversation, _turns(event), is_transcript="messages" not in event)
    except MemsvcCallError as error:
        # What was not kept now is kept at the next event: the service knows the last message that it has.
        print_error(f"memsvc: {error}")


def _event() -> Mapping[str, Any]:
    try:
        event = json.loads(sys.stdin.read())
    except (ValueError, RecursionError) as error:
        message = "The command hook reads the event of a coding agent as JSON from stdin."
        raise CommandError(message) from error
    if not isinstance(event, Mapping):
        message = "The event must be a JSON object."
        raise CommandError(message)
    return event


def _session_id(agent: HookAgent, event: Mapping[str, Any]) -> str:
    named = _field(event, "session_id")
    return _fitting(f"{agent}-{named}") if named else ""


def _fitting(name: str) -> str:
    """Return an id of at most `MOST_ID_CHARS` characters: a longer one with a digest in place of its end."""
    if len(name) <= MOST_ID_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[: MOST_ID_CHARS - len(digest) - 1]}-{digest}"


def _field(fields: Mapping[str, Any], name: str) -> str:
    """Return a field as a text; empty if it is missing or neither a text nor a whole number."""
    value = fields.get(name)
    return _valid(str(value)) if isinstance(value, str | int) else ""


def _valid(text: str) -> str:
    """Return a text with "?" in place of what the service refuses: halves of surrogate pairs, and NUL.

    Agents in JavaScript write a half where they cut a text within an emoji.
    """
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


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
    found = in_machine_zone(
        lambda zone: client.render_context(
            query[:MOST_QUERY_CHARS], total_tokens=tokens, sections=sections, filters=filters, time_zone=zone
        )
    )
    is_irrelevant = any(one.code == types_pb.WARNING_CODE_NOTHING_RELEVANT for one in found.warnings)
    if not found.citations or (query and is_irrelevant and "GLOBAL_CORE" not in sections):
        return ""
    return f"From memory (memsvc):\n\n{found.markdown.rstrip()}"


def _tell(agent: HookAgent, event: str, context: str) -> None:
    """Write a context, unless it is empty, in the form that the agent reads."""
    if context and agent is HookAgent.CLAUDE_CODE:
        output = {"hookEventName": event, "additionalContext": context}
        write_json_value({"hookSpecificOutput": output})
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
    named = _field(event, "transcript_path")
    try:
        path = Path(named).expanduser()
        # Not splitlines, which also splits at separators that JSON texts contain as they are.
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"The transcript {named!r} cannot be read: {reason}."
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
        _Turn(_field(one, "id"), _field(one, "role"), _text(one.get("text")), _field(one, "time")) for one in messages
    ]
    if not all(turn.id and turn.role in {"user", "assistant"} for turn in turns):
        raise CommandError(wrong)
    return [replace(turn, text=turn.text[:MESSAGE_CHARS]) for turn in turns if turn.text]


def _said(lines: list[str]) -> Iterator[_Turn]:
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, Mapping) or any(entry.get(name) for name in _UNSAID):
            continue
        message = entry.get("message")
        if not isinstance(message, Mapping) or message.get("model") == _SYNTHETIC:
            continue
        role, uuid = _field(entry, "type"), _field(entry, "uuid")
        text = _text(message.get("content"), without=_MARKUP if role == "user" else ())
        if role in {"user", "assistant"} and text and uuid:
            yield _Turn(uuid, role, text[:MESSAGE_CHARS], _field(entry, "timestamp"))


def _text(content: Any, *, without: tuple[str, ...] = ()) -> str:
    """Return the text of a message, without its parts that begin as *without*; images and tools have none."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [one.get("text") for one in parts if isinstance(one, Mapping) and one.get("type") == "text"]
    said = [text for text in texts if isinstance(text, str) and not text.lstrip().startswith(without)]
    return _valid("\n\n".join(said)).strip()


def _keep(client: Memsvc, conversation: str, turns: list[_Turn], *, is_transcript: bool) -> None:
    """Append what the session does not have yet, and extract memories from it; each message is kept once.

    A transcript has the whole conversation, also what was kept before. It returns when the next prompt, which may
    follow at once in another session, finds the messages.
    """
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    taken = ""
    for attempt in range(_ATTEMPTS):
        last = _last(client)
        new = _new(client, turns, last, is_transcript=is_transcript)
        if not new:
            _close_interrupted(client, last)
            return
        place = str(last.ordinal if last is not None else 0)
        try:
            _append_all(client, conversation, new, f"{place}-{uuid4()}" if place == taken else place)
        except MemsvcCallError as error:
            if error.reason not in _OVERTAKEN or attempt == _ATTEMPTS - 1:
                raise
            # The place of a removed message is free again, but its request id is not.
            taken = place if error.reason == "REQUEST_ID_REUSED" else ""
        else:
            return


def _append_all(client: Memsvc, conversation: str, new: list[_Turn], place: str) -> None:
    """Append messages after the *place* of the last one, and close the session.

    Of two hooks that append at the same place one is refused, because the place makes the id of the request.
    """
    session = _open(client, conversation)
    opened = f"{conversation}-{session.create_time.ToMicroseconds()}"
    for batch in _batches(new):
        place = _append(client, batch, _fitting(f"{opened}-{place}"), session.token_limit)
    client.close_session(flush=True, wait_for="INDEXED")


def _append(client: Memsvc, batch: list[_Turn], request_id: str, limit: int) -> str:
    """Append messages, and return the place of the last one.

    One with more tokens than the session's *limit* is cut to as many bytes, which are no fewer.
    """
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        appended = client.append_messages([_message(turn) for turn in batch], request_id=request_id)
    except MemsvcCallError as error:
        refused = {violation.field for violation in error.violations}
        cut = [
            replace(turn, text=turn.text.encode()[:limit].decode("utf-8", "ignore"))
            if f"messages[{place}].content" in refused
            else turn
            for place, turn in enumerate(batch)
        ]
        if cut == batch:
            raise
        appended = client.append_messages([_message(turn) for turn in cut], request_id=request_id)
    return str(appended.messages[-1].ordinal)


def _batches(turns: list[_Turn]) -> Iterator[list[_Turn]]:
    """Yield the messages in batches that a call can hold."""
    batch: list[_Turn] = []
    size = 0
    for turn in turns:
        added = len(turn.text.encode())
        if batch and (len(batch) == BATCH or size + added > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(turn)
        size += added
    yield batch


def _close_interrupted(client: Memsvc, last: types_pb.ChatMessage | None) -> None:
    """Close a session that an earlier hook left open, or without the memories of its last message."""
    from memsvc.v1 import session_service_pb2 as session_pb  # noqa: PLC0415 - a quick start

    if last is None:
        return
    session = client.get_session()
    if session.state == session_pb.SESSION_STATE_ACTIVE or session.flushed_ordinal < last.ordinal:
        client.close_session(flush=True, wait_for="INDEXED")


def _last(client: Memsvc) -> types_pb.ChatMessage | None:
    """Return the last message that the session has; None without a session or a message."""
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        return next(client.list_messages(newest_first=True, include_archived=True, page_size=1), None)
    except MemsvcCallError as error:
        if error.reason != "SESSION_NOT_FOUND":
            raise
    return None


def _uuid(message: types_pb.ChatMessage) -> str:
    """Return the id that the agent gave a message."""
    return str(dict(message.metadata).get("uuid", ""))


def _new(client: Memsvc, turns: list[_Turn], last: types_pb.ChatMessage | None, *, is_transcript: bool) -> list[_Turn]:
    """Return the turns that the session, whose last message is *last*, does not have.

    Those after the last one; in a transcript that was rewritten without it, those of no message of the session.
    """
    if last is None or not turns:
        return turns
    places = [place for place, turn in enumerate(turns) if turn.id == _uuid(last)]
    if places or not is_transcript:
        return turns[places[-1] + 1 :] if places else turns
    kept = {_uuid(one) for one in client.list_messages(include_archived=True, page_size=_PAGE)}
    return [turn for turn in turns if turn.id not in kept]


def _open(client: Memsvc, conversation: str) -> session_pb.Session:
    """Open the session, which the end of the last turn closed."""
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        return client.reopen_session()
    except MemsvcCallError as error:
        if error.reason != "SESSION_NOT_FOUND":
            raise
    return client.create_session(conversation)


def _message(turn: _Turn) -> types_pb.ChatMessage:
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    role = types_pb.MESSAGE_ROLE_USER if turn.role == "user" else types_pb.MESSAGE_ROLE_ASSISTANT
    message = types_pb.ChatMessage(role=role, content=turn.text)
    message.metadata["uuid"] = turn.id
    try:
        message.event_time.FromDatetime(datetime.fromisoformat(turn.time))
    except (ValueError, OverflowError):
        message.ClearField("event_time")
    return message
