"""A service that asks for keys, and keys of every sort to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from memsvc.bootstrap.offline import offline_keys
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import CreatedApiKey, NewApiKey
from memsvc.settings import load_settings
from tests.support.server_process import FAST, ServerProcess, Stubs

ASKING = FAST | {"MEMSVC_ACCESS__KEYS": "auto", "MEMSVC_ACCESS__REFRESH_SECONDS": "0.2"}
DAY = timedelta(days=1)
KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class WithKey:
    """A channel whose calls bring a key."""

    def __init__(self, channel: grpc.Channel, text: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", text),)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if name not in KINDS:
            return found
        return lambda *args, **kwargs: partial(found(*args, **kwargs), metadata=self._metadata)


def make_key(data_dir: Path, new: NewApiKey, *, ago: timedelta = timedelta()) -> CreatedApiKey:
    """Make a key in a directory that no service has open, as if a while ago."""
    settings = load_settings(data_dir=data_dir)

    def now() -> datetime:
        return datetime.now(UTC) - ago

    with offline_keys(settings, now=now) as keys:
        return keys.create(new)


@dataclass
class Keyed:
    """A running service and the texts of its keys, by name."""

    server: ServerProcess
    keys: dict[str, CreatedApiKey] = field(default_factory=dict)

    @contextlib.contextmanager
    def stubs(self, name: str) -> Iterator[Stubs]:
        """Open a channel that brings a key."""
        with self.bringing(f"Bearer {self.keys[name].text}") as stubs:
            yield stubs

    @contextlib.contextmanager
    def bringing(self, authorization: str) -> Iterator[Stubs]:
        """Open a channel that brings these words as its authorization."""
        with self.server.channel() as channel:
            yield Stubs(WithKey(channel, authorization))  # type: ignore[arg-type]  # it is as good as one


NEW_KEYS: dict[str, NewApiKey] = {
    "admin": NewApiKey(role=ApiKeyRole.ADMIN),
    "writer": NewApiKey(tenant_id="acme"),
    "reader": NewApiKey(role=ApiKeyRole.READ_ONLY, tenant_id="acme"),
    "other tenant": NewApiKey(tenant_id="acme-corp"),
    "ada": NewApiKey(tenant_id="acme", user_ids=("ada",)),
    "web": NewApiKey(tenant_id="acme", project_ids=("web", "网")),
    "ada's web": NewApiKey(tenant_id="acme", user_ids=("ada",), project_ids=("web",)),
    "slow": NewApiKey(tenant_id="acme", calls_per_second=0.01),
    "narrow": NewApiKey(tenant_id="acme", concurrent_calls=1),
    "revoked": NewApiKey(role=ApiKeyRole.ADMIN),
    "to be revoked": NewApiKey(tenant_id="acme"),
}


@contextlib.contextmanager
def keyed(data_dir: Path, environment: dict[str, str]) -> Iterator[Keyed]:
    """Make the keys, and run a service on them."""
    made: dict[str, CreatedApiKey] = {name: make_key(data_dir, new) for name, new in NEW_KEYS.items()}
    made["expired"] = make_key(data_dir, NewApiKey(role=ApiKeyRole.ADMIN, ttl=DAY), ago=2 * DAY)
    with offline_keys(load_settings(data_dir=data_dir)) as keys:
        keys.revoke(made["revoked"].key.id)
    with ServerProcess(data_dir, environment) as server:
        yield Keyed(server, made)
