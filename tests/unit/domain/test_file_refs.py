"""How references to files are written, and the block that lists those given apart from a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain import limits
from memsvc.domain.files import (
    FILE_CATEGORIES,
    format_ref,
    ref_from,
    refs_after_change,
    union,
    with_block,
    without_block,
)
from memsvc.domain.memory import FileRef

IDS = st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1, max_size=20)
REFS = st.builds(FileRef, st.sampled_from(FILE_CATEGORIES), IDS)
TEXTS = st.one_of(
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=40),
    st.lists(
        st.sampled_from(
            [
                "",
                "\n",
                "\n\n",
                "**关联文件**:\n",
                "**Related files**:\n",
                "- `chart:x`\n",
                "- `chart:x`",
                "- `http:x`",
                "正文",
            ]
        ),
        max_size=8,
    ).map("".join),
)


@given(REFS)
def test_what_is_written_is_read_again(ref: FileRef) -> None:
    """Any id that the API takes can be written in a text."""
    assert ref_from(format_ref(ref)) == ref


@given(TEXTS, st.lists(REFS, max_size=4, unique=True), st.booleans())
def test_a_block_is_taken_off_as_it_was_put_on(content: str, given_refs: list[FileRef], is_chinese: bool) -> None:  # noqa: FBT001 - drawn
    """The content comes back to the letter, even when it ends with such a block itself."""
    text = with_block(content, given_refs, is_chinese=is_chinese)

    assert without_block(text) == (content, tuple(given_refs))


def test_the_block_is_that_of_the_language() -> None:
    """It is a list below a heading, in the language asked for."""
    ref = FileRef("artifact", "abc123")

    assert with_block("Notes.", [ref], is_chinese=False) == "Notes.\n\n**Related files**:\n- `artifact:abc123`\n"
    assert with_block("笔记。", [ref], is_chinese=True) == "笔记。\n\n**关联文件**:\n- `artifact:abc123`\n"


def test_a_content_without_given_references_stays_as_it_is() -> None:
    """No block is written for nothing."""
    assert with_block("See `artifact:abc123`.\n", [], is_chinese=False) == "See `artifact:abc123`.\n"


def test_white_space_after_a_block_does_not_count() -> None:
    """An editor may end a file as it likes."""
    assert without_block("x\n\n**关联文件**:\n- `chart:a`\n\n  \n") == ("x", (FileRef("chart", "a"),))


def test_a_block_that_was_changed_by_hand_is_text() -> None:
    """What is said of a file there is not lost."""
    text = "x\n\n**关联文件**:\n- 数据: `chart:a`\n"

    assert without_block(text) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "", "chart:", "chart", ":a", "http:a", "10:30", "Chart:a", "chart:a b", "chart: a", "chart://a", "chart:.a",
        "chart:a%2", "chart:%00", "chart:%FF", "chart:a?b", "chart:" + "a" * (limits.FILE_REF_ID + 1), "chart:a\n",
    ],
)  # fmt: skip
def test_what_is_no_reference(text: str) -> None:
    """Other schemes, times, and ids that the API does not take are none."""
    assert ref_from(text) is None


def test_a_union_is_limited_and_keeps_given_ones_first() -> None:
    """As many as a memory may have are kept."""
    many = [FileRef("chart", str(number)) for number in range(limits.FILE_REFS)]

    assert union([FileRef("report", "a"), many[0]], many) == (FileRef("report", "a"), *many[: limits.FILE_REFS - 1])


def test_found_references_follow_the_content_and_given_ones_stay() -> None:
    """What the content no longer refers to goes, unless it was given."""
    given_ref, old, kept, new = (FileRef("chart", name) for name in ("given", "old", "kept", "new"))

    assert refs_after_change([given_ref, old, kept], [old, kept], [kept, new]) == (given_ref, kept, new)
