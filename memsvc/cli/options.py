"""Options that several commands share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli.enums import Kind, Layer
from memsvc.cli.parsing import in_utc

if TYPE_CHECKING:
    from memsvc.client import Filters, request_types

_SHARES = ("core", "session", "short_term", "long_term")

Layers = Annotated[list[Layer] | None, typer.Option("--layer", help="Only of this layer. May be repeated.")]
Kinds = Annotated[list[Kind] | None, typer.Option("--kind", help="Only of this kind. May be repeated.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag. Repeated: with all of them.")]
LastDays = Annotated[int, typer.Option(min=0, help="Only stored within so many days.")]
MinImportance = Annotated[int, typer.Option(min=0, max=5, help="Only of at least this importance, 1 to 5.")]
Conversation = Annotated[str, typer.Option("--session", help="The conversation.")]

AsOf = Annotated[datetime | None, typer.Option(help="As it was known then, local time.")]
ValidAt = Annotated[datetime | None, typer.Option(help="What was, or will be, true then, local time.")]
MinScore = Annotated[float, typer.Option(min=0, max=1, help="Only what scores at least so much.")]


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


def filters(
    layers: list[Layer] | None, kinds: list[Kind] | None, tags: list[str] | None, last_days: int, min_importance: int
) -> Filters:
    """Return the filter that the options ask for."""
    return {
        "layers": [cast("request_types.Layer", layer.name) for layer in layers or ()],
        "kinds": [cast("request_types.Kind", kind.name) for kind in kinds or ()],
        "tags_all": tags or [],
        "last_days": last_days,
        "min_importance": min_importance,
    }
