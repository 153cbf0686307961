"""From text to the terms it is found by: one analysis for every lexical backend."""

from __future__ import annotations

import hashlib
import importlib
import re
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Protocol, cast

# From one word to the term it is indexed under.


MAX_TERM_BYTES = 64
"""Longer terms keep a prefix and a digest: Tantivy's analyzers drop long tokens silently."""

_DIGEST_HEX = 16
_LATIN_END = "\u0250"
_LATIN_MARKS = re.compile("[\u0300-\u036f]+")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_SCRIPT_STEMMERS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0531", "\u058f", "armenian"),
    ("\u0620", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


class _Stems(Protocol):
    def stemWord(self, word: str) -> str:  # noqa: N802 - PyStemmer's name
        ...


class _ThreadStemmers(threading.local):
    """One set of stemmers per thread, because PyStemmer's objects are not safe to share."""

    def __init__(self) -> None:
        self.by_language: dict[str, _Stems] = {}

    def stem(self, word: str, language: str) -> str:
        """Stem *word* by the Snowball algorithm of *language*."""
        stemmer = self.by_language.get(language)
        if stemmer is None:
            stemmer = self.by_language[language] = _new_stemmer(language)
        return stemmer.stemWord(word)


_stemmers = _ThreadStemmers()


def fold(word: str) -> str:
    """Return *word* in NFKC, case folded, without white space; Latin letters lose their accents.

    So "Café", "CAFE\u0301" and "ｃａｆｅ" are one word. Other alphabets keep their marks, which tell letters apart.
    """
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    if folded[:1] < _LATIN_END:
        folded = unicodedata.normalize("NFKC", _LATIN_MARKS.sub("", unicodedata.normalize("NFKD", folded)))
    return "".join(folded.split()) or word


def term_of(word: str) -> str:
    """Return the term of one *word*: folded, an irregular form as its base, stemmed, of bounded length.

    Ordinals become numbers ("8th" → "8"). Words with digits or signs in them are not stemmed.
    """
    folded = fold(word)
    if folded.isalpha():
        folded = IRREGULAR_FORMS.get(folded, folded)
        language = _language(folded[0])
        return limit_term_bytes(_stemmers.stem(folded, language) if language else folded)
    ordinal = _ORDINAL.fullmatch(folded)
    return limit_term_bytes(ordinal[1] if ordinal else folded)


def limit_term_bytes(term: str) -> str:
    """Return *term*, or when over `MAX_TERM_BYTES` a prefix with a digest of the whole, so equal words stay equal."""
    if len(term) * 4 <= MAX_TERM_BYTES:
        return term
    encoded = term.encode("utf-8", "surrogatepass")
    if len(encoded) <= MAX_TERM_BYTES:
        return term
    digest = hashlib.blake2b(encoded, digest_size=_DIGEST_HEX // 2).hexdigest()
    return encoded[: MAX_TERM_BYTES - _DIGEST_HEX - 1].decode("utf-8", "ignore") + "~" + digest


def _language(letter: str) -> str | None:
    if letter < _LATIN_END:
        return "english"
    for first, last, language in _SCRIPT_STEMMERS:
        if first <= letter <= last:
            return language
    return None


def _new_stemmer(language: str) -> _Stems:
    """Open a stemmer; the import is late because PyStemmer has no types."""
    return cast("_Stems", importlib.import_module("Stemmer").Stemmer(language))


# English words whose forms a stemmer cannot join: each form maps to its base.


_FORMS = {
    "be": "am is are was were been",
    "become": "became",
    "begin": "began begun",
    "bend": "bent",
    "bite": "bitten",
    "blow": "blew blown",
    "break": "broke broken",
    "breed": "bred",
    "bring": "brought",
    "build": "built",
    "burn": "burnt",
    "buy": "bought",
    "catch": "caught",
    "child": "children kid kids",
    "choose": "chose chosen",
    "cling": "clung",
    "come": "came",
    "creep": "crept",
    "deal": "dealt",
    "dig": "dug",
    "do": "does did done",
    "draw": "drew drawn",
    "dream": "dreamt",
    "drink": "drank drunk",
    "drive": "drove driven",
    "eat": "ate eaten",
    "fall": "fell fallen",
    "father": "dad dads daddy",
    "feed": "fed",
    "feel": "felt",
    "fight": "fought",
    "find": "found",
    "flee": "fled",
    "fly": "flew flown flies",
    "foot": "feet",
    "forbid": "forbade forbidden",
    "forget": "forgot forgotten",
    "forgive": "forgave forgiven",
    "freeze": "froze frozen",
    "get": "got gotten",
    "give": "gave given",
    "go": "goes went gone",
    "goose": "geese",
    "grow": "grew grown",
    "half": "halves",
    "hang": "hung",
    "have": "has had",
    "hear": "heard",
    "hide": "hid hidden",
    "hold": "held",
    "keep": "kept",
    "knife": "knives",
    "know": "knew known",
    "lead": "led",
    "lean": "leant",
    "learn": "learnt",
    "leave": "left",
    "lend": "lent",
    "light": "lit",
    "lose": "lost",
    "make": "made",
    "man": "men",
    "mean": "meant",
    "meet": "met",
    "mother": "mom moms mum mums mommy",
    "mouse": "mice",
    "overcome": "overcame",
    "pay": "paid",
    "person": "people",
    "prove": "proven",
    "ride": "rode ridden",
    "ring": "rang rung",
    "rise": "risen",
    "run": "ran",
    "say": "said",
    "see": "saw seen",
    "seek": "sought",
    "sell": "sold",
    "send": "sent",
    "sew": "sewn",
    "shake": "shook shaken",
    "shelf": "shelves",
    "shine": "shone",
    "shoot": "shot",
    "show": "shown",
    "shrink": "shrank shrunk",
    "sing": "sang sung",
    "sink": "sank sunk",
    "sit": "sat",
    "sleep": "slept",
    "slide": "slid",
    "smell": "smelt",
    "speak": "spoke spoken",
    "spell": "spelt",
    "spend": "spent",
    "spill": "spilt",
    "spin": "spun",
    "spring": "sprang sprung",
    "stand": "stood",
    "steal": "stole stolen",
    "stick": "stuck",
    "strike": "struck",
    "swear": "swore sworn",
    "sweep": "swept",
    "swim": "swam swum",
    "swing": "swung",
    "take": "took taken",
    "teach": "taught",
    "tear": "tore torn",
    "tell": "told",
    "think": "thought",
    "throw": "threw thrown",
    "tooth": "teeth",
    "understand": "understood",
    "wake": "woke woken",
    "wear": "wore worn",
    "weave": "wove woven",
    "weep": "wept",
    "wife": "wives",
    "win": "won",
    "withdraw": "withdrew withdrawn",
    "wolf": "wolves",
    "woman": "women",
    "write": "wrote written",
}

IRREGULAR_FORMS: Mapping[str, str] = MappingProxyType(
    {form: base for base, forms in _FORMS.items() for form in forms.split()}
)
"""Lower-case form → base form. Forms that are mostly other words ("bit", "rose", "lay", "lives") are left out."""


# Words of spaced scripts, from plain ones to identifiers, paths, versions and contractions.


WHOLE_MAX_CHARS = 40
"""A compound up to this long is also indexed as a whole; longer ones by their parts only."""

_CACHED_WORDS = 32_768

_SEGMENT = re.compile(r"[^/@]+")
_PART = re.compile(r"[^._'’-]+")
_SYMBOLIC = re.compile(r"[A-Za-z](?:\+\+|#)")
_NUMBER = re.compile(r"[0-9]+(?:,[0-9]{3})+(?:\.[0-9]+)?")
_VERSION = re.compile(r"v(?=[0-9]+\.[0-9])", re.IGNORECASE)
_CLITIC = re.compile(r"['’](?:s|d|ll|re|ve|m)\Z", re.IGNORECASE)
_NEGATION = re.compile(r"[^._-]+n['’]t", re.IGNORECASE)
_GLUE = re.compile("['’-]")
_CAMEL = re.compile(r"[a-z][A-Z]|[0-9][A-Z][a-z]|[A-Z]{2}[a-z]")
_PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s")
_HUMP = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")

Span = tuple[str, int, int]


@lru_cache(maxsize=_CACHED_WORDS)
def word_spans(word: str) -> tuple[Span, ...]:
    """Return the terms of *word* with their offsets in it, parts before the whole they make.

    "don't" is one term ("dont"); the clitics 's 'd 'll 're 've 'm are dropped. A word joined by . _ - / @ or humps of
    capitals gives its parts and the whole; hyphens vanish from the whole, so "e-mail" meets "email".
    """
    if word.isalnum() and not _is_camel(word):
        return ((term_of(word), 0, len(word)),)
    segments = [match.span() for match in _SEGMENT.finditer(word)]
    spans = [span for start, end in segments for span in _segment_spans(word[start:end], start)]
    if len(segments) > 1 and len(word) <= WHOLE_MAX_CHARS:
        spans.append((limit_term_bytes(fold(word)), 0, len(word)))
    return tuple(spans)


@lru_cache(maxsize=_CACHED_WORDS)
def word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of *word* in the order of `word_spans`."""
    return tuple(term for term, _, _ in word_spans(word))


def _segment_spans(segment: str, offset: int) -> list[Span]:
    clitic = _CLITIC.search(segment)
    if clitic and clitic.start():
        segment = segment[: clitic.start()]
    if _SYMBOLIC.fullmatch(segment):
        return [(segment.lower(), offset, offset + len(segment))]
    if _NUMBER.fullmatch(segment):
        return [(limit_term_bytes(segment.replace(",", "")), offset, offset + len(segment))]
    if _NEGATION.fullmatch(segment):
        return [(term_of(_GLUE.sub("", segment)), offset, offset + len(segment))]
    parts = _parts(segment)
    spans = [(term_of(segment[start:end]), offset + start, offset + end) for start, end in parts]
    if len(parts) > 1 and len(segment) <= WHOLE_MAX_CHARS:
        spans.append((_whole(segment), offset, offset + len(segment)))
    return spans


def _parts(segment: str) -> list[tuple[int, int]]:
    version = _VERSION.match(segment)
    parts: list[tuple[int, int]] = []
    for match in _PART.finditer(segment, version.end() if version else 0):
        if _is_camel(match[0]):
            parts += [hump.span() for hump in _HUMP.finditer(segment, match.start(), match.end())]
        else:
            parts.append(match.span())
    return parts


def _whole(segment: str) -> str:
    return term_of(_GLUE.sub("", _VERSION.sub("", segment, count=1) if _VERSION.match(segment) else segment))


def _is_camel(word: str) -> bool:
    return word.isascii() and _CAMEL.search(word) is not None and _PLURAL_ACRONYM.fullmatch(word) is None


# Word segmentation of Han text by jieba's dictionary, loaded on first use.


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
    """Return the Han *run* in NFKC and in simplified characters, always of the same length: offsets stay true."""
    if not unicodedata.is_normalized("NFKC", run):
        normal = unicodedata.normalize("NFKC", run)
        run = normal if len(normal) == len(run) else run
    return simplified_form(run)


_IDEOGRAPHS = (range(0x3400, 0x4DC0), range(0x4E00, 0xA000), range(0xF900, 0xFB00))


def simplified_form(text: str) -> str:
    """Return *text* with a simplified character in place of each traditional one, of the same length.

    Rules and indexes have Chinese words in simplified characters. The characters are those of OpenCC's t2s, each by
    itself; words that differ between regions (軟體, 软件) stay apart.
    """
    return text if text.isascii() else text.translate(_simplified_characters())


@cache
def _simplified_characters() -> Mapping[int, str]:
    """Return the simplified character of each traditional one; the first call loads the table (0.05 s)."""
    characters = [chr(code) for block in _IDEOGRAPHS for code in block]
    # A line each, so that no two make a word.
    found = importlib.import_module("opencc").OpenCC("t2s").convert("\n".join(characters)).split("\n")
    pairs = zip(characters, found, strict=True)
    return {ord(one): other for one, other in pairs if other != one and len(other) == 1}


# Words that carry a question or a sentence but not its subject, English and Chinese.


_ENGLISH = """
a about above across after again against ain't all almost along already also although always am among an and another any
anybody anyone anything anyway are aren't around as at be became because become been before being below between both but
by can can't cannot could couldn't did didn't do does doesn't doing don't done down during each either else ever every
everybody everyone everything few for from further get gets getting got had hadn't has hasn't have haven't having he her
here hers herself hey hi him himself his how however i if in into is isn't it its itself just let many maybe me might
mine more most much must mustn't my myself neither no nobody none nor not nothing now of off often oh ok okay on once
only onto or other others otherwise ought our ours ourselves out over own per perhaps please quite rather really same
shall shan't she should shouldn't since so some somebody someone something sometimes somewhere soon still such than that
the their theirs them themselves then there therefore these they this those though through thus to together too toward
towards under unless until up upon us usually very via was wasn't we well were weren't what whatever when whenever where
wherever whether which whichever while who whoever whom whose why will with within without won't would wouldn't yeah yes
yet you your yours yourself yourselves im ive youre theyre thats whats
"""

_CHINESE = """
的 了 着 过 地 得 之 所 者 们 么 吗 呢 吧 啊 呀 哦 哈 嗯 哎 唉 嘛 啦 喔 咯 哇 呗 是 不是 是不是 就是 还是 也是
都是 只是 要是 而是 于是 我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱 咱们 别人 人家 本人 某 某个 某些 俺
我的 你的 他的 她的 它的 这 那 这个 那个 这些 那些 这里 那里 这儿 那儿 这样 那样 这么 那么 这种 那种 这边 那边
此 其 该 各 每 每个 各个 另 另外 其他 其它 其实 其中 什么 什麼 甚么 啥 谁 誰 哪 哪个 哪些 哪里 哪裡 哪儿 哪位
哪种 哪天 几 几个 多少 多久 多大 多长 怎 怎么 怎麼 怎样 怎么样 怎麼樣 怎么办 如何 为何 为什么 為什麼 何时 何
何处 什么时候 时候 什么样 什么地方 几点 几时 有没有 能不能 会不会 可不可以 是否 要不要 对不对 好不好 在 于 从
由 自 自从 到 向 往 对于 关于 至于 把 被 给 让 使 跟 和 与 及 以及 同 或 或者 比 按 按照 根据 通过 随着 为 为了
因 因为 所以 因此 由于 但 但是 不过 然而 可是 却 而 而且 并 并且 且 虽然 尽管 即使 如果 假如 若 的话 只要 只有
除了 除非 无论 不管 不但 不仅 既 则 然后 接着 否则 以 以便 不 没 没有 别 未 无 非 也 都 还 又 再 就 才 只 很 太
更 最 挺 非常 十分 比较 相当 有点 有些 一些 一点 一下 一个 一种 一样 一直 一定 已 已经 曾 曾经 正 正在 将 将要
刚 刚刚 刚才 马上 常 常常 经常 总 总是 往往 可能 也许 大概 应该 必须 需 能 能够 会 可 可以 要 想要 有 没什么 上
下 里 中 内 外 前 后 之前 之后 以前 以后 时 个 些 次 种 位 来 去 出 起来 出来 下来 上来 下去 过来 过去 请 请问
告诉 好的 嗯嗯 是的 等 等等 之类 左右 上下 甚至 尤其 究竟 到底 居然 竟然 反正 难道 們 這 這個 這些 這裡 那裡 個
嗎 為 為了 會 對 還 從 讓 給 與 後 過 们的 二者 两者 呃 喂 呵呵 哈哈 我們 你們 他們 她們 誰的 谁的
"""

STOP_WORDS: frozenset[str] = frozenset(_ENGLISH.split()) | frozenset(_CHINESE.split())
"""Generic function and question words. "may" is missing, because a month must stay findable."""


# Writing system of a character, as ranges for regular expressions.


HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
"""Han ideographs with radicals, compatibility forms and the iteration mark."""

KANA = "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
"""Hiragana and katakana, half-width forms included."""

HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"
"""Hangul syllables and letters."""

SOUTH_EAST_ASIAN = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
"""Thai, Lao, Burmese and Khmer: written without spaces, like kana."""

UNSPACED = HAN + KANA + HANGUL + SOUTH_EAST_ASIAN

MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a51"
    "\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3c-\u0c56"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d81-\u0ddf\u0f71-\u0f84\u0f8d-\u0fbc"
)
"""Combining marks that continue a word although `\\w` does not match them."""


class Script(StrEnum):
    """A writing system, by which the language of a text is recognised where vectors are centred."""

    LATIN = "latin"
    HAN = "han"
    JAPANESE = "japanese"
    HANGUL = "hangul"
    CYRILLIC = "cyrillic"
    ARABIC = "arabic"
    HEBREW = "hebrew"
    GREEK = "greek"
    DEVANAGARI = "devanagari"
    THAI = "thai"


_LETTERS_OF_AN_IDEOGRAPH = 3
"""An English word has about 4.7 letters and a Chinese one about 1.6 ideographs."""
_LEAST_KANA_SHARE = 0.1
"""Japanese text is at least a third kana; a Chinese one may quote a name in kana."""
_SCRIPT_RANGES = {
    Script.LATIN: "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
    Script.HAN: HAN,
    Script.JAPANESE: KANA,
    Script.HANGUL: HANGUL,
    Script.CYRILLIC: "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    Script.ARABIC: "\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufeff",
    Script.HEBREW: "\u0590-\u05ff\ufb1d-\ufb4f",
    Script.GREEK: "\u0370-\u03ff\u1f00-\u1fff",
    Script.DEVANAGARI: "\u0900-\u097f\ua8e0-\ua8ff",
    Script.THAI: "\u0e01-\u0e5b",
}
_SCRIPT_RUNS = {script: re.compile(f"[{ranges}]+") for script, ranges in _SCRIPT_RANGES.items()}
_SYLLABIC = {Script.HAN, Script.JAPANESE, Script.HANGUL}


def script_of(text: str) -> Script:
    """Return the script of most of the text; of an equal share the one declared first; LATIN for text without letters.

    An ideograph, a kana or a syllable of Hangul counts as three letters. Han text with kana is Japanese.
    """
    if text.isascii():
        return Script.LATIN
    lengths = {
        script: sum(map(len, runs.findall(text))) * (_LETTERS_OF_AN_IDEOGRAPH if script in _SYLLABIC else 1)
        for script, runs in _SCRIPT_RUNS.items()
    }
    kana, ideographs = lengths[Script.JAPANESE], lengths[Script.HAN]
    if kana >= _LEAST_KANA_SHARE * (kana + ideographs):
        lengths[Script.JAPANESE], lengths[Script.HAN] = kana + ideographs, 0
    return max(lengths, key=lambda script: lengths[script])


_HAN_RUN = re.compile(f"[{HAN}]+")
_OTHER_WORD = re.compile(rf"[^\W_{HAN}]+(?:['’._/@-][^\W_{HAN}]+)*")


def is_han(text: str) -> bool:
    """Tell whether *text* is mostly Han: it has more Han characters than other words and numbers.

    A date or a product name inside a Chinese sentence does not make it English. Text without letters is not Han.
    """
    if text.isascii():
        return False
    return sum(map(len, _HAN_RUN.findall(text))) > len(_OTHER_WORD.findall(text))


_HAN_GROUP = 1
_BIGRAM_GROUP = 2
_RUN_CHARS = 512
"""A longer run is cut here; it bounds the work of one segmentation and hides no text."""

_SAFE_CHARS = MAX_TERM_BYTES // 4
"""No word of a run this short can exceed the longest term."""

_SHORT_CHARS = 300
_SHORT_TEXTS = 4096

_COMMA_IN_NUMBER = r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))"


def _word_pattern(letters: str, apostrophes: str) -> str:
    joint = rf"(?:[._/@{apostrophes}-]|{_COMMA_IN_NUMBER})"
    return rf"[A-Za-z](?:\+\+|\#)(?!\w)|{letters}(?:{joint}{letters}){{0,8}}"


_LETTER = rf"[^\W_{UNSPACED}]"
_ASCII_WORD = re.compile(_word_pattern("[A-Za-z0-9]{1,64}", "'"))
_RUN = re.compile(
    rf"([{HAN}]{{1,{_RUN_CHARS}}})"
    rf"|([{KANA}]{{1,{_RUN_CHARS}}}|[{HANGUL}]{{1,{_RUN_CHARS}}}|[{SOUTH_EAST_ASIAN}]{{1,{_RUN_CHARS}}})"
    rf"|({_word_pattern(rf'{_LETTER}{{1,64}}(?:[{MARKS}]{{1,8}}{_LETTER}{{0,64}}){{0,16}}', chr(39) + '’')})"
)
_UNIT = re.compile(
    "[\u1100-\u115f][\u1160-\u11a7]*[\u11a8-\u11ff]*"
    "|.[\u3099\u309a\uff9e\uff9f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u103e\u17b4-\u17d3]*",
    re.DOTALL,
)
"""One written unit of a bigram run: a character with the marks that belong to it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A term and the characters [start, end) of the original text that it comes from."""

    term: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return every term of *text* with its place, in reading order of the words.

    Terms may overlap: Han words hold shorter words, kana and hangul are bigrams, and a compound such as "main.py"
    gives its parts and the whole. No term is empty, holds white space or exceeds 64 bytes.
    """
    return [Token(term, start, end) for term, start, end in term_spans(text)]


def terms(text: str) -> list[str]:
    """Return the terms of `tokenize`, in the same order, faster."""
    if text.isascii():
        return list(chain.from_iterable(map(word_terms, _ASCII_WORD.findall(text))))
    cut = segmenter().cut_for_search
    found: list[str] = []
    for match in _RUN.finditer(text):
        run, group = match[0], match.lastindex
        if group == _HAN_GROUP:
            normal = normal_form(run)
            words = [word for word, _, _ in _han_spans(normal)] if _TOWARDS in normal else cut(normal)
            found += words if len(run) <= _SAFE_CHARS else map(limit_term_bytes, words)
        elif group == _BIGRAM_GROUP:
            found += [term for term, _, _ in _bigrams(run)]
        else:
            found += word_terms(run)
    return found


def query_terms(text: str) -> list[str]:
    """Return the terms of a query without stop words and repetitions, in order.

    A query made only of stop words keeps them all, so that it still finds something.
    """
    distinct = dict.fromkeys(terms(text))
    stop_terms = _stop_terms()
    return [term for term in distinct if term not in stop_terms] or list(distinct)


def term_spans(text: str) -> list[tuple[str, int, int]]:
    """Return the tokens of `tokenize` as plain (term, start, end) tuples, for callers in a hurry."""
    spans: list[tuple[str, int, int]] = []
    if text.isascii():
        # As below, without a list for each word: of a first look at a text it is most of the work.
        for match in _ASCII_WORD.finditer(text):
            offset = match.start()
            for term, start, end in word_spans(match[0]):
                spans.append((term, offset + start, offset + end))
        return spans
    for match in _RUN.finditer(text):
        offset = match.start()
        spans += [(term, offset + start, offset + end) for term, start, end in _run_spans(match)]
    return spans


def matching_spans(text: str, wanted: AbstractSet[str]) -> list[tuple[str, int, int]]:
    """Return those of `term_spans` whose term is in *wanted*, without locating the terms of words that hold none."""
    if len(text) <= _SHORT_CHARS:
        return [span for span in short_spans(text) if span[0] in wanted]
    is_away = frozenset(wanted).isdisjoint
    spans: list[tuple[str, int, int]] = []
    if text.isascii():
        for match in _ASCII_WORD.finditer(text):
            if not is_away(word_terms(word := match[0])):
                spans += _place_spans(word_spans(word), match.start(), wanted)
        return spans
    for match in _RUN.finditer(text):
        if _may_match(match, wanted):
            spans += _place_spans(_run_spans(match), match.start(), wanted)
    return spans


@lru_cache(maxsize=_SHORT_TEXTS)
def short_spans(text: str) -> list[tuple[str, int, int]]:
    """Return the spans of a text that hits show whole: the same memories are found again and again."""
    return term_spans(text)


def _may_match(match: re.Match[str], wanted: AbstractSet[str]) -> bool:
    group = match.lastindex
    if group == _HAN_GROUP:
        run = normal_form(match[0])
        return any(term in run for term in wanted)
    return group == _BIGRAM_GROUP or any(term in wanted for term in word_terms(match[0]))


def _place_spans(
    spans: Sequence[tuple[str, int, int]], offset: int, wanted: AbstractSet[str]
) -> list[tuple[str, int, int]]:
    return [(term, offset + start, offset + end) for term, start, end in spans if term in wanted]


def _run_spans(match: re.Match[str]) -> list[tuple[str, int, int]] | tuple[tuple[str, int, int], ...]:
    if match.lastindex == _HAN_GROUP:
        return [(limit_term_bytes(word), start, end) for word, start, end in _han_spans(normal_form(match[0]))]
    if match.lastindex == _BIGRAM_GROUP:
        return _bigrams(match[0])
    return word_spans(match[0])


_TOWARDS = "对"
_PRAWN = "对虾"
_INTOLERANT = re.compile("对[^方象手](?=过敏|不耐受)")


def _han_spans(run: str) -> list[tuple[str, int, int]]:
    """Return the words of a Han run in normal form, with their places.

    The segmenter takes 对 and the one character after it for a word: 我|对虾|过敏. The character is a term of its own
    before an allergy or intolerance, and 虾 in every 对虾, which is one.
    """
    cut = segmenter().tokenize(run, "search")
    if _TOWARDS not in run:
        return cut
    found: list[tuple[str, int, int]] = []
    for word, start, end in cut:
        found.append((word, start, end))
        if word == _PRAWN or (end - start == len(_PRAWN) and _INTOLERANT.match(run, start)):
            found.append((word[1], start + 1, end))
    return found


def _bigrams(run: str) -> list[tuple[str, int, int]]:
    units = [
        (unicodedata.normalize("NFKC", unit[0]).casefold(), unit.start(), unit.end()) for unit in _UNIT.finditer(run)
    ]
    if len(units) == 1:
        return [(limit_term_bytes(units[0][0]), 0, len(run))]
    return [(limit_term_bytes(left + right), start, end) for (left, start, _), (right, _, end) in pairwise(units)]


@cache
def _stop_terms() -> frozenset[str]:
    """Stop words as they look after analysis; Han words stay whole, their parts are listed on their own."""
    return frozenset(chain.from_iterable(terms(word) if word.isascii() else (word,) for word in STOP_WORDS))
