"""Text that is removed for good leaves SQLite's log soon, not only when the service stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.domain.scope import Reach
from memsvc.testing import factories
from memsvc.testing.store_harness import insert, purge
from memsvc_backends.sql import SqlMetadataStore
from tests.support.until import until

SECRETS = ["quaggasecret of Ada", "阿达的斑驴秘密"]


def held(directory: Path, text: str) -> set[str]:
    """Return the files that hold a text."""
    return {path.name for path in directory.iterdir() if path.is_file() and text.encode() in path.read_bytes()}


@pytest.mark.parametrize("secret", SECRETS)
def test_purged_text_leaves_the_log(store: SqlMetadataStore, tmp_path: Path, secret: str) -> None:
    """And is in no page of the file; a memory that is updated or deleted stays."""
    [gone, kept] = insert(store, factories.memory(secret), factories.memory("okapi"))
    assert held(tmp_path, secret) == {"memsvc.db-wal"}

    purge(store, gone)

    until(lambda: not held(tmp_path, secret))
    assert held(tmp_path, "okapi") == {"memsvc.db"}
    assert store.memories.get([kept.id], reach=Reach.from_scope(kept.scope))


def test_removed_embeddings_leave_the_log(store: SqlMetadataStore, tmp_path: Path) -> None:
    """Their digests and vectors."""
    digest = b"quaggadigest-of-the-embedded-txt"
    store.embeddings.put("m", {digest: b"v" * 64})
    assert held(tmp_path, digest.decode()) == {"memsvc.db-wal"}
    store.embeddings.remove("m", [digest])
    until(lambda: not held(tmp_path, digest.decode()))
