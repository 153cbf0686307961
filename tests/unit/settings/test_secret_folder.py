"""Settings from a folder of files, as Docker and Kubernetes mount secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.settings import SettingsError, load_settings


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is named, still empty."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("MEMSVC_SECRETS_DIR", str(folder))
    return folder


def test_a_file_holds_what_its_variable_would(secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In capitals or not, without the line end, beside what files and variables say; variables come first."""
    (secrets / "memsvc_metadata__options__url").write_text("postgresql://memsvc:pass@db/memsvc\n")
    (secrets / "MEMSVC_LANGUAGE_MODEL__OPTIONS__API_KEY").write_text("key")
    (secrets / "memsvc_log__level").write_text("ERROR")
    (secrets / "tls.key").write_text("not ours")
    (tmp_path / "memsvc.toml").write_text('[metadata.options]\nreaders = 3\nurl = "postgresql://other"\n')
    monkeypatch.setenv("MEMSVC_LOG__LEVEL", "DEBUG")

    settings = load_settings(tmp_path / "memsvc.toml")

    assert settings.metadata.options == {"url": "postgresql://memsvc:pass@db/memsvc", "readers": 3}
    assert settings.language_model.options == {"api_key": "key"}
    assert settings.log.level == "DEBUG"


def test_kubernetes_links_are_followed(secrets: Path) -> None:
    """A mounted secret is a link into a hidden folder, which is another link."""
    (secrets / "..2026").mkdir()
    (secrets / "..2026" / "memsvc_log__level").write_text("ERROR")
    (secrets / "..data").symlink_to("..2026")
    (secrets / "memsvc_log__level").symlink_to("..data/memsvc_log__level")

    assert load_settings().log.level == "ERROR"


@pytest.mark.parametrize(
    ("name", "place"),
    [("memsvc_metdata__options__url", "metdata"), ("memsvc_log__levle", "log.levle")],
)
def test_an_unknown_name_is_refused(secrets: Path, name: str, place: str) -> None:
    """As with variables, in a group that is there and in one that is not."""
    (secrets / name).write_text("postgresql://memsvc:s3cret@db/memsvc")

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert str(refused.value).startswith(f"The settings are wrong: {place}: there is no such setting")


def test_a_folder_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than to start without the secrets."""
    monkeypatch.setenv("MEMSVC_SECRETS_DIR", "/nowhere")

    with pytest.raises(FileNotFoundError, match="'/nowhere', named by MEMSVC_SECRETS_DIR"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("HTTP__CORS_ORIGINS", "https://a.example", 'http.cors_origins (MEMSVC_HTTP__CORS_ORIGINS) must be JSON, such as ["https://a.example"]'),
        ("HTTP__ALLOWED_HOSTS", "[a.example, b.example]", 'http.allowed_hosts (MEMSVC_HTTP__ALLOWED_HOSTS) must be JSON, such as ["a.example", "b.example"]'),
        ("METADATA__OPTIONS", '{"url":"s3cret', 'metadata.options (MEMSVC_METADATA__OPTIONS) must be JSON, such as {"name": "value"}'),
        ("SERVER", "{s3cret", 'server (MEMSVC_SERVER) must be JSON, such as {"name": "value"}'),
    ],
)  # fmt: skip
def test_a_variable_that_is_no_json_is_named(
    variable: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an example, and without what may be secret."""
    monkeypatch.setenv(f"MEMSVC_{variable}", value)

    with pytest.raises(SettingsError) as refused:
        load_settings()

    assert str(refused.value) == f"The settings are wrong: {line}."
    assert refused.value.__cause__ is None


def test_a_file_that_is_no_json_is_named(secrets: Path) -> None:
    """Without its content."""
    (secrets / "memsvc_embedder__options").write_text("{s3cret")

    with pytest.raises(SettingsError) as refused:
        load_settings()

    named = "embedder.options (memsvc_embedder__options)"
    assert str(refused.value) == f'The settings are wrong: {named} must be JSON, such as {{"name": "value"}}.'
