"""Messages of google.rpc and grpc.health.v1 that clients use, so that clients need only grpcio and protobuf.

They are in a descriptor pool of their own: the packages that hold the originals register the same names in the default
one, where a second definition is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

HEALTH_CHECK = "/grpc.health.v1.Health/Check"
SERVING_STATES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
"""The values of grpc.health.v1.HealthCheckResponse.ServingStatus, in the order of their numbers."""
SERVING = SERVING_STATES.index("SERVING")

_PACKAGE = "memsvc.rpc_messages"
_STRING, _BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
_INT32, _INT64 = FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64


def _message(name: str, *fields: tuple[str, int, int | str], repeated: Iterable[str] = ()) -> DescriptorProto:
    """Describe a message by the names, numbers and types of its fields; the type of a message is its name."""
    message = DescriptorProto(name=name)
    for field, number, kind in fields:
        one = message.field.add(name=field, number=number)
        one.label = FieldDescriptorProto.LABEL_REPEATED if field in repeated else FieldDescriptorProto.LABEL_OPTIONAL
        if isinstance(kind, str):
            one.type, one.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
        else:
            one.type = FieldDescriptorProto.Type.ValueType(kind)
    return message


def _error_info() -> DescriptorProto:
    info = _message(
        "ErrorInfo", ("reason", 1, _STRING), ("domain", 2, _STRING), ("metadata", 3, "ErrorInfo.MetadataEntry"),
        repeated=("metadata",),
    )  # fmt: skip
    entry = info.nested_type.add()
    entry.CopyFrom(_message("MetadataEntry", ("key", 1, _STRING), ("value", 2, _STRING)))
    entry.options.map_entry = True
    return info


_POOL = DescriptorPool()
_POOL.AddSerializedFile(
    FileDescriptorProto(
        name="memsvc/rpc_messages.proto",
        package=_PACKAGE,
        syntax="proto3",
        message_type=[
            _message("Any", ("type_url", 1, _STRING), ("value", 2, _BYTES)),
            _message("Duration", ("seconds", 1, _INT64), ("nanos", 2, _INT32)),
            _message(
                "Status", ("code", 1, _INT32), ("message", 2, _STRING), ("details", 3, "Any"), repeated=["details"]
            ),
            _error_info(),
            _message("BadRequest", ("field_violations", 1, "FieldViolation"), repeated=["field_violations"]),
            _message("FieldViolation", ("field", 1, _STRING), ("description", 2, _STRING)),
            _message("RetryInfo", ("retry_delay", 1, "Duration")),
            _message("HealthCheckRequest", ("service", 1, _STRING)),
            _message("HealthCheckResponse", ("status", 1, _INT32)),
        ],
    ).SerializeToString()
)


def _class(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Status = _class("Status")
ErrorInfo = _class("ErrorInfo")
BadRequest = _class("BadRequest")
RetryInfo = _class("RetryInfo")
HealthCheckRequest = _class("HealthCheckRequest")
HealthCheckResponse = _class("HealthCheckResponse")
