"""What was said, as statements with secrets replaced, each with what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memsvc.domain.capture import Decider, Reason, Statement, Verdict
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
"""What captured memories say they come from."""


@dataclass(frozen=True, slots=True)
class ExtractedStatement:
    """A statement with its verdict, the text to remember, and the memory that says the same, if one does."""

    statement: Statement
    verdict: Verdict
    content: str
    known: Memory | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """All that was heard, in order, and who decided on it."""

    heard: tuple[ExtractedStatement, ...]
    redactions: tuple[Redaction, ...]
    decider: Decider
    notice: str

    def with_notice(self, more: str) -> Extraction:
        """Return the same with another sentence for whoever asked, if there is one."""
        return replace(self, notice=" ".join(filter(None, (self.notice, more))))


class StatementExtractor:
    """Redacts, takes apart, recognises, decides: all that comes before anything is stored."""

    def __init__(self, redactor: Redactor, known_text: KnownTextFilter, decider: CaptureDecider) -> None:
        """Listen by these parts."""
        self._redactor = redactor
        self._known_text = known_text
        self._decider = decider

    @property
    def asks_a_model(self) -> bool:
        """Return whether listening may take as long as a language model takes."""
        return self._decider.asks_a_model

    def redact(self, text: str) -> tuple[str, tuple[Redaction, ...]]:
        """Return *text* without its secrets, and which those were."""
        return self._redactor.text(text)

    def find_cited(self, scope: Scope, text: str) -> CitedMemories:
        """Return which memories a text cites."""
        return self._known_text.find_cited(scope, text)

    def evaluate(
        self,
        scope: Scope,
        said: Sequence[tuple[Statement, bool]],
        redactions: tuple[Redaction, ...],
        deadline: Deadline,
    ) -> Extraction:
        """Return what to do with each statement; those that come with True were recalled, and nobody is asked."""
        fresh = [statement for statement, is_recalled in said if not is_recalled]
        judgement = self._decider.decide(fresh, deadline)
        judged = iter(judgement.judged)
        heard = [
            _recalled(statement) if is_recalled else self._checked(scope, next(judged), deadline)
            for statement, is_recalled in said
        ]
        return Extraction(tuple(heard), redactions, judgement.decider, judgement.notice)

    def _checked(self, scope: Scope, judged: StatementDecision, deadline: Deadline) -> ExtractedStatement:
        """Return what was judged, not to be remembered when a memory says the same already."""
        if not judged.verdict.remember:
            return ExtractedStatement(judged.statement, judged.verdict, judged.content)
        known = self._known_text.find_known(scope, judged.content, deadline)
        if known is None:
            return ExtractedStatement(judged.statement, judged.verdict, judged.content)
        verdict = Verdict.ignoring(Reason.KNOWN, f"The memory {known.id} says so already.")
        return ExtractedStatement(judged.statement, verdict, judged.content, known)


def split_statements(text: str, cited: CitedMemories, like: Statement, *, most: int) -> list[tuple[Statement, bool]]:
    """Return the first *most* statements of *text* in order, and whether each was recalled; the rest as in *like*."""
    return [
        (
            replace(like, text=piece.text, is_code=piece.is_code, is_quoted=piece.is_quoted),
            cited.contains(piece),
        )
        for piece in statements(text, most=most)
    ]


def draft_from_statement(
    heard: ExtractedStatement, *, category: str | None = None, files: tuple[FileRef, ...] = ()
) -> Draft:
    """Return the memory that a statement is to become; it belongs to no session, whose lines it would part."""
    verdict, statement = heard.verdict, heard.statement
    return Draft(
        content=heard.content,
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


def _recalled(statement: Statement) -> ExtractedStatement:
    verdict = Verdict.ignoring(Reason.RECALLED, "It comes from the memory.")
    return ExtractedStatement(statement, verdict, statement.text)
