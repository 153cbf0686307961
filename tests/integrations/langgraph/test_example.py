"""The example agent."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess


def test_the_second_thread_knows_the_first(server: ServerProcess) -> None:
    """Nothing but the store connects them."""
    output = run_example("langgraph", server)

    assert "Known: My dog is called Rex.\nWhat is my dog called? -> Your dog is Rex." in output
