"""Extraction of statements from a text: redaction, splitting, recognition of known text, decision, scope of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache

from memsvc.domain.capture import CONVERSATION, CaptureReason, CaptureVerdict, Decider, SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.memory import FileRef, Kind, Layer, Memory, Recurrence, Status
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.reminders import OVERDUE_DAYS, windows_since
from memsvc.domain.scope import Reach, Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import ORIGINS, Role
from memsvc.domain.visibility import visible
from memsvc.domain.write_requests import Draft, Redaction
from memsvc.engine.capture.decider import CaptureDecider, StatementDecision
from memsvc.engine.capture.known_text import CitedMemories, KnownTextFilter
from memsvc.ports.features import ReminderReads
from memsvc.text.analysis import simplified_form
from memsvc.text.capture_rules import title_of
from memsvc.text.corrections import apply_corrections, find_retracted
from memsvc.text.recalled_text import normal_text
from memsvc.text.reminder_extraction import (
    ScheduleChange,
    changed_event,
    completed_event,
    completion,
    reminder_in,
    schedule_change,
    split_dated_events,
)
from memsvc.text.statement_split import statements

MOST_CHANGES = 32
"""Number of changes of one text whose events are looked up; the scope of others is that of the decision."""
MOST_REMINDERS = 200
"""Number of recurring reminders, and of those of single days, that are compared in each scope."""


class StatementExtractor:
    """All steps of a capture before storage."""

    def __init__(
        self,
        redactor: Redactor,
        known_text: KnownTextFilter,
        decider: CaptureDecider,
        event_scopes: EventScopes,
        trust_policy: TrustPolicy,
    ) -> None:
        """Extract by these parts."""
        self._trust_policy = trust_policy
        self._redactor = redactor
        self._known_text = known_text
        self._decider = decider
        self._event_scopes = event_scopes

    @property
    def asks_a_model(self) -> bool:
        """Return whether extraction may take as long as a language model."""
        return self._decider.asks_a_model

    def redact(self, text: str) -> tuple[str, tuple[Redaction, ...]]:
        """Return *text* with secrets replaced, and the redactions."""
        return self._redactor.text(text)

    def find_cited(self, scope: Scope, text: str) -> CitedMemories:
        """Return the memories that a text cites."""
        return self._known_text.find_cited(scope, text)

    def evaluate(
        self,
        scope: Scope,
        split: Sequence[tuple[SourceStatement, bool]],
        redactions: tuple[Redaction, ...],
        deadline: Deadline,
    ) -> Extraction:
        """Return the evaluated statements; those paired with True are recalled from memory and are not decided on."""
        fresh = [statement for statement, is_recalled in split if not is_recalled]
        meant, corrections = apply_corrections(
            [(one.text, _corrector(one)) for one in fresh],
            is_to_come=lambda place, text: reminder_in(text, self._event_scopes.moment_of(fresh[place])) is not None,
        )
        judgement = self._decider.decide(
            [replace(one, text=text) for one, text in zip(fresh, meant, strict=True)], deadline
        )
        retracted = find_retracted([(one.text, _corrector(one), one.place) for one in fresh])
        decisions = [_as_correction(one) if place in corrections else one for place, one in enumerate(judgement.judged)]
        decisions = [
            _as_retracted(one) if place in retracted else one
            for place, one in enumerate(self._event_scopes.with_completions(scope, decisions))
        ]
        judged = [self._with_known(scope, one, deadline) for one in self._event_scopes.applied_to(scope, decisions)]
        for place, at in corrections.items():
            judged[at] = replace(judged[at], corrected_in=(*judged[at].corrected_in, fresh[place].place))
        rest = iter(judged)
        statements = [_as_recalled(statement) if is_recalled else next(rest) for statement, is_recalled in split]
        return Extraction(tuple(statements), redactions, judgement.decider, judgement.notice)

    def _with_known(self, scope: Scope, judged: StatementDecision, deadline: Deadline) -> ExtractedStatement:
        """Return the decision, to be ignored if an existing memory states the same.

        Not if that memory is of a tool, a document or an import that is trusted less than who states it now. If it says
        nothing else, in the same project, its content and kind are written again, so that it takes over the provenance.
        """
        if not judged.verdict.remember:
            return ExtractedStatement(judged.statement, judged.verdict, judged.content)
        known = self._known_text.find_known(scope, judged.content, deadline, speaker=judged.statement.speaker)
        if known is None:
            return ExtractedStatement(judged.statement, judged.verdict, judged.content)
        if self._trust_policy.is_less(known, self._trust_policy.trust(ORIGINS[judged.statement.role], None)):
            project = "" if judged.verdict.is_global else scope.project_id
            if project != known.scope.project_id or normal_text(judged.content) != normal_text(known.content):
                return ExtractedStatement(judged.statement, judged.verdict, judged.content)
            return ExtractedStatement(judged.statement, replace(judged.verdict, kind=known.kind), known.content)
        verdict = CaptureVerdict.ignore(CaptureReason.KNOWN, f"Memory {known.id} states this already.")
        return ExtractedStatement(judged.statement, verdict, judged.content, known)


@dataclass(frozen=True, slots=True)
class ExtractedStatement:
    """A statement with its verdict, the text to remember, and an existing memory that states the same.

    Attributes:
        corrected_in: The places of the messages that correct it.
    """

    statement: SourceStatement
    verdict: CaptureVerdict
    content: str
    known: Memory | None = None
    corrected_in: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """All extracted statements, in order, and who decided about them."""

    statements: tuple[ExtractedStatement, ...]
    redactions: tuple[Redaction, ...]
    decider: Decider
    notice: str

    def with_notice(self, more: str) -> Extraction:
        """Return the same with another sentence in the notice, unless *more* is empty."""
        return replace(self, notice=" ".join(filter(None, (self.notice, more))))


def split_statements(
    text: str, cited: CitedMemories, like: SourceStatement, *, most: int
) -> list[tuple[SourceStatement, bool]]:
    """Return the first *most* statements of *text*, and whether each was recalled; other fields are as in *like*.

    A sentence of a user that names several events with a day each is of as many statements.
    """
    split: list[tuple[SourceStatement, bool]] = []
    for piece in statements(text, most=most):
        is_own = like.role is Role.USER and not (piece.is_code or piece.is_quoted)
        is_recalled = cited.contains(piece)
        parts = split_dated_events(piece.text) if is_own and not is_recalled else [piece.text]
        split += [
            (replace(like, text=part, is_code=piece.is_code, is_quoted=piece.is_quoted), is_recalled) for part in parts
        ]
    return split[: max(most, 0)]


def draft_from_statement(
    extracted: ExtractedStatement, *, category: str | None = None, files: tuple[FileRef, ...] = ()
) -> Draft:
    """Return the draft of a statement. It belongs to no session, so that it does not separate messages."""
    verdict, statement = extracted.verdict, extracted.statement
    return Draft(
        content=extracted.content,
        project_id="" if verdict.is_global else None,
        session_id="",
        layer=verdict.layer,
        kind=verdict.kind,
        category=verdict.category if category is None else category,
        speaker=statement.speaker or None,
        title=verdict.title or None,
        tags=verdict.tags or None,
        file_refs=files or None,
        importance=verdict.importance,
        event_time=statement.event_time,
        work_in_progress=True if verdict.kind is Kind.TASK else None,
        source=CONVERSATION,
        origin=ORIGINS[statement.role],
    )


def _corrector(statement: SourceStatement) -> object:
    """Return who may correct a statement later: its speaker, in the same role; quotations correct quotations alone."""
    return (statement.role, statement.speaker, statement.is_quoted or statement.is_code)


def _as_correction(decision: StatementDecision) -> StatementDecision:
    detail = "It corrects an earlier statement, which is read as it was meant."
    return replace(decision, verdict=CaptureVerdict.ignore(CaptureReason.NOTHING, detail))


def _as_retracted(decision: StatementDecision) -> StatementDecision:
    detail = "It was taken back right after."
    return replace(decision, verdict=CaptureVerdict.ignore(CaptureReason.NOTHING, detail))


def _as_recalled(statement: SourceStatement) -> ExtractedStatement:
    verdict = CaptureVerdict.ignore(CaptureReason.RECALLED, "The text was recalled from memory.")
    return ExtractedStatement(statement, verdict, statement.text)


# The scope of statements that an event was moved or called off: that of the memory of the event.


class EventScopes:
    """Lookup of the scope in which a moved or cancelled event is stored."""

    def __init__(self, reminders: ReminderReads, now: Callable[[], datetime], *, zone: tzinfo = UTC) -> None:
        """Find events among *reminders*; those that are long past at *now*, in *zone*, are not compared."""
        self._reminders = reminders
        self._now = now
        self._zone = zone

    def applied_to(self, scope: Scope, judged: Sequence[StatementDecision]) -> list[StatementDecision]:
        """Return the decisions on the statements of a text, each change of a known event in the scope of the event.

        An event is known that an earlier statement of the text or a stored memory has a reminder of; one of the
        project comes before a global one.
        """
        if not scope.project_id:
            return list(judged)
        changes = [schedule_change(one.content) if one.verdict.remember else None for one in judged]
        if not any(changes):
            return list(judged)
        left, stored = MOST_CHANGES, cache(self._stored)
        decided: list[StatementDecision] = []
        said: dict[bool, list[str]] = {False: [], True: []}
        for one, change in zip(judged, changes, strict=True):
            moment = self.moment_of(one.statement)
            result = one
            if change is not None and left:
                left -= 1
                for is_global in (False, True):
                    place = replace(scope, project_id="" if is_global else scope.project_id)
                    if _is_about(change, said[is_global]) or _is_about(change, stored(place, moment.date())):
                        result = replace(one, verdict=replace(one.verdict, is_global=is_global))
                        break
            if one.verdict.remember and reminder_in(one.content, moment) is not None:
                said[result.verdict.is_global].append(one.content)
            decided.append(result)
        return decided

    def with_completions(self, scope: Scope, judged: Sequence[StatementDecision]) -> list[StatementDecision]:
        """Return the decisions; what a user states to be done, of which a memory reminds, is to be remembered.

        It is so in the scope of that memory, where the write removes the reminder. The memory may be stored, or an
        earlier statement of the text.
        """
        opened = cache(self._open_reminders)
        decided: list[StatementDecision] = []
        said: list[tuple[bool, str, date]] = []
        for one in judged:
            result, moment = one, self.moment_of(one.statement)
            done = completion(one.content) if _may_complete(one) else None
            for project_id in dict.fromkeys((scope.project_id, "")) if done is not None else ():
                reminded = [*opened(replace(scope, project_id=project_id), moment.date())]
                reminded += [(text, day) for is_global, text, day in said if is_global is not bool(project_id)]
                if done is not None and completed_event(done, reminded, moment.date()) is not None:
                    result = replace(one, verdict=_completing(one, is_global=not project_id))
                    break
            reminder = reminder_in(one.content, moment) if result.verdict.remember else None
            if reminder is not None and reminder.recurrence is Recurrence.NONE:
                is_global = result.verdict.is_global or not scope.project_id
                said.append((is_global, reminder.phrase, date(reminder.year, reminder.month, reminder.day)))
            decided.append(result)
        return decided

    def moment_of(self, statement: SourceStatement) -> datetime:
        """Return when a statement was said, in the zone of its days."""
        return (statement.event_time or self._now()).astimezone(self._zone)

    def _open_reminders(self, place: Scope, said: date) -> list[tuple[str, date]]:
        """Return the sentences of the reminders of single days, with these, from some days before *said* on."""
        since = said - min(timedelta(days=OVERDUE_DAYS), said - date.min)
        single, _ = windows_since(since)
        found = self._reminders.page(
            reach=Reach(place.owner, (place.project_id,)), window=single, after=None, limit=MOST_REMINDERS
        )
        return [
            (one.reminder.phrase or one.content, date(one.reminder.year, one.reminder.month, one.reminder.day))
            for one in found
            if one.reminder is not None and one.status is Status.ACTIVE and visible(one, place)
        ]

    def _stored(self, place: Scope, said: date) -> list[str]:
        """Return the sentences that set the reminders of a project, or of no project."""
        since = said - min(timedelta(days=OVERDUE_DAYS), said - date.min)
        reach = Reach(place.owner, (place.project_id,))
        phrases: list[str] = []
        for window in windows_since(since):
            found = self._reminders.page(reach=reach, window=window, after=None, limit=MOST_REMINDERS)
            phrases += [
                one.reminder.phrase or one.content
                for one in found
                if one.reminder is not None and one.status is Status.ACTIVE and visible(one, place)
            ]
        return phrases


_UNDECIDED = frozenset({CaptureReason.NOTHING, CaptureReason.PASSING})


def _may_complete(decision: StatementDecision) -> bool:
    statement, verdict = decision.statement, decision.verdict
    is_said = statement.role is Role.USER and not (statement.is_quoted or statement.is_code)
    return is_said and (verdict.remember or verdict.reason in _UNDECIDED)


def _completing(decision: StatementDecision, *, is_global: bool) -> CaptureVerdict:
    """Return the verdict on a statement that what a memory reminds of is done."""
    if decision.verdict.remember:
        return replace(decision.verdict, is_global=is_global)
    return CaptureVerdict(
        remember=True,
        reason=CaptureReason.EXPERIENCE,
        detail="It says that what a reminder is about is done.",
        is_global=is_global,
        layer=Layer.SHORT_TERM,
        kind=Kind.EXPERIENCE,
        category="experience",
        importance=2,
        title=title_of(decision.content),
    )


def _is_about(change: ScheduleChange, events: Sequence[str]) -> bool:
    """Return whether one of *events* is changed: two that share the word for the event have one scope."""
    return changed_event(change, events) is not None or any(
        change.label in simplified_form(one).lower() for one in events
    )
