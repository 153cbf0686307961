"""Facts in English sentences: residence, work, preferences, and definite things, and the parts of clauses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from memsvc.domain.conflicts import HAVING, LIKING, POLE, Fact, Rule, ValuePart
from memsvc.text.facts.english_lexicon import (
    COLORS,
    CONTRASTS,
    DETERMINERS,
    GENERIC,
    KIN,
    NO_SUBJECT,
    OCCUPATIONS,
    SCALES,
    SINGLE,
    STABLE_COUNTS,
    stem,
    words,
)
from memsvc.text.facts.english_lexicon import words as listed
from memsvc.text.facts.english_traits import CONSUMED, LANGUAGES, PASSING, doing_part, is_ending, traits, verb_in
from memsvc.text.facts.values import (
    MONTHS,
    NUMBERS,
    PEOPLE,
    WEEKDAYS,
    english_condition,
    english_place,
    english_setting,
    is_name_of,
    parse_value,
    said_when,
)

# The parts of clauses: who is spoken of, and what a phrase names.


_CONTRACTIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), plain)
    for pattern, plain in (
        (r"\bcan't\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\b(i)'m\b", r"\1 am"),
        (r"\b(i|we|you|they)'ve\b", r"\1 have"),
        (r"\b(we|you|they)'re\b", r"\1 are"),
        (r"\b(he|she|it)'s\b", r"\1 is"),
        (r"'d\b", " would"),
        (r"'ll\b", " will"),
        (r"\bfavourite", "favorite"),
        (r"\bcolour", "color"),
        (r"\bany more\b", "anymore"),
    )
)
_UNSAID = re.compile(
    r"\b(?:if|unless|whether|would|could|might|may|maybe|perhaps|probably|possibly|should|wants?|wanted|wish(?:es|ed)?"
    r"|hopes?|hoped|hoping|plans? to|planned|planning|going to|will|consider(?:s|ed|ing)?|thinking|thinks?|thought"
    r"|dream(?:s|t|ed|ing)?|imagine[sd]?|used to|formerly|previously|former|once|back then|as an?|when|while"
    r"|until|till|ago"
    r"|before|last year|said|says|saying|told|tells|claim(?:s|ed)?|believes?|believed|according|asked|asks|heard"
    r"|supposed|allegedly|for example|for instance|pretends?|pretended|recommend(?:s|ed)?|suggest(?:s|ed)?"
    r"|almost|nearly|both"
    r"|sometimes|temporarily|either|was born"
    r"|(?<!favorite )(?:story|novel|book|film|movie|song|character))\b(?! (?:child(?:ren)?'s)\b)",
    re.IGNORECASE,
)
_UNSAID_ALONE = frozenset(
    listed("""
    if unless whether would could might maybe perhaps probably possibly should want wants wanted wish wishes wished
    hope hopes hoped hoping planned planning will consider considers considered considering thinking think thinks
    thought dream dreams dreamt dreamed dreaming imagine imagines imagined formerly previously former once when while
    until till ago before said says saying told tells claim claims claimed believe believes believed according asked
    asks heard supposed allegedly pretend pretends pretended recommend recommends recommended suggest suggests suggested
    almost nearly both sometimes temporarily either""")
)
"""`_UNSAID` finds these at any position, except jobs *as* something and what is a *child's*."""
_UNSAID_WORDS = _UNSAID_ALONE.union(
    listed("may plan plans going used back as last for was story novel book film movie song character")
)
"""One of these is in all that `_UNSAID` finds. Looking for words is quicker than looking for patterns."""
_EXEMPTING = frozenset({"as", "child", "children"})
_JOB_AS = re.compile(
    r"\b(?:works?|working|employed|hired|job|joined\b.*?|started\b.*?|position|role)\s+as\s+an?\b", re.IGNORECASE
)
_MONTH_MAY = re.compile(r"\bMay\b(?=\s+\d|\s*[.,]|$)")
_CENTURIES = ("19", "20")
_PAST_YEAR = re.compile(r"\b(?:in|since|until|from|during)\s+(?:19|20)\d\d\b", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“”«»„]([^\"“”«»„]*)[\"“”«»„]|(?<!\w)'([^']{12,})'(?!\w)")
_MOST_QUOTED_WORDS = 2
_VERBS = (
    r"lives?|works?|moved|relocated|joined|left|quit|likes?|loves?|hates?|enjoys?|prefers?|dislikes?|resides?|settled|became"
    r"|i|he|she|they|it|we|my|his|her|our|their|the"
)
_MAY_SPLIT = re.compile(r"[;,]|\s(?:and|but)\s", re.IGNORECASE)
_SPLIT = re.compile(
    rf"\s*(?:;|,?\s+but|,?\s+and|,)\s+(?=(?:(?:now|then|currently|recently|just|also|has|have|is|are|am|do|does|not)\s+)*(?:{_VERBS})\b)",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"^(?:(?:actually|currently|now|well|so|today|these days|nowadays|at the moment|recently|note|update|fyi"
    r"|also|fact|preference"
    r"|since (?:last )?\w+|as of \w+|from now on|starting \w+)\s*[,:]?\s+)+",
    re.IGNORECASE,
)
_ANY_WORD = re.compile(r"\w+")
_WORD = re.compile(r"[^\W_](?:[\w.+#-]*[\w+#])?(?:'s)?")
_NAMES = re.compile(
    r"^(?:the\s+)?((?:[A-Z][\w'.&-]*|\d+)(?:(?:\s+|,\s*)(?:(?:de|da|do|of|the|am|an|la|le|los|las|del|upon|van|&)\s+)?[A-Z][\w'.&-]*)*)"
)
_NO_PLACES = WEEKDAYS.keys() | MONTHS.keys()
_MOST_SUBJECT_WORDS = 6


@dataclass(slots=True)
class SpeakerContext:
    """The speaker and the last person mentioned.

    Attributes:
        me: The speaker, to whom "I" refers; None when unknown.
        silent: The subject of a sentence without one; None when unknown.
        last: The subject of the clause before.
        is_passing: Whether the sentence says how things are for a moment.
    """

    me: str | None
    silent: str | None
    last: tuple[str, ...] | None = None
    is_passing: bool = False


def plain(sentence: str) -> str:
    """Return a sentence without contractions; quoted speech is left out, quoted names stay."""
    text = sentence.replace("’", "'").replace("‘", "'")
    text = _QUOTED.sub(_without_quotes, text)
    if "'" in text or "our" in text or "more" in text or "cannot" in text:
        for pattern, written in _CONTRACTIONS:
            text = pattern.sub(written, text)
    return text


def _without_quotes(match: re.Match[str]) -> str:
    said = match[1] if match[1] is not None else match[2]
    return said if len(said.split()) <= _MOST_QUOTED_WORDS else " said "


def clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence that assert something now: no wish, plan, guess, report or past."""
    if sentence.rstrip(" \"')”").endswith("?"):
        return
    whole = sentence.strip().rstrip(".!… ")
    for clause in _SPLIT.split(whole) if _MAY_SPLIT.search(whole) else [whole]:
        asserted = _LEADING.sub("", clause.strip())
        if not _is_unsaid(asserted):
            yield asserted


def _is_unsaid(clause: str) -> bool:
    words = words_of(clause)
    if not words.isdisjoint(_UNSAID_ALONE) and words.isdisjoint(_EXEMPTING):
        return True
    if not words.isdisjoint(_UNSAID_WORDS):
        clause = _MONTH_MAY.sub("", _JOB_AS.sub("", clause))
        if _UNSAID.search(clause):
            return True
    return any(century in clause for century in _CENTURIES) and _PAST_YEAR.search(clause) is not None


def words_of(clause: str) -> frozenset[str]:
    """Return the words of a clause in lower case, which exclude patterns that cannot match."""
    return frozenset(_ANY_WORD.findall(clause.lower()))


def subject_of(text: str, speaking: SpeakerContext) -> tuple[str, ...] | None:
    """Return the words that tell a subject from others, sorted, or None when it is nothing definite."""
    words = _WORD.findall(text.rpartition(",")[2])
    if not words:
        return speaking.last or (None if speaking.silent is None else (speaking.silent,))
    first = words[0].lower()
    if (
        len(words) > _MOST_SUBJECT_WORDS
        or first in DETERMINERS
        or not NO_SUBJECT.isdisjoint(word.lower() for word in words)
    ):
        return None
    found: list[str] = []
    if first in {"i", "me", "my", "mine"}:
        if speaking.me is None:
            return None
        found.append(speaking.me)
        words = words[1:]
    elif first in {"he", "she", "they", "his", "her", "their"}:
        if speaking.last is None:
            return None
        found.extend(speaking.last)
        words = words[1:]
    elif first == "we":
        found.append("we")
        words = words[1:]
    return _distinguish(found, words)


def _distinguish(found: list[str], words: list[str]) -> tuple[str, ...] | None:
    said = [stem(word) for word in words]
    if "old" in said or "and" in said or "or" in said:
        return None
    specific = [word for word in said if word not in GENERIC] or [word for word in said if word not in {"the", "our"}]
    found.extend(specific)
    return tuple(sorted(set(found))) or None


def names_in(text: str) -> str:
    """Return the names at the beginning of *text* in lower case, without commas; empty when there are none."""
    match = _NAMES.match(text.strip())
    if match is None:
        return ""
    following = text.strip()[match.end() :].lstrip()
    if following.startswith(("and ", "or ")) and following.split()[1][:1].isupper():
        return ""
    return " ".join(match[1].replace(",", " ").rstrip(".").lower().split())


def place_in(text: str) -> ValuePart | None:
    """Return the place that *text* begins with, if it begins with a name."""
    name = names_in(text)
    if not name or name[0].isdigit() or name.split()[0] in _NO_PLACES:
        return None
    return english_place(name)


# Residence and work.


_GENERAL_ADVERBS = (
    r"(?:(?:now|currently|just|recently|also|still|really|actually|already|finally|has|have|had|is|am|are|been)\s+)*"
)
_NO = r"(?P<no>(?:do|does|did|is|am|are|has|have)\s+not\s+(?:longer\s+)?|no\s+longer\s+|never\s+)?"
_BEFORE = rf"(?:^|(?<=\s)){_GENERAL_ADVERBS}{_NO}{_GENERAL_ADVERBS}"

_LIVES = re.compile(
    rf"{_BEFORE}(?:lives?|living|resides?|residing|based|settled(?:\s+down)?)\s+in\s+(?P<value>.+)", re.IGNORECASE
)
_MOVED = re.compile(
    rf"{_BEFORE}(?:moved|relocated|emigrated)(?:\s+(?:back|over|away|out|house))?(?:\s+from\s+.+?)?\s+to\s+(?P<value>.+)",
    re.IGNORECASE,
)
_HOME = re.compile(
    r"^(?P<who>.*?)\s*(?:current\s+)?(?:home\s?town|home\s+city|home|residence)\s+is\s+(?:now\s+)?(?:in\s+)?(?P<value>.+)",
    re.IGNORECASE,
)
_WORKS_AS = re.compile(
    rf"{_BEFORE}(?:(?:works?|working|employed|hired|started|starts)\b[^,]*?\bas|promoted\s+to|(?:is|am|became|become)(?!\s+not))"
    r"(?:\s+(?:now|currently|also|still))*"
    r"\s+(?P<article>an?|the)?\s*(?P<value>[^,]+)",
    re.IGNORECASE,
)
_JOINED_AS = re.compile(r"\bjoined\s+.*?\bas\s+(?:an?|the)\s+(?P<value>[^,]+)", re.IGNORECASE)
_JOB_IS = re.compile(
    r"^(?P<who>.*?)\s*(?:job|profession|occupation)\s+is\s+(?:now\s+)?(?:an?\s+)?(?P<value>[^,]+)", re.IGNORECASE
)
_IDLE = re.compile(rf"{_BEFORE}(?P<value>retired|unemployed)\b", re.IGNORECASE)
_WORKS_AT = re.compile(
    rf"{_BEFORE}(?:(?:works?|working)(?:\s+(?:full[- ]time|part[- ]time|remotely|now))?\s+(?:at|for)"
    r"|employed\s+(?:by|at)|joined|started(?:\s+working|\s+a\s+new\s+job|\s+a\s+job)?\s+at)\s+(?P<value>.+)",
    re.IGNORECASE,
)
_WORKS_IN = re.compile(rf"{_BEFORE}(?:works?|working)\s+in\s+(?P<value>.+)", re.IGNORECASE)
_LEFT = re.compile(rf"{_BEFORE}(?:left|quit|resigned\s+from|laid\s+off\s+(?:by|from))\s+(?P<value>.+)", re.IGNORECASE)
_GENERAL_READ_WORDS = frozenset(
    listed("""
    home hometown residence live lives living reside resides residing based settled moved relocated emigrated job
    profession occupation joined retired unemployed work works working employed started left quit resigned laid""")
)
"""One of these, or a title, is in all that the readings of homes and jobs find."""
_TITLE_WORDS = frozenset({*OCCUPATIONS, *(f"{word}s" for word in OCCUPATIONS)})
_TITLE_ENDINGS = ("ologist", "ician", "grapher")
_TITLE_END = re.compile(r"\b(?:at|for|of|in|with|who|from|on|by|again|now|there|instead|anymore)\b")
_EMPLOYER_AFTER = re.compile(r"\s(?:at|for)\s+(?P<value>[A-Z].*)")

Reading = Callable[[re.Match[str]], Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]]


def english_facts(sentences: Sequence[str], *, me: str | None, silent: str | None) -> Iterator[Fact]:
    """Yield what *sentences* state; *me* is the speaker, *silent* the subject of sentences without one."""
    speaking = SpeakerContext(me, silent)
    for sentence in sentences:
        whole, setting = english_setting(plain(sentence))
        speaking.is_passing = PASSING.search(whole) is not None
        for clause in clauses(whole):
            bare, condition = english_condition(clause)
            found = list(_facts_of_clause(bare, speaking)) if condition else []
            if found:
                yield from said_when(found, setting, condition)
            else:
                yield from said_when(_facts_of_clause(clause, speaking), setting)


def _facts_of_clause(clause: str, speaking: SpeakerContext) -> Iterator[Fact]:
    words, is_read = words_of(clause), False
    for pattern, reading in _READINGS if _may_be_read(clause, words) else ():
        match = pattern.search(clause)
        if match is None:
            continue
        named = match.groupdict()
        who = subject_of(named["who"] if "who" in named else clause[: match.start()], speaking)
        if who is None:
            continue
        found = [
            Fact(rule, f"{slot} of {' '.join(who)}", parts, reading is not _left_job and not named.get("no"))
            for slot, rule, parts in reading(match)
        ]
        if found:
            speaking.last, is_read = who, True
            yield from found
            if reading in _WHOLE:
                return
    yield from indentation(clause, words, speaking)
    found = list(preferences(clause, words, speaking))
    found += list(persons(clause, words, speaking)) or list(_ports_or_general(clause, words, speaking))
    yield from found if found or is_read else _traits(clause, words, speaking)


def _ports_or_general(clause: str, words: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    yield from list(ports(clause, words, speaking)) or general(clause, words, speaking)


def _traits(clause: str, words: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    """Yield the traits of a clause that says nothing else, and nothing for a moment."""
    for trait in traits(clause, words) if not speaking.is_passing else ():
        who = subject_of(trait.said, speaking)
        if who is not None:
            speaking.last = who
            yield Fact(trait.rule, f"{trait.slot} of {' '.join(who)}", trait.parts, trait.positive)


def _may_be_read(clause: str, words: frozenset[str]) -> bool:
    if not (words.isdisjoint(_GENERAL_READ_WORDS) and words.isdisjoint(_TITLE_WORDS)):
        return True
    return any(ending in clause.lower() for ending in _TITLE_ENDINGS)


def _lives(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    place = place_in(match["value"])
    if place is not None:
        yield "home", Rule.LOCATION, (place,)


def _works_as(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    title = _title(match["value"])
    if title:
        yield "job", Rule.OCCUPATION, (ValuePart("title", title),)
        after = _EMPLOYER_AFTER.search(match["value"])
        employer = names_in(after["value"]) if after else ""
        if employer:
            yield "employer", Rule.OCCUPATION, (ValuePart("employer", employer),)


def _works_at(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    employer = names_in(match["value"])
    if employer:
        yield "employer", Rule.OCCUPATION, (ValuePart("employer", employer),)


def _works_in(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    place = place_in(match["value"])
    if place is not None:
        yield "place of work", Rule.OCCUPATION, (place,)


def _left_job(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    yield from _works_at(match)


def _idle(match: re.Match[str]) -> Iterator[tuple[str, Rule, tuple[ValuePart, ...]]]:
    yield "job", Rule.OCCUPATION, (ValuePart("title", match["value"].lower()),)


def _title(text: str) -> str:
    """Return a job title in lower case, empty when *text* does not begin with one."""
    words = _TITLE_END.split(text.lower())[0].split()
    is_title = bool(words) and (stem(words[-1]) in OCCUPATIONS or words[-1].endswith(_TITLE_ENDINGS))
    return " ".join(words) if is_title else ""


_READINGS: tuple[tuple[re.Pattern[str], Reading], ...] = (
    (_HOME, _lives),
    (_LIVES, _lives),
    (_MOVED, _lives),
    (_JOB_IS, _works_as),
    (_JOINED_AS, _works_as),
    (_IDLE, _idle),
    (_WORKS_AS, _works_as),
    (_WORKS_AT, _works_at),
    (_WORKS_IN, _works_in),
    (_LEFT, _left_job),
)
_WHOLE = frozenset({_lives, _idle})
"""Readings that leave nothing of a clause to others."""


# Facts about definite things: the deadline is then, the dog is called so.


_ADVERBS = r"(?:(?:now|currently|already|also|still|officially|always|usually|has|have|had|been|was|were)\s+)*"
_CHANGED = (
    r"(?:moved|changed|switched|renamed|postponed|rescheduled|brought\s+forward|updated|raised|lowered|increased|reduced|set"
    r"|upgraded|extended|migrated|pushed\s+back|reset)\s+(?:from\s+.+?\s+)?(?:to|for|at)"
)
_IS = re.compile(
    rf"(?:^|(?<=\s)){_ADVERBS}(?P<verb>(?:is|are|(?<!\d\s)am)(?P<no>\s+not|\s+no\s+longer)?(?:\s+(?:now|currently|still|already))*(?:\s+(?:called|named|{_CHANGED}))?"
    rf"|{_CHANGED})\s+(?P<at>(?:(?:on|at|in|due|by)\s+)*)(?P<value>.+)$",
    re.IGNORECASE,
)
_DOES = re.compile(
    r"(?:^|(?<=\s))(?P<verb>costs?|starts?|begins?|opens?|closes?|ends?|runs?|expires?|takes?|lasts|happens?|weighs?|holds?|contains?)"
    r"\s+(?:now\s+)?(?:(?:on|at|in|up\s+to)\s+)*(?P<value>.+)$",
    re.IGNORECASE,
)
_HAS = re.compile(
    rf"(?:^|(?<=\s))(?:(?:has|have)(?:\s+got)?|owns?)\s+(?:now\s+)?(?P<number>\d+|{'|'.join(NUMBERS)}|no|a|an)\s+(?P<thing>\w+)"
    r"(?=\s*$|\s*,|\s+(?:again|now|anymore)\s*$)",
    re.IGNORECASE,
)
_END = re.compile(r"\s+(?:anymore|now|again|these days|from now on|, .*|,.*)$")
_HAS_AMOUNT = re.compile(
    r"(?:^|(?<=\s))(?:(?:has|have)(?:\s+got)?|comes?\s+with)\s+(?:now\s+)?(?P<amount>\d[\d.,]*\s*[a-z]+)\s+of\s+(?P<thing>[a-z]+)"
    r"(?:\s+now)?$",
    re.IGNORECASE,
)
_TEXTUAL = re.compile(
    r"\b(?:address|password|passcode|name|codename|nickname|url|hostname|number|email)\s*$", re.IGNORECASE
)
"""Attributes whose values are compared as they are, whatever numbers are in them."""
_FREE_WORDS = 4
_PLACED = frozenset(listed("venue location destination room seat headquarters meeting capital"))
"""Attributes whose value is where something is; what others are in, or on, is a state of theirs."""
_NOT_NAMES = frozenset(
    listed("""
    good bad great nice kind slow fast big small large late early near close soon tight long short old young
    important wrong right fine okay ok ready done ill sick happy sad angry tired here there unknown unclear
    missing visiting nice strict friendly helpful away busy back broken down up same different very really
    too so quite not full empty that what still a an the being going coming working known in on at with""")
)


_READ_WORDS = frozenset(
    listed("""
    has have own owns is are am moved changed switched renamed postponed rescheduled brought updated raised lowered
    increased reduced set upgraded extended migrated pushed reset cost costs start starts begin begins open opens close
    closes end ends run runs expire expires take takes lasts happen happens weigh weighs hold holds contain contains""")
)
"""One of these is in all that is read here."""


def general(clause: str, words: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    """Yield what a clause says of a definite subject: typed values, words of a scale, or an attribute's one value.

    *words* are those of the clause.
    """
    if _READ_WORDS.isdisjoint(words):
        return
    match = _HAS.search(clause)
    if match is not None and match["thing"].lower() in STABLE_COUNTS:
        yield from _has(clause, match, speaking)
        return
    match = _HAS_AMOUNT.search(clause)
    if match is not None:
        who, parts = subject_of(clause[: match.start()], speaking), parse_value(match["amount"])
        if who is not None and parts:
            yield Fact(Rule.GENERAL, f"amount of {match['thing'].lower()} of {' '.join(who)}", parts)
        return
    for pattern in (_IS, _DOES):
        match = pattern.search(clause)
        if match is not None:
            yield from _is(clause, match, speaking, denied=pattern is _IS and match["no"] is not None)
            return


def _has(clause: str, match: re.Match[str], speaking: SpeakerContext) -> Iterator[Fact]:
    said = clause[: match.start()]
    who = None if said.lower().endswith(("no longer ", "never ")) else subject_of(said, speaking)
    if who is None:
        return
    word = match["number"].lower()
    number = {"no": "0", "a": "1", "an": "1"}.get(word) or str(NUMBERS.get(word, word))
    thing = {"kid": "child", "children": "child"}.get(stem(match["thing"]), stem(match["thing"]))
    parts = ValuePart("amount", number), ValuePart(HAVING, "no" if number == "0" else "yes")
    yield Fact(Rule.GENERAL, f"number of {thing} of {' '.join(who)}", parts)


def _is(clause: str, match: re.Match[str], speaking: SpeakerContext, *, denied: bool) -> Iterator[Fact]:
    said = clause[: match.start()]
    who = subject_of(said, speaking) if said.strip() or speaking.last else None
    if who is None:
        return
    speaking.last = who
    value = _END.sub("", match["value"].strip())
    verb = "is" if match.re is _IS else stem(match["verb"])
    topic = f"{verb} {' '.join(who)}"
    state = _state_then(value, verb)
    if state is not None:
        yield from _state_on_days(state, who, speaking, denied=denied)
        return
    scaled = _scale_value(value)
    if scaled is not None:
        yield Fact(Rule.GENERAL, f"{topic} scale {scaled.sort}", (scaled,), not denied)
        return
    is_name = verb == "is" and match["verb"].lower().endswith(("called", "named"))
    if len(who) == 1 and who[0] in {speaking.me, "we"} and not is_name and verb != "weigh":
        return
    parts = () if _TEXTUAL.search(said) else parse_value(value)
    if not parts and verb == "is":
        parts = _single(said, match["verb"], value, is_at=bool(match["at"].strip()))
    if is_name or (parts and PEOPLE.intersection(who) and value[0].isupper()):
        topic = f"{verb} {' '.join(sorted({*who, 'name'}))}"
    if parts:
        yield Fact(Rule.GENERAL, topic, parts, not denied)


_STATE_THEN = re.compile(
    r"(?P<state>[a-z-]+)\s+(?:only\s+|all\s+day\s+)?(?P<when>(?:on|every|each|at|from|since|until|till|between|monday|tuesday|wednesday"
    r"|thursday|friday|saturday|sunday)s?\b.*)$",
    re.IGNORECASE,
)
_DAY_STATES = frozenset(
    listed("""
    busy crowded packed full quiet empty calm noisy loud dead lively available unavailable free off""")
)
"""States of some days: neither another state nor another day contradicts one."""
_DAYS = re.compile(rf"\b({'|'.join(WEEKDAYS)})\b", re.IGNORECASE)
_WITH_DAYS = frozenset({*listed("on every each and or the at from since until till only all day am pm"), *WEEKDAYS})
_OPENING = re.compile(r"\b(?P<when>until|till|at|from|since)\s+(?:\d|noon|midnight)", re.IGNORECASE)
_OPEN_VERBS = {"open": "open", "close": "closed"}


def _state_then(value: str, verb: str) -> re.Match[str] | None:
    """Return the state of a day or an hour that *value* begins with, and the day or hour; None when it is none.

    What "opens on Mondays" is open then; what "opens on Monday" may open once.
    """
    if verb in _OPEN_VERBS:
        days = _DAYS.search(value)
        if days is None or not (days[0].lower().endswith("days") or "every" in value.lower()):
            return None
        if value[0].isdigit():
            return _STATE_THEN.match(f"open {'from' if verb == 'open' else 'until'} {value}")
        return _STATE_THEN.match(f"{_OPEN_VERBS[verb]} on {value}")
    match = _STATE_THEN.match(value) if verb == "is" else None
    if match is None:
        return None
    state, is_of_days = match["state"].lower(), _DAYS.search(match["when"]) is not None
    is_known = state in _OPEN_VERBS.values() or (
        is_of_days and (state in _DAY_STATES or _scale_value(state) is not None)
    )
    return match if is_known else None


def _state_on_days(
    state: re.Match[str], who: tuple[str, ...], speaking: SpeakerContext, *, denied: bool
) -> Iterator[Fact]:
    """Yield that something is open or closed on each of some days: days are not compared with each other."""
    scaled, when = _scale_value(state["state"]), state["when"]
    days = [day.lower() for day in _DAYS.findall(when)]
    if not days:
        yield from _opening_hours(state, who)
        return
    rest = [word for word in re.findall(r"[a-z]+", when.lower()) if word not in _WITH_DAYS]
    if scaled is None or rest or who[0] == speaking.me or re.search(r"\b(?:to|through|thru)\b|[-–]", when):
        return
    is_weekly = re.search(r"\b(?:every|each)\b", when, re.IGNORECASE) is not None
    for day in days:
        named = f"{day.removesuffix('s')}s" if is_weekly else day
        yield Fact(
            Rule.GENERAL, f"is {' '.join(who)} scale {scaled.sort} on {named}", (scaled, *_hours(when)), not denied
        )


def _hours(when: str) -> tuple[ValuePart, ...]:
    """Return the time at which something opens or closes."""
    opening = _OPENING.search(when)
    time = next((part.text for part in parse_value(when) if part.sort == "time"), "")
    if opening is None or not time:
        return ()
    return (ValuePart("until" if opening["when"].lower() in {"until", "till"} else "from", time),)


def _opening_hours(state: re.Match[str], who: tuple[str, ...]) -> Iterator[Fact]:
    """Yield when something opens or closes every day: "open until 9 pm" as "closes at 9 pm"."""
    for part in _hours(state["when"]):
        is_opening = (part.sort == "from") is (state["state"].lower() == "open")
        yield Fact(
            Rule.GENERAL, f"{'open' if is_opening else 'close'} {' '.join(who)}", (ValuePart("time", part.text),)
        )


def _scale_value(value: str) -> ValuePart | None:
    words = value.lower().removeprefix("a ").removeprefix("an ").split()
    if not words or (len(words) > 1 and words[1] not in {"to", "with", "by", "for", "again", "today", "since"}):
        return None
    for number, scale in enumerate(SCALES):
        if words[0] in scale:
            return ValuePart(str(number), words[0])
    return None


def _single(said: str, verb: str, value: str, *, is_at: bool) -> tuple[ValuePart, ...]:
    """Return the one value of an attribute that has one, or of what is called so."""
    words = value.split()
    if not 0 < len(words) <= _FREE_WORDS or words[0].lower() in _NOT_NAMES:
        return ()
    if words[0].lower() in COLORS:
        return (ValuePart("color", words[0].lower()),)
    subject = [stem(word) for word in re.findall(r"[\w']+", said.partition(" of ")[0].partition(" for ")[0])]
    attribute = subject[-1] if subject else ""
    if is_at and attribute not in _PLACED:
        return ()
    is_single = attribute in SINGLE and is_name_of(attribute, value)
    is_tongue = subject[-2:] in (["native", "language"], ["first", "language"], ["mother", "tongue"])
    if is_tongue and words[0].lower() in LANGUAGES:
        return (ValuePart("value", words[0].lower()),)
    if "favorite" in subject or is_single or verb.lower().endswith(("called", "named")) or "favorite" in verb:
        return (ValuePart("value", " ".join(words).lower().strip("\"'")),)
    return ()


# Facts about persons: age and tools in use.


_AGE = re.compile(
    r"(?:^|(?<=\s))(?:is|am|are)\s+(?:(?:now|currently|already)\s+)*(?P<years>\d{1,3})"
    r"(?P<unit>[\s-]+years?[\s-]+old|\s+years\s+of\s+age)?(?:\s+now|\s+already)?$",
    re.IGNORECASE,
)
_USES = re.compile(
    r"(?:^|(?<=\s))(?:(?:now|currently|always|mainly|have|has)\s+)*(?:uses?|using|chose|picked|adopted|went\s+with"
    r"|(?:switched|moved|migrated|changed)\s+(?:over\s+)?(?:from\s+.+?\s+)?to)\s+(?P<value>(?:\S+\s+){0,3}?\S+)"
    r"\s+(?:as|for)\s+(?P<of>my|our|his|her|their|the)\s+(?P<attribute>(?:\w+\s+)??\w+?)"
    r"(?:\s+(?:now|instead|these days))?$",
    re.IGNORECASE,
)


_USE_WORDS = frozenset(words("use uses using chose picked adopted went switched moved migrated changed"))
"""One of these is in all that `_USES` finds."""
_AGE_WORDS = frozenset({"is", "am", "are"})


def persons(clause: str, said: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    """Yield the age of a person, or the tool in use for a purpose; *said* are the words of the clause."""
    match = None if _AGE_WORDS.isdisjoint(said) else _AGE.search(clause)
    if match is not None:
        yield from _age(clause[: match.start()], match, speaking)
        return
    match = None if _USE_WORDS.isdisjoint(said) else _USES.search(clause)
    if match is not None:
        yield from _usage_fact(clause[: match.start()], match, speaking)


def _age(said: str, match: re.Match[str], speaking: SpeakerContext) -> Iterator[Fact]:
    who = subject_of(said, speaking)
    if who is None or not (match["unit"] or speaking.me in who[:1] or not KIN.isdisjoint(who)):
        return
    if speaking.me in who and len(who) > 1 and KIN.isdisjoint(who):
        return
    speaking.last = who
    yield Fact(Rule.GENERAL, f"age of {' '.join(who)}", (ValuePart("years", match["years"]),))


def _usage_fact(said: str, match: re.Match[str], speaking: SpeakerContext) -> Iterator[Fact]:
    attribute = match["attribute"].lower()
    user = subject_of(said, speaking)
    if user is None or stem(attribute.split()[-1]) not in SINGLE:
        return
    owned = subject_of(f"our {attribute}", speaking) or ()
    who = owned if user == ("we",) or match["of"].lower() == "the" else tuple(sorted({*owned, *user}))
    yield Fact(Rule.GENERAL, f"is {' '.join(who)}", (ValuePart("value", match["value"].lower()),))


# Settings of developers: the port of a server, and indentation.


_PORT = re.compile(
    rf"{_BEFORE}(?:(?:runs?|running|listens?|listening|starts?|serves?|served|exposed|available|reachable|bound|binds?|moved"
    r"|switched|is|are)(?:\s+now)?\s+(?:from\s+(?:port\s+)?\d+\s+to|on|at|to)|uses?|using)\s+(?:the\s+)?port\s+(?P<value>\d{1,5})"
    r"(?:\s+(?:now|instead|these\s+days|anymore|again))*$",
    re.IGNORECASE,
)
_OPERATED = re.compile(
    r"^(?:i|we)\s+(?:(?:have|now|always|currently|just)\s+)*(?:run|start|serve|moved|switched|put|keep)\s+(?P<who>\S.*)$",
    re.IGNORECASE,
)
"""We run the dev server on a port: it is the server that has the port."""
_OPERATED_PORT = re.compile(
    r"\s(?:from\s+(?:port\s+)?\d+\s+to|on|at|to)\s+(?:the\s+)?port\s+(?P<value>\d{1,5})(?:\s+(?:now|instead|these\s+days))*$",
    re.IGNORECASE,
)


def ports(clause: str, words: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    """Yield the port of a server, as "the port of the server is 8080" does; *words* are those of the clause."""
    if "port" not in words:
        return
    operated = _OPERATED_PORT.search(clause)
    named = None if operated is None else _OPERATED.match(clause[: operated.start()])
    match = operated if named is not None else _PORT.search(clause)
    if match is None:
        return
    who = subject_of(clause[: match.start()] if named is None else named["who"], speaking)
    if who is None or who in {(speaking.me,), ("we",)}:
        return
    speaking.last = who
    topic = f"is {' '.join(sorted({*who, 'port'}))}"
    denied = match.groupdict().get("no")
    yield Fact(Rule.GENERAL, topic, (ValuePart("amount", str(int(match["value"]))),), not denied)


_INDENTS = re.compile(
    rf"{_BEFORE}(?i:uses?|using|indents?(?:\s+(?:my\s+)?code)?\s+(?:with|by|using)|switched\s+to|prefers?\s+indenting\s+with)\s+"
    rf"(?:(?P<count>\d|{'|'.join(NUMBERS)})[\s-]+)?(?P<with>[Tt]abs?|TABs?|spaces?)(?:\s+(?:characters?|indentation|indents?))?"
    r"(?:\s+(?:for|to|as|when)\s+(?:my\s+|the\s+)?(?:code\s+)?indent(?:ation|ing|s)?(?:\s+(?:my\s+)?code)?)?"
    r"(?:,?\s+(?:instead\s+of|rather\s+than|over|not)\s+(?:tabs?|spaces?))?(?:\s+(?:now|these\s+days|instead|everywhere|again))*$"
)
"""Spaces in upper case are a product."""
_INDENT_WORDS = frozenset(listed("tab tabs space spaces"))
_INDENT_SCALE = next(number for number, scale in enumerate(CONTRASTS) if any("tabs" in pole for pole in scale))


def indentation(clause: str, words: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    """Yield what someone indents with, as "I prefer tabs" does; *words* are those of the clause."""
    match = None if _INDENT_WORDS.isdisjoint(words) else _INDENTS.search(clause)
    if match is None or match["no"]:
        return
    who = subject_of(clause[: match.start()], speaking)
    if who is None:
        return
    said = match["with"].lower()
    pole = next(pole for pole, synonyms in enumerate(CONTRASTS[_INDENT_SCALE]) if said in synonyms)
    count = (match["count"] or "").lower()
    amount = (ValuePart("amount", str(NUMBERS.get(count, count))),) if count else ()
    topic = f"preferred choice {_INDENT_SCALE} of {' '.join(who)}"
    yield Fact(Rule.PREFERENCE, topic, (*amount, ValuePart(POLE, f"{pole}:{said}")))


# Preferences: likes, dislikes and choices.


_PREFERENCE_ADVERBS = (
    r"(?:(?:now|currently|also|still|really|actually|always|generally|usually|just|absolutely|is|am|are|has|have)\s+)*"
)
_LIKES = re.compile(
    rf"(?:^|(?<=\s)){_PREFERENCE_ADVERBS}(?:"
    r"(?P<no>(?:do|does)\s+not\s+(?:really\s+|particularly\s+)?(?:like|love|enjoy)|no\s+longer\s+(?:likes?|loves?|enjoys?)|dislikes?|hates?|detests?"
    r"|loathes?|can\s+not\s+stand|can\s+not\s+bear|stopped\s+(?:liking|drinking|eating|smoking|playing|watching)|no\s+longer\s+(?:drinks?|eats?|smokes?|plays?|watch(?:es)?)"
    r"|(?:do|does)\s+not\s+(?:drink|eat|smoke)|gave\s+up(?:\s+(?:drinking|eating|smoking|playing|watching))?|not\s+fond\s+of|not\s+a\s+fan\s+of|tired\s+of|sick\s+of)"
    r"|likes?|loves?|enjoys?|adores?|fond\s+of|a\s+(?:big\s+)?fan\s+of)\s+(?P<value>.+)",
    re.IGNORECASE,
)
_PREFERS = re.compile(
    rf"(?:^|(?<=\s)){_PREFERENCE_ADVERBS}prefers?\s+(?P<value>.+?)(?:\s+(?:over|to|rather\s+than|instead\s+of)\s+(?P<other>.+))?$",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"\s+(?:anymore|now|these days|nowadays|very much|a lot|most|best|again|too|as well|at all|so much"
    r"|any longer|, .*)$",
    re.IGNORECASE,
)
_AND = re.compile(r"\s*(?:,|\band\b|\bor\b)\s*")
_EXCLAIMED = re.compile(r"\s*(?:like|love|enjoy|hate|adore|prefer)\b", re.IGNORECASE)
"""Without a subject, "Love it!" is no statement, but "Loves it." is."""
_UNLIKE = re.compile(r"(?:to\s+know|that|this|who|how|when|it|them|you|him|her|of|for|in|being\s+in)\b", re.IGNORECASE)
_COMPARED = re.compile(r".*\b(?:is|are|am)\b.*\blikes?\s", re.IGNORECASE)
_NO_THING = frozenset(listed("you they we he she i was were have has is are be how it who had them me us if so"))
_LITTLE = frozenset(listed("the a an my his her their our to of some"))
_DOING = frozenset(listed("drinking eating smoking playing watching"))
_MOST_WORDS = 6


_PREFERENCE_READ_WORDS = frozenset(
    listed("""
    like likes love loves enjoy enjoys dislike dislikes hate hates detest detests loathe loathes stand bear stopped
    longer drink drinks eat eats smoke smokes gave fond fan tired sick adore adores prefer prefers""")
)
"""One of these is in all that is read here."""


def preferences(clause: str, words: AbstractSet[str], speaking: SpeakerContext) -> Iterator[Fact]:
    """Yield likes and dislikes, one for each thing, and what is preferred to what; *words* are those of the clause."""
    if _PREFERENCE_READ_WORDS.isdisjoint(words):
        return
    match = _LIKES.search(clause)
    if match is not None:
        yield from _likes(clause, match, speaking)
        return
    match = _PREFERS.search(clause)
    if match is not None:
        yield from _prefers(clause, match, speaking)


def _likes(clause: str, match: re.Match[str], speaking: SpeakerContext) -> Iterator[Fact]:
    who = _who(clause, match, speaking)
    if who is None or _COMPARED.match(match[0]) or _UNLIKE.match(match["value"]):
        return
    speaking.last = who
    for thing in _AND.split(_trim(match["value"])):
        words = _content(thing)
        if words and not is_ending(thing):
            topic = f"{LIKING} {' '.join(words)} of {' '.join(who)}"
            parts = ValuePart(LIKING, "likes"), *_given_up(clause, match, thing, speaking)
            yield Fact(Rule.PREFERENCE, topic, tuple(sorted(parts, key=lambda part: part.sort)), match["no"] is None)


def _given_up(clause: str, match: re.Match[str], thing: str, speaking: SpeakerContext) -> Iterator[ValuePart]:
    """Yield what someone who dislikes a thing does not do with it."""
    denied = match["no"].lower() if match["no"] else ""
    # "Do not eat meat" may be a request.
    if not denied or speaking.is_passing or (denied.startswith("do ") and not clause[: match.start()].strip()):
        return
    verb = verb_in(denied) or verb_in(thing)
    for one in (verb,) if verb else CONSUMED if denied.startswith("gave up") else ():
        yield doing_part(one)


def _prefers(clause: str, match: re.Match[str], speaking: SpeakerContext) -> Iterator[Fact]:
    who = _who(clause, match, speaking)
    if who is None:
        return
    speaking.last = who
    owner = " ".join(who)
    chosen, other = _content(_trim(match["value"])), _content(_trim(match["other"] or ""))
    if chosen and other:
        pair = " or ".join(sorted((" ".join(chosen), " ".join(other))))
        yield Fact(Rule.PREFERENCE, f"choice of {pair} of {owner}", (ValuePart("choice", " ".join(chosen)),))
    for number, scale in enumerate(CONTRASTS):
        for pole, synonyms in enumerate(scale):
            said = [word for word in chosen if word in synonyms or f"{word}s" in synonyms]
            if said:
                rest = " ".join(word for word in chosen if word not in said)
                topic = f"preferred {rest or 'choice'} {number} of {owner}"
                yield Fact(Rule.PREFERENCE, topic, (ValuePart(POLE, f"{pole}:{said[0]}"),))
                return


def _who(clause: str, match: re.Match[str], speaking: SpeakerContext) -> tuple[str, ...] | None:
    said = clause[: match.start()]
    if not said.strip() and speaking.last is None and _EXCLAIMED.match(match[0]):
        return None
    return subject_of(said, speaking)


def _trim(text: str) -> str:
    text = text.strip().rstrip(".!")
    while True:
        shorter = _TAIL.sub("", text)
        if shorter == text:
            return text
        text = shorter


def _content(text: str) -> list[str]:
    words = [stem(word) for word in re.findall(r"[^\W_][\w'+#-]*", text)]
    if len(words) > 1 and words[0] in _DOING:
        words = words[1:]
    kept = [word for word in words if word not in _LITTLE]
    return kept if len(kept) <= _MOST_WORDS and _NO_THING.isdisjoint(kept) else []
