"""Selections of the API's filters, for tests of stores, indexes and rules."""

from __future__ import annotations

from datetime import datetime

from memsvc.domain.history import AsOf
from memsvc.domain.search import Selection
from memsvc.server.requests.decoder import RequestDecoder
from memsvc.server.requests.filters import decode_selection
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import types_pb2 as types_pb


def selection_of(
    chosen: filters_pb.Filter, *, now: datetime, time_range: types_pb.TimeRange | None = None, as_of: AsOf | None = None
) -> Selection:
    """Return the selection of a filter that breaks no rule."""
    decoder = RequestDecoder()
    selection = decode_selection(decoder, chosen, now=now, as_of=as_of, time_range=time_range)
    decoder.finish()
    return selection
