"""The commands that find files, on a real service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def kept(run: Any, tmp_path: Path) -> dict[str, str]:
    """Upload a report and a chart; return their references by name."""
    references = {}
    for name, category in {"weekly sales.pdf": "report", "销售趋势.png": "chart", "raw sales.csv": "upload"}.items():
        path = tmp_path / name
        path.write_bytes(name.encode())
        references[name] = run("file", "put", str(path), "--category", category).split()[0]
    return references


def test_files_are_found_by_words(run: Any, kept: dict[str, str]) -> None:
    """Of any category or of one, in both languages."""
    assert kept["weekly sales.pdf"] in run("file", "search", "weekly reports")
    assert kept["销售趋势.png"] in run("file", "search", "销售", "--category", "chart")
    hits = [json.loads(line) for line in run("file", "search", "sales", "--json").splitlines()]
    assert {hit["file"]["file"]["name"] for hit in hits} == {"weekly sales.pdf", "raw sales.csv"}
    assert run("file", "search", "sales", "--category", "chart") == ""


def test_search_all_shows_memories_and_files(run: Any, kept: dict[str, str]) -> None:
    """Group by group."""
    run("add", "The sales of the week were good.")

    told = run("search", "--all", "sales")

    assert "The sales of the week were good." in told
    assert all(kept[name] in told for name in ("weekly sales.pdf", "raw sales.csv"))


def test_references_are_resolved(run: Any, kept: dict[str, str]) -> None:
    """One that leads to nothing is told, and makes the command fail."""
    good = kept["销售趋势.png"]

    assert "销售趋势.png" in run("file", "resolve", good)
    told = run("file", "resolve", good, "artifact:gone", code=1)
    assert good in told
    assert "artifact:gone" in told


def test_checks_leave_files_unless_they_are_named(run: Any, kept: dict[str, str]) -> None:
    """Orphans are told after their time of grace, and removed when that is asked for."""
    assert "file orphaned" not in run("check-integrity")
    assert run("check-integrity", "--orphan-grace", "0", "--ignore-files").count("orphaned") == 0
    assert run("check-integrity", "--orphan-grace", "0", "--repair", code=1).count("file orphaned") == len(kept)
    run("check-integrity", "--orphan-grace", "0", "--remove-orphan-files")
    assert run("file", "ls", "--json") == ""
