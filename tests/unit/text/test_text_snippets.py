"""Snippets show why a text was found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.analysis import Script, query_terms, terms
from memsvc.text.calibration_sentences import NEUTRAL_SENTENCES
from memsvc.text.snippets import Snippet, snippet

ENGLISH = "\n".join(NEUTRAL_SENTENCES[Script.LATIN])
CHINESE = "\n".join(NEUTRAL_SENTENCES[Script.HAN])


def marked(found: Snippet) -> list[str]:
    """Return the marked words of a snippet."""
    return [found.text[start:end] for start, end in found.spans]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("She went to the adoption agency.", "When did she go to an agency?", ["went", "agency"]),
        ("昨天我去了图书馆。", "图书馆在哪里", ["图书馆"]),
        ("我用 Docker 部署了服务器", "docker 服务器", ["Docker", "服务器"]),
        ("see src/main.py", "main.py", ["main.py"]),
        ("nothing here", "something else entirely different", []),
    ],
)
def test_short_text_is_whole_with_its_matches_marked(text: str, query: str, expected: list[str]) -> None:
    """Marks follow analysed equality: other forms of a word and Chinese words count."""
    found = snippet(text, query_terms(query))

    assert found.text == text
    assert marked(found) == expected
    assert (found.start_line, found.end_line) == (1, 1)


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        (ENGLISH, "old bicycle brakes", {"old", "bicycle", "brakes"}),
        (CHINESE, "医生散步咖啡", {"医生", "散步", "咖啡"}),
    ],
)
def test_window_holds_the_most_distinct_terms(text: str, query: str, expected: set[str]) -> None:
    """The window lies where the query's words meet, not where one of them comes first."""
    found = snippet(text, query_terms(query), width=80)

    assert expected <= set(marked(found))
    assert len(found.text) <= 80
    assert found.text[0] == found.text[-1] == "…"
    line = next(
        number for number, content in enumerate(text.split("\n"), 1) if all(word in content for word in expected)
    )
    assert found.start_line <= line <= found.end_line


def test_window_is_cut_between_words() -> None:
    """No word is cut in two at either end."""
    found = snippet(ENGLISH, query_terms("theatre"), width=100)

    words = set(ENGLISH.split())
    assert all(word in words for word in found.text.strip("…").split())


def test_without_a_match_the_window_is_the_beginning() -> None:
    """Text found by meaning alone still shows something."""
    found = snippet(ENGLISH, ["zebra"], width=60)

    assert found == Snippet("I finally finished the report and sent it to the whole…", (), 1, 1)


def test_empty_text_and_query() -> None:
    """Nothing in gives nothing out."""
    assert snippet("", []) == Snippet("", (), 1, 1)


def test_neighbouring_matches_are_one_span() -> None:
    """Chinese words that touch are marked together."""
    assert snippet("北京大学图书馆", ["北京", "大学", "图书馆"]).spans == ((0, 7),)


@settings(deadline=None)
@given(
    st.text(alphabet="ab cd\n中文学习，。-._’é𠮷", max_size=200) | st.text(max_size=100),
    st.sets(st.sampled_from(["ab", "cd", "中文", "学习", "a", "b"])),
    st.integers(1, 60),
)
def test_spans_and_lines_are_valid(text: str, wanted: set[str], width: int) -> None:
    """Spans are sorted, apart and inside; the window is part of the lines it names and holds a match if any."""
    found = snippet(text, wanted, width=width)

    assert len(found.text) <= max(width, 3)
    previous = -1
    for start, end in found.spans:
        assert previous < start < end <= len(found.text)
        previous = end
    body = found.text if len(text) <= width else found.text.removeprefix("…").removesuffix("…")
    lines = text.split("\n")
    assert body in "\n".join(lines[found.start_line - 1 : found.end_line]) + "\n"
    assert bool(found.spans) == bool(wanted & set(terms(text)))
