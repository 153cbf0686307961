"""The choices of the command line."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, get_args

import pytest

from memsvc.cli import choices
from memsvc.client import request_types, sessions


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (choices.Layer, request_types.Layer),
        (choices.Kind, request_types.Kind),
        (choices.Mode, request_types.SearchMode),
        (choices.OnDuplicate, request_types.OnDuplicate),
        (choices.Index, request_types.Index),
        (choices.MaintenanceStep, request_types.MaintenanceStep),
        (choices.ConflictPolicy, request_types.ConflictPolicy),
        (choices.ConflictState, request_types.ConflictState),
        (choices.Resolution, request_types.Resolution),
        (choices.Role, request_types.Role),
        (choices.SessionState, sessions.SessionState),
        (choices.Origin, request_types.Origin),
        (choices.Verdict, request_types.Verdict),
        (choices.ContextSection, request_types.Section),
    ],
)
def test_choices_are_those_of_the_client(choice: type[StrEnum], names: Any) -> None:
    """Every name of the client can be chosen, in small letters with hyphens."""
    assert [member.name for member in choice] == list(get_args(names))
    assert [member.value for member in choice] == [name.lower().replace("_", "-") for name in get_args(names)]
