"""Flush: memories and file references from a conversation before it is trimmed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from memsvc.domain import limits
from memsvc.domain.capture import (
    CONVERSATION,
    KNOWLEDGE_CATEGORIES,
    CaptureReason,
    ChatMessage,
    Decider,
    FlushResult,
    SourceStatement,
)
from memsvc.domain.clock import Deadline
from memsvc.domain.conflicts import ConflictPolicy
from memsvc.domain.files import HEADINGS, format_ref
from memsvc.domain.memory import FileRef, Json, Kind, Layer
from memsvc.domain.scope import Scope
from memsvc.domain.secrets import sum_redactions
from memsvc.domain.sessions import ExtractedMemory, Role
from memsvc.domain.write_requests import Draft, Redaction, RejectedItem, UpsertResult, WriteOptions, WriteResult
from memsvc.engine.capture.capture import CaptureWriter, capture_request, redactions_from_json, redactions_to_json
from memsvc.engine.capture.statement_extraction import (
    ExtractedStatement,
    Extraction,
    StatementExtractor,
    draft_from_statement,
    split_statements,
)
from memsvc.engine.commit.idempotency import RequestResult, request_digest
from memsvc.engine.records.memory_builder import PreparedMemory
from memsvc.ports.metadata import Transaction
from memsvc.text.analysis import is_han, query_terms
from memsvc.text.capture_rules import title_of
from memsvc.text.file_refs import refs_in
from memsvc.text.recalled_text import spans_of_rendered

_METHOD = "FlushMessages"
ECHO_CHARS = 2_000
"""Characters of a reply in which the repetition of a statement is looked for."""
_RECALLED = frozenset({CaptureReason.RECALLED, CaptureReason.KNOWN})
_UNSPOKEN = _RECALLED | {CaptureReason.FORGET, CaptureReason.ROLE, CaptureReason.CODE, CaptureReason.QUOTED}
"""Reasons of statements that the memory of files alone must not quote."""
ASKED_CHARS = 200
_CUT = f"Only the first {limits.FLUSHED_STATEMENTS} statements were processed; flush fewer messages at a time."
_UNREFERRED = frozenset({CaptureReason.RECALLED, CaptureReason.FORGET})
"""Reasons of statements that do not refer to files: they repeat memories or ask to forget."""


class ConversationFlusher:
    """Extracts memories and file references from conversations, each in one transaction."""

    def __init__(self, extractor: StatementExtractor, writer: CaptureWriter) -> None:
        """Flush by these parts."""
        self._extractor = extractor
        self._writer = writer

    @property
    def asks_a_model(self) -> bool:
        """Return whether a call may take as long as a language model."""
        return self._extractor.asks_a_model

    def flush(
        self,
        scope: Scope,
        messages: Sequence[ChatMessage],
        artifacts: Sequence[FileRef],
        *,
        options: WriteOptions,
        deadline: Deadline,
    ) -> FlushResult:
        """Return the memories extracted from *messages*, oldest first, once all are durable.

        Raises:
            RequestIdReusedError: The request_id was used for another request.
            InvalidRequestError: An image in a message cannot be stored.
        """
        digest = request_digest(scope, messages, artifacts, options.on_conflict) if options.request_id else ""
        request = capture_request(_METHOD, scope, options.request_id, digest)
        answer = self._writer.find_answer(request)
        if answer is None:
            extracted = self._extract_all(scope, self._store_images(scope, messages), artifacts, deadline)
            drafts = [one.draft for one in extracted.drafts]
            answer = self._writer.store(scope, drafts, request, extracted.note, options.on_conflict)
        return flush_result(answer.results, answer.note, answer.position)

    def prepare(self, scope: Scope, messages: Sequence[ChatMessage], deadline: Deadline) -> PreparedFlush:
        """Return what a flush of stored *messages* will write: for writing it in the caller's own transaction."""
        extracted = self._extract_all(scope, messages, (), deadline)
        items = self._writer.prepare(scope, [one.draft for one in extracted.drafts])
        return PreparedFlush(
            tuple(items), extracted.note, tuple(one.said_in for one in extracted.drafts), extracted.known
        )

    def write(self, transaction: Transaction, prepared: PreparedFlush) -> WrittenFlush:
        """Write a prepared flush; older memories that it contradicts are marked."""
        results = self._writer.upsert(transaction, prepared.items, ConflictPolicy.MARK)
        extracted: dict[int, dict[ExtractedMemory, None]] = defaultdict(dict)
        for place, known in prepared.known:
            extracted[place][known] = None
        for result, said_in in zip(results, prepared.said_in, strict=True):
            if isinstance(result, UpsertResult):
                memory = result.memory
                for place, is_said in said_in:
                    extracted[place][ExtractedMemory(memory.id, memory.content_hash if is_said else "")] = None
        return WrittenFlush(results, {place: tuple(found) for place, found in extracted.items()})

    def note_duplicates(self, results: Sequence[RequestResult]) -> None:
        """Count the accesses of memories that a committed flush found to exist already."""
        self._writer.note_duplicates(results)

    def _store_images(self, scope: Scope, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return *messages* with references in place of images; all are validated before the first is stored."""
        extracted_images = [
            self._writer.extract_images(scope, message.content, field=f"messages[{place}].content")
            for place, message in enumerate(messages)
        ]
        return [
            replace(message, content=images.store(scope, images.text))
            for message, images in zip(messages, extracted_images, strict=True)
        ]

    def _extract_all(
        self, scope: Scope, messages: Sequence[ChatMessage], artifacts: Sequence[FileRef], deadline: Deadline
    ) -> _ExtractedDrafts:
        extraction = self._extract(scope, messages, deadline)
        rounds = _rounds(messages)
        files_of = files_by_message(messages, extraction.statements)
        by_round: dict[int, list[FileRef]] = defaultdict(list)
        for place, refs in enumerate(files_of):
            by_round[rounds[place]].extend(refs)
        echoes = _Echoes(messages, rounds)
        drafts = [
            _SaidDraft(_draft(one, by_round[rounds[one.statement.place]], artifacts), _said_in(one, echoes))
            for one in extraction.statements
            if one.verdict.remember
        ]
        drafts += map(_SaidDraft, _file_drafts(extraction, rounds, by_round, artifacts))
        kept = _most_important(drafts)
        files = tuple(dict.fromkeys([*(ref for refs in files_of for ref in refs), *artifacts]))
        note = _note_from(extraction, files, left_out=len(drafts) - len(kept))
        return _ExtractedDrafts(tuple(kept), tuple(_known(extraction, echoes)), note)

    def _extract(self, scope: Scope, messages: Sequence[ChatMessage], deadline: Deadline) -> Extraction:
        """Extract statements from all messages; a memory cited in one counts as recalled in all."""
        cleaned: list[str] = []
        redactions: list[tuple[Redaction, ...]] = []
        for message in messages:
            text, found = self._extractor.redact(message.content)
            cleaned.append(text)
            redactions.append(found)
        cited = self._extractor.find_cited(scope, "\n".join(cleaned))
        statements: list[tuple[SourceStatement, bool]] = []
        for place, (message, text) in enumerate(zip(messages, cleaned, strict=True)):
            like = SourceStatement("", message.role, place, message.speaker, message.event_time)
            statements += split_statements(text, cited, like, most=limits.FLUSHED_STATEMENTS + 1 - len(statements))
        is_cut = len(statements) > limits.FLUSHED_STATEMENTS
        extraction = self._extractor.evaluate(
            scope, statements[: limits.FLUSHED_STATEMENTS], sum_redactions(redactions), deadline
        )
        return extraction.with_notice(_CUT if is_cut else "")


_SaidIn: TypeAlias = tuple[tuple[int, bool], ...]
"""The places of the messages that a memory is made of, and whether they say what it says."""


@dataclass(frozen=True, slots=True)
class PreparedFlush:
    """The memories of a flush.

    Attributes:
        note: What `flush_result` reads.
        said_in: For each memory, see `_SaidIn`.
        known: Memories that existed already, each with the place of a message that says the same.
    """

    items: tuple[PreparedMemory | RejectedItem, ...]
    note: Json
    said_in: tuple[_SaidIn, ...] = ()
    known: tuple[tuple[int, ExtractedMemory], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenFlush:
    """The results of a flush, and what was extracted from the messages, by place."""

    results: list[UpsertResult | RejectedItem]
    extracted: Mapping[int, tuple[ExtractedMemory, ...]]


class _SaidDraft(NamedTuple):
    draft: Draft
    said_in: _SaidIn = ()


@dataclass(frozen=True, slots=True)
class _ExtractedDrafts:
    """The result of extraction: drafts by importance and position, what is known already, and the note."""

    drafts: tuple[_SaidDraft, ...]
    known: tuple[tuple[int, ExtractedMemory], ...]
    note: Json


def _rounds(messages: Sequence[ChatMessage]) -> list[int]:
    """Return the round number of each message: a user message after a message of another role starts a round."""
    numbers: list[int] = []
    number = 0
    before = Role.USER
    for message in messages:
        if message.role is Role.USER and before is not Role.USER:
            number += 1
        before = message.role
        numbers.append(number)
    return numbers


def _draft(extracted: ExtractedStatement, files: Sequence[FileRef], artifacts: Sequence[FileRef]) -> Draft:
    refs = tuple(dict.fromkeys((*files, *artifacts)))[: limits.FILE_REFS]
    return draft_from_statement(
        extracted, category=KNOWLEDGE_CATEGORIES.get(extracted.verdict.kind, "world"), files=refs
    )


class _Echoes:
    """The replies of an assistant that repeat something of what a user said in the same round."""

    def __init__(self, messages: Sequence[ChatMessage], rounds: Sequence[int]) -> None:
        self._rounds = rounds
        self._replies: dict[int, list[tuple[int, frozenset[str]]]] = defaultdict(list)
        for place, message in enumerate(messages):
            if message.role is Role.ASSISTANT and message.content:
                said = frozenset(query_terms(message.content[:ECHO_CHARS]))
                self._replies[rounds[place]].append((place, said))

    def of(self, extracted: ExtractedStatement) -> list[int]:
        """Return the places of the replies that share a word with a statement, apart from stop words."""
        place = extracted.statement.place
        if extracted.statement.role is not Role.USER or place in extracted.corrected_in:
            return []
        said = set(query_terms(extracted.statement.text)) | set(query_terms(extracted.content))
        return [reply for reply, words in self._replies[self._rounds[place]] if reply > place and words & said]


def _said_in(extracted: ExtractedStatement, echoes: _Echoes) -> _SaidIn:
    """Return the message of a statement, those that correct it, and the replies that repeat it.

    What is corrected in another message is not said, by the message and by the replies to it.
    """
    place, corrections = extracted.statement.place, extracted.corrected_in
    is_said = all(one == place for one in corrections)
    replies = [(one, is_said) for one in echoes.of(extracted)]
    return ((place, is_said), *replies, *((one, True) for one in corrections if one != place))


def _known(extraction: Extraction, echoes: _Echoes) -> Iterator[tuple[int, ExtractedMemory]]:
    """Yield the memories that state what messages say, with the places of these."""
    for one in extraction.statements:
        if one.known is not None:
            for place, is_said in _said_in(one, echoes):
                yield place, ExtractedMemory(one.known.id, one.known.content_hash if is_said else "")


def _file_drafts(
    extraction: Extraction,
    rounds: Sequence[int],
    by_round: Mapping[int, Sequence[FileRef]],
    artifacts: Sequence[FileRef],
) -> Iterator[Draft]:
    """Yield a draft for the files of each round without other memories, and one for artifacts without any."""
    taken = {rounds[extracted.statement.place] for extracted in extraction.statements if extracted.verdict.remember}
    left = {number: tuple(dict.fromkeys(files)) for number, files in by_round.items() if files and number not in taken}
    if artifacts and not taken and not left:
        left[rounds[-1]] = ()
    for number, files in sorted(left.items()):
        spoken = [
            extracted.statement
            for extracted in extraction.statements
            if rounds[extracted.statement.place] == number and extracted.verdict.reason not in _UNSPOKEN
        ]
        yield _file_draft(spoken[0] if spoken else None, tuple(dict.fromkeys((*files, *artifacts)))[: limits.FILE_REFS])


def _file_draft(asked: SourceStatement | None, files: Sequence[FileRef]) -> Draft:
    text = asked.text[:ASKED_CHARS] if asked else ""
    heading = HEADINGS["zh" if is_han(text) else "en"]
    listed = "\n".join(f"- `{format_ref(ref)}`" for ref in files)
    return Draft(
        content=f"{text}\n\n{heading}:\n{listed}" if text else f"{heading}:\n{listed}",
        session_id="",
        layer=Layer.SHORT_TERM,
        kind=Kind.EXPERIENCE,
        category=KNOWLEDGE_CATEGORIES[Kind.EXPERIENCE],
        title=title_of(text) if text else heading,
        tags=("files",),
        file_refs=tuple(files),
        importance=2,
        event_time=asked.event_time if asked else None,
        source=CONVERSATION,
    )


def _most_important(drafts: Sequence[_SaidDraft]) -> list[_SaidDraft]:
    """Return as many drafts as one transaction takes, in order; the least important are left out."""
    if len(drafts) <= limits.BATCH:
        return list(drafts)
    ranked = sorted(range(len(drafts)), key=lambda place: -(drafts[place].draft.importance or 0))
    return [drafts[place] for place in sorted(ranked[: limits.BATCH])]


def _note_from(extraction: Extraction, files: Sequence[FileRef], *, left_out: int) -> Json:
    reasons = [extracted.verdict.reason for extracted in extraction.statements if not extracted.verdict.remember]
    more = f"{left_out} less important memories were left out; flush fewer messages at a time." if left_out else ""
    return {
        "files": [[ref.category, ref.id] for ref in files],
        "ignored": len(reasons) + left_out,
        "recalled": sum(reason in _RECALLED for reason in reasons),
        "redactions": redactions_to_json(extraction.redactions),
        "decider": extraction.decider.value,
        "notice": " ".join(filter(None, (extraction.notice, more))),
    }


EMPTY_NOTE: Json = {
    "files": [], "ignored": 0, "recalled": 0, "redactions": [], "decider": Decider.RULES.value, "notice": "",
}  # fmt: skip
"""The note of a flush of no messages."""


def sum_notes(flush_notes: Sequence[Json]) -> Json:
    """Return the notes of several flushes as one; the language model decided if it decided in one of them."""
    notes: Sequence[Any] = flush_notes
    model = Decider.LANGUAGE_MODEL.value
    return {
        "files": list(dict.fromkeys(tuple(pair) for note in notes for pair in note["files"])),
        "ignored": sum(note["ignored"] for note in notes),
        "recalled": sum(note["recalled"] for note in notes),
        "redactions": redactions_to_json(sum_redactions([redactions_from_json(note["redactions"]) for note in notes])),
        "decider": model if any(note["decider"] == model for note in notes) else Decider.RULES.value,
        "notice": " ".join(dict.fromkeys(note["notice"] for note in notes if note["notice"])),
    }


def flush_result(results: Sequence[RequestResult], flush_note: Json, position: int) -> FlushResult:
    """Return the result of a flush from its committed writes and its note."""
    note: Any = flush_note
    return FlushResult(
        written=tuple(result for result in results if isinstance(result, WriteResult)),
        file_refs=tuple(FileRef(*pair) for pair in note["files"]),
        ignored=note["ignored"],
        recalled=note["recalled"],
        redactions=redactions_from_json(note["redactions"]),
        decider=Decider(note["decider"]),
        notice=note["notice"],
        position=position,
    )


def files_by_message(
    messages: Sequence[ChatMessage], extracted: Iterable[ExtractedStatement]
) -> list[tuple[FileRef, ...]]:
    """Return the files of each message: those of its tool calls, then those that its text refers to.

    Excluded are statements that repeat memories or ask to forget, and system messages.
    """
    unreferred: dict[int, list[str]] = defaultdict(list)
    for one in extracted:
        if one.verdict.reason in _UNREFERRED:
            unreferred[one.statement.place].append(one.statement.text)
    return [
        tuple(dict.fromkeys((*message.files, *_refs_in_text(message, unreferred[place]))))
        for place, message in enumerate(messages)
    ]


def _refs_in_text(message: ChatMessage, unreferred: Sequence[str]) -> tuple[FileRef, ...]:
    if message.role is Role.SYSTEM:
        return ()
    found = refs_in(message.content)
    contexts = spans_of_rendered(message.content) if found else []
    if not found or not (contexts or unreferred):
        return found
    start, parts = 0, []
    for first, last in contexts:
        parts.append(message.content[start:first])
        start = last
    text = "".join((*parts, message.content[start:]))
    for statement in unreferred:
        text = text.replace(statement, " ")
    return refs_in(text)
