"""What functions of texts remember, and that all of it can be forgotten."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from importlib import import_module
from types import ModuleType
from typing import Any

import memsvc.domain
import memsvc.engine
import memsvc.text
from memsvc.domain.text_cache import forget_texts, remembered
from memsvc.text.analysis import matching_spans, query_terms
from memsvc.text.paraphrase import gist_of

TEXT = "Anna's brother lives in Genf, 他喜欢爬山。"


def remembering() -> Iterator[_lru_cache_wrapper[Any]]:
    """Yield the functions that remember a bounded number of answers about texts."""
    for package in (memsvc.domain, memsvc.text, memsvc.engine):
        for module in map(_imported, pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper) and value.cache_parameters()["maxsize"]:
                    kinds = [str(one.annotation) for one in inspect.signature(value).parameters.values()]
                    if any("str" in kind for kind in kinds):
                        yield value


def _imported(found: pkgutil.ModuleInfo) -> ModuleType:
    return import_module(found.name)


def test_no_text_is_left_after_forgetting() -> None:
    """In no function of the service, whoever adds one."""
    gist_of(TEXT)
    matching_spans(TEXT, frozenset(query_terms("brother 爬山")))
    assert sum(one.cache_info().currsize for one in remembering()) > 3

    forget_texts()

    assert {one.__qualname__: 0 for one in remembering()} == {
        one.__qualname__: one.cache_info().currsize for one in remembering()
    }


def test_answers_are_remembered() -> None:
    """Until they are forgotten."""
    asked: list[str] = []

    @remembered(2)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [3, 3] == [length("abc"), length("abc")]
    forget_texts()
    assert length("abc") == 3
    assert ["abc", "abc"] == asked
