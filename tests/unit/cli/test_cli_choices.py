"""The choices of the command line."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, get_args

import pytest

from memsvc.cli import enums
from memsvc.client import request_types, sessions


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (enums.Layer, request_types.Layer),
        (enums.Kind, request_types.Kind),
        (enums.Mode, request_types.SearchMode),
        (enums.OnDuplicate, request_types.OnDuplicate),
        (enums.Index, request_types.Index),
        (enums.MaintenanceStep, request_types.MaintenanceStep),
        (enums.ConflictPolicy, request_types.ConflictPolicy),
        (enums.ConflictState, request_types.ConflictState),
        (enums.Resolution, request_types.Resolution),
        (enums.Role, request_types.Role),
        (enums.SessionState, sessions.SessionState),
        (enums.Origin, request_types.Origin),
        (enums.Verdict, request_types.Verdict),
        (enums.ContextSection, request_types.Section),
    ],
)
def test_choices_are_those_of_the_client(choice: type[StrEnum], names: Any) -> None:
    """Every name of the client can be chosen, in small letters with hyphens."""
    assert [member.name for member in choice] == list(get_args(names))
    assert [member.value for member in choice] == [name.lower().replace("_", "-") for name in get_args(names)]
