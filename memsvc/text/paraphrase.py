"""Entailment between two texts by rules: one memory can replace both if its text says all of the other's.

To keep the same thing twice costs little; to merge two things that only look alike loses one of them. So texts are
alike only sentence by sentence, each in the same words: words that say nothing left out, synonyms and the third person
of common verbs taken for one, and a clause that is first in one and last in the other. A number, a name, a
negation, a tense, a direction that differs makes another sentence, and so does every word not known to say nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from memsvc.domain.conflicts import LOOSE, Fact
from memsvc.text.analysis import HAN, query_terms, segmenter, simplified_form
from memsvc.text.facts import USER, facts_in
from memsvc.text.facts.english_lexicon import words as listed
from memsvc.text.facts.values import MONTHS, NUMBERS, han_number
from memsvc.text.paraphrase_lexicon import (
    BASES,
    CHINESE_TURNS,
    COMPARING,
    DEGREES,
    ENGLISH_TURNS,
    FILLERS,
    NEGATIONS,
    OURS,
    PARTICIPLES,
    PAST_FORMS,
    PHRASES,
    POINTING,
    RELATIONS,
    RELATIVE,
    SAME,
    SELF,
)
from memsvc.text.statement_split import statements

MOST_CHARS = 2_000
"""A longer text says too much to be compared; it is like none."""
MOST_SENTENCES = 40

_USERS = frozenset({"", USER, "human", "用户", "我"})
_TOKEN = re.compile(
    rf"(?P<han>[{HAN}]+)|(?P<date>@[\d-]+)|[^\W_{HAN}]+(?:(?:[.'’@/:+&_-]|,(?=\d{{3}}))[^\W_{HAN}]+)*[+#]*"
    r"|[-−](?=\d)|[^\w\s.,;:!\"'(){}\[\]“”‘’„«»、。…·《》「」『』【】（），；：！~`|-]"
)
_NEGATED = re.compile(r"n['’]t\b", re.IGNORECASE)
_CLITIC = re.compile(r"['’](?:s|m|re)\b", re.IGNORECASE)
_CONTRACTED = {"won't": "will not", "can't": "cannot", "shan't": "shall not"}
_CONTRACTION = re.compile(r"\b(?:won|can|shan)['’]t\b", re.IGNORECASE)
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_HAN_NUMBER = r"(?:[零一二两三四五六七八九十]{1,3}|\d{1,2})"
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {**NUMBERS, **{word: 10 * ten for ten, word in enumerate(_TENS, start=2)}}
_DATES = (
    re.compile(rf"\b{_MONTH}\.?\s+(?:the\s+)?{_DAY}\b(?![:.]?\d)", re.IGNORECASE),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b", re.IGNORECASE),
    re.compile(rf"(?P<month>{_HAN_NUMBER})月(?P<day>{_HAN_NUMBER})[日号]"),
)
_PHRASE = re.compile(
    "|".join(
        re.escape(phrase) if not phrase.isascii() else rf"\b{re.escape(phrase)}\b"
        for phrase in sorted(PHRASES, key=len, reverse=True)
    )
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|without|cannot|hardly|rarely)\b|n['’]t\b|[不没未无别勿莫非否]",
    re.IGNORECASE,
)
_ACRONYM = re.compile(r"\b(?:US|IT|WHO)\b")
"""Would be other words in small letters."""
_LIKING = re.compile(r"\b(?:love|adore)(s?)(?= (?:\w+ing|to)\b)")
""""To love doing something" means to like it much; "to love a person" does not."""
_HAN_LIKING = re.compile("(?:喜|(?<![可热恋亲敬酷偏钟心]))爱(?=[喝吃看听玩])")
_DIGIT = re.compile(r"\d")
_AS_WELL = re.compile(r"\s(?:too|as well)\s*[.!]*\s*\Z")
_HALF_OF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\b\.?")


@dataclass(frozen=True, slots=True)
class NormalizedSentence:
    """One sentence in a form that is equal for sentences that say the same.

    Attributes:
        words: Those that say something, in order.
        stated: What the rules of `memsvc.text.facts` understand of it.
        rest: The words beyond what is stated, in order.
        core: What is said in the active voice, with times at the end; empty when that is unknown.
    """

    words: tuple[str, ...]
    stated: frozenset[Fact] = frozenset()
    rest: tuple[str, ...] = ()
    core: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """Content of a text, sentence by sentence.

    Attributes:
        texts: The unchanged sentences, one for each of *said*.
        is_relative: Whether it depends on when it was said.
        is_lasting: Whether each sentence states something that stays true, rather than telling an event.
        is_pointing: Whether it begins with a reference to the text before: "she", "this".
    """

    said: tuple[NormalizedSentence, ...] = ()
    texts: tuple[str, ...] = ()
    is_relative: bool = False
    is_lasting: bool = False
    is_pointing: bool = False


NOTHING = NormalizedText()
"""The gist of what cannot be compared."""


def gist_of(text: str, speaker: str = "") -> NormalizedText:
    """Return what *text*, said by *speaker*, says; `NOTHING` for one that is too long, or without words."""
    return NOTHING if len(text) > MOST_CHARS else cached_gist(text, speaker)


@lru_cache(maxsize=4096)
def cached_gist(text: str, speaker: str) -> NormalizedText:
    """Return what `gist_of` returns for a text that is short enough."""
    pieces = statements(text, most=MOST_SENTENCES + 1)
    if not pieces or len(pieces) > MOST_SENTENCES:
        return NOTHING
    is_user = speaker.strip().casefold() in _USERS
    said: list[NormalizedSentence] = []
    texts: list[str] = []
    for piece in pieces:
        one = (
            NormalizedSentence((piece.text,))
            if piece.is_code
            else _normalized(simplified_form(piece.text), speaker, is_user=is_user)
        )
        if one.words:
            said.append(one)
            texts.append(piece.text)
    return NormalizedText(
        tuple(said),
        tuple(texts),
        is_relative=any(not RELATIVE.isdisjoint(one.words) for one in said),
        is_lasting=bool(said) and all(one.stated for one in said),
        is_pointing=bool(said) and said[0].words[0] in POINTING,
    )


def says_the_same(one: NormalizedSentence, other: NormalizedSentence) -> bool:
    """Return whether two sentences say the same."""
    if one.words == other.words or "".join(one.words) == "".join(other.words):
        return True
    if one.stated and one.stated == other.stated and one.rest == other.rest:
        return True
    if len(one.core) > 1 and one.core == other.core:
        return True
    return _is_turned(one.words, other.words)


def says_all_of(larger: NormalizedText, smaller: NormalizedText) -> bool:
    """Return whether the first sentence of both says the same, and each further one of *smaller* is in *larger*.

    The first sentence names the subject of the others.
    """
    if not smaller.said or not larger.said or not says_the_same(larger.said[0], smaller.said[0]):
        return False
    return all(any(says_the_same(one, other) for other in larger.said) for one in smaller.said[1:])


def are_alike(one: NormalizedText, other: NormalizedText) -> bool:
    """Return whether one of two texts says all that the other says."""
    return says_all_of(one, other) or says_all_of(other, one)


def join_texts(texts: Sequence[str], speaker: str = "") -> str:
    """Return the first of *texts* with the sentences of the others that say something new, in order."""
    known = list(gist_of(texts[0], speaker).said)
    added: list[str] = []
    for text in texts[1:]:
        gist = gist_of(text, speaker)
        for one, sentence in zip(gist.said, gist.texts, strict=True):
            if not any(says_the_same(one, other) for other in known):
                known.append(one)
                added.append(sentence)
    return _joined([texts[0], *added], texts[0]) if added else texts[0]


def remove_statements(text: str, gone: str, others: Sequence[str], speaker: str = "") -> str:
    """Return *text*, which `join_texts` or a rewording made of *gone* and *others*, without what *gone* alone says.

    It is *text* itself if the others say everything, and empty if nothing remains.
    """
    left = [one for other in others for one in gist_of(other, speaker).said]
    alone = [one for one in gist_of(gone, speaker).said if not any(says_the_same(one, other) for other in left)]
    if not alone:
        return text
    gist = gist_of(text, speaker)
    kept = [
        sentence
        for one, sentence in zip(gist.said, gist.texts, strict=True)
        if not any(says_the_same(one, other) for other in alone)
    ]
    if len(kept) < len(gist.texts):
        return _joined(kept, text) if kept else ""
    return join_texts(others, speaker) if others else ""


def _joined(parts: Sequence[str], like: str) -> str:
    separator = "\n" if "\n" in like.strip() else "" if re.search(rf"[{HAN}]", like) else " "
    return separator.join([*(_with_full_stop(part.rstrip()) for part in parts[:-1]), parts[-1]])


def is_rewording_of(text: str, plain: str) -> bool:
    """Return whether *text* says what *plain* says as far as words tell: none that matters is lost, added or denied."""
    if set(query_terms(text)) != set(query_terms(plain)) or len(text) > 2 * len(plain):
        return False
    return len(_DENIAL.findall(simplified_form(text))) == len(_DENIAL.findall(simplified_form(plain)))


def _with_full_stop(sentence: str) -> str:
    if sentence[-1] in ".!?。！？…；;":
        return sentence
    return f"{sentence}。" if re.search(rf"[{HAN}]", sentence) else f"{sentence}."


def _is_turned(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one is the other with its beginning put to the end."""
    if len(one) != len(other) or sorted(one) != sorted(other):
        return False
    if sum(_CLOCKS.search(word) is not None for word in one) > 1 or not COMPARING.isdisjoint(one):
        return False
    twice = one + one
    return any(twice[start : start + len(other)] == other for start in range(1, len(one)))


def _normalized(sentence: str, speaker: str, *, is_user: bool) -> NormalizedSentence:
    words = tuple(_words(sentence, is_user=is_user))
    stated = frozenset(one for one in facts_in(sentence, speaker=speaker) if not one.topic.startswith(LOOSE))
    core = _core(sentence, is_user=is_user)
    if not stated:
        return NormalizedSentence(words, core=core)
    known = {word for one in stated for word in _words(one.topic, is_user=is_user)}
    known |= {
        word for one in stated for part in one.parts for word in _words(part.text.split(":")[-1], is_user=is_user)
    }
    return NormalizedSentence(
        words, stated, tuple(word for word in words if word not in known and word not in RELATIONS), core
    )


def _words(sentence: str, *, is_user: bool) -> list[str]:
    """Return the words of a sentence that say something, each in its normal form."""
    found = [word for word in map(partial(_normal, is_user=is_user), _tokens(sentence)) if word]
    if NEGATIONS.isdisjoint(found):
        return [word for word in found if word not in DEGREES]
    return found


def _tokens(sentence: str) -> Iterator[str]:
    text = _ACRONYM.sub(lambda match: f"{match[0]}.acronym", unicodedata.normalize("NFKC", sentence))
    if "'" in text or "’" in text:
        text = _CONTRACTION.sub(lambda match: _CONTRACTED[match[0].casefold().replace("’", "'")], text)
        text = _CLITIC.sub("", _NEGATED.sub(" not", text))
    text = _AS_WELL.sub("", _LIKING.sub(r"like\1", text.casefold()))
    if not text.isascii():
        text = _HAN_LIKING.sub("喜欢", text)
    # Test substrings first: few sentences have a phrase or a date, and matching at every position is slow.
    if any(phrase in text for phrase in PHRASES):
        text = _PHRASE.sub(lambda match: PHRASES[match[0]], text)
    if "月" in text or _DIGIT.search(text):
        text = _HALF_OF_DAY.sub(r"\1m", text)
        for pattern in _DATES:
            text = pattern.sub(_date, text)
    for match in _TOKEN.finditer(text):
        yield from segmenter().cut(match[0]) if match["han"] else (match[0],)


def _date(match: re.Match[str]) -> str:
    month = MONTHS.get(match["month"].lower()) or han_number(match["month"])
    return f" @{month}-{han_number(match['day'])} "


def _normal(word: str, *, is_user: bool) -> str:
    if word in FILLERS:
        return ""
    if word in SELF:
        return USER if is_user or word not in {"user", "用户"} else word
    if word in OURS:
        return "we"
    if word in _NUMBERS:
        return str(_NUMBERS[word])
    if word[0].isdigit():
        return word.replace(",", "")
    base = BASES.get(word, word)
    return SAME.get(base, base)


# The core of a sentence: passive and active, "X's Y is Z" and "Z is the Y of X", and times first and last are one.


_BE = frozenset(
    listed("""
    is are was were be been being gets got am""")
)
_PAST_BE = frozenset({"was", "were"})
_OBJECTS = {"them": "they", "him": "he"}
_CORE_DROPPED = frozenset(
    listed("""
    a an the do does did currently now nowadays please that which who has have there s ve ll re m d be been
    being is are am so""")
)
_CORE_TIMES = re.compile(
    r"^(?:@[\d-]+|\d{1,2}(?::\d\d|(?::\d\d)?[ap]m|m))$|^(?:mon|tues|wednes|thurs|fri"
    r"|satur|sun)days?$|^(?:every|each|night|nightly|daily|weekly"
    r"|morning|evening|afternoon|noon|spring|summer|autumn|winter|year|month|week|last"
    r"|next|january|february|march|april|may|june|july"
    r"|august|september|october|november|december|[ap]m)s?$"
)
_CLOCKS = re.compile(
    r"^@|^\d|(?:^|[^y])days?$|^(?:january|february|march|april|may|june|july|august"
    r"|september|october|november|december)$|[月号日天年点]$|^(?:周|星期"
    r"|礼拜)[一二三四五六日天]"
)
"""Times of which two in one sentence belong to different parts of it."""
_TIME_PREPOSITIONS = frozenset({"on", "in", "at", "during", "since"})
_LINKING = frozenset({"as", "for"})
_POSSESSIVE = {"my": "user's", "his": "he's", "her": "she's", "our": "we's", "their": "they's", "its": "it's"}
_PARTICIPLE = re.compile(r"^(?!need|feed|speed|seed|indeed|breed|hundred|red\b|bed\b)\w{2,}(?:ed)$")
_GERUND = re.compile(
    r"^(?!during|evening|morning|thing|nothing|something|everything|ring|king|spring"
    r"|wedding|meeting|building)\w{3,}ing$"
)
_FOREIGN = re.compile(r"[^\x00-\x7f’‘“”–—éèüöäßñ]")


def _core(sentence: str, *, is_user: bool) -> tuple[str, ...]:
    """Return the words of a sentence in the active voice, in their base forms, sorted times last."""
    if len(sentence) > _MOST_CORE_CHARS or "?" in sentence or "？" in sentence:
        return ()
    if _FOREIGN.search(sentence):
        return _chinese_core(sentence, is_user=is_user)
    text = _contracted(sentence)
    for pattern, plain in ENGLISH_TURNS:
        text = pattern.sub(plain, text)
    if any(character.isdigit() for character in text):
        text = _HALF_OF_DAY.sub(r"\1m", text)
        for date in _DATES[:2]:
            text = date.sub(_date, text)
    words = re.findall(r"@[\d-]+|[-−](?=\d)|[^\W_]+(?:[.:+#&/-][^\W_]+)*[+#]*(?:'s)?|[%°$€£]", text)
    if NEGATIONS.isdisjoint(words):
        words = [word for word in words if word not in DEGREES]
    if not _TIMELESS.isdisjoint(words):
        return ()
    if not 1 < len(words) <= _MOST_CORE_WORDS or not POINTING.isdisjoint(words[:1]):
        return ()
    return _active(words, is_user=is_user)


_TIMELESS = frozenset(
    listed("""
    cost cut put set let hit shut hurt read""")
)
"""Verbs of which the past looks like the present."""
_MOST_CORE_CHARS, _MOST_CORE_WORDS = 160, 24


def _contracted(sentence: str) -> str:
    text = unicodedata.normalize("NFKC", sentence).replace("’", "'").strip().rstrip(".! ")
    text = _CONTRACTION.sub(lambda match: _CONTRACTED[match[0].casefold()], text)
    text = _NEGATED.sub(" not", text)
    text = re.sub(
        r"\b(i)'m\b|\b(we|you|they)'re\b",
        lambda match: f"{match[1] or match[2]} {'am' if match[1] else 'are'}",
        text,
        flags=re.IGNORECASE,
    )
    return re.sub(r"'(?:ve|ll|d)\b", " ", text).casefold()


def _active(words: list[str], *, is_user: bool) -> tuple[str, ...]:
    found: list[str] = []
    agent_at: int | None = None
    is_passive = False
    for place, word in enumerate(words):
        if _is_participle(words, place):
            is_passive = True
            found.append(_verb(word))
        elif word == "by" and is_passive:
            agent_at = len(found)
        elif said := _core_word(words, place, is_user=is_user):
            found.append(said)
    past = any(
        word in _PAST_BE
        or word == "had"
        or ((word in PAST_FORMS or _PARTICIPLE.match(word)) and not _is_participle(words, place))
        for place, word in enumerate(words)
    )
    if is_passive:
        found = [*found, "(by)"] if agent_at is None else _with_agent_first(found, agent_at)
    return _ordered(found, past=past) if found else ()


def _is_participle(words: Sequence[str], place: int) -> bool:
    """Return whether the word at *place* is the participle of a passive."""
    if words[place] not in PARTICIPLES and not _PARTICIPLE.match(words[place]):
        return False
    before = words[max(0, place - 2) : place]
    return bool(before) and (before[-1] in _BE or (before[-1] in {"not", "never"} and before[0] in _BE))


def _core_word(words: Sequence[str], place: int, *, is_user: bool) -> str:
    """Return the word at *place* in its base form, a possessor with "'s"; empty for one that says nothing."""
    word, before = words[place], words[place - 1] if place else ""
    if word in PAST_FORMS or _PARTICIPLE.match(word):
        return _verb(word)
    if word in _POSSESSIVE:
        return _POSSESSIVE[word]
    is_after_of = before == "of" or (before in {"the", "a", "an", "my"} and words[place - 2 : place - 1] == ["of"])
    if word.endswith("'s") or is_after_of:
        name = word.removesuffix("'s")
        return f"{USER if name in SELF and is_user else SAME.get(name, name)}'s"
    return "" if word == "of" or word in _BE else _plain(word, is_user=is_user)


def _with_agent_first(found: list[str], agent_at: int) -> list[str]:
    """Return the words of a passive in the order of the active: agent, verb, object, the rest."""
    last = len(found)
    end = next(
        (at for at in range(agent_at, last) if _CORE_TIMES.search(found[at]) or found[at] in _TIME_PREPOSITIONS), last
    )
    verb = next((at for at, word in enumerate(found[:agent_at]) if word.endswith("!")), None)
    if verb is None:
        return []
    return [*found[agent_at:end], *found[verb:agent_at], *found[:verb], *found[end:]]


def _ordered(found: list[str], *, past: bool) -> tuple[str, ...]:
    """Return the words in order, those of times sorted at the end; a possessor next to an equation is one."""
    times: list[str] = []
    rest: list[str] = []
    for place, word in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else ""
        if word in _TIME_PREPOSITIONS and _CORE_TIMES.search(following):
            continue
        (times if _CORE_TIMES.search(word) else rest).append(word.rstrip("!"))
    if sum(_CLOCKS.search(time) is not None for time in times) > 1:
        return ()
    has_verb = any(word.endswith("!") for word in found)
    is_equation = not has_verb and COMPARING.isdisjoint(rest) and len(rest) <= 5  # noqa: PLR2004 - X's Y is Z
    if is_equation and sum(word.endswith("'s") for word in rest) == 1:
        rest = sorted(rest)
    return (*rest, *sorted(times), *(("past",) if past else ()))


def _plain(word: str, *, is_user: bool) -> str:
    if word in _CORE_DROPPED:
        return ""
    if word in SELF or word in OURS or word in _NUMBERS or word[0].isdigit():
        return _normal(word, is_user=is_user)
    base = BASES.get(word) or (word if word in _VERB_BASES else "")
    if not base and _GERUND.match(word):
        base = _base_of_gerund(word)
    if base:
        return f"{SAME.get(base, base)}!"
    return f"{SAME[word[:-1]]}s" if word.endswith("s") and word[:-1] in SAME else SAME.get(word, word)


_VERB_BASES = frozenset(BASES.values())


def _base_of_gerund(word: str) -> str:
    stem = word[:-3]
    for base in (stem, f"{stem}e", stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else ""):  # noqa: PLR2004 - swimming
        if base in _VERB_BASES:
            return base
    return ""


def _verb(word: str) -> str:
    base = PAST_FORMS.get(word) or PARTICIPLES.get(word)
    if base is None:
        stem = word[:-2]
        candidates = (
            stem,
            f"{stem}e",
            stem[:-1] if stem[-1:] == stem[-2:-1] else stem,
            f"{stem[:-1]}y" if stem.endswith("i") else stem,
        )
        base = next((one for one in candidates if one in _VERB_BASES), stem)
    return f"{SAME.get(base, base)}!"


def _chinese_core(sentence: str, *, is_user: bool) -> tuple[str, ...]:
    text = unicodedata.normalize("NFKC", sentence).casefold().strip().rstrip("。.! ")
    for pattern, plain in CHINESE_TURNS:
        text = pattern.sub(plain, text)
    text = re.sub(
        r"[零一二两三四五六七八九十]{1,3}(?=[个点块条只号月年天次种岁])", lambda match: str(han_number(match[0])), text
    )
    for date in _DATES[2:]:
        text = date.sub(_date, text)
    found: list[str] = []
    times: list[str] = []
    for match in re.finditer(rf"@[\d-]+|[-−](?=\d)|[{HAN}]+|[^\W_{HAN}]+(?:[.:+#-][^\W_{HAN}]+)*|[%°¥$]", text):
        for word in segmenter().cut(match[0]) if match[0][0] > "\u2e7f" else (match[0],):
            plain = _normal(word, is_user=is_user)
            if plain and plain not in _HAN_DROPPED:
                (times if _HAN_TIME.search(plain) else found).append(plain)
    if not 1 < len(found) + len(times) <= _MOST_CORE_WORDS or not POINTING.isdisjoint(found[:1]):
        return ()
    if sum(_CLOCKS.search(time) is not None for time in times) > 1:
        return ()
    # Where one word ends and the next one begins is not the same in every sentence.
    return ("".join(found), *(sorted(times) or ("",)))


_HAN_DROPPED = frozenset(
    listed("""
    了 都 会 就 会 已 已经 一个 一只 一条 一台 这个 这台 那个 个 把 时候 的话 着 时""")
)
_HAN_TIME = re.compile(
    r"^(?:@|每|周|星期|礼拜|早上|上午|下午|晚上|凌晨|中午|\d+点"
    r"|[一二三四五六七八九十两]+点|春天|夏天|秋天|冬天)|[月号日天年]$"
)
