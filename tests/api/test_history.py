"""Looking back over the wire: revisions, moments, rollbacks."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.history import checkpoint, delete, known, later, plain, revisions, rollback, update
from tests.support.rpc import KEYWORD, MODES, SEMANTIC, TIMEOUT, create, found, list_all, refused, search, write
from tests.support.server_process import Stubs

EVERY = filters_pb.Filter(statuses=list(range(1, 7)), tiers=[1, 2, 3, 4], include_expired=True)  # type: ignore[arg-type]


def test_revisions_tell_how_a_memory_came_to_be(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Newest first, each with its action, its time and what it changed; each can be read by its number."""
    first = create(stubs, scope, "The kettle is blue.")
    second = update(stubs, scope, first.id, content="水壶是红色的。", tags=["厨房"])
    gone = delete(stubs, scope, first.id)
    listed = revisions(stubs, scope, first.id)

    assert [3, 2, 1] == [one.revision for one in listed]
    assert ["DELETED", "UPDATED", "CREATED"] == [
        memory_pb.RevisionAction.Name(one.action).removeprefix("REVISION_ACTION_") for one in listed
    ]
    assert [gone, second, first] == [plain(one.memory) for one in listed]
    assert ["status"] == list(listed[0].changed_fields)
    assert {"content", "content_hash", "keywords", "tags", "event_time"} == set(listed[1].changed_fields)
    assert not listed[0].HasField("known_to")
    assert [listed[0].known_from, listed[1].known_from] == [listed[1].known_to, listed[2].known_to]
    for memory in (first, second, gone):
        request = memory_pb.GetMemoryRequest(scope=scope, id=first.id, revision=memory.revision)
        assert memory == plain(stubs.memory.GetMemory(request, timeout=TIMEOUT).memory)


def test_a_rollback_is_a_revision_that_can_be_rolled_back(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The content is found by its old words again; a deleted memory comes back; a repetition changes nothing."""
    memory = create(stubs, scope, "The kettle is blue.", key="kettle", importance=5)
    update(stubs, scope, memory.id, content="The samovar is red.", importance=1)
    delete(stubs, scope, memory.id)

    back = rollback(stubs, scope, memory.id, 1, request_id="once")
    assert (4, "The kettle is blue.", 5, "kettle") == (back.revision, back.content, back.importance, back.key)
    assert ["The kettle is blue."] == found(stubs, scope, "kettle", mode=KEYWORD)
    assert back == plain(rollback(stubs, scope, memory.id, 1, request_id="once"))
    assert back == plain(rollback(stubs, scope, memory.id, 1))
    again = rollback(stubs, scope, memory.id, 2, expected_revision=4)
    assert (5, "The samovar is red.", 1) == (again.revision, again.content, again.importance)
    assert types_pb.MEMORY_STATUS_DELETED == rollback(stubs, scope, memory.id, 3).status


def test_a_rollback_that_cannot_be_is_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """An unknown revision, another present one, a key or content that is another's by now: nothing is changed."""
    memory = create(stubs, scope, "one", key="k")
    update(stubs, scope, memory.id, content="two", key="")
    rival = create(stubs, scope, "three", key="k")
    before = list_all(stubs, scope, filter=EVERY)

    def refusal(revision: int, **request: object) -> tuple[grpc.StatusCode, str, dict[str, str]]:
        asked = memory_pb.RollbackMemoryRequest(scope=scope, id=memory.id, revision=revision, **request)  # type: ignore[arg-type]
        told = refused(stubs.memory.RollbackMemory, asked)
        return told.code, told.reason, dict(told.metadata)

    names = {"memory_id": memory.id, "revision": "9"}
    assert (grpc.StatusCode.NOT_FOUND, "REVISION_NOT_FOUND", names) == refusal(9)
    assert (grpc.StatusCode.ABORTED, "REVISION_CONFLICT") == refusal(1, expected_revision=1)[:2]
    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS", {"memory_id": rival.id}) == refusal(1)
    assert before == list_all(stubs, scope, filter=EVERY)
    update(stubs, scope, rival.id, key="other", content="one")
    assert (grpc.StatusCode.ALREADY_EXISTS, "MEMORY_EXISTS", {"memory_id": rival.id}) == refusal(1)
    request = memory_pb.GetMemoryRequest(scope=scope, id=memory.id, revision=7)
    assert "REVISION_NOT_FOUND" == refused(stubs.memory.GetMemory, request).reason


@pytest.mark.parametrize("mode", MODES)
def test_a_search_of_the_past_finds_what_was_known(stubs: Stubs, scope: types_pb.Scope, mode: int) -> None:
    """What was updated, deleted, superseded and created since comes out as it was, in both languages."""
    same = create(stubs, scope, "The walrus sleeps.", keywords=[types_pb.Keyword(term="walrus")])
    changed = create(stubs, scope, "The walrus eats clams.", keywords=[types_pb.Keyword(term="walrus")])
    gone = create(stubs, scope, "The walrus swims.", keywords=[types_pb.Keyword(term="walrus")])
    chinese = create(stubs, scope, "海象 walrus 在冰上休息。", keywords=[types_pb.Keyword(term="walrus")])
    moment = chinese.update_time
    update(stubs, scope, changed.id, content="Tea is hot.", keywords=[types_pb.Keyword(term="tea")])
    update(stubs, scope, chinese.id, content="茶很热。", keywords=[types_pb.Keyword(term="茶")])
    delete(stubs, scope, gone.id)
    create(stubs, scope, "A new walrus arrives.", keywords=[types_pb.Keyword(term="walrus")])

    hits = search(stubs, scope, "walrus", mode=mode, as_of=known(moment), limit=100)
    assert {one.id: one for one in (same, changed, gone, chinese)} == {
        hit.memory.id: plain(hit.memory) for hit in hits.hits
    }
    assert not hits.degraded
    assert all(0.0 <= hit.score <= 1.0 for hit in hits.hits)
    if mode != SEMANTIC:
        assert "The walrus eats clams." == search(stubs, scope, "clams", mode=mode, as_of=known(moment)).hits[0].snippet
        first = search(stubs, scope, "海象休息", mode=mode, as_of=known(moment)).hits[0]
        assert "海象 walrus 在冰上休息。" == first.memory.content
        assert first.spans
    now = {"The walrus sleeps.", "A new walrus arrives."}
    assert now <= set(found(stubs, scope, "walrus", mode=mode))
    assert not {"The walrus swims.", "The walrus eats clams."} & set(found(stubs, scope, "walrus", mode=mode))


@pytest.mark.parametrize(
    ("match", "part"), [(search_pb.WORD_MATCH_PREFIX, "zebra"), (search_pb.WORD_MATCH_SUBSTRING, "ebraf")]
)
def test_a_search_of_the_past_finds_words_by_a_part(
    stubs: Stubs, scope: types_pb.Scope, match: search_pb.WordMatch, part: str
) -> None:
    """By the keywords that the memories had then, changed since or not."""
    fish, gone, same = (
        create(stubs, scope, content, keywords=[types_pb.Keyword(term=term)])
        for content, term in (("One.", "zebrafish"), ("Two.", "zebrafinch"), ("Three.", "zebrafly"))
    )
    moment = same.update_time
    update(stubs, scope, fish.id, keywords=[types_pb.Keyword(term="tea")])
    delete(stubs, scope, gone.id)
    create(stubs, scope, "Four.", keywords=[types_pb.Keyword(term="zebrafight")])

    asked: dict[str, Any] = {"keywords": [part], "mode": KEYWORD, "word_match": match}
    assert {"One.", "Two.", "Three."} == set(found(stubs, scope, as_of=known(moment), **asked))
    assert {"Three.", "Four."} == set(found(stubs, scope, **asked))


def test_pages_of_a_search_of_the_past_fit_together(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Changed and unchanged ones, each once, in one order."""
    memories = [create(stubs, scope, f"The walrus number {number} sleeps.") for number in range(7)]
    moment = memories[-1].update_time
    for memory in memories[::2]:
        update(stubs, scope, memory.id, content=f"Nothing {memory.id}")
    whole = search(stubs, scope, "walrus", as_of=known(moment), limit=100)
    ids: list[str] = []
    token = ""
    while True:
        page = search(stubs, scope, "walrus", as_of=known(moment), limit=2, page_token=token)
        ids += [hit.memory.id for hit in page.hits]
        token = page.next_page_token
        if not token:
            break

    assert ids == [hit.memory.id for hit in whole.hits]
    assert {memory.id for memory in memories} == set(ids)


def test_lists_and_gets_of_the_past(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By id, by key and as a list, with filters that look at the memories as they were."""
    one = create(stubs, scope, "one", key="k", tags=["a"])
    two = create(stubs, scope, "two", tags=["a"])
    moment = two.update_time
    update(stubs, scope, one.id, key="", tags=["b"])
    update(stubs, scope, two.id, key="k")
    three = create(stubs, scope, "three", tags=["a"])

    asked = {"scope": scope, "as_of": known(moment)}
    assert one == plain(stubs.memory.GetMemory(memory_pb.GetMemoryRequest(key="k", **asked), timeout=TIMEOUT).memory)
    assert two == plain(stubs.memory.GetMemory(memory_pb.GetMemoryRequest(id=two.id, **asked), timeout=TIMEOUT).memory)
    unborn = memory_pb.GetMemoryRequest(id=three.id, **asked)
    assert "MEMORY_NOT_FOUND" == refused(stubs.memory.GetMemory, unborn).reason
    listed = list_all(stubs, scope, as_of=known(moment), filter=filters_pb.Filter(tags_any=["a"]), page_size=1)
    assert [two, one] == [plain(memory) for memory in listed]
    assert [] == list_all(stubs, scope, as_of=known(moment), filter=filters_pb.Filter(tags_any=["b"]))
    assert [] == list_all(stubs, scope, as_of=known(later(one.create_time, seconds=-1)))


@pytest.mark.parametrize("mode", MODES)
def test_the_past_of_all_sessions_is_there_for_who_asks(stubs: Stubs, user: str, mode: int) -> None:
    """What other sessions kept to themselves then, changed since or not, is found with filter.sessions, or never."""
    here, there = (types_pb.Scope(user_id=user, session_id=name) for name in "st")
    private = types_pb.MEMORY_LAYER_SESSION
    same = create(stubs, there, "海象 walrus 在冰上。", layer=private)
    changed = create(stubs, there, "The walrus eats clams.", layer=private)
    moment = changed.update_time
    update(stubs, there, changed.id, content="Tea is hot.")

    everyone = filters_pb.Filter(session_visibility=filters_pb.SESSION_VISIBILITY_ALL)
    for where, expected in ((everyone, {same.content, changed.content}), (filters_pb.Filter(), set())):
        asked = {"as_of": known(moment), "filter": where}
        assert expected == {memory.content for memory in list_all(stubs, here, **asked)}
        assert expected == set(found(stubs, here, "walrus", mode=mode, **asked))


def test_a_key_of_the_past_is_that_of_its_bearer(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A memory that awaited its review then did not have the key that it names, whatever changed since."""
    withheld = types_pb.Memory(content="Withheld.", key="茶", status=types_pb.MEMORY_STATUS_QUARANTINED)
    waiting = write(stubs, scope, withheld).memory
    bearer = create(stubs, scope, "The bearer.", key="茶")

    for changed in (waiting, bearer):
        update(stubs, scope, changed.id, title="Changed")
        request = memory_pb.GetMemoryRequest(scope=scope, key="茶", as_of=known(bearer.update_time))
        assert bearer == plain(stubs.memory.GetMemory(request, timeout=TIMEOUT).memory)
    delete(stubs, scope, bearer.id)
    before = memory_pb.GetMemoryRequest(scope=scope, key="茶", as_of=known(waiting.update_time))
    assert "MEMORY_NOT_FOUND" == refused(stubs.memory.GetMemory, before).reason


def test_the_future_is_not_known(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Asking for what will be known is refused by its field, in every read."""
    memory = create(stubs, scope, "one")
    ahead = known(later(memory.update_time, days=1))
    requests = (
        (stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=scope, id=memory.id, as_of=ahead)),
        (stubs.memory.ListMemories, memory_pb.ListMemoriesRequest(scope=scope, as_of=ahead)),
    )
    for call, request in requests:
        assert ("as_of.known_time",) == refused(call, request).fields
    with pytest.raises(grpc.RpcError):
        search(stubs, scope, "one", as_of=ahead)
    with pytest.raises(grpc.RpcError):
        checkpoint(stubs, scope, "ahead", known_time=ahead.known_time)


@pytest.mark.parametrize("mode", MODES)
def test_only_what_is_true_now_is_found(stubs: Stubs, scope: types_pb.Scope, mode: int) -> None:
    """What ceased to be true, or is not yet, is left out unless another time, or all, is asked for."""
    present = create(stubs, scope, "Anna lives in Lisbon.").create_time
    words = {"keywords": [types_pb.Keyword(term="anna")]}
    create(stubs, scope, "Anna lived in Porto.", valid_to=later(present, days=-10), **words)
    create(stubs, scope, "Anna will live in Faro.", valid_from=later(present, days=10), **words)
    create(stubs, scope, "Anna lived in Braga.", valid_from=later(present, days=-20), valid_to=present, **words)

    def contents(**request: object) -> set[str]:
        hits = set(found(stubs, scope, "anna", mode=mode, **request))
        chosen = {name: value for name, value in request.items() if name in {"filter", "as_of"}}
        assert hits == {memory.content for memory in list_all(stubs, scope, **chosen)}
        return hits

    lisbon, porto, faro, braga = (
        "Anna lives in Lisbon.", "Anna lived in Porto.", "Anna will live in Faro.", "Anna lived in Braga.",
    )  # fmt: skip
    assert {lisbon} == contents()
    assert {lisbon, porto, faro, braga} == contents(filter=filters_pb.Filter(include_not_valid=True))
    assert {lisbon, faro} == contents(as_of=types_pb.AsOf(valid_time=later(present, days=11)))
    assert {lisbon, porto, braga} == contents(as_of=types_pb.AsOf(valid_time=later(present, days=-15)))
    chosen = filters_pb.Filter(valid_to=types_pb.TimeRange(end=later(present, days=-5)), include_not_valid=True)
    assert {porto} == contents(filter=chosen)


def test_what_was_true_once_may_become_true_again(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A memory with a valid_to is no duplicate of another, nor another of it."""
    old = create(stubs, scope, "Anna lives in Lisbon.", valid_to=Timestamp(seconds=1_000_000_000))
    new = create(stubs, scope, "Anna lives in Lisbon.")
    again = create(stubs, scope, "Anna lives in Lisbon.")

    assert old.id != new.id == again.id
    wrong = types_pb.Memory(id=new.id, valid_from=old.valid_to, valid_to=Timestamp(seconds=5))
    refusal = refused(stubs.memory.UpdateMemory, memory_pb.UpdateMemoryRequest(scope=scope, memory=wrong))
    assert ("memory.valid_to",) == refusal.fields
    late = types_pb.Memory(id=old.id, valid_from=Timestamp(seconds=2_000_000_000))
    refusal = refused(stubs.memory.UpdateMemory, memory_pb.UpdateMemoryRequest(scope=scope, memory=late))
    assert ("memory.valid_to",) == refusal.fields
