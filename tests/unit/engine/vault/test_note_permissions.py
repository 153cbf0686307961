"""Permissions, owners and groups of files that are rewritten."""

from __future__ import annotations

import os
import stat

import pytest

from memsvc.domain.memory import Layer
from tests.unit.engine.vault.vault_fixture import BASE, Bench, place

NOTE = f"{BASE}/long_term/note.md"


def mode(bench: Bench, path: str) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE((bench.root / path).stat().st_mode)


@pytest.mark.parametrize("permissions", [0o664, 0o644, 0o600, 0o640])
def test_a_rewritten_file_keeps_its_permissions(bench: Bench, permissions: int) -> None:
    """At its import, at a change by a call, and at a move."""
    made = bench.put(NOTE, "One.\n")
    (bench.root / NOTE).chmod(permissions)
    memory_id = bench.took(made).memory_id
    assert f"id: {memory_id}" in bench.text(NOTE)
    assert mode(bench, NOTE) == permissions

    bench.change(memory_id, content="Two.")
    bench.vault.follow()
    assert ("Two." in bench.text(NOTE), mode(bench, NOTE)) == (True, permissions)

    moved = place(bench.change(memory_id, layer=Layer.CORE))
    bench.vault.follow()
    assert (bench.files(), mode(bench, moved)) == ([moved], permissions)


def test_a_new_file_is_that_of_the_service_alone(bench: Bench) -> None:
    """No other account of the machine reads memories unless it is given access."""
    made = bench.writes.create("One.").memory
    bench.vault.follow()

    assert mode(bench, place(made)) == 0o600
    assert stat.S_IMODE((bench.root / place(made)).parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_a_rewritten_file_keeps_its_owner_and_group(bench: Bench) -> None:
    """Where the service may set them."""
    bench.put(NOTE, "One.\n")
    os.chown(bench.root / NOTE, 1234, 2345)
    bench.took(NOTE)

    state = (bench.root / NOTE).stat()
    assert (state.st_uid, state.st_gid) == (1234, 2345)


def test_a_refused_owner_does_not_prevent_the_import(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file then belongs to the service, with the permissions that it had."""

    def refuse(*_: object) -> None:
        raise PermissionError

    bench.put(NOTE, "One.\n")
    (bench.root / NOTE).chmod(0o664)
    monkeypatch.setattr(os, "fchown", refuse)
    assert bench.took(NOTE).memory_id in bench.text(NOTE)
    assert mode(bench, NOTE) == 0o664
