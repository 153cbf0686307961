"""The choices of the command line."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, get_args

import pytest

from memsvc.cli import choices
from memsvc.client import sessions, values


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (choices.Layer, values.Layer),
        (choices.Kind, values.Kind),
        (choices.Mode, values.SearchMode),
        (choices.OnDuplicate, values.OnDuplicate),
        (choices.Index, values.Index),
        (choices.MaintenanceStep, values.MaintenanceStep),
        (choices.ConflictPolicy, values.ConflictPolicy),
        (choices.ConflictState, values.ConflictState),
        (choices.Resolution, values.Resolution),
        (choices.Role, values.Role),
        (choices.SessionState, sessions.SessionState),
        (choices.Origin, values.Origin),
        (choices.Verdict, values.Verdict),
        (choices.ContextSection, values.Section),
    ],
)
def test_choices_are_those_of_the_client(choice: type[StrEnum], names: Any) -> None:
    """Every name of the client can be chosen, in small letters with hyphens."""
    assert [member.name for member in choice] == list(get_args(names))
    assert [member.value for member in choice] == [name.lower().replace("_", "-") for name in get_args(names)]
