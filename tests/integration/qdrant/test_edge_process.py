"""The child process is supervised: it comes back when it dies, and goes when it is not needed."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError, DeadlineExceededError
from memsvc.domain.index_entries import VectorManifest, View, row_of
from memsvc.ports.indexes import VectorEntry
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.derived_index import NO_HURRY, REACH
from memsvc.testing.vectors import unit, vector_entry
from memsvc_backends.qdrant_edge.generation import EdgeGeneration
from memsvc_backends.qdrant_edge.index import EDGE, QdrantEdgeIndex
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from tests.support.child_processes import child_pids
from tests.support.process_limits import no_file_grows, no_more_files
from tests.support.thread_limit import no_new_threads
from tests.support.until import PATIENCE_SECONDS, until

PROJECT_ROOT = Path(__file__).parents[3]
PARENT = """
import os, sys, threading
from pathlib import Path
from memsvc_backends.qdrant_edge.index import EDGE
from memsvc_backends.qdrant_edge.settings import QdrantEdgeSettings
from memsvc.domain.index_entries import VectorManifest
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.vectors import unit, vector_entry
import numpy as np

def entries(rows, dimension):
    random = np.random.default_rng(rows[0])
    plain = factories.attributes(1)
    for row in rows:
        yield row, [vector_entry(plain._replace(row=row), unit(*random.normal(size=dimension)))]

def say(*words):
    print(*words, flush=True)

with EDGE.open(QdrantEdgeSettings(), BackendContext(Path(sys.argv[1]), None)) as index:
    first = index.begin(VectorManifest(1, "m", 3, 1))
    first.seal()
    index.switch(first)
    say("child", index.child_pid)
    if sys.argv[2] == "write":
        for row in range(1, 1_000_000):
            index.replace(dict(entries([row], 3)))
            say("row", row)
    else:
        made = index.begin(VectorManifest(2, "m", 64, 1, hnsw=True))
        say("builder", made.builder_pid)
        made.replace(dict(entries(range(1, 6001), 64)))
        say("sealing")
        made.seal()
        say("sealed")
"""


def entry(row: int, *direction: float) -> VectorEntry:
    """Return a chunk of a memory."""
    return vector_entry(factories.attributes(row), unit(*(direction or (1, 0, 0))))


def found(index: QdrantEdgeIndex, *, deadline: Deadline = NO_HURRY) -> list[int]:
    """Return the rows that a search of everything finds."""
    hits = index.search(unit(1, 0, 0), view=View.CHUNK, reach=REACH, limit=10_000, deadline=deadline)
    return sorted(row_of(hit.entry_id) for hit in hits)


def child_of(index: QdrantEdgeIndex) -> int:
    """Return the process id of the child."""
    assert index.child_pid is not None
    return index.child_pid


def wait_until_gone(pid: int) -> None:
    """Return when the process has ended; fail when it lives on."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
        assert ready, f"process {pid} lives on"
    finally:
        os.close(descriptor)


def test_killed_child_loses_nothing_and_nobody_notices(index: QdrantEdgeIndex) -> None:
    """Through many kills every search answers and every acknowledged change stays."""
    turns, rows_each = 8, 12
    faults: list[BaseException] = []
    done = threading.Event()

    def search() -> None:
        seen: list[int] = []
        while not done.is_set():
            try:
                now = found(index)
                assert set(seen) <= set(now)
                seen = now
            except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
                faults.append(error)
                return

    def kill(times: int) -> None:
        for _ in range(times):
            wrote.acquire()
            os.kill(child_of(index), signal.SIGKILL)
            killed.release()

    wrote, killed = threading.Semaphore(0), threading.Semaphore(0)
    threads = [threading.Thread(target=search) for _ in range(4)]
    threads.append(threading.Thread(target=kill, args=(turns,)))
    for thread in threads:
        thread.start()
    for row in range(1, turns * rows_each + 1):
        index.replace({row: [entry(row)]})
        if row % rows_each == rows_each // 2:
            wrote.release()
        if row % rows_each == 0:
            # Of two kills on end, the second would meet no child: another was not started yet.
            assert killed.acquire(timeout=PATIENCE_SECONDS)
    done.set()
    for thread in threads:
        thread.join()

    assert faults == []
    assert found(index) == list(range(1, turns * rows_each + 1))


def test_killed_parent_loses_nothing_and_leaves_no_child(
    directory: Path, open_index: Callable[[], QdrantEdgeIndex]
) -> None:
    """After kill -9 of the whole server every acknowledged change is there, and its child is gone."""
    command = [sys.executable, "-c", PARENT, str(directory), "write"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT_ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline().split()[1])
        while parent.stdout.readline() != "row 60\n":
            pass
        parent.kill()
        acknowledged = 60 + len(parent.stdout.readlines())

    wait_until_gone(child)
    rows = found(open_index())
    assert rows[:acknowledged] == list(range(1, acknowledged + 1))
    assert len(rows) <= acknowledged + 1


def test_killed_parent_leaves_no_builder(directory: Path, open_index: Callable[[], QdrantEdgeIndex]) -> None:
    """Not even a builder deep in a graph outlives the server, and what it made is cleared away."""
    command = [sys.executable, "-c", PARENT, str(directory), "build"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT_ROOT) as parent:
        assert parent.stdout is not None
        child, builder = (int(parent.stdout.readline().split()[1]) for _ in range(2))
        assert parent.stdout.readline() == "sealing\n"
        parent.kill()
        assert parent.stdout.read() == ""

    wait_until_gone(builder)
    wait_until_gone(child)
    manifest = open_index().manifest
    assert manifest is not None
    assert manifest.generation == 1
    assert sorted(path.name for path in directory.iterdir()) == ["gen-000001", "manifest.json"]


def test_killed_builder_leaves_the_live_generation(index: QdrantEdgeIndex) -> None:
    """A builder that dies fails its generation alone; the number can be used again."""
    index.replace({1: [entry(1)]})
    for stage in ("replace", "seal"):
        made = index.begin(VectorManifest(generation=2, model="m", dimension=3, position=1))
        assert isinstance(made, EdgeGeneration)
        made.replace({9: [entry(9)]})
        os.kill(made.builder_pid, signal.SIGKILL)

        with pytest.raises(BackendUnavailableError):
            made.replace({9: [entry(9)]}) if stage == "replace" else made.seal()
        made.discard()

    assert found(index) == [1]
    made = index.begin(VectorManifest(generation=2, model="m", dimension=3, position=1))
    made.replace({2: [entry(2)]})
    made.seal()
    index.switch(made)
    assert found(index) == [2]


def test_child_killed_with_a_sealed_generation_is_opened_again(index: QdrantEdgeIndex) -> None:
    """What becomes of the live child is nothing to a sealed generation, nor to what was replaced in it since."""
    index.replace({1: [entry(1)]})
    made = index.begin(VectorManifest(generation=2, model="m", dimension=3, position=1))
    made.replace({2: [entry(2)]})
    made.seal()
    made.replace({3: [entry(3)]})
    os.kill(child_of(index), signal.SIGKILL)
    made.replace({4: [entry(4)]})

    assert found(index) == [1]
    index.switch(made)
    assert found(index) == [2, 3, 4]


def test_deadline_holds_while_the_child_hangs(index: QdrantEdgeIndex) -> None:
    """A child that does not answer costs a caller no more than its time, and no later caller a wrong answer."""
    index.replace({row: [entry(row, 1, row, 0)] for row in range(1, 13)})
    child = child_of(index)
    os.kill(child, signal.SIGSTOP)
    try:
        for _ in range(20):
            with pytest.raises(DeadlineExceededError):
                found(index, deadline=Deadline.after(0.005))
    finally:
        os.kill(child, signal.SIGCONT)

    for row in range(1, 13):
        direction = unit(1, row, 0)
        hits = index.search(direction, view=View.CHUNK, reach=REACH, limit=1, deadline=NO_HURRY)
        assert [row_of(hit.entry_id) for hit in hits] == [row]
    assert child_of(index) == child


def test_ping_without_a_generation_needs_no_child(open_index: Callable[[], QdrantEdgeIndex]) -> None:
    """An index that finds nothing yet is well."""
    index = open_index()
    index.ping()

    assert index.child_pid is None


def test_ping_of_a_hanging_child_fails(index: QdrantEdgeIndex) -> None:
    """A ping does not wait for ever."""
    index.ping()
    os.kill(child_of(index), signal.SIGSTOP)
    try:
        with pytest.raises(BackendUnavailableError):
            index.ping()
    finally:
        os.kill(child_of(index), signal.SIGCONT)
    index.ping()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_group_does_not_end_the_child(index: QdrantEdgeIndex, number: signal.Signals) -> None:
    """The child lives until its parent says so."""
    child = child_of(index)
    os.kill(child, number)
    index.replace({1: [entry(1)]})

    assert found(index) == [1]
    assert child_of(index) == child


def test_processes_have_a_group_of_their_own_in_the_session_of_their_parent(index: QdrantEdgeIndex) -> None:
    """Ctrl-C does not reach them, and a builder's niceness counts beside the searches of this service."""
    made = index.begin(VectorManifest(generation=2, model="m", dimension=3, position=1))
    assert isinstance(made, EdgeGeneration)
    processes = [child_of(index), made.builder_pid]

    assert [os.getpgid(process) for process in processes] == processes
    assert {os.getsid(process) for process in processes} == {os.getsid(0)}
    own = os.nice(0)
    assert [os.getpriority(os.PRIO_PROCESS, process) for process in processes] == [own, min(own + 10, 19)]


def test_closing_ends_child_and_builder(index: QdrantEdgeIndex, stack: ExitStack) -> None:
    """No process is left when the index is closed."""
    made = index.begin(VectorManifest(generation=2, model="m", dimension=3, position=1))
    assert isinstance(made, EdgeGeneration)
    processes = [child_of(index), made.builder_pid]
    stack.close()

    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_more_threads_than_connections_take_turns(index: QdrantEdgeIndex) -> None:
    """Any number of threads may search at once."""
    index.replace({row: [entry(row)] for row in range(1, 6)})
    answers: list[list[int]] = []
    threads = [threading.Thread(target=lambda: answers.append(found(index))) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [[1, 2, 3, 4, 5]] * 24


@pytest.mark.parametrize(
    ("limit", "message"), [(no_file_grows, "no space left"), (no_more_files, "limit of open files")]
)
def test_what_cannot_be_opened_now_is_kept(
    index: QdrantEdgeIndex,
    stack: ExitStack,
    directory: Path,
    open_index: Callable[[], QdrantEdgeIndex],
    limit: Callable[[], AbstractContextManager[None]],
    message: str,
) -> None:
    """A full disk does not cost the index: the start names it, and the next one serves what was there."""
    index.replace({1: [entry(1)]})
    stack.close()

    with limit(), pytest.raises(BackendUnavailableError, match=message):
        open_index()

    assert (directory / "manifest.json").exists()
    assert found(open_index()) == [1]


@pytest.mark.parametrize("damage", ["no folder", "torn configuration", "torn manifest", "other format"])
def test_what_cannot_be_read_is_given_up(
    index: QdrantEdgeIndex,
    stack: ExitStack,
    directory: Path,
    open_index: Callable[[], QdrantEdgeIndex],
    caplog: pytest.LogCaptureFixture,
    damage: str,
) -> None:
    """A damaged index opens without a generation and says so; a new one can be made."""
    index.replace({1: [entry(1)]})
    stack.close()
    manifest = directory / "manifest.json"
    if damage == "no folder":
        (directory / "gen-000001").rename(directory / "elsewhere")
    elif damage == "torn configuration":
        (directory / "gen-000001" / "edge_config.json").write_text("{")
    elif damage == "torn manifest":
        manifest.write_text(manifest.read_text()[:40])
    else:
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))

    again = open_index()

    assert again.manifest is None
    assert "given up" in caplog.text
    assert not manifest.exists()
    made = again.begin(VectorManifest(generation=1, model="m", dimension=3, position=1))
    made.replace({5: [entry(5)]})
    made.seal()
    again.switch(made)
    assert found(again) == [5]


def test_importing_the_backend_loads_no_engine() -> None:
    """The server's process has neither the engine nor its client; the child has neither pydantic nor numpy."""
    script = "import sys, {module}; print(*sorted({names} & set(sys.modules)))"
    unwanted = {
        "memsvc_backends.qdrant_edge.index": {"qdrant_edge", "qdrant_client"},
        "memsvc_backends.qdrant_edge.worker": {"pydantic", "numpy", "memsvc"},
    }
    for module, names in unwanted.items():
        command = [sys.executable, "-c", script.format(module=module, names=sorted(names) and set(names))]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT_ROOT).stdout
        assert printed.split() == []


def quick(directory: Path, stack: ExitStack) -> QdrantEdgeIndex:
    """Open an index whose builders may hang for half a second."""
    context = BackendContext(directory, lambda: datetime.now(UTC))
    index = stack.enter_context(EDGE.open(QdrantEdgeSettings(hang_seconds=0.05), context))
    assert isinstance(index, QdrantEdgeIndex)
    return index


def test_a_builder_that_hangs_is_killed(directory: Path, stack: ExitStack) -> None:
    """The write that waits for it fails, and another generation can be built."""
    index = quick(directory, stack)
    made = index.begin(VectorManifest(generation=1, model="m", dimension=3, position=1))
    assert isinstance(made, EdgeGeneration)
    os.kill(made.builder_pid, signal.SIGSTOP)

    with pytest.raises(BackendUnavailableError):
        made.replace({1: [entry(1)]})

    made.discard()
    again = index.begin(VectorManifest(generation=1, model="m", dimension=3, position=1))
    again.replace({1: [entry(1)]})
    again.seal()
    index.switch(again)
    assert [1] == found(index)


def test_the_watchdog_outlasts_a_child_that_cannot_be_replaced(
    directory: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while too many files are open; the call is refused as unavailable, and the next child that hangs is replaced."""
    index, failures = quick(directory, stack), []
    made = index.begin(VectorManifest(generation=1, model="m", dimension=3, position=1))
    made.replace({1: [entry(1)]})
    made.seal()
    index.switch(made)

    def refuse() -> tuple[int, int]:
        failures.append(1)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", refuse)
        os.kill(child_of(index), signal.SIGSTOP)
        until(lambda: failures)
        with pytest.raises(BackendUnavailableError):
            found(index)
    assert [1] == found(index)
    hanging = child_of(index)
    os.kill(hanging, signal.SIGSTOP)

    wait_until_gone(hanging)


def test_a_builder_that_works_for_long_is_left_alone(directory: Path, stack: ExitStack) -> None:
    """Though it answers nothing while it builds a graph."""
    index = quick(directory, stack)
    made = index.begin(VectorManifest(generation=1, model="m", dimension=64, position=1, hnsw=True))
    random = np.random.default_rng(1)
    made.replace({row: [entry(row, *random.normal(size=64))] for row in range(1, 12_001)})

    made.seal()

    index.switch(made)
    assert index.count() == 12_000


def test_a_child_whose_thread_cannot_be_started_is_not_left(index: QdrantEdgeIndex) -> None:
    """Nor its process; the next search has a child as soon as a thread can be started."""
    index.replace({1: [entry(1)]})
    before = set(child_pids(os.getpid()))
    with no_new_threads("edge-messages"):
        os.kill(child_of(index), signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(BackendUnavailableError):
                found(index)
        assert set(child_pids(os.getpid())) < before

    assert until(lambda: _found_again(index)) == [1]


def _found_again(index: QdrantEdgeIndex) -> list[int]:
    with suppress(BackendUnavailableError):
        return found(index)
    return []


def test_a_shard_that_opens_slowly_gets_more_time(index: QdrantEdgeIndex) -> None:
    """Each child that is killed before it has opened the shard is followed by one with twice the time."""
    index.replace({1: [entry(1)]})
    live = index.live()
    assert live is not None
    shard = live.shard
    shard._open_seconds = 0.05
    os.kill(child_of(index), signal.SIGKILL)
    with pytest.raises(BackendUnavailableError):
        found(index)

    assert until(lambda: _found_again(index)) == [1]
    assert shard._open_seconds == QdrantEdgeSettings().open_seconds
