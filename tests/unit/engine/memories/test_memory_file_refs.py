"""References to files in memories: given, and found in the content by every way of writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsvc.domain.files import ref_from
from memsvc.domain.memory import FileRef, Memory
from memsvc.domain.write_requests import Draft, Patch, WriteOptions
from memsvc.engine.commit.idempotency import IdempotentExecutor
from memsvc.engine.memories.append import MemoryAppender
from memsvc.engine.records.memory_builder import MemoryBuilder, RecordBuilder
from memsvc.engine.runtime.search_priority import SearchPriority
from tests.unit.engine.memories.write_path import ADA, DIMENSION, MODEL, Desk, open_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as desk:
        yield desk


def refs(*texts: str) -> tuple[FileRef, ...]:
    return tuple(ref for text in texts if (ref := ref_from(text)) is not None)


def update(desk: Desk, memory: Memory, **values: Any) -> Memory:
    patch = Patch(values)
    options = WriteOptions()
    return desk.writing.revise.update(
        ADA, memory_id=memory.id, key="", patch=patch, expected_revision=0, options=options
    ).memory


def test_given_references_come_before_found_ones_each_once(desk: Desk) -> None:
    """In the order given, then in that of the content."""
    memory = desk.create("见 `chart:b` 和 ![图](artifact:a)", file_refs=refs("report:z", "artifact:a")).memory

    assert memory.file_refs == refs("report:z", "artifact:a", "chart:b")
    assert desk.stored(memory.id) == memory


def test_what_was_found_follows_a_change_of_the_content(desk: Desk) -> None:
    """Given ones stay; those found in the old content alone go."""
    memory = desk.create("See `chart:old` and `chart:kept`.", file_refs=refs("report:given")).memory

    after = update(desk, memory, content="See `chart:kept` and `chart:new`.")

    assert after.file_refs == refs("report:given", "chart:kept", "chart:new")


def test_references_given_anew_take_the_place_of_all_but_the_found_ones(desk: Desk) -> None:
    """Clearing them leaves what the content refers to."""
    memory = desk.create("See `chart:found`.", file_refs=refs("report:given")).memory

    changed = update(desk, memory, file_refs=refs("report:other"))
    cleared = update(desk, memory, file_refs=None)

    assert changed.file_refs == refs("report:other", "chart:found")
    assert cleared.file_refs == refs("chart:found")


def test_a_change_of_something_else_leaves_them(desk: Desk) -> None:
    """They are looked at only when content or references change."""
    memory = desk.create("See `chart:found`.", file_refs=refs("report:given")).memory

    assert update(desk, memory, title="T").file_refs == memory.file_refs


def test_writing_under_a_key_again_follows_the_new_content(desk: Desk) -> None:
    """As an update does."""
    desk.create("See `chart:old`.", key="k", file_refs=refs("report:given"))

    assert desk.create("See `chart:new`.", key="k").memory.file_refs == refs("report:given", "chart:new")


def test_an_append_adds_what_it_refers_to(desk: Desk) -> None:
    """To those that are there."""
    memory_builder = MemoryBuilder(model=MODEL, dimension=DIMENSION, now=desk.clock, search_priority=SearchPriority())
    requests = IdempotentExecutor(desk.writing.committer, desk.store.memories, desk.store.conflicts)
    record_builder = RecordBuilder(memory_builder, desk.store.feed)
    append = MemoryAppender(memory_builder, record_builder, requests, desk.store.memories, desk.clock)

    append.append(ADA, "daily/2026-02-06", "上午 `artifact:a`", separator=None, options=WriteOptions())
    written = append.append(ADA, "daily/2026-02-06", "下午 ![图](chart:b)", separator=None, options=WriteOptions())

    assert written.memory.file_refs == refs("artifact:a", "chart:b")


def test_batches_and_imports_find_them(desk: Desk) -> None:
    """As single writes do."""
    batch = desk.writing.remember.create_batch(ADA, [Draft("`report:q1`"), Draft("none")], WriteOptions())

    assert [result.memory.file_refs for result in batch.results] == [refs("report:q1"), ()]  # type: ignore[union-attr]  # none is rejected
