"""Lines of the log about files of the vault: names of notes are made of titles, which no log has."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest

from memsvc.domain.vault import FileResult, VaultAction
from memsvc.engine.vault.filesystem import UNWRITABLE, without_message
from memsvc.engine.vault.vault import VaultMonitor
from memsvc.engine.vault.watcher import WatchConfig, WatchMode
from tests.unit.engine.vault.vault_fixture import BASE, Bench, place

TITLES = ["quaggasecret since 2019", "斑驴病的秘密"]


def logged(bench: Bench, path: str, caplog: pytest.LogCaptureFixture) -> str:
    """Import a file, and return what the log says of it."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="memsvc"):
        _monitor(bench).note_taken(bench.took(path))
    return caplog.text


def _monitor(bench: Bench) -> VaultMonitor:
    return VaultMonitor(bench.root, WatchConfig(WatchMode.OFF), None)


@pytest.mark.parametrize("title", TITLES)
def test_a_note_is_named_by_its_memory(bench: Bench, caplog: pytest.LogCaptureFixture, title: str) -> None:
    """When it is changed, and when it is wrong; its folder may have words of its key."""
    memory = bench.writes.create(f"Ada has {title}.", title=title).memory
    bench.synced()
    path = place(memory)
    bench.put(path, bench.text(path).replace("2019", "2018").replace("的", "之"))
    line = logged(bench, path, caplog)
    assert f"note of memory {memory.id}: updated" in line

    bench.put(path, bench.text(path).replace("---\n", f"---\n{title}: 1\n{title}: 2\n", 1))
    wrong = logged(bench, path, caplog)
    assert f"note of memory {memory.id}, line " in wrong
    assert "invalid, see GetStats" in wrong
    assert not [word for word in ("quagga", "斑驴") if word in line + wrong]


@pytest.mark.parametrize("title", TITLES)
def test_a_file_without_a_memory_is_named_by_a_digest(
    bench: Bench, caplog: pytest.LogCaptureFixture, title: str
) -> None:
    """And by its user."""
    path = bench.put(f"{BASE}/{title}/{title}.md", f"---\n{title}: [\n---\n{title}")
    line = logged(bench, path, caplog)
    assert f"file {hashlib.sha256(path.encode()).hexdigest()[:12]} in users/ada, line 3: invalid" in line
    assert not [word for word in ("quagga", "斑驴") if word in line]


def test_the_reason_of_the_disk_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """It is for the operator, and has no words of the file."""
    detail = f"{UNWRITABLE} (No space left on device); it tries again every minute."
    failed = FileResult(f"{BASE}/long_term/quaggasecret.md", VaultAction.INVALID, "m1", detail=detail)
    _monitor(bench).note_taken(failed)
    assert f"note of memory m1, line 0: {detail}" in caplog.text
    assert "quagga" not in caplog.text


def test_an_error_is_logged_without_its_message() -> None:
    """But with the lines of code that it came from."""
    name = "quagga" + "secret"
    with pytest.raises(FileNotFoundError) as caught:
        Path(name).read_bytes()
    found = without_message(caught.value)
    assert found.startswith("FileNotFoundError (No such file or directory)\n")
    assert "test_logged_names.py" in found
    assert "Path(name).read_bytes()" in found
    assert name not in found
