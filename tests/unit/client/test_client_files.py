"""Files that a client saves."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from memsvc.client.files import FileMethods
from memsvc.v1 import types_pb2 as types_pb


def test_a_file_whose_saving_is_cancelled_as_it_is_made_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation does not end the thread that makes it."""
    begun, release, make = threading.Event(), threading.Event(), Path.open

    def hang(path: Path, *given: Any, **named: Any) -> Any:
        begun.set()
        release.wait()
        return make(path, *given, **named)

    async def run() -> None:
        saving = asyncio.create_task(FileMethods(types_pb.Scope(user_id="ada")).save_file("f", tmp_path / "saved"))
        await asyncio.to_thread(begun.wait)
        saving.cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        release.set()
        await asyncio.gather(saving, return_exceptions=True)

    monkeypatch.setattr(Path, "open", hang)
    asyncio.run(run())

    assert list(tmp_path.iterdir()) == []
