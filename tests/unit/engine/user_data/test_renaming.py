"""Contents get the new ids of files where they refer to them, and nowhere else."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.memory import FileRef
from memsvc.engine.user_data.decode import file_ref_positions, rename_file_refs
from memsvc.text.file_refs import refs_in

OLD, OTHER, NEW = (str(uuid.UUID(int=number)) for number in (7, 8, 9))
NAMES = {OLD: NEW}


def moved(content: str) -> str:
    """Return a content under new names."""
    return rename_file_refs(content, file_ref_positions(content), NAMES)


@pytest.mark.parametrize(
    "content",
    [
        f"See `chart:{OLD}`.",
        f"`chart:{OLD}` and again `chart:{OLD}`",
        f'[a chart](chart:{OLD}) ![t](memory:{OLD} "title") <report:{OLD}>',
        f"[a chart][1]\n\n[1]: chart:{OLD}",
        f"* one\n\n  `upload:{OLD}`\n\n> `upload:{OLD}`",
        f"见`chart:{OLD}`。",
        f"`chart:{OLD.replace('-', '%2D')}`",
    ],
)  # fmt: skip
def test_references_are_renamed(content: str) -> None:
    """In code spans, links and images, however the id is written."""
    assert refs_in(content)
    assert content.replace(OLD, NEW).replace(OLD.replace("-", "%2D"), NEW) == moved(content)
    assert refs_in(moved(content)) == tuple(FileRef(ref.category, NEW) for ref in refs_in(content))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no references: none",
        f"the chart chart:{OLD} (chart:{OLD}) {OLD} `{OLD}`",
        f"```\n`chart:{OLD}`\n```\n\n    `chart:{OLD}`",
        f"`the chart:{OLD}` `mychart:{OLD}` `http:{OLD}`",
        f"`chart:{OTHER}` `chart:f1` `chart:{OLD}x`",
    ],
)
def test_what_is_no_reference_stays(content: str) -> None:
    """Prose, examples in blocks of code, other files, and what others name as they like."""
    assert content == moved(content)


def test_one_place_may_be_a_reference_and_another_none() -> None:
    """The same words mean different things in different places."""
    content = f"chart:{OLD} is `chart:{OLD}`\n\n```\n`chart:{OLD}`\n```\n"

    assert f"chart:{OLD} is `chart:{NEW}`\n\n```\n`chart:{OLD}`\n```\n" == moved(content)


def test_a_reference_is_renamed_wherever_it_is_repeated() -> None:
    """Also more often than a memory may have references."""
    content = f"`chart:{OLD}` is a chart, says the text.\n\n" * 300

    assert content.replace(OLD, NEW) == moved(content)


PIECES = st.sampled_from(
    [f"`chart:{OLD}`", f"[x](chart:{OLD})", f"![x](memory:{OTHER})", f"chart:{OLD}", "`", "```\n", "\n\n", " ", "    ",
     "- ", "word", "`chart:f1`", "](", "[x]", "\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_the_references_of_a_renamed_content_are_the_renamed_ones(content: str) -> None:
    """Whatever the text looks like, and nothing else of it changes."""
    after = moved(content)

    assert tuple(FileRef(r.category, NAMES.get(r.id, r.id)) for r in refs_in(content)) == refs_in(after)
    assert content == after.replace(NEW, OLD)
