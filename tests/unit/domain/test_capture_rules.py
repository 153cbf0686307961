"""What the rules remember, measured on labelled utterances, and the rules one by one."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.capture import CaptureReason
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.sessions import Role
from memsvc.text.capture_rules import is_courtesy, judge, judge_day_ahead, title_after, title_of
from memsvc.text.reminder_extraction import reminder_in
from memsvc.text.statement_split import statements

DATA = Path(__file__).resolve().parents[2] / "data" / "capture_utterances.jsonl"
LANGUAGES = ("en", "zh")
BOTH = (False, True)


@dataclass(frozen=True)
class Utterance:
    """Something a user says, and what should become of it."""

    text: str
    language: str
    remember: bool
    scope: str = ""
    kind: str = ""

    @property
    def is_held_out(self) -> bool:
        """Return whether nobody looked at it while the rules were written."""
        return hashlib.sha256(self.text.encode()).digest()[0] % 2 == 1


def utterances() -> list[Utterance]:
    with DATA.open(encoding="utf-8") as lines:
        return [Utterance(**json.loads(line)) for line in lines]


def table(pairs: list[tuple[str, str]]) -> str:
    """Return counts of (wanted, got), a line each."""
    return "\n".join(f"{wanted:>12} -> {got:<12} {count}" for (wanted, got), count in sorted(Counter(pairs).items()))


def share(pairs: list[tuple[str, str]]) -> float:
    return sum(wanted == got for wanted, got in pairs) / len(pairs)


@pytest.mark.parametrize("half", ["dev", "held out"])
def test_the_rules_decide_as_people_do(half: str, record_property: Callable[[str, object], None]) -> None:
    """Of what was held out 85 % are remembered or ignored rightly, and so are scope and kind of what is remembered."""
    chosen = [one for one in utterances() if one.is_held_out is (half == "held out")]
    judged = [(one, judge(one.text)) for one in chosen]
    decisions = [(str(one.remember), str(verdict.remember)) for one, verdict in judged]
    both = [(one, verdict) for one, verdict in judged if one.remember and verdict.remember]
    scopes = [(one.scope, "global" if verdict.is_global else "project") for one, verdict in both]
    kinds = [(one.kind, verdict.kind.value) for one, verdict in both]
    for name, pairs in {"decision": decisions, "scope": scopes, "kind": kinds}.items():
        told = f"{half}: {name} {share(pairs):.3f} of {len(pairs)}\n{table(pairs)}"
        record_property(name, told)
        print(told)  # noqa: T201 - shown by `pytest -s`

    assert len(chosen) >= 75
    assert share(decisions) >= 0.85
    assert share(scopes) >= 0.85
    assert share(kinds) >= 0.8


EVERYDAY = Path(__file__).resolve().parents[2] / "data" / "everyday" / "capture.jsonl"


@pytest.mark.parametrize("language", LANGUAGES)
def test_everyday_speech_is_kept_or_left_as_people_do(language: str) -> None:
    """Bans, duties, changes and habits are kept; wishes, orders, hearsay, stories and moods are left."""
    lines = [json.loads(line) for line in EVERYDAY.read_text(encoding="utf-8").splitlines()]
    judged = [(one["remember"], judge(one["text"]).remember) for one in lines if one["language"] == language]
    kept, wanted = sum(got for _, got in judged), sum(wanted for wanted, _ in judged)
    right = sum(wanted and got for wanted, got in judged)

    assert len(judged) >= 80
    assert right / kept >= 0.97
    assert right / wanted >= 0.9


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("name", "most_filler", "least_recall"), [("chat", 0.025, 0.97), ("chat_unseen", 0.08, 0.85)])
def test_chat_is_not_kept_and_statements_are(name: str, most_filler: float, least_recall: float, language: str) -> None:
    """Small talk, requests, code talk, news, stories, parts played and reported speech among statements worth keeping.

    No rule was written for those of `chat_unseen`.
    """
    lines = map(json.loads, EVERYDAY.with_name(f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
    spoken = [one for one in lines if one["language"] == language]
    kept = [one for one in spoken if is_kept(one["text"], Role.ASSISTANT if "role" in one else Role.USER)]
    filler = [one for one in spoken if not one["remember"]]
    wanted = [one for one in spoken if one["remember"]]

    assert len(filler) >= 30
    assert sum(one in kept for one in filler) / len(filler) <= most_filler
    assert sum(one in kept for one in wanted) / len(wanted) >= least_recall


CLASSES = ("writing", "lookup", "at_hand", "moment", "exaggeration", "anecdote", "story", "others", "continued", "fact")
"""Classes of filler, by the cue that they are ignored by, and facts that resemble filler."""


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CLASSES)
def test_each_class_of_filler_is_ignored_and_facts_like_it_are_kept(name: str, language: str) -> None:
    """Questions without a mark, talk about the answer, moments, exaggerations, anecdotes, stories, general knowledge."""
    lines = [json.loads(line) for line in EVERYDAY.with_name("classes.jsonl").read_text(encoding="utf-8").splitlines()]
    spoken = [one for one in lines if one["class"] == name and one["language"] == language]

    assert spoken
    assert [one["text"] for one in spoken if is_kept(one["text"], Role.USER) is not one["remember"]] == []


def is_kept(text: str, role: Role) -> bool:
    pieces = statements(text)
    return any(judge(one.text, role, is_code=one.is_code, is_quoted=one.is_quoted).remember for one in pieces)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I can't have dairy.", Kind.FACT),
        ("no ibuprofen for me, kidney thing", Kind.FACT),
        ("my daughter mustn't take aspirin", Kind.FACT),
        ("我不能喝酒,医生说的", Kind.FACT),
        ("头孢不能碰,上次差点休克", Kind.FACT),
        ("I handed in my notice last week", Kind.FACT),
        ("我去年拿到了驾照", Kind.FACT),
        ("我今天开始吃素了", Kind.FACT),
        ("行,那数据库就定 TiDB 了", Kind.DECISION),
        ("dentist oct 6, 8:15", Kind.TASK),
        ("I promised Femi I'd proofread her chapter", Kind.TASK),
        ("得给小侄女买个书包", Kind.TASK),
        ("scrap that, short answers please", Kind.PREFERENCE),
        ("以后不用再写总结了", Kind.PREFERENCE),
        ("cinnamon in anything makes me gag", Kind.PREFERENCE),
        ("对榴莲那个味儿实在欣赏不来", Kind.PREFERENCE),
    ],
)
def test_each_family_of_everyday_speech_has_its_kind(text: str, kind: Kind) -> None:
    """What must not be eaten or taken is a fact, an instruction and its revocation a preference, a duty a task."""
    verdict = judge(text)

    assert verdict.remember
    assert verdict.kind is kind


@pytest.mark.parametrize(
    "text",
    [
        "I wish I lived in Paris, honestly",
        "Write a poem about how I love the sea",
        "imagine you're allergic to everything in this room",
        'some dude in a forum: "I always store passwords in a text file"',
        "In the song she always wants what she can't have",
        "my tea's gone cold again",
        "他说他喜欢 Go",
        "我要是有两套房就好了",
        "帮我写一段自我介绍,就说我热爱旅行",
        "听说隔壁公司在裁员",
        "我都快笑岔气了",
        "电影里那个人老是迟到",
    ],
)
def test_wishes_stories_hearsay_and_moods_are_no_facts(text: str) -> None:
    """They read like facts about the user and state nothing of them."""
    assert not judge(text).remember


@pytest.mark.parametrize(
    "text",
    [
        "explain inflation like I'm a pirate",
        "we got stuck behind a tractor for twenty minutes",
        "I've been staring at this sentence for an hour",
        "it took me ten minutes to open that jar",
        "I lost at scrabble to a nine year old",
        "a recruiter asked if I'd ever leave the firm",
        "刚看到一条特别长的彩虹",
        "我妈同事的女儿的同学上电视了",
        "我今天走路踩到三次水坑",
        "帮我把语气改得客气点",
        "考研报名一般几月",
    ],
)
def test_what_happens_in_passing_is_not_kept(text: str) -> None:
    assert not judge(text).remember


@pytest.mark.parametrize(
    "text",
    [
        "I saw the doctor, no more coffee for me",
        "we ended up buying the house in Leeds, we live there now",
        "刚收到通知,体检改到5月6号了",
        "把我的会都改到周五,以后每周如此",
    ],
)
def test_news_told_in_passing_is_kept(text: str) -> None:
    assert judge(text).remember


def test_the_utterances_are_of_both_languages_and_sorts() -> None:
    """At least 150, both languages and both decisions in both halves."""
    found = Counter((one.is_held_out, one.language, one.remember) for one in utterances())

    assert len(utterances()) >= 150
    assert len({one.text for one in utterances()}) == len(utterances())
    assert all(found[half, language, remember] >= 15 for half in BOTH for language in LANGUAGES for remember in BOTH)


@pytest.mark.parametrize(
    ("text", "is_global", "kind", "layer"),
    [
        ("我习惯用 Tab", True, Kind.PREFERENCE, Layer.CORE),
        ("我喜欢喝茶", True, Kind.PREFERENCE, Layer.CORE),
        ("I prefer dark mode.", True, Kind.PREFERENCE, Layer.CORE),
        ("这个项目的 main.go 是入口", False, Kind.FACT, Layer.LONG_TERM),
        ("The entry point of this project is main.go.", False, Kind.FACT, Layer.LONG_TERM),
        ("Go error 处理最佳实践是包装错误", True, Kind.KNOWLEDGE, Layer.LONG_TERM),
        ("Python's asyncio runs one task at a time.", True, Kind.KNOWLEDGE, Layer.LONG_TERM),
        ("我们决定使用 Redis", False, Kind.DECISION, Layer.LONG_TERM),
        ("We decided to use Redis.", False, Kind.DECISION, Layer.LONG_TERM),
        ("Mr. Brown's flight lands at 9:40.", False, Kind.FACT, Layer.LONG_TERM),
        ("提醒我周五交报告", False, Kind.TASK, Layer.SHORT_TERM),
    ],
)
def test_the_rules_of_the_requirement_hold(text: str, is_global: bool, kind: Kind, layer: Layer) -> None:  # noqa: FBT001
    """Preferences and general knowledge are global; files, decisions and what cannot be decided are the project's."""
    verdict = judge(text)

    assert verdict.remember
    assert (verdict.is_global, verdict.kind, verdict.layer) == (is_global, kind, layer)
    assert 1 <= verdict.importance <= 5
    assert verdict.title
    assert verdict.tags


@pytest.mark.parametrize(
    ("role", "text", "remember"),
    [
        (Role.SYSTEM, "You prefer short answers.", False),
        (Role.TOOL, "I prefer tabs.", False),
        (Role.ASSISTANT, "You prefer tabs over spaces.", False),
        (Role.ASSISTANT, "你喜欢喝茶。", False),
        (Role.ASSISTANT, "I fixed the failing test by resetting the clock.", True),
        (Role.ASSISTANT, "已经修复了登录问题。", True),
        (Role.ASSISTANT, "Shall I use Redis?", False),
    ],
)
def test_the_role_counts(role: Role, text: str, remember: bool) -> None:  # noqa: FBT001
    """An assistant is heard on what it did, not on what it says about the user; systems and tools are not heard."""
    assert judge(text, role).remember is remember


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "。",
        "?!",
        "\ufeff",
        "a",
        "🦭🦭",
        "\x00",
        "x" * 100_000,
        "我" * 100_000,
        "\n" * 50,
        "please " * 300,
        "不是" * 900,
    ],
)
def test_odd_texts_get_a_verdict(text: str) -> None:
    """Any text at all is judged, and quickly."""
    assert not judge(text).remember


@pytest.mark.parametrize(
    "text",
    [
        "Translate to French: I live in Tokyo and I hate fish.", "Please summarise: we decided to use Redis.",
        "Check my grammar in this sentence: I always uses tabs.", '"I love you" is a song by Celine.',
        'My boss said "I hate long meetings".', "Bob wrote: I prefer tabs.", "Here is an email from Bob: I prefer Mondays.",
        "请翻译：我喜欢吃苹果，我住在巴黎。", "帮我总结这段话：我们决定使用 Redis。", "“我喜欢你”是一首歌。", "他说“我讨厌开会”。",
        "他写道：我喜欢喝茶。",
    ],
)  # fmt: skip
def test_what_others_say_is_not_the_users(text: str) -> None:
    """Neither in quotation marks nor handed over to be worked on."""
    assert judge(text).reason is CaptureReason.QUOTED
    assert judge("I prefer tabs.", is_quoted=True).reason is CaptureReason.QUOTED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('I prefer "Visual Studio Code" for Python.', CaptureReason.PREFERENCE),
        ('Always answer with "yes, my dear lord".', CaptureReason.RULE),
        ("My name is 'Bob Lee Swagger'.", CaptureReason.PERSONAL_FACT),
        ("我最喜欢的书是“三体全集三部曲”。", CaptureReason.PREFERENCE),
        ("我们决定用“熊猫计划一号”作为代号。", CaptureReason.DECISION),
        ("Summary: we decided to use Redis.", CaptureReason.DECISION),
        ("总结：我们决定用 Redis。", CaptureReason.DECISION),
    ],
)
def test_who_quotes_a_name_still_speaks(text: str, reason: CaptureReason) -> None:
    """What leads to the decision stands outside of the quotation."""
    assert judge(text).reason is reason


@pytest.mark.parametrize(
    "text",
    [
        "I like your answer.",
        "I would like a coffee.",
        "I'd like another coffee, please",
        "我喜欢你的回答。",
        "我想要一杯咖啡。",
    ],
)
def test_courtesy_and_orders_are_no_preferences(text: str) -> None:
    """What pleases for the moment says nothing of the next conversation."""
    assert not judge(text).remember


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("Use pytest, not unittest.", "用 pytest 而不是 unittest。"),
        ("Use spaces instead of tabs", "用空格代替 Tab"),
        ("Use pnpm rather than npm.", "不要用 npm，用 pnpm。"),
        ("Always run make lint before committing.", "提交前一定要跑 make lint。"),
        ("Could you please always answer in French?", "你能不能以后都用法语回答？"),
        ("Can you always run the tests before committing?", "可以请你以后每次都先跑测试吗？"),
        ("Btw could you always answer me in short bullet points?", "以后回答能不能都用列表？"),
        ("By the way, from now on can we do everything in TypeScript?", "对了，以后能都用 TypeScript 写吗？"),
        ("Can you stop using emojis?", "你以后能别用表情符号吗？"),
        ("Can you keep your answers short", "回答的时候能不能简短点？"),
        ("Please add comments to the code again.", "代码里还是加点注释吧，新同事都看不懂"),
        ("Actually, let's go back to metric units.", "文档还是用公制单位吧"),
        ("ＡＬＷＡＹＳ ＡＮＳＷＥＲ ＩＮ ＦＲＥＮＣＨ", "以后都用　ＦＲＥＮＣＨ　回答"),
    ],
)
def test_both_languages_bid_alike(english: str, chinese: str) -> None:
    """A rule is one in either language, be it asked for as politely or written as widely as it may."""
    assert [judge(text).reason for text in (english, chinese)] == [CaptureReason.RULE, CaptureReason.RULE]


@pytest.mark.parametrize(
    "text",
    [
        "Can you run the tests?", "Will you always be here?", "你可以一直开着吗？", "Use the other one, not this.",
        "Can you always hear that noise in the car?", "Can you drop the bullet points in this one?", "Write it again.",
        "以后能便宜点吗？", "邮件还是写不出来", "晚饭还是吃面吧", "Let's go back to the hotel.", "报告还是写吧",
    ],
)  # fmt: skip
def test_what_is_asked_for_once_is_no_rule(text: str) -> None:
    """Words that last do not make a rule of every question."""
    assert not judge(text).remember


def test_fenced_code_is_no_statement() -> None:
    """Code is ignored even if it reads like a preference."""
    assert judge("I prefer tabs.", is_code=True).reason is CaptureReason.CODE


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Remember that the VPN is slow. Very slow.", "the VPN is slow"),
        ("记住，会议改到周三。", "会议改到周三"),
        ("- a list item", "a list item"),
        ("word " * 30, "word word word word word word word word word word word word…"),
    ],
)
def test_titles_are_short_and_bare(text: str, title: str) -> None:
    """The heading is the first sentence without the words that introduce it, cut at a word."""
    assert title_of(text) == title


LONG = "The cat that lives with my grandmother in the old house at the harbour is named Tom"


@pytest.mark.parametrize(
    ("title", "before", "content", "expected"),
    [
        ("The cat is named Tom.", "The cat is named Tom. He sleeps.", "The cat is named Max. He runs.", "The cat is named Max."),
        ("The cat is named Tom", "The cat is named Tom. He sleeps.", "The cat is named Max. He runs.", "The cat is named Max"),
        ("The cat is named Tom.", "The cat is named Tom.", "The cat is named Max", "The cat is named Max"),
        ("小猫叫汤姆。", "小猫叫汤姆。它在睡觉。", "小猫叫麦克斯。它在跑。", "小猫叫麦克斯。"),
        ("小猫叫汤姆", "小猫叫汤姆。它在睡觉。", "小猫叫麦克斯。它在跑。", "小猫叫麦克斯"),
        ("Note that Tom sleeps!", "Note that Tom sleeps! Yes.", "Note that Max sleeps! No.", "Note that Max sleeps!"),
        (f"{LONG}.", f"{LONG}. Yes.", "Max. No.", "Max."),
        ("Tom.", "Tom. Yes.", f"{'x' * 512}. No.", f"{'x' * 60}…"),
        ("", "Tom. Yes.", "Max. No.", None),
        ("Cats.", "Tom. Yes.", "Max. No.", None),
        ("Tom!", "Tom. Yes.", "Max. No.", None),
        ("Tom。", "Tom. Yes.", "Max. No.", None),
        ("Tom. Yes", "Tom. Yes.", "Max. No.", None),
        ("Yes.", "Tom. Yes.", "Max. No.", None),
        ("The cat", "The cat is named Tom.", "The cat is named Max.", None),
    ],
)  # fmt: skip
def test_a_title_that_was_made_of_the_content_is_made_of_the_new_one(
    title: str, before: str, content: str, expected: str | None
) -> None:
    """In the same style; a title of its own, or that is another part of the content, is none."""
    assert title_after(title, before, content) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I'm afraid of dogs.",
        "I am terrified of flying.",
        "我害怕坐飞机",
        "我怕狗",
        "我们在大理有个小院，夏天去住",
        "我2020年戒的烟",
        "我当了二十年水管工",
        "我的土耳其语很流利",
        "我收藏老相机",
    ],
)
def test_fears_places_of_ones_own_and_courses_of_life_are_kept(text: str) -> None:
    assert judge(text).remember


@pytest.mark.parametrize(
    "text",
    [
        "I think the bug is in the parser.",
        "I believe the mistake is in line 12.",
        "ok so the error is gone",
        "I'm afraid of breaking the build.",
        "我觉得bug在解析器里",
        "好的，谢谢，搞定了",
        "她跟我说她更喜欢喝茶",
        "我太喜欢了！",
        "我看看",
    ],
)
def test_guesses_about_a_fault_courtesies_and_reports_are_left(text: str) -> None:
    assert not judge(text).remember


@pytest.mark.parametrize(
    "text",
    [
        "remind me to order the oak from Whitmore's before the 4th",
        "Can you remind me to ring the bank before Friday",
        "don't let me forget to pay the plumber by Thursday",
        "please remind me to renew the MOT before the 10th of January",
        "4号之前提醒我去订木料",
        "提醒我下周五之前交房租",
    ],
)
def test_what_is_to_be_reminded_of_by_a_day_is_a_task(text: str) -> None:
    verdict = judge(text)

    assert (verdict.reason, verdict.layer) == (CaptureReason.TASK, Layer.SHORT_TERM)


@pytest.mark.parametrize(
    "text",
    [
        "remind me to stretch before meetings",
        "remind me before you delete anything",
        "always remind me to run the tests before pushing on Friday",
        "don't let me forget to tag releases before merging",
        "以后提交前都要提醒我跑测试",
    ],
)
def test_what_is_to_be_reminded_of_again_and_again_is_a_rule(text: str) -> None:
    assert judge(text).reason is CaptureReason.RULE


@pytest.mark.parametrize(
    "text",
    [
        "can you keep answers short and don't use bullet points ever",
        "would you mind not using emojis with me",
        "would you mind not calling me mate",
        "你以后能别叫我亲吗",
        "可以每次先说结论吗",
        "以后别再跟我说您了",
        "以后跟我说话别用您，也别老用感叹号，烦",
        "跟我说话直接点",
    ],
)
def test_how_to_speak_to_the_user_is_a_rule_in_questions_too(text: str) -> None:
    verdict = judge(text)

    assert (verdict.reason, verdict.layer) == (CaptureReason.RULE, Layer.CORE)


@pytest.mark.parametrize(
    "text",
    [
        "can you keep this answer short",
        "would you mind not using emojis in this email",
        "would you mind checking the build",
        "would you mind not telling anyone",
        "可以先说结论吗",
        "你能别叫我去吗",
        "每次开会可以先说结论吗",
        "他跟我说话直接点就好了",
        "他以后别再跟我说您了",
        "她跟我说您已经付过了",
        "别再跟我说这件事了",
    ],
)
def test_what_is_asked_of_one_answer_or_said_of_others_is_no_rule(text: str) -> None:
    assert not judge(text).remember


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("Can you remind me to ring the bank before Friday", True),
        ("Could you remind me to ring the bank tomorrow?", True),
        ("能不能周五提醒我交房租？", True),
        ("Can we ring the bank before Friday", False),
        ("Can you remind me what I said on Friday?", False),
        ("周五能不能交房租？", False),
    ],
)
def test_a_reminder_asked_for_in_a_question_is_a_task_whatever_its_day(text: str, *, is_kept: bool) -> None:
    verdict = judge_day_ahead(text, datetime(2026, 2, 2, 9, tzinfo=UTC))

    assert (verdict is not None and verdict.reason is CaptureReason.TASK) is is_kept


@pytest.mark.parametrize("text", ["hiya.", "heya!", "howdy", "hi there, hiya", "哈啰", "嘿，你好"])
def test_greetings_are_small_talk(text: str) -> None:
    assert judge(text).reason is CaptureReason.SMALL_TALK


@pytest.mark.parametrize(
    "text",
    [
        "lol jk I'm not actually allergic to mondays",
        "just kidding, I'm not really moving to Mars",
        "I was joking, I didn't really quit",
        "我开玩笑的，我没有真辞职",
        "哈哈开玩笑的，没真的辞职",
    ],
)
def test_jokes_that_are_taken_back_are_left(text: str) -> None:
    assert not judge(text).remember


@pytest.mark.parametrize(
    "text",
    [
        "hiya, I'm Rob",
        "I'm not joking, I'm allergic to nuts",
        "no kidding, I got the job in Oslo",
        "I'm not actually allergic to nuts, the test was wrong",
        "我没开玩笑，我真辞职了",
        "我不是开玩笑，我对花生过敏",
    ],
)
def test_what_is_said_in_earnest_is_kept(text: str) -> None:
    assert judge(text).remember


@pytest.mark.parametrize(
    "text",
    ["Lovely weather in Leeds", "Yes, peanuts", "Left", "Two", "Haha, I broke my arm", "Exactly 3 cats", "好呀，周五见",
     "哈尔滨", "对门", "可以，用方案B"],
)  # fmt: skip
def test_a_short_reply_with_content_is_no_courtesy(text: str) -> None:
    """It may be the answer to what was asked."""
    assert not is_courtesy(text)


@pytest.mark.parametrize(
    "text",
    [
        "每次提交前提醒我跑测试", "每次开会前提醒我带电脑。", "提交前提醒我跑测试", "提醒我每次提交前跑测试", "每次我提交代码，提醒我写说明",
        "remind me to run the tests before every commit", "Before each deploy, remind me to back up the database",
    ],
)  # fmt: skip
def test_a_reminder_before_each_of_something_is_a_standing_instruction(text: str) -> None:
    """It names no day, so nothing is due."""
    verdict = judge(text)
    assert (verdict.remember, verdict.reason, verdict.layer) == (True, CaptureReason.RULE, Layer.CORE)
    assert reminder_in(text, datetime(2026, 11, 29, 10, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    "text",
    [
        "下次提交前提醒我跑测试", "周五开会前提醒我带电脑", "每次开会前都要提醒他，烦死了", "每次提交前都有人提醒我跑测试", "你每次提交前都会提醒我吗",
        "每次提交前提醒我跑测试了吗", "每周五提醒我交周报",
        "Do you remind me before every commit?",
    ],
)  # fmt: skip
def test_a_reminder_of_one_time_or_by_others_is_no_standing_instruction(text: str) -> None:
    """Nor is one of a rhythm, which has days."""
    assert judge(text).reason is not CaptureReason.RULE
