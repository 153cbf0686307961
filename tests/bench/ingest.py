"""Import: how quick it is, with and without the embedder."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench import requests as asking
from tests.bench.embedding import opened_embedder, passages_per_second
from tests.bench.load_generators import dripping
from tests.bench.percentiles import Sample
from tests.bench.results import Row, at_least, timed
from tests.bench.seed import Filled, run_import, settled, vector_dimension
from tests.bench.server import Server, running_server
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
            with opened_embedder(plan.embedder, Path(folder)) as embedder:
                embedder.embed_passages(texts[:8])
                before = passages_per_second(embedder, texts)
                rate = await _rate(server, texts)
                after = passages_per_second(embedder, texts)
            search_rows = await _searches_meanwhile(server, dimension, plan)
    alone = (before + after) / 2
    target = at_least(rate, _SHARE_OF_EMBEDDER * alone, "90 % of the embedder alone")
    name = f"{len(texts)} texts to embed, until searchable"
    return [Row(PART, name, rate, "memories/s", floor=alone, targets=(target,)), *search_rows]


async def _rate(server: Server, texts: list[str]) -> float:
    # Facts that nobody said at no time: so the text that is embedded is the content, as for the embedder alone.
    memories = [memory_pb.BatchMemory(memory=types_pb.Memory(content=text)) for text in texts]
    header = memory_pb.ImportHeader(scope=asking.scope("embedded"), wait_for=types_pb.WAIT_FOR_INDEXED)
    messages = [memory_pb.ImportMemoriesRequest(header=header)]
    for start in range(0, len(memories), asking.IMPORT_BATCH):
        part = memories[start : start + asking.IMPORT_BATCH]
        messages.append(memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(first_index=start, memories=part)))
    encoded = [message.SerializeToString() for message in messages]
    started = time.perf_counter()
    await run_import(server, encoded)
    return len(texts) / (time.perf_counter() - started)


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
