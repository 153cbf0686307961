"""Output of commands: tables on a terminal and in a pipe."""

from __future__ import annotations

import io
import sys

import pytest

from memsvc.cli.output import write_table


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


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
