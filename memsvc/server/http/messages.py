"""Forms of messages over HTTP, binary and JSON, and errors with details in JSON."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, TypeAlias

import grpc
from connectrpc.code import Code
from connectrpc.codec import Codec
from connectrpc.compression.gzip import GzipCompression
from connectrpc.errors import ConnectError, ErrorDetail
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FileDescriptorSet as FileSet
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2  # noqa: F401 - its messages are details of errors, found by their names
from google.rpc.status_pb2 import Status
from protobuf import Registry
from protobuf.wkt import Any as WireAny
from protobuf.wkt import FileDescriptorSet, Struct

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.v1 import errors_pb2  # noqa: F401 - likewise

JSON, PROTO = "json", "proto"
MAX_UNPACKED_BYTES = 4 * 1024 * 1024
"""The size of a compressed request when it is unpacked, which is done in the event loop."""
MAX_PACKED_BYTES = 64 * 1024
"""The size of a response above which it is sent uncompressed in the form of gzip: packing is done in the event loop."""
MOST_NESTED = 100
IS_COMPILED = find_spec("protobuf_ext") is not None
"""Whether connectrpc's messages are compiled: there is no wheel for some platforms."""
_UNKNOWN = re.compile(r'has no field named "(?P<name>[^"]*)"(?: at "(?P<path>[^"]*)")?')
_KNOWN = re.compile(r"Available Fields\(except extensions\): \"\[(?P<names>[^\]]*)\]")
_FIELD = re.compile(r"Failed to parse (?P<name>\S+) field: (?P<reason>.*)", re.DOTALL)


class BinaryForm:
    """Messages of one method in the binary form of Protocol Buffers."""

    def __init__(self, request: type[Message]) -> None:
        self._request = request

    def decode(self, data: bytes) -> Message:
        """Return a request; DecodeError if the bytes are none."""
        return self._request.FromString(data)

    def encode(self, message: Message) -> bytes:
        """Return the bytes of a response."""
        return message.SerializeToString()


class JsonForm:
    """Messages of one method in the JSON form of Protocol Buffers."""

    def __init__(self, request: type[Message], max_bytes: int, compiled: Registry | None = None) -> None:
        """Take requests of at most *max_bytes*; write responses by *compiled*, which has their types."""
        self._request = request
        self._max_bytes = max_bytes
        self._compiled = compiled

    def decode(self, data: bytes) -> Message:
        """Return a request.

        Raises:
            InvalidRequestError: The bytes are no such JSON; the error names the field.
        """
        if len(data) > self._max_bytes:
            raise _invalid("request", f"must have at most {self._max_bytes} bytes in JSON, not {len(data)}")
        if not data.lstrip().startswith(b"{"):
            raise _invalid("request", "must be a JSON object, such as {}")
        request = self._request()
        try:
            json_format.Parse(data, request, max_recursion_depth=MOST_NESTED)
        except json_format.ParseError as error:
            raise self._unparsed(data, str(error)) from None
        except UnicodeDecodeError:
            raise _invalid("request", "must be JSON in UTF-8") from None
        except RecursionError:
            raise InvalidRequestError([_TOO_DEEP]) from None
        return request

    def _unparsed(self, data: bytes, message: str) -> InvalidRequestError:
        """Return the error of JSON that is no request; *message* is the parser's."""
        described: Any = self._request.DESCRIPTOR
        fault = None if "Failed to load JSON" in message else json_fault(json.loads(data), described)
        return InvalidRequestError([fault]) if fault else _unparsed(message, described.name)

    def encode(self, message: Message) -> bytes:
        """Return the bytes of a response; fields without a value are left out.

        The compiled form takes a fifth of the time of `json_format`.
        """
        found = self._compiled and self._compiled.message(message.DESCRIPTOR.full_name)
        if not found:
            return json_format.MessageToJson(message, indent=None, ensure_ascii=False).encode()
        return found.type.from_binary(message.SerializeToString()).to_json().encode()


def compiled_messages(files: Iterable[FileDescriptor]) -> Registry | None:
    """Return the messages of files and their imports in connectrpc's library, None where it is not compiled.

    In pure Python it takes eight times as long as `json_format`. This takes a few tens of milliseconds.
    """
    if not IS_COMPILED:
        return None
    done: set[str] = set()
    described = FileSet(file=(found for file in files for found in _with_imports(file, done)))
    return FileDescriptorSet.from_binary(described.SerializeToString()).to_registry()


def _with_imports(file: FileDescriptor, done: set[str]) -> Iterator[FileDescriptorProto]:
    """Yield the description of each file once, those that it imports first."""
    if file.name in done:
        return
    done.add(file.name)
    for imported in file.dependencies:
        yield from _with_imports(imported, done)
    described = FileDescriptorProto()
    file.CopyToProto(described)
    for message in described.message_type:
        _name_in_json(message, file.message_types_by_name[message.name])
    yield described


def _name_in_json(message: DescriptorProto, descriptor: Descriptor) -> None:
    """Set the names of fields in JSON, which a copied description has not."""
    for field in message.field:
        field.json_name = descriptor.fields_by_name[field.name].json_name
    for nested in message.nested_type:
        _name_in_json(nested, descriptor.nested_types_by_name[nested.name])


def _invalid(field: str, description: str) -> InvalidRequestError:
    return InvalidRequestError([Violation(field, description)])


def _unparsed(message: str, name: str) -> InvalidRequestError:
    """Return the error of JSON that is no request of type *name*; *message* is the parser's."""
    unknown = _UNKNOWN.search(message)
    if unknown is not None:
        path = (unknown["path"] or "").removeprefix(name).removeprefix(".")
        field = f"{path}.{unknown['name']}" if path else unknown["name"]
        known = _KNOWN.search(message)
        fields = known["names"].replace("'", "") if known else ""
        return _invalid(field, f"is no field of this message, which has: {fields}")
    names: list[str] = []
    reason = message
    while (found := _FIELD.match(reason)) is not None:
        names.append(found["name"])
        reason = found["reason"]
    if not names and "Failed to load JSON" in message:
        reason = "must be JSON: " + message.partition("Failed to load JSON: ")[2]
    return _invalid(".".join(names) or "request", reason.rstrip("."))


# The first value in JSON that does not fit its field. The parser's own errors quote Python, depend on its version, and
# omit places in lists.


_Check: TypeAlias = Callable[[Any], bool]
_JSON_OBJECT = "must be a JSON object"
_TOO_DEEP = Violation("request", f"must not be nested more than {MOST_NESTED} deep")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ANY_VALUE = "google.protobuf.Value"


def json_fault(value: Any, described: Descriptor) -> Violation | None:
    """Return the first value of a JSON object that its field cannot take, in the order of the text.

    None when all fit, as far as types tell, or when an unknown name comes first. Takes time in proportion to *value*.
    """
    return next(_faults(value, described, "", 1), None)


def _faults(value: Any, described: Descriptor, path: str, depth: int) -> Iterator[Violation | None]:
    """Yield what does not fit in a message at *path*, the *depth*-th from outside; None for a name that is no field."""
    if depth > MOST_NESTED:
        yield _TOO_DEEP
        return
    if not isinstance(value, Mapping):
        yield Violation(path, _JSON_OBJECT)
        return
    fields = described.fields_by_name
    names = {field.json_name: field for field in described.fields}
    for name, each in value.items():
        field = names.get(name) or fields.get(name)
        if field is None:
            yield None
            return
        if each is not None:
            yield from _faults_of_field(each, field, f"{path}.{name}" if path else name, depth)


def _faults_of_field(value: Any, field: FieldDescriptor, path: str, depth: int) -> Iterator[Violation | None]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            yield Violation(path, _JSON_OBJECT)
            return
        for key, each in value.items():
            yield from _faults_of_value(each, field.message_type.fields_by_name["value"], f"{path}.{key}", depth)
    elif not field.is_repeated:
        yield from _faults_of_value(value, field, path, depth)
    elif not isinstance(value, list):
        yield Violation(path, "must be a JSON list")
    else:
        for place, each in enumerate(value):
            yield from _faults_of_value(each, field, f"{path}[{place}]", depth)


def _faults_of_value(value: Any, field: FieldDescriptor, path: str, depth: int) -> Iterator[Violation | None]:
    described = field.message_type
    if described is None:
        fits, expected = _scalar(field)
    elif described.full_name in _WELL_KNOWN:
        fits, expected = _WELL_KNOWN[described.full_name]
    elif described.full_name == _ANY_VALUE:
        return
    else:
        yield from _faults(value, described, path, depth + 1)
        return
    if not fits(value):
        yield Violation(path, expected)
    elif isinstance(value, str) and _SURROGATE.search(value):
        yield Violation(path, "must be valid Unicode, without unpaired surrogates")


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "===")
    except (AttributeError, ValueError, binascii.Error):
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _whole(least: int, most: int) -> tuple[_Check, str]:
    def fits(value: Any) -> bool:
        try:
            number = int(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
            return number is not None and (isinstance(value, str) or number == value) and least <= number <= most
        except (ValueError, OverflowError):
            return False

    return fits, f"must be a whole number from {least} to {most}"


def _enum(field: FieldDescriptor) -> tuple[_Check, str]:
    assert field.enum_type is not None  # noqa: S101 - the type of the field says so
    names = field.enum_type.values_by_name
    listed = ", ".join(name for name in names if not name.endswith("_UNSPECIFIED"))

    def fits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number or (isinstance(value, str) and (value in names or value.lstrip("-").isdecimal()))

    return fits, f"must be one of {listed}"


def _scalar(field: FieldDescriptor) -> tuple[_Check, str]:
    """Return what tells whether a field can take a value, and the form that it expects."""
    if field.enum_type is not None:
        return _enum(field)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _is_base64, "must be a string in base64"
    return _SCALARS[field.cpp_type]


_SCALARS: Mapping[int, tuple[_Check, str]] = {
    FieldDescriptor.CPPTYPE_STRING: (lambda value: isinstance(value, str), "must be a JSON string"),
    FieldDescriptor.CPPTYPE_BOOL: (lambda value: isinstance(value, bool), "must be true or false"),
    FieldDescriptor.CPPTYPE_INT32: _whole(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _whole(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: _whole(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: _whole(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: (_is_number, "must be a finite number"),
    FieldDescriptor.CPPTYPE_DOUBLE: (_is_number, "must be a finite number"),
}


def _parsed(kind: type[Duration | Timestamp | FieldMask]) -> _Check:
    """Return what tells whether a well-known message can be read from a JSON string."""

    def fits(value: Any) -> bool:
        try:
            kind().FromJsonString(value)
        except (TypeError, ValueError, AttributeError):
            return False
        return True

    return fits


_WELL_KNOWN: Mapping[str, tuple[_Check, str]] = {
    "google.protobuf.Duration": (
        _parsed(Duration),
        'must be a duration in seconds, such as "3.5s"',
    ),
    "google.protobuf.Timestamp": (
        _parsed(Timestamp),
        'must be a time with its zone, such as "2026-03-01T09:30:00Z"',
    ),
    "google.protobuf.FieldMask": (
        _parsed(FieldMask),
        'must be a string of field names, such as "content,eventTime"',
    ),
    "google.protobuf.Struct": (lambda value: isinstance(value, Mapping), _JSON_OBJECT),
}


# What connectrpc asks for.


class PassedOn(Codec[bytes, bytes]):
    """Codec that leaves decoding and encoding to the chain: requests are decoded when their key is known."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        """Return the name of the form in content types."""
        return self._name

    def encode(self, message: bytes) -> bytes:
        """Return what the chain has encoded."""
        return message

    def decode(self, data: bytes | bytearray, message_class: type[bytes]) -> bytes:
        """Return the bytes for the chain."""
        return message_class(data)


class BoundedGzip(GzipCompression):
    """Compression that takes little time, as it is done in the event loop."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self._stored = GzipCompression(level=0)

    def compress(self, data: bytes | bytearray | memoryview) -> bytes:
        """Pack a response."""
        return super().compress(data) if len(data) <= MAX_PACKED_BYTES else self._stored.compress(data)

    def decompress(self, data: bytes | bytearray | memoryview, read_max_bytes: int | None = None) -> bytes:
        """Unpack a request."""
        return super().decompress(data, min(read_max_bytes or MAX_UNPACKED_BYTES, MAX_UNPACKED_BYTES))


class _Detail(ErrorDetail):
    """Detail of an error that is also shown in JSON, as "debug", for people."""

    _shown: Struct | None = None

    def __init__(self, packed: AnyMessage) -> None:
        super().__init__(WireAny(type_url=packed.type_url, value=packed.value))
        self._shown = _shown(packed)

    def value(self, *_: Any) -> Any:
        """Return the content of the detail for JSON."""
        return self._shown


def _shown(packed: AnyMessage) -> Struct | None:
    try:
        content = json_format.MessageToDict(packed)
    except (TypeError, json_format.Error):
        return None
    content.pop("@type", None)
    return Struct.from_json(json.dumps(content))


def connect_error(code: grpc.StatusCode, message: str, status: bytes) -> ConnectError:
    """Return an error with the details of a `google.rpc.Status` in its bytes."""
    name = "canceled" if code is grpc.StatusCode.CANCELLED else code.name.lower()
    return ConnectError(Code(name), message, [_Detail(each) for each in Status.FromString(status).details])
