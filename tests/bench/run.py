"""The course of a run: which servers are started, and what is measured on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import (
    call_costs,
    cluster,
    concurrency,
    console,
    contexts,
    embedding,
    files,
    hostile,
    http,
    ingest,
    interference,
    latency,
    maintenance,
    postgres,
    quality,
    relevance,
    replicas,
    scale,
    sessions,
    start,
    transfer,
    vault,
)
from tests.bench import requests as asking
from tests.bench.call_costs import measure_call_costs
from tests.bench.cluster import measure_cluster
from tests.bench.concurrency import measure_concurrency
from tests.bench.conflicts import measure_conflicts
from tests.bench.console import measure_console
from tests.bench.contexts import measure_contexts
from tests.bench.embedding import compare_engines, measure_queries, opened_embedder
from tests.bench.files import measure_files
from tests.bench.hostile import measure_hostile
from tests.bench.http import measure_http
from tests.bench.ingest import given_rows, measure_embedded
from tests.bench.interference import measure_waits
from tests.bench.latency import Latencies, latency_rows, measure_floor, measure_reads, measure_writes
from tests.bench.maintenance import measure_maintenance
from tests.bench.postgres import measure_postgres
from tests.bench.quality import measure_quality
from tests.bench.replicas import measure_replicas
from tests.bench.results import Report, Sample
from tests.bench.scale import measure_scale
from tests.bench.seed import fill, settled, vector_dimension
from tests.bench.server import Server, running_server
from tests.bench.sessions import measure_sessions
from tests.bench.settings import Plan
from tests.bench.start import measure_start, memory_rows
from tests.bench.synthetic_corpus import Corpus
from tests.bench.transfer import measure_transfer
from tests.bench.vault import measure_editing, measure_vault

ORDER = (
    latency.PART, call_costs.PART, http.PART, console.PART, concurrency.PART, contexts.PART, sessions.PART, embedding.PART, ingest.PART, interference.PART, transfer.PART,
    maintenance.PART, files.PART, vault.PART, vault.EDITING, quality.PART, relevance.PART, quality.ABLATIONS, start.PART,
    postgres.PART, replicas.PART, cluster.PART, scale.PART, hostile.PART,
)  # fmt: skip
"""The parts as they are shown."""
USERS = 50
_QUERY_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class _Screen:
    """Progress bars, one for each stage."""

    progress: Progress

    def stage(self, name: str, steps: int = 1) -> Callable[[], None]:
        """Show a bar, and return what moves it on by a step."""
        task = self.progress.add_task(name, total=steps)
        return lambda: self.progress.advance(task)


async def run(plan: Plan, report: Report, console: Console) -> None:
    """Measure what the plan names, row by row into the report."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        screen = _Screen(progress)
        for size in _sizes(plan):
            await _measure_size(size, plan, report, screen)
        if "calls" in plan.parts:
            report.add(*await measure_call_costs(plan, screen.stage))
        if "http" in plan.parts:
            report.add(*await measure_http(plan, screen.stage))
        if "console" in plan.parts:
            report.add(*await measure_console(plan, screen.stage))
        if "concurrency" in plan.parts:
            report.add(*await measure_concurrency(plan, screen.stage))
        if "embedding" in plan.parts:
            step = screen.stage("the engines of the embedder")
            report.add(*compare_engines())
            step()
        if plan.parts & {"ingest", "embedding"}:
            step = screen.stage("import with the embedder")
            report.add(*await measure_embedded(plan))
            step()
        if "files" in plan.parts:
            report.add(*await measure_files(plan, screen.stage("files up and down", files.ROUNDS)))
        if "postgres" in plan.parts:
            report.add(*await measure_postgres(plan, screen.stage))
        if "replicas" in plan.parts:
            report.add(*await measure_replicas(plan, screen.stage))
        if "scale" in plan.parts:
            report.add(*await measure_scale(plan, screen.stage))
        if "hostile" in plan.parts:
            report.add(*await measure_hostile(plan, screen.stage))
        if "cluster" in plan.parts:
            report.add(*await measure_cluster(plan, screen.stage))
        if "vault" in plan.parts:
            step = screen.stage("vault")
            report.add(*await measure_vault(plan))
            step()
        if "editing" in plan.parts:
            step = screen.stage("editing files")
            report.add(*await measure_editing(plan))
            step()
        if "quality" in plan.parts:
            await measure_quality(plan, report, screen.stage)
    if "quality" in plan.parts and not plan.data:
        report.notes.append("No data file was given (--data): quality is that of the questions across languages alone.")


def _sizes(plan: Plan) -> tuple[int, ...]:
    if plan.parts & {"latency", "contexts", "sessions", "ingest"}:
        return plan.sizes
    return plan.sizes[-1:] if plan.parts & {"start", "maintenance", "transfer"} else ()


async def _measure_size(size: int, plan: Plan, report: Report, screen: _Screen) -> None:
    """Fill a server with *size* memories and measure on it; waits, start and memory at the largest size alone."""
    is_largest = size == plan.sizes[-1]
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        directory = Path(folder) / "data"
        latencies: Latencies | None = None
        async with running_server(directory, plan.server) as server:
            corpus = Corpus(users=USERS, lines=size // USERS, dimension=await vector_dimension(server))
            await _fill(server, corpus, plan, report, screen)
            if "latency" in plan.parts:
                latencies = await _latencies(server, corpus, plan, screen)
                if is_largest:
                    step = screen.stage(f"{size}: writes that contradict")
                    report.add(*await measure_conflicts(server, corpus.dimension, plan.searches))
                    step()
            if "contexts" in plan.parts:
                report.add(*await measure_contexts(server, corpus, plan.searches, screen.stage(f"{size}: contexts", 2)))
            if "sessions" in plan.parts:
                report.add(*await measure_sessions(server, plan.searches, screen.stage(f"{size}: sessions", 2)))
            if is_largest and "start" in plan.parts:
                report.add(*memory_rows(server, size, "after import and searches"))
            if is_largest and "ingest" in plan.parts:
                step = screen.stage(f"{size}: searches while others are at work")
                report.add(*await measure_waits(server, corpus, is_quick=plan.is_quick))
                step()
            if is_largest and "transfer" in plan.parts:
                step = screen.stage(f"{size}: transfer")
                report.add(*await measure_transfer(server, corpus.dimension, plan, Path(folder) / "other"))
                step()
        if is_largest and "start" in plan.parts:
            report.add(*await measure_start(directory, size, plan))
        if latencies is not None:
            step = screen.stage(f"{size}: floor")
            engines = await measure_floor(directory, corpus, latencies, plan.searches)
            report.add(*latency_rows(size, latencies, engines, _embedding(plan, corpus, directory)))
            step()
        # Last, since it changes what the rest is measured on.
        if is_largest and "maintenance" in plan.parts:
            step = screen.stage(f"{size}: maintenance")
            report.add(*await measure_maintenance(directory, corpus, plan))
            step()


async def _fill(server: Server, corpus: Corpus, plan: Plan, report: Report, screen: _Screen) -> None:
    step = screen.stage(f"{corpus.size}: making memories", len(corpus.users))
    imports = []
    for user in corpus.users:
        imports.append(asking.import_messages(user, corpus.lines(user)))
        step()
    filled = await fill(server, imports, told=screen.stage(f"{corpus.size}: import", len(imports)))
    if "ingest" in plan.parts:
        report.add(*given_rows(corpus.size, filled))
    step = screen.stage(f"{corpus.size}: coming to rest")
    seconds = await settled(server)
    report.notes.append(f"{corpus.size} memories: the indexes came to rest {seconds:.1f} s after all was searchable.")
    step()


async def _latencies(server: Server, corpus: Corpus, plan: Plan, screen: _Screen) -> Latencies:
    step = screen.stage(f"{corpus.size}: calls", 7)
    found = await measure_reads(server, corpus, plan.searches, step)
    await measure_writes(server, found, corpus.dimension, plan.searches)
    step()
    return found


def _embedding(plan: Plan, corpus: Corpus, directory: Path) -> Sample:
    texts = [one.text for one in corpus.questions(min(_QUERY_SAMPLE, plan.searches), purpose="text")]
    with opened_embedder(plan.embedder, directory, plan.embedder_options) as embedder:
        return measure_queries(embedder, texts)
