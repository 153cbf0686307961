"""What becomes of a draft before any store sees it."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.memory import Keyword, Kind, Layer, Memory, Recurrence, Reminder, Status, Tier, content_hash
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import Draft
from memsvc.engine.records.memory_builder import MemoryBuilder
from memsvc.engine.runtime.search_priority import SearchPriority
from memsvc.testing.factories import NOW

SCOPE = Scope("ada", project_id="apollo", agent_id="scout", session_id="s1", tenant_id="t")
LONG = "# Notes\n\n" + "\n\n".join(f"Paragraph {number} tells about the harbour of Lisbon." for number in range(200))
memory_builder = MemoryBuilder(
    model="toy", dimension=2, now=lambda: NOW, random=bytes, search_priority=SearchPriority()
)


def prepared(content: str = "Anna lives in Lisbon.", **fields: Any) -> Memory:
    return memory_builder.prepare(SCOPE, Draft(content, **fields)).record.memory


def test_a_bare_draft_gets_the_defaults() -> None:
    """What a draft leaves out has the value that the API states."""
    memory = prepared()

    assert (
        memory.layer, memory.kind, memory.tier, memory.status,
    ) == (Layer.LONG_TERM, Kind.FACT, Tier.CONTEXTUAL, Status.ACTIVE)  # fmt: skip
    assert (memory.importance, memory.confidence, memory.revision, memory.expire_time) == (3, 1.0, 1, None)
    assert (memory.scope, memory.create_time, memory.update_time) == (SCOPE, NOW, NOW)
    assert content_hash("Anna lives in Lisbon.") == memory.content_hash


def test_what_somebody_said_is_a_fact_unless_it_is_a_message() -> None:
    """A speaker does not change the kind; a MESSAGE never claims its content."""
    fact = memory_builder.prepare(SCOPE, Draft("Hello", speaker="Anna")).record
    message = memory_builder.prepare(SCOPE, Draft("Hello", kind=Kind.MESSAGE, speaker="Anna")).record

    assert (fact.memory.kind, fact.is_unique) == (Kind.FACT, True)
    assert (message.memory.kind, message.is_unique) == (Kind.MESSAGE, False)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"layer": Layer.SHORT_TERM}, NOW + timedelta(days=14)),
        ({"layer": Layer.SHORT_TERM, "ttl": timedelta(hours=1)}, NOW + timedelta(hours=1)),
        ({"layer": Layer.SHORT_TERM, "expire_time": NOW}, NOW),
        ({"ttl": timedelta(days=2)}, NOW + timedelta(days=2)),
        ({"layer": Layer.CORE}, None),
        (
            {"layer": Layer.SHORT_TERM, "reminder": Reminder(3, 5, 2999, Recurrence.NONE)},
            datetime(2999, 3, 19, tzinfo=UTC),
        ),
        ({"layer": Layer.SHORT_TERM, "reminder": Reminder(3, 5, 1999, Recurrence.NONE)}, NOW + timedelta(days=14)),
        ({"layer": Layer.SHORT_TERM, "reminder": Reminder(3, 5)}, None),
        ({"layer": Layer.SHORT_TERM, "reminder": Reminder(12, 31, 9999, Recurrence.NONE)}, None),
        ({"layer": Layer.SHORT_TERM, "reminder": Reminder(3, 5, 2999, Recurrence.NONE), "expire_time": NOW}, NOW),
        ({"reminder": Reminder(3, 5, 2999, Recurrence.NONE)}, None),
    ],
)
def test_expiry(fields: dict[str, Any], expected: object) -> None:
    """SHORT_TERM lives 14 days, and as long after its reminder, unless the draft says otherwise; other layers live on."""
    assert expected == prepared(**fields).expire_time


def test_extracted_keywords_follow_the_formula() -> None:
    """Keywords come from title and content, heaviest first, ties by term."""
    keywords = prepared("coffee coffee tea", title="Coffee").keywords

    assert [keyword.term for keyword in keywords] == ["coffee", "tea"]
    assert [keyword.weight for keyword in keywords] == pytest.approx([0.5, 0.22])


def test_chinese_keywords_are_words() -> None:
    """Chinese text is segmented into words of two characters and more."""
    assert {"杭州", "出差"} <= {keyword.term for keyword in prepared("小王下周去杭州出差").keywords}


def test_given_keywords_are_kept_in_lower_case_once() -> None:
    """Given keywords replace extraction; of a repeated term the largest weight counts."""
    given = (Keyword("Tea", 0.2), Keyword("tea", 0.9), Keyword("Lisbon", 1.0))

    assert (Keyword("lisbon", 1.0), Keyword("tea", 0.9)) == prepared(keywords=given).keywords


def test_short_content_is_its_own_chunk_and_long_content_has_several() -> None:
    """One piece is not stored beside the content; several are, numbered, with their headings."""
    long = memory_builder.prepare(SCOPE, Draft(LONG)).record.chunks

    assert memory_builder.prepare(SCOPE, Draft("short")).record.chunks == ()
    assert list(range(len(long))) == [piece.ordinal for piece in long]
    assert long[-1].heading_path == ("Notes",)


def test_a_given_vector_is_stored_as_float32() -> None:
    """A given vector is kept with the model whose space it is in."""
    record = memory_builder.prepare(SCOPE, Draft("short", vector=[1.0, -0.5])).record

    assert (struct.pack("<2f", 1.0, -0.5), "toy") == (record.given_vector, record.given_model)


@pytest.mark.parametrize("draft", [Draft("short", vector=[1.0]), Draft(LONG, vector=[1.0, 0.0])])
def test_a_vector_that_does_not_fit_is_refused(draft: Draft) -> None:
    """A vector must have the model's length and stand for content of one chunk."""
    with pytest.raises(InvalidRequestError) as refused:
        memory_builder.prepare(SCOPE, draft)

    assert [violation.field for violation in refused.value.violations] == ["vector"]


def test_a_session_memory_needs_a_session() -> None:
    """Layer SESSION outside every session is refused."""
    with pytest.raises(InvalidRequestError):
        memory_builder.prepare(Scope("ada"), Draft("secret", layer=Layer.SESSION))


def test_a_draft_may_name_its_own_place() -> None:
    """Project, agent and session of a draft take the place of the request's; user and tenant never change."""
    memory = prepared(project_id="", session_id="s2")

    assert Scope("ada", project_id="", agent_id="scout", session_id="s2", tenant_id="t") == memory.scope


def test_a_batch_keeps_its_order_and_rejects_the_bad_alone() -> None:
    """A bad draft becomes its rejection at its place."""
    items = memory_builder.prepare_all(SCOPE, [Draft("a"), Draft("b", vector=[1.0]), Draft("c")])

    assert [type(item).__name__ for item in items] == ["PreparedMemory", "RejectedItem", "PreparedMemory"]
