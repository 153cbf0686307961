"""When an erasure has the store's files written anew, and what its search takes for left over."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from memsvc.engine.user_data import erasure
from memsvc.engine.user_data.erasure import ErasureJournal, StorageScrubber
from memsvc.ports.operations import ErasureReads

OWNER = "\x1fbandicoot"
FOUND = ErasureJournal({"metadata": {"memories": 1}})
NOTHING = ErasureJournal()


@dataclass
class Erasures:
    """A store of one file, which holds some words until it is written anew, and others for good."""

    directory: Path
    left: str = ""
    live: str = ""
    others: Sequence[str] = ()
    rewrites: int = 0
    place: Path = field(init=False)

    def __post_init__(self) -> None:
        self.place = self.directory / "store.db"
        self.place.write_text(f"{self.left} {self.live}")

    def files(self) -> Sequence[Path]:
        return (self.place, self.place.with_name("store.db-wal"))

    def is_ambiguous(self, owner: str) -> bool:
        return any(owner in other or owner.startswith(other) for other in self.others)

    def is_elsewhere(self, text: str) -> bool:
        return False

    def settle(self) -> bool:
        return True

    def rewrite(self) -> None:
        self.rewrites += 1
        self.place.write_text(self.live)


def cleared(
    erasures: Erasures, notes: ErasureJournal = FOUND, owner: str = OWNER, directory: Path | None = None
) -> bool:
    """Clear, and return whether nothing is found afterwards."""
    search = StorageScrubber(
        cast("ErasureReads", erasures), directory or erasures.directory, (), threading.Event()
    ).run(owner, notes)
    return not search.holding


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every store for a large one."""
    monkeypatch.setattr(erasure, "QUICK_BYTES", 0)


def test_a_small_store_is_written_anew_unless_nothing_was_there(tmp_path: Path) -> None:
    """Whatever a search would find: pages keep what nobody can look for any more."""
    found, empty = Erasures(tmp_path), Erasures(tmp_path)
    assert cleared(found)
    assert cleared(empty, NOTHING)
    assert (found.rewrites, empty.rewrites) == (1, 0)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("notes", [FOUND, NOTHING])
def test_a_large_store_is_written_anew_when_the_name_is_found(tmp_path: Path, notes: ErasureJournal) -> None:
    """Also for a user of whom nothing else was known."""
    clean, dirty = Erasures(tmp_path), Erasures(tmp_path, left=f"key{OWNER}project")
    assert cleared(dirty, notes)
    assert (dirty.rewrites, clean.rewrites) == (1, 0)
    clean = Erasures(tmp_path)
    assert cleared(clean, notes)
    assert clean.rewrites == 0


@pytest.mark.usefixtures("large")
def test_a_name_within_another_is_no_alarm(tmp_path: Path) -> None:
    """What is found may be either's: the store is written anew, and what is found then is the other's."""
    other = f"acme{OWNER}-2"
    erasures = Erasures(tmp_path, left=OWNER, live=other, others=[other])
    assert cleared(erasures)
    assert erasures.rewrites == 1


@pytest.mark.usefixtures("large")
def test_a_name_that_begins_with_another_is_no_alarm(tmp_path: Path) -> None:
    """What is found may be the other's, before a value that begins as the rest of the name."""
    other = OWNER[:-1]
    erasures = Erasures(tmp_path, left=OWNER, live=f"{other}{OWNER[-1]}3f9", others=[other])
    assert cleared(erasures)
    assert erasures.rewrites == 1


@pytest.mark.usefixtures("large")
def test_a_short_name_is_not_looked_for(tmp_path: Path) -> None:
    """It is somewhere in any large file by chance; so the store is written anew without a search."""
    erasures = Erasures(tmp_path, live="a\x1fbo")
    assert cleared(erasures, owner="\x1fbo")
    assert erasures.rewrites == 1


@pytest.mark.usefixtures("large")
def test_a_store_that_no_search_reaches_is_written_anew(tmp_path: Path) -> None:
    """Since it is not below the data directory."""
    erasures = Erasures(tmp_path)
    (tmp_path / "data").mkdir()
    assert cleared(erasures, directory=tmp_path / "data")
    assert erasures.rewrites == 1


class RemoteErasures(Erasures):
    """A store without files here, of a size that is rewritten or not."""

    def __init__(self, directory: Path, *, is_quick: bool, live: str = "") -> None:
        super().__init__(directory, live=live)
        self.is_quick = is_quick

    def files(self) -> Sequence[Path]:
        return ()

    def is_quick_to_rewrite(self) -> bool:
        return self.is_quick


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_store_on_a_server_is_written_anew_up_to_a_size(tmp_path: Path, is_quick: bool) -> None:  # noqa: FBT001 - by name
    """No search reaches its files; beyond that size the others would wait for long."""
    found, empty = (RemoteErasures(tmp_path, is_quick=is_quick) for _ in range(2))
    assert cleared(found)
    assert cleared(empty, NOTHING)
    assert (found.rewrites, empty.rewrites) == (int(is_quick), 0)


def test_what_a_search_finds_here_is_no_reason_to_rewrite_a_store_elsewhere(tmp_path: Path) -> None:
    """It is in other files, and is reported."""
    erasures = RemoteErasures(tmp_path, is_quick=False, live=OWNER)
    assert not cleared(erasures)
    assert erasures.rewrites == 0


def test_what_stays_is_told(tmp_path: Path) -> None:
    """Although the store was written anew: a name that nobody else has."""
    erasures = Erasures(tmp_path, live=OWNER)
    assert not cleared(erasures)
    assert erasures.rewrites == 2
