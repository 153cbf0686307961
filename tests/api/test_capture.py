"""What capture and the end of a session store, and in which scope: events, instructions, reminders, role-plays."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_conflicts import listed
from tests.support.rpc import TIMEOUT, list_all
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import append, open_session, place

SAID = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
"""A Friday."""


def capture(stubs: Stubs, user: str, text: str, project: str = "proj", said: datetime = SAID) -> list[types_pb.Memory]:
    """Capture a text in a project; return what is stored of it."""
    moment = Timestamp()
    moment.FromDatetime(said)
    message = types_pb.ChatMessage(content=text, event_time=moment)
    scope = types_pb.Scope(user_id=user, project_id=project)
    request = memory_pb.CaptureMemoryRequest(scope=scope, message=message, wait_for=types_pb.WAIT_FOR_INDEXED)
    decisions = stubs.memory.CaptureMemory(request, timeout=TIMEOUT).decisions
    return [one.memory for one in decisions if one.remember]


def reminded(stubs: Stubs, user: str, project: str = "proj") -> list[str]:
    """Return the contents of all reminders of the next weeks."""
    moment = Timestamp()
    moment.FromDatetime(SAID)
    asked = lifecycle_pb.ListDueRemindersRequest(
        scope=types_pb.Scope(user_id=user, project_id=project), time=moment, days_ahead=30
    )
    return [one.memory.content for one in stubs.lifecycle.ListDueReminders(asked, timeout=TIMEOUT).reminders]


def seen_elsewhere(stubs: Stubs, user: str) -> list[str]:
    """Return what another project of the user sees."""
    return [one.content for one in list_all(stubs, types_pb.Scope(user_id=user, project_id="another"))]


@pytest.mark.parametrize(
    ("zone", "hour", "is_stored"),
    [("UTC", 20, True), ("America/Los_Angeles", 29, True), ("Asia/Shanghai", 20, False), ("UTC", 29, False)],
)
def test_a_day_to_come_is_counted_in_the_time_zone_of_the_settings(
    tmp_path: Path, zone: str, hour: int, *, is_stored: bool
) -> None:
    """A statement that names tomorrow is not stored, one that names the day after is: by the local date."""
    said = datetime(2026, 3, 3, tzinfo=UTC) + timedelta(hours=hour)
    with served(tmp_path / "data", reminders={"time_zone": zone}, capture={"statement_layer": False}) as stubs:
        stored = capture(stubs, "ada", "They come over on 5 March.", said=said)

    assert bool(stored) is is_stored


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("We decided to keep the runbook at https://github.com/example/runbook.", []),
        ("我们决定把手册放在 https://wiki.example.com/runbook 。", []),
        ("We decided to serve the wiki over HTTPS only.", ["https"]),
        ("We decided to keep the Docker images at http://images.example.com/x.", ["docker"]),
    ],
)
def test_a_web_address_is_no_technology(stubs: Stubs, user: str, text: str, tags: list[str]) -> None:
    [memory] = capture(stubs, user, text)

    assert tags == [tag for tag in memory.tags if tag != memory.category]


EVENTS = [
    ("The demo is on December 10.", "The demo is cancelled."),
    ("The demo is on December 10.", "The demo has been postponed to December 12."),
    ("My flight to Rome leaves on December 10.", "The flight is cancelled."),
    ("12月10号有个演示。", "演示取消了。"),
    ("产品演示在12月10号。", "演示改到12月12号了。"),
    ("12月10号体检", "体检取消了"),
    ("我的体检在12月10号。", "体检推迟到12月12号了。"),
    ("The 发布会 is on December 10.", "发布会取消了。"),
]


@pytest.mark.parametrize("apart", [True, False], ids=["two captures", "one capture"])
@pytest.mark.parametrize(("event", "change"), EVENTS)
def test_the_change_of_an_event_meets_the_event(
    stubs: Stubs, user: str, event: str, change: str, *, apart: bool
) -> None:
    """In the same scope, so that it is a conflict, and the old day is no longer listed."""
    texts = [event, change] if apart else [f"{event}\n{change}"]
    before, after = [memory for text in texts for memory in capture(stubs, user, text)]

    assert before.scope.project_id == after.scope.project_id
    scope = types_pb.Scope(user_id=user, project_id="proj")
    assert [(one.older_memory_id, one.newer_memory_id) for one in listed(stubs, scope)] == [(before.id, after.id)]
    assert event not in reminded(stubs, user)
    assert change not in seen_elsewhere(stubs, user) or not before.scope.project_id


@pytest.mark.parametrize(
    ("event", "change"),
    [
        ("Every Thursday I have choir practice at 7pm.", "Choir is cancelled for good."),
        ("每周四晚上7点我有合唱团排练。", "合唱团取消了。"),
        ("每周三晚上我有读书会。", "读书会改到周四了。"),
    ],
)
def test_the_change_of_a_recurring_event_has_its_scope(stubs: Stubs, user: str, event: str, change: str) -> None:
    [before] = capture(stubs, user, event)
    [after] = capture(stubs, user, change)

    assert before.scope.project_id == after.scope.project_id


def test_the_change_of_a_global_event_is_global(stubs: Stubs, user: str) -> None:
    """Wherever it is said; the event may have been stored outside of every project."""
    [before] = capture(stubs, user, "The demo is on December 10.", project="")
    [after] = capture(stubs, user, "The demo is cancelled.")

    assert (before.scope.project_id, after.scope.project_id) == ("", "")
    assert reminded(stubs, user) == []
    assert len(listed(stubs, types_pb.Scope(user_id=user))) == 1


REVOKED = [
    ("From now on, always answer me in bullet points.", "You know what, drop the bullet points, plain prose reads better to me."),
    ("From now on, always answer me in bullet points.", "Forget about the bullet points thing."),
    ("From now on, always answer me in bullet points.", "Never mind the bullet point rule."),
    ("Always use bullet points.", "No need for bullet points any more."),
    ("Never use emojis.", "Emojis are fine again."),
    ("Never use emojis.", "You can use emojis again."),
    ("以后回答我都用列表的形式。", "别再用列表了，还是大段文字看着舒服。"),
    ("以后回答我都用列表的形式。", "不用再用列表了。"),
    ("以后回答我都用列表的形式。", "列表就算了。"),
    ("以后别用表情。", "表情可以用了。"),
    ("以后回答都用 bullet points。", "Bullet points 就算了。"),
    ("Never use emojis.", "emoji 又可以用了。"),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "revocation"), REVOKED)
def test_a_revoked_instruction_and_its_revocation_have_one_scope_and_kind(
    stubs: Stubs, user: str, instruction: str, revocation: str
) -> None:
    """Both are global preferences that are always loaded, whichever project they are said in."""
    given = [capture(stubs, user, text) for text in (instruction, revocation)]

    assert [[(one.scope.project_id, one.kind, one.layer) for one in memories] for memories in given] == 2 * [
        [("", types_pb.MEMORY_KIND_PREFERENCE, types_pb.MEMORY_LAYER_CORE)]
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Drop the bullet points in this one.",
        "You know what, drop the bullet points in this one, plain prose reads better to me.",
        "Never mind the bullet points this time.",
        "Emojis are fine in this post.",
        "这次别用列表。",
        "这封邮件里别用表情了。",
        "这一次列表就算了。",
        "今天表情可以用了。",
        "Are emojis fine again?",
        "表情可以用了吗？",
    ],
)
def test_requests_for_the_text_at_hand_are_not_stored(stubs: Stubs, user: str, text: str) -> None:
    assert capture(stubs, user, text) == []


ASKED = [
    ("Could you please remind me next Monday to renew my passport?", date(2026, 11, 30)),
    ("Can you remind me on Friday to pay rent?", date(2026, 12, 4)),
    ("Would you remind me tomorrow at 5pm to call mum?", date(2026, 11, 28)),
    ("Would you mind reminding me on Friday to pay rent?", date(2026, 12, 4)),
    ("能不能明天提醒我买牛奶？", date(2026, 11, 28)),
    ("可以周五提醒我交房租吗？", date(2026, 12, 4)),
    ("周五能不能提醒我交房租？", date(2026, 12, 4)),
    ("能提醒我明天买牛奶吗", date(2026, 11, 28)),
]


@pytest.mark.parametrize(("text", "day"), ASKED)
def test_a_politely_asked_reminder_is_captured(stubs: Stubs, user: str, text: str, day: date) -> None:
    """As a task, with the day that `CreateMemory` finds, too."""
    [memory] = capture(stubs, user, text)

    assert memory.kind == types_pb.MEMORY_KIND_TASK
    due = memory.reminder.date
    assert date(due.year, due.month, due.day) == day


@pytest.mark.parametrize("text", ["Can you remind me on Friday to pay rent?", "可以周五提醒我交房租吗？"])
def test_a_politely_asked_reminder_is_stored_when_a_session_ends(stubs: Stubs, user: str, text: str) -> None:
    here = place(user, project="proj")
    open_session(stubs, here)
    append(stubs, here, [text])

    closed = stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=here), timeout=TIMEOUT)

    [result] = closed.flush.results
    assert result.memory.content == text
    assert result.memory.HasField("reminder")


@pytest.mark.parametrize(
    "text",
    [
        "Did you remind me to pay rent?",
        "Why did you remind me on Friday?",
        "Can you remind me what we said on Friday?",
        "Could you remind me how we fixed it on Friday?",
        "Can you remind me of our plan for Friday?",
        "Could you remind Anna to call me on Friday?",
        "你昨天提醒我了吗？",
        "你为什么周五提醒我？",
        "能提醒我一下周五说了什么吗？",
        "可以提醒我上次我们怎么修的吗？",
    ],
)
def test_questions_about_reminders_and_the_past_are_not_stored(stubs: Stubs, user: str, text: str) -> None:
    assert capture(stubs, user, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Let's role-play: I'm a CEO named Max.",
        "Let's role-play. I'm a CEO named Max. I live in Paris.",
        "Pretend you are my doctor. I have diabetes.",
        "Act as if you were my boss. I hate meetings.",
        "Imagine you are a waiter.\n\nI am allergic to nuts.",
        "请扮演我的医生。我有糖尿病。",
        "假设你是我的老板。我叫王强。",
        "来玩角色扮演吧。我叫马克斯，我住在巴黎。",
        "Let's 角色扮演: I'm a CEO named Max. 我住在巴黎。",
    ],
)
def test_nothing_that_is_said_in_a_role_play_is_a_fact(stubs: Stubs, user: str, text: str) -> None:
    assert capture(stubs, user, text) == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Pretend you are my doctor. I have diabetes. End of the role-play. I live in Oslo.", "I live in Oslo."),
        ("请扮演我的医生。我有糖尿病。角色扮演结束。我住在奥斯陆。", "我住在奥斯陆。"),
        ("My daughter plays a princess at school.", "My daughter plays a princess at school."),
    ],
)
def test_what_is_said_outside_of_a_role_play_is_kept(stubs: Stubs, user: str, text: str, kept: str) -> None:
    assert [one.content for one in capture(stubs, user, text)] == [kept]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("IELTS booked for 12 December", date(2026, 12, 12)),
        ("Mammogram a week on Thursday at ten past nine", date(2026, 12, 10)),
        ("I'm on call from a week today, so keep that week free of experiments", date(2026, 12, 4)),
        ("The sofa comes on the 18th, somebody has to be at home", date(2026, 12, 18)),
        ("下礼拜三有个安全培训 不去扣钱", date(2026, 12, 2)),
        ("沙发18号送到,家里得有人", date(2026, 12, 18)),
        ("两个星期后去拆线", date(2026, 12, 11)),
    ],
)
def test_a_day_to_come_is_captured_with_its_reminder(stubs: Stubs, user: str, text: str, day: date) -> None:
    """Though nothing else in the statement says that it lasts."""
    [memory] = capture(stubs, user, text)
    due = memory.reminder.date
    assert date(due.year, due.month, due.day) == day
    assert reminded(stubs, user) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "ugh, Mondays", "Talk tomorrow!", "Sort by date: 3 May, 1 June, 12 April",
        "周一真难熬", "明天聊！", "面试官问我五年后的规划，老套", "按日期排序：5月3日、6月1日、4月12日",
    ],
)  # fmt: skip
def test_a_day_without_an_event_is_not_captured(stubs: Stubs, user: str, text: str) -> None:
    """Days of the week alone, tomorrow, far years and lists."""
    assert capture(stubs, user, text) == []


@pytest.mark.parametrize(
    "present",
    ["I live in Seattle now.", "我现在 live 在 Seattle。", "我现在住在 Seattle。", "我 now live in Seattle。"],
)
def test_the_present_home_is_kept_next_to_the_past_one(stubs: Stubs, user: str, present: str) -> None:
    """As a global fact, in either language and in both at once."""
    past, now = capture(stubs, user, f"I used to live in Boston. {present}")

    assert (past.content, now.content) == ("I used to live in Boston.", present)
    assert (now.scope.project_id, now.kind) == ("", types_pb.MEMORY_KIND_FACT)


CONFIDED = [
    "I'm three months pregnant, don't tell anyone yet",
    "I'm three months pregnant. Please don't tell anybody yet!",
    "I'm three months pregnant, don't tell my boss",
    "我怀孕三个月了，别告诉我老板",
    "I'm leaving my job, keep it between us",
    "Between you and me, I'm leaving my job in March.",
    "我怀孕三个月了，先别跟别人说",
    "我懷孕三個月了，先別跟別人說",
    "我要离职了，别告诉别人",
    "我要离职了。这事千万别让任何人知道！",
    "我工资三万，别跟别人讲",
]


@pytest.mark.parametrize("text", CONFIDED)
def test_a_fact_that_is_to_be_kept_secret_is_captured(stubs: Stubs, user: str, text: str) -> None:
    """As a fact, in one memory with the words that ask for secrecy, be they in the sentence or one of their own."""
    [memory] = capture(stubs, user, text)

    assert (memory.content, memory.kind) == (text, types_pb.MEMORY_KIND_FACT)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("I have an MRI on Friday at 9:40, don't tell anyone", date(2026, 12, 4)),
        ("Jia's birthday is on 14 December. It's a surprise party, don't mention it to her!", date(2026, 12, 14)),
        ("小佳生日是12月14号。是个惊喜派对，别告诉她！", date(2026, 12, 14)),
    ],
)
def test_a_day_that_is_to_be_kept_secret_is_captured_with_its_reminder(
    stubs: Stubs, user: str, text: str, day: date
) -> None:
    [memory] = capture(stubs, user, text)
    due = memory.reminder.date
    assert (memory.content, (due.month, due.day)) == (text, (day.month, day.day))


def test_an_appointment_that_is_to_be_kept_secret_is_captured(stubs: Stubs, user: str) -> None:
    text = "我下周三下午三点要去做胎心监护，先别跟别人说"
    [memory] = capture(stubs, user, text)
    assert (memory.content, memory.kind) == (text, types_pb.MEMORY_KIND_TASK)


@pytest.mark.parametrize(
    "text",
    [
        "I'm leaving now, don't tell anyone",
        "She says she's pregnant, don't tell anyone.",
        "If I were pregnant, I'd say don't tell anyone.",
        "Is Jia coming? Don't tell her!",
        "Don't mention it.",
        "Don't tell anyone.",
        "别人说我怀孕了，别跟别人说",
        "别人都说我怀孕了，不要跟他们说",
        "要是我怀孕了，你别跟别人说",
        "小佳来吗？别告诉她！",
        "先别跟别人说",
    ],
)
def test_secrecy_makes_no_fact_of_what_is_none(stubs: Stubs, user: str, text: str) -> None:
    assert capture(stubs, user, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Translate into French: I'm arriving next Friday and I'm vegetarian",
        "How do I say in French: I'm arriving next Friday and I'm vegetarian",
        "Put this into German: I'm vegetarian. I arrive next Friday.",
        "Can you turn this into polite Spanish: I'm arriving next Friday and I'm vegetarian",
        "帮我把这句翻成英文：我下周三去香港见客户，不吃牛肉",
        "幫我把這句翻成英文：我下週三去香港見客戶，不吃牛肉",
        "帮我翻成日语：我是素食者，下周五到东京",
        "帮我译成法语：我下周五到巴黎。我吃素。",
        "用日语怎么说：我对花生过敏，下周三去东京",
        "把这段话改成英文：我下周三去香港见客户",
    ],
)
def test_a_text_to_be_translated_is_no_fact(stubs: Stubs, user: str, text: str) -> None:
    """Whatever day it names."""
    assert capture(stubs, user, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Put this in my calendar: dentist on 9 December at 10:00",
        "Turn off the lights: I'm away from 9 December on, my flight leaves at 10:00",
        "What do I pack for Rome in English weather: I fly on 12 December",
        "帮我把简历翻成英文，我下周五要交",
        "帮我把日历翻到十二月：我十二月十四号去香港",
        "帮我把这个记到日历：12月14号牙医",
    ],
)
def test_a_day_beside_a_request_for_something_else_is_captured(stubs: Stubs, user: str, text: str) -> None:
    [memory] = capture(stubs, user, text)
    assert memory.content == text


@pytest.mark.parametrize(
    "text",
    [
        "Don't tell Jia about the party.",
        "It's a surprise party, don't mention it to Jia!",
        "Please keep this from my wife.",
        "Don't tell her about the party.",
        "Don't mention the party to him!",
        "Don't let the kids know we're moving.",
        "Keep the surprise trip secret from Tom.",
        "别告诉我老婆聚会的事",
        "這事別告訴我老婆",
        "别告诉张伟派对的事",
        "派对的事别告诉她",
        "先别让王经理知道我要离职",
        "请对我老公保密",
    ],
)
def test_a_request_for_secrecy_that_names_a_person_or_a_thing_is_a_standing_instruction(
    stubs: Stubs, user: str, text: str
) -> None:
    """A global preference that is always loaded, of the importance of other instructions."""
    [memory] = capture(stubs, user, text)

    assert memory.content == text
    assert (memory.kind, memory.layer) == (types_pb.MEMORY_KIND_PREFERENCE, types_pb.MEMORY_LAYER_CORE)
    assert (memory.importance, memory.scope.project_id) == (5, "")


@pytest.mark.parametrize("text", ["Don't tell the client about the failed deployment.", "别跟客户提上线失败的事"])
def test_a_request_for_secrecy_about_the_project_belongs_to_it(stubs: Stubs, user: str, text: str) -> None:
    [memory] = capture(stubs, user, text)
    assert (memory.importance, memory.scope.project_id) == (5, "proj")


@pytest.mark.parametrize(
    "text",
    [
        "He said don't tell Jia about the party.",
        "I didn't tell Jia about the party.",
        "If it were me: don't tell Jia about the party.",
        "Should I not tell Jia about the party?",
        '"Don\'t tell Jia about the party," she said.',
        "Don't tell Jia what to do.",
        "Don't mention the price to the client in this email.",
        "Don't tell people what they want to hear.",
        "Keep this from Chapter 2.",
        "Don't let Mum know I ate it all haha",
        "别让室友发现哈哈哈",
        "Write a scene: don't tell Romeo about the poison.",
        "That's between us, don't mention it to him.",
        "他说这事别告诉小佳",
        "我没告诉小佳派对的事",
        "妈妈让我别告诉小佳",
        "要不要告诉小佳派对的事？",
        "别和孩子讲大道理",
        "别告诉我你没吃饭",
        "这事别告诉她",
    ],
)
def test_what_others_say_of_secrets_and_requests_for_a_text_are_no_instructions(
    stubs: Stubs, user: str, text: str
) -> None:
    assert capture(stubs, user, text) == []
