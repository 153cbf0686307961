"""What is wrong with requests about references to files, and how it is named."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.duration_pb2 import Duration

from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.wrong_input.memories import FILTERS
from tests.e2e.wrong_input.requests import Wrong

Ref = types_pb.FileRef


def file_refs() -> Iterator[Wrong]:
    """Return the wrong requests."""
    yield Wrong("ResolveFileRefs", {"refs": []}, ("refs",))
    yield Wrong("ResolveFileRefs", {"refs": [Ref(category=types_pb.FILE_CATEGORY_CHART, id="x")] * 257}, ("refs",))
    for category in (0, 9, -1):
        yield Wrong("ResolveFileRefs", {"refs": [Ref(category=category, id="x")]}, ("refs[0].category",))
    for name in ("", "x" * 257, "a\nb", "\x00"):
        good = Ref(category=types_pb.FILE_CATEGORY_CHART, id="x")
        yield Wrong(
            "ResolveFileRefs", {"refs": [good, Ref(category=types_pb.FILE_CATEGORY_CHART, id=name)]}, ("refs[1].id",)
        )
    for query in ("", " \n", "　"):
        yield Wrong("SearchAll", {"query": query}, ("query",))
    yield Wrong("SearchAll", {"query": "", "limit": 101, "groups": [0]}, ("limit", "query", "groups[0]"))
    yield Wrong("SearchAll", {"query": "x" * 8_193}, ("query",))
    yield Wrong("SearchAll", {"groups": [1, 6, 0]}, ("groups[1]", "groups[2]"))
    yield Wrong("SearchAll", {"groups": [1] * 6}, ("groups",))
    yield Wrong("SearchAll", {"limit": -1, "snippet_chars": 39}, ("limit", "snippet_chars"))
    yield Wrong("SearchAll", {"consistency_token": "x"}, ("consistency_token",))
    for chosen, paths in FILTERS:
        yield Wrong("SearchAll", {"filter": chosen}, paths)
    for seconds in (-1, 3_650 * 86_400 + 1):
        yield Wrong("CheckIntegrity", {"orphan_grace": Duration(seconds=seconds)}, ("orphan_grace",))
    both = {"remove_broken_refs": True, "remove_orphan_files": True, "ignore_files": True}
    yield Wrong("CheckIntegrity", both, ("remove_broken_refs", "remove_orphan_files"))
