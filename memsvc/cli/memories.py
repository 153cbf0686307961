"""The commands that store and show memories: add, get, list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli import options
from memsvc.cli.conflicts import tell_conflicts
from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import ConflictPolicy, Kind, Layer, OnDuplicate, Origin, Recurrence
from memsvc.cli.errors import CommandError
from memsvc.cli.moments import moment_option
from memsvc.cli.offline import restore_backup
from memsvc.cli.options import given_text, in_utc
from memsvc.cli.output import date_of, heading_of, local_time, progress_bar, shortened, write, write_json, write_table
from memsvc.cli.reminders import reminder_field, shown_reminder

if TYPE_CHECKING:
    from memsvc.client import Changes, CommonChanges, Filters, NewMemory, request_types
    from memsvc.v1 import memory_service_pb2 as memory_pb
    from memsvc.v1 import types_pb2 as types_pb


CONTENT_WIDTH = 100


@connected
def add(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    content: Annotated[str, typer.Argument(help='The text, in Markdown; "-" reads it from stdin.')],
    title: Annotated[str, typer.Option(help="Title.")] = "",
    key: Annotated[str, typer.Option(help="Key; adding under an existing key updates that memory.")] = "",
    layer: Annotated[Layer, typer.Option(help="Memory layer.")] = Layer.LONG_TERM,
    kind: Annotated[Kind | None, typer.Option(help="Kind.  [default: fact]")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag. May be repeated.")] = None,
    importance: Annotated[int, typer.Option(min=1, max=5, help="Importance, 1 to 5.")] = 3,
    speaker: Annotated[str, typer.Option(help="Speaker.")] = "",
    source: Annotated[str, typer.Option(help="Source.")] = "",
    origin: Annotated[Origin, typer.Option(help="Class of the source.")] = Origin.USER,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="Withhold the memory for a review.")] = False,
    when: Annotated[datetime | None, moment_option("When it happened, local time.")] = None,
    valid_from: Annotated[datetime | None, moment_option("When it begins to be true, local time.")] = None,
    valid_to: Annotated[datetime | None, moment_option("When it ceases to be true, local time.")] = None,
    remind: Annotated[str, typer.Option(help="Day of a reminder: 2027-05-08, tomorrow; 05-08 every year.")] = "",
    every: Annotated[Recurrence | None, typer.Option(help="The reminder recurs from that day on.")] = None,
    conversation: options.Conversation = "",
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="Action for content that exists already.")
    ] = OnDuplicate.RETURN_EXISTING,
    on_conflict: Annotated[
        ConflictPolicy, typer.Option(help="Action for older memories that it contradicts.")
    ] = ConflictPolicy.MARK,
) -> None:
    """Store a memory."""
    fields: NewMemory = {
        "title": title,
        "key": key,
        "layer": cast("request_types.Layer", layer.name),
        "tags": tag or [],
        "importance": importance,
        "speaker": speaker,
        "source": source,
        "origin": cast("request_types.Origin", origin.name),
    }
    if kind is not None:
        fields["kind"] = cast("request_types.Kind", kind.name)
    if quarantine:
        fields["status"] = "QUARANTINED"
    fields |= _times(when, valid_from, valid_to) | reminder_field(remind, every)
    with session.client(conversation=conversation) as client:
        reply = client.create(
            given_text(content),
            on_duplicate=cast("request_types.OnDuplicate", on_duplicate.name),
            conflict_policy=cast("request_types.ConflictPolicy", on_conflict.name),
            **fields,
        )
    if session.as_json:
        write_json(reply)
        return
    outcome = {1: "created", 2: "updated", 3: "already there"}.get(reply.outcome, "stored")
    write(f"{reply.memory.id} {outcome}")
    tell_conflicts(reply.conflicts)


@connected
def get(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Memory id.", metavar="ID")] = "",
    key: Annotated[str, typer.Option(help="Key instead of the id.")] = "",
    revision: Annotated[int, typer.Option(min=0, help="Revision.  [default: the latest]", show_default=False)] = 0,
    as_of: options.AsOf = None,
    conversation: options.Conversation = "",
) -> None:
    """Show a memory."""
    if bool(memory_id) == bool(key):
        message = "Name the memory by its ID or by --key."
        raise typer.BadParameter(message)
    with session.client(conversation=conversation) as client:
        memory = client.get(memory_id, key=key, revision=revision, as_of=options.as_of(as_of))
    if session.as_json:
        write_json(memory)
    else:
        _show(memory)


def _times(when: datetime | None, valid_from: datetime | None, valid_to: datetime | None) -> NewMemory:
    """Return the times that were given, by their fields."""
    fields: NewMemory = {}
    if when is not None:
        fields["event_time"] = in_utc(when)
    if valid_from is not None:
        fields["valid_from"] = in_utc(valid_from)
    if valid_to is not None:
        fields["valid_to"] = in_utc(valid_to)
    return fields


def _show(memory: types_pb.Memory) -> None:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    facts = {
        "id": memory.id,
        "key": memory.key,
        "title": memory.title,
        "layer": types_pb.MemoryLayer.Name(memory.layer).removeprefix("MEMORY_LAYER_").lower(),
        "kind": types_pb.MemoryKind.Name(memory.kind).removeprefix("MEMORY_KIND_").lower(),
        "status": types_pb.MemoryStatus.Name(memory.status).removeprefix("MEMORY_STATUS_").lower(),
        "speaker": memory.speaker,
        "project": memory.scope.project_id,
        "session": memory.scope.session_id,
        "tags": ", ".join(memory.tags),
        "importance": str(memory.importance),
        "happened": f"{local_time(memory.event_time):%Y-%m-%d %H:%M}" if memory.HasField("event_time") else "",
        "stored": f"{local_time(memory.create_time):%Y-%m-%d %H:%M}",
        "expires": f"{local_time(memory.expire_time):%Y-%m-%d %H:%M}" if memory.HasField("expire_time") else "",
        "true from": f"{local_time(memory.valid_from):%Y-%m-%d %H:%M}" if memory.HasField("valid_from") else "",
        "true until": f"{local_time(memory.valid_to):%Y-%m-%d %H:%M}" if memory.HasField("valid_to") else "",
        "reminds": shown_reminder(memory),
        "source": memory.source,
        "origin": types_pb.MemoryOrigin.Name(memory.origin).removeprefix("MEMORY_ORIGIN_").lower(),
        "trust": f"{memory.trust:g}",
        "revision": str(memory.revision),
    }
    for name, value in facts.items():
        if value:
            write(f"{name:<11}{value}")
    write()
    write(memory.content)


@connected
def list_memories(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 20,
    order: Annotated[str, typer.Option(help='A time, importance or access_count, then "asc" or "desc".')] = "",
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    last_days: options.LastDays = 0,
    min_importance: options.MinImportance = 0,
    key_prefix: options.KeyPrefix = "",
    number: options.Numbers = None,
    as_of: options.AsOf = None,
    conversation: options.Conversation = "",
) -> None:
    """List memories, newest first.

    With --json one to a line, as `memsvc import` reads them.
    """
    wanted = options.filters(layer, kind, tag, last_days, min_importance, key_prefix=key_prefix, numbers=number)
    with session.client(conversation=conversation) as client:
        found = client.list(wanted, order_by=order, page_size=min(limit, 1_000), as_of=options.as_of(as_of))
        if session.as_json:
            for memory in islice(found, limit):
                write_json(memory)
            return
        rows = [_row(memory) for memory in islice(found, limit)]
    write_table(("=id", "=date", "~content"), rows)


def _row(memory: types_pb.Memory) -> tuple[str, str, str]:
    who = f"{memory.speaker}: " if memory.speaker else ""
    return memory.id, date_of(memory), shortened(f"{who}{heading_of(memory)}{memory.content}", CONTENT_WIDTH)


# The commands that change single memories: update, delete, restore, promote.


MemoryId = Annotated[str, typer.Argument(help="Memory id.", metavar="ID")]
Revision = Annotated[int, typer.Option(min=0, help="Expected revision; 0: any.")]


@connected
def update(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    memory_id: MemoryId,
    content: Annotated[str | None, typer.Option(help='The new text; "-" reads it from stdin.')] = None,
    title: Annotated[str | None, typer.Option(help="Title.")] = None,
    layer: Annotated[Layer | None, typer.Option(help="Memory layer.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Kind.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag; replaces all tags. May be repeated.")] = None,
    importance: Annotated[int | None, typer.Option(min=1, max=5, help="Importance, 1 to 5.")] = None,
    when: Annotated[datetime | None, moment_option("When it happened, local time.")] = None,
    clear: Annotated[list[str] | None, typer.Option(help="Field to clear, by its name in the API.")] = None,
    revision: Revision = 0,
    conversation: options.Conversation = "",
) -> None:
    """Change the given fields of a memory."""
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
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the memory for good; otherwise it can be restored.")
    ] = False,
    revision: Revision = 0,
    conversation: options.Conversation = "",
) -> None:
    """Delete a memory."""
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.delete(memory_id, purge=purge, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{memory_id} {'removed for good' if purge else 'deleted'}")


@connected
def restore(
    session: CliContext,
    *,
    memory_id: Annotated[str, typer.Argument(help="Memory id, or the folder of a backup.", metavar="ID|BACKUP")],
    revision: Revision = 0,
    conversation: options.Conversation = "",
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory to restore the backup into; it must be empty or not exist.")
    ] = None,
) -> None:
    """Restore a memory, or a whole backup.

    A memory that was deleted or archived becomes active again. With --data-dir the command verifies a backup and makes
    a data directory of it; start a service with that directory afterwards.
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
    title: Annotated[str, typer.Option(help="Title.  [default: unchanged]")] = "",
    revision: Revision = 0,
    conversation: options.Conversation = "",
) -> None:
    """Make a short-term memory a long-term one.

    The short-term memory is archived.
    """
    refuse_unnamed(memory_id)
    with session.client(conversation=conversation) as client:
        reply = client.promote(memory_id, given_text(content), title=title, expected_revision=revision)
    if session.as_json:
        write_json(reply)
    else:
        write(f"{reply.memory.id} promoted from {reply.source.id}")


# The commands that change many memories: delete-matching, update-matching.


Yes = Annotated[bool, typer.Option("--yes", help="Make the change at once; otherwise it is only previewed.")]
Seen = Annotated[str, typer.Option("--token", help="Make the change that a preview with this token showed.")]
Category = Annotated[list[str] | None, typer.Option("--category", help="Only of this category. May be repeated.")]


def _require_filter(wanted: Filters, *, yes: bool) -> None:
    """Refuse a change of every memory without a preview.

    Raises:
        CommandError: No filter is given, but --yes is.
    """
    if yes and not any(wanted.values()):
        message = (
            "Without a filter the command matches every memory. Name a filter, such as --tag or --key-prefix, or leave "
            "out --yes: the preview shows a token for exactly its memories."
        )
        raise CommandError(message)


@connected
def delete_matching(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    category: Category = None,
    last_days: options.LastDays = 0,
    min_importance: options.MinImportance = 0,
    key_prefix: options.KeyPrefix = "",
    number: options.Numbers = None,
    yes: Yes = False,
    token: Seen = "",
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the memories for good; otherwise they can be restored.")
    ] = False,
    conversation: options.Conversation = "",
) -> None:
    """Delete the memories that match a filter.

    `memsvc restore` restores each of them, unless they were deleted with --purge.

    Without --yes or --token nothing is deleted: the command shows a preview, and a token for exactly its memories.
    --yes needs a filter.
    """
    wanted = options.filters(layer, kind, tag, last_days, min_importance, key_prefix=key_prefix, numbers=number) | {
        "categories": category or []
    }
    _require_filter(wanted, yes=yes)
    with session.client(conversation=conversation) as client:
        done = "removed for good" if purge else "deleted"
        _change_matching(session, partial(client.delete_memories, wanted, purge=purge), done, token, yes=yes)


@connected
def update_matching(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    layer: options.Layers = None,
    kind: options.Kinds = None,
    tag: options.Tags = None,
    category: Category = None,
    last_days: options.LastDays = 0,
    min_importance: options.MinImportance = 0,
    key_prefix: options.KeyPrefix = "",
    number: options.Numbers = None,
    set_importance: Annotated[int | None, typer.Option(min=1, max=5, help="New importance, 1 to 5.")] = None,
    set_category: Annotated[str | None, typer.Option(help="New category.")] = None,
    set_layer: Annotated[Layer | None, typer.Option(help="New memory layer.")] = None,
    add_tag: Annotated[list[str] | None, typer.Option(help="Tag to add. May be repeated.")] = None,
    remove_tag: Annotated[list[str] | None, typer.Option(help="Tag to remove. May be repeated.")] = None,
    clear: Annotated[list[str] | None, typer.Option(help="Field to clear, by its name in the API.")] = None,
    yes: Yes = False,
    token: Seen = "",
    conversation: options.Conversation = "",
) -> None:
    """Change fields of the memories that match a filter.

    `memsvc rollback` undoes it for each memory.

    Without --yes or --token nothing is changed, as in `memsvc delete-matching`.
    """
    wanted = options.filters(layer, kind, tag, last_days, min_importance, key_prefix=key_prefix, numbers=number) | {
        "categories": category or []
    }
    _require_filter(wanted, yes=yes)
    changes: CommonChanges = {}
    if set_importance is not None:
        changes["importance"] = set_importance
    if set_category is not None:
        changes["category"] = set_category
    if set_layer is not None:
        changes["layer"] = cast("request_types.Layer", set_layer.name)
    if not (changes or add_tag or remove_tag or clear):
        message = "Say what to change, such as --set-importance or --add-tag, or what to --clear."
        raise CommandError(message)
    with session.client(conversation=conversation) as client:
        change = partial(
            client.update_memories,
            wanted,
            add_tags=add_tag or (),
            remove_tags=remove_tag or (),
            clear=clear or (),
            **changes,
        )
        _change_matching(session, change, "changed", token, yes=yes)


def _change_matching(
    session: CliContext,
    change: Callable[..., Iterator[memory_pb.DeleteMemoriesResponse | memory_pb.UpdateMemoriesResponse]],
    done: str,
    token: str,
    *,
    yes: bool,
) -> None:
    if not token:
        preview = next(iter(change())).preview
        if not yes:
            _show_preview(session, preview, done)
            return
        token = preview.selection_token
    with progress_bar(done, shown=not session.as_json) as bar:
        for response in change(selection_token=token):
            if session.as_json:
                write_json(response)
            elif response.HasField("progress"):
                bar(response.progress.done_count, response.progress.total_count or None, "")
            else:
                summary = response.summary
    if session.as_json:
        return
    write(f"{summary.changed_count} {done}, {summary.unchanged_count} as they were, {summary.failed_count} failed")
    for failure in summary.failures:
        write(f"{failure.memory_id}: {failure.status.message}")


def _show_preview(session: CliContext, preview: memory_pb.SelectionPreview, done: str) -> None:
    if session.as_json:
        write_json(preview)
        return
    if not preview.matched_count:
        write(f"No memory matches; none would be {done}. `memsvc list` takes the same filters.")
        return
    write_table(("=id", "=date", "~content"), [_row(memory) for memory in preview.sample])
    write(f"{preview.matched_count} memories would be {done}. Repeat the command with --yes, or for exactly these with")
    write(f"--token {preview.selection_token}")
