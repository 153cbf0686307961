"""Processes of two versions on one lexical index, as while replicas are upgraded one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import Chunk, Document
from memsvc.domain.scope import Reach
from memsvc.engine.indexing.index_writers import LexicalIndexWriter, is_newer_analysis
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import memory
from memsvc.text.analysis import query_terms
from memsvc_backends.in_memory import LEXICAL
from memsvc_backends.postgres_index import FULLTEXT
from memsvc_backends.postgres_index.settings import FulltextSettings
from tests.support.postgres_server import without_tables

CONTEXT = BackendContext(Path(), lambda: datetime.now(UTC))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Hold what is open."""
    with ExitStack() as stack:
        yield stack


def _index(stack: ExitStack, url: str) -> LexicalIndex:
    return stack.enter_context(FULLTEXT.open(FulltextSettings(url=SecretStr(url)), CONTEXT))


def _build(writer: LexicalIndexWriter, *documents: Document) -> None:
    made = writer.begin_generation(position=0, sample=lambda: iter(documents), total=len(documents))
    made.write([one.memory.row for one in documents], documents)
    made.seal()
    made.switch()


@pytest.mark.parametrize(("content", "query"), [("The walrus swims.", "walrus"), ("海象在游泳。", "海象")])
def test_the_older_version_serves_the_index_of_the_newer_one(stack: ExitStack, content: str, query: str) -> None:
    """It is rebuilt once, by the newer version; versions are compared as numbers."""
    url = without_tables("versions")
    old, new = (LexicalIndexWriter(_index(stack, url), SearchPriority(), analysis) for analysis in ("9", "10"))
    document = Document(memory(content), (Chunk(0, content, (), 1, 1),))
    _build(old, document)
    assert (old.is_stale(), new.is_stale()) == (False, True)

    _build(new, document)
    index = _index(stack, url)
    assert (LexicalIndexWriter(index, SearchPriority(), "9").is_stale(), new.is_stale()) == (False, False)
    assert index.manifest is not None
    assert is_newer_analysis(index.manifest, index, "9")
    assert not is_newer_analysis(index.manifest, index, "10")
    reach = Reach(document.memory.scope.owner, (document.memory.scope.project_id,))
    assert index.search(query_terms(query), reach=reach, limit=9, deadline=Deadline())


@pytest.mark.parametrize("analysis", ["9", "", "x"])
def test_an_older_or_unknown_analysis_is_stale(stack: ExitStack, analysis: str) -> None:
    """What is no number is of no newer version."""
    index = _index(stack, without_tables("versions"))
    _build(LexicalIndexWriter(index, SearchPriority(), analysis))
    assert LexicalIndexWriter(index, SearchPriority(), "10").is_stale()


def test_an_index_of_one_process_is_rebuilt_by_an_older_version_too(stack: ExitStack) -> None:
    """No newer process is there to write it by its analysis."""
    index = stack.enter_context(LEXICAL.open(LEXICAL.settings(), CONTEXT))
    _build(LexicalIndexWriter(index, SearchPriority(), "10"))
    assert LexicalIndexWriter(index, SearchPriority(), "9").is_stale()


def test_more_fields_in_the_manifest_are_ignored_and_an_unreadable_one_is_not_rebuilt(stack: ExitStack) -> None:
    """The index of another version is never taken for a missing one."""
    url = without_tables("versions")
    _build(LexicalIndexWriter(_index(stack, url), SearchPriority(), "10"))
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("UPDATE index_generations SET manifest = replace(manifest, '{', '{\"more\": 1, ')")
        writer = LexicalIndexWriter(_index(stack, url), SearchPriority(), "10")
        assert not writer.is_stale()
        database.execute("UPDATE index_generations SET manifest = replace(manifest, 'analysis', 'analyses')")
    with pytest.raises(BackendUnavailableError, match="if a newer one made it"):
        _index(stack, url)
