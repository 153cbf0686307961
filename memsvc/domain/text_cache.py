"""Functions of texts that remember their answers, and the one place where all of them forget."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

_REMEMBERING: list[_lru_cache_wrapper[Any]] = []


def remembered(most: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """Return a decorator as `functools.lru_cache` is, for the *most* answers; `forget_texts` drops them."""

    def decorated(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        remembering = lru_cache(maxsize=most)(function)
        _REMEMBERING.append(remembering)
        return remembering

    return decorated


def forget_texts() -> None:
    """Drop every answer, and with it every text that was asked about: an erased user's texts are among them."""
    for remembering in _REMEMBERING:
        remembering.cache_clear()
