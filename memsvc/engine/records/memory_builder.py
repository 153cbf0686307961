"""Building of memories from drafts, and of the records that the store keeps of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from operator import itemgetter
from typing import Protocol

import numpy as np

from memsvc.domain.conflicts import SCHEDULE, Fact, Rule, ValuePart, contradicts
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.files import union
from memsvc.domain.index_entries import Chunk, Document
from memsvc.domain.memory import (
    Keyword,
    Kind,
    Layer,
    Memory,
    Origin,
    Recurrence,
    Reminder,
    Status,
    Tier,
    content_hash,
    keywords_of,
    normal_keywords,
    uuid7,
)
from memsvc.domain.memory_keys import with_convention
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.reminders import YEARS, short_term_end
from memsvc.domain.scope import Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.write_requests import Draft, Redaction, RejectedItem
from memsvc.engine.records.provenance import Provenance, TrustEvaluator
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.ports.change_feed import IndexFeed
from memsvc.ports.metadata import ContentName, Record, Transaction
from memsvc.text.chunking import chunk, count_tokens
from memsvc.text.facts import USER, facts_in, is_choice_of_liked
from memsvc.text.file_refs import refs_in, with_image_refs
from memsvc.text.passages import memory_keywords
from memsvc.text.ranking_cues import pack_cues
from memsvc.text.reminder_extraction import (
    at_another_time,
    changed_event,
    completed_event,
    completion,
    reminder_in,
    schedule_change,
    still_mentions,
)
from memsvc.text.sentences import sentences

_REMINDER_KINDS = frozenset({Kind.FACT, Kind.PREFERENCE, Kind.EXPERIENCE, Kind.DECISION, Kind.TASK, Kind.NOTE})
_REMINDER_ORIGINS = frozenset({Origin.USER, Origin.AGENT, Origin.IMPORT})
NO_REDACTOR = Redactor(is_on=False)
STANDARD_POLICY = TrustPolicy()
STATEMENT_KINDS = frozenset({Kind.FACT, Kind.PREFERENCE, Kind.EXPERIENCE, Kind.OPINION, Kind.KNOWLEDGE, Kind.DECISION})

# Embedded images are extracted from content before it is stored; the implementation is in `memsvc.engine.files`.


class ExtractedImages(Protocol):
    """A text with references in place of its images, which are not stored yet."""

    @property
    def text(self) -> str:
        """Return the text."""
        ...

    def store(self, scope: Scope, content: str) -> str:
        """Store the images that *content*, a part of the text, refers to, and return it.

        The references in the result name files of the project of *scope*. Not for use in a transaction.
        """
        ...


class ImageExtractor(Protocol):
    """Extraction of embedded images into files."""

    def extract_images(self, scope: Scope, content: str, *, field: str) -> ExtractedImages:
        """Return *content* with references in place of its images; nothing is stored yet.

        Deterministic: the same content with the same position yields the same references.

        Raises:
            InvalidRequestError: An image is invalid, too large or of a forbidden type, or there are too many; it names
                *field*.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoImages:
    """A text without images."""

    text: str

    def store(self, scope: Scope, content: str) -> str:
        """Return *content* unchanged."""
        del scope
        return content


class NoImageExtractor:
    """Leaves images in the content."""

    def extract_images(self, scope: Scope, content: str, *, field: str) -> NoImages:
        """Return *content* unchanged."""
        del scope, field
        return NoImages(content)


def store_text_images(image_extractor: ImageExtractor, scope: Scope, content: str, *, field: str) -> str:
    """Return *content* with references in place of its images, which are durable then; unchanged without images.

    Not for use in a transaction.

    Raises:
        InvalidRequestError: As `ImageExtractor.extract_images`.
    """
    extracted = image_extractor.extract_images(scope, content, field=field)
    return extracted.store(scope, extracted.text)


def store_draft_images(image_extractor: ImageExtractor, scope: Scope, draft: Draft) -> Draft:
    """Return *draft* with its images stored as files of the project of the memory."""
    content = store_text_images(image_extractor, _scope_of(scope, draft), draft.content, field="memory.content")
    return draft if content is draft.content else replace(draft, content=content)


def store_part_images(extracted: ExtractedImages, scope: Scope, draft: Draft) -> Draft:
    """Return *draft*, of a part of the text, with its images stored in the same way."""
    content = extracted.store(_scope_of(scope, draft), draft.content)
    return draft if content is draft.content else replace(draft, content=content)


def _scope_of(scope: Scope, draft: Draft) -> Scope:
    return scope if draft.project_id is None else replace(scope, project_id=draft.project_id)


# Reminders are detected in content of users, agents and imports. Not in messages and documents, which state facts for
# everyone, nor in memories private to a session; and never in content of tools or documents, because that must not
# make an agent act.


@dataclass(frozen=True, slots=True)
class ReminderDetector:
    """Detection of reminders in content.

    Attributes:
        zone: The time zone in which dates such as "tomorrow" are resolved.
        is_on: Whether to detect reminders at all.
    """

    zone: tzinfo = UTC
    is_on: bool = True

    def detect(self, memory: Memory, now: datetime) -> Reminder | None:
        """Return the reminder in the content of *memory*, written *now*; relative dates count from its event time."""
        if not self.is_on or memory.kind not in _REMINDER_KINDS or memory.origin not in _REMINDER_ORIGINS:
            return None
        moment = memory.event_time or now
        if memory.layer is Layer.SESSION or not YEARS[0] <= moment.year <= YEARS[1]:
            return None
        return reminder_in(memory.content, moment.astimezone(self.zone))

    def update(self, before: Memory, after: Memory, now: datetime) -> Reminder | None:
        """Return the reminder of *after*, whose content differs from *before* and which was given no reminder.

        A given reminder stays, and so does a detected one whose phrase is still in the content.
        """
        held = before.reminder
        if held is not None and (not held.phrase or still_mentions(held, after.content)):
            return held
        return self.detect(after, now)


DEFAULT_REMINDER_DETECTOR = ReminderDetector()
NO_IMAGE_EXTRACTOR = NoImageExtractor()


@dataclass(frozen=True, slots=True)
class PreparedMemory:
    """A draft and the memory that it becomes unless a duplicate exists.

    Attributes:
        draft: The draft with secrets replaced.
        name: The content that the memory claims, None if it claims none.
        concerns_schedule: See `concerns_schedule`.
        redactions: The secrets that were replaced.
    """

    draft: Draft
    record: Record
    name: ContentName | None
    concerns_schedule: bool
    redactions: tuple[Redaction, ...] = ()

    @property
    def size(self) -> int:
        """Return about how many memories of one chunk are written in the time that this one takes."""
        return max(1, len(self.record.chunks))


class MemoryBuilder:
    """Creation of memories from drafts. It reads no store, so it can run before any transaction."""

    def __init__(  # noqa: PLR0913 - a part each
        self,
        *,
        model: str,
        dimension: int,
        now: Callable[[], datetime],
        search_priority: SearchPriority,
        random: Callable[[int], bytes] = os.urandom,
        redactor: Redactor = NO_REDACTOR,
        policy: TrustPolicy = STANDARD_POLICY,
        reminder_detector: ReminderDetector = DEFAULT_REMINDER_DETECTOR,
        image_extractor: ImageExtractor = NO_IMAGE_EXTRACTOR,
    ) -> None:
        """Use *model* and *dimension* for given vectors, and *now* and *random* for time and ids.

        *policy* sets trust and quarantine, *redactor* replaces secrets in every text, *reminder_detector* finds
        reminders, *image_extractor* stores embedded images as files.
        """
        self._model = model
        self._dimension = dimension
        self.now = now
        self._search_priority = search_priority
        self._random = random
        self.redactor = redactor
        self.policy = policy
        self.reminder_detector = reminder_detector
        self._image_extractor = image_extractor
        self._judge = TrustEvaluator(policy)

    def prepare(self, scope: Scope, draft: Draft, origin: Origin = Origin.AGENT) -> PreparedMemory:
        """Return *draft* with defaults, id, hash, keywords and chunks; its row and previous row are not known yet.

        A key with a convention (`memsvc.domain.memory_keys`) provides defaults. Secrets are replaced. Trust does not
        yet include the sources of the memory. *origin* is for drafts without one.

        Raises:
            InvalidRequestError: A SESSION memory has no session, or the vector does not fit.
        """
        draft, redactions = self.redactor.draft(draft) if self.redactor.is_on else (draft, ())
        completed = with_convention(draft) if "/" in draft.key else draft
        memory = self._memory(_own_scope(scope, draft), completed, self._judge.evaluate(draft, origin))
        require_session(memory, "SESSION needs a session_id in the scope.")
        require_validity(memory)
        chunks = chunks_of(draft.content)
        # The transaction asks for them, and other writes wait for it: here they are read beside them.
        pack_cues(draft.content)
        name = content_name(memory) if claims_content(memory) else None
        record = Record(memory, chunks, name is not None, statements=extract_statements(memory))
        if draft.vector is not None and len(draft.vector) > 0:
            vector = self.vector_bytes(draft.vector, chunks)
            record = replace(record, given_vector=vector, given_model=self._model)
        return PreparedMemory(draft, record, name, concerns_schedule(memory), redactions)

    def store_images(self, scope: Scope, draft: Draft) -> Draft:
        """Return *draft* with references in place of its images, which are durable then. Not for use in a transaction.

        Raises:
            InvalidRequestError: An image cannot be stored.
        """
        return store_draft_images(self._image_extractor, scope, draft)

    def store_text_images(self, scope: Scope, content: str, *, field: str) -> str:
        """As `store_images`, for a text; errors name *field*."""
        return store_text_images(self._image_extractor, scope, content, field=field)

    def extract_images(self, scope: Scope, content: str, *, field: str) -> ExtractedImages:
        """Return *content* with references in place of its images, which are not durable yet; errors name *field*."""
        return self._image_extractor.extract_images(scope, content, field=field)

    def prepare_all(
        self, scope: Scope, drafts: Sequence[Draft | RejectedItem], origin: Origin = Origin.AGENT
    ) -> list[PreparedMemory | RejectedItem]:
        """Return all *drafts* prepared, with images stored; an invalid one as a rejection. Rejections pass through."""
        prepare, lifted = self.prepare, self.store_images
        items: list[PreparedMemory | RejectedItem] = []
        for draft in drafts:
            self._search_priority.yield_to_searches()
            try:
                if isinstance(draft, RejectedItem):
                    items.append(draft)
                else:
                    items.append(prepare(scope, lifted(scope, draft), origin))
            except InvalidRequestError as error:
                items.append(RejectedItem(error.reason, error.message, error.violations))
        return items

    def vector_bytes(self, vector: Sequence[float], chunks: Sequence[Chunk]) -> bytes:
        """Return a given vector in storage format: little-endian float32.

        Raises:
            InvalidRequestError: Its length is not the dimension of the model, or the content has more than one chunk.
        """
        if len(vector) != self._dimension:
            description = f"Must hold {self._dimension} numbers, not {len(vector)}."
            raise InvalidRequestError([Violation("vector", description)])
        if chunks:
            description = f"Is for content of one chunk; this one has {len(chunks)}: leave the vector out."
            raise InvalidRequestError([Violation("vector", description)])
        return np.asarray(vector, dtype="<f4").tobytes()

    def new_id(self) -> str:
        """Return a new time-ordered id."""
        return uuid7(self.now(), self._random)

    @property
    def model(self) -> str:
        """Return the embedding model of given vectors."""
        return self._model

    def _memory(self, scope: Scope, draft: Draft, provenance: Provenance) -> Memory:
        now = self.now()
        layer = draft.layer or Layer.LONG_TERM
        title, summary = draft.title or "", draft.summary or ""
        given = draft.keywords
        memory = Memory(
            id=uuid7(now, self._random),
            scope=scope,
            content=draft.content,
            create_time=now,
            update_time=now,
            content_hash=content_hash(draft.content),
            key=draft.key,
            layer=layer,
            kind=draft.kind or Kind.FACT,
            category=draft.category or "",
            speaker=draft.speaker or "",
            title=title,
            summary=summary,
            tags=draft.tags or (),
            keywords=normal_keywords(given) if given else keywords_from_texts(title, summary, draft.content),
            related_ids=draft.related_ids or (),
            file_refs=with_image_refs(draft.content, union(draft.file_refs or (), refs_in(draft.content))),
            importance=draft.importance or 3,
            tier=draft.tier or Tier.CONTEXTUAL,
            confidence=1.0 if draft.confidence is None else draft.confidence,
            event_time=draft.event_time,
            valid_from=draft.valid_from,
            valid_to=draft.valid_to,
            work_in_progress=bool(draft.work_in_progress),
            source=draft.source or "",
            metadata=draft.metadata or {},
            status=provenance.status,
            origin=provenance.origin,
            trust=provenance.trust,
            derived_from_ids=draft.derived_from_ids or (),
            review=provenance.review,
        )
        reminder = draft.reminder or self.reminder_detector.detect(memory, now)
        return replace(memory, reminder=reminder, expire_time=expiry(draft, layer, reminder, now))


class RecordBuilder:
    """Records of memories: chunks, given vector, claim on the content, link to the previous message of the session."""

    def __init__(
        self, memory_builder: MemoryBuilder, feed: IndexFeed, count: Callable[[str], int] = count_tokens
    ) -> None:
        """Read given vectors from *feed*; *count* returns the number of tokens of a text."""
        self._memory_builder = memory_builder
        self._feed = feed
        self._count = count

    @property
    def trust_policy(self) -> TrustPolicy:
        """The policy by which memories are trusted."""
        return self._memory_builder.policy

    def record(self, before: Memory, after: Memory, vector: bytes = b"") -> Record:
        """Return the record of *after*, without a claim on its content.

        A new given *vector* is used; otherwise the given vector of *before* stays as long as the content does. If the
        clock was set back since *before* was written, *after* has the same update_time.
        """
        if after.update_time < before.update_time:
            after = replace(after, update_time=before.update_time)
        record = Record(after, chunks_of(after.content), is_unique=False, statements=extract_statements(after))
        if vector:
            return replace(record, given_vector=vector, given_model=self._memory_builder.model)
        if after.content_hash != before.content_hash:
            return record
        given, model = self.given_vector(before)
        return replace(record, given_vector=given, given_model=model)

    @staticmethod
    def record_with_same_content(after: Memory) -> Record:
        """Return the record of a next revision with the same content, without a claim. It needs no read.

        The store keeps chunks and given vector while the content stays.
        """
        return Record(after, is_unique=False, statements=extract_statements(after))

    def next_record(self, before: Memory, after: Memory, vector: bytes = b"") -> Record | None:
        """Return the record of the next revision, or None if neither the memory nor its vector changes."""
        if after is not before:
            return self.record(before, after, vector)
        if not vector or self.given_vector(before) == (vector, self._memory_builder.model):
            return None
        renewed = replace(before, update_time=self._memory_builder.now(), revision=before.revision + 1)
        return self.record(before, renewed, vector)

    def claim(self, transaction: Transaction, record: Record) -> tuple[Record, Memory | None]:
        """Return *record* with the claim on its content if that is free, and the other memory that holds it, if any."""
        holder = self.find_holder(transaction, record.memory)
        is_unique = holder is None and claims_content(record.memory)
        return (record if record.is_unique == is_unique else replace(record, is_unique=is_unique)), holder

    @staticmethod
    def find_holder(transaction: Transaction, memory: Memory) -> Memory | None:
        """Return the other memory that claims the content of *memory*, if *memory* would claim it."""
        if not claims_content(memory):
            return None
        name = content_name(memory)
        holder = transaction.find_contents(memory.scope.owner, [name]).get(name)
        return None if holder is None or holder.id == memory.id else holder

    @staticmethod
    def link_to_sessions(transaction: Transaction, records: Sequence[Record]) -> list[Record]:
        """Return new *records*, the first of each session linked to the last stored message of that session."""
        linked = list(records)
        seen: set[tuple[str, str]] = set()
        for place, record in enumerate(records):
            scope = record.memory.scope
            session = (scope.project_id, scope.session_id)
            if scope.session_id and session not in seen:
                seen.add(session)
                row = transaction.last_row(scope.owner, *session)
                if row is not None:
                    linked[place] = replace(record, memory=replace(record.memory, previous_row=row))
        return linked

    def update_session_tokens(self, transaction: Transaction, before: Memory, after: Memory) -> None:
        """Update the token count of the session when the content of a message changes, whatever its kind is now."""
        if before.scope.session_id and before.content_hash != after.content_hash:
            more = self._count(after.content) - self._count(before.content)
            transaction.sessions.add_tokens(before.row, more)

    def given_vector(self, memory: Memory) -> tuple[bytes, str]:
        """Return the given vector of a stored memory and its model; both are empty if there is none."""
        documents = self._feed.documents([memory.row])
        return (documents[0].given_vector, documents[0].given_model) if documents else (b"", "")


def expiry(draft: Draft, layer: Layer, reminder: Reminder | None, now: datetime) -> datetime | None:
    """Return the expiry of *draft*: the given one, else for SHORT_TERM that of `short_term_end`, else None."""
    if draft.ttl is not None:
        return now + draft.ttl
    if draft.expire_time is None and layer is Layer.SHORT_TERM:
        return short_term_end(reminder, draft.valid_from, now)
    return draft.expire_time


def chunks_of(content: str) -> tuple[Chunk, ...]:
    """Return the chunks of *content* as a record stores them: none if there is only one."""
    pieces = chunk(content)
    if len(pieces) < 2:  # noqa: PLR2004 - one piece is the content itself
        return ()
    return tuple(
        Chunk(ordinal, piece.text, piece.heading_path, piece.start_line, piece.end_line)
        for ordinal, piece in enumerate(pieces)
    )


def document_of(memory: Memory, previous: Memory | None = None) -> Document:
    """Return *memory* as it is indexed after the message *previous*, from its content; a given vector is left out."""
    sole = Chunk(ordinal=0, text=memory.content, heading_path=(), start_line=1, end_line=memory.content.count("\n") + 1)
    return Document(memory, chunks_of(memory.content) or (sole,), previous)


def claims_content(memory: Memory) -> bool:
    """Return whether *memory* must be the only one with its content in its project and kind, by its speaker.

    A memory whose validity ended claims nothing: the same may become true again, as another memory.
    """
    return memory.kind is not Kind.MESSAGE and memory.status is Status.ACTIVE and memory.valid_to is None


def require_validity(memory: Memory) -> None:
    """Check that the validity of *memory* does not end before it begins.

    Raises:
        InvalidRequestError: It does.
    """
    if memory.valid_from is not None and memory.valid_to is not None and memory.valid_to <= memory.valid_from:
        raise InvalidRequestError([Violation("memory.valid_to", "Must be after valid_from.")])


def require_session(memory: Memory, description: str = "SESSION needs a memory of a session.") -> None:
    """Check that *memory* belongs to a session if it is private to one; otherwise no scope sees it.

    Raises:
        InvalidRequestError: It does not.
    """
    if memory.layer is Layer.SESSION and not memory.scope.session_id:
        raise InvalidRequestError([Violation("memory.layer", description)])


def content_name(memory: Memory) -> ContentName:
    """Return the identity of the content of *memory* within its owner."""
    return ContentName(memory.scope.project_id, memory.kind.value, memory.content_hash, memory.speaker)


def keywords_from_texts(title: str, summary: str, content: str) -> tuple[Keyword, ...]:
    """Return keywords extracted from title, summary and content, highest weight first, ties by term."""
    found = memory_keywords(title=title, summary=summary, content=content)
    found.sort()
    found.sort(key=itemgetter(1), reverse=True)
    return keywords_of(found)


def _own_scope(scope: Scope, draft: Draft) -> Scope:
    if draft.project_id is None and draft.agent_id is None and draft.session_id is None:
        return scope
    return Scope(
        user_id=scope.user_id,
        project_id=scope.project_id if draft.project_id is None else draft.project_id,
        agent_id=scope.agent_id if draft.agent_id is None else draft.agent_id,
        session_id=scope.session_id if draft.session_id is None else draft.session_id,
        tenant_id=scope.tenant_id,
    )


# Statements of memories for conflict detection.
#
# Excluded are records of events (messages, notes, tasks), long texts, which one sentence would put into conflict, and
# memories private to a session.


def statements_of(memory: Memory) -> tuple[Fact, ...]:
    """Return the statements of *memory*, whatever its status."""
    if memory.kind not in STATEMENT_KINDS or memory.layer is Layer.SESSION:
        return ()
    return facts_in(memory.content, speaker=_voice(memory), is_titled=bool(memory.title))


def _voice(memory: Memory) -> str:
    """Return the speaker of *memory*, to whom "I" refers; empty for the user, also under the name of the user_id."""
    speaker = memory.speaker.strip()
    return "" if speaker.casefold() == memory.scope.user_id.strip().casefold() else speaker


def extract_statements(memory: Memory) -> tuple[Fact, ...]:
    """Return the statements that others can contradict: those of an ACTIVE memory."""
    return statements_of(memory) if memory.status is Status.ACTIVE else ()


def states_more(memory: Memory, statement: Fact) -> bool:
    """Return whether *memory* states more than *statement*: another sentence with a word in it, or another topic.

    A job and an employer count as one: they are stated together and change together. What is not liked is not chosen
    either, so the choice of a thing adds nothing to the liking of it.
    """
    if sum(1 for sentence in sentences(memory.content) if any(map(str.isalnum, sentence))) > 1:
        return True
    if any(part.sort == SCHEDULE for part in statement.parts):
        return False
    others = [one for one in statements_of(memory) if one.topic != statement.topic]
    if statement.rule is Rule.OCCUPATION:
        return any(one.rule is not Rule.OCCUPATION for one in others)
    return not all(is_choice_of_liked(one, statement) for one in others)


def is_personal(statement: Fact, memory: Memory) -> bool:
    """Return whether a statement of *memory* holds in every project: the home, work or name of the user or speaker."""
    topic = statement.topic
    for person in dict.fromkeys((USER, _voice(memory).lower() or USER)):
        if statement.rule in {Rule.LOCATION, Rule.OCCUPATION}:
            if topic.endswith(f" of {person}") or topic.startswith(f"{person} "):
                return True
        elif topic in {f"is name {person}", f"{person} 名字"}:
            return True
    return False


def differs_in_project(older: Memory, newer: Memory) -> bool:
    """Return whether the older memory is global and the newer one is not: it stays in use in other projects."""
    return older.scope.project_id != newer.scope.project_id


def find_contradiction(older: Memory, newer: Memory) -> tuple[Fact, Fact] | None:
    """Return the first pair of contradicting statements, in the order of the newer memory, or None."""
    by_topic = {statement.topic: statement for statement in statements_of(older)}
    for newer_statement in statements_of(newer):
        before = by_topic.get(newer_statement.topic)
        if before is not None and contradicts(before, newer_statement):
            return before, newer_statement
    found = find_schedule_change([older], newer)
    return None if found is None else found[1:]


def find_schedule_change(reminded: Sequence[Memory], newer: Memory) -> tuple[Memory, Fact, Fact] | None:
    """Return the one of the *reminded* memories whose event *newer* moves or calls off, and what both say of its day.

    None when *newer* says no such thing, or when it is not certain which event it means.
    """
    change = schedule_change(newer.content) if changes_schedule(newer) else None
    if change is None:
        return None
    day = _single_day(newer)
    others = [one for one in reminded if may_be_reminded_of(one) and _single_day(one) not in {None, day}]
    is_of_time = day is None and not change.is_cancelled
    if is_of_time:
        others = [one for one in others if reminder_at_another_time(one, newer) is not None]
    place = changed_event(change, [one.reminder.phrase or one.content for one in others if one.reminder is not None])
    if place is None:
        return None
    topic = f"{USER} {change.label}" if not change.label.isascii() else f"is {change.label} {USER}"
    older = others[place]
    if is_of_time:
        before, said = (_day_and_time(one) for one in (older.reminder, reminder_at_another_time(older, newer)))
    else:
        before, said = f"{_single_day(older)}", "cancelled" if change.is_cancelled else f"{day}"
    return (
        older,
        Fact(Rule.GENERAL, topic, (ValuePart(SCHEDULE, before),)),
        Fact(Rule.GENERAL, topic, (ValuePart(SCHEDULE, said),)),
    )


def find_completed(reminded: Sequence[Memory], newer: Memory, said: date) -> Memory | None:
    """Return the one of the *reminded* memories of which *newer*, said on a day, states that it is done, or None.

    None also when it is not certain which one it means.
    """
    done = completion(newer.content) if states_completion(newer) else None
    if done is None:
        return None
    dated = [
        (one, one.reminder.phrase or one.content, day)
        for one in reminded
        if may_be_reminded_of(one) and one.reminder is not None and (day := _single_day(one)) is not None
    ]
    place = completed_event(done, [(phrase, day) for _, phrase, day in dated], said)
    return None if place is None else dated[place][0]


def reminder_at_another_time(older: Memory, newer: Memory) -> Reminder | None:
    """Return the reminder of *older* at the time of day that *newer* states, if it states one and no day, else None."""
    if older.reminder is None or newer.reminder is not None or not may_be_reminded_of(newer):
        return None
    return at_another_time(older.reminder, newer.content, newer.moment)


def _day_and_time(reminder: Reminder | None) -> str:
    if reminder is None:
        return ""
    day = f"{date(reminder.year, reminder.month, reminder.day)}"
    return day if reminder.minute is None else f"{day} {reminder.minute // 60:02}:{reminder.minute % 60:02}"


def changes_schedule(memory: Memory) -> bool:
    """Return whether a memory states that an event was moved or called off."""
    return may_be_reminded_of(memory) and schedule_change(memory.content) is not None


def concerns_schedule(memory: Memory) -> bool:
    """Return whether *memory* may be about an event that it moves, that was moved before, or what it says is done."""
    if changes_schedule(memory) or states_completion(memory):
        return True
    return memory.event_time is not None and has_single_reminder(memory)


def states_completion(memory: Memory) -> bool:
    """Return whether a memory states that something is done, of which another may remind."""
    return may_be_reminded_of(memory) and completion(memory.content) is not None


def may_be_reminded_of(memory: Memory) -> bool:
    """Return whether a memory is of a kind, an origin and a layer in whose content reminders are detected."""
    is_stated = memory.kind in _REMINDER_KINDS and memory.origin in _REMINDER_ORIGINS
    return is_stated and memory.layer is not Layer.SESSION


def has_single_reminder(memory: Memory) -> bool:
    """Return whether *memory* has a reminder of one day."""
    return _single_day(memory) is not None


def _single_day(memory: Memory) -> date | None:
    reminder = memory.reminder
    if reminder is None or reminder.recurrence is not Recurrence.NONE:
        return None
    return date(reminder.year, reminder.month, reminder.day)
