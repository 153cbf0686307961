"""Public data sets in the form that their authors publish: LoCoMo, LongMemEval and BEAM.

Only what a memory would have been told is stored: answers, flags of evidence and ids that give it away are not.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABSTENTION = 5
"""The category of questions that have no answer, as in LoCoMo. They are left out of the measure of all."""
LONGMEMEVAL_CATEGORIES = (
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "",
    "temporal-reasoning",
    "knowledge-update",
)
"""Question types, numbered from 1; 5 is that of abstention."""
BEAM_CATEGORIES = (
    "information_extraction",
    "multi_session_reasoning",
    "temporal_reasoning",
    "knowledge_update",
    "abstention",
    "contradiction_resolution",
    "event_ordering",
    "instruction_following",
    "preference_following",
    "summarization",
)
"""Abilities, numbered from 1."""
_LINE_ID = re.compile(r"D(\d+):0*(\d+)")


def as_conversations(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a file of any known form in the form of README.md.

    Raises:
        ValueError: The form is not known.
    """
    converted = []
    for number, one in enumerate(found):
        if "memories" in one:
            converted.append(dict(one))
        elif "haystack_sessions" in one:
            converted.append(_longmemeval(one))
        elif "conversation" in one and "qa" in one:
            converted.append(_locomo(one))
        elif "chat" in one and "probing_questions" in one:
            converted.append(_beam(one, number))
        else:
            message = f"Item {number} is of no form that tests/bench/README.md names; it has {', '.join(sorted(one))}."
            raise ValueError(message)
    return converted


def _locomo(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a conversation of LoCoMo: a line for each turn, with the caption of its image.

    Some lists of evidence are malformed, such as "D8:6; D9:17" or "D30:05"; ids of no turn are dropped.
    """
    talk = found["conversation"]
    sessions = sorted((name for name in talk if re.fullmatch(r"session_\d+", name)), key=lambda name: int(name[8:]))
    lines = [
        {
            "id": _line_ids(turn["dia_id"])[0],
            "session": name,
            "date": talk.get(f"{name}_date_time", ""),
            "speaker": turn["speaker"],
            "text": _with_caption(turn),
        }
        for name in sessions
        for turn in talk[name]
    ]
    questions = [
        {
            "text": str(one["question"]),
            "evidence": [line for each in one.get("evidence") or () for line in _line_ids(str(each))],
            "category": one["category"],
        }
        for one in found["qa"]
    ]
    return {"name": str(found["sample_id"]), "language": "en", "memories": lines, "questions": questions}


def _line_ids(text: str) -> list[str]:
    return [f"D{session}:{line}" for session, line in _LINE_ID.findall(text)]


def _with_caption(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    text = str(turn.get("text") or "")
    return f"{text} [image: {caption}]".strip() if caption else text


def _longmemeval(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question of LongMemEval with its haystack, which is a user of its own.

    The ids of sessions with evidence begin with "answer_": they are numbered instead.
    """
    lines, evidence = [], []
    answers = set(found["answer_session_ids"])
    sessions = zip(found["haystack_session_ids"], found["haystack_dates"], found["haystack_sessions"], strict=True)
    for place, (session_id, date, turns) in enumerate(sessions, start=1):
        flagged = [at for at, turn in enumerate(turns) if turn.get("has_answer")]
        for at, turn in enumerate(turns):
            if not turn["content"].strip():
                continue
            line = f"S{place}:{at}"
            lines.append(
                {"id": line, "session": f"S{place}", "date": date, "speaker": turn["role"], "text": turn["content"]}
            )
            # A session without flags is evidence as a whole.
            if session_id in answers and (at in flagged or not flagged):
                evidence.append(line)
    is_abstention = str(found["question_id"]).endswith("_abs")
    number = LONGMEMEVAL_CATEGORIES.index(found["question_type"]) + 1
    question = {
        "text": found["question"],
        "evidence": evidence,
        "category": ABSTENTION if is_abstention else number,
    }
    return {"name": str(found["question_id"]), "language": "en", "memories": lines, "questions": [question]}


def _beam(found: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a conversation of BEAM; evidence whose message id is not unique in it is dropped."""
    sessions = list(_beam_sessions(found["chat"]))
    counts = Counter(str(message.get("id")) for session in sessions for message in session)
    lines = []
    for place, session in enumerate(sessions, start=1):
        date = next((str(message["time_anchor"]) for message in session if message.get("time_anchor")), "")
        for at, message in enumerate(session):
            known = str(message.get("id"))
            is_unique = counts[known] == 1
            lines.append(
                {
                    "id": known if is_unique else f"S{place}:{at}",
                    "session": f"S{place}",
                    "date": date,
                    "speaker": message["role"],
                    "text": message["content"],
                }
            )
    questions = [
        {
            "text": question["question"],
            "evidence": [one for one in map(str, _numbers(question.get("source_chat_ids"))) if counts[one] == 1],
            "category": BEAM_CATEGORIES.index(ability) + 1,
        }
        for ability, several in _unpacked(found["probing_questions"]).items()
        for question in several
    ]
    name = str(found.get("conversation_id") or f"beam-{number}")
    return {"name": name, "language": "en", "memories": lines, "questions": questions}


def _beam_sessions(chat: Any) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the sessions of a chat, which is nested: sessions, or plans of batches of turns."""
    chat = _unpacked(chat)
    if isinstance(chat, Mapping):
        for value in chat.values():
            yield from _beam_sessions(value)
    elif chat and all(isinstance(one, Mapping) and "content" in one for one in chat):
        yield list(chat)
    elif isinstance(chat, Sequence) and not isinstance(chat, str):
        for one in chat:
            yield from _beam_sessions(one)


def _numbers(value: Any) -> Iterator[int]:
    """Yield the ids of nested lists and mappings."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _numbers(one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _numbers(one)


def _unpacked(value: Any) -> Any:
    """Return a value that may be written as a literal of Python."""
    return ast.literal_eval(value) if isinstance(value, str) and value[:1] in "[{" else value
