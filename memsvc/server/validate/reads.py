"""Rules for the requests that read by id, by key or as a list, and for those about the whole."""

from __future__ import annotations

from memsvc.domain import limits
from memsvc.server.convert.enums import INDEX_KIND, REINDEX_MODE
from memsvc.server.convert.orders import DIRECTIONS, FIELDS, is_order
from memsvc.server.validate.filters import check_filter
from memsvc.server.validate.history import check_as_of
from memsvc.server.validate.scopes import check_scope
from memsvc.server.validate.values import (
    check_count,
    check_enum,
    check_enums,
    check_integer,
    check_name,
    check_revision,
    check_text,
    check_uuid,
    check_uuids,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as pb

INDEXES = 16
OPERATION = 128


def check_get(request: pb.GetMemoryRequest) -> None:
    """Check a request for one memory."""
    found = Violations()
    check_scope(found, request.scope)
    by = request.WhichOneof("by")
    if by == "id":
        check_uuid(found, "id", request.id)
    elif by == "key":
        check_name(found, "key", request.key, most=limits.KEY, least=1)
    else:
        found.add("id", "must be set, or key")
    check_revision(found, "revision", request.revision)
    if request.revision > 0 and by == "key":
        found.add("revision", "must be given with id only")
    if request.revision and request.HasField("as_of"):
        found.add("as_of", "must not be given together with revision")
    check_as_of(found, request.as_of)
    found.finish()


def check_batch_get(request: pb.BatchGetMemoriesRequest) -> None:
    """Check a request for several memories."""
    found = Violations()
    check_scope(found, request.scope)
    if not request.ids:
        check_count(found, "ids", request.ids, least=1, most=limits.BATCH)
    check_uuids(found, "ids", request.ids, count=limits.BATCH)
    found.finish()


def check_list(request: pb.ListMemoriesRequest) -> None:
    """Check a request for a page of memories, but for its token."""
    found = Violations()
    check_scope(found, request.scope)
    if request.HasField("filter"):
        check_filter(found, request.filter)
    if not is_order(request.order_by):
        fields, directions = ", ".join(sorted(FIELDS)), " or ".join(sorted(DIRECTIONS))
        found.add("order_by", f"must be one of {fields}, then {directions} or nothing")
    check_integer(found, "page_size", request.page_size, least=1, most=limits.PAGE_SIZE)
    check_as_of(found, request.as_of)
    found.finish()


def check_stats(request: lifecycle_pb.GetStatsRequest) -> None:
    """Check a request for counts."""
    found = Violations()
    if request.HasField("scope"):
        check_scope(found, request.scope)
    found.finish()


def check_reindex(request: lifecycle_pb.ReindexRequest) -> None:
    """Check a request to put indexes right."""
    found = Violations()
    check_enums(found, "indexes", request.indexes, INDEX_KIND.from_proto, count=INDEXES)
    check_enum(found, "mode", request.mode, REINDEX_MODE.from_proto)
    found.finish()


def check_performance(request: lifecycle_pb.GetPerformanceRequest) -> None:
    """Check a request for measurements."""
    found = Violations()
    check_text(found, "operation", request.operation, most=OPERATION)
    found.finish()
