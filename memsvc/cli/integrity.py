"""The command that looks for what is not as it should be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import FAILED, print_error
from memsvc.cli.output import progress_bar, write, write_json

if TYPE_CHECKING:
    from memsvc.v1 import integrity_pb2 as integrity

PREFIX = "INTEGRITY_FAULT_"


@connected
def check_integrity(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what is found.")] = False,
    everybody: Annotated[
        bool, typer.Option("--all", help="What all users have, and what is stored of nobody.")
    ] = False,
    remove_broken_refs: Annotated[
        bool, typer.Option("--remove-broken-refs", help="Take references to files that are not there from memories.")
    ] = False,
    remove_orphan_files: Annotated[
        bool, typer.Option("--remove-orphan-files", help="Remove files that no memory refers to.")
    ] = False,
    orphan_grace_days: Annotated[
        float, typer.Option("--orphan-grace", help="For how many days a file may be without a memory.", min=0)
    ] = 7.0,
    ignore_files: Annotated[
        bool, typer.Option("--ignore-files", help="Leave files aside: they are kept elsewhere.")
    ] = False,
) -> None:
    """Look for broken links, wrong contents, remains of what is gone, and differences of the indexes.

    Also for references to files that are not there, and for files that nothing refers to: those are only told, unless
    the options that name them are given.

    Exits with 1 when something was found and not put right.
    """
    summary: integrity.IntegritySummary | None = None
    with session.client() as client, progress_bar("check", shown=not session.as_json) as bar:
        events = client.check_integrity(
            everybody=everybody,
            repair=repair,
            remove_broken_refs=remove_broken_refs,
            remove_orphan_files=remove_orphan_files,
            orphan_grace=timedelta(days=orphan_grace_days),
            ignore_files=ignore_files,
        )
        for event in events:
            if session.as_json:
                write_json(event)
            if event.HasField("progress"):
                bar(event.progress.checked, None, event.progress.part)
            elif event.HasField("finding") and not session.as_json:
                write(_line(event.finding))
            elif event.HasField("summary"):
                summary = event.summary
    if summary is None:
        return
    if not session.as_json:
        write(
            f"{summary.memory_count:,} memories checked, {summary.findings:,} findings, {summary.repaired:,} repaired"
        )
    for part in summary.unchecked:
        print_error(f"memsvc: not checked: {part}")
    if summary.findings > summary.repaired or summary.unchecked:
        raise typer.Exit(FAILED)


def _line(finding: integrity.IntegrityFinding) -> str:
    from memsvc.v1 import integrity_pb2 as integrity  # noqa: PLC0415 - a quick start

    fault = integrity.IntegrityFault.Name(finding.fault).removeprefix(PREFIX).lower().replace("_", " ")
    about = finding.memory_id or _file(finding) or finding.user_id or "nobody's"
    done = "repaired" if finding.repaired else f"remedy: {finding.remedy}"
    return f"{fault}\t{about}\t{finding.detail}\t{done}"


def _file(finding: integrity.IntegrityFinding) -> str:
    return f"{finding.file_ref.category}:{finding.file_ref.id}" if finding.HasField("file_ref") else ""
