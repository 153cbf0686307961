"""The source files of the service and their syntax trees, parsed once for all rules of a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def hand_written() -> tuple[Path, ...]:
    """Return the source files that are written by hand: not generated, and more than a package's docstring."""
    return tuple(
        path
        for folder in ("memsvc", "backends")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "v1" not in path.relative_to(ROOT).parts and not (path.name == "__init__.py" and lines(path) < 3)
    )


@cache
def text_of(path: Path) -> str:
    """Return the text of a source file."""
    return path.read_text(encoding="utf-8")


def lines(path: Path) -> int:
    """Return the number of lines of a source file."""
    return text_of(path).count("\n")


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a source file; it is shared and must not be changed.

    Without garbage collection: a finalizer that formats a traceback parses source itself, and CPython 3.11 fails when a
    parse runs within another.
    """
    gc.disable()
    try:
        return ast.parse(text_of(path))
    finally:
        gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a source file, breadth first."""
    return tuple(ast.walk(tree(path)))
