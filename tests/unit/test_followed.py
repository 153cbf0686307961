"""Indexes that did not follow the present store all along are known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from backends.inproc.metadata import InprocMetadataStore
from memsvc.settings import BackendChoice, Settings
from memsvc.wiring.followed import FILE, has_followed


def _store() -> InprocMetadataStore:
    return InprocMetadataStore(lambda: datetime.now(UTC))


def test_indexes_of_another_store_or_another_kind_are_compared_once(tmp_path: Path) -> None:
    """Of a new directory nothing is to be compared, nor of one whose record is damaged."""
    here, elsewhere, plain = _store(), _store(), Settings()
    other = plain.model_copy(update={"vectors": BackendChoice(backend="inproc")})

    found = [
        has_followed(settings, tmp_path, store)
        for settings, store in (
            (plain, here),
            (plain, here),
            (plain, elsewhere),
            (plain, elsewhere),
            (other, elsewhere),
        )
    ]
    (tmp_path / FILE).write_text("{")

    assert found == [True, True, False, True, False]
    assert has_followed(plain, tmp_path, here)
