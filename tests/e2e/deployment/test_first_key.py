"""The first key: of a cluster, by a data directory of any name while its replicas run; of one server, by the chart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import helm_python
import pytest
import yaml

from memsvc.client import Memsvc, MemsvcCallError
from tests.support.forked_process import run_memsvc
from tests.support.postgres_server import schema
from tests.support.server_process import FAST, ROOT, ServerProcess


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


def test_the_chart_makes_the_first_key_of_one_server(tmp_path: Path) -> None:
    """Its init container writes the key once, into the volume, readable by the service's user only."""
    with helm_python.Chart.load(ROOT / "docker" / "helm" / "memsvc") as chart:
        [text] = [text for name, text in chart.render().items() if name.endswith("workload.yaml")]
    [container] = yaml.safe_load(text)["spec"]["template"]["spec"]["initContainers"]
    volume = tmp_path / "volume"
    volume.mkdir()
    variables = FAST | {"MEMSVC_ACCESS__KEYS": "required", "MEMSVC_DATA_DIR": str(volume / "data")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    [script] = container["args"]
    command = [*container["command"], script.replace("/var/lib/memsvc", str(volume))]
    keys = []
    for _ in range(2):
        subprocess.run(command, env={**os.environ, **variables, "PATH": path}, check=True)
        keys.append((volume / "first-admin-key").read_text().strip())

    with ServerProcess(volume / "data", variables) as server:
        with Memsvc(server.bound, user_id="ann", api_key=keys[0]) as client:
            stored = client.create("The first key opens the service.")

    assert keys[0] == keys[1]
    assert (volume / "first-admin-key").stat().st_mode & 0o077 == 0
    assert stored.memory.content == "The first key opens the service."
