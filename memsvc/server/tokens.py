"""Opaque tokens that clients send back: consistency tokens, page tokens and cursors.

A page token is bound to its request by a digest, so that it cannot continue another list than its own.
"""

from __future__ import annotations

import binascii
import json
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any
from uuid import UUID

from google.protobuf.message import Message

from memsvc.domain.api_keys import Quota, QuotaSubject
from memsvc.domain.clock import EPOCH, from_micros, to_micros
from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.domain.history import Checkpoint
from memsvc.domain.search import PageCursor

MAX_LENGTH = 64
"""An upper bound on the length of every token but those of checkpoints and places."""

_CONSISTENCY = struct.Struct(">cQ")
_LIST = struct.Struct(">c8s?qq")
_SEARCH = struct.Struct(">c8sI")
_CONFLICTS = struct.Struct(">c8s16s")
_WATCH = struct.Struct(">c8sQ")
_REMINDERS = struct.Struct(">c8sqqq")
_REMINDERS_TAG = b"\x20"
_KEYS = struct.Struct(">c8s10s")
_KEYS_TAG = b"\x30"
_WATCH_TAG = b"\x0a"
_CHECKPOINT = struct.Struct(">8sq")
_QUOTA = struct.Struct(">8sc")
_QUOTA_SUBJECTS = {one.value[0].encode(): one for one in QuotaSubject}
_MAX_CHECKPOINT_TOKEN = 1_024
_MAX_PLACE_TOKEN = 4_096
_SELECTION = struct.Struct(">c8sI16s")
_SELECTION_TAG = b"\x50"
SELECTION_FIELDS = ("dry_run", "selection_token")
"""The fields in which a change of many memories differs from its dry run."""
_CONTEXT = struct.Struct(">c12sI")
_CONSISTENCY_TAG, _LIST_TAG, _SEARCH_TAG, _CONTEXT_TAG = b"\x01", b"\x02", b"\x03", b"\x06"
_CONFLICTS_TAG = b"\x10"
_DIGEST_BYTES = 8
_MAX_POSITION = 2**63 - 1
PAGE_FIELDS = ("page_size", "page_token", "read_mask")
"""The fields that may differ between the pages of one list."""


def digest(request: Message, *, without: Iterable[str] = PAGE_FIELDS) -> bytes:
    """Return a short digest of a request and its type, without the fields that may differ."""
    copy = type(request)()
    copy.CopyFrom(request)
    for name in without:
        if name in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(name)
    kind = type(request).DESCRIPTOR.full_name.encode()
    return blake2b(kind + b"\0" + copy.SerializeToString(deterministic=True), digest_size=_DIGEST_BYTES).digest()


def consistency_token(position: int) -> str:
    """Return the token of an outbox position."""
    return _text(_CONSISTENCY.pack(_CONSISTENCY_TAG, position))


def position_of(token: str, *, field: str = "consistency_token") -> int:
    """Return the outbox position of a token; 0 for an empty one.

    Raises:
        InvalidRequestError: This service did not issue the token.
    """
    if not token:
        return 0
    tag, position = _unpack(_CONSISTENCY, token, field)
    if tag != _CONSISTENCY_TAG or position > _MAX_POSITION:
        raise _foreign(field)
    return int(position)


def list_token(cursor: PageCursor, request: bytes) -> str:
    """Return the token of the page after *cursor* of the list that has the digest *request*."""
    return _text(_LIST.pack(_LIST_TAG, request, cursor.value is not None, cursor.value or 0, cursor.row))


def list_cursor(token: str, request: bytes) -> PageCursor | None:
    """Return the cursor that a list continues after; None for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return None
    tag, digest_, has_value, value, row = _unpack(_LIST, token, "page_token")
    if tag != _LIST_TAG or digest_ != request:
        raise _foreign("page_token")
    return PageCursor(value if has_value else None, row)


def search_token(offset: int, request: bytes) -> str:
    """Return the token of the page that begins at *offset* of the search that has the digest *request*."""
    return _text(_SEARCH.pack(_SEARCH_TAG, request, offset))


def search_offset(token: str, request: bytes, *, depth: int) -> int:
    """Return the offset of a page of hits; 0 for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, of another request, or leads below *depth*.
    """
    if not token:
        return 0
    tag, digest_, offset = _unpack(_SEARCH, token, "page_token")
    if tag != _SEARCH_TAG or digest_ != request or offset >= depth:
        raise _foreign("page_token")
    return int(offset)


def keys_token(key_id: str, request: bytes) -> str:
    """Return the token of the page after a key in the list that has the digest *request*."""
    return _text(_KEYS.pack(_KEYS_TAG, request, bytes.fromhex(key_id)))


def keys_after(token: str, request: bytes) -> str:
    """Return the id of the key that the page comes after; empty for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return ""
    tag, digest_, raw = _unpack(_KEYS, token, "page_token")
    if tag != _KEYS_TAG or digest_ != request:
        raise _foreign("page_token")
    return bytes(raw).hex()


def quotas_token(quota: Quota, request: bytes) -> str:
    """Return the token of the page after *quota* of the list that has the digest *request*."""
    return _text(_QUOTA.pack(request, quota.subject.value[0].encode()) + quota.id.encode())


def quotas_after(token: str, request: bytes) -> tuple[QuotaSubject, str]:
    """Return the subject and the id that a list of quotas continues after.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    try:
        raw = urlsafe_b64decode(token[:_MAX_CHECKPOINT_TOKEN].encode("ascii") + b"=" * (-len(token) % 4))
        digest_, tag = _QUOTA.unpack_from(raw)
        subject, name = _QUOTA_SUBJECTS[tag], raw[_QUOTA.size :].decode()
    except (ValueError, struct.error, KeyError):
        raise _foreign("page_token") from None
    if digest_ != request:
        raise _foreign("page_token")
    return subject, name


def conflicts_token(conflict_id: str, request: bytes) -> str:
    """Return the token of the page after a conflict in the list that has the digest *request*."""
    return _text(_CONFLICTS.pack(_CONFLICTS_TAG, request, UUID(conflict_id).bytes))


def conflicts_before(token: str, request: bytes) -> str:
    """Return the id of the conflict that the page comes after; empty for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return ""
    tag, digest_, raw = _unpack(_CONFLICTS, token, "page_token")
    if tag != _CONFLICTS_TAG or digest_ != request:
        raise _foreign("page_token")
    return str(UUID(bytes=raw))


def reminders_token(moment: datetime, day: int, row: int, request: bytes) -> str:
    """Return the token of the page after a reminder in the list of those due at a moment."""
    return _text(_REMINDERS.pack(_REMINDERS_TAG, request, to_micros(moment), day, row))


def reminders_cursor(token: str, request: bytes) -> tuple[datetime, int, int] | None:
    """Return the moment of a list of due reminders, and the day and row before the page; None without a token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return None
    tag, digest_, micros, day, row = _unpack(_REMINDERS, token, "page_token")
    if tag != _REMINDERS_TAG or digest_ != request:
        raise _foreign("page_token")
    try:
        return from_micros(micros), day, row
    except OverflowError:
        raise _foreign("page_token") from None


def place_token(place: Sequence[str], request: bytes) -> str:
    """Return the token of the page after a place, given by its parts, in the list that has the digest *request*."""
    return _text(request + json.dumps(list(place), ensure_ascii=False, separators=(",", ":")).encode())


def place_after(token: str, request: bytes, *, parts: int) -> tuple[str, ...]:
    """Return the *parts* of the place that the page comes after; none for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return ()
    try:
        raw = urlsafe_b64decode(token[:_MAX_PLACE_TOKEN].encode("ascii") + b"=" * (-len(token) % 4))
        place = json.loads(raw[_DIGEST_BYTES:])
    except (ValueError, RecursionError):
        raise _foreign("page_token") from None
    is_place = isinstance(place, list) and len(place) == parts and all(isinstance(part, str) for part in place)
    if raw[:_DIGEST_BYTES] != request or not is_place:
        raise _foreign("page_token")
    return tuple(place)


def selection_token(count: int, selection: bytes, request: bytes) -> str:
    """Return the token of a selection of *count* memories that has the digest *selection*."""
    return _text(_SELECTION.pack(_SELECTION_TAG, request, count, selection))


def selection_of(token: str, request: bytes) -> tuple[int, bytes]:
    """Return the count and the digest of a selection.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    tag, digest_, count, selection = _unpack(_SELECTION, token, "selection_token")
    if tag != _SELECTION_TAG or digest_ != request:
        raise _foreign("selection_token")
    return int(count), bytes(selection)


def watch_digest(request: bytes, owner: str, identity: str) -> bytes:
    """Return the digest of a watch: of its request, its owner and its store."""
    return blake2b(b"\0".join((request, owner.encode(), identity.encode())), digest_size=_DIGEST_BYTES).digest()


def watch_cursor(position: int, watch: bytes) -> str:
    """Return the cursor that resumes the watch with the digest *watch* after a position."""
    return _text(_WATCH.pack(_WATCH_TAG, watch, position))


def watch_position(cursor: str, watch: bytes) -> int | None:
    """Return the position to resume after; None for an empty cursor.

    Raises:
        InvalidRequestError: The cursor is malformed, or of another watch or store.
    """
    if not cursor:
        return None
    tag, digest_, position = _unpack(_WATCH, cursor, "cursor")
    if tag != _WATCH_TAG or position > _MAX_POSITION:
        raise _foreign("cursor")
    if digest_ != watch:
        message = (
            "is of a watch of another scope or filter, or of another store, such as the one before a backup was "
            "restored: start a new watch without a cursor, then read the memories"
        )
        raise InvalidRequestError([Violation("cursor", message)])
    return int(position)


def context_cursor(run_id: bytes, index: int) -> str:
    """Return the token of an event of a context."""
    return _text(_CONTEXT.pack(_CONTEXT_TAG, run_id, index))


def context_position(cursor: str, *, field: str) -> tuple[bytes, int]:
    """Return the run of a context cursor and the number of its event.

    Raises:
        InvalidRequestError: This service did not issue the cursor.
    """
    tag, run_id, index = _unpack(_CONTEXT, cursor, field)
    if tag != _CONTEXT_TAG:
        raise _foreign(field)
    return bytes(run_id), int(index)


def checkpoint_token(checkpoint: Checkpoint, request: bytes) -> str:
    """Return the token of the page after *checkpoint* of the list that has the digest *request*."""
    return _text(_CHECKPOINT.pack(request, to_micros(checkpoint.create_time)) + checkpoint.name.encode())


def checkpoint_cursor(token: str, request: bytes) -> tuple[datetime, str] | None:
    """Return the create_time and name that a list of checkpoints continues after; None for an empty token.

    Raises:
        InvalidRequestError: The token is malformed, or of another request.
    """
    if not token:
        return None
    try:
        raw = urlsafe_b64decode(token[:_MAX_CHECKPOINT_TOKEN].encode("ascii") + b"=" * (-len(token) % 4))
        digest_, micros = _CHECKPOINT.unpack_from(raw)
        cursor = from_micros(micros), raw[_CHECKPOINT.size :].decode()
    except (ValueError, struct.error, OverflowError):
        digest_, cursor = b"", (EPOCH, "")
    if digest_ != request:
        raise _foreign("page_token")
    return cursor


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unpack(form: struct.Struct, token: str, field: str) -> tuple[Any, ...]:
    if len(token) > MAX_LENGTH or not token.isascii():
        raise _foreign(field)
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise _foreign(field) from None
    if len(raw) != form.size or _text(raw) != token:
        raise _foreign(field)
    return form.unpack(raw)


def _foreign(field: str) -> InvalidRequestError:
    return InvalidRequestError([Violation(field, "is not a token that this service gave for this request")])
