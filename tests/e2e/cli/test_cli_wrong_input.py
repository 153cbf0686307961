"""Wrong input on the command line: the line on stderr says what is wrong and what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import invoke


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("export", "{dir}"), 1, "is a folder: name a file in it, such as"),
        (("export", "{dir}", "--force"), 1, "is a folder: name a file in it, such as"),
        (("export", "{dir}/none/u.jsonl"), 1, "There is no folder '{dir}/none': make it, or name another file."),
        (("feedback", "report", "--used", "m3"), 1, "a citation such as m3 needs --context"),
        (("feedback", "report", "--used", "nope"), 1, "'nope' is no id of a memory"),
        (("conflicts", "resolve", "00000000-0000-7000-8000-000000000000", "confirm"), 1, "memsvc conflicts list"),
        (("keys", "revoke", "f" * 20), 1, "memsvc keys list --all"),
        (("perf", "nope"), 0, "No call of 'nope' was measured; `memsvc perf` names"),
        (("file", "resolve", "chart:nope"), 1, ""),
    ],
)
def test_an_error_says_what_to_do(words: tuple[str, ...], code: int, said: str, address: str, tmp_path: Path) -> None:
    """With a service that runs."""
    told = invoke(
        *(word.format(dir=tmp_path) for word in words), "--address", address, environment={"MEMSVC_USER": "港口"}
    )

    assert told.exit_code == code
    assert said.format(dir=tmp_path) in told.stderr
    assert "ListFiles" not in told.output
    assert list(tmp_path.iterdir()) == []


def test_a_preview_without_a_match_asks_for_nothing_more(address: str) -> None:
    """There is nothing that a token could stand for."""
    for command in (("delete-matching",), ("update-matching", "--add-tag", "t")):
        told = invoke(*command, "--tag", "nowhere", "--address", address, "--user", "preview")
        assert told.exit_code == 0
        assert told.stdout.startswith("No memory matches; none would be ")
        assert "--token" not in told.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("health", "--address", "nonsense"), 2, "neither HOST:PORT nor unix:PATH"),
        (("health", "--address", "http://127.0.0.1:1"), 2, "leave out http://"),
        (("health", "--address", "127.0.0.1:1"), 1, "does not answer"),
        (("health", "--ready-file", "{binary}"), 2, "is no file of addresses"),
        (("health", "--ready-file", "{empty}"), 2, "is empty"),
        (("health", "--ready-file", "{dir}/none"), 1, "has not started"),
        (("restore", "{empty}", "--data-dir", "{dir}/new"), 1, "is not a backup"),
        (("restore", "{dir}", "--data-dir", "{empty}"), 1, "is a file; restore into a new directory"),
        (("backends", "--config", "{dir}"), 1, "is a folder; name the file in it"),
        (("backends", "--config", "{dir}/none.toml"), 1, "does not exist"),
        (("keys", "list", "--data-dir", "{dir}/typo"), 1, "There is no data directory '{dir}/typo'"),
        (("keys", "revoke", "f", "--data-dir", "{dir}/typo"), 1, "There is no data directory '{dir}/typo'"),
        (
            ("migrate-backend", "--url", "postgresql://h/d", "--data-dir", "{dir}/typo"),
            1,
            "There is no data directory '{dir}/typo'",
        ),
    ],
)
def test_an_error_without_a_service_says_what_to_do(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    """No folder is made for a name with a typing error."""
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    before = sorted(tmp_path.iterdir())
    places = {"dir": tmp_path, "empty": tmp_path / "empty", "binary": tmp_path / "binary"}
    told = invoke(*(word.format(**places) for word in words))

    assert told.exit_code == code, told.output
    assert said.format(**places) in told.stderr
    assert sorted(tmp_path.iterdir()) == before
