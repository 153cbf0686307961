"""A server that speaks Qdrant's own gRPC, as much of it as the adapter uses, over the client's local mode.

It stands in for a Qdrant server where none can be had, so that what the adapter sends and reads goes through its real
transport. What it answers is the local mode's: see `tests.support.qdrant_targets` for what that does not do. It keeps
and describes the parameters of collections and of payload indexes, counts calls, and fails, hangs or is late as told.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from qdrant_client import QdrantClient
from qdrant_client import grpc as wire
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc import collections_service_pb2_grpc as collections_service
from qdrant_client.grpc import points_service_pb2_grpc as points_service

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]


_KINDS = {
    "keyword_index_params": wire.PayloadSchemaType.Keyword,
    "integer_index_params": wire.PayloadSchemaType.Integer,
    "float_index_params": wire.PayloadSchemaType.Float,
}


class Keeper:
    """What the stand-in keeps: it survives the stand-in's end, as a server's disk survives the server."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.lock = threading.RLock()
        self.layouts: dict[str, Any] = {}
        self.fields: dict[str, dict[str, Any]] = defaultdict(dict)
        self.statuses: deque[int] = deque()
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}
        self.shards: list[Any] = []
        self.shard_keys: dict[str, list[str]] = defaultdict(list)
        self.selected: list[tuple[str, list[str]]] = []
        self.status: Any = wire.CollectionStatus.Green
        self.optimizer_error = ""

    def select(self, context: grpc.ServicerContext, collection: str, kind: str, selector: Any) -> None:
        """Note the shards that a call names; as a server does, refuse a change that names none, and unknown ones."""
        keys = [key.keyword for key in selector.shard_keys]
        layout = self.layouts.get(collection)
        if layout is None or layout.sharding_method != wire.ShardingMethod.Custom:
            return
        self.selected.append((kind, keys))
        if kind != "query" and not keys:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Shard key not specified")
        if not set(keys) <= set(self.shard_keys[collection]):
            context.abort(grpc.StatusCode.NOT_FOUND, "Shard key not found")

    def ask(self, context: grpc.ServicerContext, method: str, **arguments: Any) -> Any:
        """Call the local mode, one thread at a time, with the errors that a server has."""
        try:
            with self.lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(self.client, method)(**arguments)
        except ValueError as error:
            missing = "not found" in str(error)
            context.abort(grpc.StatusCode.NOT_FOUND if missing else grpc.StatusCode.INVALID_ARGUMENT, str(error))


@dataclass
class Fault:
    """Fault of a call: an error instead of the answer, before or after the work is done, or none until released."""

    code: grpc.StatusCode | None = None
    words: str = ""
    is_done: bool = False
    release: threading.Event | None = None


class Faults(grpc.ServerInterceptor):  # type: ignore[misc]  # Untyped.
    """Counts calls by method, and makes those fail that the keeper says."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def intercept_service(self, continuation: Callable[..., Any], handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        name = handler_call_details.method.rpartition("/")[2]
        if handler is None:
            return None

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            with self._keeper.lock:
                self._keeper.calls[name] += 1
            fault = self._keeper.faults.get(name)
            if fault is None:
                return handler.unary_unary(request, context)
            if fault.release is not None:
                fault.release.wait(600)
            reply = handler.unary_unary(request, context) if fault.is_done or fault.code is None else None
            if fault.code is not None:
                context.abort(fault.code, fault.words)
            return reply

        return grpc.unary_unary_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)


class Collections(collections_service.CollectionsServicer):
    """Qdrant's Collections service, in part."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        layout: dict[str, Any] = {"vectors_config": {}}
        if request.HasField("vectors_config") and request.vectors_config.WhichOneof("config"):
            layout["vectors_config"] = GrpcToRest.convert_vectors_config(request.vectors_config)
        if request.HasField("sparse_vectors_config"):
            layout["sparse_vectors_config"] = GrpcToRest.convert_sparse_vector_config(request.sparse_vectors_config)
        if request.metadata:
            layout["metadata"] = GrpcToRest.convert_payload(request.metadata)
        self._keeper.ask(context, "create_collection", collection_name=request.collection_name, **layout)
        self._keeper.layouts[request.collection_name] = request
        return _done(result=True)

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        metadata = GrpcToRest.convert_payload(request.metadata)
        name = request.collection_name
        layout = self._keeper.layouts[name]
        if request.HasField("hnsw_config"):
            layout.hnsw_config.MergeFrom(request.hnsw_config)
        if request.HasField("optimizers_config"):
            layout.optimizers_config.MergeFrom(request.optimizers_config)
        if request.HasField("quantization_config"):
            layout.ClearField("quantization_config")
            chosen = request.quantization_config.WhichOneof("quantization")
            if chosen != "disabled":
                getattr(layout.quantization_config, chosen).CopyFrom(getattr(request.quantization_config, chosen))
        return _done(self._keeper.ask(context, "update_collection", collection_name=name, metadata=metadata))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._keeper.fields.pop(request.collection_name, None)
        self._keeper.layouts.pop(request.collection_name, None)
        return _done(self._keeper.ask(context, "delete_collection", collection_name=request.collection_name))

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = self._keeper.ask(context, "get_collection", collection_name=request.collection_name)
        layout = self._keeper.layouts[request.collection_name]
        config = wire.CollectionConfig(
            params=wire.CollectionParams(
                shard_number=layout.shard_number or 1,
                replication_factor=layout.replication_factor or 1,
                write_consistency_factor=layout.write_consistency_factor or 1,
                vectors_config=layout.vectors_config,
                sparse_vectors_config=layout.sparse_vectors_config,
            ),
            hnsw_config=wire.HnswConfigDiff(m=16, ef_construct=100, full_scan_threshold=10_000),
            optimizer_config=wire.OptimizersConfigDiff(deleted_threshold=0.2, default_segment_number=0),
            wal_config=wire.WalConfigDiff(wal_capacity_mb=32, wal_segments_ahead=0),
            metadata=RestToGrpc.convert_payload(found.config.metadata or {}),
        )
        config.hnsw_config.MergeFrom(layout.hnsw_config)
        config.optimizer_config.MergeFrom(layout.optimizers_config)
        config.wal_config.MergeFrom(layout.wal_config)
        if layout.HasField("quantization_config"):
            config.quantization_config.CopyFrom(layout.quantization_config)
        info = wire.CollectionInfo(
            status=self._keeper.status,
            optimizer_status=wire.OptimizerStatus(
                ok=not self._keeper.optimizer_error, error=self._keeper.optimizer_error
            ),
            segments_count=1,
            points_count=found.points_count,
            config=config,
            payload_schema=self._keeper.fields[request.collection_name],
        )
        return wire.GetCollectionInfoResponse(result=info, time=0.0)

    def CreateShardKey(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._keeper.shard_keys[request.collection_name].append(request.request.shard_key.keyword)
        return wire.CreateShardKeyResponse(result=True)

    def CollectionClusterInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._keeper.ask(context, "get_collection", collection_name=request.collection_name)
        local = wire.LocalShardInfo(shard_id=0, points_count=0, state=wire.ReplicaState.Active)
        return wire.CollectionClusterInfoResponse(
            peer_id=1, shard_count=1, local_shards=[local], remote_shards=self._keeper.shards
        )

    def List(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = self._keeper.ask(context, "get_collections").collections
        return wire.ListCollectionsResponse(collections=[wire.CollectionDescription(name=one.name) for one in found])

    def UpdateAliases(self, request: Any, context: grpc.ServicerContext) -> Any:
        steps = [GrpcToRest.convert_alias_operations(action) for action in request.actions]
        return _done(self._keeper.ask(context, "update_collection_aliases", change_aliases_operations=steps))

    def ListAliases(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = self._keeper.ask(context, "get_aliases").aliases
        return wire.ListAliasesResponse(aliases=[RestToGrpc.convert_alias_description(one) for one in found])


class Points(points_service.PointsServicer):
    """Qdrant's Points service, in part."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def CreateFieldIndex(self, request: Any, context: grpc.ServicerContext) -> Any:
        # The local mode has no payload indexes; what was asked for is kept and described.
        self._keeper.ask(context, "get_collection", collection_name=request.collection_name)
        params = request.field_index_params
        kind = _KINDS.get(params.WhichOneof("index_params") or "", wire.PayloadSchemaType.Keyword)
        info = wire.PayloadSchemaInfo(data_type=kind, params=params, points=0)
        self._keeper.fields[request.collection_name][request.field_name] = info
        result = wire.UpdateResult(operation_id=0, status=wire.UpdateStatus.Completed)
        return wire.PointsOperationResponse(result=result, time=0.0)

    def DeleteFieldIndex(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._keeper.ask(context, "get_collection", collection_name=request.collection_name)
        self._keeper.fields[request.collection_name].pop(request.field_name, None)
        result = wire.UpdateResult(operation_id=0, status=wire.UpdateStatus.Completed)
        return wire.PointsOperationResponse(result=result, time=0.0)

    def UpdateBatch(self, request: Any, context: grpc.ServicerContext) -> Any:
        for one in request.operations:
            kind = one.WhichOneof("operation")
            selected = getattr(one, kind)
            self._keeper.select(context, request.collection_name, kind, selected.shard_key_selector)
            # The client converts none from the wire, and the local mode has no shards.
            selected.ClearField("shard_key_selector")
        steps = [GrpcToRest.convert_points_update_operation(one) for one in request.operations]
        self._keeper.ask(
            context, "batch_update_points", collection_name=request.collection_name, update_operations=steps
        )
        status = self._keeper.statuses.popleft() if self._keeper.statuses else wire.UpdateStatus.Completed
        result = wire.UpdateResult(operation_id=0, status=status)
        return wire.UpdateBatchResponse(result=[result] * len(steps), time=0.0)

    def Query(self, request: Any, context: grpc.ServicerContext) -> Any:
        return wire.QueryResponse(result=self._found(request, context), time=0.0)

    def QueryBatch(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = [wire.BatchResult(result=self._found(one, context)) for one in request.query_points]
        return wire.QueryBatchResponse(result=found, time=0.0)

    def Scroll(self, request: Any, context: grpc.ServicerContext) -> Any:
        arguments: dict[str, Any] = {
            "collection_name": request.collection_name,
            "limit": request.limit,
            "with_payload": GrpcToRest.convert_with_payload_interface(request.with_payload),
            "with_vectors": False,
        }
        if request.HasField("filter"):
            arguments["scroll_filter"] = GrpcToRest.convert_filter(request.filter)
        if request.HasField("offset"):
            arguments["offset"] = GrpcToRest.convert_point_id(request.offset)
        points, following = self._keeper.ask(context, "scroll", **arguments)
        reply = wire.ScrollResponse(result=[RestToGrpc.convert_retrieved_point(point) for point in points], time=0.0)
        if following is not None:
            reply.next_page_offset.CopyFrom(RestToGrpc.convert_extended_point_id(following))
        return reply

    def Count(self, request: Any, context: grpc.ServicerContext) -> Any:
        where = GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None
        found = self._keeper.ask(
            context, "count", collection_name=request.collection_name, count_filter=where, exact=True
        )
        return wire.CountResponse(result=wire.CountResult(count=found.count), time=0.0)

    def _found(self, request: Any, context: grpc.ServicerContext) -> list[Any]:
        self._keeper.select(context, request.collection_name, "query", request.shard_key_selector)
        arguments: dict[str, Any] = {
            "collection_name": request.collection_name,
            "query": GrpcToRest.convert_query(request.query),
            "limit": request.limit,
            "with_payload": GrpcToRest.convert_with_payload_interface(request.with_payload),
        }
        if request.HasField("filter"):
            arguments["query_filter"] = GrpcToRest.convert_filter(request.filter)
        if request.HasField("using"):
            arguments["using"] = request.using
        if request.HasField("params"):
            arguments["search_params"] = GrpcToRest.convert_search_params(request.params)
        points = self._keeper.ask(context, "query_points", **arguments).points
        return [RestToGrpc.convert_scored_point(point) for point in points]


def _done(result: object) -> Any:
    return wire.CollectionOperationResponse(result=bool(result), time=0.0)


@contextmanager
def served(keeper: Keeper, *, port: int = 0) -> Iterator[int]:
    """Serve what the keeper keeps, and give the port; leaving breaks off every call."""
    server = grpc.server(ThreadPoolExecutor(16), options=UNLIMITED, interceptors=[Faults(keeper)])
    collections_service.add_CollectionsServicer_to_server(  # type: ignore[no-untyped-call]  # Generated.
        Collections(keeper), server
    )
    points_service.add_PointsServicer_to_server(Points(keeper), server)  # type: ignore[no-untyped-call]  # Generated.
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield bound
    finally:
        server.stop(None).wait()


@contextmanager
def stand_in() -> Iterator[str]:
    """Serve what is empty at first, and give the address."""
    with served(Keeper()) as port:
        yield f"http://127.0.0.1:{port}"


def main() -> None:
    """Serve until killed, on the port given: for a try by hand."""
    report: Callable[[str], object] = sys.stdout.write
    with served(Keeper(), port=int(sys.argv[1]) if sys.argv[1:] else 6334) as port:
        report(f"Qdrant's stand-in listens on http://127.0.0.1:{port}\n")
        threading.Event().wait()


if __name__ == "__main__":
    main()
