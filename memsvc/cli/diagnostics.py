"""The commands about the service as a whole: stats, usage, perf, diagnose, reindex."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.enums import Index
from memsvc.cli.errors import FAILED, print_error
from memsvc.cli.output import local_time, milliseconds, progress_bar, write, write_json, write_table, written_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from google.protobuf.message import Message

    from memsvc.client import request_types
    from memsvc.v1 import admin_service_pb2 as admin_pb
    from memsvc.v1 import memory_service_pb2 as memory_pb
    from memsvc.v1 import types_pb2 as types_pb


VERIFY_SECONDS = 600.0


@connected
def stats(session: CliContext) -> None:
    """Count the memories."""
    with session.client() as client:
        reply = client.stats()
    if session.as_json:
        write_json(reply)
        return
    groups = (
        ("layer", reply.count_by_layer),
        ("kind", reply.count_by_kind),
        ("tier", reply.count_by_tier),
        ("status", reply.count_by_status),
    )
    rows = [("memories", f"{reply.memory_count:,}")]
    rows += [
        (f"  {group} {name.lower()}", f"{count:,}")
        for group, counts in groups
        for name, count in sorted(counts.items())
    ]
    rows += [
        ("chunks", f"{reply.chunk_count:,}"),
        ("vectors", f"{reply.vector_count:,}"),
        ("lexical entries", f"{reply.lexical_count:,}"),
        ("bytes of text", f"{reply.content_bytes:,}"),
        ("tokens of core memories, estimated", f"{reply.core_token_count:,}"),
        ("tokens of session memories, estimated", f"{reply.session_token_count:,}"),
    ]
    if reply.storage_bytes:
        # Not for a key without the role admin.
        rows += [
            ("bytes of storage, whole service", f"{reply.storage_bytes:,}"),
            ("changes not yet indexed", f"{reply.pending_change_count:,}"),
        ]
    write_table(("what", ">count"), rows)
    fills = [
        (each.session_id, each.project_id, f"{each.token_count:,}", f"{each.token_limit:,}", f"{each.usage_ratio:.0%}")
        for each in reply.sessions
    ]
    if fills:
        write_table(("session", "project", ">tokens", ">limit", ">full"), fills)
    _warn(reply.warnings)


usage = typer.Typer(
    help="Count memories by user, project, agent and scope.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Limit = Annotated[int, typer.Option(min=1, help="Maximum number.")]
Prefix = Annotated[str, typer.Option(help="Only ids that begin so.")]


@usage.command()
@connected
def users(session: CliContext, *, prefix: Prefix = "", limit: Limit = 100) -> None:
    """List the users who have memories. Needs a key of role admin, if the service asks for keys."""
    with session.client() as client:
        found = list(islice(client.list_users(prefix, page_size=min(limit, 1_000)), limit))
    rows = [(one.user_id, *_usage(one.usage)) for one in found]
    _list_usage(session, found, ("=user",), rows)


@usage.command()
@connected
def projects(session: CliContext, *, prefix: Prefix = "", limit: Limit = 100) -> None:
    """List the projects of the user's memories.

    The first one may be without a name: the global memories.
    """
    with session.client() as client:
        found = list(islice(client.list_projects(prefix, page_size=min(limit, 1_000)), limit))
    rows = [(one.project_id, *_usage(one.usage)) for one in found]
    _list_usage(session, found, ("=project",), rows)


@usage.command()
@connected
def agents(session: CliContext, *, prefix: Prefix = "", limit: Limit = 100) -> None:
    """List the agents that wrote the user's memories, by project."""
    with session.client() as client:
        found = list(islice(client.list_agents(prefix, page_size=min(limit, 1_000)), limit))
    rows = [(one.project_id, one.agent_id, *_usage(one.usage)) for one in found]
    _list_usage(session, found, ("=project", "=agent"), rows)


@usage.command()
@connected
def scopes(session: CliContext, *, limit: Limit = 100) -> None:
    """List the distinct scopes of the user's memories."""
    with session.client() as client:
        found = list(islice(client.list_scopes(page_size=min(limit, 1_000)), limit))
    rows = [(one.scope.project_id, one.scope.agent_id, one.scope.session_id, *_usage(one)) for one in found]
    _list_usage(session, found, ("=project", "=agent", "=session"), rows)


def _usage(counted: admin_pb.MemoryUsage | memory_pb.ScopeUsage) -> tuple[str, str]:
    return f"{counted.memory_count:,}", f"{local_time(counted.last_write_time):%Y-%m-%d %H:%M}"


def _list_usage(
    session: CliContext, found: Iterable[Message], columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> None:
    if session.as_json:
        for each in found:
            write_json(each)
    else:
        write_table((*columns, ">memories", "=last write"), rows)


def _warn(warnings: Iterable[types_pb.Warning]) -> None:
    for warning in warnings:
        print_error(f"memsvc: {_severity(warning)}{_code(warning)}: {warning.message}")


def _code(warning: types_pb.Warning) -> str:
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    return types_pb.WarningCode.Name(warning.code).removeprefix("WARNING_CODE_")


def _point(point: admin_pb.MeasurementPoint.ValueType) -> str:
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    return admin_pb.MeasurementPoint.Name(point).removeprefix("MEASUREMENT_POINT_").lower()


def _severity(warning: types_pb.Warning) -> str:

    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    name = types_pb.Severity.Name(warning.severity).removeprefix("SEVERITY_").lower()
    return "" if name == "unspecified" else f"{name}: "


@connected
def perf(
    session: CliContext,
    *,
    operation: Annotated[str, typer.Argument(help="One operation, such as Search.  [default: all]")] = "",
    last_hours: Annotated[
        float, typer.Option(min=0, max=168, help="Only calls of the last hours, such as 0.5.  [default: all]")
    ] = 0.0,
) -> None:
    """Show how long operations took, in ms."""
    with session.client() as client:
        reply = client.performance(operation, window=timedelta(hours=last_hours) if last_hours else None)
    if session.as_json:
        write_json(reply)
        return
    rows = []
    for each in reply.operations:
        rows.append(
            (each.operation, _point(each.point), f"{each.call_count:,}", f"{each.error_count:,}", *_times(each))
        )
        rows += [(f"  {stage.stage}", "", f"{stage.call_count:,}", "", *_times(stage)) for stage in each.stages]
    if operation and not rows:
        print_error(f"memsvc: No call of {operation!r} was measured; `memsvc perf` names the operations that were.")
    columns = ("operation", "layer", ">count", ">errors", ">mean", ">p50", ">p90", ">p95", ">p99", ">max")
    write_table(columns, rows, title=f"Since {local_time(reply.since):%Y-%m-%d %H:%M}")


def _times(measured: admin_pb.OperationPerformance | admin_pb.StagePerformance) -> tuple[str, ...]:
    return tuple(
        milliseconds(each)
        for each in (measured.mean, measured.p50, measured.p90, measured.p95, measured.p99, measured.max)
    )


@connected
def diagnose(
    session: CliContext,
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every index entry with the store.")] = False,
) -> None:
    """Show the state of backends and indexes.

    Exits with 1 when something is wrong.
    """
    with session.client(timeout=VERIFY_SECONDS) as client:
        reply = client.diagnose(verify=verify)
    if session.as_json:
        write_json(reply)
    else:
        _show(reply)
    if not reply.healthy:
        raise typer.Exit(FAILED)


def _show(reply: admin_pb.DiagnoseResponse) -> None:
    backends = [
        (each.port, each.name, "well" if each.healthy else each.message, milliseconds(each.ping))
        for each in reply.backends
    ]
    write_table(("port", "backend", "state", ">ms"), backends, title=f"memsvc {reply.version}")
    indexes = [
        (
            _index_name(each.index),
            *(
                f"{count:,}"
                for count in (
                    each.expected_count,
                    each.present_count,
                    each.missing_count,
                    each.stale_count,
                    each.orphaned_count,
                )
            ),
            str(each.generation),
            f"{each.model} {each.dimension}{' hnsw' if each.hnsw else ' exact scan'}" if each.model else "",
        )
        for each in reply.indexes
    ]
    columns = ("index", ">expected", ">present", ">missing", ">stale", ">orphaned", ">generation", "model")
    if indexes:
        write_table(columns, indexes)
    for each in reply.indexes:
        if each.HasField("build"):
            write(_building(each))
    write(_followed(reply.outbox) if reply.HasField("outbox") else "outbox: not known while the store is away")
    if reply.HasField("tokens"):
        write(_compared(reply.tokens))
    slow = [
        (each.operation, _point(each.point), milliseconds(each.duration), f"{local_time(each.time):%H:%M:%S}")
        for each in reply.slowest
    ]
    if slow:
        write_table(("slowest", "layer", ">ms", "at"), slow)
    _warn(reply.warnings)
    write("healthy" if reply.healthy else "not healthy")


def _followed(outbox: admin_pb.OutboxReport) -> str:
    return f"outbox: {outbox.applied_position:,} of {outbox.head_position:,} applied, {outbox.pending_count:,} pending"


def _compared(tokens: admin_pb.TokenReport) -> str:
    if not tokens.model:
        return "token vectors: none, the embedder gives none; searches are ranked without late interaction"
    more = f", {tokens.backfilled_count:,} earlier memories so far, more follow" if tokens.backfilling else ""
    return f"token vectors: {tokens.passage_count:,} passages ({tokens.model}){more}"


def _building(report: admin_pb.IndexReport) -> str:

    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    build = report.build
    phase = admin_pb.ReindexPhase.Name(build.phase).removeprefix("REINDEX_PHASE_").lower().replace("_", " ")
    model = f" with {build.model}" if build.model else ""
    progress = f"{phase} {build.done_count:,} of {build.total_count:,}"
    return f"{_index_name(report.index)}: generation {build.generation}{model}: {progress}"


def _index_name(index: admin_pb.IndexKind.ValueType) -> str:

    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    return admin_pb.IndexKind.Name(index).removeprefix("INDEX_KIND_").lower()


@connected
def reindex(
    session: CliContext,
    *,
    index: Annotated[list[Index] | None, typer.Option(help="Only this index. May be repeated.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the differences instead of rebuilding.")] = False,
) -> None:
    """Build or repair the indexes.

    Makes them equal to the store again; searches and writes go on during that.
    """
    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    names = [cast("request_types.Index", each.name) for each in index or ()]
    with session.client() as client, progress_bar("reindex", shown=not session.as_json) as bar:
        for progress in client.reindex(names, mode="REPAIR" if repair else "REBUILD"):
            phase = admin_pb.ReindexPhase.Name(progress.phase).removeprefix("REINDEX_PHASE_").lower()
            bar(
                progress.done_count,
                progress.total_count or None,
                phase if phase == "done" else f"{_index_name(progress.index)} {phase}",
            )
            if session.as_json:
                write_json(progress)
            elif phase in {"switched", "repaired"}:
                name = _index_name(progress.index)
                write(f"{name} {phase}: {progress.done_count:,} entries, generation {progress.generation}")
    if not session.as_json:
        write("done")


# The command that looks for what is not as it should be.


PREFIX = "INTEGRITY_FAULT_"


@connected
def check_integrity(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what is found.")] = False,
    all_users: Annotated[
        bool, typer.Option("--all", help="Check the data of all users, and data without an owner.")
    ] = False,
    remove_broken_refs: Annotated[
        bool, typer.Option("--remove-broken-refs", help="Remove references to files that do not exist.")
    ] = False,
    remove_orphan_files: Annotated[
        bool, typer.Option("--remove-orphan-files", help="Remove files that no memory refers to.")
    ] = False,
    orphan_grace_days: Annotated[
        float, typer.Option("--orphan-grace", help="Days that a file may exist without a memory.", min=0)
    ] = 7.0,
    ignore_files: Annotated[bool, typer.Option("--ignore-files", help="Do not check files.")] = False,
) -> None:
    """Check stored data and indexes for damage.

    Looks for broken links, wrong contents, remains of deleted data, and differences of the indexes.

    Also for references to missing files and for files without references; these are only reported, unless the options
    that name them are given.

    Exits with 1 when something was found and not repaired.
    """
    summary: admin_pb.IntegritySummary | None = None
    with session.client() as client, progress_bar("check", shown=not session.as_json) as bar:
        events = client.check_integrity(
            all_users=all_users,
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
                bar(event.progress.checked_count, None, event.progress.part)
            elif event.HasField("finding") and not session.as_json:
                write(_line(event.finding))
            elif event.HasField("summary"):
                summary = event.summary
    if summary is None:
        return
    if not session.as_json:
        write(
            f"{summary.memory_count:,} memories checked, {summary.finding_count:,} findings,"
            f" {summary.repaired_count:,} repaired"
        )
    for part in summary.unchecked:
        print_error(f"memsvc: not checked: {part}")
    if summary.finding_count > summary.repaired_count or summary.unchecked:
        raise typer.Exit(FAILED)


def _line(finding: admin_pb.IntegrityFinding) -> str:

    from memsvc.v1 import admin_service_pb2 as admin_pb  # noqa: PLC0415 - a quick start

    fault = admin_pb.IntegrityFault.Name(finding.fault).removeprefix(PREFIX).lower().replace("_", " ")
    about = finding.memory_id or _file(finding) or finding.user_id or "nobody's"
    done = "repaired" if finding.repaired else f"remedy: {finding.remedy}"
    return f"{fault}\t{about}\t{finding.detail}\t{done}"


def _file(finding: admin_pb.IntegrityFinding) -> str:
    return written_ref(finding.file_ref) if finding.HasField("file_ref") else ""
