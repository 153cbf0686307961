"""Rules of the code: imports, long functions, generated code, errors, locks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.domain import errors
from memsvc.server.error_status import REASON_PREFIX
from memsvc.v1 import errors_pb2 as errors_pb
from tests.architecture.source_files import ROOT, hand_written, nodes, text_of, tree

pytestmark = pytest.mark.xdist_group("architecture")
"""One process parses the files once."""
POLLING = ROOT / "tests" / "support" / "until.py"
"""The helper that looks again after a pause, where another process is waited for."""
MAX_FUNCTION_LINES = 50
LONG_FUNCTIONS: dict[str, str] = {
    "backends/memsvc_backends/sql/memory_codec.py:memory_from_row": "one line for each field of a memory",
    "backends/memsvc_backends/sql/memory_codec.py:record_row": "one line for each column",
    "backends/memsvc_backends/sql/migrations/versions/r0001_initial.py:_memory_indexes": "one call for each index",
    "memsvc/cli/context.py:context": "one line for each option",
    "memsvc/cli/import_memories.py:import_memories": "one line for each option",
    "memsvc/cli/memories.py:add": "one line for each option",
    "memsvc/cli/search.py:search": "one line for each option",
    "memsvc/server/requests/search.py:_context_query": "one line for each field",
}
"""Functions of more lines than that, by file and name, each with its reason."""
BROAD_CATCHES = {
    "memsvc/server/executors.py",
    "memsvc/server/interceptors/chain.py",
    "memsvc/server/monitoring/health.py",
    "memsvc/engine/indexing/indexer.py",
    "memsvc/engine/indexing/passage_tokens.py",
    "memsvc/engine/indexing/reindex.py",
    "memsvc/engine/indexing/vector_entries.py",
    "memsvc/engine/files/text_indexer.py",
    "memsvc/engine/runtime/periodic_task.py",
    "memsvc/engine/maintenance/scheduler.py",
    "memsvc/engine/vault/outbox_follower.py",
    "memsvc/engine/vault/watcher.py",
    "memsvc/engine/commit/busy_owners.py",
    "memsvc/engine/commit/group_committer.py",
    "memsvc/ports/faults.py",
    "memsvc/server/webhooks.py",
    "backends/memsvc_backends/postgres_common/watchdog.py",
    "backends/memsvc_backends/qdrant_edge/watchdog.py",
    "memsvc/server/interceptors/authentication.py",
    "backends/memsvc_backends/qdrant_edge/worker.py",
}
"""Where every exception may be swallowed: the chain around all calls, the loops of background tasks, worker threads and
the committer, which hand it to the caller, and the child process, whose engine raises bare ones."""


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    docstring = ast.get_docstring(function, clean=False)
    own = (function.end_lineno or function.lineno) - function.lineno + 1
    return own - (docstring.count("\n") + 1 if docstring else 0)


def test_a_function_over_fifty_lines_has_a_reason() -> None:
    """A long function is split, or listed with the reason that keeps it whole."""
    long = set()
    for path in hand_written():
        name = path.relative_to(ROOT)
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(node) > MAX_FUNCTION_LINES:
                long.add(f"{name}:{node.name}")

    assert long == set(LONG_FUNCTIONS)


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches every exception and does not raise again."""
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {""}
    raises = any(isinstance(node, ast.Raise) for part in handler.body for node in ast.walk(part))
    return bool(caught & {"Exception", "BaseException", ""}) and not raises


def test_every_exception_is_swallowed_only_where_it_may_be() -> None:
    """A broad except hides faults; it has its places."""
    broad = {
        str(path.relative_to(ROOT))
        for path in hand_written()
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and swallows_everything(node)
    }

    assert broad == BROAD_CATCHES


def sleeps(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that call a function named sleep; `sleep(0)` only gives other tasks a turn."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not (
            node.args and isinstance(node.args[0], ast.Constant) and not node.args[0].value
        ):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name.endswith("sleep"):
                yield node.lineno


def test_no_test_sleeps() -> None:
    """A test waits for an event or a condition: a sleep is too short on a busy machine, and too long elsewhere."""
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT).parts[1] != "bench" and path != POLLING and "sleep" in text_of(path)
        for line in sleeps(tree(path))
    }

    assert found == set()


def test_every_error_has_its_reason_and_every_reason_its_error() -> None:
    """What the domain raises and what the API promises are the same."""
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    raised = {cls.reason for cls in classes if issubclass(cls, errors.MemsvcError)}
    names = errors_pb.ErrorReason.keys()
    promised = {name.removeprefix(REASON_PREFIX) for name in names} - {"UNSPECIFIED"}

    assert raised == promised


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock", "docker/requirements.lock"])
def test_locks_hold_hashes_and_no_address(name: str) -> None:
    """Every package is pinned with hashes, wherever it is fetched from."""
    text = (ROOT / name).read_text(encoding="utf-8")

    assert "://" not in text
    assert not re.search(r"^--", text, flags=re.MULTILINE)
    for package in re.split(r"\n(?=\S)", text.strip()):
        assert "==" in package
        assert "--hash=sha256:" in package


def test_the_embedded_profile_loads_no_server_client() -> None:
    """qdrant-client takes more than a second to import; only its own adapter may ask for it."""
    script = (
        "import sys; from memsvc import bootstrap; from memsvc.bootstrap.plugins import load_backend\n"
        "for port, name in (('metadata', 'sql'), ('vectors', 'qdrant-edge'), ('lexical', 'tantivy')):\n"
        "    load_backend(port, name)\n"
        "print([name for name in ('qdrant_client', 'qdrant_edge', 'alembic') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_a_running_embedded_service_has_loaded_no_server_client(tmp_path: Path) -> None:
    """Not by the choice of backends alone: open, indexing and searching, it still does without qdrant-client."""
    script = (
        "import sys; from pathlib import Path\n"
        "from memsvc.bootstrap.app import running\n"
        "from memsvc.domain.clock import Deadline; from memsvc.domain.search import SearchQuery\n"
        "from memsvc.domain.scope import Scope; from memsvc.settings import load_settings\n"
        "with running(load_settings(data_dir=Path(sys.argv[1]), embedder={'backend': 'wordllama'})) as application:\n"
        "    application.search.search(SearchQuery(Scope('u'), text='x'), Deadline())\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('qdrant_client', 'qdrant_edge')])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "data")]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
