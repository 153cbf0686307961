"""Conflicts of a statement with its negation, and of days of the week, as a user sees them."""

from __future__ import annotations

import pytest

from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import create, get, write
from tests.support.server_process import Stubs

ACTIVE, CONFLICTED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_CONFLICTED
NEGATED = [
    ("I'm allergic to nuts.", "I'm not allergic to nuts.", "nut allergy", "allergic", "not allergic"),
    ("I'm allergic to nuts.", "I'm no longer allergic to nuts.", "nut allergy", "allergic", "not allergic"),
    ("I have a cat.", "I don't have a cat.", "number of cat", "1", "none"),
    ("I have a cat.", "I don't have a cat any more.", "number of cat", "1", "none"),
    ("I have a car.", "I no longer have a car.", "car", "has", "does not have"),
    ("I smoke.", "I don't smoke any more.", "smoking", "smokes", "does not smoke"),
    ("I smoke.", "I quit smoking.", "smoking", "smokes", "does not smoke"),
    ("I speak French.", "I don't speak French.", "speaking French", "speaks", "does not speak"),
    ("I drive.", "I don't drive any more.", "driving", "drives", "does not drive"),
    ("I'm vegetarian.", "I'm not vegetarian any more.", "diet", "vegetarian", "not vegetarian"),
    ("The meeting is on Monday.", "The meeting is on Tuesday.", "meeting", "Monday", "Tuesday"),
    ("My gym is closed on Mondays.", "My gym is open on Mondays.", "gym: open or closed on Mondays", "closed", "open"),
    ("我对花生过敏", "我对花生不过敏了", "对花生过敏", "过敏", "不过敏"),
    ("我对花生过敏", "我不对花生过敏", "对花生过敏", "过敏", "不过敏"),
    ("我对 peanuts 过敏", "我对peanuts不过敏了", "对peanuts过敏", "过敏", "不过敏"),
    ("我有一只猫", "我没有猫了", "猫的数量", "1", "没有"),
    ("我吃素", "我不吃素了", "饮食", "吃素", "不吃素"),
    ("我抽烟", "我不抽烟了", "抽烟", "抽", "不抽"),
    ("我抽烟", "我戒烟了", "抽烟", "抽", "不抽"),
    ("我会说法语", "我不会说法语了", "会说法语", "会说", "不会说"),
    ("我开车", "我不开车了", "开车", "开车", "不开车"),
    ("例会在周一", "例会在周二", "例会", "周一", "周二"),
    ("健身房周一关门", "健身房周一开门", "健身房 周一营业", "关门", "开门"),
]


CHANGED = [
    ("I'm allergic to peanuts.", "I'm not allergic to peanuts after all."),
    ("I play chess every Sunday.", "I don't play chess anymore."),
    ("The wifi password is swordfish.", "The wifi password is bluewhale."),
    ("The server has 16 GB of RAM.", "The server has 32 GB of RAM."),
    ("The office is on the third floor.", "The office is on the fifth floor."),
    ("I weigh 80 kg.", "I weigh 74 kg."),
    ("My native language is Czech.", "My native language is Slovak."),
    ("我每天早上喝咖啡", "我不喝咖啡了"),
    ("我的领导是老赵", "我的领导现在是老钱"),
    ("我吃肉", "我不吃肉"),
    ("办公室在三楼", "办公室在五楼"),
    ("公司的CEO是王强", "公司的CEO是刘洋"),
    ("我体重80公斤", "我体重74公斤"),
    ("房租是三千", "房租是三千五"),
    ("房租是三千元", "房租是3500元"),
    ("我的母语是粤语", "我的母语是普通话"),
    ("小李的工作是水管工", "小李的工作是电工"),
]


@pytest.mark.parametrize(("older", "newer"), CHANGED)
def test_another_value_of_the_same_attribute_conflicts(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str
) -> None:
    before = create(stubs, scope, older)

    [conflict] = write(stubs, scope, newer).conflicts
    assert conflict.older_memory_id == before.id


ALIKE = [
    ("I play tennis.", "I don't play tennis every day."),
    ("The server has 16 GB of RAM.", "The server has 512 GB of disk."),
    ("My room is on the second floor.", "The gym is on the ninth floor."),
    ("I weigh 80 kg.", "My dog weighs 12 kg."),
    ("房租是三千元", "房租是3000元"),
    ("预算是一万二", "预算是12000"),
    ("我每天早上喝咖啡", "我每天早上不喝茶"),
    ("我在华为工作", "我在计费组工作"),
    ("我在京东工作", "我在周末工作"),
]


@pytest.mark.parametrize(("older", "newer"), ALIKE)
def test_the_same_value_in_other_words_and_other_things_do_not_conflict(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str
) -> None:
    create(stubs, scope, older)

    assert not write(stubs, scope, newer).conflicts


@pytest.mark.parametrize("row", NEGATED, ids=str)
def test_a_negation_conflicts_with_what_it_denies(
    stubs: Stubs, scope: types_pb.Scope, row: tuple[str, str, str, str, str]
) -> None:
    """The conflict names topic and values in words, and its question quotes both in the language of the user."""
    older, newer, topic, older_value, newer_value = row
    before = create(stubs, scope, older)
    reply = write(stubs, scope, newer)

    [conflict] = reply.conflicts
    assert (topic, older_value, newer_value) == (conflict.topic, conflict.older_value, conflict.newer_value)
    assert (before.id, reply.memory.id) == (conflict.older_memory_id, conflict.newer_memory_id)
    assert (CONFLICTED, ACTIVE) == (get(stubs, scope, before.id).status, reply.memory.status)
    assert older.rstrip(".") in conflict.question
    assert newer.rstrip(".") in conflict.question
    assert conflict.question.endswith("现在哪个是对的？" if topic[0] > "\u3400" else "Which is right now?")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I have a cat.", "I don't have a cat allergy."),
        ("I have a cat.", "I don't have a dog."),
        ("I have a cat.", "I don't have a black cat."),
        ("I have time.", "I don't have time today."),
        ("I'm allergic to nuts.", "My son is not allergic to nuts."),
        ("I'm allergic to nuts.", "I wish I wasn't allergic to nuts."),
        ("I smoke.", "I want to quit smoking."),
        ("I smoke.", 'My brother told me: "I don\'t smoke any more."'),
        ("I speak French.", "If I didn't speak French, I'd learn it."),
        ("My gym is closed on Mondays.", "My gym is open on Tuesdays."),
        ("我有一只猫", "我没有狗"),
        ("我有车", "今天我没有车"),
        ("我抽烟", "我想戒烟"),
        ("我对花生过敏", "医生说我对花生不过敏"),
        ("健身房周一关门", "健身房周二开门"),
    ],
)
def test_what_only_looks_like_a_negation_conflicts_with_nothing(
    stubs: Stubs, scope: types_pb.Scope, older: str, newer: str
) -> None:
    """Neither another thing, person or day, nor a wish, a supposition or what others say."""
    before = create(stubs, scope, older)

    assert not write(stubs, scope, newer).conflicts
    assert ACTIVE == get(stubs, scope, before.id).status


def test_what_arrives_late_is_the_older_side_of_its_negation(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What a dated statement says is denied by one that was said after it, whichever was written first."""
    after = create(stubs, scope, "我戒烟了")
    memory = types_pb.Memory(content="我抽烟")
    memory.event_time.FromSeconds(1_700_000_000)
    reply = write(stubs, scope, memory)

    assert [(reply.memory.id, after.id)] == [(one.older_memory_id, one.newer_memory_id) for one in reply.conflicts]
    assert CONFLICTED == reply.memory.status
