"""From a draft to all that is stored of a new memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter

import numpy as np

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.files import union
from memsvc.domain.index_entries import Chunk
from memsvc.domain.limits import SHORT_TERM_DAYS
from memsvc.domain.memory import Keyword, Kind, Layer, Memory, Origin, Status, Tier, content_hash, keywords_of, uuid7
from memsvc.domain.memory_keys import with_convention
from memsvc.domain.provenance import TrustPolicy
from memsvc.domain.scope import Scope
from memsvc.domain.secrets import Redactor
from memsvc.domain.write_requests import Draft, Redaction, Rejected
from memsvc.engine.conflicts.statements import extract_statements
from memsvc.engine.memories.lifting import ExtractedImages, ImageExtractor, NoLifting, lifted_draft, lifted_text
from memsvc.engine.memories.reminding import ReminderDetector
from memsvc.engine.records.provenance import Provenance, TrustEvaluator
from memsvc.engine.runtime.search_priority import SEARCH_PRIORITY
from memsvc.ports.metadata import ContentName, Record
from memsvc.text.chunking import chunk
from memsvc.text.file_refs import refs_in
from memsvc.text.keywords import extract_keywords

NO_REDACTOR = Redactor(is_on=False)
STANDARD_POLICY = TrustPolicy()
REMINDING = ReminderDetector()
NO_LIFTING = NoLifting()
SHORT_TERM_LIFE = timedelta(days=SHORT_TERM_DAYS)


@dataclass(frozen=True, slots=True)
class PreparedMemory:
    """A draft and the new memory that it becomes unless one like it is there.

    Attributes:
        draft: Without secrets.
        name: The content that the memory claims, or None when it claims none.
        redactions: The secrets that were replaced.
    """

    draft: Draft
    record: Record
    name: ContentName | None
    redactions: tuple[Redaction, ...] = ()


class MemoryBuilder:
    """Makes new memories out of drafts. It touches no store, so it may run before any transaction."""

    def __init__(  # noqa: PLR0913 - a part each
        self,
        *,
        model: str,
        dimension: int,
        now: Callable[[], datetime],
        random: Callable[[int], bytes] = os.urandom,
        redactor: Redactor = NO_REDACTOR,
        policy: TrustPolicy = STANDARD_POLICY,
        reminding: ReminderDetector = REMINDING,
        lifting: ImageExtractor = NO_LIFTING,
    ) -> None:
        """Take given vectors to be of *model* and *dimension*; time and randomness come from *now* and *random*.

        *policy* says how far memories are trusted, and which of them are withheld for a review. Every text
        that is written passes the *redactor*, and *reminding* looks at it. *lifting* keeps the images in contents.
        """
        self._model = model
        self._dimension = dimension
        self.now = now
        self._random = random
        self.redactor = redactor
        self.policy = policy
        self.reminding = reminding
        self._lifting = lifting
        self._judge = TrustEvaluator(policy)

    def prepare(self, scope: Scope, draft: Draft, origin: Origin = Origin.AGENT) -> PreparedMemory:
        """Return *draft* with its defaults, id, hash, keywords and chunks; the row and neighbour are still unknown.

        A key that says something of its memory (`memsvc.domain.memory_keys`) gives the defaults. Secrets are replaced.
        Unknown are also the memories that it is derived from: its trust is without them. *origin* is that of drafts
        without one.

        Raises:
            InvalidRequestError: A SESSION memory has no session, or the vector does not fit.
        """
        draft, redactions = self.redactor.draft(draft) if self.redactor.is_on else (draft, ())
        known = with_convention(draft) if "/" in draft.key else draft
        memory = self._memory(_own_scope(scope, draft), known, self._judge.of(draft, origin))
        if memory.layer is Layer.SESSION and not memory.scope.session_id:
            raise InvalidRequestError([Violation("memory.layer", "SESSION needs a session_id in the scope.")])
        require_validity(memory)
        chunks = chunks_of(draft.content)
        name = content_name(memory) if claims_content(memory) else None
        stated = extract_statements(memory)
        if draft.vector is None or len(draft.vector) == 0:
            return PreparedMemory(draft, Record(memory, chunks, name is not None, statements=stated), name, redactions)
        vector = self.vector_bytes(draft.vector, chunks)
        return PreparedMemory(
            draft, Record(memory, chunks, name is not None, vector, self._model, stated), name, redactions
        )

    def lifted(self, scope: Scope, draft: Draft) -> Draft:
        """Return *draft* with references in the place of images, which are durable then; not within a transaction.

        Raises:
            InvalidRequestError: An image cannot be kept.
        """
        return lifted_draft(self._lifting, scope, draft)

    def lifted_text(self, scope: Scope, content: str, *, field: str) -> str:
        """Return *content* likewise; errors name *field*."""
        return lifted_text(self._lifting, scope, content, field=field)

    def set_aside(self, scope: Scope, content: str, *, field: str) -> ExtractedImages:
        """Return *content* with references in the place of images, which are not durable yet; errors name *field*."""
        return self._lifting.set_aside(scope, content, field=field)

    def prepare_all(
        self, scope: Scope, drafts: Sequence[Draft | Rejected], origin: Origin = Origin.AGENT
    ) -> list[PreparedMemory | Rejected]:
        """Return all *drafts* lifted and prepared, a bad one as its rejection; those rejected before pass through."""
        prepare, lifted = self.prepare, self.lifted
        items: list[PreparedMemory | Rejected] = []
        for draft in drafts:
            SEARCH_PRIORITY.give_way()
            try:
                if isinstance(draft, Rejected):
                    items.append(draft)
                else:
                    items.append(prepare(scope, lifted(scope, draft), origin))
            except InvalidRequestError as error:
                items.append(Rejected(error.reason, error.message, error.violations))
        return items

    def vector_bytes(self, vector: Sequence[float], chunks: Sequence[Chunk]) -> bytes:
        """Return a given vector as it is stored: little-endian float32.

        Raises:
            InvalidRequestError: Its length is not the embedder's, or the content is more than one chunk.
        """
        if len(vector) != self._dimension:
            description = f"Must hold {self._dimension} numbers, not {len(vector)}."
            raise InvalidRequestError([Violation("vector", description)])
        if chunks:
            description = f"Is for content of one chunk; this one has {len(chunks)}: leave the vector out."
            raise InvalidRequestError([Violation("vector", description)])
        return np.asarray(vector, dtype="<f4").tobytes()

    def new_id(self) -> str:
        """Return an id of the present moment."""
        return uuid7(self.now(), self._random)

    @property
    def model(self) -> str:
        """Name the space that given vectors are in."""
        return self._model

    def _memory(self, scope: Scope, draft: Draft, provenance: Provenance) -> Memory:
        now = self.now()
        layer = draft.layer or Layer.LONG_TERM
        speaker = draft.speaker or ""
        title = draft.title or ""
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
            kind=draft.kind or default_kind(speaker),
            category=draft.category or "",
            speaker=speaker,
            title=title,
            summary=draft.summary or "",
            tags=draft.tags or (),
            keywords=normal_keywords(given) if given else extracted_keywords(title, draft.content),
            related_ids=draft.related_ids or (),
            file_refs=union(draft.file_refs or (), refs_in(draft.content)),
            importance=draft.importance or 3,
            tier=draft.tier or Tier.CONTEXTUAL,
            confidence=1.0 if draft.confidence is None else draft.confidence,
            event_time=draft.event_time,
            expire_time=expiry(draft, layer, now),
            valid_from=draft.valid_from,
            valid_to=draft.valid_to,
            work_in_progress=bool(draft.work_in_progress),
            source=draft.source or "",
            metadata=draft.metadata or {},
            status=provenance.status,
            origin=provenance.origin,
            trust=provenance.trust,
            derived_from=draft.derived_from or (),
            review=provenance.review,
            reminder=draft.reminder,
        )
        if draft.reminder is None and (found := self.reminding.found(memory, now)) is not None:
            return replace(memory, reminder=found)
        return memory


def expiry(draft: Draft, layer: Layer, now: datetime) -> datetime | None:
    """Return when *draft* expires: as it says, else 14 days from *now* for SHORT_TERM, else never."""
    if draft.ttl is not None:
        return now + draft.ttl
    if draft.expire_time is None and layer is Layer.SHORT_TERM:
        return now + SHORT_TERM_LIFE
    return draft.expire_time


def default_kind(speaker: str) -> Kind:
    """Return the kind of a memory that names none: what somebody said is a message."""
    return Kind.MESSAGE if speaker else Kind.FACT


def chunks_of(content: str) -> tuple[Chunk, ...]:
    """Return the pieces of *content* as a record keeps them: none when there is just one."""
    pieces = chunk(content)
    if len(pieces) < 2:  # noqa: PLR2004 - one piece is the content itself
        return ()
    return tuple(
        Chunk(ordinal, piece.text, piece.heading_path, piece.start_line, piece.end_line)
        for ordinal, piece in enumerate(pieces)
    )


def claims_content(memory: Memory) -> bool:
    """Return whether no other memory of the project and kind should hold the same content.

    What ceases to be true may become true again: then it is another memory that says so.
    """
    return memory.kind is not Kind.MESSAGE and memory.status is Status.ACTIVE and memory.valid_to is None


def require_validity(memory: Memory) -> None:
    """Return when *memory* does not cease to be true before it begins to.

    Raises:
        InvalidRequestError: It does.
    """
    if memory.valid_from is not None and memory.valid_to is not None and memory.valid_to <= memory.valid_from:
        raise InvalidRequestError([Violation("memory.valid_to", "Must lie after valid_from.")])


def content_name(memory: Memory) -> ContentName:
    """Return what the content of *memory* is known by under its owner."""
    return ContentName(memory.scope.project_id, memory.kind.value, memory.content_hash)


def extracted_keywords(title: str, content: str) -> tuple[Keyword, ...]:
    """Return the keywords of a memory that was given none, heaviest first, ties by term."""
    found = extract_keywords(f"{title}\n{content}" if title else content)
    found.sort()
    found.sort(key=itemgetter(1), reverse=True)
    return keywords_of(found)


def normal_keywords(given: Iterable[Keyword]) -> tuple[Keyword, ...]:
    """Return given keywords in lower case, each term once with its largest weight, heaviest first, ties by term."""
    weights: dict[str, float] = {}
    for keyword in given:
        term = keyword.term.lower()
        weights[term] = max(keyword.weight, weights.get(term, 0.0))
    ordered = sorted(weights.items(), key=_by_weight)
    return keywords_of(ordered)


def _by_weight(keyword: tuple[str, float]) -> tuple[float, str]:
    return -keyword[1], keyword[0]


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
