"""From one word to the term it is indexed under."""

from __future__ import annotations

import hashlib
import importlib
import re
import threading
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, cast

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
