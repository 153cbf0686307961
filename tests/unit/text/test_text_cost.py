"""The cost of text: no function of text takes much longer for hostile text than for prose of the same length."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pytest

import memsvc.text
from memsvc.domain.vault import NoteError
from memsvc.text import (
    analysis,
    capture_rules,
    chunking,
    file_refs,
    paraphrase,
    passages,
    recalled_text,
    reminder_dates,
    reminder_extraction,
    sentences,
    snippets,
)
from memsvc.text.vault_notes import read_note
from memsvc.text.vault_notes.parser import FRONT_DEPTH, load_front

CHARS = 3_000
MOST = 30.0
"""How many times the time of prose a text may take, by character. What grows with the square took 100 to 4 000 times."""
MOST_GROWTH = 9.0
"""How many times the time a line of four times the length may take. What grows with the square takes 16 times."""
REFERENCE_SHARE = 0.25
"""Functions that hardly look at prose are compared with this share of the time of `terms`."""
PROSE = (
    'Anna moved to Lisbon in the spring, and works at the harbour. On 3 March 2026 she said: "I like green tea."\n\n',
    "安娜在春天搬到了里斯本，和她的哥哥一起在港口工作。她说：“我喜欢绿茶，下周三上午十点见。”\n\n",
    "# Plan\n\n* call Ben at 10:00\n* the printer is `broken`, see [[Note]]\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n",
)
UNITS = (
    "[", "[[", "[[a|", "[[a]]", "[a](", "![", "- a\n", "- ", "# a\n", "1. a\n", "> ", "`", "*", "_", "|a", "---\n", "a\n=\n", "<a ",
    "\n", " ", "\t", "\r\n", "a", "a.", ". ", "a b c\n", "我", "我。", "，", "：", "“", '"', "'s ", "(", "{", ":", "key: ", "1", "1 ",
    "2026-03-0", "10:", "0.", "a=", "a@", "x-", "http://a.", "/", "\ufdfa", "a\u0301\u0301", "\0", "\u200d", "😀", "カ", "한",
    "ไ", "ع", "and ", "I am ", "my ", "is ", "not ", "in ", "every ", "remind me ", "tomorrow ", "Anna's ", "Anna is a ",
    "prefer than ", "我的", "是", "就", "每天", "记得", "十", "月", "点", "during my ",
)  # fmt: skip
WORDS = (
    "哈",
    "嗯",
    "哦",
    "来",
    "请你",
    "我想",
    "刚满",
    "刚",
    "真的",
    "好啊",
    "是啊",
    "的",
    "ha",
    "ok ",
    "so ",
    "well done ",
)
OTHERS: dict[str, Callable[[str], Any]] = {
    "matching_spans": lambda text: analysis.matching_spans(text, {"anna", "安娜"}),
    "sentence_ends": lambda text: list(sentences.sentence_ends(text, 0, len(text))),
    "snippet": lambda text: snippets.snippet(text, {"anna", "安娜"}),
    "named_days": lambda text: reminder_dates.named_days(text, date(2026, 3, 1)),
    "reminder_in": lambda text: reminder_extraction.reminder_in(text, datetime(2026, 3, 1, tzinfo=UTC)),
    "judge_day_ahead": lambda text: capture_rules.judge_day_ahead(text, datetime(2026, 3, 1, tzinfo=UTC)),
    "is_beside_due": lambda text: reminder_extraction.is_beside_due(f"The rent is due on 3 May. {text}", text),
    "previous_line": lambda text: passages.previous_line("anna", text),
    "passage": lambda text: passages.passage(text=text, speaker="", title="", heading_path=(), moment=None),
    "is_rewording_of": lambda text: paraphrase.is_rewording_of(text, PROSE[0]),
    "is_part_of": lambda text: recalled_text.is_part_of(text, text + text),
    "link_refs": lambda text: file_refs.link_refs(text, {}),
    "overlap_start": lambda text: chunking.overlap_start(text, 0, len(text), 300),
    "read_note": lambda text: read_note(text.encode("utf-8", "replace")),
    "read_note of front matter": lambda text: read_note(f"---\ntitle: x\nnote: {text}\n---\nbody".encode()),
}
"""Functions that need more than a text."""


def functions() -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Yield each public function of `memsvc.text` that takes a text alone, and the others of `OTHERS`."""
    for found in pkgutil.walk_packages(memsvc.text.__path__, "memsvc.text."):
        module = importlib.import_module(found.name)
        for name, function in sorted(vars(module).items()):
            if name.startswith("_") or inspect.isclass(function) or not callable(function):
                continue
            if getattr(function, "__module__", "") != module.__name__:
                continue
            needed = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
            if len(needed) == 1 and needed[0].annotation == "str" and function is not load_front:
                yield f"{found.name.removeprefix('memsvc.text.')}.{name}", _consumed(function)
    yield from OTHERS.items()


def _consumed(function: Callable[[str], Any]) -> Callable[[str], Any]:
    def call(text: str) -> object:
        found = function(text)
        return list(found) if isinstance(found, Iterator) else found

    return call


FUNCTIONS = dict(functions())
_numbers = itertools.count()


def repeated(unit: str, chars: int = CHARS) -> str:
    """Return a text of about so many characters that no call has seen, so that no cache knows it."""
    return (unit * (chars // len(unit) + 1))[:chars] + f" {next(_numbers)}"


def seconds(function: Callable[[str], Any], make: Callable[[], str], runs: int) -> float:
    """Return the least CPU time of some runs on new texts; a refusal counts as an answer."""
    spent = []
    for _ in range(runs):
        text = make()
        before = time.process_time()
        with suppress(ValueError, LookupError, NoteError):
            function(text)
        spent.append(time.process_time() - before)
    return min(spent)


def texts() -> dict[str, Callable[[], str]]:
    """Return what makes each hostile text, by name: repeated parts, and random ones of signs."""
    made: dict[str, Callable[[], str]] = {repr(unit): partial(repeated, unit) for unit in UNITS}
    for seed in range(4):
        chance = random.Random(seed)
        signs = "".join(chance.choice("[]()*_`#->|.:'\"，。我 a1\n") for _ in range(CHARS))
        made[f"signs {seed}"] = partial(repeated, signs)
    chance = random.Random(9)
    made["characters"] = partial(repeated, "".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(CHARS)))
    made["numbers"] = partial(repeated, " ".join(f"{chance.getrandbits(24):x}" for _ in range(CHARS)))
    return made


HOSTILE = texts()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hostile_text_costs_about_as_much_as_prose(name: str) -> None:
    """By CPU time, as a ratio to prose of the same length in the same process."""
    function = FUNCTIONS[name]
    usual = max(seconds(function, partial(repeated, prose), 3) for prose in PROSE)
    reference = seconds(lambda text: list(analysis.terms(text)), partial(repeated, PROSE[0]), 5)
    bound = MOST * max(usual, REFERENCE_SHARE * reference)

    slow = {
        text: taken / bound * MOST
        for text, make in HOSTILE.items()
        # Again only what seemed slow: this machine may have been busy.
        if (taken := seconds(function, make, 1)) > bound and (taken := seconds(function, make, 4)) > bound
    }

    assert not slow


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_line_four_times_as_long_costs_about_four_times_as_much(name: str) -> None:
    """A line of prose, too: its own cost would hide what grows with the square from the comparison above."""
    function = FUNCTIONS[name]
    least = REFERENCE_SHARE * seconds(lambda text: list(analysis.terms(text)), partial(repeated, PROSE[0]), 5)

    def growth(unit: str, runs: int) -> float:
        short = max(seconds(function, partial(repeated, unit), runs), least)
        return seconds(function, partial(repeated, unit, 4 * CHARS), runs) / short

    assert not [
        unit
        for unit in (*(prose.strip() + " " for prose in PROSE[:2]), "1 ", "a", "and ", "十", "我", "“")
        # Again only what seemed slow: this machine may have been busy.
        if growth(unit, 1) > MOST_GROWTH and growth(unit, 4) > MOST_GROWTH
    ]


@pytest.mark.parametrize("unit", ["- a\n", "# a\n", "1. a\n", "a\n=\n", "```\n", "> ", "[", ". ", "\n", "a.", "我"])
def test_chunking_is_linear_up_to_the_longest_memory(unit: str) -> None:
    """Four times as long takes about four times as long, and a character no more than thirty times that of prose."""
    usual = seconds(chunking.chunk, partial(repeated, PROSE[0], 250_000), 2)
    short = seconds(chunking.chunk, partial(repeated, unit, 250_000), 2)

    assert short < MOST * usual
    assert seconds(chunking.chunk, partial(repeated, unit, 1_000_000), 1) < 12 * max(short, usual)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_repeated_word_can_be_read_in_one_way_only(name: str) -> None:
    """With two ways for each word, as "哈" and "哈哈", a pattern takes twice the time with each further one."""
    function = FUNCTIONS[name]
    least = REFERENCE_SHARE * seconds(lambda text: list(analysis.terms(text)), partial(repeated, PROSE[0]), 5)

    def growth(word: str, runs: int) -> float:
        short = max(seconds(function, lambda: f"{word * 10}x{next(_numbers)}", runs), least)
        return seconds(function, lambda: f"{word * 20}x{next(_numbers)}", runs) / short

    assert not [word for word in WORDS if growth(word, 1) > MOST_GROWTH and growth(word, 4) > MOST_GROWTH]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_text_of_many_short_lines_keeps_its_headings(newline: str) -> None:
    """It is cut before headings although it is not parsed; those between fences are none, and no line is lost."""
    items = newline.join(f"- {number}" for number in range(1_000))
    parts = [f"# 第 {number} Part{newline}{items}{newline}" for number in range(4)]
    text = newline.join(parts) + f"```{newline}# no heading{newline}{items}{newline}```{newline}"
    assert text.count("\n") > chunking.MANY_LINES

    pieces = chunking.chunk(text)

    assert {piece.heading_path for piece in pieces} == {(f"第 {number} Part",) for number in range(4)}
    lines = [line for piece in chunking.chunk(text, overlap_tokens=0) for line in piece.text.split()]
    assert lines == text.split()


@pytest.mark.parametrize("brackets", ["[", "{", "[{"])
def test_front_matter_of_deep_brackets_is_refused(brackets: str) -> None:
    """Before it is parsed, and with the line; ordinary lists are read, and brackets of content do not count."""
    deep = f"---\ntitle: x\nnote: {brackets * 10_000}\n---\nbody"
    with pytest.raises(NoteError, match=f"more than {FRONT_DEPTH} brackets"):
        read_note(deep.encode())

    note = read_note(f"---\ntags: [a, 乙, {'c'}]\n---\n{brackets * 10_000}".encode())
    assert note.values["tags"] == ("a", "乙", "c")
