"""What Chinese sentences state: where somebody lives, what they do, what they like, and what is what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memsvc.domain.conflicts import Rule, Statement, ValuePart
from memsvc.text.facts.chinese_clauses import Speaking, clauses, place_in, subject_of
from memsvc.text.facts.chinese_general import general
from memsvc.text.facts.chinese_lexicon import CITIES, COUNTRIES, OCCUPATION_ENDINGS
from memsvc.text.facts.chinese_persons import persons
from memsvc.text.facts.chinese_preferences import preferences
from memsvc.text.facts.conditions import chinese_condition, said_when

_NO = r"(?P<no>不再|不|没有?|并不)?"
_WHEN = r"(?:上个?月|上周|上个?星期|前天|昨天|今天|今年|这个?月|这周|前几天|不久前|前不久|[年月]初|[年月]底)"
_LIVES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^(?P<who>.*?){_WHEN}(?:从[^从]+?)?(?:移居到?|搬家?(?:到|去|至|回)了?|迁到了?)(?P<value>.+)$",
        rf"^(?P<who>.*?)(?:从[^从]+?)?{_NO}(?:居住在|住在|定居在?|常住在?|移居到?|现居|搬家?(?:到|去|至|回)了?|迁到了?)(?P<value>.+)$",
        rf"^(?P<who>.*?){_NO}在(?P<value>[^在]+?)(?:生活|居住|定居|安家|租房)(?:了|着)?$",
        r"^(?P<who>.*?)的?家(?P<no>不)?(?:就|还)?(?:搬到了?|住在?|在)(?P<value>.+)$",
    )
)
_TITLES = (
    re.compile(
        rf"^(?P<who>.*?){_NO}在(?P<employer>[^在]+?)(?:当上?|做|担任)了?(?:一?[名位个])?(?P<value>[^的了]+)了?$"
    ),
    re.compile(
        rf"^(?P<who>.*?){_NO}(?:改行|转行)?(?:当上?|做|担任|成为|从事)了?(?:一?[名位个])?(?P<value>[^的了]+)了?$"
    ),
    re.compile(r"^(?P<who>.*?)的?(?:职业|工作|职位)(?:是|改为|变成了?|换成了?)(?:一?[名位个])?(?P<value>[^的]+)$"),
    re.compile(rf"^(?P<who>.+?){_NO}是(?:一?[名位个])?(?P<value>.+)$"),
)
_IDLE = re.compile(r"^(?P<who>.*?)(?:已经?|刚)?(?P<value>退休|失业)了?$")
_EMPLOYED = (
    re.compile(rf"^(?P<who>.*?){_NO}在(?P<value>[^在]+?)(?:工作|上班|任职|就职|供职)(?:了)?$"),
    re.compile(r"^(?P<who>.*?)(?P<no>不再)?(?:就职于|任职于|供职于|受雇于)(?P<value>.+)$"),
    re.compile(r"^(?P<who>.*?)(?:从[^从]+?)?(?:加入|入职|跳槽(?:到|去)|跳到)了?(?P<value>.+)$"),
    re.compile(r"^(?P<who>.*?)(?P<no>(?:已经?)?(?:从|离开))(?P<value>.+?)(?:离职|辞职|公司)?了$"),
)
_NO_EMPLOYER = re.compile(
    r"^(?:一|这|那|某|家|别|公司|单位|外|国|哪)|的|项目|群|会议|讨论|俱乐部|社团|[位名个很最不了]|喜欢|年轻|杰出|优秀|著名|出色|成就|资深|一流"
)


def chinese_statements(sentences: Sequence[str], *, me: str | None, silent: str | None) -> Iterator[Statement]:
    """Yield what *sentences* state; *me* is whoever speaks, *silent* whom sentences without a subject are about."""
    speaking = Speaking(me, silent)
    for sentence in sentences:
        setting = ""
        for clause in clauses(sentence):
            bare, condition = chinese_condition(clause)
            if condition and not bare:
                setting = condition
                continue
            found = list(_stated(bare, speaking)) if condition else []
            if found:
                yield from said_when(found, setting, condition)
            else:
                yield from said_when(_stated(clause, speaking), setting)


def _stated(clause: str, speaking: Speaking) -> Iterator[Statement]:
    found = [*_home(clause, speaking), *_job(clause, speaking), *_employer(clause, speaking)]
    if not found:
        readings = (preferences, persons, general)
        found = next((said for said in (list(read(clause, speaking)) for read in readings) if said), [])
    yield from found


def _home(clause: str, speaking: Speaking) -> Iterator[Statement]:
    for pattern in _LIVES:
        match = pattern.match(clause)
        place = place_in(match["value"]) if match is not None else None
        if match is not None and place is not None:
            yield from _said(match, speaking, "住处", Rule.LOCATION, place)
            return


def _job(clause: str, speaking: Speaking) -> Iterator[Statement]:
    match = _IDLE.match(clause)
    if match is not None:
        yield from _said(match, speaking, "职业", Rule.OCCUPATION, ValuePart("title", match["value"]))
        return
    for pattern in _TITLES:
        match = pattern.match(clause)
        if match is None or "最" in match["who"]:
            continue
        described, _, title = match["value"].removesuffix("了").rpartition("的")
        employer = match.groupdict().get("employer") or described
        if title.endswith(OCCUPATION_ENDINGS) and "、" not in title:
            yield from _said(match, speaking, "职业", Rule.OCCUPATION, ValuePart("title", title))
            if _is_employer(employer):
                yield from _said(match, speaking, "雇主", Rule.OCCUPATION, ValuePart("employer", employer))
            return


def _employer(clause: str, speaking: Speaking) -> Iterator[Statement]:
    for pattern in _EMPLOYED:
        match = pattern.match(clause)
        if match is None:
            continue
        value = match["value"].removesuffix("了").removesuffix("公司")
        if value in CITIES or value in COUNTRIES or value.endswith(("市", "省")):
            sort = "country" if value in COUNTRIES else "place"
            yield from _said(match, speaking, "工作地", Rule.OCCUPATION, ValuePart(sort, value))
        elif _is_employer(value):
            yield from _said(match, speaking, "雇主", Rule.OCCUPATION, ValuePart("employer", value.lower()))
        return


def _is_employer(name: str) -> bool:
    return 1 < len(name) <= 12 and name not in CITIES | COUNTRIES and _NO_EMPLOYER.search(name) is None  # noqa: PLR2004 - longer than any short name


def _said(match: re.Match[str], speaking: Speaking, slot: str, rule: Rule, part: ValuePart) -> Iterator[Statement]:
    who = subject_of(match["who"], speaking)
    if who is not None:
        speaking.last = who
        yield Statement(rule, f"{who} {slot}", (part,), not match.groupdict().get("no"))
