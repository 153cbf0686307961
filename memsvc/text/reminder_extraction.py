"""Reminders in a text: birthdays, anniversaries, explicit requests, deadlines and appointments.

By rules for English and Chinese. A false alarm is worse than a miss: what is past, asked, supposed, denied or about the
reminders of other people is none, nor is what comes every week or month, or by the lunar calendar.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime

from memsvc.domain.memory import Recurrence, Reminder, Slot
from memsvc.domain.reminders import YEARS, slot_of
from memsvc.text import reminder_lexicon as words
from memsvc.text.reminder_dates import NamedDay, named_days, time_of_day
from memsvc.text.sentences import sentences

MOST_CHARS = 2_000
"""A longer text is no note to remember, and is not looked at."""
PHRASE_CHARS = 500
_AHEAD_DAYS = 270
"""A day without a year that is farther ahead is taken as one of the last months."""


def reminder_in(text: str, moment: datetime) -> Reminder | None:
    """Return the first reminder that *text* asks for or calls for, or None.

    Days that are off ("tomorrow", 下周五) and those without a year are reckoned from the day of *moment*, in its zone.
    """
    if len(text) > MOST_CHARS or not YEARS[0] <= moment.year <= YEARS[1] or not _has_cue(text):
        return None
    for sentence in sentences(text):
        if len(sentence) <= PHRASE_CHARS and _has_cue(sentence):
            found = _in_sentence(sentence, moment.date())
            if found is not None:
                return replace(found, phrase=sentence)
    return None


def still_mentions(reminder: Reminder, text: str) -> bool:
    """Return whether a reminder that was found in an earlier text occurs, word for word, in this one."""
    return bool(reminder.phrase) and reminder.phrase in text


def _has_cue(text: str) -> bool:
    small = text.lower()
    if any(cue in small for cue in words.CUES):
        return bool(words.DATE_CUE.search(small))
    return not small.isascii() and any(cue in small for cue in words.HAN_CUES)


def _in_sentence(sentence: str, today: date) -> Reminder | None:
    days = named_days(sentence, today)
    if not days or _is_never(sentence):
        return None
    if words.QUESTION.search(sentence) and not words.REQUEST.search(sentence):
        return None
    clear = [one for one in days if one.is_clear]
    yearly = next((one for one in clear if _is_yearly(sentence, one)), None)
    if yearly is not None:
        is_said = str(yearly.year) in sentence and YEARS[0] <= yearly.year <= YEARS[1]
        return Reminder(yearly.month, yearly.day, yearly.year if is_said else 0)
    if len(days) != 1 or not clear or _is_narrated(sentence):
        return None
    asked = words.ASKED.search(sentence)
    if asked is None:
        return _of_every_year(sentence, clear[0]) or _scheduled_reminder(sentence, clear[0], today)
    return None if _is_of_others(asked, sentence[: asked.start()]) else _requested_reminder(sentence, clear[0], today)


def _is_never(sentence: str) -> bool:
    """Return whether a sentence is none to be reminded of, whatever it names: denied, supposed, called off, refused."""
    said = words.ALLOWED_NOT.sub(lambda match: match["to"] or "", sentence)
    return bool(words.NEVER.search(said) or words.REFUSED.search(said))


def _is_yearly(sentence: str, named: NamedDay) -> bool:
    """Return whether a day is said to be a birthday or an anniversary."""
    before, after = sentence[: named.start], sentence[named.end :]
    if words.YEARLY_BEFORE.search(before):
        # "For her birthday, March 5, I gave her a book" is about the past.
        return bool(words.PLAINLY.search(before)) or not _is_narrated(sentence)
    if words.YEARLY_AFTER.search(after) or words.HAN_YEARLY_AFTER.search(after):
        return not _is_narrated(sentence)
    return False


def _is_narrated(sentence: str) -> bool:
    return bool(words.PAST.search(sentence) or words.HAN_DONE.search(sentence))


def _is_of_others(asked: re.Match[str], before: str) -> bool:
    """Return whether another person reminds, or remembers."""
    if asked["remind"]:
        return bool(words.OTHERS_REMIND.search(before))
    return bool((asked["han_remind"] or asked["han_remember"]) and words.HAN_OTHERS.search(before))


def _requested_reminder(sentence: str, named: NamedDay, today: date) -> Reminder | None:
    if words.EVERY_YEAR.search(sentence) or words.EVERY.search(sentence[: named.start]):
        return Reminder(named.month, named.day)
    return _ahead(sentence, named, today, most=None)


def _of_every_year(sentence: str, named: NamedDay) -> Reminder | None:
    """Return the reminder of a day that is said to come every year."""
    before, count = words.EVERY.subn("", sentence[: named.start])
    if not count and not words.EVERY_YEAR.search(sentence):
        return None
    return None if _is_of_another(sentence, before, named) else Reminder(named.month, named.day)


def _is_of_another(sentence: str, before: str, named: NamedDay) -> bool:
    """Return whether a day is that of something else: of a mail, or of what was noted."""
    after = sentence[named.end :]
    return bool(words.NOTES.search(sentence) or words.OF_ANOTHER.match(after) or words.DATED.search(before))


def _scheduled_reminder(sentence: str, named: NamedDay, today: date) -> Reminder | None:
    before = sentence[: named.start]
    if _is_of_another(sentence, before, named):
        return None
    if words.STRONG.search(sentence) or words.WEAK.search(sentence) or words.MUST.search(before):
        found = _ahead(sentence, named, today, most=_AHEAD_DAYS)
        # An appointment late in the day is also reminded of in the morning.
        return None if found is None else replace(found, slot=None)
    return None


def _ahead(sentence: str, named: NamedDay, today: date, *, most: int | None) -> Reminder | None:
    """Return the reminder of a day not before *today*; of one without a year, the next, not too far off."""
    day = named.exact or _next(named, today)
    if day is None or day < today or (named.exact is None and most is not None and (day - today).days > most):
        return None
    if day.year > YEARS[1]:
        return None
    minute, part = time_of_day(sentence)
    slot: Slot | None = slot_of(minute // 60) if minute is not None else part
    return Reminder(day.month, day.day, day.year, Recurrence.NONE, minute, slot=slot)


def _next(named: NamedDay, today: date) -> date | None:
    for year in (today.year, today.year + 1):
        try:
            day = date(year, named.month, named.day)
        except ValueError:  # 29 February
            continue
        if day >= today:
            return day
    return None
