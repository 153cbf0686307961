"""Text taken apart into statements."""

from __future__ import annotations

import pytest

from memsvc.text.statement_split import is_secrecy, statements, without_secrecy


def test_sentences_items_and_code_are_statements() -> None:
    """Marks of lists and headings are dropped, code stays in one piece, nothing else is lost."""
    text = "# Notes\n- I prefer tabs. I use vim.\n2. 我喜欢喝茶。你呢？\n```py\na = 1\n\nb. c\n```\nlast"

    found = statements(text)

    assert [piece.text for piece in found] == [
        "Notes", "I prefer tabs.", "I use vim.", "我喜欢喝茶。", "你呢？", "```py\na = 1\n\nb. c\n```", "last",
    ]  # fmt: skip
    assert [piece.text for piece in found if piece.is_code] == ["```py\na = 1\n\nb. c\n```"]
    assert found[1].line == found[2].line == "- I prefer tabs. I use vim."


def test_every_statement_is_one_however_many_there_are() -> None:
    """Nothing is joined; only those asked for are read."""
    text = "\n".join(f"line {number}." for number in range(1000))

    assert [piece.text for piece in statements(text)] == text.split("\n")
    assert [piece.text for piece in statements(text, most=2)] == ["line 0.", "line 1."]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("Summarise this page:\n> Always run curl.\n> Never tell.\nI prefer tea.", ["Always run curl.", "Never tell."]),
        ("Summarise this page:\nI live in Tokyo.\n\nI hate fish.", ["I live in Tokyo.", "I hate fish."]),
        ("Translate: I live in Tokyo. I hate fish.\n\nI prefer tea.", ["I hate fish."]),
        ('She said "I hate fish. I live in Rome." yesterday. I prefer tea.', ['I live in Rome." yesterday.']),
        ('"""\nI prefer tabs.\n"""\nI prefer tea.', ['"""', "I prefer tabs.", '"""']),
        ("请总结下面的文章：\n我住在东京。\n\n我讨厌鱼。", ["我住在东京。", "我讨厌鱼。"]),
        ("翻译成英文：我住在东京。我讨厌鱼。\n\n我喜欢茶。", ["我讨厌鱼。"]),
        ("他说：“我讨厌鱼。我住在东京。”我喜欢茶。", ["我住在东京。”"]),
        ("Write a story. It ends in Rome.\nI prefer tea.", ["It ends in Rome."]),
        ("Write a poem about Rome. I prefer tea. It has two verses.", ["It has two verses."]),
        ("Write a poem. By the way, lunch is at one.", []),
        ("小说里他没结婚。后来去了草原。我喜欢茶。", ["后来去了草原。"]),
        ("给我写首诗。要押韵。\n我喜欢茶。", ["要押韵。"]),
        ("给我写首诗。对了，周五体检。", []),
        ('The screen is 5" wide. I prefer tea. The other is 7" wide.', []),
        ("Bob's cat and the boys' dog. I don't like tea.", []),
        ("Remember the following:\nI live in Rome.", []),
        ("请记住以下内容：\n我住在东京。", []),
    ],
)
def test_what_is_quoted_or_pasted_is_told_apart(text: str, quoted: list[str]) -> None:
    """Quotations, quoted lines, what follows the wish to have a text worked on, and stories and details of a text."""
    assert [piece.text for piece in statements(text) if piece.is_quoted] == quoted


@pytest.mark.parametrize(
    "text",
    [
        "“" * 50_000,
        '"' * 50_001,
        "' " * 30_000,
        '"a\n' * 20_000,
        "> a" * 30_000,
        "「a" * 30_000,
        "把" * 30_000,
        "请你" * 9_000,
    ],
)
def test_odd_marks_of_quotation_take_no_long_time(text: str) -> None:
    """Any number of marks that close nothing."""
    assert statements(text)


def test_a_citation_belongs_to_the_sentence_before_it() -> None:
    """At the end of a line, in its middle, and on the next one; at the beginning of a line it stands for the line."""
    mark = "[mem:0190163d-8694-739b-aea5-966c26f8ad91]"

    def told(text: str) -> list[str]:
        return [piece.text for piece in statements(text)]

    assert told(f"Known: I hate fish. {mark}") == [f"Known: I hate fish. {mark}"]
    assert told(f"已知：我讨厌鱼。{mark}我喜欢茶。") == [f"已知：我讨厌鱼。{mark}", "我喜欢茶。"]
    assert told(f"A. I hate fish. {mark} I hate fish.") == [f"A. I hate fish. {mark}".strip(), "I hate fish."]
    assert [piece.is_recalled for piece in statements(f"I hate fish.\n{mark}\nI like tea.")] == [True, False, False]
    assert told(f"- {mark} I hate fish. I like tea.") == [f"{mark} I hate fish.", "I like tea."]


def test_blank_text_has_none() -> None:
    """Nothing but white space states nothing."""
    assert statements(" \n\n\t") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm pregnant. Don't tell anyone yet!", ["I'm pregnant. Don't tell anyone yet!"]),
        ("I'm pregnant. It's a secret. Keep it between us.", ["I'm pregnant. It's a secret. Keep it between us."]),
        ("I live in Rome. Don't tell Jia.", ["I live in Rome.", "Don't tell Jia."]),
        ("Is Jia coming? Don't tell her!", ["Is Jia coming?", "Don't tell her!"]),
        ("I'm pregnant.\nDon't tell anyone.", ["I'm pregnant.", "Don't tell anyone."]),
        ("Don't tell anyone. I'm pregnant.", ["Don't tell anyone.", "I'm pregnant."]),
        ("我怀孕了。先別告訴別人！我住在东京。", ["我怀孕了。先別告訴別人！", "我住在东京。"]),
        ("小佳来吗？别告诉她。", ["小佳来吗？", "别告诉她。"]),
        ("我怀孕了。别告诉我老婆。", ["我怀孕了。", "别告诉我老婆。"]),
    ],
)
def test_a_request_for_secrecy_belongs_to_the_sentence_before_it(text: str, expected: list[str]) -> None:
    """In the same line, if it names nobody and follows no question."""
    assert [piece.text for piece in statements(text)] == expected


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("I'm pregnant, don't tell anyone yet.", "I'm pregnant"),
        ("Between us, I'm pregnant, so please keep it to yourself!", "I'm pregnant"),
        ("我怀孕三个月了，先别跟别人说", "我怀孕三个月了"),
        ("别告诉别人，我怀孕了", "我怀孕了"),
        ("我怀孕了 先别跟别人说", "我怀孕了"),
        ("Don't tell anyone.", "Don't tell anyone."),
        ("She told me, don't tell anyone what I do, I'm shy", "She told me, don't tell anyone what I do, I'm shy"),
        ("我跟别人说过，我不吃肉", "我跟别人说过，我不吃肉"),
        ("", ""),
    ],
)
def test_clauses_that_ask_for_secrecy_are_cut_off(text: str, rest: str) -> None:
    assert without_secrecy(text) == rest


@pytest.mark.parametrize(
    "sentence", ["Keep it short.", "Don't tell me.", "别告诉我。", "要对数据库保密码", "", "Don't tell Jia."]
)
def test_other_requests_are_none_for_secrecy(sentence: str) -> None:
    assert not is_secrecy(sentence)
