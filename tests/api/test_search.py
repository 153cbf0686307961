"""Searches over the wire: what is found in which mode, shown how, page by page."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import (
    HYBRID,
    KEYWORD,
    MODES,
    SEMANTIC,
    TIMEOUT,
    at_rest,
    create,
    create_all,
    found,
    get,
    list_all,
    refused,
    search,
    write,
)
from tests.support.server_process import Stubs
from tests.support.until import until

PARTS = {
    # A part of a word, how it is meant, and which memories it finds by words.
    ("datab", "PREFIX"): ["database", "databases"],
    ("数据", "PREFIX"): ["数据库"],
    ("abase", "PREFIX"): [],
    ("abase", "SUBSTRING"): ["database", "databases"],
    ("据库", "SUBSTRING"): ["数据库"],
    ("datab", "WHOLE"): [],
    ("d", "PREFIX"): [],
}
ENGLISH = {
    "Anna drinks green tea every morning before work.": ("Which green tea does Anna drink?", "green teas"),
    "The invoice for the new office chairs was paid in March.": ("Were the office chairs paid?", "invoices"),
    "Our database backups run at midnight and take an hour.": ("When do the database backups run?", "backup"),
    "Tom is allergic to peanuts and carries an inhaler.": ("What is Tom allergic to?", "allergic peanut"),
}
CHINESE = {
    "小明每天早上上班前喝绿茶。": ("小明早上喝什么茶?", "绿茶"),
    "新办公椅的发票三月份已经付款了。": ("办公椅的发票付款了吗?", "发票"),
    "数据库备份每天午夜开始,大约需要一个小时。": ("数据库备份什么时候开始?", "数据库"),
    "李雷对花生过敏,随身带着药。": ("李雷对什么过敏?", "花生"),
}
MIXED = {
    "我们用 Kubernetes 部署 memsvc,配置在 deploy/values.yaml 里。": ("Kubernetes 部署的配置在哪里?", "values.yaml"),
    "Code review 的规则:每个 PR 至少两个人看过。": ("PR 的 review 规则是什么?", "PR"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("corpus", [ENGLISH, CHINESE, MIXED], ids=["english", "chinese", "mixed"])
def test_every_mode_finds_what_is_asked_for(
    stubs: Stubs, scope: types_pb.Scope, corpus: dict[str, tuple[str, str]], mode: search_pb.SearchMode
) -> None:
    """A question leads to its memory first, in each language beside memories of the others; so does a word of it."""
    create_all(stubs, scope, [*ENGLISH, *CHINESE, *MIXED])
    for content, (question, words) in corpus.items():
        assert content == found(stubs, scope, question, mode=mode)[0]
        if mode != SEMANTIC:
            assert content == found(stubs, scope, words, mode=mode)[0]


def test_keyword_mode_finds_words_and_nothing_else(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Other forms of a word count, other words do not; user text is no query language."""
    create_all(stubs, scope, [*ENGLISH, *CHINESE])

    assert ["Tom is allergic to peanuts and carries an inhaler."] == found(stubs, scope, "peanut", mode=KEYWORD)
    assert ["李雷对花生过敏,随身带着药。"] == found(stubs, scope, "花生", mode=KEYWORD)
    assert [] == found(stubs, scope, "zeppelin", mode=KEYWORD)
    for query in (
        'peanuts AND "(',
        "+peanuts -allergic",
        "content:peanuts^9",
        "peanuts*? ~",
        "NOT peanuts",
        "[a peanut",
    ):
        assert "Tom is allergic to peanuts and carries an inhaler." in found(stubs, scope, query, mode=KEYWORD)


@pytest.mark.parametrize(
    ("mine", "common", "rare"),
    [("{} number {} of the garden", "tulip", "orchid"), ("花园里的{},第{}号", "郁金香", "蝴蝶兰")],
    ids=["english", "chinese"],
)
def test_what_others_write_changes_no_order(
    stubs: Stubs, scope: types_pb.Scope, mine: str, common: str, rare: str
) -> None:
    """The word that is rare among the memories of the user counts more, however often others write it."""
    create_all(stubs, scope, [mine.format(rare, 0), *(mine.format(common, number) for number in range(1, 6))])
    other = types_pb.Scope(user_id=f"{scope.user_id}-other")
    create_all(stubs, other, [mine.format(rare, number) for number in range(40)])

    assert found(stubs, scope, f"{common} {rare}", mode=KEYWORD)[0] == mine.format(rare, 0)


def test_a_word_of_others_does_not_keep_a_typing_error_from_being_forgiven(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Whether others wrote a word cannot be seen from what a search finds."""
    content = "My kitten sleeps in the basket"
    create(stubs, scope, content)
    create(stubs, types_pb.Scope(user_id=f"{scope.user_id}-other"), "A mitten is lost")

    assert found(stubs, scope, "mitten", mode=KEYWORD) == [content]


def test_given_keywords_are_looked_for_in_the_table_and_by_words(stubs: Stubs, scope: types_pb.Scope) -> None:
    """In any case of letters; a memory that only its keywords describe is found by them."""
    create(stubs, scope, "It hurt a little.", keywords=[types_pb.Keyword(term="Vaccination", weight=0.8)])
    create(stubs, scope, "The vaccination was on Monday.", keywords=[types_pb.Keyword(term="monday")])
    create(stubs, scope, "Nothing of the sort.")

    for mode in (KEYWORD, HYBRID):
        hits = search(stubs, scope, keywords=["VACCINATION", "vaccination"], mode=mode, explain=True).hits
        by_content = {hit.memory.content: {one.retriever for one in hit.explanation.retrievers} for hit in hits}
        assert {search_pb.RETRIEVER_KEYWORD_TABLE} == by_content["It hurt a little."]
        assert {search_pb.RETRIEVER_BM25} == by_content["The vaccination was on Monday."]
        assert len(hits) == 2
    assert "It hurt a little." in found(stubs, scope, "vaccination", mode=KEYWORD)


def test_the_keyword_table_scores_by_weights_and_matches(stubs: Stubs, scope: types_pb.Scope) -> None:
    """min(0.3 * sum of the matching weights + 0.2 * number of matches, 1)."""
    create(
        stubs, scope, "a", keywords=[types_pb.Keyword(term="red", weight=0.5), types_pb.Keyword(term="fox", weight=1.0)]
    )
    create(stubs, scope, "b", keywords=[types_pb.Keyword(term="red", weight=0.25)])
    create(stubs, scope, "c", keywords=[types_pb.Keyword(term=f"w{number}", weight=1.0) for number in range(3)])
    keywords = ["red", "fox", "w0", "w1", "w2"]
    hits = search(stubs, scope, keywords=keywords, mode=KEYWORD, explain=True).hits

    scores = {hit.memory.content: hit.explanation.retrievers[-1].raw_score for hit in hits}
    assert scores == pytest.approx({"a": 0.85, "b": 0.275, "c": 1.0})


def test_the_words_of_the_query_are_marked_in_the_snippet(stubs: Stubs, scope: types_pb.Scope) -> None:
    """In code points, in order, also in other forms, after emoji and in Chinese; none when only the meaning fits."""
    create(stubs, scope, "🦊🦊 The foxes were running, and a fox ran. 狐狸在雪地里跑。")

    def marked(query: str, mode: search_pb.SearchMode = KEYWORD) -> list[str]:
        (hit,) = search(stubs, scope, query, mode=mode).hits
        places = [place for span in hit.spans for place in (span.start, span.end)]
        assert sorted(set(places)) == places
        return [hit.snippet[span.start : span.end] for span in hit.spans]

    assert ["foxes", "running", "fox", "ran"] == marked("Fox runs")
    assert ["狐狸", "雪地"] == marked("雪地里的狐狸")
    assert [] == marked("animals in winter", SEMANTIC)
    assert ["foxes", "fox"] == marked("fox", SEMANTIC)


@pytest.mark.parametrize("width", [0, 40, 41, 2_000])
def test_a_snippet_holds_the_best_part_and_no_more_than_asked_for(
    stubs: Stubs, scope: types_pb.Scope, width: int
) -> None:
    """Cut between words, with the match in it."""
    content = "plain " * 60 + "the walrus surfaced near the harbour " + "plain " * 60
    create(stubs, scope, content)
    (hit,) = search(stubs, scope, "walrus", mode=KEYWORD, snippet_chars=width).hits

    assert len(hit.snippet) <= (width or 240)
    assert "walrus" in hit.snippet
    assert set(hit.snippet.strip("…").split()) <= set(content.split())
    assert ["walrus"] == [hit.snippet[span.start : span.end] for span in hit.spans]


def test_files_are_shown_on_request(stubs: Stubs, scope: types_pb.Scope) -> None:
    """include_files fills the hit's file_refs."""
    ref = types_pb.FileRef(category=types_pb.FILE_CATEGORY_REPORT, id="q1")
    create(stubs, scope, "walrus", file_refs=[ref])

    assert [ref] == list(search(stubs, scope, "walrus", include_files=True).hits[0].file_refs)
    assert [] == list(search(stubs, scope, "walrus").hits[0].file_refs)


@pytest.mark.parametrize("mode", MODES)
def test_pages_hold_every_hit_once_in_one_order(
    stubs: Stubs, scope: types_pb.Scope, mode: search_pb.SearchMode
) -> None:
    """Far beyond the depth of the retrievers, with limits that differ from page to page."""
    create_all(
        stubs,
        types_pb.Scope(user_id=scope.user_id, session_id="s"),
        [f"The walrus {'dives ' * (number % 7)}and {'sings ' * (number % 5)}on day {number}." for number in range(260)],
    )
    at_rest(stubs)
    request = search_pb.SearchRequest(scope=scope, query="Which walrus sings and dives?", mode=mode, limit=35)
    before: list[int] = []
    while before != (before := generations(stubs)):
        walked = walk(stubs, request)
        whole = search(stubs, scope, request.query, mode=mode, limit=100)
    seen = [hit.memory.id for hit in walked]
    scores = [hit.score for hit in walked]

    assert len(set(seen)) == len(seen) == 260
    assert sorted(scores, reverse=True) == scores
    assert seen[:100] == [hit.memory.id for hit in whole.hits]


@pytest.mark.parametrize("mode", MODES)
def test_no_hit_contradicts_the_filter_while_the_indexes_are_behind(
    stubs: Stubs, scope: types_pb.Scope, mode: search_pb.SearchMode
) -> None:
    """Changes that are only stored are not found by what the memories were before."""
    memories = create_all(stubs, scope, [f"The walrus dives on day {number}." for number in range(40)])
    tagged = filters_pb.Filter(where=_without_tag("away"))
    for number, memory in enumerate(memories):
        changed = types_pb.Memory(id=memory.id)
        if number % 2:
            changed.status = types_pb.MEMORY_STATUS_ARCHIVED
        else:
            changed.tags.append("away")
        request = memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, wait_for=types_pb.WAIT_FOR_STORED)
        stubs.memory.UpdateMemory(request, timeout=TIMEOUT)
        hits = search(stubs, scope, "walrus dives", mode=mode, filter=tagged, limit=100).hits

        assert {types_pb.MEMORY_STATUS_ACTIVE} >= {hit.memory.status for hit in hits}
        assert not any("away" in hit.memory.tags for hit in hits)
        assert len(memories) - number - 1 == len(hits)


def _without_tag(tag: str) -> filters_pb.FilterExpression:
    condition = filters_pb.FilterCondition(
        field=filters_pb.FILTER_FIELD_TAG, operator=filters_pb.FILTER_OPERATOR_EQUALS, values=[Value(string_value=tag)]
    )
    return filters_pb.FilterExpression(negated=filters_pb.FilterExpression(condition=condition))


def walk(stubs: Stubs, request: search_pb.SearchRequest) -> list[search_pb.Hit]:
    """Return the hits of every page, each page of another size."""
    hits: list[search_pb.Hit] = []
    token = ""
    while True:
        limit = 30 + len(hits) % 11 if token else request.limit
        step = search_pb.SearchRequest(
            scope=request.scope, query=request.query, mode=request.mode, limit=limit, page_token=token
        )
        page = stubs.search.Search(step, timeout=TIMEOUT)
        hits.extend(page.hits)
        token = page.next_page_token
        if not token:
            return hits
        assert limit == len(page.hits)


def generations(stubs: Stubs) -> list[int]:
    """Return the generation of each index: growth renews the vector index, which may shift the pages of a search."""
    diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
    return [report.generation for report in diagnosis.indexes]


def test_a_page_token_is_bound_to_its_search(stubs: Stubs, scope: types_pb.Scope) -> None:
    """limit, consistency_token and explain may change; anything else makes the token a wrong one."""
    create_all(stubs, scope, [f"walrus {number}" for number in range(5)])
    first = search(stubs, scope, "walrus", limit=2)
    token = first.next_page_token
    rest = search(stubs, scope, "walrus", limit=50, explain=True, page_token=token)

    assert len({hit.memory.id for hit in (*first.hits, *rest.hits)}) == 5
    assert rest.next_page_token == ""
    for other in (
        search_pb.SearchRequest(scope=scope, query="walruses", page_token=token),
        search_pb.SearchRequest(scope=scope, query="walrus", mode=KEYWORD, page_token=token),
        search_pb.SearchRequest(scope=scope, query="walrus", min_score=0.1, page_token=token),
        search_pb.SearchRequest(scope=types_pb.Scope(user_id="x"), query="walrus", page_token=token),
        search_pb.SearchRequest(scope=scope, query="walrus", page_token=token[::-1]),
    ):
        refusal = refused(stubs.search.Search, other)
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("page_token",)) == (refusal.code, refusal.fields)


@pytest.mark.parametrize("mode", MODES)
def test_min_score_leaves_out_what_fits_less(stubs: Stubs, scope: types_pb.Scope, mode: search_pb.SearchMode) -> None:
    """The bound itself is within; the order of the rest is unchanged."""
    create_all(stubs, scope, [f"walrus {'and its ice ' * number}" for number in range(8)])
    at_rest(stubs)
    hits = search(stubs, scope, "walrus on ice", mode=mode).hits
    bound = hits[4].score

    kept = search(stubs, scope, "walrus on ice", mode=mode, min_score=bound).hits
    assert [hit.memory.id for hit in hits if hit.score >= bound] == [hit.memory.id for hit in kept]
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [] == [hit for hit in search(stubs, scope, "walrus on ice", mode=mode, min_score=1).hits if hit.score < 1]


@pytest.mark.parametrize("mode", MODES)
def test_the_same_search_gives_the_same_hits(stubs: Stubs, scope: types_pb.Scope, mode: search_pb.SearchMode) -> None:
    """Equal scores are ordered by id, so that repetition changes nothing; explaining does not either."""
    create_all(stubs, scope, ["same words here"] * 30, on_duplicate=types_pb.ON_DUPLICATE_KEEP_BOTH)
    at_rest(stubs)

    def ranked(*, explain: bool) -> list[tuple[float, str]]:
        hits = search(stubs, scope, "same words", mode=mode, limit=30, explain=explain).hits
        return [(-hit.score, hit.memory.id) for hit in hits]

    first = ranked(explain=False)
    assert len(first) == 30
    assert sorted(first) == first
    assert [first] * 3 == [ranked(explain=explain) for explain in (False, True, False)]


def test_searches_of_a_batch_succeed_or_fail_alone(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Each in its own scope, in the order of the request."""
    other = types_pb.Scope(user_id=scope.user_id + "2")
    create(stubs, scope, "walrus here")
    create(stubs, other, "walrus there")
    searches = [
        search_pb.SearchRequest(scope=scope, query="walrus"),
        search_pb.SearchRequest(scope=scope, query="walrus", limit=101),
        search_pb.SearchRequest(scope=other, query="walrus", mode=KEYWORD),
        search_pb.SearchRequest(scope=scope, query="walrus", page_token="x"),  # noqa: S106 - no password
        search_pb.SearchRequest(scope=scope, query="walrus"),
    ]
    results = stubs.search.BatchSearch(search_pb.BatchSearchRequest(searches=searches), timeout=TIMEOUT).results

    found_ = [[hit.memory.content for hit in one.response.hits] for one in results]
    assert [["walrus here"], [], ["walrus there"], [], ["walrus here"]] == found_
    assert [0, 3, 0, 3, 0] == [one.status.code for one in results]
    assert ["limit", "page_token"] == [violation.field for one in results for violation in one.status.field_violations]
    assert {"response", "status"} == {one.WhichOneof("result") for one in results}


def test_a_batch_takes_32_searches(stubs: Stubs, scope: types_pb.Scope) -> None:
    """More than there are threads; 33 or none are refused."""
    create(stubs, scope, "walrus")
    one = search_pb.SearchRequest(scope=scope, query="walrus")
    results = stubs.search.BatchSearch(search_pb.BatchSearchRequest(searches=[one] * 32), timeout=TIMEOUT).results

    assert [1] * 32 == [len(result.response.hits) for result in results]
    for count in (0, 33):
        refusal = refused(stubs.search.BatchSearch, search_pb.BatchSearchRequest(searches=[one] * count))
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("searches",)) == (refusal.code, refusal.fields)


def test_a_consistency_token_makes_a_search_see_every_write_before(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Created, updated, deleted, restored: each only STORED, each seen by the search with its token."""
    memory = types_pb.Memory()
    for number in range(10):
        reply = write(stubs, scope, f"gannet {number}", wait_for=types_pb.WAIT_FOR_STORED)
        memory = reply.memory
        assert memory.content in found(
            stubs, scope, f"gannet {number}", mode=KEYWORD, consistency_token=reply.consistency_token
        )
    stored = types_pb.WAIT_FOR_STORED
    named = types_pb.Memory(id=memory.id, content="cormorant")
    updated = stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(scope=scope, memory=named, wait_for=stored), timeout=TIMEOUT
    )
    assert ["cormorant"] == found(stubs, scope, "cormorant", mode=KEYWORD, consistency_token=updated.consistency_token)
    deleted = stubs.memory.DeleteMemory(
        memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id, wait_for=stored), timeout=TIMEOUT
    )
    assert [] == found(stubs, scope, "cormorant", mode=KEYWORD, consistency_token=deleted.consistency_token)
    restored = stubs.memory.RestoreMemory(
        memory_pb.RestoreMemoryRequest(scope=scope, id=memory.id, wait_for=stored), timeout=TIMEOUT
    )
    assert ["cormorant"] == found(stubs, scope, "cormorant", mode=KEYWORD, consistency_token=restored.consistency_token)


def test_gets_and_searches_count_as_accesses(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Once an hour each; a duplicate counts too; a list and a memory that is not returned do not."""
    by_get, by_search, by_duplicate, untouched = create_all(
        stubs, scope, ["apple", "banana", "cherry", "durian"], on_duplicate=types_pb.ON_DUPLICATE_KEEP_BOTH
    )
    for _ in range(3):
        get(stubs, scope, by_get.id)
        search(stubs, scope, "banana", mode=KEYWORD)
        write(stubs, scope, "cherry")

    touched = {by_get.id, by_search.id, by_duplicate.id}
    until(lambda: all(one.access_count for one in list_all(stubs, scope) if one.id in touched))
    listed = {one.id: one for one in list_all(stubs, scope)}
    assert [1, 1, 1, 0] == [listed[one.id].access_count for one in (by_get, by_search, by_duplicate, untouched)]
    assert [True, True, True, False] == [
        listed[one.id].HasField("access_time") for one in (by_get, by_search, by_duplicate, untouched)
    ]
    assert {1} == {one.revision for one in listed.values()}
    assert all(one.update_time == one.create_time for one in listed.values())


def test_a_time_range_is_about_when_it_happened(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By event_time, by create_time where there is none; the start is within, the end is not."""
    create(stubs, scope, "walrus old", event_time=Timestamp(seconds=1_000))
    create(stubs, scope, "walrus later", event_time=Timestamp(seconds=2_000))
    now = create(stubs, scope, "walrus now").create_time
    spans = {
        (1_000, 2_000): {"walrus old"},
        (1_001, 2_001): {"walrus later"},
        (None, 2_000): {"walrus old"},
        (2_000, None): {"walrus later", "walrus now"},
        (now.seconds, now.seconds + 1): {"walrus now"},
        (None, None): {"walrus old", "walrus later", "walrus now"},
        (3_000, 4_000): set(),
    }
    for (start, end), expected in spans.items():
        span = types_pb.TimeRange(
            start=None if start is None else Timestamp(seconds=start),
            end=None if end is None else Timestamp(seconds=end),
        )
        for mode in MODES:
            assert expected == set(found(stubs, scope, "walrus", mode=mode, time_range=span)), span


def test_a_user_without_memories_finds_nothing(stubs: Stubs) -> None:
    """That is no error, in any mode."""
    for mode in MODES:
        reply = search(stubs, types_pb.Scope(user_id=uuid.uuid4().hex), "walrus", mode=mode)
        assert (0, 0, "") == (len(reply.hits), reply.candidate_count, reply.next_page_token)


@pytest.mark.parametrize("is_keyword", [True, False], ids=["keywords", "query"])
@pytest.mark.parametrize(("part", "match"), PARTS, ids=str)
def test_a_part_of_a_word_stands_for_keywords_on_request(
    stubs: Stubs, scope: types_pb.Scope, part: str, match: str, *, is_keyword: bool
) -> None:
    """Of the user alone; by its beginning or any part, in both languages; a filter holds as ever."""
    texts = {
        "database": "Migration moved the database to Frankfurt.",
        "databases": "Nightly copies of the databases go to Zurich.",
        "数据库": "数据库每天凌晨备份。",
    }
    made = {name: create(stubs, scope, text).id for name, text in texts.items()}
    create(stubs, types_pb.Scope(user_id=f"{scope.user_id}-2"), "Another database is in Oslo.")
    at_rest(stubs)
    asked = {"keywords": [part]} if is_keyword else {"query": part}

    number = search_pb.WordMatch.Value(f"WORD_MATCH_{match}")
    request = search_pb.SearchRequest(scope=scope, mode=KEYWORD, word_match=number, **asked)  # type: ignore[arg-type]
    assert {hit.memory.id for hit in stubs.search.Search(request, timeout=TIMEOUT).hits} == {
        made[name] for name in PARTS[part, match]
    }
    request.filter.ids.append(made["数据库"])
    hits = stubs.search.Search(request, timeout=TIMEOUT).hits
    assert [hit.memory.id for hit in hits] == [made[name] for name in PARTS[part, match] if name == "数据库"]


@pytest.mark.parametrize("mode", [KEYWORD, HYBRID])
@pytest.mark.parametrize(
    ("content", "summary", "query"),
    [
        ("The invoices go to Lena at the end of a month.", "How bookkeeping works at Falkenberg", "Falkenberg"),
        ("发票每个月底交给李娜。", "法尔肯贝格公司的记账流程", "记账流程"),
    ],
    ids=["english", "chinese"],
)
def test_words_of_a_summary_are_found(
    stubs: Stubs, scope: types_pb.Scope, mode: search_pb.SearchMode, content: str, summary: str, query: str
) -> None:
    """Words that only the summary of a memory has lead to it, until the summary changes."""
    create_all(stubs, scope, [*ENGLISH, *CHINESE])
    memory = create(stubs, scope, content, summary=summary)

    assert found(stubs, scope, query, mode=mode)[:1] == [content]

    cleared = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=types_pb.Memory(id=memory.id), update_mask={"paths": ["summary"]}
    )
    changed = stubs.memory.UpdateMemory(cleared, timeout=TIMEOUT)
    assert content not in found(stubs, scope, query, mode=KEYWORD, consistency_token=changed.consistency_token)


@pytest.mark.parametrize(
    ("fields", "filters"),
    [
        ({"tier": types_pb.MEMORY_TIER_ARCHIVED}, {}),
        ({"status": types_pb.MEMORY_STATUS_QUARANTINED}, {}),
        ({"layer": types_pb.MEMORY_LAYER_SESSION}, {}),
        ({"tags": ["other"]}, {"tags_all": ["wanted"]}),
    ],
    ids=["archived", "withheld", "of a session", "filtered out"],
)
@pytest.mark.parametrize("match", [search_pb.WORD_MATCH_PREFIX, search_pb.WORD_MATCH_SUBSTRING], ids=str)
def test_keywords_of_what_a_search_cannot_find_take_no_place(
    stubs: Stubs, scope: types_pb.Scope, fields: dict[str, Any], filters: dict[str, Any], match: search_pb.WordMatch
) -> None:
    """There are more of them, and shorter ones, than a part of a word may match."""
    session = types_pb.Scope(user_id=scope.user_id, project_id=scope.project_id, session_id="s")
    away = (f"kel{number}" for number in range(40))
    hidden = [types_pb.Memory(content=f"{one}.", keywords=[types_pb.Keyword(term=one)], **fields) for one in away]
    create_all(stubs, session if "layer" in fields else scope, hidden)
    create(stubs, scope, "Seaweed grows.", keywords=[types_pb.Keyword(term="kelp-forest")], tags=["wanted"])
    where = filters_pb.Filter(**filters)
    for mode in (KEYWORD, HYBRID):
        reply = search(stubs, scope, keywords=["kel"], mode=mode, word_match=match, filter=where)
        assert [hit.memory.content for hit in reply.hits] == ["Seaweed grows."]
