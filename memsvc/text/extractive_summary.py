"""A summary of a conversation made of its own sentences.

SumBasic with inverse document frequencies (frequent words matter, and matter less once they were said), and a few
signs of what is worth keeping: numbers and names, words of deciding and preferring, statements rather than questions.
A test holds it to find more of the marked facts of conversations in both languages than the first sentences or the
longest ones do in the same room.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memsvc.text.analysis import query_terms
from memsvc.text.sentences import merge_sentences

MOST_SENTENCES = 4_000
"""Later ones of a still longer conversation win over earlier ones."""
SENTENCE_CHARS = 300
"""Where a long sentence is cut."""
_LEAST_TERMS = 2
_MOST_CHOICES = 64

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUESTION = re.compile(r"[?？]\s*\Z|[吗呢么]\s*[。？?]?\s*\Z")
_NUMBER = re.compile(r"\d|[一二三四五六七八九十百千]+[月日号点年周]|周[一二三四五六日天]|星期[一二三四五六日天]")
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]+|\b[A-Z]{2,}\b")
_CUE = re.compile(
    r"\b(?:decid\w*|agree\w*|choose|chose|chosen|prefer\w*|must|never|always|deadline|because|instead|remember"
    r"|important|plan(?:s|ned)?|will|live[sd]?|moved|born|work(?:s|ed)? (?:at|as|for)|allerg\w*|like[sd]?|hate[sd]?)\b"
    r"|决定|确定|同意|选择|选了|选用|必须|不要|永远|总是|截止|因为|改成|改为|换成|记住|记得|重要|计划|打算|住在|搬到|搬家"
    r"|出生|工作|过敏|喜欢|讨厌|负责|约定|偏好|首选",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """A statement of a speaker."""

    speaker: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    speaker: str
    text: str
    terms: tuple[str, ...]
    weight: float


def summary_of(lines: Sequence[SummaryLine], *, most_tokens: int, count: Callable[[str], int]) -> str:
    """Return the sentences of *lines* that say most, in their order, a line for each with its speaker.

    Together they take at most *most_tokens* as *count* counts them; when not even one sentence fits, the beginning of
    the best one is returned, so that a conversation with any words in it never has an empty summary.
    """
    sentences = _sentences(lines)
    chosen: list[_Sentence] = []
    used = 0
    for sentence in _by_worth(sentences):
        cost = count(_display_text(sentence)) + 1
        if used + cost <= most_tokens:
            chosen.append(sentence)
            used += cost
    if not chosen:
        return _truncate_sentence(sentences, lines, most_tokens, count)
    return "\n".join(_display_text(sentence) for sentence in sorted(chosen, key=lambda one: one.place))


def quoted_by(summary: str, lines: Sequence[SummaryLine]) -> list[tuple[str, frozenset[int]]]:
    """Return the lines of *summary*, each with the places of those of *lines* of which it is a sentence.

    A line that `summary_of` did not make of *lines* has none.
    """
    flat = [_flat(_CODE.sub(" ", line.text)) for line in lines]
    found: list[tuple[str, frozenset[int]]] = []
    for line in summary.splitlines():
        places = set()
        for place, source in enumerate(lines):
            head = f"{source.speaker}: " if source.speaker else ""
            sentence = line.removeprefix(head).rstrip("…")
            if line.startswith(head) and sentence and sentence in flat[place]:
                places.add(place)
        if line.strip():
            found.append((line, frozenset(places)))
    return found


def _flat(text: str) -> str:
    return " ".join(text.split())


def _sentences(lines: Sequence[SummaryLine]) -> list[_Sentence]:
    found: list[_Sentence] = []
    seen: set[str] = set()
    for line in lines:
        for text in merge_sentences(_CODE.sub(" ", line.text), min_chars=20, min_han_chars=8):
            flat = _flat(text)
            if flat in seen:
                continue
            seen.add(flat)
            terms = tuple(query_terms(flat))
            weight = line.weight * _worth(flat)
            found.append(_Sentence(len(found), line.speaker, _truncate(flat), terms, weight))
    return [sentence for sentence in found[-MOST_SENTENCES:] if len(sentence.terms) >= _LEAST_TERMS]


def _worth(text: str) -> float:
    worth = 1.0
    if _NUMBER.search(text):
        worth += 0.5
    if _NAME.search(text):
        worth += 0.3
    if _CUE.search(text):
        worth += 0.7
    return worth * 0.4 if _QUESTION.search(text) else worth


def _by_worth(sentences: Sequence[_Sentence]) -> list[_Sentence]:
    """Return the sentences by what each adds to those before it, equal ones by place."""
    frequencies = Counter(term for sentence in sentences for term in sentence.terms)
    total = len(sentences)
    weights = {term: math.log1p(number) * math.log1p(total / number) for term, number in frequencies.items()}
    # Scores only fall: one that is still the best when recomputed beats all others without computing theirs.
    waiting = [(-_score(sentence, weights), number) for number, sentence in enumerate(sentences)]
    heapq.heapify(waiting)
    ordered: list[_Sentence] = []
    while waiting and len(ordered) < _MOST_CHOICES:
        _, number = heapq.heappop(waiting)
        best = (-_score(sentences[number], weights), number)
        if waiting and best > waiting[0]:
            heapq.heappush(waiting, best)
            continue
        ordered.append(sentences[number])
        for term in sentences[number].terms:
            weights[term] *= 0.3
    return ordered


def _score(sentence: _Sentence, weights: dict[str, float]) -> float:
    return sentence.weight * sum(weights[term] for term in sentence.terms) / math.sqrt(len(sentence.terms) + 4)


def _truncate_sentence(
    sentences: Sequence[_Sentence], lines: Sequence[SummaryLine], most_tokens: int, count: Callable[[str], int]
) -> str:
    if sentences:
        text = _display_text(_by_worth(sentences)[0])
    else:
        text = next((_flat(line.text) for line in lines if line.text.strip()), "")
    while text and count(text) > most_tokens:
        text = text[: len(text) // 2]
    return text


def _display_text(sentence: _Sentence) -> str:
    return f"{sentence.speaker}: {sentence.text}" if sentence.speaker else sentence.text


def _truncate(text: str) -> str:
    return text if len(text) <= SENTENCE_CHARS else f"{text[: SENTENCE_CHARS - 1]}…"
