"""How a cluster gets its first key: by a data directory of any name, while its replicas run and let nobody in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsvc.client import Memsvc, MemsvcCallError
from tests.support.forked_process import run_memsvc
from tests.support.postgres_server import schema
from tests.support.server_process import FAST, ServerProcess


def test_a_key_is_made_beside_a_running_replica(tmp_path: Path) -> None:
    """The address of the database is a secret in a file; the service takes the new key without a restart."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    with schema() as address:
        (secrets / "memsvc_metadata__options__url").write_text(address)
        variables = FAST | {"MEMSVC_ACCESS__KEYS": "required", "MEMSVC_SECRETS_DIR": str(secrets)}
        with ServerProcess(tmp_path / "data", variables) as server:
            with Memsvc(server.bound, user_id="ann", api_key="") as client, pytest.raises(MemsvcCallError) as refused:
                client.create("Nobody is let in.")
            command = ["keys", "create", "--role", "admin", "--name", "operations", "--data-dir", str(tmp_path / "any")]
            made = run_memsvc(*command, environment={**os.environ, **variables})
            key = next(word for word in made.stdout.split() if word.startswith("memsvc_"))
            with Memsvc(server.bound, user_id="ann", api_key=key) as client:
                stored = client.create("Whoever has a key is let in.")

    assert refused.value.reason == "API_KEY_REQUIRED"
    assert stored.memory.content == "Whoever has a key is let in."
