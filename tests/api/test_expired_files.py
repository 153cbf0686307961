"""Errors about files that expired or are of another category, with the clock of the server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload, written_ref
from tests.support.rpc import TIMEOUT, Refusal, create, refused
from tests.support.server_process import Stubs
from tests.support.server_thread import served

EXPIRED = "expired at "
IS_UPLOAD = "is of category upload"
ABSENT = "does not exist"


class Clock:
    """The clock of the server, which can be moved on."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC) + self.ahead


@pytest.fixture(scope="module")
def clock() -> Clock:
    """The clock of this module's server."""
    return Clock()


@pytest.fixture(scope="module")
def stubs(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """A server with that clock."""
    with served(tmp_path_factory.mktemp("files") / "data", now=clock, call_now=clock) as stubs:
        yield stubs


def ref(file_id: str, category: int = types_pb.FILE_CATEGORY_UPLOAD) -> types_pb.FileRef:
    """Return a reference."""
    return types_pb.FileRef(category=types_pb.FileCategory.Name(category), id=file_id)


def details(stubs: Stubs, scope: types_pb.Scope) -> dict[str, str]:
    """Return what a check of the scope says of each reference."""
    events = stubs.admin.CheckIntegrity(admin_pb.CheckIntegrityRequest(scope=scope), timeout=TIMEOUT)
    found = [event.finding for event in events if event.HasField("finding")]
    return {written_ref(one.file_ref): one.detail for one in found if one.fault == admin_pb.INTEGRITY_FAULT_FILE_REF}


def test_a_reference_says_why_it_leads_to_no_file(stubs: Stubs, clock: Clock, scope: types_pb.Scope) -> None:
    """Expired, of another category, or not there; files of others and of other projects are as if not there."""
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="web")
    other = types_pb.Scope(user_id=f"{scope.user_id}-2")
    over, hidden = (upload(stubs, one, b"over", ttl=Duration(seconds=600)).id for one in (scope, elsewhere))
    mine, project, theirs = (upload(stubs, one, b"mine").id for one in (scope, elsewhere, other))
    chart = types_pb.FILE_CATEGORY_CHART
    refs = [ref(over), ref(mine, chart), ref(hidden), ref(project, chart), ref(theirs), ref(theirs, chart)]
    words = [EXPIRED, IS_UPLOAD, ABSENT, ABSENT, ABSENT, ABSENT]
    create(stubs, scope, "It refers to files.", file_refs=refs)
    clock.ahead += timedelta(minutes=11)

    told = details(stubs, scope)
    assert list(told) == [written_ref(one) for one in refs]
    assert [word in said for word, said in zip(words, told.values(), strict=True)] == [True] * len(refs)
    request = file_pb.ResolveFileRefsRequest(scope=scope, refs=refs)
    resolved = stubs.files.ResolveFileRefs(request, timeout=TIMEOUT).resolved
    words = [EXPIRED, IS_UPLOAD, *["is in this scope"] * 4]
    assert [word in one.status.message for word, one in zip(words, resolved, strict=True)] == [True] * len(refs)
    assert not any(one.HasField("file") for one in resolved)


def test_an_expired_file_is_reported_as_expired(stubs: Stubs, clock: Clock, scope: types_pb.Scope) -> None:
    """To its own user alone; every other call has the error of a file that never existed."""
    over = upload(stubs, scope, b"over", ttl=Duration(seconds=600)).id
    clock.ahead += timedelta(minutes=11)

    def refusals(scope: types_pb.Scope) -> list[Refusal]:
        getting = refused(stubs.files.GetFile, file_pb.GetFileRequest(scope=scope, id=over))
        deleting = refused(stubs.files.DeleteFile, file_pb.DeleteFileRequest(scope=scope, id=over))
        return [getting, deleting]

    for one in refusals(scope):
        assert (one.reason, EXPIRED in one.message) == ("FILE_NOT_FOUND", True)
    for one in refusals(types_pb.Scope(user_id=f"{scope.user_id}-2")):
        assert (one.reason, EXPIRED in one.message) == ("FILE_NOT_FOUND", False)
