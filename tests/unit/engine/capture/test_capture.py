"""What is captured and flushed, by the rules, over the reference backends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.capture import CaptureReason, CaptureResult, ChatMessage, Decider, Decision, FlushResult
from memsvc.domain.clock import Deadline
from memsvc.domain.context import ContextQuery, Locale
from memsvc.domain.errors import RequestIdReusedError
from memsvc.domain.memory import FileRef, Kind, Layer, Memory, Tier
from memsvc.domain.scope import Scope
from memsvc.domain.search import Order, OrderField, Selection
from memsvc.domain.sessions import Role, ToolCall
from memsvc.domain.write_requests import Draft, Outcome, Redaction, WriteOptions
from memsvc.engine.capture.capture import CaptureLabels
from memsvc.engine.services import Services
from memsvc.text.recalled_text import CITATION, citation

ADA = Scope("ada", project_id="apollo", session_id="s")
KEY = "sk-a1B2c3D4e5F6g7H8i9J0"


def capture(application: Services, text: str, scope: Scope = ADA, **more: Any) -> CaptureResult:
    role = more.pop("role", Role.USER)
    is_dry_run = more.pop("is_dry_run", False)
    captured = application.capture.capture(
        scope,
        ChatMessage(role, text),
        CaptureLabels(),
        is_dry_run=is_dry_run,
        options=WriteOptions(**more),
        deadline=Deadline(),
    )
    application.indexer.when_reached(captured.position).result()
    return captured


def flush(application: Services, *messages: ChatMessage, artifacts: tuple[str, ...] = (), **more: Any) -> FlushResult:
    refs = [FileRef("artifact", name) for name in artifacts]
    return application.conversation_flusher.flush(
        ADA, messages, refs, options=WriteOptions(**more), deadline=Deadline()
    )


def stored(application: Services, scope: Scope = ADA) -> list[Memory]:
    order = Order(OrderField.CREATE_TIME, descending=False)
    return application.memory_reader.page(scope, Selection(), order=order, after=None, limit=100)[0]


def reasons(captured: CaptureResult) -> list[CaptureReason]:
    return [decision.reason for decision in captured.decisions]


def only(captured: CaptureResult) -> Decision:
    (decision,) = captured.decisions
    return decision


def test_each_statement_is_decided_and_the_rest_is_left(application: Services) -> None:
    """A preference and a decision are stored, the question is not; each where it belongs, and in no session."""
    captured = capture(application, "I prefer tabs. We decided to use Redis. What's next?")

    assert reasons(captured) == [CaptureReason.PREFERENCE, CaptureReason.DECISION, CaptureReason.QUESTION]
    first, second, third = captured.decisions
    assert first.memory is not None
    assert second.memory is not None
    assert (first.memory.scope.project_id, second.memory.scope.project_id) == ("", "apollo")
    assert (first.memory.layer, second.memory.kind) == (Layer.CORE, Kind.DECISION)
    assert {memory.scope.session_id for memory in stored(application)} == {""}
    assert (third.memory, third.outcome) == (None, None)
    assert [memory.content for memory in stored(application)] == ["I prefer tabs.", "We decided to use Redis."]


def test_a_dry_run_stores_nothing(application: Services) -> None:
    """The reply shows what would be stored, without ids."""
    captured = capture(application, "我喜欢喝茶。", is_dry_run=True, request_id="r")

    memory = only(captured).memory
    assert memory is not None
    assert (memory.id, memory.content, memory.kind, captured.position) == ("", "我喜欢喝茶。", Kind.PREFERENCE, 0)
    assert stored(application) == []
    assert only(capture(application, "我喜欢喝茶。", request_id="r")).outcome is Outcome.CREATED


def test_the_same_request_has_the_same_answer_and_happens_once(application: Services) -> None:
    """Also when the memory says so by then; another text under the id is refused."""
    text = f"I prefer tabs. What now? My key is {KEY}."
    first = capture(application, text, request_id="r")

    again = capture(application, text, request_id="r")

    assert again == first
    assert len(stored(application)) == sum(decision.remember for decision in first.decisions)
    with pytest.raises(RequestIdReusedError):
        capture(application, "Something else.", request_id="r")


@pytest.mark.parametrize(
    "again",
    ["I live in Lisbon, near the river.", "i live in LISBON near the river", "I live in Lisbon — ｎｅａｒ the river!"],
)
def test_what_is_known_is_not_stored_again(application: Services, again: str) -> None:
    """Whatever its case, width and signs; the memory that says so is shown."""
    first = only(capture(application, "I live in Lisbon, near the river."))

    decision = only(capture(application, again))

    assert (decision.remember, decision.reason) == (False, CaptureReason.KNOWN)
    assert first.memory is not None
    assert decision.memory is not None
    assert decision.memory.id == first.memory.id
    assert len(stored(application)) == 1


def test_one_sentence_of_a_memory_is_known(application: Services) -> None:
    """A memory of two sentences makes both known, and no third."""
    application.memory_creator.create(ADA, Draft("我住在杭州。我养了一只猫叫豆豆。"), WriteOptions())
    application.indexer.when_reached(
        application.memory_creator.create(ADA, Draft("x"), WriteOptions()).position
    ).result()

    captured = capture(application, "我养了一只猫叫豆豆。我对花生过敏。")

    assert reasons(captured) == [CaptureReason.KNOWN, CaptureReason.PERSONAL_FACT]


def test_a_message_makes_nothing_known(application: Services) -> None:
    """Sessions keep what was said; it is captured from all the same."""
    written = application.memory_creator.create(
        ADA, Draft("I live in Lisbon.", kind=Kind.MESSAGE, speaker="Ada"), WriteOptions()
    )
    application.indexer.when_reached(written.position).result()

    assert only(capture(application, "I live in Lisbon.")).remember


def test_recalled_text_is_never_captured(application: Services) -> None:
    """Lines with a citation, the other sentences of what they cite, and lines of memories that cannot be read."""
    memory = only(capture(application, "I prefer oolong tea.")).memory
    assert memory is not None
    written = application.memory_creator.create(
        ADA, Draft("My sister Anna lives in Utrecht. She studies law."), WriteOptions()
    )
    elsewhere = "0190163d-8694-739b-aea5-966c26f8ad91"
    context = (
        f"- {citation(memory.id)} (2026-02-06, 3 days ago) I prefer oolong tea.\n"
        f"- {citation(written.memory.id)} My sister Anna lives in Utrecht. She studies law.\n"
        f"- {citation(elsewhere)} I hate mornings. I love the sea.\n"
        f"You told me that you love green curry {citation(elsewhere)}.\n"
    )
    before = stored(application)

    for text in (context, "Remember this: " + context):
        assert set(reasons(capture(application, text))) == {CaptureReason.RECALLED}
    assert reasons(capture(application, context + "I prefer green curry.")).count(CaptureReason.PREFERENCE) == 1

    assert len(stored(application)) == len(before) + 1


@pytest.mark.parametrize("locale", [Locale.EN, Locale.ZH])
def test_a_rendered_context_leaves_nothing(application: Services, locale: Locale) -> None:
    """Neither its lines nor the service's own words around them, whoever hands it in."""
    for content in (
        "Never deploy on Fridays.\n\nAlways run the tests. I live in Lisbon.",
        "我对花生过敏。\n我住在杭州。",
    ):
        application.memory_creator.create(ADA, Draft(content, layer=Layer.CORE, tier=Tier.CORE), WriteOptions())
    written = application.memory_creator.create(ADA, Draft("We decided to use Redis. " * 40), WriteOptions())
    application.indexer.when_reached(written.position).result()
    query = ContextQuery(ADA, text="Redis", locale=locale, total_tokens=600)
    markdown = application.contexts.render(query, Deadline()).markdown
    assert len(CITATION.findall(markdown)) >= 2
    before = stored(application)

    for text in (markdown, f"```\n{markdown}\n```", "\n".join(f"> {line}" for line in markdown.splitlines())):
        assert not any(decision.remember for decision in capture(application, text).decisions)
    assert set(reasons(capture(application, markdown))) == {CaptureReason.RECALLED}
    assert flush(application, ChatMessage(Role.USER, markdown)).memories == ()

    assert stored(application) == before


@pytest.mark.parametrize(
    "text",
    [
        "Known: I am allergic to shellfish. {}", "已知：我对虾过敏。{}", "I am allergic to shellfish.\n{}",
        "你说过我住在巴黎。{} 对吗？",
    ],
)  # fmt: skip
def test_a_sentence_before_a_citation_is_recalled(application: Services, text: str) -> None:
    """Also when the memory cannot be read."""
    captured = capture(application, text.format(citation("0190163d-8694-739b-aea5-966c26f8ad91")))

    assert reasons(captured)[0] is CaptureReason.RECALLED
    assert stored(application) == []


def test_what_is_new_beside_a_citation_is_captured(application: Services) -> None:
    """The sentence that cites is recalled; the next one, which the memory does not hold, is not."""
    memory = only(capture(application, "I live in Lisbon.")).memory
    assert memory is not None

    captured = capture(application, f"{citation(memory.id)} is no longer so. I moved to Berlin in March.")

    assert reasons(captured) == [CaptureReason.RECALLED, CaptureReason.PERSONAL_FACT]


def test_secrets_are_replaced_before_anything_is_stored_or_told(application: Services) -> None:
    """Neither the store nor the reply nor what is remembered of the request holds one."""
    captured = capture(application, f"Remember that my API key is {KEY} for the demo.", request_id="r")

    decision = only(captured)
    assert decision.remember
    assert captured.redactions == (Redaction("api-key", 1),)
    assert KEY not in repr(captured)
    assert "[REDACTED:api-key]" in stored(application)[0].content
    assert KEY not in repr(stored(application))


@pytest.mark.parametrize(
    ("fact", "filler"), [("I am allergic to peanuts.", "It is {}."), ("我对花生过敏。", "那是{}。")]
)
def test_a_fact_at_the_end_of_a_long_text_is_not_lost(application: Services, fact: str, filler: str) -> None:
    """Each of many statements is decided by itself: none takes its neighbours along, or hides them."""
    text = "\n".join([*(filler.format(number) for number in range(100)), fact])

    captured = capture(application, text)

    assert len(captured.decisions) == 101
    assert [memory.content for memory in stored(application)] == [fact]


def test_what_is_too_much_is_told(application: Services) -> None:
    """Of a text of more than a thousand statements the first thousand are looked at, and the reply says so."""
    captured = capture(application, "Why?\n" * 1001)

    assert len(captured.decisions) == 1000
    assert "first 1000 statements" in captured.notice
    assert capture(application, "Why?\n" * 1000).notice == ""


def test_another_user_knows_nothing(application: Services) -> None:
    """What one user said is not known to another, nor to another project unless it is global."""
    capture(application, "We decided to use Redis. I prefer tabs over spaces.")

    other = capture(
        application, "We decided to use Redis. I prefer tabs over spaces.", Scope("bob", project_id="apollo")
    )
    beside = capture(application, "We decided to use Redis. I prefer tabs over spaces.", Scope("ada", project_id="b"))

    assert reasons(other) == [CaptureReason.DECISION, CaptureReason.PREFERENCE]
    assert reasons(beside) == [CaptureReason.DECISION, CaptureReason.KNOWN]


def test_without_a_project_everything_is_global(application: Services) -> None:
    """There is nowhere else."""
    memory = only(capture(application, "We decided to use Redis.", Scope("ada"))).memory

    assert memory is not None
    assert memory.scope.project_id == ""


def test_a_flush_extracts_facts_experiences_and_opinions(application: Services) -> None:
    """Their categories say which; files go to the memories of their round; the tool and the system are not heard."""
    flushed = flush(
        application,
        ChatMessage(Role.SYSTEM, "Always be polite. The user likes cats."),
        ChatMessage(Role.USER, "I live in Lisbon."),
        ChatMessage(Role.ASSISTANT, "Nice! You live in Lisbon."),
        ChatMessage(Role.USER, "我觉得 Java 太啰嗦了。画一下图"),
        ChatMessage(
            Role.ASSISTANT,
            "I fixed the chart by sorting the months.",
            tool_calls=(ToolCall("", "f", file_refs=(FileRef("chart", "c1"),)),),
        ),
        ChatMessage(Role.TOOL, "I prefer tabs.", tool_calls=(ToolCall("", "f", file_refs=(FileRef("report", "r1"),)),)),
        artifacts=("a1", "a2"),
    )

    assert [(memory.category, memory.kind) for memory in flushed.memories] == [
        ("world", Kind.FACT), ("opinions", Kind.OPINION), ("experience", Kind.EXPERIENCE),
    ]  # fmt: skip
    artifacts = (FileRef("artifact", "a1"), FileRef("artifact", "a2"))
    files = (FileRef("chart", "c1"), FileRef("report", "r1"))
    assert flushed.file_refs == files + artifacts
    assert [memory.file_refs for memory in flushed.memories] == [artifacts, files + artifacts, files + artifacts]
    assert (flushed.decider, flushed.notice) == (Decider.RULES, "")
    assert flushed.ignored >= 4
    assert stored(application) == list(flushed.memories)


def test_files_are_kept_when_nothing_else_is(application: Services) -> None:
    """A round without a memory, and a conversation of nothing but artifacts, get one that refers to the files."""
    flushed = flush(
        application,
        ChatMessage(Role.USER, "帮我分析第一季度的销售数据"),
        ChatMessage(
            Role.ASSISTANT,
            "",
            tool_calls=(ToolCall("", "f", file_refs=(FileRef("report", "q1"), FileRef("report", "q1"))),),
        ),
    )
    alone = flush(application, ChatMessage(Role.USER, "ok"), artifacts=("x",))

    (memory,) = flushed.memories
    assert memory.file_refs == (FileRef("report", "q1"),)
    assert memory.content == "帮我分析第一季度的销售数据\n\n关联文件:\n- `report:q1`"
    assert [ref.id for ref in alone.memories[0].file_refs] == ["x"]


def test_a_flush_happens_once(application: Services) -> None:
    """The same request has the same answer; the same conversation again holds nothing new."""
    said = (ChatMessage(Role.USER, f"I prefer tabs. The key is {KEY}."), ChatMessage(Role.USER, "谢谢"))
    first = flush(application, *said, artifacts=("a",), request_id="r")
    application.indexer.when_reached(first.position).result()

    assert flush(application, *said, artifacts=("a",), request_id="r") == first
    again = flush(application, *said)
    assert (again.memories, again.recalled) == ((), len(first.memories))
    assert KEY not in repr((first, again, stored(application)))
    with pytest.raises(RequestIdReusedError):
        flush(application, *said, request_id="r")


def test_what_one_message_cites_is_recalled_in_all(application: Services) -> None:
    """An agent that was shown a context and repeats it does not feed the memory."""
    memory = only(capture(application, "I have been a vegetarian since 2019.")).memory
    assert memory is not None

    flushed = flush(
        application,
        ChatMessage(Role.SYSTEM, f"{citation(memory.id)} I have been a vegetarian since 2019."),
        ChatMessage(Role.USER, "As noted: I have been a vegetarian since 2019."),
        ChatMessage(Role.USER, "I have been a vegetarian since 2019."),
    )

    assert [
        item.content for item in flushed.memories if "2019" in item.content and "As noted" not in item.content
    ] == []
    assert flushed.recalled >= 2


@pytest.mark.parametrize(
    ("said", "moved"),
    [
        (("My dentist appointment is on 17 December at 10:00.", "It got moved to the 24th."), "24"),
        (("12月17号上午去看牙。", "改到24号了。"), "24"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["capture", "flush"])
def test_what_was_moved_without_a_name_is_kept_on_its_new_day(
    application: Services, said: tuple[str, str], moved: str, *, at_once: bool
) -> None:
    """One memory, with the reminder of the day to which it was moved."""
    if at_once:
        capture(application, " ".join(said))
    else:
        flush(application, *(ChatMessage(Role.USER, text) for text in said))
    [memory] = stored(application)

    assert moved in memory.content
    assert memory.reminder is not None
    assert (memory.reminder.month, memory.reminder.day) == (12, 24)


def test_what_was_moved_without_a_name_is_not_guessed(application: Services) -> None:
    """Of two events with a day either may be meant."""
    capture(application, "Dentist appointment on 17 December. My flight is on 18 December. It got moved to the 24th.")

    days = {one.reminder.day for one in stored(application) if one.reminder is not None}
    assert {17, 18} <= days


@pytest.mark.parametrize(
    ("due", "done"),
    [("Pay the rent by {}.", "Paid the rent."), ("提醒我{}交房租", "房租交了"), ("MOT on {} at 2pm.", "MOT passed!")],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["flush", "capture"])
def test_what_is_done_is_kept_if_a_reminder_is_about_it(
    application: Services, due: str, done: str, *, at_once: bool
) -> None:
    """It ends the reminder; without one there is nothing to keep."""
    day = (datetime.now(UTC) + timedelta(days=3)).date()
    due = due.format(f"{day.month}月{day.day}号" if "房租" in due else f"{day}")
    before = only(capture(application, done)).remember
    if at_once:
        flush(application, ChatMessage(Role.USER, due), ChatMessage(Role.USER, done))
    else:
        capture(application, due)
        decision = only(capture(application, done))
        assert (decision.remember, decision.reason) == (True, CaptureReason.EXPERIENCE)

    memories = {memory.content: memory for memory in stored(application)}
    assert not before
    assert set(memories) == {due, done}
    assert memories[due].reminder is None
    assert memories[done].layer is Layer.SHORT_TERM
    assert memories[done].scope.project_id == memories[due].scope.project_id


@pytest.mark.parametrize(
    "text", ["I have the dentist on {} at 9 and the MOT on {} at 2pm.", "{}看牙，{}年检。", "Dentist {}, MOT {}."]
)
def test_each_event_of_a_sentence_has_its_reminder(application: Services, text: str) -> None:
    """As a memory of its own."""
    days = [(datetime.now(UTC) + timedelta(days=ahead)).date() for ahead in (5, 9)]
    capture(application, text.format(*(f"{day.month}月{day.day}号" if "看牙" in text else f"{day}" for day in days)))

    found = [memory.reminder for memory in stored(application)]
    assert [(one.month, one.day) for one in found if one is not None] == [(day.month, day.day) for day in days]
    assert len(found) == len(days)


@pytest.mark.parametrize(
    ("joke", "reply", "taken_back"),
    [
        ("I'm moving to Norway next year.", "Oh, Norway!", "just kidding"),
        ("I'm allergic to peanuts.", "Noted.", "Scratch that."),
        ("我明年要搬到挪威了。", "哇，挪威！", "哈哈开玩笑的"),
        ("我对花生过敏。", "记下了。", "算了当我没说"),
    ],
)
def test_what_the_next_message_takes_back_is_not_kept(
    application: Services, joke: str, reply: str, taken_back: str
) -> None:
    """By a flush, which reads the messages together; what was said before that is kept."""
    before = "I have two cats called Bo and Kit."
    for last, kept in ((taken_back, {before}), ("no kidding, I really am", {before, joke})):
        texts = (("Hm.", Role.ASSISTANT), (joke, Role.USER), (reply, Role.ASSISTANT), (last, Role.USER))
        flush(application, ChatMessage(Role.USER, before), *(ChatMessage(role, text) for text, role in texts))
        contents = {memory.content for memory in stored(application)}
        assert {one for one in contents if one in {before, joke}} == kept
