"""Near-duplicates by words alone: every backend has the words, and no model changes the result.

To show the same statement twice costs a line; to leave out another statement as if it were the same loses it. So every
doubt speaks for another statement: only long texts may differ in words at all, and in none that looks decisive.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

SHORT = 25
"""Texts of fewer words say the same only in the same words."""

_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_HAN}]|[^\s{_HAN}]+")
_HAN_CHAR = re.compile(rf"[{_HAN}]")
_EDGES = ".,;:!\"'()[]{}<>“”‘’„«»、。…·《》「」『』【】*_`~"
_ENDS = ".!?。"
_ARTICLES = frozenset(("a", "an", "the"))
_DECISIVE_WORDS = """
not no never none nothing nobody neither nor without cannot hardly rarely
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen half
quarter once twice first second third fourth fifth sixth seventh eighth ninth tenth last
monday tuesday wednesday thursday friday saturday sunday weekday weekend
january february march april may june july august september october november december
morning noon afternoon evening night midnight today tomorrow yesterday before after until since am pm
left right up down on off in out from to with
不 没 未 无 別 别 勿 莫 非 否 零 〇 一 二 两 三 四 五 六 七 八 九 十 百 千 万 亿 半 几 前 后 上 下 左 右 里 外 早 晚 午
今 明 昨 日 天 月 年 周 只 都 从 到 给 被 把
"""
_DECISIVE = frozenset(_DECISIVE_WORDS.split())


@dataclass(frozen=True)
class Shingles:
    """Words of a text in order, without punctuation at their edges, case and articles.

    Attributes:
        decisive: The words in which no two texts that say the same may differ, in order: numbers, negations, days,
            times, directions, and names that begin with a capital.
        beyond: Marker for further content, such as the rest of a long text.
        marks: Who said it, when it happened, and the like, each empty where it is not known: two texts with
            different marks at a place say different things.
    """

    words: tuple[str, ...]
    decisive: tuple[str, ...]
    beyond: str = ""
    marks: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, *, beyond: str = "", marks: tuple[str, ...] = ()) -> Shingles:
        """Return what *text* says."""
        words: list[str] = []
        decisive: list[str] = []
        begins = True
        for token in _TOKEN.findall(unicodedata.normalize("NFKC", text)):
            plain = token.strip(_EDGES)
            begun, begins = begins, token[-1] in _ENDS
            word = plain.casefold().replace("’", "'")
            if not word or word in _ARTICLES:
                continue
            words.append(word)
            if not word.isalpha() or word in _DECISIVE or (plain[0].isupper() and not begun):
                decisive.append(word)
        return cls(tuple(words), tuple(decisive), beyond, marks)

    @cached_property
    def is_short(self) -> bool:
        """Return whether there are so few words that each may decide."""
        return len(self.words) < SHORT

    @cached_property
    def bucket(self) -> tuple[str, tuple[str, ...]]:
        """Return what is equal in all texts that may say the same as this one."""
        return self.beyond, self.words if self.is_short else self.decisive

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Return the pairs of neighbouring words."""
        return frozenset(pairwise(self.words))


def is_near_duplicate(one: Shingles, other: Shingles, threshold: float) -> bool:
    """Return whether two texts say the same, or nearly.

    Short ones do in the same words. Long ones do when all that is decisive is the same and they share at least
    *threshold* of their pairs of neighbouring words. Texts without words are like none.
    """
    if one.words == other.words:
        is_like = bool(one.words) and one.beyond == other.beyond
    elif one.is_short or other.is_short or one.bucket != other.bucket:
        is_like = False
    else:
        is_like = _share(one.pairs, other.pairs, threshold)
    return is_like and not _differ(one.marks, other.marks)


def group_duplicates(sayings: Sequence[Shingles], threshold: float) -> list[list[int]]:
    """Return groups of places: each begins with one that is kept, followed by those that say nearly the same.

    A text is compared with the kept ones before it, the first that fits takes it; kept ones stay in order.
    """
    groups: list[list[int]] = []
    for place, saying in enumerate(sayings):
        for group in groups:
            if is_near_duplicate(sayings[group[0]], saying, threshold):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def _share(one: AbstractSet[object], other: AbstractSet[object], threshold: float) -> bool:
    few, many = len(one), len(other)
    if few < threshold * many or many < threshold * few:
        return False
    common = len(one & other)
    return common >= threshold * (few + many - common)


def _differ(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one != other and any(left and right and left != right for left, right in zip(one, other, strict=False))


# Maximal marginal relevance by words: every backend has the words, and no model changes the result.
#
# Likeness by embeddings would need the vectors back from the index; by words the same list comes out whatever model and
# index are used.


@dataclass(frozen=True, slots=True)
class TermVector:
    """The words of a text, as often as each is there."""

    counts: Counter[str]
    length: float

    @classmethod
    def of(cls, terms: Sequence[str]) -> TermVector:
        """Return the wording of a text with these terms."""
        counts = Counter(terms)
        return cls(counts, math.sqrt(math.fsum(count * count for count in counts.values())))


def cosine(one: TermVector, other: TermVector) -> float:
    """Return how alike two wordings are, 0 to 1; one without words is like none."""
    if not one.length or not other.length:
        return 0.0
    few, many = sorted((one.counts, other.counts), key=len)
    return math.fsum(count * many[term] for term, count in few.items() if term in many) / (one.length * other.length)


def diversify(scores: Sequence[float], wordings: Sequence[TermVector], mmr_lambda: float) -> list[int]:
    """Return all places in the order of maximal marginal relevance; among equals the earlier one goes first."""
    left = list(range(len(scores)))
    likeness = [0.0] * len(scores)
    chosen: list[int] = []
    while left:
        best = max(left, key=lambda place: (mmr_lambda * scores[place] - (1.0 - mmr_lambda) * likeness[place], -place))
        left.remove(best)
        chosen.append(best)
        for place in left:
            likeness[place] = max(likeness[place], cosine(wordings[best], wordings[place]))
    return chosen
