"""Settings of who may do what, and of what is noted of it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from memsvc.domain.api_keys import KeyDemand
from memsvc.settings.part import SettingsGroup


class TlsSettings(SettingsGroup):
    """Encryption. The files are read again when they change; connections that are open stay as they are."""

    certificate: Path | None = None
    """The certificate that the service shows, in PEM, with those of the authorities between. With it, TLS is spoken at
    every TCP address; Unix sockets stay without."""
    key: Path | None = None
    """The key of the certificate, in PEM, without a password."""
    client_ca: Path | None = None
    """The authorities, in PEM, of which clients must show a certificate (mTLS). Without: clients show none."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            message = "server.tls.certificate and server.tls.key belong together: set both"
            raise ValueError(message)
        if self.client_ca is not None and self.certificate is None:
            message = "server.tls.client_ca needs server.tls.certificate and server.tls.key"
            raise ValueError(message)
        return self


class AccessSettings(SettingsGroup):
    """API keys, how much they may do, and the audit log. Keys are made by `memsvc keys create`."""

    keys: KeyDemand = KeyDemand.AUTO
    """Whether callers are asked for a key: auto (as soon as one was ever made), required or off."""
    refresh_seconds: float = Field(default=2.0, gt=0, le=3600)
    """How long a key that another process revoked may still be taken, at most. This process knows at once."""
    calls_per_second: float = Field(default=0.0, ge=0)
    """How many calls a key may begin in a second that says nothing itself; further ones are answered
    RESOURCE_EXHAUSTED. 0: no limit."""
    concurrent_calls: int = Field(default=0, ge=0)
    """How many calls of a key may be under way that says nothing itself; a stream counts while it is open. 0: no
    limit."""
    audit_file: str = ""
    """Where each call that changes something, and each that is refused for its key, is noted as a line of JSON: who,
    what, with what outcome; never any content. A file, which is opened anew when it is moved away; "-" for stderr;
    empty for nowhere."""
