"""Options that several commands share."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from memsvc.cli.enums import Kind, Layer
from memsvc.cli.errors import CommandError
from memsvc.cli.moments import moment_option

if TYPE_CHECKING:
    from memsvc.client import Filters, request_types


_SHARES = ("core", "session", "short_term", "long_term")

Layers = Annotated[list[Layer] | None, typer.Option("--layer", help="Only this layer. May be repeated.")]
Kinds = Annotated[list[Kind] | None, typer.Option("--kind", help="Only this kind. May be repeated.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag. Repeated: with all tags.")]
LastDays = Annotated[int, typer.Option(min=0, help="Only memories stored in the last DAYS days.")]
MinImportance = Annotated[int, typer.Option(min=0, max=5, help="Minimum importance, 1 to 5.")]
KeyPrefix = Annotated[str, typer.Option("--key-prefix", help="Only with a key that begins so.")]
Numbers = Annotated[
    list[str] | None,
    typer.Option(
        "--number", help='Only with such a number in metadata, as "score>=3". May be repeated.', metavar="TEST"
    ),
]
Conversation = Annotated[str, typer.Option("--session", help="Session id.")]

AsOf = Annotated[datetime | None, moment_option("As it was known then, local time.")]
ValidAt = Annotated[datetime | None, moment_option("What was, or will be, true then, local time.")]
MinScore = Annotated[float, typer.Option(min=0, max=1, help="Minimum score.")]


def as_of(known: datetime | None, valid: datetime | None = None) -> request_types.AsOf | None:
    """Return the moments to look at that the options name."""
    moments: request_types.AsOf = {}
    if known is not None:
        moments["known_time"] = in_utc(known)
    if valid is not None:
        moments["valid_time"] = in_utc(valid)
    return moments or None


def shares(parts: list[str] | None) -> dict[str, float]:
    """Return the shares that "NAME=PART" options name.

    Raises:
        typer.BadParameter: One is of another form.
    """
    found = {}
    for part in parts or ():
        name, _, value = part.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            name = ""
        if name not in _SHARES:
            message = f"{part!r} is not NAME=PART, with one of {', '.join(_SHARES)} and a number from 0 to 1."
            raise typer.BadParameter(message, param_hint="--share")
    return found


def filters(  # noqa: PLR0913 - an option each
    layers: list[Layer] | None,
    kinds: list[Kind] | None,
    tags: list[str] | None,
    last_days: int,
    min_importance: int,
    *,
    key_prefix: str = "",
    numbers: list[str] | None = None,
) -> Filters:
    """Return the filter that the options ask for.

    Raises:
        typer.BadParameter: A test of a number is of another form.
    """
    found: Filters = {
        "layers": [cast("request_types.Layer", layer.name) for layer in layers or ()],
        "kinds": [cast("request_types.Kind", kind.name) for kind in kinds or ()],
        "tags_all": tags or [],
        "last_days": last_days,
        "min_importance": min_importance,
        "key_prefix": key_prefix,
    }
    if numbers:
        found["metadata_ranges"] = _ranges(numbers)
    return found


_NUMBER_TEST = re.compile(r"(.+?)\s*(>=|<=|>|<|=)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)", re.ASCII)
_BOUNDS: Mapping[str, tuple[Literal["greater_than", "at_least", "less_than", "at_most"], ...]] = {
    ">": ("greater_than",),
    ">=": ("at_least",),
    "<": ("less_than",),
    "<=": ("at_most",),
    "=": ("at_least", "at_most"),
}


def _ranges(tests: list[str]) -> dict[str, request_types.NumberRange]:
    """Return the range of each path; several tests of one path are joined."""
    found: dict[str, request_types.NumberRange] = {}
    for test in tests:
        parts = _NUMBER_TEST.fullmatch(test.strip())
        try:
            number = float(parts[3] if parts else "")
        except ValueError:
            parts, number = None, 0.0
        if parts is None:
            message = f"{test!r} is not PATH, one of > >= < <= =, and a number, such as 'score>=3'."
            raise typer.BadParameter(message, param_hint="--number")
        bounds = found.setdefault(parts[1], {})
        for bound in _BOUNDS[parts[2]]:
            bounds[bound] = number
    return found


# Parsing of arguments: moments, and texts, which must be UTF-8 whatever the encoding of the system.


STDIN = "-"
UTF8 = "utf-8-sig"
"""UTF-8 without the byte order mark that programs on Windows put before a text."""


def in_utc(moment: datetime) -> datetime:
    """Return a moment that was given on this machine's clock, or with a zone, in UTC.

    Raises:
        CommandError: It is outside the years 1 to 9999 there.
    """
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):
        message = f"{moment.isoformat()} lies outside the years 1 to 9999 in UTC."
        raise CommandError(message) from None


def given_text(text: str) -> str:
    """Return *text*, or for "-" all of stdin without the line break at its end, which `echo` and editors add.

    Raises:
        CommandError: Stdin is no UTF-8 text.
    """
    return "".join(stdin_lines()).removesuffix("\n").removesuffix("\r") if text == STDIN else text


def stdin_lines() -> Iterator[str]:
    """Yield the lines of stdin as they come.

    Raises:
        CommandError: They are no UTF-8 text.
    """
    return utf8_lines(io.TextIOWrapper(sys.stdin.buffer, encoding=UTF8), "stdin")


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
            if isinstance(text, str) and not is_utf8(text):
                message = f"The argument {text!r} is no UTF-8 text."
                raise CommandError(message)


def is_utf8(text: str) -> bool:
    """Return whether a text has no bytes that are not UTF-8, which Python escapes as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
