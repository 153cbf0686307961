"""The words that a file is found by: of its name, its category in both languages, its media type and its metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from memsvc.domain.files import File, FileCategory
from memsvc.domain.memory import Json
from memsvc.text.analysis import terms

NAME_WEIGHT = 1.0
CATEGORY_WEIGHT = 0.7
METADATA_WEIGHT = 0.5
MOST_TERMS = 512
"""So many words of one file are kept; those of its name come first."""
_TEXT_CHARS = 4_096

_CATEGORY_WORDS: Mapping[FileCategory, str] = {
    FileCategory.ARTIFACT: "artifact 产物 结果",
    FileCategory.UPLOAD: "upload 上传",
    FileCategory.REPORT: "report 报告 报表",
    FileCategory.CHART: "chart 图表",
    FileCategory.CACHE: "cache 缓存",
    FileCategory.TEMP: "temp temporary 临时",
    FileCategory.MEMORY: "memory attachment 记忆 附件",
}


def file_terms(file: File) -> dict[str, float]:
    """Return the words with their weights, over 0 to 1; of a repeated one the largest counts."""
    weights: dict[str, float] = {}
    for text, weight in _texts(file):
        for term in terms(text[:_TEXT_CHARS]):
            weights[term] = max(weight, weights.get(term, 0.0))
    return dict(islice(weights.items(), MOST_TERMS))


def _texts(file: File) -> Iterator[tuple[str, float]]:
    # A name such as "sales_2024-q1.xlsx" is of words, too.
    yield file.name, NAME_WEIGHT
    yield "".join(char if char.isalnum() else " " for char in file.name), NAME_WEIGHT
    yield _CATEGORY_WORDS[file.category], CATEGORY_WEIGHT
    yield file.media_type.replace("/", " "), METADATA_WEIGHT
    for text in _strings(file.metadata):
        yield text, METADATA_WEIGHT


def _strings(value: Json | Mapping[str, Json]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name in sorted(value):
            yield from _strings(value[name])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)
