"""The values that front matter gives to the fields of a memory, checked as the API's are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from memsvc.domain import limits
from memsvc.domain.field_rules import (
    UUID,
    count_fault,
    json_depth_fault,
    json_size_fault,
    name_fault,
    nul_fault,
    text_fault,
    time_zone,
)
from memsvc.domain.files import FILE_CATEGORIES
from memsvc.domain.limits import fits_json_number
from memsvc.domain.memory import (
    FileRef,
    Json,
    Keyword,
    Kind,
    Layer,
    Recurrence,
    Reminder,
    Slot,
    Status,
    Tier,
    normal_keywords,
)
from memsvc.domain.memory_keys import fault_of
from memsvc.domain.reminders import LUNAR_YEARS, is_day
from memsvc.domain.write_requests import PatchValue

_MINUTES = 1_440


class FieldError(Exception):
    """A value that the field cannot have; the text says what it must be."""


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """A value that was read; in a class of its own, since None is a value."""

    value: PatchValue


def read_field(name: str, value: Any) -> ParsedValue | None:
    """Return the value of a field as a memory holds it; None when there is no field of that name.

    Raises:
        FieldError: The field cannot have the value.
    """
    reader = _READERS.get(name)
    return None if reader is None else ParsedValue(reader(value))


def read_metadata(given: Any, others: Mapping[str, Any]) -> dict[str, Json]:
    """Return the metadata: the field of that name, and front matter of unknown names.

    Raises:
        FieldError: It is not what metadata can be.
    """
    if given is not None and not isinstance(given, dict):
        message = "must be names and values"
        raise FieldError(message)
    found = _json({**others, **(given or {})}, 1, set())
    try:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        fault = json_size_fault(text)
    except (UnicodeEncodeError, ValueError) as error:
        message = "must be text of Unicode"
        raise FieldError(message) from error
    _require(fault)
    assert isinstance(found, dict)  # noqa: S101 - for the type checker: it was a mapping
    return found


def _double(value: float) -> int | float:
    """Return a number of a note, which others read as a double."""
    if not fits_json_number(value):
        message = "must hold finite numbers only, within the range of doubles"
        raise FieldError(message)
    return int(value) if isinstance(value, int) else float(value)


def _json(value: Any, depth: int, seen: set[int]) -> Json:
    if isinstance(value, (bool, str)) or value is None:
        return _clean(value) if isinstance(value, str) else value
    if isinstance(value, (int, float)):
        return _double(value)
    if isinstance(value, datetime):
        return _moment(value).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    _require(json_depth_fault(depth))
    if id(value) in seen:
        message = "must not repeat a part by an anchor"
        raise FieldError(message)
    seen.add(id(value))
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {_clean(name): _json(inner, depth + 1, seen) for name, inner in value.items()}
    if isinstance(value, list):
        return [_json(inner, depth + 1, seen) for inner in value]
    message = "must hold texts, numbers, lists and names with values only"
    raise FieldError(message)


def _require(fault: str) -> None:
    """Return when a rule found no fault.

    Raises:
        FieldError: It found one.
    """
    if fault:
        raise FieldError(fault)


def _clean(text: str) -> str:
    _require(nul_fault(text))
    return text


def _text(value: Any, *, most: int, least: int = 0, is_name: bool = False) -> str:
    if value is None and not least:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, date)):
        message = "must be a text; put it into quotation marks"
        raise FieldError(message)
    text = str(value)
    rule = name_fault if is_name else text_fault
    _require(rule(text, most=most, least=least))
    return text


def _key(value: Any) -> str:
    key = _text(value, most=limits.KEY, is_name=True)
    _require(fault_of(key))
    return key


def _list(value: Any, *, most: int) -> list[Any]:
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    _require(count_fault(values, most=most))
    return values


def _tags(value: Any) -> tuple[str, ...]:
    return tuple(_text(one, most=limits.TAG, least=1) for one in _list(value, most=limits.TAGS))


def _ids(value: Any) -> tuple[str, ...]:
    found = tuple(str(one) for one in _list(value, most=limits.RELATED_IDS))
    if not all(UUID.fullmatch(one) for one in found):
        message = "must be ids of memories"
        raise FieldError(message)
    return found


def _file_refs(value: Any) -> tuple[FileRef, ...]:
    refs = []
    for one in _list(value, most=limits.FILE_REFS):
        category, colon, name = str(one).partition(":")
        if not colon or category not in FILE_CATEGORIES:
            message = f"must be such as 'artifact:abc', with one of {', '.join(sorted(FILE_CATEGORIES))}"
            raise FieldError(message)
        refs.append(FileRef(category, _text(name, most=limits.FILE_REF_ID, least=1, is_name=True)))
    return tuple(refs)


def _keywords(value: Any) -> tuple[Keyword, ...]:
    if isinstance(value, list):
        value = dict.fromkeys((str(one) for one in value), 1.0)
    if value is None or not isinstance(value, dict) or len(value) > limits.KEYWORDS:
        message = f"must be at most {limits.KEYWORDS} words, each with a weight from 0 to 1"
        raise FieldError(message)
    return normal_keywords(
        Keyword(_text(term, most=limits.KEYWORD, least=1), _number(weight)) for term, weight in value.items()
    )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        message = "must be a number from 0 to 1"
        raise FieldError(message)
    # The sum is 0 for a negative zero, which not every database has.
    return float(value) + 0.0


def _confidence(value: Any) -> float:
    return 1.0 if value is None else _number(value)


def _whole(value: Any, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        message = f"must be a whole number from {least} to {most}"
        raise FieldError(message)
    return int(value)


_WORDS = {"yes": True, "on": True, "no": False, "off": False}


def _flag(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    message = "must be true or false"
    raise FieldError(message)


def _choice(value: Any, *, choices: type[StrEnum]) -> Any:
    name = str(value).strip().upper().replace("-", "_")
    if name in choices.__members__:
        return choices[name]
    message = f"must be one of {', '.join(one.value.lower() for one in choices)}"
    raise FieldError(message)


def _time(value: Any) -> datetime | None:
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    try:
        return _moment(datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError) as error:
        message = "must be a time such as 2026-02-06 or 2026-02-06T10:00:00+08:00"
        raise FieldError(message) from error


def _moment(moment: datetime) -> datetime:
    """Return a moment in UTC; one that names no zone is there already.

    A moment as the parser returns it is of a class of its own, which would remain in the memory and cannot be rendered.
    """
    plain = datetime.combine(moment.date(), moment.timetz())
    try:
        return plain.replace(tzinfo=UTC) if plain.tzinfo is None else plain.astimezone(UTC)
    except OverflowError as error:
        message = "must be between the years 1 and 9999"
        raise FieldError(message) from error


def _reminder(value: Any) -> Reminder | None:
    if value is None:
        return None
    known = {"month", "day", "year", "recurrence", "minute", "time_zone", "slot", "lunar"}
    if not isinstance(value, dict) or not value.keys() <= known or not {"month", "day"} <= value.keys():
        message = "must have month and day, and may have year, recurrence, minute, time_zone, slot and lunar"
        raise FieldError(message)
    year = _whole(value.get("year", 0), least=0, most=9999)
    month, day = (_whole(value[name], least=1, most=31) for name in ("month", "day"))
    recurrence = _choice(value.get("recurrence", "yearly"), choices=Recurrence)
    if not is_day(year, month, day) or (recurrence is not Recurrence.YEARLY and not year):
        message = "must be a day of the calendar, with its year unless it is yearly"
        raise FieldError(message)
    is_lunar = _flag(value.get("lunar", False))
    if is_lunar and not (recurrence is Recurrence.YEARLY and LUNAR_YEARS[0] < year < LUNAR_YEARS[1]):
        message = "must be yearly, with a year from 1901 to 2099, when it is lunar"
        raise FieldError(message)
    minute = None if value.get("minute") is None else _whole(value["minute"], least=0, most=_MINUTES - 1)
    slot = None if value.get("slot") is None else _choice(value["slot"], choices=Slot)
    return Reminder(month, day, year, recurrence, minute, _zone(value.get("time_zone")), slot, is_lunar=is_lunar)


def _zone(value: Any) -> str:
    if not value:
        return ""
    zone = time_zone(str(value))
    if zone is None:
        message = "must have a time_zone such as Asia/Shanghai"
        raise FieldError(message)
    return zone.key


_READERS: Mapping[str, Callable[[Any], PatchValue]] = {
    "key": _key,
    "layer": partial(_choice, choices=Layer),
    "kind": partial(_choice, choices=Kind),
    "category": partial(_text, most=limits.CATEGORY),
    "title": partial(_text, most=limits.TITLE),
    "tags": _tags,
    "importance": partial(_whole, least=limits.IMPORTANCE_MIN, most=limits.IMPORTANCE_MAX),
    "tier": partial(_choice, choices=Tier),
    "status": partial(_choice, choices=Status),
    "confidence": _confidence,
    "speaker": partial(_text, most=limits.SPEAKER),
    "source": partial(_text, most=limits.SOURCE),
    "event_time": _time,
    "expire_time": _time,
    "valid_from": _time,
    "valid_to": _time,
    "work_in_progress": _flag,
    "summary": partial(_text, most=limits.SUMMARY),
    "keywords": _keywords,
    "related_ids": _ids,
    "file_refs": _file_refs,
    "reminder": _reminder,
}
