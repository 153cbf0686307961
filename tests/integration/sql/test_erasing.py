"""An erasure looks into every table that holds anything of users, those of later versions too."""

from __future__ import annotations

from backends.sql.erasing import KNOWN
from backends.sql.tables import metadata

NOBODYS = {"api_keys", "counters", "embeddings", "erasures", "leases", "vault_state"}
"""Leases name processes, and the vault's state the vault; embeddings are found by the digests of the texts; erasures are
what is noted of the erasure itself; keys are of whoever runs the service, who revokes them."""


def test_every_table_is_known() -> None:
    """A table that names neither its owner nor the row of a memory is not erased by itself: say here why."""
    assert set(metadata.tables) == KNOWN | NOBODYS
