"""Memories, drafts and patches on their way over the wire."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.files import FileCategory
from memsvc.domain.memory import (
    FileRef,
    Json,
    Keyword,
    Kind,
    Layer,
    Memory,
    Origin,
    Recurrence,
    Reminder,
    Review,
    Slot,
    Status,
    Tier,
)
from memsvc.domain.write_requests import PATCHABLE, Draft, RejectedItem
from memsvc.server.requests.decoder import RequestDecoder, WithVector, numbers_from_proto, time_from_proto
from memsvc.server.requests.memory import batch_memory
from memsvc.server.requests.memory_fields import decode_patch, decode_reminder, file_ref_from_proto
from memsvc.server.responses.memories import memory_to_proto, seconds_to_proto, struct_to_proto, time_to_proto
from memsvc.testing.factories import NOW, memory
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

ID = "0190163d-8694-739b-aea5-966c26f8ad91"
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
MOMENTS = st.datetimes(timezones=st.just(UTC))
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
REMINDERS = st.builds(
    Reminder,
    month=st.integers(1, 12),
    day=st.integers(1, 28),
    year=st.integers(1900, 2999),
    recurrence=st.sampled_from(Recurrence),
    minute=st.none() | st.integers(0, 1439),
    time_zone=st.sampled_from(["", "Asia/Shanghai"]),
    slot=st.none() | st.sampled_from(Slot),
    phrase=st.just(""),
    is_lunar=st.booleans(),
)
MEMORIES = st.builds(
    replace,
    st.just(memory(user_id="ada", project_id="p", agent_id="a", session_id="s")),
    content=TEXTS,
    key=TEXTS,
    layer=st.sampled_from(Layer),
    kind=st.sampled_from(Kind),
    tier=st.sampled_from(Tier),
    status=st.sampled_from(Status),
    title=TEXTS,
    tags=st.lists(TEXTS, unique=True, max_size=3).map(tuple),
    keywords=st.lists(st.builds(Keyword, TEXTS, st.floats(0.1, 1.0)), max_size=2).map(tuple),
    file_refs=st.lists(
        st.builds(FileRef, st.sampled_from(FileCategory).map(lambda one: one.value), TEXTS), max_size=2
    ).map(tuple),
    importance=st.integers(1, 5),
    confidence=st.floats(0, 1),
    create_time=MOMENTS,
    access_time=st.none() | MOMENTS,
    event_time=st.none() | MOMENTS,
    expire_time=st.none() | MOMENTS,
    work_in_progress=st.booleans(),
    metadata=st.dictionaries(TEXTS, JSON, max_size=3),
    revision=st.integers(1, 2**40),
    origin=st.sampled_from(Origin),
    trust=st.floats(0, 1),
    derived_from_ids=st.lists(TEXTS, max_size=2).map(tuple),
    review=st.sampled_from(Review),
    reminder=st.none() | REMINDERS,
)
HIDDEN = {"scope", "row", "previous_row"}


def json_of(struct: Struct) -> dict[str, Json]:
    """Return free JSON that breaks no rule."""
    decoder = RequestDecoder()
    members = decoder.metadata("metadata", struct)
    decoder.finish()
    return members


def read_back(message: types_pb.Memory) -> dict[str, object]:
    """Return the fields of a message by the names of the domain, read by no code of ours but for times and JSON."""
    values: dict[str, object] = {}
    for field in fields(Memory):
        if field.name in HIDDEN:
            continue
        value = getattr(message, field.name)
        if field.name.endswith("_time") or field.name in {"valid_from", "valid_to"}:
            is_set = message.HasField(field.name)  # type: ignore[arg-type] # the name of a time
            value = time_from_proto(value) if is_set else None
        values[field.name] = value
    for name in ("tags", "related_ids", "derived_from_ids"):
        values[name] = tuple(getattr(message, name))
    values["origin"] = Origin(types_pb.MemoryOrigin.Name(message.origin).removeprefix("MEMORY_ORIGIN_"))
    review = types_pb.MemoryReview.Name(message.review).removeprefix("MEMORY_REVIEW_")
    values["review"] = Review("" if review == "UNSPECIFIED" else review)
    values["reminder"] = (
        decode_reminder(RequestDecoder(), "reminder", message.reminder) if message.HasField("reminder") else None
    )
    values["keywords"] = tuple(Keyword(word.term, word.weight) for word in message.keywords)
    values["file_refs"] = tuple(file_ref_from_proto(ref) for ref in message.file_refs)
    values["layer"] = types_pb.MemoryLayer.Name(message.layer).removeprefix("MEMORY_LAYER_")
    values["kind"] = types_pb.MemoryKind.Name(message.kind).removeprefix("MEMORY_KIND_")
    values["tier"] = types_pb.MemoryTier.Name(message.tier).removeprefix("MEMORY_TIER_")
    values["status"] = types_pb.MemoryStatus.Name(message.status).removeprefix("MEMORY_STATUS_")
    values["metadata"] = json_of(message.metadata)
    return values


@given(MEMORIES)
def test_every_field_of_a_memory_arrives(stored: Memory) -> None:
    """What a client reads from the bytes equals what is stored, but for what never leaves the process."""
    message = types_pb.Memory.FromString(memory_to_proto(stored).SerializeToString())

    expected = {field.name: getattr(stored, field.name) for field in fields(Memory) if field.name not in HIDDEN}
    assert expected == read_back(message)


def test_a_memory_shows_its_scope_but_not_its_tenant() -> None:
    """The tenant is the caller's own."""
    message = memory_to_proto(memory(user_id="ada", project_id="p", tenant_id="acme"))

    assert types_pb.Scope(user_id="ada", project_id="p") == message.scope


@given(MOMENTS)
def test_times_keep_their_microseconds(moment: datetime) -> None:
    """No time is rounded, before the epoch or after."""
    assert moment == time_from_proto(time_to_proto(moment))


def test_a_time_at_the_epoch_is_there() -> None:
    """Though both its numbers are 0, it is not taken for one that was never set."""
    message = memory_to_proto(memory(event_time=datetime(1970, 1, 1, tzinfo=UTC)))

    assert (message.HasField("event_time"), message.HasField("access_time")) == (True, False)


def test_durations_are_given_to_the_nanosecond() -> None:
    """A measured time becomes whole seconds and nanos."""
    assert Duration(seconds=1, nanos=500_000_001) == seconds_to_proto(1.500000001)


@given(st.dictionaries(TEXTS, JSON, max_size=4))
def test_free_json_arrives_as_it_was(members: dict[str, Json]) -> None:
    """Whole numbers stay whole, booleans stay booleans, null stays null."""
    decoded = json_of(struct_to_proto(members))

    assert repr(members) == repr(decoded) or members == decoded


def draft_of(message: types_pb.Memory) -> Draft | RejectedItem:
    """Return the draft of a memory without a vector."""
    return batch_memory(memory_pb.BatchMemory(memory=message), types_pb.Scope(user_id="ada"), dimension=2)


def test_a_draft_of_content_alone_leaves_everything_else_open() -> None:
    """Default values mean that nothing was given."""
    assert Draft(content="x") == draft_of(types_pb.Memory(content="x"))


def test_a_draft_takes_over_what_is_given() -> None:
    """Repeated values are kept once, keywords are lowered and ordered by weight, UUIDs are lowered."""
    message = types_pb.Memory(
        content="x",
        scope=types_pb.Scope(session_id="s"),
        layer=types_pb.MEMORY_LAYER_CORE,
        tags=["b", "a", "b"],
        keywords=[
            types_pb.Keyword(term="Fox", weight=0.2),
            types_pb.Keyword(term="fox", weight=0.7),
            types_pb.Keyword(term="a"),
        ],
        related_ids=[ID.upper(), ID],
        confidence=0.0,
        ttl=Duration(seconds=60),
    )

    draft = draft_of(message)

    expected = Draft(
        content="x",
        session_id="s",
        layer=Layer.CORE,
        tags=("b", "a"),
        keywords=(Keyword("a", 1.0), Keyword("fox", 0.7)),
        related_ids=(ID,),
        confidence=0.0,
        ttl=timedelta(minutes=1),
    )
    assert expected == draft


def test_a_given_vector_is_brought_to_unit_length() -> None:
    """Only its direction counts, be it tiny or huge."""
    for scale in (1e-30, 1.0, 1e30):
        vector = RequestDecoder().vector(memory_pb.BatchMemory(vector=[3 * scale, 4 * scale]), 2)
        assert vector is not None
        assert np.allclose([0.6, 0.8], vector)


@pytest.mark.parametrize(
    "message",
    [
        memory_pb.BatchMemory(memory=types_pb.Memory(content="x" * 300), vector=[0.25, -1e30, 1e-40]),
        memory_pb.CreateMemoryRequest(request_id="later field", vector=[0.25, -1e30, 1e-40]),
        search_pb.SearchRequest(query="fox", vector=[0.25, -1e30, 1e-40], limit=3),
    ],
)
def test_the_numbers_of_a_vector_are_those_that_were_sent(message: WithVector) -> None:
    """Wherever in the message they lie, and not as many as they should be."""
    assert list(message.vector) == numbers_from_proto(message).tolist()


def test_without_a_vector_there_are_no_numbers() -> None:
    """The message is not looked into."""
    assert numbers_from_proto(memory_pb.BatchMemory(memory=types_pb.Memory(content="x"))).size == 0


def test_an_empty_vector_is_none() -> None:
    """Then the service embeds."""
    assert RequestDecoder().vector(memory_pb.BatchMemory(), 2) is None


def patch(memory: types_pb.Memory, *paths: str) -> dict[str, object]:
    """Return what an update of these paths changes."""
    request = memory_pb.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=paths))
    return dict(decode_patch(RequestDecoder(), request, dimension=2).values)


def test_a_masked_field_without_a_value_gets_its_default() -> None:
    """Clearing is naming without giving."""
    defaults = patch(types_pb.Memory(id=ID), *sorted(PATCHABLE - {"content"}))

    blank = Memory(id="", scope=memory().scope, content="", create_time=NOW, update_time=NOW, content_hash="")
    expected = {name: getattr(blank, name) for name in PATCHABLE - {"content", "kind", "ttl", "trust"}}
    expected |= {"kind": None, "ttl": None, "trust": None}
    assert expected == defaults


def test_without_a_mask_all_that_is_given_changes() -> None:
    """Output-only fields and empty metadata are no part of it."""
    given_ = types_pb.Memory(id=ID, key="k", title="t", confidence=0.0, revision=3, access_count=4)
    given_.metadata.SetInParent()

    assert patch(given_) == {"key": "k", "title": "t", "confidence": 0.0}


def test_a_key_without_an_id_names_the_memory_and_changes_nothing() -> None:
    """It is then no new value."""
    assert patch(types_pb.Memory(key="k", title="t")) == {"title": "t"}


def test_a_time_to_live_is_a_change_of_its_own() -> None:
    """It counts from the moment of the change, so that a repeated request is the same request."""
    assert {"ttl": timedelta(seconds=60)} == patch(types_pb.Memory(id=ID, ttl=Duration(seconds=60)), "ttl")
