"""Vectors that callers give."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from memsvc.v1 import conflicts_pb2 as conflicts_pb
from memsvc.v1 import context_pb2 as context_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb

Numbers: TypeAlias = Sequence[float] | npt.NDArray[np.float32]
"""A vector as it was given: any length, any numbers."""
WithVector: TypeAlias = (
    memory_pb.CreateMemoryRequest
    | memory_pb.BatchMemory
    | memory_pb.UpdateMemoryRequest
    | search_pb.SearchRequest
    | context_pb.BuildContextRequest
    | context_pb.RenderContextRequest
    | conflicts_pb.SupersedeMemoryRequest
)

_FIELD = "vector"
_FLOAT = np.dtype("<f4")


def numbers_from_proto(message: WithVector) -> npt.NDArray[np.float32]:
    """Return the numbers of the field `vector` of a message, as many as there are.

    The message is encoded once more and the field read as the bytes that it is on the wire: a tenth of the time that
    it takes to have every number as an object of Python.
    """
    if not message.vector:
        return np.empty(0, _FLOAT)
    wire = _as_bytes(message.DESCRIPTOR.fields_by_name[_FIELD].number)
    return np.frombuffer(wire.FromString(message.SerializeToString()).vector, _FLOAT)


def vector_from_proto(numbers: Numbers) -> array[float] | None:
    """Return a given vector as float32 at unit length, or None when none was given.

    Only the direction of a given vector counts; at unit length no later sum of squares can overflow or vanish.
    """
    if len(numbers) == 0:
        return None
    exact = np.asarray(numbers, np.float64)
    return array("f", (exact / np.sqrt(exact @ exact)).astype(np.float32).tobytes())


@cache
def _as_bytes(number: int) -> Any:
    """Return the class of a message with this field alone, as bytes: packed numbers are the same on the wire."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="vector.proto", syntax="proto3")
    file.message_type.add(name="Wire").field.add(
        name=_FIELD, number=number, type=kind.TYPE_BYTES, label=kind.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Wire"))
