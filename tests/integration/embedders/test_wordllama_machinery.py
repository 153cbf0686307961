"""What only the wordllama embedder has: an optional package with side effects."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from memsvc.ports.plugin import BackendContext
from memsvc_backends.wordllama import WORDLLAMA, WordllamaSettings

QUIET = """
import logging, sys
from pathlib import Path
from memsvc_backends.wordllama import WORDLLAMA, WordllamaSettings
assert "wordllama" not in sys.modules
with WORDLLAMA.open(WordllamaSettings(), None) as embedder:
    embedder.embed_query("hello")
assert logging.getLogger().handlers == [], logging.getLogger().handlers
assert logging.getLogger().level == logging.WARNING
"""


def test_a_missing_package_is_named_with_the_way_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, opening says which command installs it."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    context = BackendContext(tmp_path, lambda: datetime(2026, 2, 6, tzinfo=UTC))

    with (
        pytest.raises(ModuleNotFoundError, match=r"pip install memsvc\[wordllama\]"),
        WORDLLAMA.open(WordllamaSettings(), context),
    ):
        pass


@pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra wordllama is not installed")
def test_loading_leaves_logging_as_it_was() -> None:
    """The package is imported when opened, not before, and its logging set-up is undone."""
    finished = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=False)

    assert (finished.returncode, finished.stderr) == (0, "")
