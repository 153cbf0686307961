"""Decoder of a request's fields: each field is decoded and checked once, and every violation is collected.

A wrong field is recorded and replaced by a harmless placeholder, so that decoding continues; `RequestDecoder.finish`
then raises one error with all violations. Descriptions never quote what the client sent: they go into trailers, which
are small.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain import limits
from memsvc.domain.clock import EPOCH
from memsvc.domain.errors import InvalidRequestError, PermissionDeniedError, Violation
from memsvc.domain.field_rules import (
    JSON_TOO_LONG,
    UUID,
    content_fault,
    count_fault,
    json_depth_fault,
    json_size_fault,
    name_fault,
    nul_fault,
    text_fault,
    time_zone,
)
from memsvc.domain.memory import Json
from memsvc.domain.scope import Scope
from memsvc.domain.search import PageCursor
from memsvc.domain.write_requests import WaitFor
from memsvc.server import call_context
from memsvc.server.call_context import Principal
from memsvc.server.enums import WAIT_FOR, E, EnumTable, V
from memsvc.server.tokens import digest, list_cursor, position_of
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb

T = TypeVar("T")
D = TypeVar("D")

MIN_SECONDS = -62_135_596_800
"""0001-01-01T00:00:00Z, the earliest Timestamp."""
MAX_SECONDS = 253_402_300_799
"""9999-12-31T23:59:59Z, the latest Timestamp."""
MAX_NANOS = 999_999_999
MAX_DURATION_SECONDS = 315_576_000_000
EXACT_INTEGERS = 2.0**53
"""Whole doubles below this become int: larger ones may have been rounded."""
_DAY_SECONDS = 86_400
_VECTOR_FIELD = "vector"
STRUCT_BYTES = 8 * limits.METADATA_BYTES
"""The size of a Struct above which its JSON text is too long: each byte of it takes at most 5.5 (lists of digits)."""
_FLOAT = np.dtype("<f4")

ScopeOrAll: TypeAlias = (
    "admin_pb.CheckIntegrityRequest | admin_pb.SyncVaultRequest | lifecycle_pb.RunMaintenanceRequest"
)
"""A request about one scope, or about all users."""
WithVector: TypeAlias = (
    memory_pb.CreateMemoryRequest
    | memory_pb.BatchMemory
    | memory_pb.UpdateMemoryRequest
    | search_pb.SearchRequest
    | search_pb.BuildContextRequest
    | search_pb.RenderContextRequest
    | memory_pb.SupersedeMemoryRequest
)


class RequestDecoder:
    """Values of one request's fields, its violations, and the scopes that its caller must be authorised for.

    Field paths are those of the .proto, within the message that *prefix* names ("header.", for example).
    """

    __slots__ = ("_prefix", "_projects", "_scopes", "_users", "_violations")

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._violations: list[Violation] = []
        self._scopes: list[Scope] = []
        self._projects: list[str] = []
        self._users: list[str] = []

    def add(self, field: str, description: str) -> None:
        """Record that *field* breaks a rule; *description* says what would be right."""
        self._violations.append(Violation(self._prefix + field, description))

    def error(self) -> InvalidRequestError | None:
        """Return the error with every violation, or None when there is none."""
        return InvalidRequestError(self._violations) if self._violations else None

    def finish(self) -> None:
        """Return when every field is valid and the caller may use every scope that was decoded.

        Raises:
            InvalidRequestError: Fields are wrong; the error names all of them.
            PermissionDeniedError: The caller's API key is not authorised for the user or the project.
        """
        if error := self.error():
            raise error
        if not (self._scopes or self._projects or self._users):
            return
        principal = call_context.principal.get()
        audited = call_context.audit_scope.get()
        for scope in self._scopes:
            if audited is not None:
                audited.users[scope.user_id] = None
                audited.projects[scope.project_id] = None
            if principal.user_ids and scope.user_id not in principal.user_ids:
                raise _not_authorised(principal, "user_id", scope.user_id)
            self._authorise_project(principal, scope.project_id)
        for user_id in self._users:
            if audited is not None:
                audited.users[user_id] = None
            if principal.user_ids and user_id not in principal.user_ids:
                raise _not_authorised(principal, "user_id", user_id)
        for project_id in self._projects:
            self._authorise_project(principal, project_id)

    @staticmethod
    def _authorise_project(principal: Principal, project_id: str) -> None:
        # A key that is limited to projects may not use the global scope, the empty project, either.
        if principal.project_ids and project_id not in principal.project_ids:
            raise _not_authorised(principal, "project_id", project_id)

    def scope_unless_all(self, message: ScopeOrAll, decode: Callable[[types_pb.Scope], Scope]) -> Scope | None:
        """Return the scope of a request, None for one about `all` users; nothing that is left out means all."""
        if message.all:
            if message.HasField("scope"):
                self.add("scope", "must be unset when all is set: it would be ignored")
            return None
        if not message.HasField("scope"):
            self.add("scope.user_id", "must be set, or all for the data of all users")
            return None
        return decode(message.scope)

    def scope(self, message: types_pb.Scope, field: str = "scope") -> Scope:
        """Return the scope of the request, within the caller's tenant; `finish` authorises it."""
        self.name(f"{field}.user_id", message.user_id, most=limits.USER_ID, least=1)
        self.inner_scope(message, field)
        scope = Scope(
            user_id=message.user_id,
            project_id=message.project_id,
            agent_id=message.agent_id,
            session_id=message.session_id,
            tenant_id=call_context.principal.get().tenant_id,
        )
        self._scopes.append(scope)
        return scope

    def owner(self, user_id: str) -> str:
        """Return the owner of a user as a whole, within the caller's tenant; `finish` authorises the user."""
        self.name("user_id", user_id, most=limits.USER_ID, least=1)
        self._users.append(user_id)
        return Scope(user_id, tenant_id=call_context.principal.get().tenant_id).owner

    def projects(self, message: Any) -> tuple[str, ...]:
        """Return the only projects of a list: the requested one, or those of the caller's key; empty: all."""
        if "project_id" in message.DESCRIPTOR.fields_by_name and message.HasField("project_id"):
            self.name("project_id", message.project_id, most=limits.SCOPE_ID)
            self._projects.append(message.project_id)
            return (message.project_id,)
        return tuple(sorted(call_context.principal.get().project_ids))

    def inner_scope(self, message: types_pb.Scope, field: str) -> None:
        """Check the parts of a scope that are optional."""
        self.name(f"{field}.project_id", message.project_id, most=limits.SCOPE_ID)
        self.name(f"{field}.agent_id", message.agent_id, most=limits.SCOPE_ID)
        self.name(f"{field}.session_id", message.session_id, most=limits.SCOPE_ID)

    def scope_of_user(self, message: types_pb.Scope, *names: str, reason: str) -> Scope:
        """Return a scope in which the fields *names* must be empty."""
        scope = self.scope(message)
        for name in names:
            if getattr(message, name):
                self.add(f"scope.{name}", f"must be empty: {reason}")
        return scope

    def project(self, project_id: str) -> str | None:
        """Return the project of a single memory, None for an empty one; `finish` authorises it."""
        if not project_id:
            return None
        self._projects.append(project_id)
        return project_id

    def request_id(self, value: str) -> str:
        """Return the idempotency key of a request."""
        return self.text("request_id", value, most=limits.REQUEST_ID)

    def text(self, field: str, value: str, *, most: int, least: int = 0) -> str:
        """Return a free text: its length is limited, and it contains no NUL."""
        if fault := text_fault(value, most=most, least=least):
            self.add(field, fault)
        return value

    def content(self, field: str, value: str) -> str:
        """Return the content of a memory: a text that is not blank."""
        if fault := content_fault(value):
            self.add(field, fault)
        return value

    def name(self, field: str, value: str, *, most: int, least: int = 0) -> str:
        """Return a text that names something: its length is limited, and it contains no control characters."""
        if fault := name_fault(value, most=most, least=least):
            self.add(field, fault)
        return value

    def texts(self, field: str, values: Sequence[str], *, count: int, most: int, least: int = 0) -> tuple[str, ...]:
        """Return a list of free texts, each once."""
        self.count(field, values, most=count)
        for index, value in enumerate(values[:count]):
            if fault := text_fault(value, most=most, least=least):
                self.add(f"{field}[{index}]", fault)
        return tuple(dict.fromkeys(values[:count]))

    def read_mask(self, mask: FieldMask) -> None:
        """Check the names of the fields of memories that a response is to contain."""
        fields = types_pb.Memory.DESCRIPTOR.fields_by_name
        self.count("read_mask.paths", mask.paths, most=len(fields))
        for index, path in enumerate(mask.paths[: len(fields)]):
            if path not in fields:
                self.add(f"read_mask.paths[{index}]", "must be the name of a field of Memory, such as 'content'")

    def uuid(self, field: str, value: str) -> str:
        """Return an id in lower case, as it is stored."""
        if not UUID.fullmatch(value):
            self.add(field, "must be a UUID such as '0190163d-8694-739b-aea5-966c26f8ad91'")
        return value.lower()

    def uuids(self, field: str, values: Sequence[str], *, count: int) -> tuple[str, ...]:
        """Return a list of ids in lower case, each once."""
        self.count(field, values, most=count)
        for index, value in enumerate(values[:count]):
            if not UUID.fullmatch(value):
                self.uuid(f"{field}[{index}]", value)
        return tuple(dict.fromkeys(value.lower() for value in values[:count]))

    def count(self, field: str, values: Collection[object], *, most: int, least: int = 0) -> None:
        """Check the number of values in a list."""
        if fault := count_fault(values, most=most, least=least):
            self.add(field, fault)

    def enum(self, field: str, number: int, table: EnumTable[E, V], default: D) -> E | D:
        """Return the value of an enum, or *default* for zero."""
        if not number:
            return default
        value = table.from_proto.get(number)
        if value is None:
            self.add(field, "must be a value of the enum")
            return default
        return value

    def enums(self, field: str, numbers: Sequence[int], table: Mapping[int, T], *, count: int) -> list[T]:
        """Return the values of a list of enums; zero is none."""
        self.count(field, numbers, most=count)
        found = []
        for index, number in enumerate(numbers[:count]):
            if number in table:
                found.append(table[number])
            else:
                self.add(f"{field}[{index}]", "must be a value of the enum, and not UNSPECIFIED")
        return found

    def integer(
        self, field: str, value: int, *, least: int, most: int, default: int = 0, zero: str = "the default"
    ) -> int:
        """Return a whole number within its bounds, or *default* for zero; *zero* says what that means to callers."""
        if not value:
            return default
        if not least <= value <= most:
            self.add(field, f"must be {least} to {most}, or 0 for {zero}")
        return value

    def page_size(self, value: int, *, most: int = limits.PAGE_SIZE, default: int = limits.PAGE_SIZE_DEFAULT) -> int:
        """Return the number of items of one page."""
        return self.integer("page_size", value, least=1, most=most, default=default)

    def number(self, field: str, value: float, *, least: float = 0.0, most: float = math.inf) -> float:
        """Return a finite number within its bounds; 0 for a negative zero, which not every database has."""
        if not (math.isfinite(value) and least <= value <= most):
            bound = f"from {least:.15g} to {most:.15g}" if math.isfinite(most) else f"of at least {least:.15g}"
            self.add(field, f"must be a finite number {bound}")
        return value + 0.0

    def revision(self, value: int) -> int:
        """Return the expected revision of a memory; 0 is any."""
        if value < 0:
            self.add("expected_revision", "must be a revision, or 0 for any")
        return value

    def wait_for(self, number: int, default: WaitFor = WaitFor.INDEXED) -> WaitFor:
        """Return the point at which the write is answered."""
        return self.enum("wait_for", number, WAIT_FOR, default)

    def is_time(self, field: str, stamp: Timestamp) -> bool:
        """Check a moment, and return whether it is valid."""
        if MIN_SECONDS <= stamp.seconds <= MAX_SECONDS and 0 <= stamp.nanos <= MAX_NANOS:
            return True
        self.add(field, "must be in the years 1 to 9999, with nanos from 0 to 999999999")
        return False

    def time(self, field: str, stamp: Timestamp) -> datetime:
        """Return a moment, truncated to the microsecond."""
        return time_from_proto(stamp) if self.is_time(field, stamp) else EPOCH

    def optional_time(self, field: str, message: Any, name: str) -> datetime | None:
        """Return the moment in the field *name* of *message*, which is at the path *field*; None when it is unset."""
        return self.time(field, getattr(message, name)) if message.HasField(name) else None

    def is_time_range(self, field: str, span: types_pb.TimeRange) -> bool:
        """Check a span of time, and return whether it is valid: its bounds, and that it ends after its start."""
        starts, ends = span.HasField("start"), span.HasField("end")
        valid = not starts or self.is_time(f"{field}.start", span.start)
        valid = (not ends or self.is_time(f"{field}.end", span.end)) and valid
        if valid and starts and ends:
            start = (span.start.seconds, span.start.nanos)
            if start >= (span.end.seconds, span.end.nanos):
                self.add(f"{field}.end", "must be later than start")
                return False
        return valid

    def ttl(self, field: str, ttl: Duration) -> timedelta:
        """Return a time to live, rounded up to the microsecond."""
        return self.duration(field, ttl, most_days=limits.TTL_DAYS)

    def duration(self, field: str, given: Duration, *, most_days: int) -> timedelta:
        """Return a positive duration of at most so many days, rounded up to the microsecond: it stays positive."""
        if not (
            abs(given.seconds) <= MAX_DURATION_SECONDS
            and abs(given.nanos) <= MAX_NANOS
            and given.seconds * given.nanos >= 0
        ):
            self.add(field, "must be a Duration whose seconds and nanos are in range and of the same sign")
        elif not 0 < given.seconds * (MAX_NANOS + 1) + given.nanos <= most_days * _DAY_SECONDS * (MAX_NANOS + 1):
            self.add(field, f"must be more than 0 and at most {most_days} days")
        else:
            return timedelta(seconds=given.seconds, microseconds=-(-given.nanos // 1000))
        return timedelta(0)

    def zone(self, field: str, name: str) -> ZoneInfo | None:
        """Return a time zone; None for an empty name."""
        found = time_zone(name) if name and len(name) <= limits.TIME_ZONE else None
        if name and found is None:
            self.add(field, "must be the IANA name of a time zone such as 'Asia/Shanghai', or empty")
        return found

    def metadata(self, field: str, struct: Struct) -> dict[str, Json]:
        """Return free JSON: finite numbers, no NUL, and limits on its depth and its length as JSON text."""
        if not struct.fields:
            return {}
        if struct.ByteSize() > STRUCT_BYTES:
            # Before anything is walked: a request holds millions of values.
            self.add(field, JSON_TOO_LONG)
            return {}
        reader = _StructReader()
        members = reader.members(struct, 1)
        for fault in sorted(reader.faults):
            self.add(field, fault)
        if reader.faults:
            return {}
        text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
        if fault := json_size_fault(text):
            self.add(field, fault)
        return members

    def vector(self, message: WithVector, dimension: int) -> array[float] | None:
        """Return the given vector as float32 at unit length, None when there is none.

        Only the direction of a given vector counts; at unit length no later sum of squares can overflow or vanish.
        """
        if not message.vector:
            return None
        numbers = numbers_from_proto(message)
        if len(numbers) != dimension:
            self.add(
                _VECTOR_FIELD,
                f"must hold {dimension} numbers, as many as the index has dimensions, not {len(numbers)}",
            )
            return None
        exact = numbers.astype(np.float64)
        square = float(exact @ exact)
        if not math.isfinite(square):
            self.add(_VECTOR_FIELD, "must hold finite numbers only")
        elif square == 0.0:
            self.add(_VECTOR_FIELD, "must not be all zeros")
        else:
            return array("f", (exact / math.sqrt(square)).astype(np.float32).tobytes())
        return None

    def list_cursor(self, message: Any, digest_of: Callable[[Any], bytes] = digest) -> PageCursor | None:
        """Return the cursor that a list continues after, None for its first page.

        Args:
            message: A request with a `page_token`.
            digest_of: Returns the digest that the page tokens of such requests are bound to.
        """
        if not message.page_token:
            return None
        return self.token(list_cursor, message.page_token, digest_of(message), default=None)

    def position(self, consistency_token: str) -> int:
        """Return the outbox position of a consistency token; 0 for an empty one."""
        return self.token(position_of, consistency_token, default=0) if consistency_token else 0

    def token(self, read: Callable[..., T], *arguments: object, default: T, **keywords: object) -> T:
        """Return what *read* reads from a token of this service; a foreign token is a violation."""
        try:
            return read(*arguments, **keywords)
        except InvalidRequestError as error:
            for violation in error.violations:
                self.add(violation.field, violation.description)
            return default


def _not_authorised(principal: Principal, field: str, value: str) -> PermissionDeniedError:
    message = f"The API key {principal.key_id!r} is not authorised for the {field} {value!r} of the scope."
    return PermissionDeniedError(message, key_id=principal.key_id, needed=field)


def time_from_proto(stamp: Timestamp) -> datetime:
    """Return the moment of a valid stamp, truncated to the microsecond."""
    return EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)


def scalar_from_proto(value: Value) -> str | int | float | bool | None:
    """Return a scalar; a value of no kind counts as null."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "string_value":
        return value.string_value
    return value.bool_value if kind == "bool_value" else None


class _StructReader:
    """Reader of the values of a `Struct`, as many as JSON text of the longest metadata can hold.

    A value takes at least two bytes there, as "0,"; on the wire an empty one takes two, where a request has millions.

    Attributes:
        faults: What is wrong.
    """

    __slots__ = ("_left", "faults")

    def __init__(self) -> None:
        self._left = limits.METADATA_BYTES // 2
        self.faults: set[str] = set()

    def members(self, struct: Struct, depth: int) -> dict[str, Json]:
        """Return the members of an object that is nested so deep."""
        if depth > limits.METADATA_DEPTH:
            self.faults.add(_TOO_DEEP)
            return {}
        if not self._has_room(struct.fields):
            return {}
        members = {}
        for name, value in struct.fields.items():
            if "\0" in name:
                self.faults.add(_NUL)
            members[name] = self._json(value, depth)
        return members

    def _json(self, value: Value, depth: int) -> Json:
        self._left -= 1
        kind = value.WhichOneof("kind")
        if kind == "struct_value":
            return self.members(value.struct_value, depth + 1)
        if kind == "list_value":
            if depth >= limits.METADATA_DEPTH:
                self.faults.add(_TOO_DEEP)
                return []
            values = value.list_value.values
            return [self._json(child, depth + 1) for child in values] if self._has_room(values) else []
        scalar = scalar_from_proto(value)
        if isinstance(scalar, str):
            if "\0" in scalar:
                self.faults.add(_NUL)
        elif isinstance(scalar, float) and not math.isfinite(scalar):
            self.faults.add("must hold finite numbers only")
        return scalar

    def _has_room(self, values: Sized) -> bool:
        if len(values) <= self._left:
            return True
        self.faults.add(JSON_TOO_LONG)
        return False


_TOO_DEEP = json_depth_fault(limits.METADATA_DEPTH + 1)
_NUL = nul_fault("\0")


def _number(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < EXACT_INTEGERS else number


def numbers_from_proto(message: WithVector) -> npt.NDArray[np.float32]:
    """Return the numbers of the field `vector` of a message, as many as there are.

    The message is encoded once more and the field read as the bytes that it is on the wire: a tenth of the time that
    it takes to have every number as an object of Python.
    """
    if not message.vector:
        return np.empty(0, _FLOAT)
    wire = _as_bytes(message.DESCRIPTOR.fields_by_name[_VECTOR_FIELD].number)
    return np.frombuffer(wire.FromString(message.SerializeToString()).vector, _FLOAT)


@cache
def _as_bytes(number: int) -> Any:
    """Return the class of a message with this field alone, as bytes: packed numbers are the same on the wire."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="vector.proto", syntax="proto3")
    file.message_type.add(name="Wire").field.add(
        name=_VECTOR_FIELD, number=number, type=kind.TYPE_BYTES, label=kind.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Wire"))


def unique(values: Iterable[T]) -> tuple[T, ...]:
    """Return the values in order, each once."""
    return tuple(dict.fromkeys(values))
