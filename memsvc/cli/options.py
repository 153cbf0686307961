"""Options that several commands share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memsvc.cli.choices import Kind, Layer

if TYPE_CHECKING:
    from memsvc.client import Filters, values

Layers = Annotated[list[Layer] | None, typer.Option("--layer", help="Only of this layer. May be repeated.")]
Kinds = Annotated[list[Kind] | None, typer.Option("--kind", help="Only of this kind. May be repeated.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag. Repeated: with all of them.")]
LastDays = Annotated[int, typer.Option(min=0, help="Only stored within so many days.")]
MinImportance = Annotated[int, typer.Option(min=0, max=5, help="Only of at least this importance, 1 to 5.")]
Conversation = Annotated[str, typer.Option("--session", help="The conversation.")]

AsOf = Annotated[datetime | None, typer.Option(help="As it was known then, local time.")]


def as_of(moment: datetime | None) -> values.AsOf | None:
    """Return the moment to look at that the option names."""
    return None if moment is None else {"known_time": moment.astimezone(UTC)}


def filters(
    layers: list[Layer] | None, kinds: list[Kind] | None, tags: list[str] | None, last_days: int, min_importance: int
) -> Filters:
    """Return the filter that the options ask for."""
    return {
        "layers": [cast("values.Layer", layer.name) for layer in layers or ()],
        "kinds": [cast("values.Kind", kind.name) for kind in kinds or ()],
        "tags_all": tags or [],
        "last_days": last_days,
        "min_importance": min_importance,
    }
