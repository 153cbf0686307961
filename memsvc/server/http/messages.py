"""Forms of messages over HTTP, binary and JSON, and errors with details in JSON."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import grpc
from connectrpc.code import Code
from connectrpc.codec import Codec
from connectrpc.compression.gzip import GzipCompression
from connectrpc.errors import ConnectError, ErrorDetail
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FileDescriptorSet as FileSet
from google.protobuf.message import Message
from google.rpc import error_details_pb2  # noqa: F401 - its messages are details of errors, found by their names
from google.rpc.status_pb2 import Status
from protobuf import Registry
from protobuf.wkt import Any as WireAny
from protobuf.wkt import FileDescriptorSet, Struct

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.json_faults import MOST_NESTED, TOO_DEEP, is_spelt_twice, json_fault, syntax_fault
from memsvc.server.interceptors.encoded_requests import parse
from memsvc.v1 import errors_pb2  # noqa: F401 - likewise

JSON, PROTO = "json", "proto"
MAX_UNPACKED_BYTES = 4 * 1024 * 1024
"""The size of a compressed request when it is unpacked, which is done in the event loop."""
MAX_PACKED_BYTES = 64 * 1024
"""The size of a response above which it is sent uncompressed in the form of gzip: packing is done in the event loop."""
_BYTE_WEIGHT, _ELEMENT_WEIGHT = 8, 400
"""The bytes in binary form that take as long to decode as a byte of JSON, and as a value in JSON: 3 µs."""
IS_COMPILED = find_spec("protobuf_ext") is not None
"""Whether connectrpc's messages are compiled: there is no wheel for some platforms."""
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UNKNOWN = re.compile(r'has no field named "(?P<name>[^"]*)"(?: at "(?P<path>[^"]*)")?')
_KNOWN = re.compile(r"Available Fields\(except extensions\): \"\[(?P<names>[^\]]*)\]")
_FIELD = re.compile(r"Failed to parse (?P<name>\S+) field: (?P<reason>.*)", re.DOTALL)


class BinaryForm:
    """Messages of one method in the binary form of Protocol Buffers."""

    def __init__(self, request: type[Message]) -> None:
        self._request = request

    def decode(self, data: bytes) -> Any:
        """Return a request; DecodeError if the bytes are none."""
        return parse(data, self._request.FromString)

    def weight(self, data: bytes) -> int:
        """Return the size of a request."""
        return len(data)

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
        if data.startswith(_BYTE_ORDER_MARKS):
            raise _invalid("request", "must be JSON in UTF-8 without a byte order mark")
        if not data.lstrip().startswith(b"{"):
            raise _invalid("request", "must be a JSON object, such as {}")
        request = self._request()
        try:
            self._parse(data, request)
        except json_format.ParseError as error:
            raise self._unparsed(data, str(error)) from None
        except UnicodeDecodeError:
            raise _invalid("request", "must be JSON in UTF-8") from None
        except RecursionError:
            raise InvalidRequestError([TOO_DEEP]) from None
        return request

    def _parse(self, data: bytes, request: Message) -> None:
        """Read a request as `json_format.Parse` does, which takes the last one of the two names of a field.

        Raises:
            ParseError: It cannot be read, or has a field under both of its names.
        """
        are_doubtful: list[bool] = []

        def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) < len(pairs):
                raise json_format.ParseError
            if is_spelt_twice(found):
                are_doubtful.append(True)
            return found

        text = data.decode()
        try:
            value = json.loads(text, object_pairs_hook=read)
            json_format.ParseDict(value, request, max_recursion_depth=MOST_NESTED)
        except (ValueError, SystemError) as error:
            # A SystemError: descriptors were asked for a name with half of a surrogate pair.
            raise json_format.ParseError(str(error)) from error
        described: Any = self._request.DESCRIPTOR
        # Maps and free JSON may have such names.
        if are_doubtful and json_fault(value, described):
            raise json_format.ParseError

    def weight(self, data: bytes) -> int:
        """Return the size of a request in binary form that takes as long to decode: most by its number of values.

        That is at most the number of its commas and brackets, those in texts included.
        """
        elements = data.count(b",") + data.count(b"[") + data.count(b"{")
        return max(_BYTE_WEIGHT * len(data), _ELEMENT_WEIGHT * elements)

    def _unparsed(self, data: bytes, message: str) -> InvalidRequestError:
        """Return the error of JSON that is no request; *message* is the parser's."""
        described: Any = self._request.DESCRIPTOR
        if broken := syntax_fault(data):
            return _invalid("request", f"must be JSON: {broken}")
        fault = json_fault(json.loads(data), described)
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
    return _invalid(".".join(names) or "request", reason.rstrip("."))


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
