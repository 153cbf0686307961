"""Contradictions over the wire: marked, listed, resolved, superseded; and what a restart leaves of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.fixtures import batch, header
from tests.support.rpc import KEYWORD, TIMEOUT, create, create_all, found, get, list_all, refused, search, write
from tests.support.server_process import Stubs
from tests.support.until import until

MARK = types_pb.CONFLICT_POLICY_MARK
SUPERSEDE = types_pb.CONFLICT_POLICY_SUPERSEDE
OPEN, CONFIRMED = types_pb.CONFLICT_STATE_OPEN, types_pb.CONFLICT_STATE_CONFIRMED
ACTIVE, SUPERSEDED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_SUPERSEDED
CONFLICTED, ARCHIVED = types_pb.MEMORY_STATUS_CONFLICTED, types_pb.MEMORY_STATUS_ARCHIVED
PAIRS = {
    "en": ("Anna lives in Lisbon.", "Anna has moved to Porto.", "anna"),
    "zh": ("小王住在北京。", "小王搬到了上海。", "小王"),
}


def listed(stubs: Stubs, scope: types_pb.Scope, **request: Any) -> list[types_pb.Conflict]:
    """Return all conflicts, page by page."""
    found: list[types_pb.Conflict] = []
    token = ""
    while True:
        page = stubs.memory.ListConflicts(
            memory_pb.ListConflictsRequest(scope=scope, page_token=token, **request), timeout=TIMEOUT
        )
        found.extend(page.conflicts)
        token = page.next_page_token
        if not token:
            return found


def resolve(
    stubs: Stubs, scope: types_pb.Scope, conflict_id: str, resolution: int, **request: Any
) -> types_pb.Conflict:
    """Settle a conflict and return it."""
    asked = memory_pb.ResolveConflictRequest(scope=scope, id=conflict_id, resolution=resolution, **request)
    return stubs.memory.ResolveConflict(asked, timeout=TIMEOUT).conflict


def supersede(
    stubs: Stubs, scope: types_pb.Scope, memory_id: str, memory: types_pb.Memory, **request: Any
) -> memory_pb.SupersedeMemoryResponse:
    """Supersede a memory."""
    asked = memory_pb.SupersedeMemoryRequest(scope=scope, id=memory_id, memory=memory, **request)
    return stubs.memory.SupersedeMemory(asked, timeout=TIMEOUT)


@pytest.mark.parametrize("language", PAIRS)
@pytest.mark.parametrize(
    ("resolution", "older_status", "newer_status"),
    [
        (memory_pb.CONFLICT_RESOLUTION_CONFIRM, SUPERSEDED, ACTIVE),
        (memory_pb.CONFLICT_RESOLUTION_REJECT, ACTIVE, ARCHIVED),
        (memory_pb.CONFLICT_RESOLUTION_KEEP_BOTH, ACTIVE, ACTIVE),
    ],
)
def test_a_contradiction_is_marked_and_resolved(
    stubs: Stubs, scope: types_pb.Scope, language: str, resolution: int, older_status: int, newer_status: int
) -> None:
    """The older memory leaves searches unless asked for; the decision is seen by the next search."""
    said, unsaid, who = PAIRS[language]
    older = create(stubs, scope, said)
    reply = write(stubs, scope, unsaid)

    [conflict] = reply.conflicts
    assert (older.id, reply.memory.id) == (conflict.older_memory_id, conflict.newer_memory_id)
    assert (CONFLICTED, reply.memory) == (conflict.older_memory.status, conflict.newer_memory)
    assert (types_pb.CONFLICT_RULE_LOCATION, OPEN) == (conflict.rule, conflict.state)
    assert [unsaid] == found(stubs, scope, who, mode=KEYWORD)
    asked = filters_pb.Filter(statuses=[CONFLICTED])
    assert [said] == found(stubs, scope, who, mode=KEYWORD, filter=asked)
    assert [conflict.id] == [one.id for one in listed(stubs, scope)]

    settled = resolve(stubs, scope, conflict.id, resolution)
    assert (older_status, newer_status) == (settled.older_memory.status, settled.newer_memory.status)
    left = {said} if older_status == ACTIVE else set()
    left |= {unsaid} if newer_status == ACTIVE else set()
    assert left == set(found(stubs, scope, who, mode=KEYWORD))
    assert [] == listed(stubs, scope)
    [told] = listed(stubs, scope, states=[settled.state], memory_id=older.id)
    assert (settled.id, settled.resolve_time) == (told.id, told.resolve_time)


@pytest.mark.parametrize(("said", "unsaid"), [("Anna lives in Lisbon.", "Anna lives in Porto."), PAIRS["zh"][:2]])
def test_a_side_that_a_duplicate_replaces_is_expired(
    stubs: Stubs, scope: types_pb.Scope, said: str, unsaid: str
) -> None:
    """Writing again what is past its time leaves one open conflict, with what was written."""
    soon = types_pb.Memory(content=unsaid)
    soon.expire_time.FromDatetime(datetime.now(UTC) + timedelta(seconds=1))
    older = create(stubs, scope, said)
    [conflict] = write(stubs, scope, soon).conflicts
    until(lambda: datetime.now(UTC) > soon.expire_time.ToDatetime(UTC))

    new = write(stubs, scope, unsaid).memory
    assert conflict.newer_memory_id != new.id
    assert types_pb.MEMORY_STATUS_EXPIRED == get(stubs, scope, conflict.newer_memory_id).status
    assert [types_pb.CONFLICT_STATE_CLOSED] == [
        one.state for one in listed(stubs, scope, memory_id=conflict.newer_memory_id, states=range(1, 6))
    ]
    [again] = listed(stubs, scope)
    assert (older.id, new.id) == (again.older_memory_id, again.newer_memory_id)


def test_one_of_several_that_is_removed_leaves_the_link_to_another(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A memory that superseded two names the other one, once the one that it names is removed permanently."""
    first, second = create(stubs, scope, "The ferry leaves at nine."), create(stubs, scope, "渡轮九点开。")
    new = supersede(stubs, scope, first.id, types_pb.Memory(content="The ferry leaves at ten.")).memory
    supersede(stubs, scope, second.id, types_pb.Memory(id=new.id))
    assert first.id == get(stubs, scope, new.id).supersedes_id

    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=first.id, purge=True), timeout=TIMEOUT)
    assert second.id == get(stubs, scope, new.id).supersedes_id
    chain = stubs.memory.GetMemory(
        memory_pb.GetMemoryRequest(scope=scope, id=new.id, include_chain=True), timeout=TIMEOUT
    ).chain
    assert [second.id, new.id] == [memory.id for memory in chain]


@pytest.mark.parametrize(
    ("older", "newer", "status"),
    [
        ("Anna lives in Lisbon. 🎉", "Anna lives in Porto.", CONFLICTED),
        ("小张住在北京。😊", "小张住在上海。", CONFLICTED),
        ("Anna lives in Lisbon.\n---", "Anna lives in Porto.", CONFLICTED),
        ("Anna lives in Lisbon. She likes it there.", "Anna lives in Porto.", ACTIVE),
        ("小张住在北京。他很开心。", "小张住在上海。", ACTIVE),
    ],
)
def test_signs_alone_are_no_other_sentence(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str, status: int
) -> None:
    """An older memory stays in use for what else it states, and an emoji or a rule states nothing."""
    first = create(stubs, scope, older)
    create(stubs, scope, newer)

    assert (1, status) == (len(listed(stubs, scope)), get(stubs, scope, first.id).status)


def test_the_newest_wins_when_asked(stubs: Stubs, scope: types_pb.Scope) -> None:
    """SUPERSEDE links the memories at once; the chain can be walked from either end."""
    older = create(stubs, scope, "I work as a nurse.")
    reply = write(stubs, scope, "I work as a baker.", conflict_policy=SUPERSEDE)

    assert [CONFIRMED] == [one.state for one in reply.conflicts]
    assert older.id == reply.memory.supersedes_id
    for memory_id in (older.id, reply.memory.id):
        asked = memory_pb.GetMemoryRequest(scope=scope, id=memory_id, include_chain=True)
        chain = stubs.memory.GetMemory(asked, timeout=TIMEOUT).chain
        assert [(older.id, SUPERSEDED), (reply.memory.id, ACTIVE)] == [(one.id, one.status) for one in chain]
    assert not stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, id=older.id), timeout=TIMEOUT).chain


def test_superseding_is_seen_at_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The old memory leaves searches, unless asked for, and gives its key to the new one."""
    old = create(stubs, scope, "The walrus swims.", key="walrus", tags=["sea"], importance=5)
    reply = supersede(stubs, scope, old.id, types_pb.Memory(content="The walrus sleeps."), request_id="r")
    # Before the searches, which are counted as accesses.
    assert reply == supersede(stubs, scope, old.id, types_pb.Memory(content="The walrus sleeps."), request_id="r")

    assert ["The walrus sleeps."] == found(stubs, scope, "walrus", mode=KEYWORD)
    asked = filters_pb.Filter(statuses=[SUPERSEDED])
    assert ["The walrus swims."] == found(stubs, scope, "walrus", mode=KEYWORD, filter=asked)
    assert (SUPERSEDED, reply.memory.id) == (reply.superseded.status, reply.superseded.superseded_by_id)
    assert (old.id, "walrus", ["sea"], 5) == (
        reply.memory.supersedes_id, reply.memory.key, list(reply.memory.tags), reply.memory.importance,
    )  # fmt: skip


def test_rings_and_forks_are_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each is a clear error, and nothing is changed."""
    first = create(stubs, scope, "v1")
    second = supersede(stubs, scope, first.id, types_pb.Memory(content="v2")).memory
    third = supersede(stubs, scope, second.id, types_pb.Memory(content="v3")).memory
    before = [get(stubs, scope, one.id) for one in (first, second, third)]

    def refusal(old: types_pb.Memory, new: types_pb.Memory) -> Any:
        asked = memory_pb.SupersedeMemoryRequest(scope=scope, id=old.id, memory=new)
        return refused(stubs.memory.SupersedeMemory, asked)

    for old, new in ((third, third), (third, first), (third, second)):
        told = refusal(old, types_pb.Memory(id=new.id))
        assert (grpc.StatusCode.FAILED_PRECONDITION, "SUPERSEDE_CYCLE") == (told.code, told.reason)
        assert {"memory_id": old.id, "successor_id": new.id} == told.metadata
    told = refusal(first, types_pb.Memory(content="v4"))
    assert (grpc.StatusCode.FAILED_PRECONDITION, "MEMORY_SUPERSEDED") == (told.code, told.reason)
    assert second.id == told.metadata["superseded_by_id"]
    after = [get(stubs, scope, one.id) for one in (first, second, third)]
    for memory in (*before, *after):
        memory.ClearField("access_count")
        memory.ClearField("access_time")
    assert before == after


def test_settled_and_unknown_conflicts_are_told_apart(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A conflict is resolved once; the same request again gets the same answer."""
    create(stubs, scope, "My favorite color is blue.")
    [conflict] = write(stubs, scope, "My favorite color is green.").conflicts
    reject = memory_pb.CONFLICT_RESOLUTION_REJECT
    once = resolve(stubs, scope, conflict.id, reject, request_id="r")
    asked = memory_pb.ResolveConflictRequest(scope=scope, id=conflict.id, resolution=reject)
    told = refused(stubs.memory.ResolveConflict, asked)

    assert once == resolve(stubs, scope, conflict.id.upper(), reject, request_id="r")
    assert ("CONFLICT_SETTLED", "REJECTED") == (told.reason, told.metadata["state"])
    asked.id = "0190163d-8694-739b-aea5-966c26f8ad91"
    told = refused(stubs.memory.ResolveConflict, asked)
    assert (grpc.StatusCode.NOT_FOUND, "CONFLICT_NOT_FOUND") == (told.code, told.reason)


def test_batches_updates_and_imports_are_compared(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each tells its conflicts; an import only when asked."""
    first, tea = create_all(stubs, scope, ["项目的截止日期是3月3日。", "I like tea."])
    updated = stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(
            scope=scope, memory=types_pb.Memory(id=tea.id, content="项目的截止日期改到了3月9日。")
        ),
        timeout=TIMEOUT,
    )
    assert [first.id] == [one.older_memory_id for one in updated.conflicts]

    silent = [header(scope), batch(0, ["Anna lives in Lisbon.", "Anna moved to Porto."])]
    *_, last = stubs.memory.ImportMemories(iter(silent), timeout=TIMEOUT)
    assert (2, 0) == (last.created_count, last.conflict_count)
    asked = [header(scope, conflict_policy=MARK), batch(0, ["Anna moved to Faro."])]
    *_, last = stubs.memory.ImportMemories(iter(asked), timeout=TIMEOUT)
    assert (1, 2) == (last.created_count, last.conflict_count)
    entries = [
        memory_pb.BatchMemory(memory=types_pb.Memory(content=text)) for text in ("Ben is a nurse.", "Ben is a baker.")
    ]
    results = stubs.memory.BatchCreateMemories(
        memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=entries), timeout=TIMEOUT
    ).results
    assert [[], [results[0].memory.id]] == [[one.older_memory_id for one in each.conflicts] for each in results]


def test_written_and_marked_memories_are_searchable_together(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A write that marks others returns when searches see the new memory, too, and not the others."""
    for number in range(10):
        create(stubs, scope, f"The port of walrus is {8000 + number}.")
        hits = search(stubs, scope, "port of walrus", mode=KEYWORD).hits
        assert [f"The port of walrus is {8000 + number}."] == [hit.memory.content for hit in hits]
    assert 9 == len(listed(stubs, scope, page_size=2))


def test_tokens_are_bound_to_their_request(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A page token of another list is refused."""
    for number in range(3):
        create(stubs, scope, f"The port of walrus is {8000 + number}.")
    page = stubs.memory.ListConflicts(memory_pb.ListConflictsRequest(scope=scope, page_size=1), timeout=TIMEOUT)
    asked = memory_pb.ListConflictsRequest(scope=scope, states=[CONFIRMED], page_token=page.next_page_token)

    assert ("page_token",) == refused(stubs.memory.ListConflicts, asked).fields


def test_each_was_true_in_its_time(stubs: Stubs, scope: types_pb.Scope) -> None:
    """As of a time before the change the old memory is found, in lists and searches; as of now the new one."""
    for said, unsaid, who in PAIRS.values():
        old = create(stubs, scope, said, layer=types_pb.MEMORY_LAYER_CORE)
        [conflict] = write(stubs, scope, unsaid).conflicts
        new = resolve(stubs, scope, conflict.id, memory_pb.CONFLICT_RESOLUTION_CONFIRM).newer_memory
        before, after = types_pb.AsOf(valid_time=old.create_time), types_pb.AsOf(valid_time=new.valid_from)

        assert get(stubs, scope, old.id).valid_to == new.valid_from
        for as_of, content in ((before, said), (after, unsaid), (None, unsaid)):
            assert [content] == found(stubs, scope, who, mode=KEYWORD, as_of=as_of)
            listed_then = list_all(stubs, scope, as_of=as_of, filter=filters_pb.Filter(ids=[old.id, new.id]))
            assert [content] == [memory.content for memory in listed_then]


def test_quarantined_memories_contradict_when_they_are_approved(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Until then neither they nor what they contradict is in question."""
    for said, unsaid, who in PAIRS.values():
        old = create(stubs, scope, said)
        withheld = write(stubs, scope, types_pb.Memory(content=unsaid, status=types_pb.MEMORY_STATUS_QUARANTINED))
        assert [] == list(withheld.conflicts)
        assert [said] == found(stubs, scope, who, mode=KEYWORD)

        asked = memory_pb.ReviewMemoryRequest(
            scope=scope, id=withheld.memory.id, verdict=memory_pb.REVIEW_VERDICT_APPROVE, request_id=who
        )
        reply = stubs.memory.ReviewMemory(asked, timeout=TIMEOUT)
        assert [old.id] == [conflict.older_memory_id for conflict in reply.conflicts]
        again = stubs.memory.ReviewMemory(asked, timeout=TIMEOUT)
        assert [one.id for one in again.conflicts] == [one.id for one in reply.conflicts]
        assert again.memory == reply.memory
        assert [unsaid] == found(stubs, scope, who, mode=KEYWORD)


def test_what_is_captured_appended_and_flushed_is_compared(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What is said contradicts what was said, by whichever way it comes; a repetition tells it again."""
    old = create(stubs, scope, "I live in Lisbon.")
    asked = memory_pb.CaptureMemoryRequest(
        scope=scope, message=types_pb.ChatMessage(content="I moved to Porto."), request_id="c"
    )
    captured = stubs.memory.CaptureMemory(asked, timeout=TIMEOUT)
    [conflict] = captured.decisions[0].conflicts
    assert (old.id, "lisbon", "porto") == (conflict.older_memory_id, conflict.older_value, conflict.newer_value)
    assert [conflict.id] == [
        one.id for one in stubs.memory.CaptureMemory(asked, timeout=TIMEOUT).decisions[0].conflicts
    ]

    messages = [
        types_pb.ChatMessage(content="我不喜欢喝咖啡。"),
        types_pb.ChatMessage(content="I live in Faro now."),
    ]
    liked = create(stubs, scope, "我喜欢喝咖啡。", kind=types_pb.MEMORY_KIND_PREFERENCE)
    flushed = stubs.memory.FlushMessages(
        memory_pb.FlushMessagesRequest(scope=scope, messages=messages), timeout=TIMEOUT
    )
    assert {liked.id, captured.decisions[0].memory.id} == {
        one.older_memory_id for result in flushed.results for one in result.conflicts
    }

    key = "knowledge/world/dog"
    create(stubs, scope, "The dog's name is Rex.")
    appended = stubs.memory.AppendMemory(
        memory_pb.AppendMemoryRequest(scope=scope, key=key, content="The dog's name is Max."), timeout=TIMEOUT
    )
    assert ["The dog's name is Rex."] == [one.older_memory.content for one in appended.conflicts]


def test_messages_of_sessions_are_not_compared(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What was said in a conversation stays as it was said."""
    talk = types_pb.Scope(user_id=scope.user_id, session_id="talk")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk), timeout=TIMEOUT)
    create(stubs, scope, "I live in Lisbon.")
    said = [
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=text)
        for text in ("I moved to Porto.", "我住在北京。")
    ]
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=talk, messages=said), timeout=TIMEOUT)

    assert [] == listed(stubs, talk)
    assert [] == list(write(stubs, scope, "我住在上海。").conflicts)


SPOKEN = {
    "en": ("I live in Lisbon.", "I moved to Porto.", "Anna lives in Madrid.", "anna"),
    "zh": ("我住在北京。", "我搬到了上海。", "小王住在广州。", "小王"),
}


@pytest.mark.parametrize("language", SPOKEN)
def test_what_a_speaker_says_of_themselves_is_about_the_speaker(stubs: Stubs, user: str, language: str) -> None:
    """It contradicts what they said before and what is said about them; not other speakers, the user or messages."""
    older, newer, about, name = SPOKEN[language]
    scope = types_pb.Scope(user_id=user)
    speaker = name.title()

    def say(content: str, who: str, **fields: Any) -> memory_pb.CreateMemoryResponse:
        return write(stubs, scope, types_pb.Memory(content=content, speaker=who, **fields))

    first = say(older, speaker).memory
    for other in (say(newer, "Ben"), say(newer, ""), say(newer, speaker, kind=types_pb.MEMORY_KIND_MESSAGE)):
        assert [] == list(other.conflicts)
    assert ACTIVE == get(stubs, scope, first.id).status
    [conflict] = say(newer, speaker).conflicts
    assert (first.id, CONFLICTED) == (conflict.older_memory.id, get(stubs, scope, first.id).status)
    assert name in conflict.topic.lower()
    [told] = say(about, "").conflicts
    assert (newer, speaker) == (told.older_memory.content, told.older_memory.speaker)


@pytest.mark.parametrize("language", SPOKEN)
def test_a_user_under_their_own_name_is_the_user(stubs: Stubs, user: str, language: str) -> None:
    """Under any spelling of the user_id "I" is the user, in every project; another speaker is known across projects."""
    older, newer, _, name = SPOKEN[language]
    home = types_pb.Scope(user_id=user)
    work = types_pb.Scope(user_id=user, project_id="work")
    create(stubs, home, older)

    assert [] == list(write(stubs, work, types_pb.Memory(content=newer, speaker=name)).conflicts)
    [conflict] = write(stubs, work, types_pb.Memory(content=newer, speaker=user.upper())).conflicts
    assert older == conflict.older_memory.content
    stranger = types_pb.Scope(user_id=f"{user}-2", project_id="work")
    create(stubs, types_pb.Scope(user_id=f"{user}-2"), older, speaker=name)
    assert 1 == len(write(stubs, stranger, types_pb.Memory(content=newer, speaker=name)).conflicts)


SETTINGS = [
    ("The dev server runs on port 8080", "The dev server runs on port 9090", "dev port server", "8080", "9090"),
    (
        "The dev server listens on port 8080.",
        "The dev server is now running on port 9090.",
        "dev port server",
        "8080",
        "9090",
    ),
    ("The port of the dev server is 8080.", "We moved the dev server to port 9090.", "dev port server", "8080", "9090"),
    ("I use tabs", "I use spaces", "preferred indentation", "tabs", "spaces"),
    ("I prefer tabs.", "I indent with spaces now.", "preferred indentation", "tab", "spaces"),
    (
        "I use 2 spaces for indentation.",
        "I use four spaces for indentation.",
        "preferred indentation",
        "2 spaces",
        "4 spaces",
    ),
    ("开发服务器跑在 8080 端口", "开发服务器改到 9090 端口了", "开发服务器端口", "8080", "9090"),
    ("开发服务器的端口是 8080", "开发服务器监听 9090 端口", "开发服务器端口", "8080", "9090"),
    ("我用 Tab 缩进", "我用空格缩进", "缩进", "tab", "空格"),
    ("我的代码缩进用 Tab", "我习惯用四个空格缩进", "缩进", "tab", "4 空格"),
]


@pytest.mark.parametrize("row", SETTINGS, ids=str)
def test_ports_and_indentation_are_compared(
    stubs: Stubs, scope: types_pb.Scope, row: tuple[str, str, str, str, str]
) -> None:
    """However they are said, in both languages."""
    older, newer, topic, older_value, newer_value = row
    before = create(stubs, scope, older)

    [conflict] = write(stubs, scope, newer).conflicts
    assert before.id == conflict.older_memory_id
    assert (topic, older_value, newer_value) == (conflict.topic, conflict.older_value, conflict.newer_value)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The dev server runs on port 8080.", "The API server runs on port 9090."),
        ("The dev server runs on port 8080.", "The dev server also runs on port 9090."),
        ("The dev server runs on port 8080.", "A second dev server runs on port 9090."),
        ("The dev server runs on port 8080.", "The dev server might run on port 9090."),
        ("The dev server runs on port 8080.", "The dev server listens on port 8080."),
        ("I use tabs.", "I also use spaces."),
        ("I use tabs.", "Anna uses spaces."),
        ("I use tabs in Go.", "I use spaces in Python."),
        ("I use tabs.", "I use Spaces."),
        ("I use tabs.", "I use spaces in file names."),
        ("开发服务器跑在 8080 端口", "测试服务器跑在 9090 端口"),
        ("开发服务器跑在 8080 端口", "开发服务器也跑在 9090 端口"),
        ("我用 Tab 缩进", "我也用空格缩进"),
        ("我用 Tab 缩进", "我同事用空格缩进"),
        ("我写 Go 用 Tab 缩进", "我写 Python 用空格缩进"),
        ("我用空格缩进", "我不喜欢用 Tab 缩进"),
    ],
)
def test_what_only_looks_like_another_port_or_indentation(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str
) -> None:
    """Another server, person or language, a further one, and a guess contradict nothing."""
    create(stubs, scope, older)
    assert not write(stubs, scope, newer).conflicts
