"""What commands are given: moments, and texts, which must be UTF-8 whatever the system makes of its own encoding."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from memsvc.cli.errors import CommandError

STDIN = "-"


def in_utc(moment: datetime) -> datetime:
    """Return a moment that was given on this machine's clock, or with a zone, in UTC.

    Raises:
        CommandError: It lies outside the years 1 to 9999 there.
    """
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):
        message = f"{moment.isoformat()} lies outside the years 1 to 9999 in UTC."
        raise CommandError(message) from None


def given_text(text: str) -> str:
    """Return *text*, or for "-" all of stdin.

    Raises:
        CommandError: Stdin is no UTF-8 text.
    """
    return "".join(stdin_lines()) if text == STDIN else text


def stdin_lines() -> Iterator[str]:
    """Yield the lines of stdin as they come.

    Raises:
        CommandError: They are no UTF-8 text.
    """
    return utf8_lines(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"), "stdin")


def utf8_lines(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield *lines*, which are read from *name*.

    Raises:
        CommandError: They are no UTF-8 text.
    """
    try:
        yield from lines
    except UnicodeDecodeError as error:
        message = f"What {name} holds is no UTF-8 text; convert it first."
        raise CommandError(message) from error


def require_utf8(arguments: Iterable[object]) -> None:
    """Check what was given on the command line.

    Raises:
        CommandError: An argument has bytes that are no UTF-8 text.
    """
    for argument in arguments:
        texts = argument if isinstance(argument, list | tuple) else (argument,)
        for text in texts:
            if isinstance(text, str) and not _is_utf8(text):
                message = f"The argument {text!r} is no UTF-8 text."
                raise CommandError(message)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
