"""Encoded requests: checks before they are parsed, parsing in parts, and turns to parse large ones.

Parsing holds the interpreter lock: 13 MB of metadata take 20 ms to parse and as long to measure, 2 MiB of empty texts
50 ms, in which no other call goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from memsvc.domain import limits
from memsvc.domain.errors import InvalidRequestError, LimitExceededError, LimitKind, Violation
from memsvc.domain.field_rules import JSON_TOO_LONG
from memsvc.server.requests.decoder import STRUCT_BYTES

LARGE_BYTES = 2 * 1024 * 1024
"""The size of a request above which it is checked before it is parsed, and parsed in turns."""
PART_BYTES = 64 * 1024
"""The size of the parts in which a request is parsed: of the shortest fields they take 2 ms."""
MOST_VALUES = limits.BATCH
"""The values of a list above which a request is refused before they are parsed: no list takes more."""
MOST_FIELDS = 20_000
"""The fields of a request that are looked at one by one: those of its largest messages. Further ones are refused."""
PAUSE_SHARE = 4.0
"""The next large request of a tenant is parsed after at least so many times as long as the last one took."""
BYTES_PER_SECOND = 32 * 1024 * 1024
"""The rate of the large requests of a tenant, and of those above 64 KiB: what is received is copied in the event
loop."""
BURST_SECONDS = 0.25
"""The time whose bytes a tenant may send at once."""
PACED_SECONDS = 2.0
"""The longest delay of a request for the rate of its tenant; it is held in memory. Further ones are refused."""
STREAMED_BYTES_PER_SECOND = 64 * 1024 * 1024
"""The rate of the messages of several streams of a tenant at a time."""
MAX_WAITING = 16
"""Large requests of a tenant that wait for their turn, and are held in memory; further ones are refused."""
RETRY_SECONDS = 0.5
MOST_NESTED = 100
"""The depth of messages in a request; the limit of protobuf's own parsers."""
_STRUCT = "google.protobuf.Struct"
_MAX_TENANTS = 1_000
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_SIZES = {_FIXED_64: 8, _FIXED_32: 4}
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


def parse(body: bytes, decode: Any) -> Any:
    """Return the message in an encoded request; *decode* is the `FromString` of its class.

    A large one is parsed in parts, between which other threads run. Metadata that is too long is not parsed: it is
    replaced by a text that is too long as well, so that an item of a list fails alone.

    Raises:
        DecodeError: The bytes are no such message.
        InvalidRequestError: A list has more values, or a message more fields, than any that is accepted, or a request
            of more than 2 MiB has metadata that is too long, in no item of a list.
    """
    if len(body) <= PART_BYTES:
        return decode(body)
    message = decode.__self__()
    _PartParser(body).merge(message, (0, len(body)), "", 0)
    return message


def is_chunk(body: bytes, decode: Any) -> bool:
    """Return whether an encoded request is one field of bytes, as those of uploads: it costs little to parse."""
    tag, at = _varint(body, 0)
    field = _fields(decode.__self__.DESCRIPTOR).get(tag >> 3)
    if field is None or field.type != FieldDescriptor.TYPE_BYTES:
        return False
    length, at = _varint(body, at)
    return at + length == len(body)


class _PartParser:
    """Parser of a request in parts: runs of short fields, and the fields of long messages one by one."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._left = MOST_FIELDS
        self._is_large = len(body) > LARGE_BYTES

    def merge(self, message: Message, span: tuple[int, int], path: str, depth: int) -> None:
        """Merge a span of the request into *message*, to which *path* leads."""
        if depth > MOST_NESTED:
            raise DecodeError
        fields = _fields(message.DESCRIPTOR)
        counts: dict[int, int] = {}
        # Those of an item of a list fail with their item.
        structs = dict.fromkeys(_structs(message.DESCRIPTOR), 0) if self._is_large and "[" not in path else {}
        body, (at, end) = self._body, span
        begun = at
        while at < end:
            start = at
            tag, at, length = self._next(at, end, path)
            field = fields.get(tag >> 3)
            if field is not None and tag & 7 == _LENGTH_DELIMITED:
                count = counts[tag] = counts.get(tag, 0) + 1
                if count > MOST_VALUES and field.is_repeated:
                    problem = f"has more than {MOST_VALUES} values, which no list of a request may have"
                    raise InvalidRequestError([Violation(path + field.name, problem)])
                if field.number in structs:
                    # Several are one, merged.
                    structs[field.number] += length
                    if structs[field.number] > STRUCT_BYTES:
                        raise InvalidRequestError([Violation(path + field.name, JSON_TOO_LONG)])
                if length > PART_BYTES and field.message_type is not None:
                    message.MergeFromString(body[begun:start])
                    begun = at
                    self._merge_long(message, field, (at - length, at), f"{path}{field.name}", depth + 1)
            if at - begun >= PART_BYTES:
                message.MergeFromString(body[begun:at])
                begun = at
        message.MergeFromString(body[begun:end])

    def _next(self, at: int, end: int, path: str) -> tuple[int, int, int]:
        """Return the tag of the field at *at*, where it ends, and the length of its value if that is delimited."""
        self._left -= 1
        if self._left < 0:
            raise InvalidRequestError(
                [Violation(path.rstrip(".") or "request", f"must have at most {MOST_FIELDS} fields")]
            )
        tag, at = _varint(self._body, at)
        kind, length = tag & 7, 0
        if kind == _VARINT:
            _, at = _varint(self._body, at)
        elif kind == _LENGTH_DELIMITED:
            length, at = _varint(self._body, at)
            at += length
        elif kind in _SIZES:
            at += _SIZES[kind]
        else:
            # Groups do not occur.
            raise DecodeError
        if at > end:
            raise DecodeError
        return tag, at, length

    def _merge_long(self, message: Message, field: Any, span: tuple[int, int], path: str, depth: int) -> None:
        """Merge a long message in a field."""
        inner = getattr(message, field.name)
        if field.is_repeated:
            path = f"{path}[{len(inner)}]"
            inner = inner.add()
        else:
            inner.SetInParent()
        if field.message_type.full_name != _STRUCT:
            self.merge(inner, span, f"{path}.", depth)
        elif span[1] - span[0] <= STRUCT_BYTES:
            inner.MergeFromString(self._body[slice(*span)])
        else:
            inner.fields[""].string_value = " " * STRUCT_BYTES


@lru_cache(maxsize=1024)
def _fields(message: Descriptor) -> Mapping[int, FieldDescriptor]:
    return {one.number: one for one in message.fields}


@lru_cache(maxsize=1024)
def _structs(message: Descriptor) -> tuple[int, ...]:
    """Return the numbers of the fields that are a `Struct`."""
    types = ((one.number, one.message_type) for one in message.fields if not one.is_repeated)
    return tuple(number for number, kind in types if kind is not None and kind.full_name == _STRUCT)


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
        next_time: When the next one may be parsed, by the clock.
        paced_time: When the bytes that were received would have been at the rate of the tenant.
        streams: How many streams wait to be read.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    steps: asyncio.Lock = field(default_factory=asyncio.Lock)
    streams: int = 0
    waiting: int = 0
    next_time: float = 0.0
    paced_time: float = 0.0

    @property
    def is_used(self) -> bool:
        """Return whether something waits."""
        return bool(self.waiting or self.streams)


class ParseTurns:
    """Turns to parse large requests: those of one tenant one after another, with pauses in between.

    To be used in one thread: that of the event loop.
    """

    def __init__(
        self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Wait by *sleep* and *clock*, in seconds."""
        self._sleep = sleep
        self._clock = clock
        self._turns: dict[str, _Turn] = {}

    async def run(self, tenant_id: str, size: int, parse: Callable[[], R]) -> R:
        """Return the result of *parse*, called in a thread when it is the turn of the tenant's request of *size* bytes.

        Raises:
            LimitExceededError: Too many requests of the tenant wait for their turn.
        """
        turn = self._turn(tenant_id)
        if turn.waiting >= MAX_WAITING:
            limit = f"{MAX_WAITING} large requests of a tenant that wait to be parsed"
            raise LimitExceededError(limit, retry_seconds=RETRY_SECONDS, kind=LimitKind.CONCURRENCY)
        turn.waiting += 1
        try:
            async with turn.lock:
                await self._sleep(turn.next_time - self._clock())
                return await asyncio.to_thread(self._timed, turn, size, parse)
        finally:
            turn.waiting -= 1

    async def pace(self, tenant_id: str, size: int) -> None:
        """Return when the tenant may have a request of *size* bytes parsed: at once within its rate.

        Raises:
            LimitExceededError: That would take too long.
        """
        turn, now = self._turn(tenant_id), self._clock()
        paced = max(turn.paced_time, now - BURST_SECONDS) + size / BYTES_PER_SECOND
        if paced - now > PACED_SECONDS:
            limit = f"{BYTES_PER_SECOND} bytes a second in requests of more than {PART_BYTES} bytes of a tenant"
            raise LimitExceededError(limit, retry_seconds=paced - now - PACED_SECONDS, kind=LimitKind.RATE)
        turn.paced_time = paced
        if paced > now:
            await self._sleep(paced - now)

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
        if len(self._turns) >= _MAX_TENANTS and tenant_id not in self._turns:
            now = self._clock()
            self._turns = {
                name: one
                for name, one in self._turns.items()
                if one.is_used or max(one.next_time, one.paced_time) > now
            }
        return self._turns.setdefault(tenant_id, _Turn())

    def _timed(self, turn: _Turn, size: int, parse: Callable[[], R]) -> R:
        began = time.thread_time()
        try:
            return parse()
        finally:
            pause = max(PAUSE_SHARE * (time.thread_time() - began), size / BYTES_PER_SECOND)
            turn.next_time = self._clock() + pause
