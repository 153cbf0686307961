"""The commands about all data of a user or of all users: export, import-user, erase, backup."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import FAILED, CommandError, print_error
from memsvc.cli.options import STDIN
from memsvc.cli.output import progress_bar, write, write_json, write_json_value, write_table
from memsvc.domain.user_data import FORMAT

if TYPE_CHECKING:
    from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb

PIECE_BYTES = 256 * 1024
SHOWN_ISSUES = 20
PART = ".part"


OTHER_FORMATS = frozenset(
    {".csv", ".db", ".doc", ".docx", ".gz", ".html", ".markdown", ".md", ".parquet", ".pdf", ".sql", ".sqlite", ".toml"}
    | {".tsv", ".txt", ".xls", ".xlsx", ".xml", ".yaml", ".yml", ".zip"}
)
"""File name extensions that promise another format than JSON Lines."""

_of_whole_user = partial(connected, without=("project",))
"""Give a command the options of a connection but for the project: it is about all of a user."""


def _require_no_project(what: str) -> None:
    """Refuse a project of the environment: *what* the command does must not be mistaken for less.

    Raises:
        CommandError: MEMSVC_PROJECT is set.
    """
    if os.environ.get("MEMSVC_PROJECT"):
        message = f"A user is {what} whole, with all projects: unset MEMSVC_PROJECT. Nothing was done."
        raise CommandError(message)


@_of_whole_user
def export(
    session: CliContext,
    *,
    file: Annotated[str, typer.Argument(help='The file to write, or "-" for stdout.', metavar="FILE")] = STDIN,
    vectors: Annotated[bool, typer.Option("--vectors", help="Include embeddings; an import is then fast.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Export all data of a user to a file.

    JSON Lines: memories of all projects with their revisions, sessions, conflicts, checkpoints. `memsvc import-user`
    imports it, here or elsewhere.

    Exits with 1 for a user who has no data; an existing file is not overwritten then.
    """
    _require_no_project("exported")
    if Path(file).suffix.lower() in OTHER_FORMATS:
        message = f"An export is JSON Lines: name the file {str(Path(file).with_suffix('.jsonl'))!r}, not {file!r}."
        raise CommandError(message)
    if file != STDIN and Path(file).is_dir():
        message = f"{file!r} is a folder: name a file in it, such as {str(Path(file) / f'{session.user}.jsonl')!r}."
        raise CommandError(message)
    if file != STDIN and not Path(file).parent.is_dir():
        message = f"There is no folder {str(Path(file).parent)!r}: make it, or name another file."
        raise CommandError(message)
    if file != STDIN and Path(file).exists() and not force:
        message = f"There is a {file!r} already; say --force to overwrite it."
        raise CommandError(message)
    records = size = 0
    with session.client() as client, _written(file) as out, progress_bar("export") as bar:
        held: list[bytes] = []
        for piece in client.export_user(include_vectors=vectors):
            held.append(piece.data)
            records, size = piece.record_count, size + len(piece.data)
            if records:
                out.writelines(held)
                held.clear()
            bar(records, piece.total_count, f"{size / 1e6:,.1f} MB")
        if not records:
            message = (
                f"The user {session.user!r} has no data here; nothing was written. Name another one with --user; "
                "`memsvc usage users` lists those who have memories."
            )
            raise CommandError(message)
    line = f"{records:,} records, {size:,} bytes"
    if file == STDIN:
        print_error(f"memsvc: {line}")
    elif session.as_json:
        write_json_value({"record_count": records, "bytes": size})
    else:
        write(line)


@contextmanager
def _written(file: str) -> Iterator[IO[bytes]]:
    """Give a file to write, which is there under its name only when it is whole, and readable by its owner alone."""
    if file == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{file}{PART}")
    try:
        with part.open("wb") as out:
            part.chmod(0o600)
            yield out
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


@_of_whole_user
def import_user(
    session: CliContext,
    *,
    file: Annotated[str, typer.Argument(help='What `memsvc export` wrote, or "-" for stdin.', metavar="FILE")],
    wait: Annotated[bool, typer.Option("--wait", help="Return when searches find everything.")] = False,
) -> None:
    """Import what `memsvc export` wrote.

    The same file may be imported again, for instance after an interruption: existing records are skipped. All records
    go to --user, whichever user was exported.
    """
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    _require_no_project("imported")
    last: lifecycle_pb.ImportUserResponse | None = None
    shown = 0
    try:
        with (
            session.client() as client,
            progress_bar("import", shown=not session.as_json) as bar,
            _read(file) as pieces,
        ):
            for last in client.import_user(pieces, wait_for="INDEXED" if wait else "STORED"):
                done = sum(last.stored_counts.values()) + last.unchanged_count + last.skipped_count
                bar(done, last.total_count or None, f"{last.records_per_second:,.0f}/s")
                for issue in last.issues[: SHOWN_ISSUES - shown]:
                    print_error(f"memsvc: line {issue.line}: {issue.kind} {issue.id}: {issue.message}")
                    shown += 1
    except MemsvcCallError as error:
        faults = [(_LINE.match(each.field), each.description) for each in error.violations]
        if named := [_fault(place, said, file) for place, said in faults if place]:
            raise CommandError("; ".join(named)) from error
        raise
    if last is None:
        return
    if session.as_json:
        write_json(last)
    else:
        stored = ", ".join(f"{count:,} {kind}" for kind, count in sorted(last.stored_counts.items())) or "nothing new"
        write(
            f"{stored}; {last.unchanged_count:,} already there, {last.skipped_count:,} left out"
            f" ({last.records_per_second:,.0f} a second)"
        )
    if last.skipped_count:
        raise typer.Exit(FAILED)


_LINE = re.compile(r"data\.lines\[(?P<number>\d+)\]\.?(?P<field>.*)")


def _fault(place: re.Match[str], description: str, file: str) -> str:
    name = "stdin" if file == STDIN else Path(file).name
    field = f"{place['field']}: " if place["field"] else "it "
    return f"Line {place['number']} of {name} cannot be imported: {field}{description}."


@contextmanager
def _read(file: str) -> Iterator[Iterator[bytes]]:
    """Yield the pieces of an export.

    Raises:
        CommandError: There is no such file, or its first line shows that it is no export of a user.
    """
    if file == STDIN:
        yield _pieces(sys.stdin.buffer, "stdin")
        return
    if not Path(file).is_file():
        message = f"There is no file {file!r}."
        raise CommandError(message)
    with Path(file).open("rb") as source:
        yield _pieces(source, repr(file))


def _pieces(source: IO[bytes], name: str) -> Iterator[bytes]:
    first = source.read(PIECE_BYTES)
    if first and FORMAT.encode() not in first.partition(b"\n")[0]:
        message = f"{name} is no export of a user; `memsvc import` takes JSON Lines, Markdown and other systems' data."
        raise CommandError(message)
    return chain([first] if first else [], iter(lambda: source.read(PIECE_BYTES), b""))


@_of_whole_user
def erase(
    session: CliContext,
    *,
    confirm: Annotated[bool, typer.Option("--confirm", help="Erase. Without it the command only counts.")] = False,
    request_id: Annotated[str, typer.Option(help="Request id of the erasure, to get its receipt again.")] = "",
) -> None:
    """Erase a user for good, or show what that would erase.

    Everything of --user is removed from the store, the indexes and their files, and looked for afterwards. Backups are
    left alone.
    """
    _require_no_project("erased")
    name = request_id or (str(uuid4()) if confirm else "")
    with session.client() as client:
        receipt = client.erase_user(confirm=confirm, request_id=name)
    if session.as_json:
        write_json(receipt)
    else:
        _write_receipt(receipt)
    if confirm and not receipt.clean:
        raise typer.Exit(FAILED)


def _write_receipt(receipt: lifecycle_pb.ErasureReceipt) -> None:
    rows = [
        (store.store, name, f"{count:,}")
        for store in receipt.stores
        for name, count in sorted(store.removed_counts.items())
    ]
    write_table(("store", "what", ">there is" if receipt.dry_run else ">removed"), rows)
    if receipt.backups:
        write(f"left alone: the backups {', '.join(receipt.backups)}")
    if receipt.dry_run:
        write("Nothing was changed; say --confirm to erase.")
        return
    for store in receipt.stores:
        if store.remaining_count:
            write(f"{store.store}: {store.remaining_count:,} left")
    clean = f"Looked through every store and {receipt.searched_file_count:,} files: nothing is left."
    write(clean if receipt.clean else "Something is left; erase again.")


@connected
def backup(
    session: CliContext,
    *,
    name: Annotated[str, typer.Argument(help="Name of the backup.  [default: the time]")] = "",
) -> None:
    """Back up all that the service stores, while it runs.

    Into a folder on its machine, in `backup.directory` of its settings. `memsvc restore` makes a data directory of it.
    """
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    with session.client() as client, progress_bar("backup", shown=not session.as_json) as bar:
        for step in client.create_backup(name):
            bar(step.done_count, step.total_count or None, admin_pb.BackupPhase.Name(step.phase)[13:].lower())
            if session.as_json:
                write_json(step)
    if not session.as_json:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(step.row_counts.items()) if count)
        write(f"{step.name}: {step.size_bytes:,} bytes; {counts or 'empty'}")
