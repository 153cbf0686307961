"""The commands about conversations: `memsvc session …`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Role, SessionState
from memsvc.cli.options import given_text
from memsvc.cli.output import local_time, shortened, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client import request_types
    from memsvc.client import sessions as client_sessions
    from memsvc.v1 import session_service_pb2 as session_pb
    from memsvc.v1 import types_pb2 as types_pb

app = typer.Typer(help="Manage conversations.", no_args_is_help=True, rich_markup_mode=None)

Id = Annotated[str, typer.Argument(help="Session id.", metavar="ID")]
OptionalId = Annotated[str, typer.Argument(help="Session id.  [default: a new one]", metavar="ID")]
CONTENT_WIDTH = 100
_ROLES = {1: "system", 2: "user", 3: "assistant", 4: "tool"}
_STATES = {1: "active", 2: "closed", 3: "archived"}


@connected
def create(
    session: CliContext,
    *,
    session_id: OptionalId = "",
    title: Annotated[str, typer.Option(help="Title.")] = "",
    token_limit: Annotated[int, typer.Option(min=0, help="Token limit; 0: that of the service.")] = 0,
    archive_others: Annotated[
        bool | None,
        typer.Option(
            "--archive-others/--keep-others",
            help="Archive the other sessions of the project, or keep them open.  [default: as the service is set]",
        ),
    ] = None,
) -> None:
    """Open a session."""
    with session.client() as client:
        opened = client.create_session(
            session_id,
            title=title,
            token_limit=token_limit,
            on_open=None if archive_others is None else "ARCHIVE_OTHERS" if archive_others else "KEEP_OTHERS",
        )
    _answer(session, opened)


@connected
def append(
    session: CliContext,
    *,
    session_id: Id,
    content: Annotated[str, typer.Argument(help='What was said; "-" reads it from stdin.')],
    role: Annotated[Role, typer.Option(help="Role of the speaker.")] = Role.USER,
    name: Annotated[str, typer.Option(help="Name of the speaker.")] = "",
    pinned: Annotated[bool, typer.Option("--pinned", help="Exempt the message from trimming.")] = False,
) -> None:
    """Append a message."""
    text = given_text(content)
    message: request_types.Message = {
        "role": cast("request_types.Role", role.name),
        "content": text,
        "speaker": name,
        "pinned": pinned,
    }
    with session.client() as client:
        reply = client.append_messages([message], session_id=session_id)
    if session.as_json:
        write_json(reply)
        return
    note = "; full, being trimmed" if reply.trimming else ""
    write(f"{reply.messages[0].ordinal} appended, {reply.token_count} of {reply.token_limit} tokens{note}")


@connected
def show(session: CliContext, *, session_id: Id) -> None:
    """Show a session."""
    with session.client() as client:
        found = client.get_session(session_id)
    if session.as_json:
        write_json(found)
        return
    facts = {
        "id": found.scope.session_id,
        "title": found.title,
        "project": found.scope.project_id,
        "agent": found.scope.agent_id,
        "state": _STATES[found.state],
        "tokens": f"{found.token_count} of {found.token_limit} ({found.usage_ratio:.0%})",
        "messages": str(found.message_count),
        "archived": f"{found.archived_message_count} messages, {found.archived_token_count} tokens",
        "trimmed": f"{found.trim_count} times" if found.trim_count else "",
        "opened": f"{local_time(found.create_time):%Y-%m-%d %H:%M}",
        "ended": f"{local_time(found.end_time):%Y-%m-%d %H:%M}" if found.HasField("end_time") else "",
    }
    for name, value in facts.items():
        if value:
            write(f"{name:<10}{value}")


@connected
def list_sessions(
    session: CliContext,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 20,
    state: Annotated[list[SessionState] | None, typer.Option(help="Only this state. May be repeated.")] = None,
) -> None:
    """List the sessions of the project, newest first."""
    states = [cast("client_sessions.SessionState", each.name) for each in state or ()]
    with session.client() as client:
        found = list(islice(client.list_sessions(states, page_size=min(limit, 1_000)), limit))
    if session.as_json:
        for each in found:
            write_json(each)
        return
    rows = [
        (
            each.scope.session_id,
            _STATES[each.state],
            f"{local_time(each.create_time):%Y-%m-%d %H:%M}",
            str(each.message_count),
            f"{each.usage_ratio:.0%}",
            each.title,
        )
        for each in found
    ]
    write_table(("=id", "=state", "=opened", ">messages", ">full", "~title"), rows)


@connected
def messages(
    session: CliContext,
    *,
    session_id: Id,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number, newest first.")] = 50,
    archived: Annotated[bool, typer.Option("--archived", help="Include trimmed messages.")] = False,
) -> None:
    """Show the messages of a session."""
    with session.client() as client:
        listed = client.list_messages(
            session_id, include_archived=archived, newest_first=True, page_size=min(limit, 1_000)
        )
        found = list(islice(listed, limit))[::-1]
    if session.as_json:
        for each in found:
            write_json(each)
        return
    write_table((">place", "=who", ">tokens", "~content"), [_row(each) for each in found])


@connected
def pop(
    session: CliContext,
    *,
    session_id: Id,
    count: Annotated[int, typer.Option(min=1, max=100, help="Number of messages.")] = 1,
) -> None:
    """Remove the last messages of a session, and show them."""
    with session.client() as client:
        reply = client.pop_messages(count, session_id=session_id)
    if session.as_json:
        write_json(reply)
        return
    write_table((">place", "=who", ">tokens", "~content"), [_row(each) for each in reply.messages])


@connected
def clear(session: CliContext, *, session_id: Id) -> None:
    """Remove all messages of a session, the archived ones too."""
    with session.client() as client:
        reply = client.clear_messages(session_id)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{reply.removed_message_count} messages removed")


@connected
def trim(session: CliContext, *, session_id: Id) -> None:
    """Sum up and archive the oldest messages of a session."""
    with session.client() as client:
        reply = client.trim_session(session_id)
    if session.as_json:
        write_json(reply)
        return
    write(
        f"{reply.archived_message_count} messages ({reply.archived_token_count} tokens) archived, "
        f"{reply.token_count} tokens left"
    )
    if reply.notice:
        write(reply.notice)
    if reply.HasField("summary"):
        write()
        write(reply.summary.content)


@connected
def close(
    session: CliContext,
    *,
    session_id: Id,
    flush: Annotated[
        bool | None,
        typer.Option(
            "--flush/--no-flush",
            help="Extract memories from its messages, or not.  [default: as the service is set]",
        ),
    ] = None,
) -> None:
    """End a session, and list what is remembered of it."""
    with session.client() as client:
        reply = client.close_session(session_id, flush=flush)
    if session.as_json:
        write_json(reply)
        return
    _answer(session, reply.session)
    for result in reply.flush.results:
        write(f"remembered: {shortened(result.memory.content, CONTENT_WIDTH)} ({result.memory.id})")
    if reply.flush.notice:
        write(reply.flush.notice)


@connected
def reopen(session: CliContext, *, session_id: Id) -> None:
    """Reopen a session that was closed or archived."""
    with session.client() as client:
        _answer(session, client.reopen_session(session_id))


def _answer(session: CliContext, found: session_pb.Session) -> None:
    if session.as_json:
        write_json(found)
    else:
        write(f"{found.scope.session_id} {_STATES[found.state]}")


def _row(message: types_pb.ChatMessage) -> tuple[str, str, str, str]:
    who = message.speaker or _ROLES[message.role]
    called = ", ".join(call.name for call in message.tool_calls)
    mark = "(archived) " if message.archived else ""
    content = shortened(f"{mark}{message.content or called}", CONTENT_WIDTH)
    return str(message.ordinal), who, str(message.token_count), content


app.command()(create)
app.command()(append)
app.command()(show)
app.command("list")(list_sessions)
app.command()(messages)
app.command()(pop)
app.command()(clear)
app.command()(trim)
app.command()(close)
app.command()(reopen)
