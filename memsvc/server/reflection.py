"""Server reflection, under its old name and its new one."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha.reflection import aio

V1 = "grpc.reflection.v1.ServerReflection"


def add_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Let clients ask for the description of *services*.

    grpcio-reflection knows v1alpha alone, while newer tools ask for v1; the messages of both are the same.
    """
    names = (*services, reflection.SERVICE_NAME, V1)
    reflection.enable_server_reflection(names, server)
    handler = grpc.stream_stream_rpc_method_handler(
        aio.ReflectionServicer(names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    generic = grpc.method_handlers_generic_handler(V1, {"ServerReflectionInfo": handler})
    server.add_generic_rpc_handlers((generic,))
