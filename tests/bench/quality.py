"""Retrieval quality: every conversation one user of one running service, every question a search.

Foreign questions measure the confidence in first hits, and ablations the share that a setting has in the quality.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.bench.conversations import ADVERSARIAL, Conversation, Probe, Said, digest, read_conversations
from tests.bench.cross_language import PAIRS, cross_language
from tests.bench.relevance import FirstHit, foreign_questions, relevance_rows
from tests.bench.requests import scope, timestamp
from tests.bench.results import CHANGE, QUESTIONS, Report, Row, Target, at_least
from tests.bench.scoring import DEPTH, Scores, SessionScores
from tests.bench.seed import rebuild_vectors, searchable, settled
from tests.bench.server import Server, running_server
from tests.bench.settings import RANKING, Plan

PART = "Quality"
ABLATIONS = "Ablations"
_BATCH = 100
_TARGETS: Mapping[str, Mapping[str, float]] = {
    "cross_language": {"R@10": 0.9, "MRR": 0.75},
    "locomo-dev": {"R@10": 0.825, "MRR": 0.66},
    "realtalk-dev": {"R@10": 0.58, "MRR": 0.52},
    "friends-dev": {"R@10": 0.757, "MRR": 0.559},
    "zh-dev": {"hit@5": 0.9},
    "madial-zh-dev": {"R@10": 0.57},
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

Stage = Callable[[str, int], Callable[[], None]]
Sets = Mapping[str, Sequence[Conversation]]
"""Conversations by the name of their data set, which is that of its file."""


@dataclass(frozen=True, slots=True)
class _Hit:
    """A hit, with the data's ids of its memory: several if lines are duplicates of each other."""

    memory_id: str
    ids: tuple[str, ...]
    score: float
    relevance: float | None

    @property
    def confidence(self) -> float:
        """Return the relevance, or the score of a service that has none."""
        return self.score if self.relevance is None else self.relevance

    def as_json(self) -> dict[str, Any]:
        """Return the hit as a line of questions holds it."""
        found: dict[str, Any] = {"ids": list(self.ids), "score": round(self.score, 6)}
        return found if self.relevance is None else {**found, "relevance": round(self.relevance, 6)}


@dataclass(frozen=True, slots=True)
class _Answer:
    """A question with its hits.

    Attributes:
        ranks: The rank of each evidence, or None if it is not among the hits; empty for a foreign question.
        scores: None for a foreign question.
        sessions: None for a foreign question, and for data without sessions.
    """

    data_set: str
    conversation: str
    ranking: str
    question: Probe
    hits: tuple[_Hit, ...]
    ranks: Mapping[str, int | None]
    scores: Scores | None
    sessions: SessionScores | None = None

    def first_hit(self) -> FirstHit:
        """Return the first hit with its confidence."""
        confidence = self.hits[0].confidence if self.hits else 0.0
        return FirstHit(self.question.text, confidence, is_right=1 in self.ranks.values())

    def as_json(self, ablation: str) -> dict[str, Any]:
        """Return the line of this question."""
        return {
            "set": self.data_set,
            "conversation": self.conversation,
            "language": self.question.language,
            "category": self.question.category,
            "ablation": ablation,
            "ranking": self.ranking,
            "foreign": self.scores is None,
            "question": self.question.text,
            "ranks": dict(self.ranks),
            "scores": {} if self.scores is None else asdict(self.scores),
            "sessions": {} if self.sessions is None else asdict(self.sessions),
            "hits": [hit.as_json() for hit in self.hits],
        }


@dataclass(frozen=True, slots=True)
class _Service:
    """A service that holds the data sets: the ids of memories by the data's ids, for each conversation."""

    server: Server
    sets: Sets
    memory_ids: Mapping[str, Mapping[str, str]]


async def measure_quality(plan: Plan, report: Report, told: Stage) -> None:
    """Search every question in each ranking and every foreign one in the first, then repeat it for each ablation."""
    sets = _data_sets(plan)
    async with _service(plan.server, sets, told) as service:
        own = {ranking: await _own_answers(service, ranking, told) for ranking in plan.rankings}
        foreign = await _foreign_answers(service, plan.rankings[0], told)
    for ranking, answers in own.items():
        for name in sets:
            report.add(*_rows(name, ranking, [one for one in answers if one.data_set == name]))
        report.questions += [one.as_json("") for one in answers]
    first = own[plan.rankings[0]]
    report.add(*_relevance_rows(sets, first, foreign))
    report.questions += [one.as_json("") for one in foreign]
    for ablation, settings in plan.ablations.items():
        ranking = settings.get(RANKING, plan.rankings[0])
        server = {**plan.server, **{path: value for path, value in settings.items() if path != RANKING}}
        async with _service(server, sets, told) as service:
            answers = await _own_answers(service, ranking, told)
        report.add(*_change_rows(sets, ablation, first, answers))
        report.questions += [one.as_json(ablation) for one in answers]
    report.notes += [f"{path.name}: {digest(path)}" for path in (PAIRS, *plan.data)]


def _data_sets(plan: Plan) -> Sets:
    files = {path.stem: _sample(read_conversations(path), plan.sample) for path in plan.data}
    return {PAIRS.stem: [cross_language()]} | {
        name: conversations[:1] if plan.is_quick else conversations for name, conversations in files.items()
    }


def _sample(conversations: list[Conversation], most: int) -> list[Conversation]:
    """Return at most so many conversations, those whose names have the least digests; all for 0."""
    by_digest = sorted(conversations, key=lambda one: hashlib.sha256(one.name.encode()).digest())
    chosen = {one.name for one in by_digest[: most or None]}
    return [one for one in conversations if one.name in chosen]


@asynccontextmanager
async def _service(settings: Mapping[str, str], sets: Sets, told: Stage) -> AsyncIterator[_Service]:
    """Start a service, load every conversation and let the service settle."""
    conversations = [one for several in sets.values() for one in several]
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        async with running_server(Path(folder) / "data", settings) as server:
            step = told("quality: import and embedding", sum(-(-len(one.lines) // _BATCH) for one in conversations))
            memory_ids = {one.name: await _load(server, one, step) for one in conversations}
            await searchable(server)
            await settled(server)
            # The means of languages are those of the memories that were there at the last rebuild, which depends on
            # the speed of the import: in two runs of three data sets R@10 of one was 0.90 and 0.76.
            await rebuild_vectors(server)
            yield _Service(server, sets, memory_ids)


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
        kind=types_pb.MEMORY_KIND_MESSAGE if line.speaker else types_pb.MEMORY_KIND_FACT,
        speaker=line.speaker,
        event_time=timestamp(line.time) if line.time else None,
    )


async def _own_answers(service: _Service, ranking: str, told: Stage) -> list[_Answer]:
    """Search each conversation for its own questions."""
    conversations = [(name, one) for name, several in service.sets.items() for one in several]
    step = told(f"quality: questions ({ranking})", sum(len(one.questions) for _, one in conversations))
    answers = []
    for name, one in conversations:
        for question in one.questions:
            hits = await _search(service, one.name, question, ranking)
            answers.append(_scored(name, one, ranking, question, hits, service.memory_ids[one.name]))
            step()
    return answers


async def _foreign_answers(service: _Service, ranking: str, told: Stage) -> list[_Answer]:
    """Search each conversation for questions of other ones."""
    foreign = foreign_questions(service.sets)
    step = told("quality: foreign questions", sum(map(len, foreign.values())))
    answers = []
    for (name, conversation), questions in foreign.items():
        for question in questions:
            hits = await _search(service, conversation, question, ranking)
            answers.append(_Answer(name, conversation, ranking, question, hits, {}, None))
            step()
    return answers


async def _search(service: _Service, user: str, question: Probe, ranking: str) -> tuple[_Hit, ...]:
    request = search_pb.SearchRequest(scope=scope(user), query=question.text, limit=DEPTH)
    request.MergeFrom(RANKINGS[ranking])
    reply: search_pb.SearchResponse = await service.server.searches.Search(request)
    if reply.degraded:
        raise ValueError(question.text, reply.degraded[0].message)
    data_ids: dict[str, list[str]] = defaultdict(list)
    for data_id, memory_id in service.memory_ids[user].items():
        data_ids[memory_id].append(data_id)
    return tuple(_Hit(hit.memory.id, tuple(data_ids[hit.memory.id]), hit.score, _relevance(hit)) for hit in reply.hits)


def _relevance(hit: search_pb.Hit) -> float | None:
    """Return the relevance of a hit, or None if the API or this hit has none."""
    field = hit.DESCRIPTOR.fields_by_name.get("relevance")
    if field is None or (field.has_presence and not hit.HasField(field.name)):  # type: ignore[arg-type]  # may exist
        return None
    relevance: float = getattr(hit, field.name)
    return relevance


def _scored(
    name: str, told: Conversation, ranking: str, question: Probe, hits: tuple[_Hit, ...], memory_ids: Mapping[str, str]
) -> _Answer:
    evidence = [data_id for data_id in question.evidence if data_id in memory_ids]
    found = [hit.memory_id for hit in hits]
    rank_of = {memory_id: rank for rank, memory_id in enumerate(found, start=1)}
    ranks = {data_id: rank_of.get(memory_ids[data_id]) for data_id in evidence}
    scores = Scores.of(found, {memory_ids[data_id] for data_id in evidence})
    session_of = {line.id: line.session for line in told.lines if line.session}
    wanted = {session_of[one] for one in evidence if one in session_of}
    seen = [session_of[data_id] for hit in hits for data_id in hit.ids[:1] if data_id in session_of]
    sessions = SessionScores.of(seen, wanted) if wanted else None
    return _Answer(name, told.name, ranking, question, hits, ranks, scores, sessions)


def _judged(answers: Sequence[_Answer]) -> list[Scores]:
    """Return the scores of all but adversarial questions."""
    return [one.scores for one in answers if one.scores is not None and one.question.category != ADVERSARIAL]


def _rows(name: str, ranking: str, answers: Sequence[_Answer]) -> list[Row]:
    """Return the rows of a data set: all questions, then each category if there are several."""
    categories = sorted({one.question.category for one in answers})
    grouped = {"all": [one for one in answers if one.question.category != ADVERSARIAL]}
    for category in categories if len(categories) > 1 else ():
        grouped[f"category {category}"] = [one for one in answers if one.question.category == category]
    groups = {group: [one.scores for one in several if one.scores is not None] for group, several in grouped.items()}
    sessions_of = {
        group: [one.sessions for one in several if one.sessions is not None] for group, several in grouped.items()
    }
    label = name if ranking == "default" else f"{name} ({ranking})"
    wanted = _TARGETS.get(name, {}) if ranking == "default" else {}
    rows = []
    for group, several in groups.items():
        if several:
            bounds = wanted if group == "all" else {}
            rows.append(Row(PART, f"{label}, {group}", len(several), QUESTIONS))
            rows += [
                Row(PART, f"{label}, {group}", value, measure, targets=_target(value, bounds, measure))
                for measure, value in Scores.mean(several).named().items()
            ]
            sessions = sessions_of[group]
            if len(sessions) == len(several):
                means = SessionScores.mean(sessions).named().items()
                rows += [Row(PART, f"{label}, {group}", value, measure) for measure, value in means]
    return rows


def _target(value: float, wanted: Mapping[str, float], measure: str) -> tuple[Target, ...]:
    return (at_least(value, wanted[measure], f"{wanted[measure]:g}"),) if measure in wanted else ()


def _relevance_rows(sets: Sets, own: Sequence[_Answer], foreign: Sequence[_Answer]) -> list[Row]:
    confidence = "relevance" if any(hit.relevance is not None for one in own for hit in one.hits) else "score"
    rows = []
    for name in sets:
        asked = [one.first_hit() for one in own if one.data_set == name and one.question.category != ADVERSARIAL]
        unanswerable = [one.first_hit() for one in foreign if one.data_set == name]
        rows += relevance_rows(name, confidence, asked, unanswerable)
    return rows


def _change_rows(sets: Sets, ablation: str, before: Sequence[_Answer], after: Sequence[_Answer]) -> list[Row]:
    """Return the change of each measure of each data set by an ablation."""
    rows = []
    for name in sets:
        old, new = ([one for one in answers if one.data_set == name] for answers in (before, after))
        if scores := _judged(old):
            means = Scores.mean(scores).named()
            rows.append(Row(ABLATIONS, f"{ablation}: {name}", len(scores), QUESTIONS))
            rows += [
                Row(ABLATIONS, f"{ablation}: {name}", value - means[measure], CHANGE + measure)
                for measure, value in Scores.mean(_judged(new)).named().items()
            ]
    return rows
