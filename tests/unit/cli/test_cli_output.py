"""Output of commands: tables on a terminal and in a pipe."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence

import pytest
from rich.cells import cell_len

from memsvc.cli.output import heading_of, highlighted, visible, write_table
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("title", "content", "heading"),
    [
        ("Harbour times", "Harbour times: it opens at dawn.", ""),
        ("harbour times", "## Harbour times\n\nIt opens at dawn.", ""),
        ("Harbour ti…", "Harbour times are posted at the gate.", ""),
        ("The harbour opens.", "The harbour opens at dawn.", ""),
        ("港口时间", "港口时间是早上六点。", ""),
        ("", "It opens at dawn.", ""),
        ("…", "… and then", "… - "),
        ("Tea", "Teapots are in the kitchen.", "Tea - "),
        ("Harbour", "It opens at dawn, the Harbour.", "Harbour - "),
        ("港口", "六点开门的是港口。", "港口 - "),
        ("The harbour opens at dawn", f"{'Notes. ' * 20}The harbour opens at dawn.", "The harbour opens at dawn - "),
        ("Harbour times of 2026", "Harbour times", "Harbour times of 2026 - "),
    ],
)
def test_a_title_that_the_content_begins_with_is_not_written_twice(title: str, content: str, heading: str) -> None:
    """Only whole words of it count, in either case and below a heading mark."""
    assert heading_of(types_pb.Memory(title=title, content=content)) == heading


@pytest.mark.parametrize(("title", "expected"), [("", "None.\n"), ("Reminders", "Reminders: none.\n")])
def test_a_table_without_rows_says_so_on_a_terminal(title: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person sees that the list is empty; no header is drawn over nothing."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    write_table(("id", "content"), [], title=title)

    assert terminal.getvalue() == expected


def test_a_table_without_rows_has_its_header_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs find the columns whether or not there are rows."""
    write_table(("id", "content"), [])

    assert capsys.readouterr().out == "id\tcontent\n"


IDS = [f"0193a2b4-5c6d-7e8f-9a0b-1c2d3e4f{number:04x}" for number in range(3)]
CONTENT = "The ferry to the island leaves at noon, 轮渡中午十二点从码头出发, and it returns at six in the evening."
TABLES = {
    "list": (("=id", "=date", "~content"), ("2026-11-24", CONTENT)),
    "reminders": (("=id", "=date", "=slot", "=overdue", "~content"), ("2026-11-24", "afternoon", "overdue", CONTENT)),
    "capture": (("=memory", "=why", "=scope", "=kind", "~text"), ("stated", "global", "preference", CONTENT)),
    "search": (("=memory", ">score", "=date", "why", "found"), ("0.812", "2026-11-24", "dense #1 0.83", CONTENT)),
    "keys": (
        ("=key", "name", "=role", "=state", "=expires", "tenant", "users", "projects"),
        ("operations", "read-write", "active", "2026-11-24 12:00", "", "ann, ben", "garden, house"),
    ),
}


def drawn(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the lines of a table on a terminal of so many columns, without colours."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    write_table(columns, rows, title="Title")
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()


@pytest.mark.parametrize("width", [45, 60, 80, 100, 160])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_fits_its_terminal(table: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider, no id is broken or lost, no column has no width, and every text shows its beginning."""
    columns, cells = TABLES[table]
    lines = drawn(columns, [(one, *cells) for one in IDS], width, monkeypatch)
    text = "\n".join(lines)

    assert max(map(cell_len, lines)) <= width
    assert [text.count(one) for one in IDS] == [1, 1, 1]
    assert "┃┃" not in text
    assert all(column.lstrip("=>~") in text for column, cell in zip(columns, ("", *cells), strict=True) if cell)
    assert CONTENT not in cells or text.count("The ferry") == 3


def test_texts_that_are_cut_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their place in the lines of a pipe."""
    wide = drawn(("=who", "~text", "=memory"), [("ann", CONTENT, IDS[0])], 100, monkeypatch)
    narrow = drawn(("=who", "~text", "=memory"), [("ann", CONTENT, IDS[0])], 45, monkeypatch)

    assert wide[2].split() == ["┃", "who", "┃", "memory", "┃", "text", "┃"]
    assert [line.split()[0] for line in narrow[2:]] == ["who", "memory", "text"]


def test_an_id_that_a_narrow_terminal_has_no_room_for_beside_its_name_gets_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one piece, so that it can be copied."""
    lines = drawn(("=reference", "name"), [(f"chart:{IDS[0]}", "sales.png")], 45, monkeypatch)

    assert [line.rstrip() for line in lines[2:]] == ["reference", f"chart:{IDS[0]}", "name       sales.png"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x00\x08\x0d\x7f\x80\x9f", r"\x00\x08\x0d\x7f\x80\x9f"),
        ("\u202a\u202b\u202c\u202d\u202e", r"\u202a\u202b\u202c\u202d\u202e"),
        ("\u2066\u2067\u2068\u2069", r"\u2066\u2067\u2068\u2069"),
        ("one\r\ntwo\n\tthree", "one\ntwo\n\tthree"),
        ("\xa0naïve 👩‍👩‍👧 é ❤️ 你好，世界。", "\xa0naïve 👩‍👩‍👧 é ❤️ 你好，世界。"),
        ("שלום\u200e, سلام\u200c", "שלום\u200e, سلام\u200c"),
        (r"C:\x1b\new", r"C:\x1b\new"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    """Controls and bidirectional overrides; joiners, marks of direction and other letters stay."""
    assert visible(text) == expected


@pytest.mark.parametrize(("before", "word"), [("\x1b]52;c;eA==\x07the ", "kiln"), ("\u202e请把", "窑炉")])
def test_matching_words_are_marked_behind_escapes(before: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks move with the text, which escapes lengthen."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    hit = search_pb.Hit(snippet=f"{before}{word} opens")
    hit.spans.add(start=len(before), end=len(before) + len(word))

    told = highlighted(hit, "\x1b[2JAnn")

    assert not isinstance(told, str)
    marked = [told.plain[span.start : span.end] for span in told.spans if span.style == "bold yellow"]
    assert marked == [word]
    assert told.plain == f"{visible(chr(27))}[2JAnn: {visible(before)}{word} opens"


def test_a_table_counts_the_width_of_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with escapes fits its terminal, and no control character reaches it."""
    text = "\x1b[2J\x9b2J\u202e" * 9
    lines = drawn(("=id", "name", "~content"), [(IDS[0], text, text)], 100, monkeypatch)

    assert max(map(cell_len, lines)) <= 100
    assert r"\x1b[2J" in "\n".join(lines)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", "".join(lines))
