"""Two indexes on a Qdrant server, beside the same two queries sent together to the same collections."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from qdrant_client import QdrantClient, models

from memsvc.domain.clock import Deadline
from memsvc.domain.index_entries import View
from memsvc.domain.scope import Reach, Scope
from memsvc.text.analysis import query_terms
from memsvc_backends.qdrant_server.bm25_terms import query_vector
from memsvc_backends.qdrant_server.connection import ServerConnection, open_connection
from memsvc_backends.qdrant_server.points import filter_within
from memsvc_backends.qdrant_server.settings import QdrantServerSettings
from memsvc_backends.qdrant_server.sparse_index import VECTOR
from tests.bench import requests as asking
from tests.bench.load_generators import WARM_UP, one_by_one, undisturbed
from tests.bench.postgres import database
from tests.bench.results import Row, Sample, at_most, timed
from tests.bench.seed import fill, settled, vector_dimension
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus, Question
from tests.support.qdrant_fake import stand_in

PART = "Cluster"
USERS = 50
DEPTH = 100
LARGEST_STAND_IN = 1_000
"""The stand-in scans everything in Python."""
PREFIX = "memsvc-bench"
_TIMES_RAW = 1.6


@dataclass(frozen=True, slots=True)
class _Qdrant:
    """The server that is measured.

    Attributes:
        url: Its address for gRPC.
        is_real: Whether it is a Qdrant; else it is the stand-in, and durations say nothing of a real one.
    """

    url: str
    is_real: bool


async def measure_cluster(plan: Plan, stage: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Fill a server, search it, and send the two queries of a search by hand, both at once.

    The Qdrant is that of MEMSVC_TEST_QDRANT_URL, or the stand-in with few memories.
    """
    async with _served(plan) as (server, qdrant):
        size = plan.sizes[-1] if qdrant.is_real else min(plan.sizes[-1], LARGEST_STAND_IN)
        corpus = Corpus(users=USERS, lines=size // USERS, dimension=await vector_dimension(server))
        told = stage(f"{size}: import into Qdrant", USERS)
        filled = await fill(server, [asking.import_messages(u, corpus.lines(u)) for u in corpus.users], told=told)
        await settled(server)
        told = stage(f"{size}: calls on Qdrant", 3)
        found: dict[str, Sample] = {}
        for name, request in (("hybrid", asking.hybrid), ("keyword", asking.keyword)):
            asked = [request(one) for one in corpus.questions(plan.searches + WARM_UP, purpose=name)]
            found[name] = Sample.of(await one_by_one(server.searches.Search, asked))
            told()
        raw = _measure_raw(qdrant, corpus.questions(plan.searches + WARM_UP, purpose="hybrid"))
        told()
    at = f"{size:,}".replace(",", " ") + ("" if qdrant.is_real else ", stand-in")
    limit = at_most(found["hybrid"].p50, _TIMES_RAW * raw.p50, "1.6 × the two queries sent together")
    targets = [limit] if qdrant.is_real else []
    return [
        timed(PART, f"{at}: both queries sent together, top {DEPTH} of a user", raw),
        timed(PART, f"{at}: Search hybrid, vector given", found["hybrid"], floor=raw.p50, targets=targets),
        timed(PART, f"{at}: Search keyword", found["keyword"]),
        Row(PART, f"{at}: import until stored", filled.memories / filled.stored_seconds, "memories/s"),
        Row(PART, f"{at}: import until searchable", filled.memories / filled.searchable_seconds, "memories/s"),
    ]


def _measure_raw(qdrant: _Qdrant, questions: Sequence[Question]) -> Sample:
    settings = _settings(qdrant)
    seconds = []
    with closing(open_connection(settings, "bench")) as connection, undisturbed():
        found = connection.ask("get_aliases").aliases
        live = {one.alias_name.removeprefix(f"{PREFIX}-"): one.collection_name for one in found}
        for question in questions:
            started = time.perf_counter()
            _ask_both(connection, live["vectors"], live["lexical"], question)
            seconds.append(time.perf_counter() - started)
    return Sample.of(seconds[min(WARM_UP, len(seconds) - 1) :])


def _ask_both(connection: ServerConnection, vectors: str, words: str, question: Question) -> None:
    reach = Reach(Scope(question.user).owner, ("",))
    terms = query_terms(question.text)
    dense = models.QueryRequest(
        query=list(question.vector), filter=filter_within(reach, View.CHUNK), limit=DEPTH, with_payload=False
    )
    sparse = models.QueryRequest(
        query=query_vector(terms, [1.0] * len(terms)),
        using=VECTOR,
        filter=filter_within(reach),
        limit=DEPTH,
        with_payload=False,
    )
    begun = [connection.begin_queries(name, [one], Deadline()) for name, one in ((vectors, dense), (words, sparse))]
    for answer in begun:
        answer()


def _settings(qdrant: _Qdrant) -> QdrantServerSettings:
    key = os.environ.get("MEMSVC_TEST_QDRANT_API_KEY")
    return QdrantServerSettings.model_validate({"url": qdrant.url, "api_key": key, "prefix": PREFIX})


@asynccontextmanager
async def _served(plan: Plan) -> AsyncIterator[tuple[Server, _Qdrant]]:
    with (
        TemporaryDirectory(prefix="memsvc-bench-") as folder,
        database(Path(folder) / "postgres") as postgres,
        _qdrant() as qdrant,
    ):
        chosen = {
            "profile": "cluster",
            "metadata.options.url": postgres,
            "vectors.options.url": qdrant.url,
            "vectors.options.prefix": PREFIX,
        }
        if key := os.environ.get("MEMSVC_TEST_QDRANT_API_KEY"):
            chosen["vectors.options.api_key"] = key
        async with running_server(Path(folder) / "data", {**plan.server, **chosen}) as server:
            yield server, qdrant


@contextmanager
def _qdrant() -> Iterator[_Qdrant]:
    """Lend a Qdrant without collections of ours, and remove those that were made."""
    if not (url := os.environ.get("MEMSVC_TEST_QDRANT_URL", "")):
        with stand_in() as address:
            yield _Qdrant(address, is_real=False)
        return
    qdrant = _Qdrant(url, is_real=True)
    _clear(qdrant)
    yield qdrant
    _clear(qdrant)


def _clear(qdrant: _Qdrant) -> None:
    settings = _settings(qdrant)
    [address] = settings.addresses
    with closing(
        QdrantClient(
            host=address.hostname,
            grpc_port=address.port or 6334,
            https=address.scheme == "https",
            api_key=None if settings.api_key is None else settings.api_key.get_secret_value(),
            prefer_grpc=True,
            check_compatibility=False,
        )
    ) as client:
        for one in client.get_collections().collections:
            if one.name.startswith(PREFIX):
                client.delete_collection(one.name)
