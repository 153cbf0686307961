"""Retrieval quality: every conversation one user of one running service, every question a search."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.conversations import ADVERSARIAL, Conversation, Probe, Said, digest, read_conversations
from tests.bench.cross_language import PAIRS, cross_language
from tests.bench.requests import scope, timestamp
from tests.bench.results import Report, Row, Target, at_least
from tests.bench.scoring import DEPTH, Scores
from tests.bench.seed import searchable, settled
from tests.bench.server import Server, running_server
from tests.bench.settings import Plan

PART = "Quality"
_BATCH = 100
_TARGETS: Mapping[str, Mapping[str, float]] = {
    "cross_language": {"recall@10": 0.9, "MRR": 0.75},
    "locomo-dev": {"recall@10": 0.825, "MRR": 0.66},
    "realtalk-dev": {"recall@10": 0.58, "MRR": 0.52},
    "friends-dev": {"recall@10": 0.757, "MRR": 0.559},
    "zh-dev": {"hit@5": 0.9},
    "madial-zh-dev": {"recall@10": 0.57},
}
"""By the name of the file."""

_WEIGHTED = search_pb.FUSION_METHOD_WEIGHTED
RANKINGS: Mapping[str, search_pb.SearchRequest] = {
    "default": search_pb.SearchRequest(),
    "semantic": search_pb.SearchRequest(mode=search_pb.SEARCH_MODE_SEMANTIC),
    "keyword": search_pb.SearchRequest(mode=search_pb.SEARCH_MODE_KEYWORD),
    "rrf": search_pb.SearchRequest(fusion=search_pb.Fusion(method=search_pb.FUSION_METHOD_RECIPROCAL_RANK)),
    "weighted": search_pb.SearchRequest(fusion=search_pb.Fusion(method=_WEIGHTED)),
    "dense70": search_pb.SearchRequest(fusion=search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_70_BM25_30)),
    "dense60": search_pb.SearchRequest(fusion=search_pb.Fusion(preset=search_pb.FUSION_PRESET_DENSE_60_KEYWORD_40)),
}
"""The ways of ranking that can be compared, as what a search sets beside its question."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A conversation in the service: the ids of its memories by the data's ids, and back."""

    file: Path
    conversation: Conversation
    memory_ids: Mapping[str, str]

    def data_ids(self) -> dict[str, list[str]]:
        """Return the data's ids of each memory: several where lines are duplicates of each other."""
        found: dict[str, list[str]] = defaultdict(list)
        for data_id, memory_id in self.memory_ids.items():
            found[memory_id].append(data_id)
        return found


async def measure_quality(plan: Plan, report: Report, told: Callable[[str, int], Callable[[], None]]) -> None:
    """Load every file's conversations into one service, let it settle, and search every question each way."""
    files = [(path, read_conversations(path)) for path in plan.data]
    if plan.is_quick:
        files = [(path, conversations[:1]) for path, conversations in files]
    files = [(PAIRS, [cross_language()]), *files]
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with running_server(Path(folder) / "data", plan.server) as server:
            lines = sum(len(one.lines) for _, conversations in files for one in conversations)
            step = told("quality: importing and embedding", lines // _BATCH + 1)
            loaded = [
                _Loaded(path, one, await _load(server, one, step))
                for path, conversations in files
                for one in conversations
            ]
            await searchable(server)
            await settled(server)
            for ranking in plan.rankings:
                await _ask_all(server, loaded, ranking, report, told)
    report.notes += [f"{path.name}: {digest(path)}" for path, _ in files]


async def _load(server: Server, conversation: Conversation, step: Callable[[], None]) -> dict[str, str]:
    memory_ids: dict[str, str] = {}
    for start in range(0, len(conversation.lines), _BATCH):
        lines = conversation.lines[start : start + _BATCH]
        request = memory_pb.BatchCreateMemoriesRequest(
            scope=scope(conversation.name),
            memories=[memory_pb.BatchMemory(memory=_memory(line)) for line in lines],
            wait_for=types_pb.WAIT_FOR_INDEXED,
        )
        reply: memory_pb.BatchCreateMemoriesResponse = await server.memories.BatchCreateMemories(request, timeout=600)
        for line, result in zip(lines, reply.results, strict=True):
            if result.status.code:
                raise ValueError(line.id, result.status.message)
            memory_ids[line.id] = result.memory.id
        step()
    return memory_ids


def _memory(line: Said) -> types_pb.Memory:
    return types_pb.Memory(
        scope=types_pb.Scope(session_id=line.session),
        content=line.text,
        speaker=line.speaker,
        event_time=timestamp(line.time) if line.time else None,
    )


async def _ask_all(
    server: Server,
    loaded: Sequence[_Loaded],
    ranking: str,
    report: Report,
    told: Callable[[str, int], Callable[[], None]],
) -> None:
    scored: dict[Path, list[tuple[Probe, Scores]]] = defaultdict(list)
    step = told(f"quality: asking ({ranking})", sum(len(one.conversation.questions) for one in loaded))
    for one in loaded:
        for question in one.conversation.questions:
            hits = await _search(server, one, question, ranking)
            evidence = {one.memory_ids[data_id] for data_id in question.evidence if data_id in one.memory_ids}
            scores = Scores.of([memory_id for memory_id, _ in hits], evidence)
            scored[one.file].append((question, scores))
            report.questions.append(_kept(one, question, ranking, hits, scores))
            step()
    is_judged = ranking == "default"
    for path, found in scored.items():
        report.add(*_rows(f"{path.stem} ({ranking})", path.stem if is_judged else "", found))


async def _search(server: Server, one: _Loaded, question: Probe, ranking: str) -> list[tuple[str, float]]:
    request = search_pb.SearchRequest(scope=scope(one.conversation.name), query=question.text, limit=DEPTH)
    request.MergeFrom(RANKINGS[ranking])
    reply: search_pb.SearchResponse = await server.searches.Search(request)
    if reply.degraded:
        raise ValueError(question.text, reply.degraded[0].message)
    return [(hit.memory.id, hit.score) for hit in reply.hits]


def _kept(
    one: _Loaded, question: Probe, ranking: str, hits: Iterable[tuple[str, float]], scores: Scores
) -> dict[str, Any]:
    """Return the line that is kept of a question."""
    data_ids = one.data_ids()
    return {
        "file": one.file.name,
        "conversation": one.conversation.name,
        "ranking": ranking,
        "category": question.category,
        "question": question.text,
        "evidence": list(question.evidence),
        **asdict(scores),
        "hits": [{"ids": data_ids[memory_id], "score": round(score, 6)} for memory_id, score in hits],
    }


def _rows(name: str, data_set: str, found: Sequence[tuple[Probe, Scores]]) -> list[Row]:
    groups: dict[str, list[Scores]] = {"all": [s for question, s in found if question.category != ADVERSARIAL]}
    for category in sorted({question.category for question, _ in found}):
        groups[f"category {category}"] = [scores for question, scores in found if question.category == category]
    rows = []
    for group, several in groups.items():
        wanted = _TARGETS.get(data_set, {}) if group == "all" else {}
        means = Scores.mean(several).named() if several else {}
        rows += [
            Row(
                PART,
                f"{name}, {group} (n={len(several)})",
                value,
                measure,
                targets=_target(value, wanted, measure),
            )
            for measure, value in means.items()
        ]
    return rows


def _target(value: float, wanted: Mapping[str, float], measure: str) -> tuple[Target, ...]:
    return (at_least(value, wanted[measure], f"{wanted[measure]:.2f}"),) if measure in wanted else ()
