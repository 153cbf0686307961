"""What the Tantivy index leaves on the disk, and what it makes of what it finds there."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.index_entries import LexicalManifest
from memsvc.ports.indexes import LexicalIndex
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import REACH
from memsvc.testing.lexical import lexical_entry
from memsvc_backends.tantivy import TANTIVY
from memsvc_backends.tantivy.index import TantivySettings
from memsvc_backends.tantivy.schema import FORMAT
from tests.support.process_limits import no_file_grows, no_more_files


def opened(folder: Path) -> AbstractContextManager[LexicalIndex]:
    """Open the index in the folder."""
    return TANTIVY.open(TantivySettings(), BackendContext(directory=folder, now=lambda: datetime.now(UTC)))


def renew(index: LexicalIndex, generation: int, *rows: int) -> None:
    """Switch to a generation in which these memories hold the term tea."""
    made = index.begin(LexicalManifest(generation, 7, "test"))
    made.replace({row: [lexical_entry(factories.attributes(row), ["tea", f"cup{row}"])] for row in rows})
    made.seal()
    index.switch(made)


def rows(index: LexicalIndex) -> list[int]:
    """Return the memories that hold the term tea."""
    return sorted(hit.entry_id >> 16 for hit in index.search(["tea"], reach=REACH, limit=100, deadline=Deadline()))


def test_generations_are_folders_beside_a_manifest(tmp_path: Path) -> None:
    """The live generation has a folder of its own; the one before it is gone after the switch."""
    with opened(tmp_path / "lexical") as index:
        renew(index, 1, 1)
        first = sorted(path.name for path in (tmp_path / "lexical").iterdir())
        renew(index, 2, 1)
        second = sorted(path.name for path in (tmp_path / "lexical").iterdir())

    assert first == ["gen-000001", "manifest.json"]
    assert second == ["gen-000002", "manifest.json"]


def test_leftovers_are_removed_at_opening(tmp_path: Path) -> None:
    """Folders that the manifest does not name are removed; what is not a generation stays."""
    with opened(tmp_path) as index:
        renew(index, 2, 1)
    for name in ("gen-000001", "gen-000003", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.json").write_text("{}")

    with opened(tmp_path) as index:
        assert rows(index) == [1]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["gen-000002", "manifest.json", "notes"]


def test_beginning_anew_discards_what_was_begun(tmp_path: Path) -> None:
    """Of generations that were begun one after the other only the last can go live."""
    with opened(tmp_path) as index:
        first = index.begin(LexicalManifest(1, 0, "test"))
        second = index.begin(LexicalManifest(2, 0, "test"))

        with pytest.raises(ValueError, match="not the one"):
            index.switch(first)
        index.switch(second)

        assert index.manifest == LexicalManifest(2, 0, "test")
        assert not (tmp_path / "gen-000001").exists()


def test_storage_is_measured(tmp_path: Path) -> None:
    """The bytes on disk grow with the entries and shrink with the generation that replaces theirs."""
    with opened(tmp_path) as index:
        empty = index.storage_bytes()
        renew(index, 1, *range(500))
        full = index.storage_bytes()
        renew(index, 2, 1)

        assert empty == 0
        assert 0 < index.storage_bytes() < full


def test_live_generation_removed_beneath_its_searches_does_not_stop_them(tmp_path: Path) -> None:
    """An inventory that began before a switch goes on to its end over the old generation."""
    with opened(tmp_path) as index:
        renew(index, 1, 1, 2, 3)
        inventory = index.inventory()
        begun = [next(inventory)]
        renew(index, 2, 9)

        assert [listed.entry_id >> 16 for listed in (*begun, *inventory)] == [1, 2, 3]
        assert rows(index) == [9]


def _cut_files(folder: Path) -> None:
    for path in (folder / "gen-000001").glob("*.term"):
        path.write_bytes(b"")


def _fill_files_with_noise(folder: Path) -> None:
    for path in (folder / "gen-000001").iterdir():
        path.write_bytes(b"\xa5" * 200)


def _remove_a_file(folder: Path) -> None:
    next((folder / "gen-000001").glob("*.fast")).unlink()


def _remove_generation(folder: Path) -> None:
    shutil.rmtree(folder / "gen-000001")


def _cut_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"format": 1, "gen', encoding="utf-8")


def _age_manifest(folder: Path) -> None:
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    (folder / "manifest.json").write_text(text.replace(f'"format": {FORMAT}', '"format": 0'), encoding="utf-8")


def _break_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"\xff\xfe[]")


@pytest.mark.parametrize(
    "damage",
    [
        _cut_files,
        _fill_files_with_noise,
        _remove_a_file,
        _remove_generation,
        _cut_manifest,
        _age_manifest,
        _break_manifest,
    ],
)
def test_unreadable_generation_is_taken_for_absent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    """Damage found at opening is logged, never raised, and the same number can be built again."""
    with opened(tmp_path) as index:
        renew(index, 1, 1, 2)
    damage(tmp_path)

    with caplog.at_level(logging.WARNING), opened(tmp_path) as index:
        assert index.manifest is None
        assert rows(index) == []
        renew(index, 1, 3)
        assert rows(index) == [3]

    assert "lexical index unreadable" in caplog.text
    with opened(tmp_path) as index:
        assert rows(index) == [3]


def test_what_cannot_be_opened_now_is_kept(tmp_path: Path) -> None:
    """The start names the obstacle, and the next one serves what was there."""
    with opened(tmp_path) as index:
        renew(index, 1, 1, 2)

    with no_more_files(), pytest.raises(BackendUnavailableError, match="limit of open files"), opened(tmp_path):
        pass

    with no_file_grows(), opened(tmp_path) as index:
        assert rows(index) == [1, 2]


def test_intact_index_opens_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a first start nor a restart logs a warning."""
    with caplog.at_level(logging.WARNING):
        with opened(tmp_path) as index:
            renew(index, 1, 1)
        with opened(tmp_path) as index:
            assert rows(index) == [1]

    assert caplog.text == ""


KILLED = """
import os, signal, sys
from pathlib import Path
from memsvc.domain.index_entries import LexicalManifest
from memsvc.testing import factories
from memsvc.testing.lexical import lexical_entry
from tests.integration.tantivy.test_tantivy_files import opened, renew

with opened(Path(sys.argv[1])) as index:
    renew(index, 1, 1, 2)
    index.replace({3: [lexical_entry(factories.attributes(3), ["tea"])], 1: ()})
    index.begin(LexicalManifest(2, 0, "test")).replace({9: [lexical_entry(factories.attributes(9), ["tea"])]})
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="There is no SIGKILL.")
def test_replaced_entries_survive_a_kill(tmp_path: Path) -> None:
    """What `replace` returned from is there after kill -9, and the generation being made is gone."""
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, check=False, capture_output=True)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with opened(tmp_path) as index:
        assert index.manifest == LexicalManifest(1, 7, "test")
        assert rows(index) == [2, 3]
        assert not (tmp_path / "gen-000002").exists()
        renew(index, 2, 4)
        assert rows(index) == [4]
