"""One word chooses the store and the indexes; what it needs is asked for, and whether it answers is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memsvc.settings import Settings, SettingsError, load_settings
from memsvc.settings.profile import Profile
from tests.support.command_line import invoke

POSTGRES = "postgresql://nobody@127.0.0.1:1/none"
QDRANT = "http://127.0.0.1:2"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without settings."""
    monkeypatch.chdir(tmp_path)


def _backends(settings: Settings) -> list[str]:
    return [settings.metadata.backend, settings.vectors.backend, settings.lexical.backend]


def test_each_profile_has_its_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are named by themselves win, wherever they are named."""
    assert _backends(load_settings()) == ["sql", "qdrant-edge", "tantivy"]
    monkeypatch.setenv("MEMSVC_METADATA__OPTIONS__URL", POSTGRES)
    assert _backends(load_settings(profile="cluster")) == ["sql", "qdrant", "qdrant-sparse"]
    assert _backends(load_settings(profile="postgres")) == ["sql", "pgvector", "pg-fulltext"]

    Path("memsvc.toml").write_text('profile = "cluster"\n[lexical]\nbackend = "tantivy"\n')
    assert _backends(load_settings()) == ["sql", "qdrant", "tantivy"]
    monkeypatch.setenv("MEMSVC_LEXICAL__BACKEND", "in-memory")
    assert _backends(load_settings()) == ["sql", "qdrant", "in-memory"]
    assert load_settings().profile is Profile.CLUSTER


def test_a_server_is_named_once() -> None:
    """Both of its indexes are found there, unless the second is said to be elsewhere."""
    metadata = {"options": {"url": POSTGRES}}
    vectors = {"options": {"url": QDRANT, "api_key": "k", "graph_links": 8}}

    both = load_settings(profile="cluster", metadata=metadata, vectors=vectors)
    apart = load_settings(
        profile="cluster", metadata=metadata, vectors=vectors, lexical={"options": {"url": "http://x:1"}}
    )

    assert both.lexical.options == {"url": QDRANT, "api_key": "k"}
    assert apart.lexical.options == {"url": "http://x:1", "api_key": "k"}


@pytest.mark.parametrize("profile", [Profile.CLUSTER, Profile.POSTGRES])
def test_a_profile_without_its_database_is_refused(profile: Profile) -> None:
    """The variable to set is named."""
    with pytest.raises(SettingsError, match="MEMSVC_METADATA__OPTIONS__URL=postgresql://"):
        load_settings(profile=profile)


def test_check_tells_which_servers_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself, with what to look at, and not a word of the password."""
    monkeypatch.setenv("MEMSVC_METADATA__OPTIONS__URL", POSTGRES.replace("nobody", "nobody:secret"))
    monkeypatch.setenv("MEMSVC_VECTORS__OPTIONS__URL", QDRANT)
    monkeypatch.setenv("MEMSVC_EMBEDDER__BACKEND", "in-memory")
    monkeypatch.setenv("MEMSVC_PROFILE", "cluster")

    told = invoke("check", "--data-dir", str(tmp_path / "data"))

    lines = told.output.splitlines()
    assert told.exit_code == 1
    assert lines[0].startswith("Profile cluster, data in ")
    assert [line.split("\t")[:2] for line in lines[2:5]] == [
        ["metadata", "sql"],
        ["vectors", "qdrant"],
        ["lexical", "qdrant-sparse"],
    ]
    assert all("cannot be reached" in line for line in lines[2:5])
    assert f"vectors: is Qdrant up, and can it be reached from here at {QDRANT}?" in told.output
    assert "metadata\tsql\tThe backend 'sql' cannot be reached: is PostgreSQL up" in told.output
    assert "secret" not in told.output


def test_check_answers_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of JSON for each backend, and the same exit code."""
    monkeypatch.setenv("MEMSVC_METADATA__OPTIONS__URL", POSTGRES)
    monkeypatch.setenv("MEMSVC_PROFILE", "postgres")
    monkeypatch.setenv("MEMSVC_EMBEDDER__BACKEND", "in-memory")

    told = invoke("check", "--json", "--data-dir", str(tmp_path / "data"))

    found = {one["port"]: one for one in map(json.loads, told.output.splitlines())}
    assert told.exit_code == 1
    assert found["embedder"]["trouble"] == ""
    assert "its database is the store's" in found["vectors"]["advice"]


def test_backends_tells_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the profile or by itself."""
    monkeypatch.setenv("MEMSVC_LEXICAL__BACKEND", "in-memory")

    told = invoke("backends").output.splitlines()

    chosen = {tuple(line.split("\t")[:3]) for line in told[2:]}
    assert told[0] == "Profile embedded"
    assert {("vectors", "qdrant-edge", "yes"), ("lexical", "in-memory", "yes"), ("lexical", "tantivy", "")} <= chosen
    for line in map(json.loads, invoke("backends", "--json").output.splitlines()):
        assert (line["port"], line["name"], "yes" if line["chosen"] else "") in chosen


def test_the_rest_port_of_qdrant_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one that is known best, and the wrong one."""
    monkeypatch.setenv("MEMSVC_VECTORS__BACKEND", "qdrant")
    monkeypatch.setenv("MEMSVC_VECTORS__OPTIONS__URL", "http://127.0.0.1:6333")

    told = invoke("check", "--data-dir", str(tmp_path / "data"))

    assert told.exit_code == 1
    assert "6334" in told.output
