"""Extraction of statements from a text: redaction, splitting, recognition of known text, decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memsvc.domain.capture import CaptureReason, CaptureVerdict, Decider, SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.memory import FileRef, Kind, Memory
from memsvc.domain.scope import Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.sessions import ORIGINS
from memsvc.domain.write_requests import Draft, Redaction
from memsvc.engine.capture.decider import CaptureDecider, StatementDecision
from memsvc.engine.capture.known_text import CitedMemories, KnownTextFilter
from memsvc.text.statement_split import statements

SOURCE = "conversation"
"""The source of captured memories."""


class StatementExtractor:
    """All steps of a capture before storage."""

    def __init__(self, redactor: Redactor, known_text: KnownTextFilter, decider: CaptureDecider) -> None:
        """Extract by these parts."""
        self._redactor = redactor
        self._known_text = known_text
        self._decider = decider

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
        judgement = self._decider.decide(fresh, deadline)
        judged = iter(judgement.judged)
        statements = [
            _as_recalled(statement) if is_recalled else self._with_known(scope, next(judged), deadline)
            for statement, is_recalled in split
        ]
        return Extraction(tuple(statements), redactions, judgement.decider, judgement.notice)

    def _with_known(self, scope: Scope, judged: StatementDecision, deadline: Deadline) -> ExtractedStatement:
        """Return the decision, to be ignored if an existing memory states the same."""
        if not judged.verdict.remember:
            return ExtractedStatement(judged.statement, judged.verdict, judged.content)
        known = self._known_text.find_known(scope, judged.content, deadline, speaker=judged.statement.speaker)
        if known is None:
            return ExtractedStatement(judged.statement, judged.verdict, judged.content)
        verdict = CaptureVerdict.ignore(CaptureReason.KNOWN, f"Memory {known.id} states this already.")
        return ExtractedStatement(judged.statement, verdict, judged.content, known)


@dataclass(frozen=True, slots=True)
class ExtractedStatement:
    """A statement with its verdict, the text to remember, and an existing memory that states the same."""

    statement: SourceStatement
    verdict: CaptureVerdict
    content: str
    known: Memory | None = None


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
    """Return the first *most* statements of *text*, and whether each was recalled; other fields are as in *like*."""
    return [
        (
            replace(like, text=piece.text, is_code=piece.is_code, is_quoted=piece.is_quoted),
            cited.contains(piece),
        )
        for piece in statements(text, most=most)
    ]


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
        source=SOURCE,
        origin=ORIGINS[statement.role],
    )


def _as_recalled(statement: SourceStatement) -> ExtractedStatement:
    verdict = CaptureVerdict.ignore(CaptureReason.RECALLED, "The text was recalled from memory.")
    return ExtractedStatement(statement, verdict, statement.text)
