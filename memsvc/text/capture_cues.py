"""The words by which Chinese and English statements are classified: one pattern for each cue.

The words themselves are in `capture_cues.txt` next to this file. They are read at first use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

_MACRO = re.compile(r"@([A-Z_]+)@")


class Cue:
    """A pattern by its name. It is compiled once, on first use; threads that race for that compile it twice."""

    def __init__(self, name: str, *, ignores_case: bool = True) -> None:
        """Use the section *name* of the file."""
        self._name = name
        self._flags = re.IGNORECASE if ignores_case else re.NOFLAG
        self._pattern: re.Pattern[str] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return the pattern, which matches where any of its alternatives does."""
        if self._pattern is None:
            alternatives = "|".join(f"(?:{line})" for line in _sections()[self._name])
            self._pattern = re.compile(alternatives, self._flags)
        return self._pattern

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first place where *text* has the cue."""
        return self.pattern.search(text)


_CONTRACTIONS = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        (r"\bcan'?t\b|\bcannot\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bdont\b", "do not"),
        (r"n't\b", " not"),
        (r"\bi'?m\b", "i am"),
        (r"\b(we|you|they)'re\b", r"\1 are"),
        (r"'ve\b", " have"),
        (r"'d\b", " would"),
        (r"'ll\b", " will"),
        (r"\bgonna\b", "going to"),
        (r"\b(?:gotta|got to)\b", "have to"),
        (r"\bwanna\b", "want to"),
        (r"(?<=\w)'s\b", " 's"),
    )
)
_WORD = re.compile(r"'s\b|[a-z0-9](?:[a-z0-9'&+#/.:-]*[a-z0-9+#])?")


def plain_words(text: str) -> list[str]:
    """Return the words of an English text in lower case, with contractions written out."""
    plain = text.lower().replace("’", "'")
    if "'" in plain or "ont" in plain or "nn" in plain or "ant" in plain or "im" in plain or "tta" in plain:
        for pattern, written in _CONTRACTIONS:
            plain = pattern.sub(written, plain)
    return _WORD.findall(plain)


class PhraseList:
    """Phrases by the name of their section: of words in English, of characters in Chinese. Read at first use."""

    def __init__(self, name: str) -> None:
        """Use the section *name* of the file."""
        self._name = name

    def first_in(self, words: Sequence[str]) -> str:
        """Return the first phrase in *words*, or in the characters of a Chinese text; empty when there is none."""
        phrases, lengths = _phrases(self._name)
        join = "" if isinstance(words, str) else " "
        for start, head in enumerate(words):
            for length in lengths.get(head, ()):
                said = join.join(words[start : start + length])
                if said in phrases:
                    return said
        return ""

    def begins(self, words: Sequence[str]) -> bool:
        """Return whether *words* begin with a phrase."""
        phrases, lengths = _phrases(self._name)
        return any(" ".join(words[:length]) in phrases for head in words[:1] for length in lengths.get(head, ()))


@cache
def _phrases(name: str) -> tuple[frozenset[str], dict[str, list[int]]]:
    """Return the phrases of a section, and by the first word or Chinese character of each how long they are."""
    said = [phrase.strip() for line in _sections()[name] for phrase in line.split(",") if phrase.strip()]
    is_chinese = name.startswith("ZH")
    parts: list[Sequence[str]] = [phrase if is_chinese else plain_words(phrase) for phrase in said]
    lengths: dict[str, set[int]] = {}
    for words in parts:
        lengths.setdefault(words[0], set()).add(len(words))
    join = "" if is_chinese else " "
    return frozenset(join.join(words) for words in parts), {head: sorted(found) for head, found in lengths.items()}


@cache
def _sections() -> dict[str, list[str]]:
    """Return the lines of every section, with references to other sections replaced."""
    text = files("memsvc.text").joinpath("capture_cues.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]") and line[1:-1].strip("@").replace("_", "").isupper():
            lines = found[line[1:-1]] = []
        elif line and not line.startswith("# "):
            lines.append(_MACRO.sub(lambda match: found[f"@{match[1]}"][0], line))
    return found


CODE = Cue("CODE")
"""Program code, logs, data."""
SECRECY = Cue("SECRECY")
"""A clause that asks not to pass on what was said, with a pronoun or no object: to be matched whole."""
CONFIDENTIAL = Cue("CONFIDENTIAL", ignores_case=False)
"""A request not to pass something on that names from whom, or what."""
FORGET = Cue("FORGET")
"""The wish that something be not remembered."""
MATERIAL = Cue("MATERIAL")
"""What hands text over to be worked on, or presents it as another's; the text follows."""
ASKED = Cue("ASKED")
"""The wish that something be remembered."""
SMALL_TALK = Cue("SMALL_TALK")
"""Greetings, thanks, assent: to be matched whole."""
ACKNOWLEDGEMENT = Cue("ACKNOWLEDGEMENT")
"""A clause in which an assistant says that it heard something, or wishes well."""
TAG_QUESTION = Cue("TAG_QUESTION")
"""A question that only asks for assent to what was stated before it."""
QUESTION = Cue("QUESTION")
"""What asks. Words of asking in the middle of a longer statement do not make it a question."""
COMMAND = Cue("COMMAND")
"""What asks for something to be done now."""
LASTING = Cue("LASTING")
"""Words that make a wish a rule."""
LASTING_BID = Cue("LASTING_BID")
"""The polite beginning of a question that asks for something to be done from now on."""
MANNER = Cue("MANNER")
"""How the agent is to speak to the user."""
PREFERENCE = Cue("PREFERENCE")
"""What the user likes, and how they are used to do things."""
PERSONAL = Cue("PERSONAL")
"""Personal facts of the user."""
HOUSEHOLD = Cue("HOUSEHOLD")
"""Where things are kept, findings of health staff, new pastimes, and what became of pets."""
PERSONAL_LIFE = Cue("PERSONAL_LIFE")
"""What belongs to the life of a person and not to a project."""
PROJECT = Cue("PROJECT")
"""Signs of a project: paths, file names, and words of work that is shared."""
EXPLICIT_PROJECT = Cue("EXPLICIT_PROJECT")
"""Signs strong enough to tie a preference to a project."""
DECISION = Cue("DECISION")
"""A choice that was made."""
TASK = Cue("TASK")
"""Something to be done, by a time or some day."""
EXPERIENCE = Cue("EXPERIENCE")
"""Something that happened or was done."""
OPINION = Cue("OPINION")
"""A judgement."""
PASSING = Cue("PASSING")
"""A state of the moment, a doubt, a remark on the material at hand."""
HYPOTHESIS = Cue("HYPOTHESIS")
"""What is only thought of."""
TECHNOLOGY = Cue("TECHNOLOGY")
"""Names of technology that is the same everywhere."""
GENERAL = Cue("GENERAL")
"""What states how things are."""
INFORMATIVE = Cue("INFORMATIVE", ignores_case=False)
"""A name, a number or a date: what makes a plain statement worth keeping."""
STATING = Cue("STATING")
"""A verb that says how something is."""
ECHO = Cue("ECHO")
"""An agent that speaks of its user."""
DONE_BY_AGENT = Cue("DONE_BY_AGENT")
"""Work that an agent reports as done."""

HABIT = {"en": Cue("HABIT"), "zh": Cue("ZH_HABIT")}
"""What one does, has or is for a long time; the English ones for words of `plain_words`."""
WRITING = Cue("WRITING")
"""A request for a text or a game, whatever the text is about."""
EDITING = Cue("EDITING")
"""A change to a text at hand, or a text by its kind: "add a line", "a haiku about"."""
OTHERS = Cue("OTHERS")
"""Reported speech, parts played, news, and the doings of people without a tie to the user."""
REMARK = Cue("REMARK")
"""A remark on what is at hand or passes by, unless everyday words say that it is worth keeping."""
ASIDE = Cue("ASIDE")
"""A remark of the moment, whatever its words."""
EVENT = Cue("EVENT")
"""An event, or a statement about a person without a name: no fact of its own."""
WORDING = Cue("WORDING")
"""A part of a text at hand: a draft, a line, a title."""
LOOKUP = Cue("LOOKUP")
"""A question without a mark or a word of asking: for a command, a formula, a figure."""
AT_HAND = Cue("AT_HAND")
"""Talk about the answer or text at hand: corrections, recounts, liking, details of a text to be written."""
MOMENT = Cue("MOMENT")
"""Sensations, weather, waiting, devices that fail, what is seen around."""
EXAGGERATION = Cue("EXAGGERATION")
"""Preferences and duties that are not meant, and proverbs."""
ANECDOTE = Cue("ANECDOTE")
"""Deeds of relatives and acquaintances that change nothing."""
STORY = Cue("STORY")
"""Fiction in the first person or as the user's own, and parts played without an announcement."""
CONTINUED = Cue("CONTINUED")
"""A request for a text, or a story: the rest of the line is about it."""
CONTINUED_NOT = Cue("CONTINUED_NOT")
"""What makes a sentence after those one of the user's own."""
POINTING = Cue("POINTING")
"""Liking of what was just shown or said, and other remarks of the moment that read like habits."""
CANNOT = Cue("CANNOT")
"""What must not be eaten, drunk, taken or done; for words of `plain_words`."""
BID = {"en": Cue("BID"), "zh": Cue("ZH_BID")}
"""Standing instructions in everyday words, and their revocation; the English ones for words of `plain_words`."""
REVOKED = {"en": Cue("REVOKED"), "zh": Cue("ZH_REVOKED")}
"""The revocation of an instruction on the manner of answers; the English ones for words of `plain_words`."""
STYLE = {"en": Cue("STYLE"), "zh": Cue("ZH_STYLE")}
"""Parts of the manner of answers: emojis, lists, jargon."""
ONCE = Cue("ONCE")
"""Words that limit a request to the text at hand."""
REMINDER_BID = Cue("REMINDER_BID")
"""The polite beginning of a question that asks for a reminder."""
RECALL = Cue("RECALL")
"""What makes such a question one about the past: "remind me what we said"."""
ROLE_PLAY = Cue("ROLE_PLAY")
"""What announces parts to be played, by the user or the agent; what follows is said in them."""
ROLE_PLAY_END = Cue("ROLE_PLAY_END")
"""The end of a role-play."""
UNREAL = {"en": PhraseList("EN_UNREAL"), "zh": PhraseList("ZH_UNREAL")}
"""Wishes and suppositions."""
REPORTED = {"en": PhraseList("EN_REPORTED"), "zh": PhraseList("ZH_REPORTED")}
"""What others say, or are said to do."""
FICTION = PhraseList("EN_FICTION")
"""Stories and their people; in Chinese they are among `REPORTED`."""
WORKED_ON = PhraseList("ZH_COMMAND")
"""Chinese requests for a text or for words about words."""
FLEETING = {"en": PhraseList("EN_PASSING"), "zh": PhraseList("ZH_PASSING")}
"""Moods and events of the day."""
HEALTH = {"en": PhraseList("EN_HEALTH"), "zh": PhraseList("ZH_HEALTH")}
"""What a person must not eat, drink, take or do, and why."""
TASTE = {"en": PhraseList("EN_LIKING"), "zh": PhraseList("ZH_LIKING")}
"""Likes, dislikes and habits in the words of everyday speech."""
CHANGE = {"en": PhraseList("EN_CHANGE"), "zh": PhraseList("ZH_CHANGE")}
"""Changes of circumstance: home, work, relations, possessions, plans, tools, names."""
LIFE = {"en": PhraseList("EN_LIFE"), "zh": PhraseList("ZH_LIFE")}
"""Circumstances of a life or of a project."""
DUTY = {"en": PhraseList("EN_DUTY"), "zh": PhraseList("ZH_DUTY")}
"""Words of what has to be done."""
EVENTS = PhraseList("EN_EVENTS")
"""Appointments and other things that have a date."""
ERRANDS = PhraseList("EN_ERRANDS")
"""Verbs that errands begin with."""
DAYS = PhraseList("ZH_TIME")
"""Chinese words of a day to come."""
