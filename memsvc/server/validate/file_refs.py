"""Rules for requests about references to files, and for searches over files."""

from __future__ import annotations

from collections.abc import Iterable

from memsvc.domain import limits
from memsvc.domain.files import FILE_CATEGORIES
from memsvc.server.validate.scopes import check_scope
from memsvc.server.validate.searches import note_search
from memsvc.server.validate.values import check_count, check_enums, check_name
from memsvc.server.validate.violations import Violations
from memsvc.v1 import file_service_pb2 as files
from memsvc.v1 import search_service_pb2 as search
from memsvc.v1 import types_pb2 as types

SEARCH_SCOPES = frozenset(search.SearchAllScope.values()) - {search.SEARCH_ALL_SCOPE_UNSPECIFIED}


def check_resolve(request: files.ResolveFileRefsRequest) -> None:
    """Check references that are to be resolved."""
    found = Violations()
    check_scope(found, request.scope)
    check_count(found, "refs", request.refs, least=1, most=limits.RESOLVED_REFS)
    check_refs(found, "refs", request.refs[: limits.RESOLVED_REFS])
    found.finish()


def check_refs(found: Violations, field: str, refs: Iterable[types.FileRef]) -> None:
    """Check references: category and id of each."""
    for index, ref in enumerate(refs):
        if ref.category not in FILE_CATEGORIES:
            found.add(f"{field}[{index}].category", f"must be one of {', '.join(sorted(FILE_CATEGORIES))}")
        check_name(found, f"{field}[{index}].id", ref.id, most=limits.FILE_REF_ID, least=1)


def check_search_all(request: search.SearchAllRequest, same: search.SearchRequest, *, dimension: int) -> None:
    """Check a search over all; *same* is what it has in common with a search for memories."""
    found = Violations()
    if not same.query.strip():
        found.add("query", "must be set")
        # Another rule would add that a vector does, too.
        given, same = same, search.SearchRequest()
        same.CopyFrom(given)
        same.query = "?"
    check_enums(found, "scopes", request.scopes, SEARCH_SCOPES, count=len(SEARCH_SCOPES))
    note_search(found, same, dimension=dimension)
    found.finish()
