"""API keys, the permissions that they give, and quotas of keys and tenants."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

PREFIX = "memsvc_"
_ID_TIME_BYTES, _ID_RANDOM_BYTES = 6, 4
_SECRET_BYTES = 32
_SECRET_CHARS = 43
"""What 32 bytes take in base 62."""
_CHECK_CHARS = 6
"""What a CRC-32 takes in base 62."""
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY_TEXT = re.compile(r"memsvc_([0-9a-f]{20})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})", re.ASCII)
"""The text of a key: prefix, id, secret, check. It has one form, so that scanners for leaked secrets find it."""
KEY_ID = re.compile(r"[0-9a-f]{20}", re.ASCII)


class ApiKeyRole(StrEnum):
    """Role of a key; each role may do all that the one before it may."""

    READ_ONLY = "READ_ONLY"
    READ_WRITE = "READ_WRITE"
    ADMIN = "ADMIN"

    def covers(self, needed: ApiKeyRole) -> bool:
        """Return whether this role may do what needs the role *needed*."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {role: rank for rank, role in enumerate(ApiKeyRole)}


class KeyState(StrEnum):
    """State of a key."""

    ACTIVE = "ACTIVE"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"


class KeyDemand(StrEnum):
    """Policy that says when callers must send a key."""

    AUTO = "auto"
    """As soon as one was ever created."""
    REQUIRED = "required"
    """Always."""
    OFF = "off"
    """Never."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: all but its text, of which a digest is enough to know it again.

    Attributes:
        id: 20 hexadecimal digits; ids ascend in the order in which keys are created.
        user_ids: The only users it is authorised for; empty: all of the tenant.
        project_ids: The only projects it is authorised for; empty: all, and what belongs to none.
        digest: SHA-256 of the text. The text holds 256 random bits, so that nothing slower is needed.
        calls_per_second: How many calls it may begin; 0: as the service's settings say.
        concurrent_calls: How many of its calls may be under way; 0: as the service's settings say.
        quota_calls_per_second: The rate in its quota, which counts instead of calls_per_second; 0: none. Known of keys
            that are read one by one.
        tenant_calls_per_second: The rate in the quota of its tenant, which all of its keys share; likewise.
    """

    id: str
    name: str
    role: ApiKeyRole
    digest: bytes
    create_time: datetime
    tenant_id: str = ""
    user_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    expire_time: datetime | None = None
    revoke_time: datetime | None = None
    calls_per_second: float = 0.0
    concurrent_calls: int = 0
    quota_calls_per_second: float = 0.0
    tenant_calls_per_second: float = 0.0

    def state(self, now: datetime) -> KeyState:
        """Return whether the key opens anything."""
        if self.revoke_time is not None:
            return KeyState.REVOKED
        is_over = self.expire_time is not None and self.expire_time <= now
        return KeyState.EXPIRED if is_over else KeyState.ACTIVE

    def is_opened_by(self, text: str) -> bool:
        """Return whether *text* is this key, in constant time."""
        return hmac.compare_digest(self.digest, digest_of_key(text))


def new_key_text(now: datetime, random: Callable[[int], bytes]) -> tuple[str, str]:
    """Return the id of a new key, and its text. *random* must be fit for secrets."""
    stamp = round(now.timestamp() * 1000).to_bytes(_ID_TIME_BYTES, "big")
    key_id = (stamp + random(_ID_RANDOM_BYTES)).hex()
    body = f"{PREFIX}{key_id}_{_base62(int.from_bytes(random(_SECRET_BYTES), 'big'), _SECRET_CHARS)}"
    return key_id, body + _check(body)


def key_id_of(text: str) -> str | None:
    """Return the id of the key with this text; None for what cannot be one, a mistyped one among it."""
    found = KEY_TEXT.fullmatch(text)
    if found is None or _check(text[:-_CHECK_CHARS]) != found[3]:
        return None
    return found[1]


def digest_of_key(text: str) -> bytes:
    """Return what is kept of a key's text."""
    return hashlib.sha256(text.encode()).digest()


def _check(body: str) -> str:
    return _base62(binascii.crc32(body.encode()), _CHECK_CHARS)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


# Quotas of tenants and keys.


class QuotaSubject(StrEnum):
    """Holders of quotas."""

    TENANT = "TENANT"
    KEY = "KEY"


@dataclass(frozen=True, slots=True)
class Usage:
    """Stored amounts, or changes of them.

    Attributes:
        memories: The number of memories of every status, messages of sessions included.
        content_bytes: Their content in bytes of UTF-8, and their metadata as JSON without the outer braces.
        file_bytes: The size of files.
    """

    memories: int = 0
    content_bytes: int = 0
    file_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum."""
        return Usage(
            self.memories + other.memories,
            self.content_bytes + other.content_bytes,
            self.file_bytes + other.file_bytes,
        )

    def __neg__(self) -> Usage:
        """Return what takes these amounts back."""
        return Usage(-self.memories, -self.content_bytes, -self.file_bytes)


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a tenant or of a key; 0: none.

    Attributes:
        id: The tenant, or the id of the key. The tenant without a name is that of callers without keys, too.
        calls_per_second: The calls that it may begin, of a key instead of the limit of the key itself.
        limits: The amounts that it may store. Those of a key are what it wrote, less what it removed.
    """

    subject: QuotaSubject
    id: str
    calls_per_second: float = 0.0
    limits: Usage = Usage()
    update_time: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is limited."""
        return not self.calls_per_second and self.limits == Usage()


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota with the amounts that are stored."""

    quota: Quota
    used: Usage
