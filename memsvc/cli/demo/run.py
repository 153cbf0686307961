"""The demo command: a real server, a few hundred memories, and searches in two languages that check themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

import memsvc
from memsvc.cli.errors import FAILED, CommandError, report_errors, require_server
from memsvc.cli.output import MILLI, date_of, highlighted, milliseconds, progress_bar, shortened, write, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from memsvc.cli.demo.questions import Question
    from memsvc.client import Memsvc
    from memsvc.v1 import search_service_pb2 as search_pb
    from memsvc.v1 import types_pb2 as types_pb

USER = "demo"
CONVERSATION = "demo_data/conversation.jsonl"
LEAST_MEMORIES = 300
SHOWN_HITS = 3
SNIPPET_CHARS = 100


def demo(
    *,
    keep: Annotated[Path | None, typer.Option(help="Keep the data in this new directory.")] = None,
    embedder: Annotated[str, typer.Option(help="Embedding model; `memsvc backends` lists them.")] = "",
) -> None:
    """Show everything in a minute: start here.

    Starts a server, imports a few hundred memories and searches them in English and Chinese. Exits with 0 only when
    every search found what it should.
    """
    with report_errors(), ExitStack() as stack:
        require_server("`memsvc demo`")
        from memsvc.client import Memsvc  # noqa: PLC0415

        directory = _directory(keep, stack)
        begun = perf_counter()
        address = stack.enter_context(demo_server(directory, embedder=embedder))
        client = stack.enter_context(Memsvc(address, user_id=USER))
        client.wait_ready(60.0)
        write(f"A server runs on {address}, started in {perf_counter() - begun:.1f} s.")
        write("The memories are stored and embedded now; on a slow machine that takes a minute.")
        failures = _story(client)
        if keep is not None:
            write(f"The data stay in {directory / 'data'}: `memsvc serve --data-dir {directory / 'data'}`,")
            write(f'then `memsvc search --user {USER} "Which pet is coming?"`.')
    if failures:
        for failure in failures:
            write(f"NOT AS EXPECTED: {failure}")
        raise typer.Exit(FAILED)
    write("Everything was as it should be. Next: `memsvc serve` in one terminal, and in another")
    write('  memsvc add "I take my coffee black" --tag drinks')
    write('  memsvc search "how do I like my coffee?" --explain')


def _directory(keep: Path | None, stack: ExitStack) -> Path:
    if keep is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memsvc-demo-")))
    if keep.exists() and any(keep.iterdir()):
        message = f"{str(keep)!r} is not empty; choose a new directory for --keep."
        raise CommandError(message)
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _story(client: Memsvc) -> list[str]:
    """Do everything in its order; return what was not as expected."""
    from memsvc.cli.demo.questions import QUESTIONS  # noqa: PLC0415 - a quick start

    failures = _import(client)
    ranks = []
    for question in QUESTIONS:
        rank = _ask(client, question)
        ranks.append(rank)
        if not rank:
            failures.append(f"{question.query!r} did not find {' or '.join(sorted(question.answers))}.")
    failures += show_filter(client)
    failures += show_writes(client)
    found = sum(1 for rank in ranks if rank)
    first = sum(1 for rank in ranks if rank == 1)
    write()
    write(f"{found} of {len(ranks)} searches found their answer among the first hits, {first} of them in first place.")
    return failures


def _import(client: Memsvc) -> list[str]:
    conversation, documents = demo_conversation(), demo_documents()
    total = len(conversation) + len(documents)
    stored = 0
    begun = perf_counter()
    with progress_bar("import") as bar:
        for progress in client.import_memories([*conversation, *documents], wait_for="INDEXED"):
            bar(progress.next_index, total, "")
            stored = progress.created_count
    seconds = perf_counter() - begun
    sessions = len({memory.scope.session_id for memory in conversation})
    write(
        f"{len(conversation)} lines of {sessions} conversations and {len(documents)} sections of documents were stored"
        f" and indexed in {seconds:.1f} s, {total / seconds:,.0f} a second."
    )
    enough = stored == total >= LEAST_MEMORIES
    return [] if enough else [f"Of {total} memories {stored} were stored; {LEAST_MEMORIES} are wanted."]


def demo_conversation() -> list[types_pb.Memory]:
    """Return the bilingual conversation that comes with the package."""
    from importlib.resources import files  # noqa: PLC0415 - a quick start

    from memsvc.cli.import_sources import entries_from_lines  # noqa: PLC0415

    text = files("memsvc.cli").joinpath(CONVERSATION).read_text(encoding="utf-8")
    return [entry.memory for entry in entries_from_lines(text.splitlines(), CONVERSATION) if entry.memory is not None]


def demo_documents() -> list[types_pb.Memory]:
    """Return the sections of the project's own documents, as far as they are installed."""
    from importlib.metadata import PackageNotFoundError, metadata  # noqa: PLC0415 - a quick start

    import memsvc  # noqa: PLC0415
    from memsvc.cli.import_sources import memories_from_markdown  # noqa: PLC0415

    root = Path(memsvc.__file__).parents[1]
    checkout = sorted(root.glob("*.md")) if (root / "pyproject.toml").is_file() else []
    texts = {file.name: file.read_text(encoding="utf-8") for file in checkout}
    if "README.md" not in texts:
        try:
            texts["README.md"] = str(metadata("memsvc").json.get("description", ""))
        except PackageNotFoundError:
            return []
    return [memory for name, text in texts.items() for memory in memories_from_markdown(text, name)]


def _ask(client: Memsvc, question: Question) -> int:
    """Search, show the hits, and return the place of the answer, counted from 1, or 0."""
    from memsvc.cli.demo.questions import TOP  # noqa: PLC0415 - a quick start

    begun = perf_counter()
    reply = client.search(question.query, mode=question.mode, limit=TOP, explain=True, snippet_chars=SNIPPET_CHARS)
    seconds = perf_counter() - begun
    rank = next((place for place, hit in enumerate(reply.hits, 1) if hit.memory.key in question.answers), 0)
    write()
    write_table(
        ("=", ">score", "=date", "found"),
        [_row(hit, question) for hit in reply.hits[: max(SHOWN_HITS, rank)]],
        title=f"{question.query}   ({question.mode.lower()}: {question.shows})",
    )
    stages = ", ".join(f"{timing.stage} {milliseconds(timing.duration)}" for timing in reply.timings)
    write(f"{stages}, with the wire {seconds * MILLI:,.1f} ms")
    return rank


def _row(hit: search_pb.Hit, question: Question) -> Sequence[str | Text]:
    memory = hit.memory
    who = memory.speaker or shortened(memory.title, SNIPPET_CHARS // 2)
    mark = "=>" if memory.key in question.answers else ""
    return mark, f"{hit.score:.3f}", date_of(memory), highlighted(hit, who)


# A server of its own for the demo: a real process on a free port, stopped gracefully at the end.


START_SECONDS = 120.0
STOP_SECONDS = 30.0
LOOK_SECONDS = 0.05
SHOWN_LOG_CHARS = 2_000


@contextmanager
def demo_server(directory: Path, *, embedder: str = "") -> Iterator[str]:
    """Run `memsvc serve` with its data in *directory* and yield its address.

    The machine's own settings do not take part: the demo shows the defaults.

    Raises:
        CommandError: The server did not start; the message has the end of its log.
    """
    log = directory / "server.log"
    ready = directory / "ready"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "memsvc", "serve", "--address", "127.0.0.1:0"]
    command += ["--data-dir", str(directory / "data"), "--ready-file", str(ready)]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory, env=_environment(embedder)
        )
        try:
            yield _address(process, ready, log)
        finally:
            _stop(process)


def _environment(embedder: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    here = str(Path(memsvc.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, environment.get("PYTHONPATH", "")]))
    # Without HTTP, whose default port a service on this machine may have.
    environment["MEMSVC_HTTP__ADDRESS"] = ""
    if embedder:
        environment["MEMSVC_EMBEDDER__BACKEND"] = embedder
    return environment


def _address(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if ready.exists():
            return ready.read_text(encoding="utf-8").split()[0]
        time.sleep(LOOK_SECONDS)
    said = log.read_text(encoding="utf-8", errors="replace")[-SHOWN_LOG_CHARS:].strip()
    message = f"The demo's server did not start. It said:\n{said}"
    raise CommandError(message)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# The other parts of the demo: filters, duplicates, revisions, and the time until a memory is found.


MARCH = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))


def show_filter(client: Memsvc) -> list[str]:
    """Search with a filter; return what was not as expected."""
    reply = client.search(
        "What was broken, and who noticed?", limit=3, filters={"speakers": ["Tomas", "Priya"], "event_time": MARCH}
    )
    rows = [(f"{hit.score:.3f}", date_of(hit.memory), highlighted(hit, hit.memory.speaker)) for hit in reply.hits]
    write()
    write_table((">score", "=date", "found"), rows, title="The same with a filter: said by Tomas or Priya, in March")
    fits = all(
        hit.memory.speaker in {"Tomas", "Priya"} and date_of(hit.memory).startswith("2026-03") for hit in reply.hits
    )
    return [] if rows and fits else ["The filter let something else through, or nothing at all."]


def show_writes(client: Memsvc) -> list[str]:
    """Write, write again, write too late, and look how soon it is found; return what was not as expected."""
    from memsvc.v1 import types_pb2 as types_pb  # noqa: PLC0415 - a quick start

    failures = []
    text = "The spare key of the allotment shed hangs behind the third flowerpot."
    begun = perf_counter()
    first = client.create(text, tags=["keys"], importance=4)
    hits = client.search("Where is the key to the garden hut?", limit=10).hits
    seconds = perf_counter() - begun
    found = any(hit.memory.id == first.memory.id for hit in hits)
    if not found:
        failures.append("A new memory was not found right after it was created.")

    again = client.create(text)
    duplicate = again.outcome == types_pb.WRITE_OUTCOME_DUPLICATE and again.memory.id == first.memory.id
    if not duplicate:
        failures.append("Equal content was not recognised as a duplicate.")

    changed = client.update(first.memory.id, content=text.replace("third", "second"), expected_revision=1)
    conflict = _late_update(client, first.memory.id)
    if changed.memory.revision == 1 or "REVISION_CONFLICT" not in conflict:
        failures.append("An update based on an old revision was not refused.")

    write()
    rows = [
        ("create, then search", f"found after {seconds * MILLI:,.0f} ms" if found else "not found"),
        ("create the same again", "DUPLICATE, the same id" if duplicate else "stored twice"),
        ("update revision 1", f"revision {changed.memory.revision}"),
        ("update revision 1 again", conflict),
    ]
    write_table(("write", "what became of it"), rows, title="Writing")
    return failures


def _late_update(client: Memsvc, memory_id: str) -> str:
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        client.update(memory_id, importance=5, expected_revision=1)
    except MemsvcCallError as error:
        return f"{error.code.name}, {error.reason}: it is at revision {error.metadata.get('revision')}"
    return "accepted"
