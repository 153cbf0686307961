"""Signs that a text tells of a change, adds something, or only asks: English and Chinese.

A sign alone means little: "now" is in many texts. Together with what two texts are about it tells which one is
outdated: see `memsvc.engine.conflicts.currency`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memsvc.text.analysis import query_terms, simplified_form
from memsvc.text.facts import persons_in
from memsvc.text.reminder_extraction import denies_cancellation

_CHANGE = re.compile(
    r"\b(?:"
    r"now|nowadays|these days|no longer|any ?more|moved|moving|switch(?:ed|ing)?|chang(?:ed|ing)|instead|quit"
    r"|stopped|g[ai]ve(?:n)? up|gone off|went off|done with|cancel+ed|called off|postponed|pushed|bumped"
    r"|rescheduled|brought forward|delayed|from (?:now|here) on|going forward|new|sold|left|resign(?:ed)?"
    r"|broke up|divorced?|split|married|engaged|scrap|scratch|forget|ignore|drop(?:ped)?|upgrad(?:ed|e)"
    r"|migrat(?:ed|ing)|replac(?:ed|es|ing)|renam(?:ed|ing)|used to|finally|since|turns out|actually|ditched"
    r"|swapped|traded|joined|started|hired|raised|went up|won't|can't|not going|isn't|aren't|don't|doesn't"
    r"|stick with|settled on|went with|out|off|over|gone|back|extended|early|until|rather than"
    r")\b|"
    r"现在|如今|改|换|搬|不再|不[^，。,]{0,6}了|别[^，。,]{0,8}了|没[^，。,]{0,6}了|取消|推迟|延|提前|挪"
    r"|卖|辞|跳槽|离婚|分手|结婚|领证|戒|以后|从今|今后|最近|新|终于|升级|迁|黄了|掰|泡汤|算了|涨|降|调"
    r"|定成|定了|恢复|转|停|退|宽限|变|拿去|成了|去了|腻|够了|只",
    re.IGNORECASE,
)
_ADDITION = re.compile(
    r"\b(?:also|as well|besides|in addition)\b|\btoo\s*(?:[.,!;]|$)|也(?![不没别])|还(?![是不没])|另外|除了|同时"
    r"|又(?:养|买|添|捡|领养|报|收|加|开|认识|多|请|招|装|租|订)了",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*|[一二三四五六七八九十百千万]{2,}")
_QUESTION = re.compile(
    r"[?？]\s*$|^(?:what|how|why|should|can|could|is|are|do|does|write|translate|name)\b|吗|呢|帮我|给我|什么|怎么|为啥",
    re.IGNORECASE,
)

_SELF = re.compile(r"\bI\b|\bi(?=['’ ])|我(?!们|[的]?[一-鿿]{0,2}[爸妈姐妹哥弟爷奶])")
_OTHERS = re.compile(
    r"\b(?:we|us|our|he|him|his|she|her|they|them|their|you|your|both|each other)\b|我们|咱|俩|[他她它你您]",
    re.IGNORECASE,
)

_OF_USER = re.compile(r"^\W*(?:(?:my|our) (?=[a-z])|(?:我们?|咱们?)的?(?=[一-鿿]))", re.IGNORECASE)
"""Whose relative or friend a text speaks of."""
_USER = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours)\b|我|咱|俩", re.IGNORECASE)

_WISH_OF_OTHERS = re.compile(
    r"\b(?:thinks?|reckons?|says?|said|feels?)\b[^.,;!?]{0,12}\b(?:I|we) (?:should|ought|could|need)\b"
    r"|\b(?:wants?|would like|would love|wishes|hopes?)\b (?:me|us|[A-Z][a-z]+) to\b"
    r"|(?:想让|希望|劝|建议)[^，。,；]{1,4}|(?:说|觉得|认为)我们?(?:应该|该|可以|不如|还不如)",
)
"""What others would like to be so, which is not so."""
_WISH_OF_USER = re.compile(r"I\b|我(?:想|希望|建议|劝|觉得|认为)")


def count_changes(text: str) -> int:
    """Return the number of signs of a change in *text*."""
    return len(_CHANGE.findall(simplified_form(text)))


@dataclass(frozen=True, slots=True)
class ChangeCues:
    """Signs in a text.

    Attributes:
        changes: The number of signs of a change.
        is_addition: Whether it adds to something: "also", 也.
        is_question: Whether it asks or requests something.
        is_denial: Whether it only says that something is not called off: "the demo isn't cancelled".
        numbers: The numbers in it, as written.
        terms: Its content words, as they are searched for.
        persons: Who is spoken of, other than the user: relatives, and names in lower case.
        is_of_self: Whether the user speaks of themselves alone: "I", 我, and neither a person nor a pronoun of one.
        is_of_others: Whether a person other than the user is spoken of alone, as in "my sister moved" and 我同事跳槽了.
        is_wish: Whether it only says what others want: "Mum wants us to move", 我妈劝我辞职.
    """

    changes: int
    is_addition: bool
    is_question: bool
    is_denial: bool
    numbers: frozenset[str]
    terms: frozenset[str]
    persons: frozenset[str]
    is_of_self: bool
    is_of_others: bool
    is_wish: bool

    @classmethod
    def of(cls, text: str) -> ChangeCues:
        """Return the signs in *text*."""
        text = simplified_form(text)
        persons = persons_in(text)
        return cls(
            count_changes(text),
            _ADDITION.search(text) is not None,
            _QUESTION.search(text) is not None,
            denies_cancellation(text),
            frozenset(_NUMBER.findall(text)),
            frozenset(query_terms(text)),
            persons,
            not persons and _SELF.search(text) is not None and _OTHERS.search(text) is None,
            bool(persons) and _USER.search(_OF_USER.sub("", text)) is None,
            _WISH_OF_OTHERS.search(text) is not None and _WISH_OF_USER.match(text) is None,
        )
