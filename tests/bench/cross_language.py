"""Questions in one language about memories in another: our own, among at least a thousand memories of both languages."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random

from memsvc.text.analysis import Script, script_of
from tests.bench.conversations import Conversation, Probe, Said

PAIRS = Path(__file__).parent / "data" / "cross_language.jsonl"
_SEED = 20261124
_PEOPLE = {
    "en": ("Anna", "Ben", "Carla", "David", "Elena", "Frank", "Grace", "Hugo", "Irene", "Jonas", "Karen", "Louis"),
    "zh": ("阿强", "小芳", "建国", "美玲", "志远", "秀英", "文博", "雅琴", "国华", "丽萍", "子轩", "梦瑶"),
}
_DOINGS = {
    "en": (
        "has started to learn {} in the evenings",
        "talked for an hour about {}",
        "gave up {} because it takes too much time",
        "would like to read a good book on {}",
    ),
    "zh": ("最近每天晚上都在学{}", "跟我聊了一个小时的{}", "觉得{}太花时间，不想继续了", "想找一本讲{}的好书"),
}
_SUBJECTS = {
    "en": (
        "pottery",
        "Spanish",
        "the piano",
        "gardening",
        "photography",
        "swimming",
        "bread baking",
        "astronomy",
        "chess",
        "programming",
        "first aid",
    ),
    "zh": ("陶艺", "西班牙语", "钢琴", "园艺", "摄影", "游泳", "烤面包", "天文", "国际象棋", "编程", "急救"),
}


def cross_language() -> Conversation:
    """Return one user's memory in two languages, whose questions are all in the other language than their answers.

    528 English and 528 Chinese memories of the same kinds surround the answers, in an order that is always the same.
    """
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    texts = [pair["memory"] for pair in pairs]
    for language, people in _PEOPLE.items():
        stop = "。" if language == "zh" else "."
        texts += [
            f"{person}{'' if language == 'zh' else ' '}{doing.format(subject)}{stop}"
            for person, doing, subject in product(people, _DOINGS[language], _SUBJECTS[language])
        ]
    order = list(range(len(texts)))
    Random(_SEED).shuffle(order)
    lines = tuple(Said(f"m{number}", "", "", texts[number], None) for number in order)
    questions = tuple(_probe(pair["question"], f"m{number}") for number, pair in enumerate(pairs))
    return Conversation("cross-language", lines, questions)


def _probe(text: str, evidence: str) -> Probe:
    """Return a question of category 1 in English, or of category 2 in Chinese."""
    is_english = script_of(text) is Script.LATIN
    return Probe(text, (evidence,), 1 if is_english else 2, "en" if is_english else "zh")
