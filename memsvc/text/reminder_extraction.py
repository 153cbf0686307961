"""Reminders in a text: birthdays, anniversaries, explicit requests, deadlines, appointments and other days to come.

By rules for English and Chinese. A false alarm is worse than a miss: what is past, asked, supposed, denied, hearsay or
about the reminders of other people is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import chain, pairwise

from memsvc.domain.memory import Recurrence, Reminder, Slot
from memsvc.domain.reminders import OVERDUE_DAYS, YEARS, is_day, lunar_day, lunar_start, next_day, slot_of
from memsvc.text import reminder_lexicon as words
from memsvc.text.analysis import HAN, script_of, simplified_form, terms, word_terms
from memsvc.text.reminder_dates import (
    NamedDay,
    minutes_of,
    months_after,
    named_days,
    next_of,
    number_of,
    time_of_day,
    visiting_minute,
)
from memsvc.text.sentences import sentences
from memsvc.text.statement_split import without_secrecy

MOST_CHARS = 2_000
"""A longer text is no note to remember, and is not looked at."""
PHRASE_CHARS = 500
_NEW_TEXTS = 8_192
"""Texts whose change of an event is kept: a new one is read before its transaction, which asks for it several times.
Eight batches of the largest size."""
_AHEAD_DAYS = 270
"""A day without a year that is farther ahead is taken as one of the last months."""
_AHEAD_MONTHS = 24
"""The first of a monthly day from a day on is looked for in so many months."""
_MOST_DAYS, _MOST_EVENTS = 8, 4
"""A sentence that names more is a table."""
_ANY_DAY = date(2026, 1, 1)
_LEAST_CHARS = 2
"""A clause that says less beside its day is read with its neighbours."""
_EVENT_CHARS = 6
"""The name of an event between its day and a distance from it is no longer in Chinese."""

_TENS = {
    "fourteen": 14, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "forty-eight": 48, "sixty": 60,
    "ninety": 90, "forty-five": 45,
}  # fmt: skip
_DISTANCE_COUNT = (
    rf"\d{{1,3}}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|the|half an?|{'|'.join(_TENS)}"
)
_DISTANCE = re.compile(
    rf"(?<![\w.])(?:(?P<few>a few|several|(?:a )?couple of)|(?P<two>an? (?=\w+ or two\b))"
    rf"|(?:(?:{_DISTANCE_COUNT})\s?(?:-|–|to|or)\s?)?(?P<count>{_DISTANCE_COUNT}))\s?(?:full |whole |good )?"
    r"(?P<unit>min(?:ute)?s?|h(?:ou)?rs?|h|days?|nights?|evenings?|mornings?|afternoons?|w(?:ee)?ks?|fortnights?|months?"
    r"|years?)(?: or two)?(?:['’])? "
    r"(?:in advance|ahead|before(?:hand)?|prior|earlier(?=\s*(?:\Z|[,.;:!?)]|than\b))|(?P<after>after(?:wards)?))\b",
    re.IGNORECASE,
)
_HAN_COUNT = "(?:[0-9]{1,3}(?:[-~到至][0-9]{1,3})?|[一二两三四五六七八九十]{1,3}|一个半|半|几)"
_HAN_UNIT = "(?:分钟|刻钟|个?(?:小时|钟头)|天|日|晚|个?(?:周|星期|礼拜)|个?月|个半月|年)"
_HAN_PART = "(?:的?(?P<part{}>晚上?|夜里|傍晚|下午|早上|早晨|上午|中午))?"
_HAN_DISTANCE = re.compile(
    rf"(?:提[前早]|(?<![最今明后])早|(?:(?<=[{HAN}])|之|以)(?<![从目当我你他她它们])前)"
    rf"(?P<count>{_HAN_COUNT})(?P<unit>{_HAN_UNIT})(?!的?[都内里]){_HAN_PART.format('')}"
    rf"|(?<![{HAN}])前(?P<count2>{_HAN_COUNT})(?P<unit2>{_HAN_UNIT}){_HAN_PART.format(2)}"
    rf"(?=[^，。,；我你他她]{{0,8}}(?:提醒|叫|喊|再|记得)(?![过了]))"
    rf"|(?<=[{HAN}])(?<!过)(?P<count3>{_HAN_COUNT})(?P<unit3>{_HAN_UNIT})[之以]?前(?=就?(?:提醒|叫|喊|通知|告诉))"
    rf"|(?P<eve>头一?[天晚]|前一?晚){_HAN_PART.format(4)}"
    rf"|(?P<next>第二天|次日|后一天){_HAN_PART.format(5)}"
)
_FEW = {"a few": 3, "several": 3, "几": 3}
_UNIT_MINUTES = {"min": 1, "h": 60, "分钟": 1, "刻钟": 15, "小时": 60, "钟头": 60}
_DAY_MINUTES, _NOON_MINUTES, _WEEK = 24 * 60, 12 * 60, 7
_MONTHS_OF_YEAR, _HALF_MONTH = 12, 15
_LAST_KEPT = 30
"""A monthly reminder of a later day is due on the last one of its month, from which no distance is kept."""
_PLAIN_YEAR, _LEAP_YEAR = 2001, 2000
_AFTER_LONG = (1, 2, 4, 6, 8, 9, 11)
"""The months after those of 31 days."""
_MOST_TRIES = 3


def reminder_in(text: str, moment: datetime) -> Reminder | None:
    """Return the first reminder that *text* asks for or calls for, or None.

    Days that are off ("tomorrow", 下周五) and those without a year are reckoned from the day of *moment*, in its zone.
    """
    if len(text) > MOST_CHARS or not YEARS[0] <= moment.year <= YEARS[1]:
        return None
    if not words.DATE_CUE.search(simplified_form(text).lower()):
        return None
    parts = sentences(text)
    for place, sentence in enumerate(parts):
        plain = _with_clock(without_secrecy(simplified_form(sentence)), moment)
        if len(sentence) > PHRASE_CHARS or not words.DATE_CUE.search(plain.lower()):
            continue
        for said in words.EXCLAIMED.split(plain):
            found = _on_day(said, moment.date()) or _at_next_time(said, moment)
            if found is not None:
                found = replace(found, phrase=sentence)
                is_last = place == len(parts) - 1
                return found if is_last else _with_next_sentence(found, parts[place + 1], text, moment.date())
    return None


def _on_day(said: str, today: date) -> Reminder | None:
    """Return the reminder of a day that a sentence names, or what it says beside its question or request."""
    if not words.DATE_CUE.search(said.lower()):
        return None
    found = _in_sentence(said, today)
    for part in (_stated_clauses, _deadline_of_work):
        if found is None and words.DATE_CUE.search((stated := part(said)).lower()):
            found = _in_sentence(stated, today)
    return found


def _deadline_of_work(said: str) -> str:
    """Return the clause that says when the user needs the work that the sentence asks for; empty: none does.

    "Translate my CV, I have to hand it in next Friday" has one, "translate this: I have to hand it in" none.
    """
    plain = words.QUOTED.sub(_blank, said)
    if not words.WORK.search(plain):
        return ""
    later = [plain[start:end].strip(" ?？,，") for start, end in clauses(plain, [])[1:]]
    return next((clause for clause in later if words.OWN_DEADLINE.search(clause)), "")


def names_own_deadline(text: str) -> bool:
    """Return whether *text* says that the user has to hand something in, or needs it, as what was asked for is."""
    return bool(words.OWN_DEADLINE.search(simplified_form(text)))


def _stated_clauses(said: str) -> str:
    """Return what a sentence says beside its question: "MRI on Friday at 9:40, can I eat before?"; empty: nothing."""
    if words.RHETORICAL.search(said) or _is_void_unasked(said):
        return ""
    parts = [said[start:end] for start, end in clauses(said, [])]
    stated = [clause for clause in parts if not _asks(clause)]
    return "".join(stated) if len(stated) < len(parts) else ""


def _at_next_time(said: str, moment: datetime) -> Reminder | None:
    """Return the reminder that is asked for at a time of day alone: "nudge me at 3pm"."""
    asked = words.ASKED.search(said)
    if asked is None or named_days(said, moment.date()) or _is_of_others(asked, said[: asked.start()]):
        return None
    minute, _ = time_of_day(said)
    if minute is None or is_void(said) or words.CONDITION.search(said) or _is_narrated(said):
        return None
    is_over = minute <= moment.hour * 60 + moment.minute
    day = moment.date() + timedelta(days=is_over)
    if day.year > YEARS[1]:
        return None
    return _with_slot(Reminder(day.month, day.day, day.year, Recurrence.NONE, minute), said)


def _with_clock(sentence: str, moment: datetime) -> str:
    """Return a sentence with a time of day in place of a duration from now, if it asks for something or says a duty."""
    found = words.FROM_NOW.search(sentence)
    if found is None or not (found["now"] or found["zh"] or found[0].lower().startswith("in ")):
        return sentence
    if not (words.ASKED.search(sentence) or words.MUST.search(sentence)):
        return sentence
    minutes = minutes_of(found)
    if minutes is None:
        return sentence
    due = moment + timedelta(minutes=minutes)
    if due.date() == moment.date():
        said = f" today at {due:%H:%M} " if found["en"] else f"今天{due:%H:%M}"
    else:
        said = f" tomorrow at {due:%H:%M} " if found["en"] else f"明天{due:%H:%M}"
    return sentence[: found.start()] + said + sentence[found.end() :]


def still_mentions(reminder: Reminder, text: str) -> bool:
    """Return whether a reminder that was found in an earlier text occurs, word for word, in this one."""
    return bool(reminder.phrase) and reminder.phrase in text


def _in_sentence(sentence: str, today: date) -> Reminder | None:
    said = words.ASIDE.sub(_blank_aside, words.RELAYED.sub(_blank, words.QUOTED.sub(_blank, sentence)))
    named = named_days(said, today)
    if _has_wrong_weekday(said, named, today):
        return None
    days = _without_echoes(named, today)
    if len(days) == 1 and days[0].month and not days[0].day:
        return _of_month(said, days[0], today)
    if not 0 < len(days) <= _MOST_DAYS or not any(one.is_clear for one in days) or is_void(said):
        return None
    clear = [one for one in days if one.is_clear]
    for one in clear:
        if (feast := _feast(said, one, today)) is not None:
            return _at_distance(feast, said, one, clear, today)
    return _of_day(said, clear, today) if len(days) == len(clear) else None


def _of_day(said: str, clear: list[NamedDay], today: date) -> Reminder | None:
    """Return the reminder of a day that is no birthday or anniversary."""
    asked = words.ASKED.search(said)
    clear = [_as_rhythm(said, one) for one in clear if not _is_over(said, one)]
    named = _meant(said, clear, today)
    if named is None or (asked is not None and _is_of_others(asked, said[: asked.start()])):
        return None
    if named.recurrence is not Recurrence.NONE:
        found = _of_rhythm(said, named, clear, today)
        found = found if found is None or asked is None else _with_slot(found, said)
    elif words.EVERY.search(said[: named.start]) or words.EVERY_YEAR.search(said):
        found = _of_every_year(said, named)
    else:
        found = _requested(said, named, today) if asked is not None else _scheduled(said, named, today)
    return None if found is None else _at_distance(found, said, named, clear, today)


def _of_month(said: str, named: NamedDay, today: date) -> Reminder | None:
    """Return the reminder of what ends or is due in a month of which no day is named: on its first day."""
    before = said[: named.start]
    if not words.ENDS_IN_MONTH.search(said) or words.EVERY.search(before) or words.EVERY_YEAR.search(said):
        return None
    is_next_year = bool(words.IN_NEXT_YEAR.search(before) or words.OF_NEXT_YEAR.match(said, named.end))
    if is_void(said) or words.IN_OTHER_YEAR.search(before):
        return None
    year = named.year or (today.year + 1 if is_next_year else 0)
    exact = date(year, named.month, 1) if YEARS[0] <= year <= YEARS[1] else None
    return _of_day(said, [replace(named, day=1, year=year, exact=exact)], today)


def _without_echoes(days: list[NamedDay], today: date) -> list[NamedDay]:
    """Return the days without a month whose day is named as well, and without weekdays of dates: 11月6日（周五）.

    A weekend or a holiday is dropped for any other day.
    """
    if any(one.is_clear and not one.is_loose for one in days):
        days = [one for one in days if not one.is_loose]
    dates = [one for one in days if one.is_clear and not one.is_weekday]
    months = {one.month for one in dates}
    weekdays = {day.weekday() for one in dates if (day := next_of(one, today)) is not None}
    return [
        one
        for one in days
        if not (one.month and not one.day and one.month in months)
        and not (one.is_weekday and one.exact is not None and one.exact.weekday() in weekdays)
    ]


def _has_wrong_weekday(said: str, days: list[NamedDay], today: date) -> bool:
    """Return whether a date is named with the weekday of another day: "Thursday, December 11", which is a Friday."""
    for one, other in pairwise(days):
        if one.is_weekday == other.is_weekday or not words.BESIDE.fullmatch(said[one.end : other.start]):
            continue
        weekday, named = (one, other) if one.is_weekday else (other, one)
        day = next_of(named, today) if named.is_clear and named.recurrence is Recurrence.NONE else None
        if day is not None and weekday.exact is not None and day.weekday() != weekday.exact.weekday():
            return True
    return False


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _blank_aside(match: re.Match[str]) -> str:
    """Return an aside as white space, unless it may say that the event is not to take place, or names a day."""
    return match[0] if words.NO_ASIDE.search(match[0]) else _blank(match)


def is_void(said: str) -> bool:
    """Return whether a sentence is none to be reminded of, whatever it names: asked, supposed, hearsay, refused."""
    return _is_void_unasked(said) or (_asks(said) and not words.REQUEST.search(said))


def _asks(said: str) -> bool:
    return bool(words.QUESTION.search(words.STILL.sub("", said)))


def _is_void_unasked(said: str) -> bool:
    """Return whether a sentence is none to be reminded of, for another reason than that it asks."""
    kept = words.ALLOWED_NOT.sub(lambda match: match["to"] or "", said)
    is_request = bool(words.REQUEST.search(said))
    if words.REFUSED.search(kept) or words.NOTES.search(said):
        return True
    if (words.NOT_FOR_US.search(said) or words.AFFAIR_OF_OTHERS.search(said)) and not is_request:
        return True
    if words.HYPOTHETICAL.search(said) and not is_request:
        return True
    return bool(words.TOLD.search(said) or words.THOUGHT.search(said) or words.REMIND_OF.search(said))


# Clauses.


def clauses(said: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the offsets of the clauses of a sentence; no comma within one of the *spans* ends one."""
    ends = [match.span() for match in words.DELIMITER.finditer(said)]
    cuts = [0, *(end for at, end in ends if not any(start <= at < stop for start, stop in spans))]
    return list(zip(cuts, [*cuts[1:], len(said)], strict=True))


def _clause_of(said: str, named: NamedDay) -> str:
    """Return the clause that names a day, with its neighbours if it says nothing else."""
    spans = [(named.start, named.end)]
    parts = clauses(said, spans)
    place = next(index for index, (start, end) in enumerate(parts) if start <= named.start < end or end == len(said))
    start, end = parts[place]
    rest = said[start : named.start] + " " + said[named.end : end]
    if not _says_something(rest):
        start = parts[max(0, place - 1)][0]
        end = parts[min(len(parts) - 1, place + 1)][1]
    before = said[start : named.start] if named.is_weekday else words.WEEKDAY_BEFORE.sub("", said[start : named.start])
    after = said[named.end : end]
    return before + words.DAY + (words.THAT_DAY.sub("", after) if named.is_loose else after)


def _says_something(rest: str) -> bool:
    """Return whether what is said beside a day says what the day is about."""
    kept = words.FILLER.sub("", rest)
    return len(kept) >= _LEAST_CHARS or (bool(kept) and not kept.isascii())


def _is_off(said: str, named: NamedDay) -> bool:
    """Return whether the clause of a day is past, denied or conditional."""
    clause = _clause_of(said, named)
    kept = words.ALLOWED_NOT.sub(lambda match: match["to"] or "", clause)
    if words.NEW_DAY.search(said):
        kept = words.WONT_BEFORE.sub("", kept)
    if words.PAST_YEAR.search(clause) and not named.year:
        return True
    if words.DENIED.search(kept) or words.IF.search(clause) or _is_called_off_after(said, named):
        return True
    if any(words.CONDITION.search(said[start:end]) for start, end in clauses(said, [])):
        return True
    return _is_narrated(clause, named)


def _is_called_off_after(said: str, named: NamedDay) -> bool:
    """Return whether the clause after that of a day says that its event does not take place."""
    end = next((end for start, end in clauses(said, [(named.start, named.end)]) if named.start < end), len(said))
    return bool(words.CALLED_OFF_AFTER.match(said[end:]))


def _is_narrated(text: str, named: NamedDay | None = None) -> bool:
    if words.MOVED_TO_DAY.search(text):
        return False
    if words.PAST.search(words.DONE_FOR.sub(_blank, text)):
        return True
    if not words.HAN_DONE.search(text) or (named is not None and named.is_ahead):
        return False
    return not (words.HAN_SOON.search(text) or words.MOVED_TO.search(text))


def _meant(said: str, clear: list[NamedDay], today: date) -> NamedDay | None:
    """Return the day that a sentence is about: the only one, that of a rhythm, or the first of several clauses."""
    rhythms = [one for one in clear if one.recurrence is not Recurrence.NONE]
    if rhythms:
        held = [one for one in rhythms if len(rhythms) == 1 or not _is_off(said, one)]
        return held[0] if held and len({(one.recurrence, one.exact) for one in rhythms}) == 1 else None
    if len(clear) <= 1:
        return clear[0] if clear else None
    if len({next_of(one, today) for one in clear}) == 1:
        return max(clear, key=lambda one: one.exact is not None)
    if any(words.CORRECTED.search(said[one.end : other.start]) for one, other in pairwise(clear)):
        return clear[-1]
    if (moved := words.MOVED_TO.search(said)) is not None:
        return next((one for one in clear if one.start >= moved.end()), None)
    return _first_of_clauses(said, clear)


def _is_over(said: str, named: NamedDay) -> bool:
    """Return whether what took place on a weekday is said to be over: "no more Wednesdays"."""
    is_weekday = named.is_weekday or named.recurrence is Recurrence.WEEKLY
    return is_weekday and bool(words.OVER.search(_clause_of(said, named)))


def _as_rhythm(said: str, named: NamedDay) -> NamedDay:
    """Return the weekday to which something was moved as one of every week, if the sentence says so; else *named*."""
    is_standing = words.STANDING.search(said) or (words.FROM_WEEKDAY.search(said) and words.REGULAR.search(said))
    if not named.is_weekday or not is_standing or words.THIS_WEEK.search(said):
        return named
    is_moved = words.MOVED_TO.search(said[: named.start]) is not None
    return replace(named, recurrence=Recurrence.WEEKLY, is_weekday=False) if is_moved else named


def _first_of_clauses(said: str, clear: list[NamedDay]) -> NamedDay | None:
    between = [said[one.end : other.start] for one, other in pairwise(clear)]
    if any(words.RANGE.search(part) and not words.JOINED.fullmatch(part) for part in between):
        return clear[0] if _is_stay(said, clear) else None
    spans = [(one.start, one.end) for one in clear]
    first: NamedDay | None = None
    for start, end in clauses(said, spans):
        within = [one for one in clear if start <= one.start < end]
        if len(within) > 1 and not _are_joined(said, start, within):
            return first
        if not within or _is_off(said, within[0]):
            continue
        if first is None:
            first = within[0]
        elif _is_duty_before(said[start:end], within[0], first):
            return within[0]
    return first


def _are_joined(said: str, start: int, days: list[NamedDay]) -> bool:
    """Return whether the days of a clause that begins at *start* are all meant: "out on 3 May and back on the 5th".

    Weekdays are, if nothing is between them but "and".
    """
    if words.SPAN.search(said[start : days[0].start]):
        return False
    between = [said[one.end : other.start] for one, other in pairwise(days)]
    if any(one.is_weekday for one in days):
        return all(words.JOINED.fullmatch(part) for part in between)
    return all(words.AND.search(part) and not words.OR.search(part) for part in between)


def _is_duty_before(clause: str, named: NamedDay, other: NamedDay) -> bool:
    """Return whether a clause states a duty of a day before that of another clause: to renew what expires later."""
    if named.exact is None or other.exact is None or not named.exact < other.exact:
        return False
    return bool(words.DUTY.search(clause))


def _is_stay(said: str, clear: list[NamedDay]) -> bool:
    """Return whether two days are the first and the last one away from home."""
    return len(clear) == 2 and bool(words.AWAY.search(said))  # noqa: PLR2004 - the ends of a span


# Distances from a day.


def _at_distance(found: Reminder, said: str, named: NamedDay, days: list[NamedDay], today: date) -> Reminder:
    """Return a reminder at the distance from its day at which the sentence asks for it, if at any."""
    for start, end in clauses(said, [(one.start, one.end) for one in days]):
        others = [one for one in days if start <= one.start < end and one is not named]
        offset = None if others else _asked_offset(said, (start, end), named)
        if offset is not None:
            # The time of day of the event is none of the reminder.
            is_before = named.start >= offset.end
            begin = max(start, named.end) if named.end <= offset.start else start
            return _moved_by(found, offset, said[begin : min(end, named.start) if is_before else end], today)
    return found


def _asked_offset(said: str, clause: tuple[int, int], named: NamedDay | None) -> Offset | None:
    """Return the distance that a clause names and asks for, from the day *named* of its sentence or the one before."""
    start, end = clause
    for offset in _offsets_in(said):
        if not start <= offset.start < end:
            continue
        if named is not None and (named.start < offset.end and offset.start < named.end):
            continue
        if _is_asked_ahead(said, clause, offset, named) and not _is_of_another_event(said, end, offset, named):
            return offset
    return None


def _is_asked_ahead(said: str, clause: tuple[int, int], offset: Offset, named: NamedDay | None) -> bool:
    """Return whether the reminder of a distance is asked for: in its clause, or in that before it."""
    start, end = clause
    text = said[start:end]
    asked = words.ASKED.search(text) or words.ASKED_AHEAD.search(text)
    if asked is None:
        rest = said[start : offset.start] + " " + said[offset.end : end]
        before = next((said[at:until] for at, until in clauses(said, []) if until == start), "")
        return not _says_something(rest) and bool(words.ASKED.search(before))
    if any(words.OTHERS_AHEAD.search(said[start:until]) for until in (offset.start, start + asked.start())):
        return False
    if named is None or not start + asked.end() <= named.start < offset.start:
        return True
    # "Remind me on Friday to book a week before the trip", but 提醒我5号考试前两天复习.
    return not text.isascii() and offset.start - named.end <= _EVENT_CHARS


def _is_of_another_event(said: str, end: int, offset: Offset, named: NamedDay | None) -> bool:
    """Return whether a distance is from another event than that of the day: "a day before the party"."""
    if named is None or offset.end <= named.start < end:
        return False
    behind = events_of(said[offset.end : end])[0]
    others = events_of(said[: offset.start] + said[end:])[0]
    return bool(behind and others) and not behind & others


def _with_next_sentence(found: Reminder, following: str, text: str, today: date) -> Reminder:
    """Return a reminder at the distance at which the next sentence asks for it, as in "Ping me a week before"."""
    said = words.RELAYED.sub(_blank, words.QUOTED.sub(_blank, simplified_form(following)))
    if next(_offsets_in(said), None) is None or next(_offsets_in(simplified_form(found.phrase)), None) is not None:
        return found
    if named_days(said, today) or is_void(said) or words.CONDITION.search(said) or _is_narrated(said):
        return found
    start = text.find(found.phrase)
    phrase = text[start : text.find(following, start + len(found.phrase)) + len(following)]
    offset = next(filter(None, (_asked_offset(said, clause, None) for clause in clauses(said, []))), None)
    if offset is None or len(phrase) > PHRASE_CHARS:
        return found
    return replace(_moved_by(found, offset, said, today), phrase=phrase)


@dataclass(frozen=True, slots=True)
class Offset:
    """A distance from the day of an event, at these offsets of the text.

    Attributes:
        days: Whole days, negative before the event; likewise *months* and *minutes*. One of them is not 0.
        slot: The part of that day which is named with the distance: "the evening before".
    """

    start: int
    end: int
    days: int = 0
    months: int = 0
    minutes: int = 0
    slot: Slot | None = None


def _offsets_in(text: str) -> Iterator[Offset]:
    """Yield the distances that *text* names, in order, those in English first."""
    found = [_in_english(match) for match in _DISTANCE.finditer(text)]
    if not text.isascii():
        found += [_in_chinese(match) for match in _HAN_DISTANCE.finditer(text)]
    yield from (one for one in found if one.days or one.months or one.minutes)


def _in_english(match: re.Match[str]) -> Offset:
    few, said = (match["few"] or "").lower(), (match["count"] or "").lower()
    if few or match["two"]:
        count: float = _FEW.get(few, 2)
    elif said.startswith("half"):
        count = 0.5
    else:
        count = 1 if said == "the" else _TENS.get(said) or number_of(said)
    return _of_unit(match, count, match["unit"].lower(), is_before=match["after"] is None)


def _in_chinese(match: re.Match[str]) -> Offset:
    if match["next"]:
        return _of_unit(match, 1, "天", is_before=False)
    if match["eve"]:
        return _of_unit(match, 1, match["eve"][-1], is_before=True)
    said = match["count"] or match["count2"] or match["count3"]
    return _of_unit(match, _han_count(said), match["unit"] or match["unit2"] or match["unit3"], is_before=True)


def _han_count(said: str) -> float:
    if said in _FEW:
        return _FEW[said]
    if said in {"半", "一个半"}:
        return 0.5 if said == "半" else 1.5
    last = re.split("[-~到至]", said)[-1]
    # 两三天: the larger of two numbers.
    return number_of(last) or number_of(last[-1])


def _of_unit(match: re.Match[str], count: float, unit: str, *, is_before: bool) -> Offset:
    """Return the distance of a match; one that has no whole number of its unit is nothing."""
    sign = -1 if is_before else 1
    slot = _slot_of_part(unit, next((match[name] for name in _parts(match) if match[name]), ""))
    for name, minutes in _UNIT_MINUTES.items():
        if unit.lstrip("个").startswith(name):
            total = int(count * minutes)
            days, rest = divmod(total, _DAY_MINUTES)
            return (
                Offset(*match.span(), sign * days) if days and not rest else Offset(*match.span(), minutes=sign * total)
            )
    if unit[0] == "y" or unit == "年":
        return Offset(*match.span(), months=sign * int(count * _MONTHS_OF_YEAR))
    if unit.startswith("month") or unit.endswith("月"):
        half = "半" in unit or count % 1
        return Offset(*match.span(), sign * _HALF_MONTH * bool(half), sign * int(count))
    length = 2 * _WEEK if unit.startswith("fortnight") else _WEEK if unit[0] == "w" or unit[-1] in "周期拜" else 1
    return Offset(*match.span(), sign * int(count * length), slot=slot)


def _parts(match: re.Match[str]) -> list[str]:
    return [name for name in match.re.groupindex if name.startswith("part")]


def _slot_of_part(unit: str, part: str) -> Slot | None:
    """Return the part of the day of "the evening before" or 前一天晚上."""
    if part:
        return Slot.MORNING if part in {"早上", "早晨", "上午", "中午"} else Slot.AFTERNOON
    if unit.startswith(("night", "evening", "afternoon")) or unit == "晚":
        return Slot.AFTERNOON
    return Slot.MORNING if unit.startswith("morning") else None


def _moved_by(found: Reminder, offset: Offset, beside: str, today: date) -> Reminder:
    """Return a reminder at a distance from its day, at the time of day that *beside* names, if any.

    One that recurs stays so where a day gives its recurrence; else its next occurrence is moved. What would
    be over by *today* stays on its day.
    """
    if offset.minutes:
        return _moved_by_minutes(found, offset, today)
    moved = _moved_by_days(found, offset, today)
    if moved is None:
        return found
    minute, part = time_of_day(beside)
    is_evening = offset.slot is Slot.AFTERNOON
    if minute is not None and is_evening and minute < _NOON_MINUTES:
        minute += _NOON_MINUTES
    slot = offset.slot or part if minute is None else slot_of(minute // 60)
    return replace(moved, minute=minute, slot=slot)


def _moved_by_minutes(found: Reminder, offset: Offset, today: date) -> Reminder:
    """Return a reminder so many minutes from its time of day; one without a time stays."""
    if found.minute is None:
        return found
    days, minute = divmod(found.minute + offset.minutes, _DAY_MINUTES)
    moved = _moved_by_days(found, Offset(offset.start, offset.end, days), today) if days else found
    if moved is None:
        return found
    return replace(moved, minute=minute, slot=None if found.slot is None else slot_of(minute // 60))


def _moved_by_days(found: Reminder, offset: Offset, today: date) -> Reminder | None:
    """Return a reminder on another day, not before *today*; None: there is none."""
    if found.is_lunar:
        place = lunar_day(date(found.year, found.month, found.day))
        keeps = place is not None and not offset.months and 0 < place[1] + offset.days < _LAST_KEPT
        return _shifted(found, offset) if keeps else _next_moved(found, offset, today)
    if found.recurrence is Recurrence.YEARLY:
        return _yearly_moved(found, offset)
    if found.recurrence is Recurrence.MONTHLY:
        return _monthly_moved(found, offset, today)
    moved = _shifted(found, offset)
    if found.recurrence is Recurrence.WEEKLY and moved is not None:
        ahead = max(0, (today - _date_of(moved)).days + _WEEK - 1) // _WEEK * _WEEK
        return None if offset.months else _shifted(moved, Offset(0, 0, ahead))
    return moved if moved is not None and _date_of(moved) >= today else None


def _yearly_moved(found: Reminder, offset: Offset) -> Reminder | None:
    year = found.year or (_PLAIN_YEAR if is_day(_PLAIN_YEAR, found.month, found.day) else _LEAP_YEAR)
    moved = _shifted(replace(found, year=year), offset)
    return moved if moved is None or found.year else replace(moved, year=0)


def _monthly_moved(found: Reminder, offset: Offset, today: date) -> Reminder | None:
    """Return a monthly reminder on an earlier or later day of the month; the day before the first is the last."""
    day = found.day + offset.days
    if not offset.months and found.day <= _LAST_KEPT and 0 < day <= _LAST_KEPT:
        return _shifted(found, offset)
    if not offset.months and day == 0:
        # The 31st of an earlier month: a monthly reminder of the 31st is due on the last day of each.
        return _shifted(replace(found, month=max(month for month in _AFTER_LONG if month <= found.month)), offset)
    return _next_moved(found, offset, today)


def _next_moved(found: Reminder, offset: Offset, today: date) -> Reminder | None:
    """Return the next occurrence of a reminder that recurs, moved, as a reminder of one day."""
    since: date | None = today
    for _ in range(_MOST_TRIES):
        day = None if since is None else next_day(found, since)
        if day is None:
            return None
        alone = replace(found, month=day.month, day=day.day, year=day.year, recurrence=Recurrence.NONE, is_lunar=False)
        moved = _shifted(alone, offset)
        if moved is not None and _date_of(moved) >= today:
            return moved
        since = None if day == date.max else day + timedelta(days=1)
    return None


def _date_of(found: Reminder) -> date:
    return date(found.year, found.month, found.day)


def _shifted(found: Reminder, offset: Offset) -> Reminder | None:
    """Return a reminder with its day moved; None: there is no such day."""
    day = months_after(_date_of(found), offset.months)
    if day is None or not 0 < day.toordinal() + offset.days <= date.max.toordinal():
        return None
    day += timedelta(days=offset.days)
    if not YEARS[0] <= day.year <= YEARS[1]:
        return None
    return replace(found, month=day.month, day=day.day, year=day.year)


# Days of every year.


def _feast(said: str, named: NamedDay, today: date) -> Reminder | None:
    """Return the reminder of a birthday or an anniversary that is said to be on a day."""
    if named.recurrence is not Recurrence.NONE or named.is_off or named.is_loose or not _is_yearly(said, named, today):
        return None
    if named.is_lunar:
        return _of_lunar_day(named)
    is_said = str(named.year) in said and YEARS[0] <= named.year <= YEARS[1]
    return Reminder(named.month, named.day, named.year if is_said else 0)


def _of_lunar_day(named: NamedDay) -> Reminder:
    day = lunar_start(date(named.year, named.month, named.day), named.lunar_number)
    return Reminder(day.month, day.day, day.year, is_lunar=True)


def _is_yearly(said: str, named: NamedDay, today: date) -> bool:
    """Return whether a day is said to be a birthday or an anniversary."""
    before, after = said[: named.start], said[named.end :]
    clause = _clause_of(said, named)
    if (
        words.IF.search(clause.partition(words.DAY)[0])
        or words.CONDITION.search(said)
        or words.DENIED.search(_without_forget(clause))
    ):
        return False
    if _is_birth(before, after, named, today) or _is_wedding(before, after, named, today):
        return True
    if words.YEARLY_BEFORE.search(before):
        # "For her birthday, March 5, I gave her a book" is about the past.
        return bool(words.PLAINLY.search(before)) or not _is_narrated(said)
    if words.YEARLY_AFTER.search(after) or words.HAN_YEARLY_AFTER.search(after):
        return not _is_narrated(said)
    if words.TURNS.search(before) or words.HAN_TURNS.search(after):
        return not _is_narrated(clause.replace("岁了", "岁"))
    return False


def _without_forget(clause: str) -> str:
    return words.ALLOWED_NOT.sub(lambda match: match["to"] or "", clause)


def _is_birth(before: str, after: str, named: NamedDay, today: date) -> bool:
    """Return whether one of the user's people was born then."""
    if named.exact is not None and (named.exact > today or named.exact.year < YEARS[0]):
        return False
    if (match := words.BORN.search(before)) is not None:
        return not words.FOREIGN.search(match["who"])
    if words.HAN_BORN_AFTER.search(after):
        return True
    return bool(named.year and words.HAN_OF_YEAR.search(after) and words.HAN_BIRTH_OF.search(before))


def _is_wedding(before: str, after: str, named: NamedDay, today: date) -> bool:
    """Return whether people of the user were married then."""
    is_past = named.exact is not None and named.exact < today
    if named.exact is not None and not is_past:
        return False
    match = words.WED.search(before)
    if match is not None and words.WED_WORD.search(match[0]):
        is_plan = re.search(r"\b(?:are|is|be|being|get|getting)\b", match[0]) and not is_past
        return not is_plan and not words.FOREIGN.search(match["who"])
    if words.HAN_WED_BEFORE.search(before):
        return is_past
    found = words.HAN_WED_AFTER.search(after)
    if found is None or words.HAN_FOREIGN.search(before):
        return False
    return is_past or found["how"] not in {"登记结婚", "结婚", "领证"}


def _of_every_year(said: str, named: NamedDay) -> Reminder | None:
    """Return the reminder of a day that is said to come every year."""
    before = words.EVERY.sub("", said[: named.start])
    if _is_of_another(said, before, named) or _is_off(said, named):
        return None
    if named.is_lunar:
        return _of_lunar_day(named)
    return Reminder(named.month, named.day)


def _of_rhythm(said: str, named: NamedDay, clear: list[NamedDay], today: date) -> Reminder | None:
    """Return the reminder of a day of every week or month, from the day on that the sentence names besides."""
    if named.exact is None or _is_off(said, named) or words.ELSEWHERE.search(said):
        return None
    if _is_of_another(said, said[: named.start], named):
        return None
    if words.TIMETABLE.search(said) and not words.OWN.search(said):
        return None
    rest = said[: named.start] + said[named.end :]
    if not _says_something(rest):
        return None
    day = named.exact
    for other in clear:
        since = None if other.recurrence is not Recurrence.NONE else next_of(other, today)
        if since is None or since < day or (other.exact is None and (since - today).days > _AHEAD_DAYS):
            continue
        if other.exact is not None and _fits(named, since):
            day = since
        elif _is_start(said, other, named):
            day = _first_since(since, day, named.recurrence)
    if day.year > YEARS[1]:
        return None
    return Reminder(day.month, day.day, day.year, named.recurrence, _minute_of(said, named))


def _fits(named: NamedDay, day: date) -> bool:
    if named.recurrence is Recurrence.WEEKLY:
        return named.exact is not None and day.weekday() == named.exact.weekday()
    return day.day == named.day


def _is_start(said: str, named: NamedDay, rhythm: NamedDay) -> bool:
    """Return whether a sentence says that a rhythm begins on the day *named*: "every Friday from 8 January"."""
    before, after = said[: named.start], said[named.end :]
    if words.SINCE_DAY.search(before) or words.HAN_SINCE_DAY.match(after):
        return True
    start = words.HAN_BEGINNING.match(after)
    if start is not None and words.HAN_FROM_DAY.search(before):
        return True
    if start is None and not words.BEGINS_ON_DAY.search(before):
        return False
    beside = said[named.end + (0 if start is None else start.end()) : rhythm.start]
    return named.end <= rhythm.start and bool(words.BESIDE.fullmatch(beside))


def _first_since(since: date, day: date, recurrence: Recurrence) -> date:
    """Return the first occurrence on or after *since* of what takes place on *day*, every week or every month."""
    if recurrence is Recurrence.WEEKLY:
        return since + timedelta(days=(day - since).days % _WEEK)
    months = range(1, _AHEAD_MONTHS + 1)
    later = (months_after(day, count) for count in months)
    return next((one for one in later if one is not None and one >= since and one.day == day.day), day)


# Days of one time.


def _is_of_others(asked: re.Match[str], before: str) -> bool:
    """Return whether another person reminds, or remembers."""
    if asked["remind"]:
        return bool(words.OTHERS_REMIND.search(before))
    return bool((asked["han_remind"] or asked["han_remember"]) and words.HAN_OTHERS.search(before))


def _requested(said: str, named: NamedDay, today: date) -> Reminder | None:
    if words.CONDITION.search(said) or words.HAN_CANCELLED.search(said) or _is_narrated(said, named):
        return None
    found = _ahead(said, named, today, most=None)
    return None if found is None else _with_slot(found, said)


def _scheduled(said: str, named: NamedDay, today: date) -> Reminder | None:
    before = said[: named.start]
    if words.ELSEWHERE.search(words.OPENS_OWN.sub("", said)) or _is_of_another(said, before, named):
        return None
    is_usual = bool(words.VISIT.search(said) and words.HABIT.search(said))
    if _is_off(said, named) or is_usual or (named.is_loose and not _is_planned(said)):
        return None
    is_strong = bool(words.STRONG.search(said))
    if named.exact == today and not (is_strong or words.MUST.search(said) or words.CLOCK.search(said)):
        return None
    if not is_strong and not _says_something(said[: named.start] + " " + said[named.end :]):
        return None
    if words.SPAN.search(before) and words.RANGE.search(said[named.end :]) and not words.AWAY.search(said):
        return None
    return _ahead(said, named, today, most=_AHEAD_DAYS)


def _is_planned(said: str) -> bool:
    """Return whether something is said to happen on a weekend or a holiday, once."""
    if words.HABIT.search(said):
        return False
    return bool(words.PLANNED.search(said) or words.PLANNED_NEXT.search(said))


def _is_of_another(said: str, before: str, named: NamedDay) -> bool:
    """Return whether a day is that of something else: of a mail, or of what was noted."""
    after = said[named.end :]
    return bool(words.OF_ANOTHER.match(after) or words.DATED.search(before))


def _ahead(said: str, named: NamedDay, today: date, *, most: int | None) -> Reminder | None:
    """Return the reminder of a day not before *today*; of one without a year, the next, not too far off."""
    day = next_of(named, today)
    if day is None or day < today or (named.exact is None and most is not None and (day - today).days > most):
        return None
    if day.year > YEARS[1]:
        return None
    return Reminder(day.month, day.day, day.year, Recurrence.NONE, _minute_of(said, named))


def _minute_of(said: str, named: NamedDay) -> int | None:
    """Return the only time of day that a sentence names, or else the only one of the clause of its day.

    A time behind another day that the clause adds is of that one: "exam on 3 May and gala on 5 May at 9am".
    """
    for other in named_days(said, _ANY_DAY):
        part = said[named.end : other.start]
        if other.start > named.end and words.AND.search(part) and not words.JOINED.fullmatch(part):
            said = said[: other.start]
            break
    minute, _ = time_of_day(said)
    if minute is not None:
        return minute
    parts = clauses(said, [(named.start, named.end)])
    minute = next((time_of_day(said[start:end])[0] for start, end in parts if named.start < end), None)
    return visiting_minute(said) if minute is None and words.VISIT.search(said) else minute


def _with_slot(found: Reminder, said: str) -> Reminder:
    """Return a reminder that was asked for in the slot that the sentence names.

    An appointment late in the day, which was not asked for, is also reminded of in the morning.
    """
    if found.recurrence is Recurrence.YEARLY:
        return found
    minute, part = time_of_day(said)
    slot: Slot | None = slot_of(minute // 60) if minute is not None else part
    return replace(found, slot=slot)


# Several events in a sentence, each with a day of its own.


def split_dated_events(text: str) -> list[str]:
    """Return the parts of a sentence that name an event with its day each, or the sentence alone.

    "Dentist on the 4th and MOT on the 12th" is of two memories, as each has one reminder. The events are of different
    sorts, and nothing is asked, supposed or changed. How the sentence begins ("I have", "remind me of") is said of all
    parts, and a month that is named once of all later days of it.
    """
    said = simplified_form(text)
    if len(text) > PHRASE_CHARS or len(said) != len(text) or not words.DATE_CUE.search(said.lower()):
        return [text]
    days = [one for one in named_days(said, _ANY_DAY) if one.is_clear]
    if not 1 < len(days) <= _MOST_EVENTS or not all(_is_plain_day(one) for one in days):
        return [text]
    if is_void(said) or any(pattern.search(said) for pattern in (words.OR, words.IF, words.MOVED, words.CANCELLED)):
        return [text]
    cuts = [_joint(said, one, other) for one, other in pairwise(days)]
    starts = [0, *(cut.end() for cut in cuts if cut is not None)]
    ends = [*(cut.start() for cut in cuts if cut is not None), len(text)]
    events = [events_of(said[start:end])[0] for start, end in zip(starts, ends, strict=True)]
    if len(starts) < len(days) or not all(events) or len(frozenset(chain(*events))) < sum(map(len, events)):
        return [text]
    months = _inherited_months(said, days)
    if months is None:
        return [text]
    for (at, month), number in zip(reversed(months), reversed(range(len(days))), strict=True):
        text = text[:at] + month + text[at:]
        ends[number:] = [end + len(month) for end in ends[number:]]
        starts[number + 1 :] = [start + len(month) for start in starts[number + 1 :]]
    lead = words.LEAD.match(text)
    before = text[: lead.end()] if lead is not None else ""
    return [(before if start else "") + text[start:end] for start, end in zip(starts, ends, strict=True)]


def _is_plain_day(named: NamedDay) -> bool:
    return named.recurrence is Recurrence.NONE and not (named.is_loose or named.is_off or named.is_lunar)


def _joint(said: str, one: NamedDay, other: NamedDay) -> re.Match[str] | None:
    """Return the last "and" or comma between two days."""
    return next(reversed(list(words.EVENT_JOINT.finditer(said, one.end, other.start))), None)


def _inherited_months(said: str, days: Sequence[NamedDay]) -> list[tuple[int, str]] | None:
    """Return for each day where its month has to be inserted, and the words for it; None: it is not certain which.

    3月4号看牙，12号年检 is 3月12号年检, but 3月28号看牙，4号年检 is not certain.
    """
    months: list[tuple[int, str]] = []
    last: NamedDay | None = None
    for one in days:
        named = said[one.start : one.end]
        if one.exact is None and one.month:
            last = one
        bare = words.DAY_OF_MONTH.fullmatch(named)
        if bare is None or last is None:
            months.append((one.start, ""))
            continue
        month = words.MONTH_NAME.search(said[last.start : last.end])
        if last.year or one.day <= last.day or month is None:
            return None
        months.append((one.start, month["zh"]) if month["zh"] else (one.end, f" of {month['en']}"))
    return months


# Appointments that were moved or called off.


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """A statement that an event was moved or called off.

    Attributes:
        label: The word of the statement for the event.
        is_cancelled: Whether the event does not take place; else it is on another day.
        events: The sorts of events that it names, as places in `reminder_lexicon.EVENTS`.
        words: The other terms that it consists of.
        people: The people that it names as those whose event it is, or with whom.
        qualifiers: Sorts of events, each with a word that says which event of the sort it is: "French" of an exam.
    """

    label: str
    is_cancelled: bool
    events: frozenset[int]
    words: frozenset[str]
    people: frozenset[str]
    qualifiers: frozenset[tuple[int, str]]


def schedule_change(text: str) -> ScheduleChange | None:
    """Return what *text* says was moved or called off, or None."""
    return None if len(text) > PHRASE_CHARS else cached_schedule_change(text)


@lru_cache(maxsize=_NEW_TEXTS)
def cached_schedule_change(text: str) -> ScheduleChange | None:
    """Return what `schedule_change` returns for a text that is short enough."""
    text = simplified_form(text)
    small = text.lower()
    if not any(cue in small for cue in words.CHANGE_CUES):
        return None
    if not (words.MOVED.search(text) or words.CANCELLED.search(text)):
        return None
    for sentence in sentences(text):
        said = words.RELAYED.sub(_blank, words.QUOTED.sub(_blank, sentence))
        cancelled = _stated(words.CANCELLED, said)
        change = cancelled or _stated(words.MOVED, said)
        if change is None or is_void(said) or words.CONDITION.search(said):
            continue
        is_cancelled = cancelled is not None
        subject = _clause_of_change(words.RELAYED.sub(_blank, sentence), change)
        events, label = events_of(subject)
        found = event_terms(subject)
        if not events and (caller := _caller_of(sentence, said, change)):
            events, label = events_of(caller)
            found = event_terms(caller)
        if events or found:
            label = label or min(found, key=lambda term: subject.lower().find(term))
            qualifiers = qualifiers_of(subject)
            return ScheduleChange(label, is_cancelled, events, found, people_of(subject), qualifiers)
    return None


def _caller_of(sentence: str, said: str, change: re.Match[str]) -> str:
    """Return who gave the news that moves the user to another day, "the dentist rang"; empty if there is no such news.

    *said* is the sentence without those words.
    """
    if not words.MOVES_USER.match(said, change.end()) or not named_days(said[change.start() :], _ANY_DAY):
        return ""
    return next((match[0] for match in words.RELAYED.finditer(sentence) if match.end() <= change.start()), "")


def names_event(text: str) -> bool:
    """Return whether *text* has a word for an appointment or a deadline."""
    text = simplified_form(text)
    return bool(words.STRONG.search(text) or words.DUE_BY.search(text) or _EVENT.search(text))


def names_visit(text: str) -> bool:
    """Return whether *text* says that tradespeople or a delivery come to the user, or came."""
    return bool(words.VISIT.search(simplified_form(text)))


def denies_cancellation(text: str) -> bool:
    """Return whether *text* says that something is not called off, and of nothing that it is."""
    text = simplified_form(text)
    if len(text) > PHRASE_CHARS or not words.CANCELLED.search(text):
        return False
    said = [(sentence, match) for sentence in sentences(text) for match in words.CANCELLED.finditer(sentence)]
    return bool(said) and all(_is_denied(sentence, match) for sentence, match in said)


def _stated(pattern: re.Pattern[str], said: str) -> re.Match[str] | None:
    """Return the first match that is stated: not denied, nor asked or believed by another person."""
    for match in pattern.finditer(said):
        before = _before_in_clause(said, match)
        is_doubted = words.IF.search(before) or words.HEARSAY_OF_CHANGE.search(before)
        if not (is_doubted or _is_denied(said, match)):
            return match
    return None


def _is_denied(said: str, change: re.Match[str]) -> bool:
    is_unable = words.UNABLE.match(said[change.end() :])
    return bool(is_unable or words.DENIED_CHANGE.search(_before_in_clause(said, change)))


def _before_in_clause(said: str, change: re.Match[str]) -> str:
    start = next(start for start, end in clauses(said, []) if change.start() < end)
    return said[start : change.start()]


def _clause_of_change(sentence: str, change: re.Match[str]) -> str:
    """Return the clause in which something is moved or called off, if it names the event, else the sentence.

    "Her flight changed so the panel sits on 27 April" moves the panel.
    """
    parts = clauses(sentence, [])
    place = next(place for place, (start, end) in enumerate(parts) if start <= change.start() < end)
    start, end = parts[place]
    if not named_days(sentence[start:end], _ANY_DAY):
        for after, until in parts[place + 1 :]:
            clause = sentence[after:until]
            follows = words.THEREFORE.search(sentence[:after])
            if follows and event_terms(clause) and named_days(clause, _ANY_DAY):
                return clause
    return sentence[start:end] if events_of(sentence[start:end])[0] else sentence


def at_another_time(reminder: Reminder, text: str, moment: datetime) -> Reminder | None:
    """Return the reminder of an event whose time of day *text* changes without naming a day, or None.

    "The demo is now at 5pm" leaves the demo on its day.
    """
    small = simplified_form(text).lower()
    if len(text) > PHRASE_CHARS or not any(cue in small for cue in words.CHANGE_CUES):
        return None
    for sentence in sentences(text):
        said = words.RELAYED.sub(_blank, words.QUOTED.sub(_blank, simplified_form(sentence)))
        minute, _ = time_of_day(said)
        if minute is None or minute == reminder.minute or _stated(words.CANCELLED, said) is not None:
            continue
        is_stated = _stated(words.MOVED, said) is not None and not (is_void(said) or words.CONDITION.search(said))
        if is_stated and not named_days(said, moment.date()):
            return replace(reminder, minute=minute, slot=None, phrase=sentence)
    return None


def changed_event(change: ScheduleChange, reminded: Sequence[str]) -> int | None:
    """Return the place of the only one of the *reminded* sentences that is about the event of *change*, or None.

    Of the same event are those that share its sort, or, when it names none that is known, half of its words. None also
    when two share equally much: rather both are kept than one is lost.
    """
    scores = [shared_with(change, simplified_form(sentence)) for sentence in reminded]
    best = max(scores, default=0)
    return scores.index(best) if best and scores.count(best) == 1 else None


def shared_with(change: ScheduleChange, sentence: str) -> int:
    """Return how much of a change is about the event of a sentence; 0: another event."""
    events, found, people = events_of(sentence)[0], event_terms(sentence), people_of(sentence)
    task = words.TASK.search(sentence)
    if task is not None and (task["en"] or task["zh"]).lower() not in change.words:
        return 0
    if change.people - people or (events and change.events and not events & change.events):
        return 0
    if _is_another_of_sort(change, sentence, events):
        return 0
    common = change.words & found
    if change.events & events:
        return 2 * len(change.events & events) + len(common)
    return len(common) if not change.events and 2 * len(common) >= len(change.words) else 0


def names_weekday(text: str) -> bool:
    """Return whether *text* may name a weekday: a quick test, which also finds "sun" and "sat"."""
    return _NAMED_WEEKDAY.search(text) is not None


def moved_rhythm(text: str, moment: datetime) -> tuple[int | None, ScheduleChange] | None:
    """Return what *text* says to have moved for good to another weekday, with the weekday that it left, or None.

    The weekday is 0 for Monday; None: it names none, as in "yoga is on Thursdays now".
    """
    change = schedule_change(text)
    if change is None or change.is_cancelled:
        return None
    reminder = reminder_in(text, moment)
    if reminder is None or reminder.recurrence is not Recurrence.WEEKLY:
        return None
    left = words.FROM_WEEKDAY.search(simplified_form(text))
    if left is None:
        return None, change
    return _WEEKDAYS[(left["en"] or left["zh"][-1]).lower()], change


def is_exception(text: str) -> bool:
    """Return whether *text* names another day of a week, or none, for what takes place every week: of one week alone.

    "Yoga is on Thursday this week" leaves the rule as it is; "I quit yoga this week" does not.
    """
    said = simplified_form(text)
    if len(said) > PHRASE_CHARS or not words.THIS_WEEK.search(said):
        return False
    return not (words.STANDING.search(said) or words.ENDED.search(said))


def concerns_another_event(older: str, newer: str) -> bool:
    """Return whether *newer* moves or calls off an event of the same sort as that of *older*, but another one.

    Such as the flight to another city, or the dinner with another person.
    """
    older = simplified_form(older)
    change, events = schedule_change(newer), events_of(older)[0]
    if change is None or not change.events & events:
        return False
    return _are_disjoint(change.people, people_of(older)) or _is_another_of_sort(change, older, events)


def _is_another_of_sort(change: ScheduleChange, sentence: str, events: frozenset[int]) -> bool:
    """Return whether a change qualifies the events that it shares with a sentence otherwise than that one does."""
    shared = change.events & events
    if not shared:
        return False
    sides = (change.qualifiers, qualifiers_of(sentence))
    return _are_disjoint(*(frozenset(term for sort, term in side if sort in shared) for side in sides))


def states_another_day(older: str, newer: str, moment: datetime) -> bool:
    """Return whether *newer*, said at *moment*, is about another day than that of *older*.

    It moves or calls off another event; or it changes no event, states a day of its own or time off work, and shares
    neither the sort of an event, nor a person, nor any other term with *older*.
    """
    older, newer = simplified_form(older), simplified_form(newer)
    change, before, after = schedule_change(newer), events_of(older)[0], events_of(newer)[0]
    if change is not None:
        return _changes_another(change, older, newer)
    is_leave = bool(words.LEAVE.search(newer)) and not words.LEAVE.search(older)
    if not is_leave and reminder_in(newer, moment) is None:
        return False
    if before and after:
        return not before & after
    return not _share_names(older, newer)


def names_dated_event(text: str, moment: datetime) -> bool:
    """Return whether *text*, said at *moment*, names an event and a day, be there a reminder in it or not."""
    return names_event(text) and any(one.is_clear for one in named_days(simplified_form(text), moment.date()))


def _changes_another(change: ScheduleChange, older: str, newer: str) -> bool:
    """Return whether *newer* changes an event of another sort or another name than that of *older*.

    A name is a word for what is moved or called off; those of two languages are not compared.
    """
    before, after = events_of(older)[0], events_of(newer)[0]
    if before and change.events:
        return not before & after
    if script_of(older) is not script_of(newer) or _share_names(older, newer):
        return False
    return bool(change.events) or (bool(before) and bool(event_terms(_changed_subject(newer))))


def _changed_subject(text: str) -> str:
    """Return the words of *text* for what it says was moved or called off, which are before that; empty: none do."""
    for pattern in (words.CANCELLED, words.MOVED):
        change = _stated(pattern, text)
        if change is not None:
            is_mover = words.MOVES_SOMETHING.match(text, change.end())
            return "" if is_mover else _before_in_clause(text, change)
    return ""


def _share_names(older: str, newer: str) -> bool:
    """Return whether two texts share a person or a term that may be of one event.

    A proper name alone is shared by many: "Lunch with Hargreaves moved to the 20th" says nothing of the MOT at
    Hargreaves, "Hargreaves can fit me in on the 20th" may.
    """
    terms_of_newer = event_terms(newer)
    shared = (event_terms(older) & terms_of_newer) | (people_of(older) & people_of(newer))
    names = _proper_names(older) | _proper_names(newer)
    own = terms_of_newer - names - people_of(newer) - _SCHEDULING_TERMS
    return bool(shared - names) or (bool(shared) and not own)


def _proper_names(text: str) -> frozenset[str]:
    """Return the terms of proper names: capitalised words within a sentence that are no events, 老张, 李医生."""
    found = [match[0] for match in words.PROPER_NAME.finditer(text) if match[0].lower() not in _SORTS]
    return frozenset(one.lower() for one in found) | event_terms(" ".join(found))


def is_beside_due(older: str, newer: str) -> bool:
    """Return whether *older* says what is due by a day, and *newer* names nothing of it.

    An appointment may be moved in other words than it was made in, but what is due has a name: a form, a tax, a rent.
    Texts of two languages share no words, and are not compared.
    """
    older, newer = simplified_form(older), simplified_form(newer)
    if script_of(older) is not script_of(newer) or not words.DUE_BY.search(older) or words.DUE_BY.search(newer):
        return False
    return not (event_terms(older) & event_terms(newer) or events_of(older)[0] & events_of(newer)[0])


def events_of(sentence: str) -> tuple[frozenset[int], str]:
    """Return the sorts of events that a sentence names, and the word for the first of them."""
    found = sorted((match.start(), -len(match[0]), match[0].lower()) for match in _EVENT.finditer(sentence))
    return frozenset(_SORTS[word] for *_, word in found), found[0][2] if found else ""


def head_events(thing: str) -> tuple[frozenset[int], str]:
    """Return the sorts of events and the word for them, as `events_of`, of which the last word of *thing* is one.

    "The MOT station" is none.
    """
    found = next((match for match in _EVENT.finditer(thing) if match.end() == len(thing.removesuffix("s"))), None)
    found = found or next((match for match in _EVENT.finditer(thing) if match.end() == len(thing)), None)
    return (frozenset(), "") if found is None else events_of(found[0])


def event_terms(sentence: str) -> frozenset[str]:
    """Return the terms of a sentence that say which event is meant."""
    plain = _DATE_WORDS.sub(" ", sentence)
    return (
        frozenset(
            term
            for term in terms(plain)
            if not term.isdigit() and term not in words.WEAK_WORDS and (len(term) > 1 or not term.isascii())
        )
        - _WEAK_TERMS
    )


def people_of(sentence: str) -> frozenset[str]:
    """Return the people that a sentence names as those whose event it is, or with whom."""
    found = [match["en"] or match["zh"] for match in words.PEOPLE.finditer(sentence)]
    found += [match["en"] or match["zh"] for match in words.COMPANY.finditer(sentence)]
    return frozenset(_PERSON.get(one.lower(), one.lower()) for one in found)


def qualifiers_of(sentence: str) -> frozenset[tuple[int, str]]:
    """Return the terms that say which event of its sort is meant, beside the words for events, with the sorts."""
    said = words.MOVED.sub(_blank, words.CANCELLED.sub(_blank, sentence))
    found: list[tuple[int, str]] = []
    for match in _EVENT.finditer(said):
        sort = _SORTS[match[0].lower()]
        if (before := words.QUALIFIER_BEFORE.search(said[: match.start()])) is not None:
            found.append((sort, before["en"] or before["zh"]))
        if (after := words.QUALIFIER_AFTER.match(said[match.end() :])) is not None:
            found.append((sort, after["en"]))
    known = {(sort, term) for sort, word in found for term in event_terms(word) if len(term) > 1}
    return frozenset(one for one in known if one[1] not in words.PLAIN_WORDS and one[1] not in _SORTS)


def _are_disjoint(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether both have terms in the same script, and none in common."""
    scripts = {term.isascii() for term in one} & {term.isascii() for term in other}
    return bool(scripts) and not one & other


_NAMED_WEEKDAY = re.compile(
    r"\b(?:mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:days?)?\b"
    r"|(?:[周週]|星期|禮拜|礼拜)[一二三四五六日天]",
    re.IGNORECASE,
)
_WEEKDAYS = {
    word: number
    for number, names in enumerate(("mon 一", "tues 二", "wednes 三", "thurs 四", "fri 五", "satur 六", "sun 日 天"))
    for word in names.split()
}
_SORTS = {word: number for number, group in enumerate(words.EVENTS) for word in group}
_EVENT = re.compile(
    "|".join(
        rf"\b{re.escape(word)}" + ("" if word in {"therap", "counsel", "defen", "vaccin"} else r"(?=s?\b)")
        if word.isascii()
        else re.escape(word)
        for word in sorted(_SORTS, key=len, reverse=True)
    ),
    re.IGNORECASE,
)
_DATE_WORDS = re.compile(r"\d+(?:st|nd|rd|th)?|[一二三四五六七八九十]{1,3}[月号日点]")
_WEAK_TERMS = frozenset(chain.from_iterable(map(word_terms, (word for word in words.WEAK_WORDS if word.isascii()))))
_SCHEDULING_TERMS = frozenset(chain.from_iterable(map(word_terms, words.SCHEDULING_WORDS)))
_PERSON = {
    "mum": "mother", "mom": "mother", "妈": "mother", "妈妈": "mother",
    "dad": "father", "爸": "father", "爸爸": "father",
    "老婆": "wife", "老公": "husband", "儿子": "son", "女儿": "daughter", "闺女": "daughter", "gran": "grandma",
    "granny": "grandma", "奶奶": "grandma", "外婆": "grandma", "姥姥": "grandma", "爷爷": "grandpa", "外公": "grandpa",
    "姥爷": "grandpa", "猫": "cat", "狗": "dog", "娃": "孩子", "kid": "孩子", "kids": "孩子", "老板": "boss",
}  # fmt: skip


# What is done: "MOT passed", "paid the rent", 房租交了, 牙医看完了.
#
# Only what users say of themselves counts, in a clause of its own: neither what others did, nor what is asked, denied,
# supposed, planned, or a habit.


DONE_AHEAD_DAYS = 7
"""Number of days by which a duty may be done before its day."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A statement that something is done.

    Attributes:
        event: The words for it, as those of an event that is called off.
        acts: What was done with it, as keys of `ACTS`; empty: it took place.
        text: The clause.
    """

    event: ScheduleChange
    acts: frozenset[str]
    text: str


ACTS = {
    "pay": re.compile(
        r"\b(?:pay|paid|paying|payment|settle[ds]?|transfer\w*)\b|交|缴|付|还款|转账|汇款", re.IGNORECASE
    ),
    "submit": re.compile(
        r"\b(?:submit\w*|submission|hand(?:ed|ing)?(?: it)? in|turn(?:ed)? in|file[ds]?|filing|send|sent|post(?:ed)?"
        r"|mail(?:ed)?|deliver(?:ed)?)\b|交(?!通|流|房)|提交|寄|发送|发给|递",
        re.IGNORECASE,
    ),
    "renew": re.compile(
        r"\b(?:renew\w*|expir\w*|runs? out|replac\w*|extend\w*|valid)\b|换|续|补办|办|到期|过期", re.IGNORECASE
    ),
    "collect": re.compile(r"\b(?:collect\w*|pick(?:ed|ing)?\b.{0,24}\bup|fetch\w*)\b|取|领|拿", re.IGNORECASE),
    "return": re.compile(r"\b(?:return\w*|give back|gave back|take back|took back|bring back)\b|还", re.IGNORECASE),
}
"""What may have to be done with a thing by a day, as reminders and statements say it."""
_OTHER_ACT = re.compile(
    r"\b(?:read|review|proofread|check|discuss|print|write|start|prepare|practi[cs]e|buy|call|ring|phone|email|ask"
    r"|cancel|book|arrange|find|measure|clean|order|invite|pack|study|revise|rent(?= an?\b))\b(?!-?(?:up|in|out)\b)"
    r"|准备|复习|打印|打电话|咨询|询问|取消|预约|预定|检查报告|审阅|修改|讨论|买|写|订|练|问",
    re.IGNORECASE,
)
"""Another thing to do, after which the first is still to be done."""
_EVERYDAY = frozenset(
    {
        "dinner", "lunch", "coffee", "call", "date", "meeting", "class", "match", "play", "trip", "train", "flight",
        "party", "release", "move", "review",
    }
)  # fmt: skip
"""Sorts of events of which there are several: they took place only if more words say which one it was."""
_HANDED_IN = frozenset({"report", "paper", "thesis", "application"})
"""What is done only once it is handed in."""
_INSPECTION = "mot"
"""A sort of event that may be before the day by which it has to be."""
_KIN_OF_USER = frozenset({"dog", "cat", "rabbit", "孩子", "猫", "狗"})
"""For whom the user goes somewhere."""

_BEGIN = (
    r"\A\W*(?:(?:and|so|ok(?:ay)?|well|right|yes|yay|yep|phew|hooray|hurray|great news|good news|fyi|btw|update|done"
    r"|finally|at last|just|already)[,:!.]*\s+)*"
)
_SELF = r"(?:(?:i|we|the user)(?:['’]ve| have| has)?\s+)?(?:(?:just|already|finally|now|successfully|actually)\s+)*"
_OF_OWN = r"(?:(?:the user['’]s|the|my|our|that|this)\s+)?"
_THING = (
    r"(?P<thing>(?!(?:his|her|their|your|its|someone|somebody|everyone|nobody|he|she|they|you|it|that|this|which|who"
    r"|what|i|we|not|no|never|almost|nearly)\b)[a-z][\w’'-]*"
    r"(?:\s+(?!(?:is|are|was|were|has|have|had|be|been|got|went|will|and|but|not|by|to)\b)[\w’'-]+){0,3}?)"
)
_TAIL = (
    r"(?=\s*(?:[,.;:!—–(-]|\Z|(?:today|yesterday|tonight|this (?:morning|afternoon|evening|week)|last night|just now"
    r"|now|already|at last|finally|too|as well|on time|early|in time|online|with (?:no|two|one|three|a few|flying)\b"
    r"|first time|and|but|so|without|for (?:december|november|october|september|august|july|june|may|april|march"
    r"|february|january|this month|the month))\b))"
)
_ADVERB = r"(?:all |now |finally |already |just |successfully |both )*"
_STATE = (
    rf"(?:['’]s|\s+(?:is|was|are|were|has been|have been|['’]s been|got))?\s+{_ADVERB}(?P<state>done(?: and dusted)?"
    r"|over(?: and done with)?|finished|completed?|passed|paid(?: off)?|settled|submitted|filed|sent(?: off)?"
    r"|handed in|turned in|posted|renewed|returned|collected|picked up|behind me|out of the way)"
    rf"|\s+{_ADVERB}(?P<went>went (?:really |very |pretty )?(?:well|fine|ok(?:ay)?|great|smoothly|badly))"
)
_VISITED = (
    r"(?P<visit>been (?:to|for|at)|went (?:to|for)|got back from|came back from|had|sat|passed|attended|finished|done)"
)
_DONE_WITH = (
    r"(?P<act>paid(?: off)?|submitted|handed in|turned in|filed|sent(?: off| in)?|posted|mailed|renewed|returned"
    r"|collected|picked up)"
)
_RETURNED = r"(?:i['’]?m |we['’]?re |i am |we are )?(?:just |already |finally |now )*(?P<back>back from)"
_EN_PATTERNS = (
    re.compile(rf"{_BEGIN}{_OF_OWN}{_THING}(?:{_STATE}){_TAIL}", re.IGNORECASE),
    re.compile(rf"{_BEGIN}{_SELF}{_VISITED}\s+{_OF_OWN}(?:an?\s+)?{_THING}{_TAIL}", re.IGNORECASE),
    re.compile(rf"{_BEGIN}{_RETURNED}\s+{_OF_OWN}{_THING}{_TAIL}", re.IGNORECASE),
    re.compile(rf"{_BEGIN}{_SELF}{_DONE_WITH}\s+{_OF_OWN}{_THING}{_TAIL}", re.IGNORECASE),
)
_HAN_BEGIN = (
    r"\A\W*(?:(?:好了|好消息|报告一下|对了|嗯|耶|哈哈|终于|我们?|咱们?|用户|今天|今早|昨天|刚才?|刚刚|已经"
    r"|早上|上午|中午|下午|晚上|都|把|也)"
    r"[，, ]?)*"
)
_HAN_NOT_DONE = "[没未该要得别不等再就才想会能应谁他她它你吗么呢让叫帮替给说问如若果准]|快(?!递)"
_HAN_THING = rf"(?P<thing>(?:(?!{_HAN_NOT_DONE})[{HAN}a-zA-Z]){{1,10}}?)"
_HAN_ADVERB = r"(?:(?:已经|都|刚刚?|终于|总算|也|今天|昨天|早上|上午|下午|全|顺利|提前|按时)*)"
_HAN_TAIL = r"(?=[\s，,。.！!；;～~、)）]|\Z|啦|哦|哈|耶|，)"
_HAN_ACT = r"提交|上交|上缴|缴纳|缴|交|付|还|换|补办|续费|续签|续|办理|办|寄|取|领|拿"
_HAN_VISIT = r"看|考|做|开|拔|打|洗|体检|面试|年检|验|结束|复查|复诊|答辩|参加"
_HAN_RESULT = r"(?:完毕|完成|完|好|掉|清|上去|上|到手|到|回来|下来|出去|妥)"
_HAN_DONE_WITH = (
    rf"(?:(?P<act>{_HAN_ACT})|(?P<visit>{_HAN_VISIT}))?"
    rf"(?:{_HAN_RESULT}了|(?<=[交缴付还换办续寄取领拿束])了|(?P<pass>通过了|过了))+"
)
_HAN_DID = rf"(?:去)?(?:(?P<act>{_HAN_ACT})|(?P<visit>{_HAN_VISIT}|去))(?:(?:{_HAN_RESULT}|过)了?|了)"
_HAN_PATTERNS = (
    re.compile(rf"{_HAN_BEGIN}{_HAN_THING}{_HAN_ADVERB}{_HAN_DONE_WITH}{_HAN_TAIL}", re.IGNORECASE),
    re.compile(rf"{_HAN_BEGIN}{_HAN_DID}{_HAN_THING}(?:回来)?了?{_HAN_TAIL}", re.IGNORECASE),
    re.compile(rf"{_HAN_BEGIN}(?P<thing>体检|面试|年检|复查|复诊|答辩|考试|手术)(?:完|结束)了?{_HAN_TAIL}"),
)
_CUES = (
    "done", "over", "finished", "complet", "passed", "paid", "settled", "submitted", "filed", "sent", "handed in",
    "turned in", "posted", "mailed", "renewed", "returned", "collected", "picked up", "behind me", "out of the way",
    "went", "been ", "back from", "had ", "sat ", "attended", "了", "完", "过",
)  # fmt: skip
"""A text without any says of nothing that it is done."""
_NOT_NOW = re.compile(
    r"\b(?:last|previous) (?:week|weekend|month|year|spring|summer|autumn|fall|winter|time)\b|\bago\b|\bonce\b"
    r"|\b(?:every|each|always|usually|often|never|monthly|weekly|yearly|twice)\b|\bin (?:19|20)\d\d\b"
    r"|\b(?:will|['’]ll|going to|would|should|could|hope|wish|until|till|unless|as soon as|by the time|whenever)\b"
    r"|上(?:周|个?月|个?星期|次)|去年|前年|以前|曾经|年前|每[个次周月年天]|通常|一般|总是|等[^，。]{0,12}(?:再|就)|的时候",
    re.IGNORECASE,
)
"""Another time than the last days, a habit, or a plan."""
_OF_OTHERS = re.compile(
    r"\b(?:his|her|their|your|someone|somebody)\b"
    r"|同事|朋友|室友|同学|邻居|老板|领导|客户|对象|男友|女友|[哥姐弟妹叔姨舅姑嫂]|[老小阿][^时区学票组号][^，。]{0,2}的"
)
_BESIDE_HEAD = re.compile(
    r"(?:\s+(?:with|at|in|for|to|on|from)\b.*)?\Z|\s+(?:appointment|test|exam|check|inspection|interview|visit)s?"
    r"(?=\s+(?:with|at|in|for|to|on|from)\b|\Z)|(?:的)?(?:预约|号)\Z|(?<=牙)(?:医生?|科)\Z",
    re.IGNORECASE,
)
"""Beside the word for an event: with whom, where and for what it is."""
_STATES = {
    "paid": "pay", "settled": "pay", "submitted": "submit", "handed": "submit", "turned": "submit", "filed": "submit",
    "sent": "submit", "posted": "submit", "mailed": "submit", "renewed": "renew", "returned": "return",
    "collected": "collect", "picked": "collect",
}  # fmt: skip
_HAN_ACTS = {
    "交": ("pay", "submit"), "上交": ("submit",), "提交": ("submit",), "上缴": ("pay",), "缴": ("pay",),
    "缴纳": ("pay",), "付": ("pay",), "还": ("pay", "return"), "换": ("renew",), "补办": ("renew",),
    "续": ("renew",), "续费": ("renew", "pay"), "续签": ("renew",), "办": ("renew",), "办理": ("renew",),
    "寄": ("submit",), "取": ("collect",), "领": ("collect",), "拿": ("collect",),
}  # fmt: skip


def completion(text: str) -> Completion | None:
    """Return what *text* says that the user has done, or that took place; None: nothing."""
    return None if len(text) > PHRASE_CHARS else cached_completion(text)


@lru_cache(maxsize=_NEW_TEXTS)
def cached_completion(text: str) -> Completion | None:
    """Return what `completion` returns for a text that is short enough."""
    text = simplified_form(text)
    small = text.lower()
    if not any(cue in small for cue in _CUES):
        return None
    for sentence in sentences(text):
        said = words.QUOTED.sub(lambda match: " " * len(match[0]), sentence)
        if is_void(said) or words.CONDITION.search(said) or _NOT_NOW.search(said):
            continue
        for start, end in clauses(said, []):
            if (found := _of_clause(said[start:end])) is not None:
                return found
    return None


def _of_clause(clause: str) -> Completion | None:
    patterns = _EN_PATTERNS if clause.isascii() or not re.search(f"[{HAN}]", clause) else _HAN_PATTERNS
    for pattern in patterns:
        match = pattern.match(clause)
        if match is None or not match["thing"] or _OF_OTHERS.search(match["thing"]):
            continue
        thing = _thing_of(match)
        events, label = head_events(thing)
        if not events:
            events, label = head_events(_BESIDE_HEAD.sub("", thing))
        found = event_terms(thing)
        if not (events or found) or words.CANCELLED.search(thing) or words.MOVED.search(thing):
            continue
        event = ScheduleChange(label or min(found), True, events, found, people_of(thing), qualifiers_of(thing))  # noqa: FBT003
        return Completion(event, _acts_of(match), clause)
    return None


def _thing_of(match: re.Match[str]) -> str:
    """Return what is done; a Chinese verb whose object is one character belongs to it: 考完试 is of 考试."""
    thing, verb = match["thing"], match.groupdict().get("visit") or ""
    return f"{verb}{thing}" if len(thing) == 1 and not verb.isascii() else thing


def _acts_of(match: re.Match[str]) -> frozenset[str]:
    groups = match.groupdict()
    said = groups.get("act") or groups.get("state") or ""
    if said.isascii():
        first = said.lower().split()[0] if said else ""
        return frozenset({_STATES[first]}) if first in _STATES else frozenset()
    return frozenset(_HAN_ACTS[said])


def completed_event(done: Completion, reminded: Sequence[tuple[str, date]], said: date) -> int | None:
    """Return the place of the only one of the *reminded* that is done, each a sentence and its day, or None.

    *said* is the day of the statement. None also when two may be meant: rather both stay than one is lost.
    """
    scores = [_fit(done, simplified_form(sentence), day, said) for sentence, day in reminded]
    best = max(scores, default=0)
    return scores.index(best) if best and scores.count(best) == 1 else None


def _fit(done: Completion, sentence: str, day: date, said: date) -> int:
    """Return how much of what is done a sentence is about that reminds of a day; 0: of something else."""
    events = events_of(sentence)[0]
    shared = done.event.events & events
    is_duty = bool(done.acts) or bool(words.DUE_BY.search(sentence)) or _INSPECTION in _sorts(shared)
    most = said + timedelta(days=DONE_AHEAD_DAYS if is_duty else 0)
    if not said - timedelta(days=OVERDUE_DAYS) <= day <= most or not _is_of_that_day(done, day, said):
        return 0
    if not _has_same_people(done, sentence) or not _is_same_act(done, sentence, has_event=bool(shared)):
        return 0
    if not shared:
        return len(done.event.words) if done.event.words <= event_terms(sentence) else 0
    return shared_with(done.event, sentence)


def _is_of_that_day(done: Completion, day: date, said: date) -> bool:
    """Return whether the statement names no other day than that of an appointment; of a duty it may name any."""
    if done.acts:
        return True
    named = [next_of(one, day) for one in named_days(done.text, said) if one.is_clear]
    return not named or day in named


def _has_same_people(done: Completion, sentence: str) -> bool:
    named = {(match["en"] or match["zh"]).lower() for match in words.PEOPLE.finditer(sentence)}
    of_company = {(match["en"] or match["zh"]).lower() for match in words.COMPANY.finditer(sentence)}
    others = people_of(" ".join(named - of_company)) if named else frozenset()
    return others - _KIN_OF_USER <= done.event.people


def _is_same_act(done: Completion, sentence: str, *, has_event: bool) -> bool:
    """Return whether a sentence reminds of what was done, and not of something else to be done with the same thing."""
    if _OTHER_ACT.search(sentence) and not _OTHER_ACT.search(done.text):
        return False
    asked = {name for name, pattern in ACTS.items() if pattern.search(sentence)}
    if done.acts:
        return not asked or bool(asked & done.acts)
    if not has_event:
        return False
    sorts = _sorts(done.event.events)
    if sorts & _HANDED_IN or (asked - {"renew"} and _INSPECTION not in sorts):
        return False
    others = done.event.words - event_terms(done.event.label)
    return not sorts & _EVERYDAY or bool(others & event_terms(sentence) or done.event.people)


def _sorts(events: frozenset[int]) -> frozenset[str]:
    """Return the words for sorts of events."""
    return frozenset(word for number in events for word in words.EVENTS[number])
