"""Import: how quick it is, with and without the embedder."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.embedding import Rates, measure_passages, opened_embedder
from tests.bench.load_generators import dripping
from tests.bench.results import Row, Sample, at_least, timed
from tests.bench.seed import Filled, run_import, settled, vector_dimension
from tests.bench.server import Server, running_server, usage
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Import"
_GIVEN_PER_SECOND = 2_500.0
_SHARE_OF_EMBEDDER = 0.9
_SEARCHES_PER_SECOND = 4.0


def given_rows(size: int, filled: Filled) -> list[Row]:
    """Return the rows of an import whose vectors were given."""
    at = f"{size:,}".replace(",", " ")
    stored = filled.memories / filled.stored_seconds
    seen = filled.memories / filled.searchable_seconds
    target = at_least(stored, _GIVEN_PER_SECOND, "2 500 memories/s")
    return [
        Row(PART, f"{at} given vectors, until stored", stored, "memories/s", targets=(target,)),
        Row(PART, f"{at} given vectors, until searchable", seen, "memories/s"),
    ]


async def measure_embedded(plan: Plan) -> list[Row]:
    """Import texts that have to be embedded, beside the embedder alone on the same texts, before and after."""
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        directory = Path(folder) / "data"
        async with running_server(directory, plan.server) as server:
            await settled(server, rest_seconds=2.0)
            dimension = await vector_dimension(server)
            lines = Corpus(users=1, lines=plan.embedded, dimension=dimension, prefix="embedded").lines("embedded-000")
            texts = [line.text for line in lines]
            with opened_embedder(plan.embedder, Path(folder), plan.embedder_options) as embedder:
                embedder.embed_passages(texts[:8])
                before = measure_passages(embedder, texts)
                rate = await _rate(server, texts)
                after = measure_passages(embedder, texts)
            search_rows = await _searches_meanwhile(server, dimension, plan)
    name = f"{len(texts)} texts to embed, until searchable"
    return [
        _beside_embedder(name, "memories/s", rate.per_second, (before.per_second, after.per_second)),
        _beside_embedder(name, "memories/CPU s", rate.per_cpu_second, (before.per_cpu_second, after.per_cpu_second)),
        *search_rows,
    ]


def _beside_embedder(name: str, unit: str, rate: float, alone: tuple[float, float]) -> Row:
    """Return the row of an import, whose floor is the embedder alone, before and after."""
    floor = sum(alone) / len(alone)
    target = at_least(rate, _SHARE_OF_EMBEDDER * floor, "90 % of the embedder alone")
    return Row(PART, name, rate, unit, floor=floor, targets=(target,))


async def _rate(server: Server, texts: list[str]) -> Rates:
    # Facts that nobody said at no time: so the text that is embedded is the content, as for the embedder alone.
    memories = [memory_pb.BatchMemory(memory=types_pb.Memory(content=text)) for text in texts]
    header = memory_pb.ImportHeader(scope=asking.scope("embedded"), wait_for=types_pb.WAIT_FOR_INDEXED)
    messages = [memory_pb.ImportMemoriesRequest(header=header)]
    for start in range(0, len(memories), asking.IMPORT_BATCH):
        part = memories[start : start + asking.IMPORT_BATCH]
        messages.append(memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(first_index=start, memories=part)))
    encoded = [message.SerializeToString() for message in messages]
    started, cpu = time.perf_counter(), usage(server.process.pid).cpu_seconds
    await run_import(server, encoded)
    seconds = time.perf_counter() - started
    return Rates(len(texts) / seconds, len(texts) / (usage(server.process.pid).cpu_seconds - cpu))


async def _searches_meanwhile(server: Server, dimension: int, plan: Plan) -> list[Row]:
    """Search by text while an import keeps the embedder busy."""
    count = max(64, plan.embedded // 2)
    corpus = Corpus(users=1, lines=count, dimension=dimension, prefix="meanwhile")
    messages = asking.import_messages(
        "meanwhile-000",
        corpus.lines("meanwhile-000"),
        wait_for=types_pb.WAIT_FOR_INDEXED,
        is_given=False,
    )
    questions = [asking.by_text(one) for one in corpus.questions(count, purpose="meanwhile")]
    async with dripping(server.searches.Search, questions, per_second=_SEARCHES_PER_SECOND) as drip:
        await run_import(server, messages)
    return [timed(PART, "Search hybrid, text alone, while texts are embedded", Sample.of(drip.seconds))]
