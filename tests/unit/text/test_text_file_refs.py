"""References to files, found in texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain import limits
from memsvc.domain.files import format_ref
from memsvc.domain.memory import FileRef
from memsvc.text.file_refs import READ_CHARS, content_with_block, refs_given_apart, refs_in
from tests.unit.domain.test_file_refs import REFS

SEED = """# 业务分析

用户分析了 Q1 销售数据，发现 GMV 增长 15%。

**关联文件**:
- 数据: `artifact:abc123`  # 原始数据
- 图表: `chart:def456`     # 趋势图
- 报告: `report:789xyz`   # 完整报告

![异常图表](chart:ghi789)  # 内联图片

详细分析见 `artifact:jkl012`，10:30 见 http://example.com/chart:no
"""


def test_all_forms_are_found_in_order() -> None:
    """Code spans, links and images, in Chinese and English, and nothing else."""
    assert [format_ref(ref) for ref in refs_in(SEED)] == [
        "artifact:abc123", "chart:def456", "report:789xyz", "chart:ghi789", "artifact:jkl012",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[周报](report:周报.pdf)", ["report:周报.pdf"]),
        ('![x](chart:a "a title")', ["chart:a"]),
        ("[x](<upload:my%20file>)", ["upload:my%20file"]),
        ("[![x](chart:in)](report:out)", ["report:out", "chart:in"]),
        ("see [the report][1]\n\n[1]: report:z", ["report:z"]),
        ("<chart:a>", ["chart:a"]),
        ("``chart:a`` and ` chart:b `", ["chart:a", "chart:b"]),
        ("- one\n  - `temp:a`\n\n> `cache:b`", ["temp:a", "cache:b"]),
        ("| a | `chart:a` |", ["chart:a"]),
        ("\\![x](chart:a)", ["chart:a"]),
        ("`chart:a` `chart:a`", ["chart:a"]),
    ],
)
def test_what_is_found(text: str, found: list[str]) -> None:
    """Whatever Markdown takes for a code span, a link or an image."""
    assert [format_ref(ref) for ref in refs_in(text)] == found


@pytest.mark.parametrize(
    "text",
    [
        "", "artifact:abc", "at 10:30", "`http:abc` `10:30` `key:value`", "[x](http://chart:a)", "\\`chart:a\\`",
        "```\n`chart:a`\n```", "    `chart:a`", "- a\n  ```\n  [x](chart:a)\n  ```", "`see chart:a`", "`chart:a``",
        "`` `chart:a` ``", "[x](chart:a?b=1)", "\\[x](chart:a)", "[x] (chart:a)", "`chart:{id}`", "`Chart:a`",
    ],
)  # fmt: skip
def test_what_is_not_found(text: str) -> None:
    """Other schemes and times, prose, blocks of code, and what is escaped."""
    assert refs_in(text) == ()


@given(st.lists(REFS, min_size=1, max_size=5, unique=True), st.sampled_from(["`{}`", "[x]({})", "![图]({})", "<{}>"]))
def test_whatever_is_written_is_found(refs: list[FileRef], form: str) -> None:
    """What the API takes as a reference can be said in a text."""
    refs = [ref for ref in refs if form != "<{}>" or format_ref(ref).isascii()]

    assert list(refs_in("见 " + " 与 ".join(form.format(format_ref(ref)) for ref in refs))) == refs


@given(st.text(alphabet="`[]()!<>\\ \n-chart:a1%", max_size=200))
def test_any_text_can_be_looked_at(text: str) -> None:
    """Each reference is found once, and is one that can be written again."""
    found = refs_in(text)

    assert len(set(found)) == len(found)
    assert all(format_ref(ref) in text for ref in found)


def test_only_as_many_as_a_memory_may_have_are_found() -> None:
    """The first ones."""
    text = "\n\n".join(f"`chart:{number}`" for number in range(limits.FILE_REFS + 10))

    assert [ref.id for ref in refs_in(text)] == [str(number) for number in range(limits.FILE_REFS)]


def test_a_long_paragraph_is_looked_at_in_pieces() -> None:
    """A reference at the end of a long line is found too."""
    assert refs_in("数据" * 10_000 + " `chart:end`") == (FileRef("chart", "end"),)


def test_only_so_much_is_taken_apart() -> None:
    """A text made to be slow holds nobody up; what is found by then counts."""
    piece = "`chart:{}` " + "[ " * 1_000
    text = "\n\n".join(piece.format(number) for number in range(limits.FILE_REFS))

    found = refs_in(text)

    assert [ref.id for ref in found] == [str(number) for number in range(READ_CHARS // len(piece) + 1)]


def test_the_block_holds_what_the_content_does_not() -> None:
    """In the language of the content; a content that says all stays as it is."""
    refs = (FileRef("chart", "a"), FileRef("report", "b"))

    assert refs_given_apart("See `chart:a`.", refs) == (FileRef("report", "b"),)
    assert content_with_block("See `chart:a`.", refs) == "See `chart:a`.\n\n**Related files**:\n- `report:b`\n"
    assert content_with_block("分析完成。", refs[:1]) == "分析完成。\n\n**关联文件**:\n- `chart:a`\n"
    assert content_with_block("`chart:a` `report:b`", refs) == "`chart:a` `report:b`"
