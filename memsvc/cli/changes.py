"""The commands that change single memories: update, delete, restore, promote."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Kind, Layer
from memsvc.cli.errors import CommandError
from memsvc.cli.output import write, write_json
from memsvc.cli.parsing import given_text, in_utc
from memsvc.cli.user_data import restore_backup

if TYPE_CHECKING:
    from memsvc.client import Changes, request_types

MemoryId = Annotated[str, typer.Argument(help="The memory's id.", metavar="ID")]
Revision = Annotated[int, typer.Option(min=0, help="Only from this revision on; 0: from any.")]


@connected
def update(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    memory_id: MemoryId,
    content: Annotated[str | None, typer.Option(help='The new text; "-" reads it from stdin.')] = None,
    title: Annotated[str | None, typer.Option(help="A short heading.")] = None,
    layer: Annotated[Layer | None, typer.Option(help="How long it is meant to last.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="What it is.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="A label to filter by, in place of all. May be repeated.")
    ] = None,
    importance: Annotated[int | None, typer.Option(min=1, max=5, help="1 (least) to 5 (most).")] = None,
    when: Annotated[datetime | None, typer.Option(help="When it happened, local time.")] = None,
    clear: Annotated[list[str] | None, typer.Option(help="A field to empty, by its name in the API.")] = None,
    revision: Revision = 0,
    conversation: options.Conversation = "",
) -> None:
    """Change what is given of a memory."""
    refuse_unnamed(memory_id)
    changes: Changes = {}
    if content is not None:
        changes["content"] = given_text(content)
    if title is not None:
        changes["title"] = title
    if layer is not None:
        changes["layer"] = cast("request_types.Layer", layer.name)
    if kind is not None:
        changes["kind"] = cast("request_types.Kind", kind.name)
    if tag is not None:
        changes["tags"] = tag
    if importance is not None:
        changes["importance"] = importance
    if when is not None:
        changes["event_time"] = in_utc(when)
    if not (changes or clear):
        message = "Say what to change, such as --content or --title, or what to --clear."
        raise CommandError(message)
    with session.client(conversation=conversation) as client:
        reply = client.update(memory_id, expected_revision=revision, clear=clear or (), **changes)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} updated, revision {reply.memory.revision}")


@connected
def delete(
    session: CliContext,
    *,
    memory_id: MemoryId,
    hard: Annotated[bool, typer.Option("--hard", help="For good; else it can be restored.")] = False,
    revision: Revision = 0,
    conversation: options.Conversation = "",
) -> None:
    """Delete a memory."""
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.delete(memory_id, hard=hard, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} {'removed for good' if hard else 'deleted'}")


@connected
def restore(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="The memory's id, or the folder of a backup.", metavar="ID|BACKUP")],
    revision: Revision = 0,
    conversation: options.Conversation = "",
    data_dir: Annotated[
        Path | None, typer.Option(help="Make this data directory of the backup; it must be empty, or not there yet.")
    ] = None,
) -> None:
    """Bring back a memory, or all of a backup.

    A memory that was deleted or put aside becomes active again. With --data-dir a data directory is made of a backup,
    after verifying it; start a service with it afterwards.
    """
    if data_dir is not None:
        restore_backup(Path(memory_id), data_dir, as_json=session.as_json)
        return
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.restore(memory_id, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} restored, revision {reply.memory.revision}")


def refuse_unnamed(memory_id: str) -> None:
    """Raise CommandError when no memory is named."""
    if not memory_id:
        message = "Name the memory by its ID; `memsvc list` shows it."
        raise CommandError(message)


@connected
def promote(
    session: CliContext,
    *,
    memory_id: MemoryId,
    content: Annotated[str, typer.Argument(help='An edited text; "-" reads it from stdin.')] = "",
    title: Annotated[str, typer.Option(help="A short heading.  [default: as it was]")] = "",
    revision: Revision = 0,
    conversation: options.Conversation = "",
) -> None:
    """Keep a short-term memory for good; what it was is archived."""
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.promote(memory_id, given_text(content), title=title, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{reply.memory.id} promoted from {reply.source.id}")
