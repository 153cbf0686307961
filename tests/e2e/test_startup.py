"""Starting: settings from everywhere, clear words when it cannot be, addresses and the data directory."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.cli.demo.run import demo_server
from memsvc.client import Memsvc
from memsvc.data_directory import STORE_RECORD
from memsvc.settings.groups import HttpSettings
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.forked_process import ROOT, run_memsvc
from tests.support.rpc import TIMEOUT, create, get, list_all
from tests.support.server_process import FAST, ServerProcess

FAILED = 1


def serve(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a server that must not come up, and return what it said."""
    names = {name.upper(): value for name, value in environment.items()}
    return run_memsvc("serve", *arguments, environment={**os.environ, **FAST, **names}, directory=cwd)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a failed start says, the last, with nothing of a traceback."""
    assert FAILED == done.returncode, done
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("memsvc: "))
    assert done.stderr.rstrip().endswith(line)
    return line


def test_a_second_process_on_the_data_directory_is_told_whose_it_is(server: ServerProcess) -> None:
    """The first one's process id and what to do; the first goes on."""
    assert server.process is not None
    line = said(serve("--address", "127.0.0.1:0", "--data-dir", str(server.data_dir)))

    assert str(server.process.pid) in line
    assert "--data-dir" in line
    assert server.is_serving("memsvc.v1.SearchService")


def test_a_second_server_at_the_address_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    """In one line, before anything is made or opened."""
    done = serve("--address", server.bound, "--data-dir", str(tmp_path / "data"))

    reason = "the port is in use; stop the other process or choose another port."
    assert done.stderr == f"memsvc: Cannot listen at {server.bound!r}: {reason}\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("setting", ["metrics.address", "server.health_address", "http.address"])
def test_a_second_port_that_is_in_use_is_refused(server: ServerProcess, tmp_path: Path, setting: str) -> None:
    """As early as the first, and by the name of its setting."""
    variable = f"MEMSVC_{setting.replace('.', '__').upper()}"
    done = serve("--address", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), **{variable: server.bound})

    line = said(done)
    assert f"Cannot listen at {server.bound!r}: the port is in use" in line
    assert f'This is {setting} ({variable}); "" ' in line
    assert not (tmp_path / "data").exists()


def test_metrics_at_a_socket_are_refused_by_the_name_of_the_setting(tmp_path: Path) -> None:
    """They need HOST:PORT, which is noticed when the socket could have been made."""
    address = f"unix:{tmp_path / 'm'}"
    line = said(serve("--address", "127.0.0.1:0", "--data-dir", str(tmp_path / "d"), MEMSVC_METRICS__ADDRESS=address))

    assert "HOST:PORT" in line
    assert "metrics.address (MEMSVC_METRICS__ADDRESS)" in line


@pytest.mark.parametrize("address", ["0.0.0.0:0", "127.0.0.1:0,[::]:50051"])
def test_listening_beyond_loopback_is_refused(tmp_path: Path, address: str) -> None:
    """Nobody is asked for a key, so it takes a word: --insecure."""
    line = said(serve("--address", address, "--data-dir", str(tmp_path / "data")))

    assert "--insecure" in line
    assert not (tmp_path / "data").exists()


def test_a_unix_socket_serves_like_a_port(tmp_path: Path) -> None:
    """Beside a port; the socket is its owner's alone, a stale one is replaced, a stopped server leaves none behind."""
    path = tmp_path / "memsvc.sock"
    addresses = f"unix:{path},127.0.0.1:0"
    scope = types_pb.Scope(user_id="u")
    with ServerProcess(tmp_path / "data", address=addresses, module=("memsvc",)) as server:
        assert f"unix:{path}" == server.bound
        with server.stubs() as stubs:
            memory = create(stubs, scope, "x")
            assert memory == get(stubs, scope, memory.id)
        assert stat.S_ISSOCK(path.stat().st_mode)
        line = said(serve("--address", f"unix:{path}", "--data-dir", str(tmp_path / "other")))
        assert str(path) in line
        assert server.is_serving("")
        server.kill()
        assert path.exists()
        server.start()
        with server.stubs() as stubs:
            assert ["x"] == [one.content for one in list_all(stubs, scope)]
        assert server.stop() == 0
    assert not path.exists()


def backends(server: ServerProcess) -> dict[str, str]:
    """Return the backends of a running server, by port."""
    with server.stubs() as stubs:
        diagnosis = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
    assert all(backend.healthy for backend in diagnosis.backends)
    return {backend.port: backend.name for backend in diagnosis.backends}


def test_settings_come_from_the_file_then_the_environment(tmp_path: Path) -> None:
    """A variable overrules the file, the command line both; what none names has its default; --insecure opens up."""
    config = tmp_path / "memsvc.toml"
    config.write_text(
        "[lexical]\nbackend = 'in-memory'\n[vectors]\nbackend = 'in-memory'\n[embedder]\nbackend = 'in-memory'\n"
        "[server]\naddress = '192.0.2.1:1'\nreflection = false\n[log]\nlevel = 'WARNING'\n",
        encoding="utf-8",
    )
    environment = {"MEMSVC_EMBEDDER__BACKEND": "wordllama"}
    arguments = ("--config", str(config), "--insecure")
    address = "0.0.0.0:0"
    with ServerProcess(tmp_path / "data", environment, address, arguments) as server:
        server.bound = f"127.0.0.1:{server.bound.rpartition(':')[2]}"
        found = backends(server)

    assert {
        "metadata": "sql",
        "vectors": "in-memory",
        "lexical": "in-memory",
        "blobs": "fsspec",
        "embedder": "wordllama",
        "tokenizer": "bpe",
    } == found


def test_the_file_in_the_working_directory_is_read(tmp_path: Path) -> None:
    """memsvc.toml, without being named; and the one that MEMSVC_CONFIG names in its place."""
    (tmp_path / "memsvc.toml").write_text("[server]\naddres = 'x'\n", encoding="utf-8")
    other = tmp_path / "other.toml"
    other.write_text("[ranking]\ndepht = 5\n", encoding="utf-8")

    assert "server.addres" in said(serve(cwd=tmp_path))
    assert "ranking.depht" in said(serve(cwd=tmp_path, memsvc_config=str(other)))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[server]\nadress = 'x'\n", "server.adress"),
        ("[server]\nsearch_threads = 0\n", "server.search_threads"),
        ("[vectors]\nbackend = 'qdrant-edge'\n[vectors.options]\nconections = 3\n", "conections"),
        ("this is no toml", "TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, word: str) -> None:
    """An unknown name, a value out of range, an unknown backend or option: nothing is started or made."""
    config = tmp_path / "memsvc.toml"
    config.write_text(text, encoding="utf-8")

    assert word in said(serve("--config", str(config), "--data-dir", str(tmp_path / "data")))
    assert not (tmp_path / "data" / "metadata").exists()


@pytest.mark.parametrize(
    ("variable", "word"),
    [
        ("MEMSVC_EMBEDDER__OPTIONS__MODLE", "modle"),
        ("MEMSVC_SEVRER__ADDRESS", "sevrer"),
    ],
)
def test_a_variable_with_a_wrong_name_is_named(tmp_path: Path, variable: str, word: str) -> None:
    """A typing error in the environment does not go unnoticed."""
    line = said(serve("--data-dir", str(tmp_path / "data"), "--address", "127.0.0.1:0", **{variable: "x"}))

    assert word in line.lower()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A configuration that was asked for is not silently left out."""
    assert "missing.toml" in said(serve("--config", str(tmp_path / "missing.toml")))


def test_a_data_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    """Such as one that is a file."""
    (tmp_path / "file").write_text("", encoding="utf-8")

    assert "file" in said(serve("--data-dir", str(tmp_path / "file"), "--address", "127.0.0.1:0"))


def test_a_data_directory_whose_path_is_too_long_is_named(tmp_path: Path) -> None:
    """SQLite opens files with a path of 504 bytes at most."""
    data = tmp_path.joinpath(*("long" * 50 for _ in range(3)))

    line = said(serve("--address", "127.0.0.1:0", "--data-dir", str(data)))

    assert "SQLite takes 504 at most: choose a shorter data directory" in line


def test_a_data_directory_that_is_a_broken_link_is_named(tmp_path: Path) -> None:
    """With what it leads to: a volume that is not mounted, for one."""
    (tmp_path / "data").symlink_to(tmp_path / "volume")

    line = said(serve("--address", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")))

    assert f"is a link to '{tmp_path / 'volume'}', which does not exist" in line


@pytest.mark.parametrize(("first", "last"), [(0, 200), (4_096, 40_000)])
def test_a_damaged_database_is_named(tmp_path: Path, first: int, last: int) -> None:
    """Whether its header or what follows is overwritten: the line says so, and what to do."""
    data = tmp_path / "data"
    with ServerProcess(data, environment=FAST):
        pass
    database = data / "metadata" / "memsvc.db"
    content = database.read_bytes()
    database.write_bytes(content[:first] + b"\xa5" * (min(last, len(content)) - first) + content[last:])

    line = said(serve("--address", "127.0.0.1:0", "--data-dir", str(data)))

    assert "'sql' is damaged" in line
    assert "restore a backup" in line


def test_the_demo_runs_beside_a_service(tmp_path: Path) -> None:
    """It takes free ports alone: that of HTTP by default may be in use."""
    host, _, port = HttpSettings().address.rpartition(":")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, int(port)))
        taken.listen()
        with demo_server(tmp_path, embedder="wordllama") as address, Memsvc(address, user_id="ada") as client:
            assert client.create("A.").memory.id


def test_a_lost_store_is_named(tmp_path: Path) -> None:
    """In one line with every way out; API keys are not turned off by it."""
    data = tmp_path / "data"
    with ServerProcess(data, environment=FAST):
        pass
    (data / "metadata" / "memsvc.db").unlink()

    line = said(serve("--address", "127.0.0.1:0", "--data-dir", str(data)))

    assert "memsvc.db' does not exist" in line
    assert all(word in line for word in ("Restore a backup", "mount the volume", f"remove '{data / STORE_RECORD}'"))
    assert not (data / "metadata" / "memsvc.db").exists()


@pytest.mark.parametrize("command", [("serve", "--address", "127.0.0.1:0"), ("check",), ("keys", "list")])
def test_a_database_of_a_newer_version_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    """In one line that names both ways out, with nothing changed."""
    data = tmp_path / "data"
    with ServerProcess(data, environment=FAST):
        pass
    with closing(sqlite3.connect(data / "metadata" / "memsvc.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = (data / "metadata" / "memsvc.db").read_bytes()

    done = run_memsvc(*command, "--data-dir", str(data), environment={**os.environ, **FAST}, directory=ROOT)

    assert all(part in said(done) for part in ("'9999'", "update memsvc", "restore a backup", "Nothing was changed"))
    assert (data / "metadata" / "memsvc.db").read_bytes() == before


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of everything in a folder."""
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


@pytest.mark.parametrize(("mask", "socket_mode"), [(0o022, 0o755), (0o007, 0o770)])
def test_the_data_belong_to_the_user_alone(tmp_path: Path, mask: int, socket_mode: int) -> None:
    """Whatever the mask and the data directory allow; the mask holds for the socket and the ready file.

    Folders that an earlier version left open are closed.
    """
    data, path = tmp_path / "data", tmp_path / "memsvc.sock"
    data.mkdir(mode=0o755)
    (data / "metadata").mkdir(mode=0o755)
    before = os.umask(mask)
    try:
        server = ServerProcess(data, address=f"unix:{path},127.0.0.1:0", module=("memsvc",))
        with server:
            with server.stubs() as stubs:
                create(stubs, types_pb.Scope(user_id="u"), "x")
                admin = stubs.admin.CreateBackup(admin_pb.CreateBackupRequest(name="b"), timeout=TIMEOUT)
                assert list(admin)
            found = modes(data)
            assert stat.S_IMODE(path.stat().st_mode) == socket_mode
            assert stat.S_IMODE(data.with_name("data.ready").stat().st_mode) == 0o666 & ~mask
    finally:
        os.umask(before)

    assert {"metadata/memsvc.db", "metadata/memsvc.db-wal", "lexical", "vectors"} <= found.keys()
    assert not {name: oct(mode) for name, mode in found.items() if mode & 0o077}


def test_offline_commands_keep_the_data_to_the_user(tmp_path: Path) -> None:
    """Keys made before the first start, for one."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    before = os.umask(0o022)
    try:
        done = run_memsvc("keys", "create", "--data-dir", str(data), environment=environment)
    finally:
        os.umask(before)

    assert done.returncode == 0, done.stderr
    assert not {name: oct(mode) for name, mode in modes(data).items() if mode & 0o077}


def test_files_that_the_start_needs_are_checked_first(tmp_path: Path) -> None:
    """A certificate that is missing and a ready file that cannot be written: before anything is made or opened."""
    at = ("--address", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    (tmp_path / "folder").mkdir()
    tls = {
        "memsvc_server__tls__certificate": str(tmp_path / "c.pem"),
        "memsvc_server__tls__key": str(tmp_path / "k.pem"),
    }

    assert "c.pem" in said(serve(*at, **tls))
    assert "/missing/ready' cannot be written: No such file" in said(serve(*at, "--ready-file", "/missing/ready"))
    assert "cannot be written: Is a directory" in said(serve(*at, "--ready-file", str(tmp_path / "folder")))
    assert not (tmp_path / "data").exists()
