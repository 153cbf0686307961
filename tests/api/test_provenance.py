"""Where memories come from, how far they are trusted, and what is withheld until somebody has looked at it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import batch, header
from tests.support.rpc import TIMEOUT, WAYS, create, found, get, list_all, refused, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served

USER, AGENT, TOOL = types_pb.MEMORY_ORIGIN_USER, types_pb.MEMORY_ORIGIN_AGENT, types_pb.MEMORY_ORIGIN_TOOL
DOCUMENT, IMPORT = types_pb.MEMORY_ORIGIN_DOCUMENT, types_pb.MEMORY_ORIGIN_IMPORT
ACTIVE, QUARANTINED, DELETED = (
    types_pb.MEMORY_STATUS_ACTIVE,
    types_pb.MEMORY_STATUS_QUARANTINED,
    types_pb.MEMORY_STATUS_DELETED,
)
PENDING, APPROVED, REJECTED = (
    types_pb.MEMORY_REVIEW_PENDING,
    types_pb.MEMORY_REVIEW_APPROVED,
    types_pb.MEMORY_REVIEW_REJECTED,
)
APPROVE, REJECT = memory_pb.REVIEW_VERDICT_APPROVE, memory_pb.REVIEW_VERDICT_REJECT
EN, ZH = "The vault code is heptagon.", "保险柜的密码是七边形。"


@pytest.fixture(scope="module")
def wary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server that withholds what is trusted less than 0.6: tools, but not documents."""
    with served(tmp_path_factory.mktemp("wary") / "data", provenance={"quarantine_below": 0.6}) as stubs:
        yield stubs


def update(stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory, *paths: str) -> types_pb.Memory:
    """Change the fields of a memory that *paths* name."""
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=memory, update_mask=FieldMask(paths=paths))
    return stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory


def waiting(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> list[types_pb.Memory]:
    """Return what waits for a review, page by page."""
    memories: list[types_pb.Memory] = []
    token = ""
    while True:
        asked = memory_pb.ListQuarantinedRequest(scope=scope, page_token=token, **request)
        page = stubs.memory.ListQuarantined(asked, timeout=TIMEOUT)
        memories += page.memories
        token = page.next_page_token
        if not token:
            return memories


def decision(
    scope: types_pb.Scope, memory: types_pb.Memory, verdict: int, **fields: Any
) -> memory_pb.ReviewMemoryRequest:
    """Return a review of a memory."""
    return memory_pb.ReviewMemoryRequest(scope=scope, id=memory.id, verdict=verdict, **fields)  # type: ignore[arg-type]


def review(
    stubs: Stubs, scope: types_pb.Scope, memory: types_pb.Memory, verdict: int, **fields: Any
) -> types_pb.Memory:
    """Decide about a memory."""
    return stubs.memory.ReviewMemory(decision(scope, memory, verdict, **fields), timeout=TIMEOUT).memory


@pytest.mark.parametrize(("origin", "trust"), [(USER, 1.0), (AGENT, 0.8), (TOOL, 0.5), (DOCUMENT, 0.6), (IMPORT, 0.7)])
def test_trust_is_at_most_that_of_the_class(stubs: Stubs, scope: types_pb.Scope, origin: Any, trust: float) -> None:
    """A writer can lower it, never raise it."""
    plain = create(stubs, scope, "plain", origin=origin)
    bold = create(stubs, scope, "bold", origin=origin, trust=1.0)
    humble = create(stubs, scope, "humble", origin=origin, trust=0.1234567)

    assert [(one.origin, one.trust) for one in (plain, bold, humble)] == [
        (origin, trust), (origin, trust), (origin, 0.123457)
    ]  # fmt: skip
    assert get(stubs, scope, humble.id).trust == 0.123457


def test_who_says_nothing_is_an_agent_or_an_import(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Single and batch writes come from agents; an import says so itself, unless a memory says otherwise."""
    one = create(stubs, scope, "one")
    memories = [types_pb.Memory(content="two"), types_pb.Memory(content="three", origin=USER)]
    requests = [header(scope, wait_for=types_pb.WAIT_FOR_INDEXED), batch(0, memories)]
    list(stubs.memory.ImportMemories(iter(requests), timeout=TIMEOUT))

    assert (one.origin, one.trust) == (AGENT, 0.8)
    assert {(m.content, m.origin, m.trust) for m in list_all(stubs, scope)} == {
        ("one", AGENT, 0.8), ("two", IMPORT, 0.7), ("three", USER, 1.0),
    }  # fmt: skip


def test_what_is_derived_is_trusted_no_more_than_its_sources(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The least of them counts, over several steps, and deleted ones too."""
    page = create(stubs, scope, "网页", origin=TOOL, trust=0.3)
    said = create(stubs, scope, "said", origin=USER)
    summary = create(stubs, scope, "summary", origin=USER, derived_from_ids=[said.id, page.id.upper(), said.id])
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=page.id), timeout=TIMEOUT)
    again = create(stubs, scope, "summary of the summary", derived_from_ids=[summary.id])
    late = create(stubs, scope, "late", origin=USER, derived_from_ids=[page.id])

    assert (summary.trust, list(summary.derived_from_ids)) == (0.3, [said.id, page.id])
    assert (again.trust, late.trust) == (0.3, 0.3)


def test_a_batch_names_the_source_that_is_not_there(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The item fails alone, by the path of the id."""
    items = [
        types_pb.Memory(content="good"),
        types_pb.Memory(content="bad", derived_from_ids=[scope.user_id.removeprefix("user-")]),
    ]
    request = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[memory_pb.BatchMemory(memory=item) for item in items]
    )
    good, bad = stubs.memory.BatchCreateMemories(request, timeout=TIMEOUT).results

    assert good.status.code == 0
    assert [violation.field for violation in bad.status.field_violations] == ["memory.derived_from_ids[0]"]


def test_filters_by_origin_and_trust(stubs: Stubs, scope: types_pb.Scope) -> None:
    """In lists and in every way of searching."""
    create(stubs, scope, "walrus one", origin=USER)
    create(stubs, scope, "walrus two", origin=TOOL)
    create(stubs, scope, "walrus three", origin=TOOL, trust=0.2)

    def conditions(field: int, operator: int, value: Any) -> filters_pb.Filter:
        tested = filters_pb.FilterCondition(field=field, operator=operator, values=[value])  # type: ignore[arg-type]
        return filters_pb.Filter(where=filters_pb.FilterExpression(condition=tested))

    less = conditions(filters_pb.FILTER_FIELD_TRUST, filters_pb.FILTER_OPERATOR_LESS, {"number_value": 0.5})
    named = conditions(filters_pb.FILTER_FIELD_ORIGIN, filters_pb.FILTER_OPERATOR_EQUALS, {"string_value": "TOOL"})
    for chosen, expected in (
        (filters_pb.Filter(origins=[TOOL]), {"walrus two", "walrus three"}),
        (filters_pb.Filter(min_trust=0.5), {"walrus one", "walrus two"}),
        (filters_pb.Filter(origins=[TOOL, USER], min_trust=0.6), {"walrus one"}),
        (less, {"walrus three"}),
        (named, {"walrus two", "walrus three"}),
    ):
        assert {memory.content for memory in list_all(stubs, scope, filter=chosen)} == expected
        for way in WAYS.values():
            assert set(found(stubs, scope, "walrus", filter=chosen, **way)) == expected


@pytest.mark.parametrize("content", [EN, ZH])
def test_quarantined_memories_are_out_of_sight(stubs: Stubs, scope: types_pb.Scope, content: str) -> None:
    """No list, search or key finds them; by id, by their status, and in their own list they are there."""
    memory = types_pb.Memory(content=content, key="code", tags=["t"], status=QUARANTINED)
    one = write(stubs, scope, memory).memory
    query = content[:-1]

    assert (one.status, one.review) == (QUARANTINED, PENDING)
    assert list_all(stubs, scope) == []
    assert [found(stubs, scope, query, **way) for way in WAYS.values()] == [[]] * len(WAYS)
    assert (
        refused(stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=scope, key="code")).reason
        == "MEMORY_NOT_FOUND"
    )
    assert get(stubs, scope, one.id).status == QUARANTINED
    asked = filters_pb.Filter(statuses=[QUARANTINED])
    assert [found(stubs, scope, query, filter=asked)] == [[content]]
    assert [memory.id for memory in waiting(stubs, scope)] == [one.id]

    after = review(stubs, scope, one, APPROVE, expected_revision=1)

    assert (after.status, after.review, after.revision, after.trust) == (ACTIVE, APPROVED, 2, one.trust)
    assert [found(stubs, scope, query, **way) for way in WAYS.values()] == [[content]] * len(WAYS)
    assert (
        stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="code"), timeout=TIMEOUT).memory.id == one.id
    )
    assert waiting(stubs, scope) == []


def test_what_is_not_valid_now_awaits_its_review_too(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The list has what GetStats warns of, whether it is valid later, no more, or expired."""
    memories = [types_pb.Memory(content=f"{at}. 鹤", status=QUARANTINED, tags=["t"]) for at in range(3)]
    memories[0].valid_from.FromJsonString("2999-01-01T00:00:00Z")
    memories[1].valid_to.FromJsonString("2000-01-01T00:00:00Z")
    memories[2].expire_time.FromJsonString("2000-01-01T00:00:00Z")
    ids = [write(stubs, scope, memory).memory.id for memory in memories]

    assert ids[::-1] == [memory.id for memory in waiting(stubs, scope)]
    assert ids[::-1] == [memory.id for memory in waiting(stubs, scope, filter=filters_pb.Filter(tags_any=["t"]))]


def test_the_words_of_a_quarantined_line_do_not_lead_to_the_next(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A line of a conversation is found by the one before it, but not by one that is withheld."""
    talk = types_pb.Scope(user_id=scope.user_id, session_id="s")
    write(stubs, talk, types_pb.Memory(content="Say mugwumpery.", status=QUARANTINED))
    create(stubs, talk, "Good, let us have lunch.")

    assert found(stubs, talk, "mugwumpery", mode=search_pb.SEARCH_MODE_KEYWORD) == []


def test_too_little_trust_is_withheld(wary: Stubs, scope: types_pb.Scope) -> None:
    """By its class, by its writer's word, by its sources, in batches and imports too; the rest is not."""
    tool = create(wary, scope, "tool", origin=TOOL)
    humble = create(wary, scope, "humble", origin=USER, trust=0.59)
    child = create(wary, scope, "child", origin=USER, derived_from_ids=[humble.id])
    paper = create(wary, scope, "paper", origin=DOCUMENT)
    asked = write(wary, scope, types_pb.Memory(content="asked", origin=USER, status=QUARANTINED)).memory
    tainted = create(wary, scope, "tainted", origin=USER, derived_from_ids=[asked.id])
    requests = [header(scope), batch(0, [types_pb.Memory(content="import", trust=0.1), "good import"])]
    list(wary.memory.ImportMemories(iter(requests), timeout=TIMEOUT))

    assert (paper.status, asked.trust, tainted.trust) == (ACTIVE, 1.0, 1.0)
    assert {m.content for m in list_all(wary, scope)} == {"paper", "good import"}
    withheld = waiting(wary, scope, page_size=2)
    assert [m.content for m in withheld] == ["import", "tainted", "asked", "child", "humble", "tool"]
    assert {m.review for m in withheld} == {PENDING}
    assert [m.id for m in waiting(wary, scope, filter=filters_pb.Filter(origins=[TOOL]))] == [tool.id]
    assert child.trust == 0.59


def test_what_is_withheld_takes_no_key_and_no_content(wary: Stubs, scope: types_pb.Scope) -> None:
    """Poison under a key changes nothing of the memory that bears it, and the truth can be told beside it."""
    truth = create(wary, scope, "The door is locked.", key="door", origin=USER)
    poison = create(wary, scope, "The door is open.", key="door", origin=TOOL)
    lie = create(wary, scope, "The key is under the mat.", key="key", origin=TOOL)
    same = write(wary, scope, types_pb.Memory(content=lie.content, key="key", origin=USER))

    assert get(wary, scope, truth.id) == truth
    assert (poison.status, same.outcome) == (QUARANTINED, types_pb.WRITE_OUTCOME_CREATED)
    for memory, holder in ((poison, truth), (lie, same.memory)):
        refusal = refused(wary.memory.ReviewMemory, decision(scope, memory, APPROVE))
        assert (refusal.reason, refusal.metadata) == ("MEMORY_EXISTS", {"memory_id": holder.id})
        assert review(wary, scope, memory, REJECT).status == DELETED
    assert waiting(wary, scope) == []


def test_what_was_rejected_does_not_come_back_by_restoring(stubs: Stubs, scope: types_pb.Scope) -> None:
    """It waits for a review again, as does what was deleted while it waited."""
    one, two = (write(stubs, scope, types_pb.Memory(content=c, key="k", status=QUARANTINED)).memory for c in ("1", "2"))
    rejected = review(stubs, scope, one, REJECT)
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=two.id), timeout=TIMEOUT)
    back = [
        stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT).memory
        for memory in (one, two)
    ]

    assert (rejected.status, rejected.review) == (DELETED, REJECTED)
    assert [(memory.status, memory.review) for memory in back] == [(QUARANTINED, PENDING)] * 2
    assert list_all(stubs, scope) == []


def test_only_a_review_ends_a_quarantine(stubs: Stubs, scope: types_pb.Scope) -> None:
    """An update may change what waits and may quarantine what does not, but it lets nothing out."""
    one = create(stubs, scope, "one", key="k")
    held = update(stubs, scope, types_pb.Memory(id=one.id, status=QUARANTINED))
    retold = update(stubs, scope, types_pb.Memory(id=one.id, content="retold", origin=USER, trust=1.0))
    for status in (ACTIVE, types_pb.MEMORY_STATUS_ARCHIVED):
        changed = types_pb.Memory(id=one.id, status=status)
        refusal = refused(stubs.memory.UpdateMemory, memory_pb.UpdateMemoryRequest(scope=scope, memory=changed))
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ("memory.status",))

    assert [(memory.status, memory.review) for memory in (held, retold)] == [(QUARANTINED, PENDING)] * 2
    assert create(stubs, scope, "another", key="k").id != one.id


def test_an_update_lowers_trust_by_itself_and_raises_it_by_name(wary: Stubs, scope: types_pb.Scope) -> None:
    """A new origin or source can lower it, below the threshold into quarantine; what was approved stays so."""
    source = create(wary, scope, "source", origin=DOCUMENT)
    one = create(wary, scope, "one", origin=USER)
    lower = update(wary, scope, types_pb.Memory(id=one.id, derived_from_ids=[source.id]), "derived_from_ids")
    named = update(wary, scope, types_pb.Memory(id=one.id, trust=1.0), "trust")
    free = update(wary, scope, types_pb.Memory(id=one.id, trust=1.0), "trust", "derived_from_ids")
    tool = update(wary, scope, types_pb.Memory(id=one.id, origin=TOOL), "origin")
    approved = review(wary, scope, tool, APPROVE)
    retitled = update(wary, scope, types_pb.Memory(id=one.id, title="T"), "title")

    assert [memory.trust for memory in (lower, named, free, tool)] == [0.6, 0.6, 1.0, 0.5]
    assert (lower.status, tool.status, tool.review) == (ACTIVE, QUARANTINED, PENDING)
    assert [(m.status, m.review, m.trust) for m in (approved, retitled)] == [(ACTIVE, APPROVED, 0.5)] * 2


def test_new_content_under_a_key_has_its_own_provenance(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The same content said again without a word about it keeps what it had."""
    one = create(stubs, scope, "one", key="k", origin=TOOL)
    same = write(stubs, scope, types_pb.Memory(content="one", key="k"))
    vouched = create(stubs, scope, "one", key="k", origin=USER)
    new = create(stubs, scope, "two", key="k", derived_from_ids=[one.id])

    assert (same.outcome, same.memory.origin) == (types_pb.WRITE_OUTCOME_DUPLICATE, TOOL)
    assert [(m.origin, m.trust, list(m.derived_from_ids)) for m in (vouched, new)] == [
        (USER, 1.0, []), (AGENT, 0.8, [one.id]),
    ]  # fmt: skip


def test_a_review_happens_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Repeated with its request_id it is answered again; otherwise it is told that there is nothing to decide."""
    one = write(stubs, scope, types_pb.Memory(content="one", status=QUARANTINED)).memory
    stale = refused(stubs.memory.ReviewMemory, decision(scope, one, APPROVE, expected_revision=7))
    first = review(stubs, scope, one, APPROVE, request_id="r")
    again = review(stubs, scope, one, APPROVE, request_id="r")
    late = refused(stubs.memory.ReviewMemory, decision(scope, one, REJECT))
    other = refused(stubs.memory.ReviewMemory, decision(scope, one, REJECT, request_id="r"))
    review(stubs, scope, held := write(stubs, scope, types_pb.Memory(content="2", status=QUARANTINED)).memory, REJECT)
    gone = refused(stubs.memory.ReviewMemory, decision(scope, held, APPROVE))

    assert first == again
    assert (stale.code, stale.reason) == (grpc.StatusCode.ABORTED, "REVISION_CONFLICT")
    assert (late.code, late.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_QUARANTINED")
    assert late.metadata == {"memory_id": one.id, "status": "ACTIVE"}
    assert (other.reason, gone.reason) == ("REQUEST_ID_REUSED", "NOT_QUARANTINED")
    assert gone.metadata == {"memory_id": held.id, "status": "DELETED"}


@pytest.mark.parametrize("content", [EN, ZH])
@pytest.mark.parametrize("verdict", [APPROVE, REJECT])
def test_the_second_of_two_reviewers_learns_of_the_rejection(
    stubs: Stubs, scope: types_pb.Scope, content: str, verdict: int
) -> None:
    """Not of what was deleted otherwise, is private to a session, or gone for good."""

    def held(content: str, place: types_pb.Scope = scope, **fields: Any) -> types_pb.Memory:
        return write(stubs, place, types_pb.Memory(content=content, status=QUARANTINED, **fields)).memory

    def answer(memory: types_pb.Memory, **fields: Any) -> tuple[str, str]:
        refusal = refused(stubs.memory.ReviewMemory, decision(scope, memory, verdict, **fields))
        return refusal.reason, refusal.metadata.get("status", "")

    rejected = held(content)
    review(stubs, scope, rejected, REJECT)
    assert answer(rejected) == answer(rejected, expected_revision=1) == ("NOT_QUARANTINED", "DELETED")

    deleted = held(content)
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=deleted.id), timeout=TIMEOUT)
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=rejected.id, purge=True), timeout=TIMEOUT)
    talk = types_pb.Scope(user_id=scope.user_id, session_id="talk")
    private = held(content, talk, layer=types_pb.MEMORY_LAYER_SESSION)
    review(stubs, talk, private, REJECT)
    other = types_pb.Scope(user_id=scope.user_id, project_id="p")
    elsewhere = held(content, other)
    review(stubs, other, elsewhere, REJECT)
    for memory in (deleted, rejected, private, elsewhere):
        assert answer(memory) == ("MEMORY_NOT_FOUND", "")


def test_what_waited_beyond_its_time_is_found_when_it_is_approved(stubs: Stubs, scope: types_pb.Scope) -> None:
    """It gets the expiry of a memory that is restored; a time to come stays."""
    short, over, later = types_pb.MEMORY_LAYER_SHORT_TERM, Timestamp(seconds=9), Timestamp(seconds=4_000_000_000)
    waiting = [
        types_pb.Memory(content="brief", status=QUARANTINED, layer=short, expire_time=over),
        types_pb.Memory(content="长久", status=QUARANTINED, expire_time=over),
        types_pb.Memory(content="dated", status=QUARANTINED, expire_time=later),
    ]
    brief, lasting, dated = (review(stubs, scope, write(stubs, scope, one).memory, APPROVE) for one in waiting)

    assert {"brief", "长久", "dated"} == {one.content for one in list_all(stubs, scope)}
    assert timedelta(days=14) == brief.expire_time.ToDatetime() - brief.update_time.ToDatetime()
    assert (False, later) == (lasting.HasField("expire_time"), dated.expire_time)


def test_what_is_heard_says_who_said_it(stubs: Stubs, user: str) -> None:
    """What users, agents and tools say, and documents, captured, in a session or ingested."""
    scope = types_pb.Scope(user_id=user, project_id="p", session_id="talk")
    messages = [
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content="我喜欢深色主题。"),
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content="We decided to use Redis."),
    ]
    flushed = stubs.memory.FlushMessages(
        memory_pb.FlushMessagesRequest(scope=scope, messages=messages), timeout=TIMEOUT
    )
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
    roles = (types_pb.MESSAGE_ROLE_USER, types_pb.MESSAGE_ROLE_ASSISTANT, types_pb.MESSAGE_ROLE_TOOL)
    lines = [types_pb.ChatMessage(role=role, content=f"line {role}") for role in roles]
    appended = stubs.session.AppendMessages(
        session_pb.AppendMessagesRequest(scope=scope, messages=lines), timeout=TIMEOUT
    )
    parts = [
        memory_pb.IngestDocumentRequest(header=memory_pb.DocumentHeader(scope=scope, name="a.md")),
        memory_pb.IngestDocumentRequest(data=b"# A\n\ntext"),
    ]
    document = stubs.memory.IngestDocument(iter(parts), timeout=TIMEOUT)

    assert {USER, AGENT} == {memory.origin for memory in list_all(stubs, scope) if memory.source == "conversation"}, (
        flushed
    )
    said = [get(stubs, scope, message.memory_id).origin for message in appended.messages]
    assert [USER, AGENT, TOOL] == said
    assert DOCUMENT == document.memory.origin
