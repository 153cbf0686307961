"""Traits in English clauses: allergies, possessions, habits and skills, and that someone has them no longer.

A habit or a skill is read from a clause that says nothing else: "I drive" and not "I drive to work". What someone has
is read for things of a list, because most of what people have they have for a moment, such as time or a meeting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from memsvc.domain.conflicts import ABLE, DOING, HAVING, LIKING, Rule, ValuePart
from memsvc.text.facts.english_lexicon import STABLE_COUNTS, phrases, stem, words


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait that a clause names.

    Attributes:
        said: The text before it, which names the person.
        slot: The beginning of the topic, before the person.
    """

    said: str
    slot: str
    parts: tuple[ValuePart, ...]
    positive: bool
    rule: Rule = Rule.GENERAL


PASSING = re.compile(
    r"\b(?:today|tonight|tomorrow|this (?:morning|afternoon|evening)|right now|at the moment|for now|for the time being"
    r"|with me|on me)\b",
    re.IGNORECASE,
)
"""A sentence with one of these says how things are for a moment."""
_MOST_WORDS = 4
_START = r"(?:^|(?<=\s))"
_ADVERBS = (
    r"(?:(?:now|currently|also|still|really|actually|already|definitely|officially|always|generally|usually|regularly"
    r"|both|has|have|had)\s+)*"
)
_TAIL = (
    r"(?:\s+(?:anymore|any\s+longer|no\s+more|now|nowadays|these\s+days|currently|yet|at\s+all|again|too|as\s+well|either"
    r"|though|regularly|daily|(?:every|each)\s+(?:\w*day|morning|evening|night|week|weekend)|a\s+lot|after\s+all|for\s+good|completely|altogether|entirely|recently|lately|yesterday"
    r"|(?:last|this)\s+(?:week|month)))*\s*$"
)
_ENDED = re.compile(_TAIL, re.IGNORECASE)
_HOW_OFTEN = re.compile(r"\b(?:every|each|daily|regularly|a\s+lot)\b", re.IGNORECASE)
"""What is denied with one of these is done, but not so often."""
_DENIED = r"(?:do|does)\s+not|no\s+longer|never"
_BUT = re.compile(r"\s*,?\s+(?:but|so|because|since|although|though|which)\b.*$", re.IGNORECASE)
_AND = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|nor)\s+", re.IGNORECASE)
_LITTLE = frozenset(words("the a an my his her their our any some to of"))
_NO_THING = frozenset(
    words("""
    it them him her you me us that this these those anything nothing everything something much many more less enough
    too so not only people who when how if in on at for with from is are am was it's being""")
)


def is_ending(text: str) -> bool:
    """Return whether *text* says since when or how often, and names no thing, as "any more" and "last month" do."""
    return _ENDED.fullmatch(f" {text}") is not None


def _things_in(text: str) -> Iterator[str]:
    """Yield the things that a list names, as stems without articles."""
    for one in _AND.split(_ENDED.sub("", _BUT.sub("", text.strip().rstrip(".!")))):
        thing = _thing_of(one)
        if thing:
            yield thing


def _thing_of(text: str) -> str:
    said = [stem(word) for word in re.findall(r"[^\W_][\w'+#-]*", text)]
    kept = [word for word in said if word not in _LITTLE]
    return " ".join(kept) if len(kept) <= _MOST_WORDS and _NO_THING.isdisjoint(kept) else ""


# Allergies.


_DEGREE = (
    r"(?:(?:also|still|now|really|very|highly|severely|seriously|deathly|mildly|slightly|badly|extremely|quite)\s+)*"
)
_ALLERGIC = re.compile(
    rf"{_START}(?:is|am|are)\s+(?:(?P<no>(?:now\s+|actually\s+)?(?:not|no\s+longer)(?:\s+actually)?\s+)|{_DEGREE})"
    r"allergic\s+to\s+(?P<value>.+)$",
    re.IGNORECASE,
)
_HAS_ALLERGY = re.compile(
    rf"{_START}(?:(?P<no>(?:do|does)\s+not\s+have|no\s+longer\s+(?:has|have)|(?:has|have)\s+no)|(?:has|have)(?:\s+got)?)\s+"
    r"(?:(?:an?|any)\s+)?(?:(?:severe|bad|mild|slight|serious)\s+)?"
    r"(?:(?P<thing>[a-z]+(?:\s+[a-z]+)?)\s+allerg(?:y|ies)|allerg(?:y|ies)\s+to\s+(?P<value>.+))(?P<rest>.*)$",
    re.IGNORECASE,
)


def _allergies(clause: str) -> Iterator[Trait]:
    match = _ALLERGIC.search(clause)
    if match is None:
        match = _HAS_ALLERGY.search(clause)
        if match is None or not _ENDED.fullmatch(match["rest"]):
            return
    named = match.groupdict()
    for thing in _things_in(named.get("thing") or match["value"]):
        part = ValuePart("allergic", "allergic")
        yield Trait(clause[: match.start()], f"{thing} allergy", (part,), match["no"] is None)


# Possessions.


_KEPT = frozenset(
    phrases("""
    car, bike, bicycle, motorbike, motorcycle, scooter, van, truck, boat, caravan, campervan, house, flat, apartment,
    garden, garage, balcony, allotment, piano, guitar, violin, cello, drum kit, tv, television, dishwasher, microwave,
    dryer, laptop, tablet, printer, smartphone, passport, visa, driving licence, tattoo, mortgage, job, boyfriend,
    girlfriend, partner, husband, wife, roommate, flatmate, lodger, horse, pony, rabbit, hamster, parrot, tortoise,
    snake, credit card""")
)
"""Things that one has for a long time."""
_AILMENTS = frozenset(words("asthma diabetes adhd epilepsy hypertension eczema arthritis insomnia"))
_SAME_THINGS = {
    "driver license": "driving licence", "driver licence": "driving licence", "driving license": "driving licence",
    "bicycle": "bike", "motorcycle": "motorbike", "television": "tv",
    "kid": "child", "children": "child",
}  # fmt: skip
_HAS = re.compile(
    rf"{_START}{_ADVERBS}(?:(?:has|have)(?:\s+got)?|owns?)\s+(?:now\s+)?(?:(?P<article>an?|my\s+own|his\s+own|her\s+own)\s+)?"
    rf"(?:(?:new|nice)\s+)?(?P<thing>[a-z]+(?:'s)?(?:\s+[a-z]+)??){_TAIL}",
    re.IGNORECASE,
)
_HAS_NOT = re.compile(
    rf"{_START}(?:(?:(?:do|does)\s+not|(?P<longer>no\s+longer))\s+(?:actually\s+)?(?:have|has|owns?|keeps?)"
    r"|(?:has|have)\s+(?:not\s+got|(?:got\s+)?no))\s+"
    rf"(?:(?:an?|any|(?P<own>my|his|her|our|their))\s+)?(?P<thing>[a-z]+(?:'s)?(?:\s+[a-z]+)??)(?P<tail>{_TAIL})",
    re.IGNORECASE,
)


def _possessions(clause: str) -> Iterator[Trait]:
    match = _HAS_NOT.search(clause)
    if match is not None:
        has_ended = match["longer"] or "any" in match["tail"].lower()
        if not match["own"] or has_ended:
            yield from _possession(clause[: match.start()], match["thing"], positive=False)
        return
    match = _HAS.search(clause)
    if match is not None:
        thing = _kept_thing(match["thing"])
        if bool(match["article"]) is (thing in _KEPT):
            yield from _possession(clause[: match.start()], match["thing"], positive=True)


def _kept_thing(text: str) -> str:
    thing = " ".join(stem(word) for word in text.split())
    return _SAME_THINGS.get(thing, thing)


def _possession(said: str, text: str, *, positive: bool) -> Iterator[Trait]:
    thing = _kept_thing(text)
    if thing in STABLE_COUNTS:
        if not positive:
            parts = (ValuePart("amount", "0"), ValuePart(HAVING, "no"))
            yield Trait(said, f"number of {thing}", parts, positive=True)
    elif thing in _KEPT | _AILMENTS:
        yield Trait(said, f"having {thing}", (ValuePart(HAVING, "yes"),), positive)


# Habits and skills.


HABITS = frozenset(words("smoke vape drink drive cycle jog run swim cook gamble meditate dance sing ski skate knit"))
"""Habits that need no object."""
SKILLS = frozenset(words("drive swim cook ski skate surf dance sing knit sew juggle"))
"""What some can and others cannot."""
CONSUMED = words("eat drink smoke")
"""What is done with a thing that is given up."""
_OF_TASTE = (*CONSUMED, "play", "watch")
"""Habits with an object that share the topic of its liking."""
_OF_USE = words("use wear take practise attend ride read")
_PLURALS = {"glasse": "glasses", "contact lense": "contact lenses", "contact": "contacts", "jean": "jeans"}
"""Things that are worn, by their stems."""
LANGUAGES = frozenset(
    words("""
    english french german spanish italian portuguese dutch swedish norwegian danish finnish polish czech slovak
    hungarian romanian bulgarian greek turkish russian ukrainian arabic hebrew persian farsi hindi urdu bengali punjabi
    tamil telugu chinese mandarin cantonese japanese korean vietnamese thai indonesian malay tagalog swahili catalan
    basque welsh irish gaelic latin esperanto""")
)
_DOUBLED = frozenset(words("swim run jog knit"))


def gerund(verb: str) -> str:
    """Return the gerund of a verb, such as "smoking"."""
    if verb in _DOUBLED:
        return f"{verb}{verb[-1]}ing"
    return f"{verb.removesuffix('e')}ing"


def third_person(verb: str) -> str:
    """Return a verb as it is said of a person, such as "smokes"."""
    return f"{verb}es" if verb.endswith(("ch", "sh", "s", "x")) else f"{verb}s"


_FORMS = {form: verb for verb in {*HABITS, *SKILLS, *_OF_TASTE, *_OF_USE, "speak"} for form in (
    verb, third_person(verb), gerund(verb)
)} | {"practice": "practise", "practices": "practise", "practicing": "practise"}  # fmt: skip
_GERUNDS = "|".join(sorted(form for form in _FORMS if form.endswith("ing")))
_PLAIN = "|".join(sorted((form for form in _FORMS if not form.endswith("ing")), key=len, reverse=True))
_DOES = re.compile(
    rf"{_START}{_ADVERBS}(?:(?P<no>{_DENIED})\s+(?:actually\s+|really\s+)?|(?P<can>can\s+(?P<cannot>not\s+)?))?"
    rf"(?P<verb>{_PLAIN})(?P<rest>\s.*)?$",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    rf"{_START}(?:(?:has|have|is|am)\s+)?(?:(?:now|recently|just|finally|already)\s+)*"
    rf"(?:(?P<no>quit|stopped|gave\s+up|given\s+up)|started|began|took\s+up)\s+(?P<verb>{_GERUNDS})(?P<rest>\s.*)?$",
    re.IGNORECASE,
)


BARE_HABITS = frozenset(gerund(verb) for verb in HABITS | SKILLS)
"""Habits and skills without an object, as topics name them."""


def verb_in(text: str) -> str:
    """Return the first verb of a habit in *text* in its base form; empty if there is none."""
    return next((_FORMS[word] for word in text.lower().split() if word in _FORMS), "")


def _habits(clause: str) -> Iterator[Trait]:
    match = _CHANGES.search(clause) or _DOES.search(clause)
    if match is None:
        return
    said, named, form = clause[: match.start()], match.groupdict(), match["verb"].lower()
    verb, rest = _FORMS[form], (match["rest"] or "").strip()
    # "Speak French!" and "Don't smoke!" are requests.
    is_request = not said.strip() and (form == verb or (named["no"] or "").lower() in {"do not", "never", "quit"})
    if is_request or rest.lower().startswith(("to ", "at ", "with ", "for ", "like ")):
        return
    positive, can = named["no"] is None and named.get("cannot") is None, named.get("can") is not None
    if not positive and _HOW_OFTEN.search(rest):
        return
    if not is_ending(rest):
        yield from _habits_with(said, verb, rest, can=can, positive=positive)
    elif verb in (SKILLS if can else HABITS):
        parts = _doing(verb, can=can, positive=positive)
        yield Trait(said, f"{LIKING} {gerund(verb)}", parts, positive, Rule.PREFERENCE)


def _habits_with(said: str, verb: str, rest: str, *, can: bool, positive: bool) -> Iterator[Trait]:
    """Yield what is done with each of some things."""
    for thing in _things_in(rest):
        if verb == "speak":
            language = thing.removeprefix("fluent ").removesuffix(" fluently")
            if language in LANGUAGES:
                yield Trait(said, f"speaking {language}", (ValuePart(DOING, verb),), positive)
        elif not can and verb in _OF_TASTE:
            yield Trait(said, f"{LIKING} {thing}", (doing_part(verb),), positive, Rule.PREFERENCE)
        elif not can and verb in _OF_USE:
            named = _PLURALS.get(thing, thing)
            yield Trait(said, f"{gerund(verb)} {named}", (ValuePart(DOING, verb),), positive)


def _doing(verb: str, *, can: bool, positive: bool) -> tuple[ValuePart, ...]:
    """Return the parts: one who cannot do a thing does not do it either."""
    parts = [ValuePart(ABLE, verb)] if can else []
    if not (can and positive):
        parts.append(doing_part(verb))
    return tuple(parts)


def doing_part(verb: str) -> ValuePart:
    """Return the part that says what is done with a thing; different verbs are not compared."""
    return ValuePart(f"{DOING} {verb}", verb)


_WORDS = frozenset({
    "allergic", "allergy", "allergies", "has", "have", "own", "owns", "keep", "keeps", *_FORMS,
})  # fmt: skip
"""One of these is in all that is read here."""


def traits(clause: str, said: AbstractSet[str]) -> Iterator[Trait]:
    """Yield the traits that a clause names; *said* are its words."""
    if _WORDS.isdisjoint(said):
        return
    for read in (_allergies, _possessions, _habits):
        found = list(read(clause))
        if found:
            yield from found
            return
