"""Encoded requests: what can be known of them before they are parsed, and turns to parse large ones.

Parsing holds the interpreter lock: 13 MB of metadata take 20 ms to parse and as long to measure, in which no other call
goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from google.protobuf.descriptor import Descriptor

from memsvc.domain.errors import InvalidRequestError, LimitExceededError, LimitKind, Violation
from memsvc.domain.field_rules import JSON_TOO_LONG
from memsvc.server.requests.decoder import STRUCT_BYTES

LARGE_BYTES = 2 * 1024 * 1024
"""The size of a request above which it is checked before it is parsed, and parsed in turns."""
PAUSE_SHARE = 4.0
"""The next large request of a tenant is parsed after at least so many times as long as the last one took."""
BYTES_PER_SECOND = 32 * 1024 * 1024
"""The rate of the large requests of a tenant: what is received is copied in the event loop."""
STREAMED_BYTES_PER_SECOND = 64 * 1024 * 1024
"""The rate of the messages of several streams of a tenant at a time."""
MAX_WAITING = 16
"""Large requests of a tenant that wait for their turn, and are held in memory; further ones are refused."""
RETRY_SECONDS = 0.5
_WALKED_FIELDS = 10_000
_MAX_TENANTS = 1_000
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_SIZES = {_FIXED_64: 8, _FIXED_32: 4}
_Places: TypeAlias = Mapping[int, tuple[str, "_Places | None"]]
"""Fields by number, with their names: those that are a `Struct` (None), and messages that have such fields."""
R = TypeVar("R")


def count_fields(body: bytes, most: int) -> int:
    """Return the number of fields of an encoded message, without those in its fields, *most* if there are more.

    Counting ends at the first field that is not a message or a text.
    """
    at = count = 0
    while at < len(body) and count < most:
        tag, at = _varint(body, at)
        if tag & 7 != _LENGTH_DELIMITED:
            break
        length, at = _varint(body, at)
        at, count = at + length, count + 1
    return count


def refuse_long_metadata(body: bytes, decode: Any) -> None:
    """Raise an InvalidRequestError if metadata in an encoded message is longer than any that is accepted.

    *decode* is the `FromString` of its class.

    Metadata of items of a list is not looked at, as each item has a result of its own; nor what comes after thousands
    of fields.
    """
    places = _struct_places(decode.__self__.DESCRIPTOR)
    path = _find_long(body, (0, len(body)), places, [_WALKED_FIELDS]) if places else None
    if path is not None:
        raise InvalidRequestError([Violation(path, JSON_TOO_LONG)])


@lru_cache(maxsize=256)
def _struct_places(message: Descriptor) -> _Places:
    found: dict[int, tuple[str, _Places | None]] = {}
    for one in message.fields:
        if one.message_type is None or one.is_repeated:
            continue
        if one.message_type.full_name == "google.protobuf.Struct":
            found[one.number] = one.name, None
        elif one.message_type.file.package == message.file.package and (places := _struct_places(one.message_type)):
            found[one.number] = one.name, places
    return found


def _find_long(body: bytes, span: tuple[int, int], places: _Places, left: list[int]) -> str | None:
    """Return the path of a `Struct` that is too long, by at most *left* fields."""
    at, end = span
    sizes: dict[int, int] = {}
    while at < end and left[0]:
        left[0] -= 1
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(body, at)
        elif kind != _LENGTH_DELIMITED:
            # Groups do not occur; what is no message is refused when it is parsed.
            at += _SIZES.get(kind, end)
        else:
            length, at = _varint(body, at)
            name, inner = places.get(tag >> 3, ("", None))
            if inner:
                path = _find_long(body, (at, min(end, at + length)), inner, left)
                if path is not None:
                    return f"{name}.{path}"
            elif name:
                # Several are one, merged.
                sizes[tag] = sizes.get(tag, 0) + length
                if sizes[tag] > STRUCT_BYTES:
                    return name
            at += length
    return None


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in body[at : at + 10]:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            break
    return value, at


@dataclass(slots=True, eq=False)
class _Turn:
    """The turns of a tenant.

    Attributes:
        waiting: How many large requests wait for theirs.
        next_time: When the next one may be parsed, by `time.monotonic`.
        streams: How many streams wait to be read.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    steps: asyncio.Lock = field(default_factory=asyncio.Lock)
    streams: int = 0
    waiting: int = 0
    next_time: float = 0.0

    @property
    def is_used(self) -> bool:
        """Return whether something waits."""
        return bool(self.waiting or self.streams)


class ParseTurns:
    """Turns to parse large requests: those of one tenant one after another, with pauses in between.

    To be used in one thread: that of the event loop.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Wait by *sleep*."""
        self._sleep = sleep
        self._turns: dict[str, _Turn] = {}

    async def run(self, tenant_id: str, size: int, parse: Callable[[], R]) -> R:
        """Return the result of *parse*, called in a thread when it is the turn of the tenant's request of *size* bytes.

        Raises:
            LimitExceededError: Too many requests of the tenant wait for their turn.
        """
        turn = self._turn(tenant_id)
        if turn.waiting >= MAX_WAITING:
            limit = f"{MAX_WAITING} requests of more than {LARGE_BYTES // 8} bytes of a tenant under way"
            raise LimitExceededError(limit, retry_seconds=RETRY_SECONDS, kind=LimitKind.CONCURRENCY)
        turn.waiting += 1
        try:
            async with turn.lock:
                await self._sleep(turn.next_time - time.monotonic())
                return await asyncio.to_thread(_timed, turn, size, parse)
        finally:
            turn.waiting -= 1

    async def step(self, tenant_id: str, size: int) -> None:
        """Return when a message of *size* bytes may be read of a stream: at once if the tenant has no other one.

        Messages of streams are copied in the event loop, where several streams would hold up all calls.
        """
        turn = self._turn(tenant_id)
        turn.streams += 1
        try:
            async with turn.steps:
                await self._sleep(0 if turn.streams == 1 else size / STREAMED_BYTES_PER_SECOND)
        finally:
            turn.streams -= 1

    def _turn(self, tenant_id: str) -> _Turn:
        if len(self._turns) >= _MAX_TENANTS:
            now = time.monotonic()
            self._turns = {
                name: one for name, one in self._turns.items() if one.waiting or one.streams or one.next_time > now
            }
        return self._turns.setdefault(tenant_id, _Turn())


def _timed(turn: _Turn, size: int, parse: Callable[[], R]) -> R:
    began = time.thread_time()
    try:
        return parse()
    finally:
        pause = max(PAUSE_SHARE * (time.thread_time() - began), size / BYTES_PER_SECOND)
        turn.next_time = time.monotonic() + pause
