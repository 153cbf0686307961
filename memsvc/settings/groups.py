"""Settings of the process: listening, backends, logs, metrics, backups."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field

from memsvc.settings.api_keys import TlsSettings
from memsvc.settings.part import SettingsGroup
from memsvc.settings.vault import VaultWatchingSettings


class EventLoop(StrEnum):
    """Implementations of asyncio's event loop."""

    UVLOOP = "uvloop"
    """In C; a call takes three quarters of the time."""
    ASYNCIO = "asyncio"
    """Python's own."""


class ServerSettings(SettingsGroup):
    """How the service listens, and how much it does at a time."""

    address: str = "127.0.0.1:50051"
    """Where to listen: HOST:PORT, [IPV6]:PORT or unix:PATH, several separated by commas. Port 0 takes a free one."""
    insecure: bool = False
    """Whether to listen beyond loopback although nobody is asked for a key or a certificate."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""
    health_address: str = ""
    """A second address, HOST:PORT or unix:PATH, where health checks alone are answered, without TLS and without keys:
    for probes that speak no TLS, such as Kubernetes'. It may lie beyond loopback. Empty: health is told at *address*
    alone."""
    reflection: bool = True
    """Whether grpcurl and the like may ask for the API's descriptors."""
    grace_seconds: float = Field(default=20.0, ge=0)
    """How long calls under way may go on after SIGTERM."""
    default_deadline_seconds: float = Field(default=30.0, gt=0)
    """The deadline of a unary call whose client sent none."""
    max_message_bytes: int = Field(default=16 * 1024 * 1024, ge=64 * 1024)
    """The largest request or reply."""
    search_threads: int = Field(default=8, ge=1)
    """Searches worked on at a time."""
    write_threads: int = Field(default=32, ge=1)
    """Writes worked on at a time; they share commits."""
    meta_threads: int = Field(default=8, ge=1)
    """Reads by id, lists and reports worked on at a time."""
    language_threads: int = Field(default=4, ge=1)
    """Calls that wait for a language model at a time."""
    queue_factor: int = Field(default=4, ge=1)
    """Calls that may wait for each thread before RESOURCE_EXHAUSTED is answered."""
    event_loop: EventLoop = EventLoop.UVLOOP
    """Which implementation of the event loop carries the calls."""


class BackendChoice(SettingsGroup):
    """Which backend serves a port, and its options."""

    backend: str
    """The name of the backend, as `memsvc backends` lists it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The backend's own settings; a name it does not know stops the start."""


class WatchSettings(SettingsGroup):
    """How changes are told to those who watch."""

    max_streams: int = Field(default=1000, ge=1)
    """Watches at a time; further ones are answered RESOURCE_EXHAUSTED."""
    max_lag: int = Field(default=100_000, ge=1)
    """How many changes a watcher may fall behind while it reads, before it is told to come back."""
    threads: int = Field(default=2, ge=1)
    """Threads that read changes for watchers, apart from those of the other calls."""
    poll_seconds: float = Field(default=0.0, ge=0)
    """How often to look for changes made by other processes on the same store. 0: as the store needs it, never where
    nobody else can write to it, and five times a second where others can."""


class MetricsSettings(SettingsGroup):
    """The second port, for Prometheus and for probes. It tells numbers, never a name or what was said."""

    address: str = ""
    """Where /metrics, /healthz and /readyz are served over HTTP: HOST:PORT, such as 127.0.0.1:9464. Empty: nowhere."""


class BackupSettings(SettingsGroup):
    """Where backups go."""

    directory: Path | None = None
    """The folder that CreateBackup makes backups in; by default the folder `backups` of the data directory."""


class VaultSettings(VaultWatchingSettings):
    """Memories as files that people read and edit."""

    directory: Path | None = None
    """The folder of the vault, which is made when it is not there. One service at a time keeps it. Without one there is
    no vault."""


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogSettings(SettingsGroup):
    """What is logged, to stderr. Content, vectors and queries never are."""

    level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    """DEBUG, INFO, WARNING or ERROR."""
    format: LogFormat = LogFormat.AUTO
    """json, console, or auto: console on a terminal."""
