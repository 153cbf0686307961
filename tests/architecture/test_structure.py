"""Structure of the code base: names of modules, number and size of files, length of call paths."""

from __future__ import annotations

import ast
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIELD_TERMS = {
    "chunking",
    "stemming",
    "scoring",
    "ranking",
    "rendering",
    "formatting",
    "indexing",
    "monitoring",
    "testing",
    "tracing",
}
"""Nouns of the field that end like a gerund."""
ENDINGS = ("ing", "ed")
NOUNS = ("feed", "fastembed")
"""Nouns and names of products that end like a participle."""
VAGUE = {"base", "common", "core", "helpers", "manager", "misc", "tools", "utils", "util", "stuff"}
TERMS_OF_A_PROTOCOL = {"memsvc/mcp/tools.py"}
QUESTION_WORDS = {"What", "Which", "Who", "Whose", "Where", "Whether", "How", "When"}
MOST_FILES = 450
LEAST_MEDIAN_LINES = 150
MOST_FILES_OF_A_CALL = {"CreateMemory": 80, "Search": 55}


def hand_written() -> list[Path]:
    """Return the source files that are written by hand: not generated, and more than a package's docstring."""
    return [
        path
        for folder in ("memsvc", "backends")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "v1" not in path.relative_to(ROOT).parts and not (path.name == "__init__.py" and _lines(path) < 3)
    ]


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def test_modules_are_named_by_nouns_of_the_field() -> None:
    """No module or package is named by a bare gerund, a participle or a word that says nothing."""
    names = {
        (part, str(path.relative_to(ROOT)))
        for path in hand_written()
        for part in (path.stem, *path.relative_to(ROOT).parent.parts)
    }
    wrong = {
        where
        for name, where in names
        if (name in VAGUE and where not in TERMS_OF_A_PROTOCOL)
        or ("_" not in name and name.endswith(ENDINGS) and not name.endswith(NOUNS) and name not in FIELD_TERMS)
    }

    assert wrong == set()


def test_files_are_subjects_and_not_crumbs() -> None:
    """There are few enough files to know them, and the usual one holds a whole subject."""
    lines = [_lines(path) for path in hand_written()]

    assert len(lines) <= MOST_FILES
    assert statistics.median(lines) >= LEAST_MEDIAN_LINES


def test_docstrings_open_with_a_noun_or_an_imperative() -> None:
    """No docstring opens with a question word: it would paraphrase the name instead of stating the promise."""
    wrong = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in hand_written()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
        and docstring.split()[0] in QUESTION_WORDS
    ]

    assert wrong == []


@pytest.fixture(scope="module")
def call_paths() -> dict[str, list[str]]:
    """The files that one CreateMemory and one Search of a real service run through."""
    command = [sys.executable, "-m", "tests.architecture.call_paths", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    result: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("method", MOST_FILES_OF_A_CALL)
def test_a_call_runs_through_few_files(call_paths: dict[str, list[str]], method: str) -> None:
    """Somebody who follows a call from its arrival to the disk opens a number of files that a day suffices for."""
    assert 20 < len(call_paths[method]) <= MOST_FILES_OF_A_CALL[method]
