"""The same API without the client: the generated stubs alone, as any gRPC channel takes them.

Whoever does not want to install memsvc generates them from proto/ with grpcio-tools; the names stay the same.
"""

from __future__ import annotations

import os
import sys
from uuid import uuid4

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc.v1.memory_service_pb2_grpc import MemoryServiceStub
from memsvc.v1.search_service_pb2_grpc import SearchServiceStub

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MEMSVC_ADDRESS", "127.0.0.1:50051")
SECONDS = 10.0


def main() -> None:
    """Write, find and be refused."""
    scope = types_pb.Scope(user_id="ann", project_id=f"trip-{uuid4()}")
    with grpc.insecure_channel(ADDRESS) as channel:
        memories, searches = MemoryServiceStub(channel), SearchServiceStub(channel)
        memory = types_pb.Memory(content="我对花生过敏，点菜前要先告诉餐厅。")
        request = memory_pb.CreateMemoryRequest(scope=scope, memory=memory, request_id=str(uuid4()))
        memories.CreateMemory(request, timeout=SECONDS)
        query = search_pb.SearchRequest(scope=scope, query="餐厅要注意什么？")
        for hit in searches.Search(query, timeout=SECONDS).hits:
            print(f"{hit.score:.2f} {hit.memory.content}")
        try:
            searches.Search(search_pb.SearchRequest(scope=scope), timeout=SECONDS)
        except grpc.RpcError as error:
            for violation in violations(error):
                print(f"{violation.field}: {violation.description}")


def violations(error: grpc.RpcError) -> list[error_details_pb2.BadRequest.FieldViolation]:
    """Return all rules that a request broke, each with its field."""
    status = rpc_status.from_call(error)
    broken = error_details_pb2.BadRequest()
    for detail in status.details if status else ():
        detail.Unpack(broken)  # leaves it alone when the detail is another one
    return list(broken.field_violations)


if __name__ == "__main__":
    main()
