"""Facts that a text states, by rules, in English and Chinese: no model, no store, deterministic."""

from __future__ import annotations

import re
from functools import lru_cache

from memsvc.domain.conflicts import Fact
from memsvc.text.analysis import is_han
from memsvc.text.facts.changes import change_facts
from memsvc.text.facts.chinese import chinese_facts
from memsvc.text.facts.english import english_facts
from memsvc.text.sentences import sentences

MAX_CHARS = 400
"""A longer text says too much to be put aside for one of its sentences; it states nothing."""
MAX_STATEMENTS, MAX_LOOSE = 8, 16
USER = "user"

_TURN = re.compile(r"(?:^|\s)[^\W\d_]{1,16}\s?[:：]\s?(?=\w)")
"""How a turn of a conversation begins: what several people say is not stated by one."""
_USERS = frozenset({"", "user", "human", "用户", "我"})
_MACHINES = frozenset({"assistant", "agent", "ai", "bot", "system", "tool", "助手"})


@lru_cache(maxsize=2048)
def facts_in(text: str, *, speaker: str = "", is_titled: bool = False) -> tuple[Fact, ...]:
    """Return what *text* states, at most `MAX_STATEMENTS`, each topic once: the last word on it counts.

    "I" is the *speaker*, or the user when there is none; a sentence without a subject is about the user, unless the
    text *is_titled*: then it may be about what the title names.
    """
    if len(text) > MAX_CHARS or len(_TURN.findall(text)) > 1:
        return ()
    name = speaker.strip().lower()
    me = USER if name in _USERS else None if name in _MACHINES else name
    silent = None if is_titled else me
    state = chinese_facts if is_han(text) else english_facts
    said = sentences(text)
    found = {statement.topic: statement for statement in state(said, me=me, silent=silent)}
    loose = {statement.topic: statement for statement in change_facts(said, me=me)}
    return (*tuple(found.values())[-MAX_STATEMENTS:], *tuple(loose.values())[-MAX_LOOSE:])
