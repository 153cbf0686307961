"""Settings that are misspelt stop the start, and it is said what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.settings import load_settings
from tests.support.command_line import invoke


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without settings."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("issuer", "is_refused"),
    [
        ("https://login.example", False), ("http://localhost:8080/realms/a", False), ("http://127.0.0.1", False),
        ("http://[::1]:8080", False), ("http://login.example", True), ("http://127.0.0.1.login.example", True),
        ("http://localhost.login.example", True), ("http://localhost@login.example", True), ("https://", True),
        ("https://login.example:port", True),
    ],
)  # fmt: skip
def test_an_authorization_server_is_asked_by_https(issuer: str, tmp_path: Path, *, is_refused: bool) -> None:
    """Unless it is on this machine, by the host of its URL and not by the beginning of it."""
    environment = {"MEMSVC_HTTP__OAUTH__ISSUER": issuer, "MEMSVC_HTTP__OAUTH__RESOURCE": "https://m.example/mcp"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        told = invoke("check", "--data-dir", str(tmp_path / "data"))
    assert is_refused == ("http.oauth.issuer must begin with https://" in told.output), told.output


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("MEMSVC_PROFIL", "profil: there is no such setting; did you mean profile (MEMSVC_PROFILE)?"),
        ("MEMSVC_DATADIR", "did you mean data_dir (MEMSVC_DATA_DIR)?"),
        ("MEMSVC_SERVER_ADDRESS", "did you mean server.address (MEMSVC_SERVER__ADDRESS)?"),
        ("MEMSVC_SERVER__ADRESS", "did you mean server.address (MEMSVC_SERVER__ADDRESS)?"),
        ("MEMSVC_EMBEDER__BACKEND", "did you mean embedder (MEMSVC_EMBEDDER)?"),
        ("MEMSVC_METADATA__URL", "the options of a backend are below metadata.options."),
        (
            "MEMSVC_METADATA__OPTIONS__READER",
            "did you mean metadata.options.readers (MEMSVC_METADATA__OPTIONS__READERS)?",
        ),
        ("MEMSVC_METADATA__OPTIONS__URI", "there is no such option; there are url, path, "),
        ("MEMSVC_NOTHING__LIKE__IT", "`memsvc settings` lists all of them."),
    ],
)
def test_what_was_meant_is_told(variable: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By path and by variable, and without what it was set to."""
    monkeypatch.setenv(variable, "postgresql://memsvc:s3cret@db/memsvc")

    told = invoke("check", "--data-dir", str(tmp_path / "data"))

    assert told.exit_code == 1
    assert meant in told.stderr
    assert "s3cret" not in told.output


@pytest.mark.parametrize(
    "variable",
    [
        "MEMSVC_USER",
        "MEMSVC_SESSION",
        "MEMSVC_TLS_CA",
        "MEMSVC_PORT",
        "MEMSVC_PORT_50051_TCP_ADDR",
        "MEMSVC_SERVICE_PORT_GRPC",
        "MEMSVC_METRICS_SERVICE_HOST",
        "MEMSVC_IMAGE_TAG",
    ],
)
def test_what_others_set_is_left_alone(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, Kubernetes for a Service that is called memsvc, and scripts."""
    plain = load_settings().model_dump()
    monkeypatch.setenv(variable, "something")

    assert load_settings().model_dump() == plain


def test_a_url_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a line that does not show it."""
    monkeypatch.setenv("MEMSVC_METADATA__OPTIONS__URL", "postgresql://memsvc:s3cret@db:port/memsvc")

    told = invoke("check", "--data-dir", str(tmp_path / "data"))

    assert told.stderr.strip().endswith(
        "metadata.options.url: must be like postgresql://USER:PASSWORD@HOST:PORT/DATABASE."
    )
    assert "s3cret" not in told.output


def test_a_backend_without_options_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists none."""
    monkeypatch.setenv("MEMSVC_EMBEDDER__BACKEND", "wordllama")
    monkeypatch.setenv("MEMSVC_EMBEDDER__OPTIONS__ENGIN", "c")

    told = invoke("check", "--data-dir", str(tmp_path / "data"))

    assert "there is no such option; this backend has none" in told.output
