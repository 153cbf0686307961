"""The demo command: a real server, a few hundred memories, and searches in two languages that check themselves."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.errors import FAILED, CommandError, report_errors
from memsvc.cli.output import MILLI, date_of, highlighted, milliseconds, progress_bar, shortened, write, write_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from memsvc.cli.demo.questions import Question
    from memsvc.client import Memsvc
    from memsvc.v1 import search_service_pb2 as searches
    from memsvc.v1 import types_pb2 as types

USER = "demo"
CONVERSATION = "demo_data/conversation.jsonl"
LEAST_MEMORIES = 300
SHOWN_HITS = 3
SNIPPET_CHARS = 100


def demo(
    *,
    keep: Annotated[Path | None, typer.Option(help="Keep the data in this new directory, to look at later.")] = None,
    embedder: Annotated[str, typer.Option(help="Another embedding model; `memsvc backends` lists them.")] = "",
) -> None:
    """Show everything in a minute: start here.

    Starts a server, imports a few hundred memories and searches them in English and Chinese. Exits with 0 only when
    every search found what it should.
    """
    with report_errors(), ExitStack() as stack:
        from memsvc.cli.demo.server import demo_server  # noqa: PLC0415 - a quick start
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
    from memsvc.cli.demo.writes import show_filter, show_writes  # noqa: PLC0415

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
            stored = progress.created
    seconds = perf_counter() - begun
    sessions = len({memory.scope.session_id for memory in conversation})
    write(
        f"{len(conversation)} lines of {sessions} conversations and {len(documents)} sections of documents were stored"
        f" and indexed in {seconds:.1f} s, {total / seconds:,.0f} a second."
    )
    enough = stored == total >= LEAST_MEMORIES
    return [] if enough else [f"Of {total} memories {stored} were stored; {LEAST_MEMORIES} are wanted."]


def demo_conversation() -> list[types.Memory]:
    """Return the bilingual conversation that comes with the package."""
    from importlib.resources import files  # noqa: PLC0415 - a quick start

    from memsvc.cli.import_sources import memories_from_lines  # noqa: PLC0415

    text = files("memsvc.cli").joinpath(CONVERSATION).read_text(encoding="utf-8")
    return list(memories_from_lines(text.splitlines(), CONVERSATION))


def demo_documents() -> list[types.Memory]:
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


def _row(hit: searches.Hit, question: Question) -> Sequence[str | Text]:
    memory = hit.memory
    who = memory.speaker or shortened(memory.title, SNIPPET_CHARS // 2)
    mark = "=>" if memory.key in question.answers else ""
    return mark, f"{hit.score:.3f}", date_of(memory), highlighted(hit, who)
