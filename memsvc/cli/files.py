"""The commands about files: file put, get, ls, rm."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.options import STDIN
from memsvc.cli.output import local_time, write, write_json, write_table
from memsvc.domain.files import FileCategory as Category

if TYPE_CHECKING:
    from memsvc.client.files import FileCategory as CategoryName
    from memsvc.v1 import file_service_pb2 as file_pb

PIECE_BYTES = 256 * 1024
UNSAFE = frozenset({"", ".", ".."})

app = typer.Typer(no_args_is_help=True, help="Manage files.")


@app.command()
@connected
def put(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    file: Annotated[str, typer.Argument(help='The file to upload, or "-" for stdin.', metavar="FILE")],
    name: Annotated[str, typer.Option(help="Name of the file.  [default: its own name]")] = "",
    category: Annotated[Category, typer.Option(help="Category.")] = Category.UPLOAD,
    media_type: Annotated[str, typer.Option("--type", help="Media type.  [default: by the name]")] = "",
    note: Annotated[list[str] | None, typer.Option("--meta", help="Metadata as KEY=TEXT. May be repeated.")] = None,
    ttl_hours: Annotated[float, typer.Option(min=0, help="Lifetime in hours.  [default: by the category]")] = 0.0,
) -> None:
    """Upload a file, and print its reference.

    A memory can hold the reference.
    """
    if file != STDIN and not Path(file).is_file():
        message = f"There is no file {file!r}."
        raise CommandError(message)
    if file == STDIN and not name:
        message = "Say --name for what comes from stdin."
        raise CommandError(message)
    with session.client() as client:
        kept = client.upload_file(
            iter(lambda: sys.stdin.buffer.read(PIECE_BYTES), b"") if file == STDIN else Path(file),
            name=name,
            category=cast("CategoryName", category.name),
            media_type=media_type,
            metadata=_metadata(note or ()) or None,
            ttl=timedelta(hours=ttl_hours) if ttl_hours else None,
        )
    if session.as_json:
        write_json(kept)
    else:
        write(f"{_reference(kept)}  {kept.size_bytes:,} bytes, {kept.media_type}")


@app.command("get")
@connected
def get_file(
    session: CliContext,
    *,
    reference: Annotated[str, typer.Argument(help="File id, or a reference such as chart:ID.", metavar="FILE")],
    output: Annotated[str, typer.Option("--output", "-o", help='Where to write it, "-" for stdout.')] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    info: Annotated[bool, typer.Option("--info", help="Show metadata only.")] = False,
) -> None:
    """Download a file.

    Into this folder, under its own name, or to --output.
    """
    file_id = reference.rpartition(":")[2]
    with session.client() as client:
        known = client.get_file(file_id)
        if info:
            _tell(known, as_json=session.as_json)
            return
        if output == STDIN:
            for piece in client.download_file(file_id):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        path = Path(output) if output else Path(safe_name(known))
        if path.exists() and not force:
            message = f"There is a {str(path)!r} already; say --force to overwrite it, or --output for another place."
            raise CommandError(message)
        client.save_file(file_id, path)
    if session.as_json:
        write_json(known)
    else:
        write(f"{path}  {known.size_bytes:,} bytes")


@app.command("ls")
@connected
def list_files(
    session: CliContext,
    *,
    query: Annotated[str, typer.Argument(help="Words of the name or of the metadata.")] = "",
    category: Annotated[list[Category] | None, typer.Option(help="Only this category. May be repeated.")] = None,
    media_type: Annotated[str, typer.Option("--type", help="Only this media type, such as image/*.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number.")] = 50,
) -> None:
    """List files, the newest first."""
    wanted = [cast("CategoryName", one.name) for one in category or ()]
    rows = []
    with session.client() as client:
        for file in client.list_files(query, categories=wanted, media_type=media_type, page_size=min(limit, 1_000)):
            if session.as_json:
                write_json(file)
            rows.append(file)
            if len(rows) == limit:
                break
    if session.as_json:
        return
    write_table(("=reference", ">bytes", "type", "=uploaded", "text", "name"), [_row(file) for file in rows])


@app.command("show")
@connected
def show_file(
    session: CliContext,
    *,
    reference: Annotated[str, typer.Argument(help="Id of a file, or a reference such as chart:ID.", metavar="FILE")],
) -> None:
    """Show the record of a file, with the state of its text."""
    with session.client() as client:
        file = client.get_file(reference.rpartition(":")[2])
    _tell(file, as_json=session.as_json)


@app.command("rm")
@connected
def remove(
    session: CliContext,
    *,
    references: Annotated[
        list[str], typer.Argument(help="File ids, or references such as chart:ID.", metavar="FILE...")
    ],
) -> None:
    """Delete files for good."""
    with session.client() as client:
        for reference in references:
            gone = client.delete_file(reference.rpartition(":")[2])
            if session.as_json:
                write_json(gone)
            else:
                print_error(f"deleted {_reference(gone)}  {gone.name}")


def safe_name(file: file_pb.File) -> str:
    """Return the last part of a file's name, when that can be one in this folder, else its id.

    The name comes from outside: never a path, and never a hidden file.
    """
    name = file.name.replace("\\", "/").rpartition("/")[2].lstrip(".").strip()
    is_usable = name not in UNSAFE and name.isprintable() and len(name.encode()) <= 255  # noqa: PLR2004 - of file systems
    return name if is_usable else file.id


def _reference(file: file_pb.File) -> str:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    category = types_pb.FileCategory.Name(file.category).removeprefix("FILE_CATEGORY_").lower()
    return f"{category}:{file.id}"


def _row(file: file_pb.File) -> tuple[str, ...]:
    moment = f"{local_time(file.create_time):%Y-%m-%d %H:%M}"
    return _reference(file), f"{file.size_bytes:,}", file.media_type, moment, _text_state(file), file.name


def _text_state(file: file_pb.File) -> str:
    """Return the state of a file's text, such as "indexed" or "failed: unknown encoding"."""
    from memsvc.v1 import file_service_pb2 as file_pb  # noqa: PLC0415 - a quick start

    state = file_pb.FileTextState.Name(file.text.state).removeprefix("FILE_TEXT_STATE_").lower()
    if not file.text.reason or file.text.state == file_pb.FILE_TEXT_STATE_UNSUPPORTED:
        return state
    reason = file_pb.FileTextReason.Name(file.text.reason).removeprefix("FILE_TEXT_REASON_").lower()
    return f"{state}: {reason.replace('_', ' ')}"


def _tell(file: file_pb.File, *, as_json: bool) -> None:
    if as_json:
        write_json(file)
        return
    lines = {
        "reference": _reference(file),
        "name": file.name,
        "type": file.media_type,
        "bytes": f"{file.size_bytes:,}",
        "sha256": file.sha256,
        "uploaded": f"{local_time(file.create_time):%Y-%m-%d %H:%M}",
    }
    if file.HasField("text"):
        amount = f", {file.text.char_count:,} characters in {file.text.passage_count:,} passages"
        lines["text"] = f"{_text_state(file)}{amount if file.text.char_count else ''}"
        if file.text.message:
            lines["reason"] = file.text.message
    if file.HasField("expire_time"):
        lines["expires"] = f"{local_time(file.expire_time):%Y-%m-%d %H:%M}"
    for name, value in lines.items():
        write(f"{name:<11}{value}")


def _metadata(notes: list[str] | tuple[str, ...]) -> dict[str, str]:
    found = {}
    for note in notes:
        key, parted, text = note.partition("=")
        if not (key and parted):
            message = f"{note!r} is not KEY=TEXT."
            raise typer.BadParameter(message, param_hint="--meta")
        found[key] = text
    return found
