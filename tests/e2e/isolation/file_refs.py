"""What the methods that find files do to strangers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc

from memsvc.v1 import file_service_pb2 as files_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types
from tests.e2e.filing import upload
from tests.e2e.isolation.cases import OK, case
from tests.e2e.isolation.places import EVERY, WORD, Owner, Stranger

CATEGORIES = {
    "report": files_pb.FILE_CATEGORY_REPORT, "chart": files_pb.FILE_CATEGORY_CHART, "upload": files_pb.FILE_CATEGORY_UPLOAD,
}  # fmt: skip


def files_of(owner: Owner) -> dict[str, files_pb.File]:
    """Return the owner's files by reference, uploaded when they are asked for first."""
    return {
        f"{category}:{file.id}": file
        for name, project in {"secretworld": "", "secretproject": "p"}.items()
        for category, number in CATEGORIES.items()
        for file in [
            upload(
                owner.stubs,
                types.Scope(user_id=owner.user, project_id=project),
                name.encode(),
                name=f"{WORD} {name} {category}",
                category=number,
                request_id=f"{name} {category}",
            )
        ]
    }


@case
def SearchAll(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """In no group, by no word and no filter."""
    files_of(stranger.owner)
    words = " ".join((WORD, *(f"secret{name}" for name in stranger.hidden)))
    for chosen in (types.Filter(), EVERY, types.Filter(ids=stranger.ids)):
        for scopes in ([], [3], [4, 5]):
            yield (
                [
                    search_pb.SearchAllRequest(
                        scope=stranger.scope, query=words, filter=chosen, scopes=scopes, limit=100, include_files=True
                    )  # type: ignore[arg-type]  # numbers of an enum
                ],
                OK,
            )


@case
def ResolveFileRefs(stranger: Stranger) -> Iterator[tuple[Sequence[Any], grpc.StatusCode]]:
    """Each says that there is no such file."""
    refs = [types.FileRef(category=one.partition(":")[0], id=one.partition(":")[2]) for one in files_of(stranger.owner)]
    yield [files_pb.ResolveFileRefsRequest(scope=stranger.scope, refs=refs)], OK
