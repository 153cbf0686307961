"""Chunking of long contents."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.analysis import Script
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.chunking import ChunkPiece, chunk, count_tokens

ENGLISH = " ".join(NEUTRAL_SENTENCES[Script.LATIN])
CHINESE = "".join(NEUTRAL_SENTENCES[Script.HAN])

LINES = st.sampled_from(
    [
        "# One", "## Two 二", "### Three", "plain words here. And more.", "中文句子。还有一句！没有空格", "", "   ",
        "- item", "  - nested item", "1. first", "> quote", "```", "~~~py",
        "    indented code", "---", "===", "| a | b |",
        "[ref]: http://example.com", "<div>",
        "# comment", "\tтекст", "x" * 50, "中" * 30, "a\rb", "😀 🎉", "line\u2028sep",
    ]
)  # fmt: skip
DOCUMENTS = st.lists(LINES, max_size=40).map("\n".join) | st.text()


def assert_covers(text: str, pieces: list[ChunkPiece], max_tokens: int) -> None:
    """Check that pieces are slices of the lines they name, fit, come in order and leave no visible text out."""
    lines = text.split("\n")
    line_starts = [0]
    for line in lines:
        line_starts.append(line_starts[-1] + len(line) + 1)
    covered = 0
    for piece in pieces:
        assert count_tokens(piece.text) <= max_tokens
        assert 1 <= piece.start_line <= piece.end_line <= len(lines)
        assert piece.text.count("\n") == piece.end_line - piece.start_line
        named = "\n".join(lines[piece.start_line - 1 : piece.end_line])
        assert piece.text in named
        # The slice that leaves no visible gap to the text before is the one meant.
        first = line_starts[piece.start_line - 1]
        places = [at for at in range(first, first + len(named)) if text.startswith(piece.text, at)]
        assert any(not text[covered:at].strip() for at in places)
        at = max(at for at in places if not text[covered:at].strip())
        covered = max(covered, at + len(piece.text))
    assert not text[covered:].strip()


def test_text_that_fits_is_one_whole_piece() -> None:
    """Short content is not parsed: one piece, the text as it is, no heading path."""
    assert chunk("# Title\n\n文字 text\n") == [ChunkPiece("# Title\n\n文字 text\n", (), 1, 3)]
    assert chunk("") == [ChunkPiece("", (), 1, 1)]


def test_sections_start_pieces_and_name_their_headings() -> None:
    """Each section is a piece of its own with the path of headings above it."""
    text = f"# Guide\n\n## Install\n\n{ENGLISH[:900]}\n\n## 使用\n\n{CHINESE[:200]}\n\n# Notes\n\n{ENGLISH[:900]}"

    pieces = chunk(text, max_tokens=300)

    assert [piece.heading_path for piece in pieces] == [("Guide", "Install"), ("Guide", "使用"), ("Notes",)]
    assert [piece.start_line for piece in pieces] == [1, 7, 11]
    assert pieces[1].text.startswith("## 使用")
    assert_covers(text, pieces, 300)


def test_hash_in_a_fence_is_no_heading() -> None:
    """A comment in code opens no section, and code that fits stays whole."""
    code = "```sh\n# install\npip install x\n# run\n```"
    text = f"# Real\n\n{ENGLISH[:600]}\n\n{code}\n\n{ENGLISH[:600]}"

    pieces = chunk(text, max_tokens=200, overlap_tokens=0)

    assert {piece.heading_path for piece in pieces} == {("Real",)}
    assert sum(code in piece.text for piece in pieces) == 1
    assert_covers(text, pieces, 200)


def test_front_matter_is_no_heading() -> None:
    """Front matter stays in the text and out of the heading path."""
    text = f"---\ntitle: A\ntags: b\n---\n# Real\n\n{ENGLISH}\n"

    pieces = chunk(text, max_tokens=200)

    assert {piece.heading_path for piece in pieces} == {("Real",)}
    assert pieces[0].text.startswith("---\ntitle: A")


@pytest.mark.parametrize("text", [ENGLISH * 4, CHINESE * 4, (ENGLISH + CHINESE) * 3])
def test_plain_text_is_cut_at_sentence_ends_with_overlap(text: str) -> None:
    """Text without Markdown, in either language, breaks between sentences, and neighbours share some."""
    pieces = chunk(text, max_tokens=100, overlap_tokens=30)

    assert len(pieces) > 3
    assert all(piece.text[-1] in ".?。！" for piece in pieces)
    assert_covers(text, pieces, 100)
    for before, after in pairwise(pieces):
        shared = max(size for size in range(len(after.text)) if before.text.endswith(after.text[:size].rstrip()))
        assert 0 < count_tokens(after.text[:shared]) <= 30


def test_overlap_stays_inside_its_section() -> None:
    """A section never repeats the end of another one."""
    text = f"# A\n\n{ENGLISH}\n\n# B\n\n{CHINESE}"

    pieces = chunk(text, max_tokens=120, overlap_tokens=40)

    first_of_b = next(piece for piece in pieces if piece.heading_path == ("B",))
    assert first_of_b.text.startswith("# B")


def test_long_list_is_cut_between_items() -> None:
    """A list that does not fit breaks before an item, not inside one."""
    text = "\n".join(f"- item number {number} with 一些 words. And more." for number in range(60))

    pieces = chunk(text, max_tokens=100, overlap_tokens=0)

    assert all(piece.text.startswith("- item") for piece in pieces)
    assert_covers(text, pieces, 100)


@pytest.mark.parametrize("character", ["a", "中", "😀", "é"])
def test_text_without_any_border_is_cut_between_characters(character: str) -> None:
    """Even one endless word is cut to size, with overlap."""
    pieces = chunk(character * 3000, max_tokens=50, overlap_tokens=10)

    assert all(count_tokens(piece.text) <= 50 for piece in pieces)
    assert sum(len(piece.text) for piece in pieces) > 3000


def test_heading_keeps_company() -> None:
    """A heading is not left alone before a paragraph that would fit only without it."""
    text = f"# Heading\n\n{ENGLISH[:396]}\n\n{ENGLISH}"

    pieces = chunk(text, max_tokens=100)

    assert pieces[0].text.startswith("# Heading\n\nI finally")


def test_tiny_sections_share_a_piece() -> None:
    """Small neighbours are joined under the headings they share, until the piece is worth having."""
    text = "# Log\n\n" + "\n\n".join(f"## {hour:02}:00\n\n喝了一杯 coffee." for hour in range(60))

    pieces = chunk(text, max_tokens=200)

    assert 3 < len(pieces) < 40
    assert all(piece.heading_path[:1] == ("Log",) for piece in pieces)
    assert_covers(text, pieces, 200)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, st.integers(1, 40), st.integers(0, 20))
def test_no_visible_text_is_lost(text: str, max_tokens: int, overlap_tokens: int) -> None:
    """Whatever the document and sizes, pieces fit, are slices of the named lines, and cover every line."""
    pieces = chunk(text, max_tokens=max_tokens, overlap_tokens=overlap_tokens)

    if len(pieces) == 1 and pieces[0].text == text:
        assert count_tokens(text) <= max_tokens
    else:
        assert_covers(text, pieces, max_tokens)


@pytest.mark.parametrize(("max_tokens", "overlap_tokens"), [(0, 0), (10, -1)])
def test_senseless_sizes_are_refused(max_tokens: int, overlap_tokens: int) -> None:
    """Sizes that cannot work raise ValueError."""
    with pytest.raises(ValueError, match="max_tokens"):
        chunk("text", max_tokens=max_tokens, overlap_tokens=overlap_tokens)


@pytest.mark.parametrize("line", ["x y\n", "中文", "- item\n", "a. b\n\n", "x"])
def test_time_grows_with_the_text(line: str) -> None:
    """Ten times the text takes nowhere near a hundred times as long."""

    def seconds(size: int) -> float:
        text = line * (size // len(line))
        start = time.process_time()
        chunk(text)
        return time.process_time() - start

    assert seconds(300_000) < 40 * seconds(30_000) + 0.5
