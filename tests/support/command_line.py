"""Commands run in the process of the test."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from memsvc.cli.app import app

# Typer builds all commands anew for each call, which takes 50 ms.
vars(typer.testing)["_get_command"] = cache(typer.main.get_command)


def invoke(*words: str, given: str | bytes | None = None, environment: Mapping[str, str] | None = None) -> Result:
    """Run a command of `memsvc` and return its exit code and output."""
    return CliRunner().invoke(app, list(words), input=given, env=environment)
