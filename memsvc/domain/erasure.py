"""Forgetting a user for good, and the receipt of it."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure of an owner, under way or done.

    Attributes:
        owner_digest: What the owner is known by when the erasure is done.
        owner: Empty when the erasure is done.
        end_time: None while it is under way.
        projects: Where the owner had anything; empty when it is done.
        receipt: What was answered, as JSON; empty while it is under way.
    """

    owner_digest: str
    owner: str
    request_id: str
    begin_time: datetime
    end_time: datetime | None = None
    projects: tuple[str, ...] = ()
    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Erased:
    """What became of one store.

    Attributes:
        name: Such as "metadata" or "vectors".
        removed: How much was removed, or would be, by what it is.
        remaining: How much a search of the store still found afterwards; 0 in a dry run.
    """

    name: str
    removed: Mapping[str, int] = field(default_factory=dict)
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure did, or would do.

    Attributes:
        is_done: False: a dry run.
        is_clean: Whether every search afterwards found nothing.
        backups: The backups that may still hold the user; they are left alone.
        files_searched: How many files of the data directory were read through for samples of what was removed.
    """

    begin_time: datetime
    end_time: datetime
    is_done: bool
    is_clean: bool
    stores: tuple[Erased, ...]
    backups: tuple[str, ...] = ()
    files_searched: int = 0


def owner_digest(owner: str) -> str:
    """Return what an owner that was erased is known by."""
    return hashlib.sha256(f"erased:{owner}".encode()).hexdigest()


def covered(text: str) -> str:
    """Return *text* in another form, so that a search of the files does not find it in what is noted of an erasure."""
    return b64encode(text.encode()).decode()


def uncovered(text: str) -> str:
    """Return what `covered` was given."""
    return b64decode(text).decode()
