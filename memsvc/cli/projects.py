"""The command that tells which project a folder belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from memsvc.cli.connection import project_of
from memsvc.cli.errors import report_errors
from memsvc.cli.output import write


def project(
    *,
    folder: Annotated[Path, typer.Argument(help="Any folder of the project.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")] = False,
) -> None:
    """Say which project a folder belongs to: what `--project .` stands for."""
    with report_errors():
        found = project_of(folder)
    if as_json:
        write(json.dumps({"id": found.id, "root": str(found.root)}, ensure_ascii=False))
        return
    write(f"{'id':<11}{found.id}")
    write(f"{'root':<11}{found.root}")
