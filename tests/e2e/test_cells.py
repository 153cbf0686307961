"""Cells: users are spread over services that know nothing of each other, and moved between them while they write."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memsvc.client import Memsvc
from tests.support.server_process import FAST, ServerProcess
from tests.support.until import until

USERS = tuple(f"user-{number}" for number in range(6))
WRITES = 20


@dataclass
class Router:
    """The table of a router: a user is in the cell of the hash of its id, unless it was moved; a moving one waits."""

    cells: dict[str, ServerProcess]
    moved: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _writing: dict[str, int] = field(default_factory=dict)

    def cell_of(self, user: str) -> str:
        """Return the name of the cell that has a user."""
        names = sorted(self.cells)
        number = int.from_bytes(hashlib.sha256(user.encode()).digest()[:8])
        return self.moved.get(user, names[number % len(names)])

    def begin(self, user: str) -> ServerProcess:
        """Wait until the user is not being moved, and return its cell for one write."""
        with self._lock:
            self._lock.wait_for(lambda: user not in self.held)
            self._writing[user] = self._writing.get(user, 0) + 1
            return self.cells[self.cell_of(user)]

    def end(self, user: str) -> None:
        """Note the end of a write."""
        with self._lock:
            self._writing[user] -= 1
            self._lock.notify_all()

    def move(self, user: str, to: str) -> None:
        """Hold the writes of a user, copy everything to another cell, route there, and erase the user in the old one."""
        old = self.cells[self.cell_of(user)]
        with self._lock:
            self.held.add(user)
            self._lock.wait_for(lambda: not self._writing.get(user))
        with Memsvc(old.bound, user_id=user) as source, Memsvc(self.cells[to].bound, user_id=user) as target:
            pieces = [piece.data for piece in source.export_user(include_vectors=True)]
            *_, last = target.import_user(iter([*pieces, b""]))
            assert last.done
            assert not last.issues
            with self._lock:
                self.moved[user] = to
                self.held.discard(user)
                self._lock.notify_all()
            assert source.erase_user(confirm=True).clean


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    """Two cells, each a service with a store of its own."""
    with ServerProcess(tmp_path / "a", FAST) as first, ServerProcess(tmp_path / "b", FAST) as second:
        yield Router({"a": first, "b": second})


def test_users_are_moved_between_cells_while_they_write(router: Router) -> None:
    """Every acknowledged write is in the new cell once, with its id and revision; nothing is left in the old one."""
    written: dict[str, list[str]] = {user: [] for user in USERS}
    moves = {user: "b" if router.cell_of(user) == "a" else "a" for user in USERS[::2]}

    def write(user: str) -> None:
        for number in range(WRITES):
            cell = router.begin(user)
            try:
                with Memsvc(cell.bound, user_id=user) as client:
                    text = f"Line {number} of {user}. 第 {number} 行。"
                    written[user].append(client.create(text, request_id=f"{number}").memory.id)
            finally:
                router.end(user)

    with ThreadPoolExecutor(len(USERS) + 1) as pool:
        writers = [pool.submit(write, user) for user in USERS]
        until(lambda: all(len(ids) > 2 for ids in written.values()))
        for user, to in moves.items():
            router.move(user, to)
        for writer in writers:
            writer.result()

    for user, ids in written.items():
        assert WRITES == len(set(ids))
        here = router.cell_of(user)
        assert here == moves.get(user, here)
        for name, cell in router.cells.items():
            with Memsvc(cell.bound, user_id=user) as client:
                found = [memory.id for memory in client.list()]
                assert sorted(found) == (sorted(ids) if name == here else []), (user, name)
                if name == here:
                    assert client.search("Line 3", limit=1).hits
