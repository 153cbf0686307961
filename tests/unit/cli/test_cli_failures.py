"""What the command line says when something is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import grpc
import pytest

from memsvc.cli.errors import call_line
from memsvc.client import MemsvcCallError, Violation
from memsvc.domain.errors import (
    CheckpointNotFoundError,
    MemsvcError,
    SessionExistsError,
    SessionNotActiveError,
    SessionNotFoundError,
)
from memsvc.server.addresses import is_local
from memsvc.v1 import admin_service_pb2 as admin_pb
from tests.support.command_line import invoke


def run(*words: str, given: bytes = b"", **environment: str) -> tuple[int, str]:
    told = invoke(*words, given=given, environment=environment)
    assert told.exception is None or isinstance(told.exception, SystemExit)
    return told.exit_code, told.stderr.strip()


@pytest.mark.parametrize("command", [["stats"], ["search", "x"], ["list"], ["get", "x"], ["reindex"], ["add", "x"]])
def test_no_service_is_told_in_one_line(command: list[str], tmp_path: Path) -> None:
    """Who forgot to start a service learns how to."""
    code, line = run(*command, "--address", f"unix:{tmp_path / 'nothing'}")

    assert code == 1
    assert line == (
        f"memsvc: No service answers at unix:{tmp_path / 'nothing'}; start one with `memsvc serve`,"
        " or name another with --address."
    )


@contextmanager
def _older_service(folder: Path, version: str) -> Iterator[str]:
    """Serve a service that has only Diagnose, or nothing without a version."""
    address, server = f"unix:{folder / 'memsvc.sock'}", grpc.server(ThreadPoolExecutor(2))
    if version:
        diagnose = grpc.unary_unary_rpc_method_handler(
            lambda _request, _context: admin_pb.DiagnoseResponse(version=version),
            request_deserializer=admin_pb.DiagnoseRequest.FromString,
            response_serializer=admin_pb.DiagnoseResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("memsvc.v1.AdminService", {"Diagnose": diagnose}),)
        )
    server.add_insecure_port(address)
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("command", [["stats"], ["search", "花生"], ["add", "peanuts"], ["reindex"]])
@pytest.mark.parametrize("version", ["0.0.9", "", metadata.version("memsvc")])
def test_a_service_that_lacks_a_method_is_named_with_its_version(
    command: list[str], version: str, tmp_path: Path
) -> None:
    """If it says its version; else it may be no memsvc at all. One of the same version is not called older."""
    with _older_service(tmp_path, version) as address:
        code, line = run(*command, "--address", address)

    assert code == 1
    assert "Method not found" not in line
    assert f"The service at {address} " in line
    assert (f"is memsvc {version} and lacks" in line) == (version == "0.0.9")
    assert ("it is older than this memsvc" in line) == (not version)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "failed to connect: Tls handshake failed (x): y: CERTIFICATE_VERIFY_FAILED: certificate has expired: OK",
            "The service at a was reached, but TLS failed: certificate has expired; renew the certificate of the service.",
        ),
        (
            "Stream removed (Socket closed)",
            "No service answers at a; start one with `memsvc serve`, or name another with --address.",
        ),
    ],
)
def test_faults_of_a_connection_are_told_apart(message: str, line: str) -> None:
    """TLS that failed, and a connection that was cut."""
    assert call_line(MemsvcCallError(grpc.StatusCode.UNAVAILABLE, message), "a") == line


@pytest.mark.parametrize("command", ["list", "mcp"])
@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("MEMSVC_API_KEY", "“memsvc_x”", "The API key (MEMSVC_API_KEY) has other characters"),
        ("MEMSVC_ADDRESS", "127.0.0.1", "The address '127.0.0.1' is neither"),
    ],
    ids=["typographic quotes", "no port"],
)
def test_a_key_or_an_address_that_can_be_none_is_told_in_one_line(
    command: str, variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is sent."""
    monkeypatch.setenv(variable, value)
    told = invoke(command, "--user", "ada")
    assert told.exit_code == 1
    assert told.stderr.startswith(f"memsvc: {words}")
    assert len(told.stderr.splitlines()) == 1


def test_violations_are_listed_field_by_field() -> None:
    """A bad request shows everything that is wrong with it."""
    error = MemsvcCallError(
        grpc.StatusCode.INVALID_ARGUMENT,
        "bad",
        reason="INVALID_REQUEST",
        violations=(Violation("limit", "at most 100"), Violation("query", "is needed")),
    )

    assert call_line(error, "a") == "The request is not valid:\n  limit: at most 100\n  query: is needed"


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (CheckpointNotFoundError("nope"), "`memsvc checkpoint list` names them."),
        (SessionNotFoundError("nope"), "open it with `memsvc session create`."),
        (SessionExistsError("nope"), "reopen it with `memsvc session reopen`, or choose another id."),
        (SessionNotActiveError("nope", "closed"), "reopen it with `memsvc session reopen` to go on."),
    ],
)
def test_errors_of_the_service_name_commands_in_place_of_methods(error: MemsvcError, command: str) -> None:
    """The command line has no CreateSession."""
    line = call_line(MemsvcCallError(grpc.StatusCode.NOT_FOUND, str(error), reason=error.reason), "a")

    assert line.endswith(command)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """An import names the file that is not there."""
    code, line = run("import", str(tmp_path / "nothing.jsonl"))

    assert code == 1
    assert line == f"memsvc: There is no {str(tmp_path / 'nothing.jsonl')!r}."


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"garbage", "a value is missing or is not JSON, at column 1."),
        (b'{"content": "tea",', "it ends in the middle of a value."),
        (b"\xef\xbb\xbf5", 'it must be an object like {"role": "user", "content": "I prefer tea."}.'),
    ],
)
def test_a_line_that_is_no_message_is_told_with_the_place(line: bytes, fault: str) -> None:
    """In words of JSON instead of those of a parser."""
    code, told = run("flush", "-", given=line + b"\n")

    assert code == 1
    assert told == f"memsvc: Line 1 of stdin is no message: {fault}"


@pytest.mark.parametrize("command", [["delete-matching"], ["update-matching", "--add-tag", "x"]])
def test_a_change_of_every_memory_needs_a_preview(command: list[str]) -> None:
    """A forgotten filter must not delete all memories of a user."""
    code, line = run(*command, "--yes")

    assert code == 1
    assert line.startswith("memsvc: Without a filter the command matches every memory.")


@pytest.mark.parametrize("reference", ["nope", "picture:01a21a0a-9c0f-752f-be33-3f55f35c69bb", "chart:"])
def test_a_word_that_is_no_reference_to_a_file_is_wrong_usage(reference: str) -> None:
    """The error names the form and the categories."""
    code, line = run("file", "resolve", reference)

    assert code == 2
    assert f"{reference!r} is not CATEGORY:ID, with one of artifact, upload, report, chart, " in line


@pytest.mark.parametrize("content", [b'{"content": "tea"}\n', b"# Tea\n", b"\xff\x00\n"])
def test_a_file_that_is_no_export_of_a_user_is_refused_before_it_is_sent(content: bytes, tmp_path: Path) -> None:
    """Memories alone are for another command."""
    (tmp_path / "notes.jsonl").write_bytes(content)

    code, line = run("import-user", str(tmp_path / "notes.jsonl"))

    assert code == 1
    assert line.startswith(f"memsvc: {str(tmp_path / 'notes.jsonl')!r} is no export of a user; `memsvc import` takes ")


def test_missing_settings_file_is_told(tmp_path: Path) -> None:
    """A settings file that was named must be there."""
    code, line = run("serve", "--config", str(tmp_path / "nothing.toml"))

    assert code == 1
    assert "nothing.toml" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "place"), [(b"[server]\nthis is = = no TOML", "(at line 2, column 6)"), (b"\x00\xff\n", "position 1")]
)
def test_a_broken_settings_file_is_named_with_the_place(text: bytes, place: str, tmp_path: Path) -> None:
    """The message has the file, and where in it the error is."""
    file = tmp_path / "memsvc.toml"
    file.write_bytes(text)

    code, line = run("check", "--config", str(file))

    assert code == 1
    assert line.startswith(f"memsvc: The settings file {str(file)!r} is not valid TOML: ")
    assert place in line


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("MEMSVC_LOG__LEVEL", "LOUD", "log.level: Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'."),
        ("MEMSVC_CONTEXT__LOCALE", "fr", "context.locale: Input should be 'en' or 'zh'."),
        (
            "MEMSVC_HTTP__CORS_ORIGINS",
            '["https://a.example/"]',
            "'https://a.example/' is no origin: write SCHEME://HOST",
        ),
        (
            "MEMSVC_VAULT__GIT__AUTHOR_NAME",
            "<",
            "author_name: must have text, without '<', '>' and control characters.",
        ),
        ("MEMSVC_VAULT__GIT__MESSAGE", "a\nb", "vault.git.message: must be one line."),
    ],
)
def test_a_wrong_value_is_answered_by_the_allowed_ones(variable: str, value: str, words: str, tmp_path: Path) -> None:
    """No message quotes a regular expression."""
    told = invoke("check", "--data-dir", str(tmp_path / "data"), environment={variable: value})

    assert told.exit_code == 1
    assert words in told.stderr
    assert "pattern" not in told.stderr


def test_a_wrong_option_of_a_backend_is_answered_by_its_form(tmp_path: Path) -> None:
    """Options of backends have patterns, too."""
    environment = {"MEMSVC_EMBEDDER__BACKEND": "openai", "MEMSVC_EMBEDDER__OPTIONS__MODEL": "m"}
    told = invoke(
        "check",
        "--data-dir",
        str(tmp_path / "data"),
        environment=environment | {"MEMSVC_EMBEDDER__OPTIONS__BASE_URL": "ftp://x"},
    )

    assert "embedder.options.base_url: must begin with http:// or https://." in told.output
    assert "pattern" not in told.output


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_data_directory_that_is_a_file_is_named(command: str, tmp_path: Path) -> None:
    """Also where the file is a parent of it."""
    file = tmp_path / "file"
    file.touch()

    assert run(command, "--data-dir", str(file)) == (
        1,
        f"memsvc: The data directory {str(file)!r} is a file; name a directory.",
    )
    code, line = run(command, "--data-dir", str(file / "data"))
    assert (code, line) == (1, f"memsvc: {str(file / 'data')!r} cannot be used: Not a directory.")


def test_wrong_setting_is_told_by_its_path(tmp_path: Path) -> None:
    """A value that is wrong is named by where it stands."""
    code, line = run("serve", "--data-dir", str(tmp_path), MEMSVC_SERVER__SEARCH_THREADS="many")

    assert code == 1
    assert line.startswith("memsvc: The settings are wrong: server.search_threads:")


def test_unknown_backend_is_told(tmp_path: Path) -> None:
    """A backend that is not installed is named, with those that are."""
    code, line = run("check", "--data-dir", str(tmp_path), MEMSVC_EMBEDDER__BACKEND="nothing")

    assert code == 1
    assert line.startswith("memsvc: No embedder backend is called 'nothing'; installed are:")


@pytest.mark.parametrize("address", ["0.0.0.0:50051", "[::]:50051", ":50051", "example.org:50051", "10.0.0.1:1"])
def test_listening_beyond_this_machine_needs_a_word(address: str, tmp_path: Path) -> None:
    """Nobody opens their memories to the network by accident."""
    code, line = run("serve", "--address", address, "--data-dir", str(tmp_path / "data"))

    assert code == 1
    assert "--insecure" in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "address", ["127.0.0.1:0", "127.8.9.1:1", "localhost:50051", "[::1]:50051", "unix:/run/m.sock", "unix-abstract:m"]
)
def test_loopback_and_sockets_are_local(address: str) -> None:
    """What only this machine can reach is let through."""
    assert is_local(address)


@pytest.mark.parametrize(
    "command",
    [
        ["add", "-"], ["capture", "-"], ["append", "context/USER", "-"], ["session", "append", "s1", "-"],
        ["update", "0190163d-8694-739b-aea5-966c26f8ad91", "--content", "-"],
        ["supersede", "0190163d-8694-739b-aea5-966c26f8ad91", "-"], ["import", "-", "--format", "md"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("given", [b"\xff\xfe", "我喜欢喝茶".encode("gbk")])
def test_input_that_is_no_utf8_is_told_in_one_line(command: list[str], given: bytes, tmp_path: Path) -> None:
    """Wherever a text is read from stdin."""
    code, line = run(*command, "--address", f"unix:{tmp_path / 'nothing'}", given=given)

    assert (code, line) == (1, "memsvc: What stdin holds is no UTF-8 text; convert it first.")


@pytest.mark.parametrize(
    "command", [["search", "\udcff"], ["add", "x", "--tag", "\udcff"], ["list", "--user", "\udcff"]]
)
def test_an_argument_that_is_no_utf8_is_told_in_one_line(command: list[str]) -> None:
    """The bytes that the shell passes on need be no text."""
    assert run(*command) == (1, "memsvc: The argument '\\udcff' is no UTF-8 text.")
