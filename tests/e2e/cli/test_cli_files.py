"""The commands about files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memsvc.cli.files import safe_name
from memsvc.v1 import file_service_pb2 as file_pb


def test_a_file_is_put_listed_fetched_and_removed(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its reference, under its name in the folder one stands in."""
    source, folder = tmp_path / "销售.csv", tmp_path / "there"
    source.write_bytes(b"1;2\n" * 200_000)
    folder.mkdir()
    monkeypatch.chdir(folder)
    told = run("file", "put", str(source), "--category", "report", "--meta", "about=季度收入").split()
    reference = told[0]
    assert reference.startswith("report:")
    assert told[1:] == ["800,000", "bytes,", "text/csv"]

    assert run("file", "ls", "收入").splitlines()[1].split("\t")[0] == reference
    assert run("file", "ls", "nothing", "--json") == ""
    assert run("file", "ls", "--category", "chart").splitlines()[1:] == []
    run("file", "get", reference)
    assert (folder / "销售.csv").read_bytes() == source.read_bytes()
    run("file", "get", reference, code=1)
    run("file", "get", reference, "--force")
    run("file", "get", reference, "-o", str(folder / "b.csv"))
    assert sorted(path.name for path in folder.iterdir()) == ["b.csv", "销售.csv"]
    assert json.loads(run("file", "get", reference, "--info", "--json"))["category"] == "FILE_CATEGORY_REPORT"
    assert "销售.csv" in run("file", "get", reference, "--info")
    run("file", "rm", reference)
    run("file", "get", reference, code=1)


@pytest.mark.parametrize("name", ["a" * 251 + ".txt", "图" * 85, "é" * 127 + "e"], ids=["ascii", "han", "accents"])
def test_a_name_may_be_as_long_as_a_name_can_be(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """255 bytes: what is not whole yet has a shorter name, and nothing of it is left behind."""
    monkeypatch.chdir(tmp_path)
    file = json.loads(run("file", "put", "-", "--name", name, "--json", given="hello"))
    run("file", "get", file["id"])
    run("file", "get", file["id"], "--force")
    run("file", "get", file["id"], "-o", str(tmp_path / "nowhere" / "a.txt"), code=1)
    (tmp_path / "folder").mkdir()
    run("file", "get", file["id"], "-o", "folder", "--force", code=1)

    assert {path.name for path in tmp_path.iterdir()} == {name, "folder"}
    assert (tmp_path / name).read_text() == "hello"


def test_stdin_and_stdout(run: Any) -> None:
    """What comes from stdin needs a name."""
    run("file", "put", "-", given="x", code=1)
    file = json.loads(run("file", "put", "-", "--name", "a.txt", "--ttl-hours", "2", "--json", given="hello"))

    assert (file["sizeBytes"], file["mediaType"]) == ("5", "text/plain")
    assert run("file", "get", f"upload:{file['id']}", "-o", "-") == "hello"
    assert "expires" in run("file", "get", file["id"], "--info")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a.txt", "a.txt"), ("../../etc/passwd", "passwd"), ("C:\\x\\b.doc", "b.doc"), ("..", "the-id"), ("/", "the-id"),
        (".bashrc", "bashrc"), ("图" * 100, "the-id"), ("图.png", "图.png"), ("a\u202eb", "the-id"), (" ", "the-id"),
    ],
)  # fmt: skip
def test_a_name_is_no_path(name: str, safe: str) -> None:
    """A download lands in the folder one stands in, and hides nothing there."""
    assert safe_name(file_pb.File(id="the-id", name=name)) == safe
