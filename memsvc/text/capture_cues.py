"""The words by which Chinese and English statements are classified: one pattern for each cue.

The words themselves are in `capture_cues.txt` next to this file. They are read at first use.
"""

from __future__ import annotations

import re
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
FORGET = Cue("FORGET")
"""The wish that something be not remembered."""
MATERIAL = Cue("MATERIAL")
"""What hands text over to be worked on, or presents it as another's; the text follows."""
ASKED = Cue("ASKED")
"""The wish that something be remembered."""
SMALL_TALK = Cue("SMALL_TALK")
"""Greetings, thanks, assent: to be matched whole."""
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
