"""What the methods that find files do to strangers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.isolation.files import files_hidden_from
from tests.e2e.isolation.fixtures import EVERY, WORD, Stranger
from tests.e2e.isolation.registry import OK, case


@case
def SearchAll(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no group, by no word and no filter."""
    words = " ".join((WORD, *(f"secret{name}" for name in stranger.hidden)))
    for chosen in (filters_pb.Filter(), EVERY, filters_pb.Filter(ids=stranger.ids)):
        for scopes in ([], [3], [4, 5]):
            fields: dict[str, Any] = {"filter": chosen, "groups": scopes, "limit": 100, "include_files": True}
            yield [search_pb.SearchAllRequest(scope=stranger.scope, query=words, **fields)], OK


@case
def ResolveFileRefs(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Each says that there is no such file, whatever category is tried."""
    refs = [
        types_pb.FileRef(category=category, id=file.id)
        for file in files_hidden_from(stranger)
        for category in types_pb.FileCategory.values()[1:]
    ] or [types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id="x")]
    yield [file_pb.ResolveFileRefsRequest(scope=stranger.scope, refs=refs)], OK
