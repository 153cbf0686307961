"""The command that moves the store elsewhere: migrate-backend. It asks the service, or works on the data of none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import DEFAULT_ADDRESS, ApiKey, Certificate, CertificateKey, TlsCa, os_user, tls_of
from memsvc.cli.errors import CommandError, report_errors
from memsvc.cli.keys import Address, AsJson, Config, DataDir
from memsvc.cli.output import progress_bar, write, write_json, write_table

if TYPE_CHECKING:
    from memsvc.client.admin import MigrationAction
    from memsvc.v1 import admin_service_pb2 as admin_pb

URL_VARIABLE = "MEMSVC_METADATA__OPTIONS__URL"
TARGET_VARIABLE = "MEMSVC_MIGRATE_URL"


class To(StrEnum):
    """Target of a migration of the store."""

    POSTGRES = "postgres"
    """In a PostgreSQL database; for the profile cluster, too."""
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Action of a migration."""

    url: str | None
    action: MigrationAction
    discard_changes: bool


def migrate_backend(  # noqa: PLR0913 - an option each
    *,
    to: Annotated[To, typer.Option(help="Target: PostgreSQL, or the data directory.")] = To.POSTGRES,
    url: Annotated[
        str,
        typer.Option(
            envvar=TARGET_VARIABLE,
            help="Database: postgresql://USER:PASSWORD@HOST:PORT/DATABASE; prefer the variable.",
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved and check the target.")] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort an unfinished migration and remove its target data.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo a finished migration.")] = False,
    discard_changes: Annotated[
        bool, typer.Option("--discard-changes", help="With --undo: discard changes made at the target.")
    ] = False,
    address: Address = "",
    data_dir: DataDir = None,
    config: Config = None,
    api_key: ApiKey = "",
    tls_ca: TlsCa = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    as_json: AsJson = False,
) -> None:
    """Move all data to PostgreSQL, or back, and verify it.

    A running service continues to serve.

    After an interruption, repeat the command: it resumes.
    """
    with report_errors(address or DEFAULT_ADDRESS):
        from memsvc.cli.offline import asks_service, migration_steps  # noqa: PLC0415 - a quick start
        from memsvc.client import Memsvc  # noqa: PLC0415

        wanted = _Wanted(_target(to, url), _action(dry_run=dry_run, abort=abort, undo=undo), discard_changes)
        tls = tls_of(tls_ca, tls_certificate, tls_key)
        where = address or DEFAULT_ADDRESS
        with ExitStack() as stack:
            steps = (
                where
                if asks_service(address, config, data_dir)
                else migration_steps(
                    stack, (config, data_dir), where, wanted.url, wanted.action, discard_changes=wanted.discard_changes
                )
            )
            if isinstance(steps, str):
                stack.enter_context(report_errors(steps))
                client = stack.enter_context(Memsvc(steps, user_id=os_user(), api_key=api_key, tls=tls))
                steps = client.migrate_backend(wanted.url, action=wanted.action, discard_changes=wanted.discard_changes)
            last = _followed(steps, as_json=as_json)
        if not as_json:
            _tell(last, wanted)


def _target(to: To, url: str) -> str | None:
    if to is To.EMBEDDED:
        # The variable stays set for the way back of a move there.
        if url and url != os.environ.get(TARGET_VARIABLE):
            message = "--url goes with --to postgres."
            raise CommandError(message)
        return None
    if not url:
        message = f"Name the database with --url or the variable {TARGET_VARIABLE}: postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
        raise CommandError(message)
    return url


def _action(*, dry_run: bool, abort: bool, undo: bool) -> MigrationAction:
    chosen: list[MigrationAction] = []
    chosen += ["CHECK"] if dry_run else []
    chosen += ["ABORT"] if abort else []
    chosen += ["UNDO"] if undo else []
    if len(chosen) > 1:
        message = "Say one of --dry-run, --abort and --undo."
        raise CommandError(message)
    return chosen[0] if chosen else "RUN"


def _followed(steps: Iterator[admin_pb.MigrateBackendResponse], *, as_json: bool) -> admin_pb.MigrateBackendResponse:
    """Draw the progress, or write it line by line, and return the last step."""
    with progress_bar("migrate-backend", shown=not as_json) as bar:
        for step in steps:
            bar(step.done_count, step.total_count or None, f"{_phase(step)} {step.message}")
            if as_json:
                write_json(step)
    return step


def _phase(step: admin_pb.MigrateBackendResponse) -> str:
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    return admin_pb.MigrationPhase.Name(step.phase).removeprefix("MIGRATION_PHASE_")


def _tell(step: admin_pb.MigrateBackendResponse, wanted: _Wanted) -> None:
    is_done = wanted.action == "RUN"
    if step.tables:
        equal = (lambda digest: f"equal {digest[:12]}") if is_done else str
        rows = [(one.name, f"{one.row_count:,}", equal(one.digest)) for one in step.tables]
        write_table(("table", ">rows", "both sides"), rows)
    if wanted.action == "CHECK":
        write(f"{step.total_count:,} rows, {step.size_bytes:,} bytes; {step.message}. Nothing was changed.")
    elif is_done:
        waited = step.sealed_duration.ToTimedelta().total_seconds()
        write(f"{step.total_count:,} rows are at {step.target}; writes waited for {waited:.2f} s.")
        write(_next(wanted))
    else:
        write(f"{_phase(step).capitalize()}: {step.message}.")


def _next(wanted: _Wanted) -> str:
    if wanted.url is None:
        return (
            f"Now stop the service, take metadata.options.url out of memsvc.toml (or {URL_VARIABLE} out of its "
            "environment), and start it again with the same data directory."
        )
    return (
        "Now stop the service and start it again, with the same data directory (its files and indexes are used on) and "
        f'the address as {URL_VARIABLE}, or in memsvc.toml:\n\n[metadata.options]\nurl = "{_shown(wanted.url)}"\n\n'
        "Until then it answers reads and refuses writes as UNAVAILABLE. To take it back: the same command with --undo."
    )


def _shown(url: str) -> str:
    """Return an address without its password."""
    import re  # noqa: PLC0415 - a quick start

    return re.sub(r"(//[^:/@]*:)[^@]*@", r"\1PASSWORD@", re.sub(r"(password=)[^&]*", r"\1PASSWORD", url))
