"""Word segmentation of Han text by jieba's dictionary, loaded on first use."""

from __future__ import annotations

import importlib
import unicodedata
from functools import cache
from typing import Protocol, cast


class Segmenter(Protocol):
    """The part of rjieba in use; its calls only read, so threads may share it."""

    def cut(self, text: str) -> list[str]:
        """Cut *text* into words that do not overlap."""
        ...

    def cut_for_search(self, text: str) -> list[str]:
        """Cut *text* into words and the shorter words inside them."""
        ...

    def tokenize(self, text: str, mode: str) -> list[tuple[str, int, int]]:
        """Cut *text* as `cut_for_search` does when *mode* is "search", with offsets in characters."""
        ...


@cache
def segmenter() -> Segmenter:
    """Return the shared segmenter; the first call loads the dictionary (0.2 s).

    Threads that race for the first call meet in Python's import lock: the dictionary is loaded once.
    """
    return cast("Segmenter", importlib.import_module("rjieba"))


def normal_form(run: str) -> str:
    """Return the Han *run* in NFKC, always of the same length, so that offsets stay true."""
    if unicodedata.is_normalized("NFKC", run):
        return run
    normal = unicodedata.normalize("NFKC", run)
    return normal if len(normal) == len(run) else run
