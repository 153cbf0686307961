"""An erasure looks into every table that holds anything of users, those of later versions too."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from memsvc.domain.clock import to_micros
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.engine.user_data.residue_scan import search_files
from memsvc.testing.factories import NOW
from memsvc_backends.sql import SqlMetadataStore
from memsvc_backends.sql.erasure import KNOWN
from memsvc_backends.sql.tables import metadata

OWNER = "\x1fbandicoot"
BEGUN = Erasure(owner_digest(OWNER), OWNER, "r", NOW, projects=("burrows", ""))

NOBODYS = {
    "api_keys",
    "call_rates",
    "counters",
    "embeddings",
    "erasures",
    "leases",
    "quotas",
    "stored_amounts",
    "vault_state",
    "webhook_cursors",
}
"""Leases name processes, and the vault's state the vault; embeddings are found by the digests of the texts; erasures are
what is noted of the erasure itself; keys and quotas are of whoever runs the service, who revokes them;
amounts are sums over a tenant; rates of calls are found by digests of keys; cursors of webhooks are positions."""


def test_every_table_is_known() -> None:
    """A table that names neither its owner nor the row of a memory is not erased by itself: say here why."""
    assert set(metadata.tables) == KNOWN | NOBODYS


def test_the_note_of_a_running_erasure_is_not_found_by_a_search(store: SqlMetadataStore, tmp_path: Path) -> None:
    """Of whom it is, and in which projects: what a search for that finds is left over."""
    with store.transaction() as transaction:
        transaction.begin_erasure(BEGUN)

    assert store.erasures.settle()
    assert () == search_files(tmp_path, [OWNER, "burrows"]).holding
    assert [BEGUN] == store.erasures.unfinished_erasures()
    assert [tmp_path / "memsvc.db", tmp_path / "memsvc.db-wal"] == list(store.erasures.files())


def test_what_an_earlier_version_noted_is_understood(store: SqlMetadataStore, tmp_path: Path) -> None:
    """It is as it was said: an update may come in the middle of an erasure."""
    with closing(sqlite3.connect(tmp_path / "memsvc.db")) as database:
        values = (BEGUN.owner_digest, OWNER, "r", to_micros(NOW), None, '["burrows",""]', "")
        database.execute("INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        database.commit()
    assert BEGUN == store.erasures.find(OWNER)


def test_a_rewritten_file_is_made_beside_the_old_one(store: SqlMetadataStore, tmp_path: Path) -> None:
    """Not in memory, and nothing of it stays; what comes after is sorted in memory as before."""
    store.erasures.rewrite()
    assert {"memsvc.db", "memsvc.db-wal", "memsvc.db-shm"} >= {path.name for path in tmp_path.iterdir()}
    store.ping()
