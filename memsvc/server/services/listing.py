"""Calls over many memories: they run in a thread as a whole, since converting a thousand takes milliseconds."""

from __future__ import annotations

from datetime import datetime

from memsvc.domain import limits
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import BatchWritten, WriteOptions
from memsvc.engine.services import Services
from memsvc.server.convert import tokens
from memsvc.server.convert.drafts import ids_from_proto
from memsvc.server.convert.history import as_of_from_proto
from memsvc.server.convert.memory import memory_to_proto
from memsvc.server.convert.orders import order_from_proto
from memsvc.server.convert.selections import selection_from_proto
from memsvc.server.convert.writes import batch_to_proto
from memsvc.server.validate.writes import draft_or_rejected
from memsvc.v1 import memory_service_pb2 as pb

UNBOUND = ("page_size", "page_token")
"""The fields that may differ between the pages of one list."""


def batch_written(
    application: Services, scope: Scope, request: pb.BatchCreateMemoriesRequest, options: WriteOptions
) -> tuple[BatchWritten, pb.BatchCreateMemoriesResponse]:
    """Store a batch; a bad memory fails alone."""
    dimension = application.dimension
    drafts = [draft_or_rejected(entry, request.scope, dimension=dimension) for entry in request.memories]
    batch = application.remember.create_batch(scope, drafts, options)
    return batch, batch_to_proto(batch)


def batch_get_memories(
    application: Services, scope: Scope, request: pb.BatchGetMemoriesRequest
) -> pb.BatchGetMemoriesResponse:
    """Return the memories that are there, and the ids of the others, both in the order asked for."""
    ids = ids_from_proto(request.ids)
    found = application.recollect.get_many(scope, ids)
    return pb.BatchGetMemoriesResponse(
        memories=[memory_to_proto(found[memory_id]) for memory_id in ids if memory_id in found],
        missing_ids=[memory_id for memory_id in ids if memory_id not in found],
    )


def list_memories(
    application: Services, scope: Scope, request: pb.ListMemoriesRequest, now: datetime
) -> pb.ListMemoriesResponse:
    """Return one page of a list, and the token of the next where there is one.

    Raises:
        InvalidRequestError: The page token is not of this list.
    """
    digest = tokens.digest(request, without=UNBOUND)
    after = tokens.list_cursor(request.page_token, digest)
    as_of = as_of_from_proto(request.as_of, now)
    selection = selection_from_proto(request.filter, now=now, as_of=as_of)
    order, limit = order_from_proto(request.order_by), request.page_size or limits.PAGE_SIZE_DEFAULT
    if as_of is not None and as_of.known_time is not None:
        memories, following = application.retrospect.page(
            scope, selection, moment=as_of.known_time, order=order, after=after, limit=limit
        )
    else:
        memories, following = application.recollect.page(scope, selection, order=order, after=after, limit=limit)
    return pb.ListMemoriesResponse(
        memories=[memory_to_proto(memory) for memory in memories],
        next_page_token="" if following is None else tokens.list_token(following, digest),
    )
