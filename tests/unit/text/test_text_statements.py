"""Text taken apart into statements."""

from __future__ import annotations

from memsvc.text.statements import statements


def test_sentences_items_and_code_are_statements() -> None:
    """Marks of lists and headings are dropped, code stays in one piece, nothing else is lost."""
    text = "# Notes\n- I prefer tabs. I use vim.\n2. 我喜欢喝茶。你呢？\n```py\na = 1\n\nb. c\n```\nlast"

    found = statements(text)

    assert [piece.text for piece in found] == [
        "Notes", "I prefer tabs.", "I use vim.", "我喜欢喝茶。", "你呢？", "```py\na = 1\n\nb. c\n```", "last",
    ]  # fmt: skip
    assert [piece.text for piece in found if piece.is_code] == ["```py\na = 1\n\nb. c\n```"]
    assert found[1].line == found[2].line == "- I prefer tabs. I use vim."


def test_many_statements_are_joined() -> None:
    """No more than asked for, and every one is in it."""
    found = statements("\n".join(f"line {number}." for number in range(1000)), most=64)

    assert len(found) <= 64
    assert sum(piece.text.count("line") for piece in found) == 1000


def test_blank_text_has_none() -> None:
    """Nothing but white space states nothing."""
    assert statements(" \n\n\t") == []
