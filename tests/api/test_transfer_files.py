"""References to files when a user is taken in as another one, who gets files of other ids."""

from __future__ import annotations

import base64
import uuid

from google.protobuf.duration_pb2 import Duration

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, list_all
from tests.support.server_process import Stubs
from tests.support.until import until
from tests.support.user_data import changed, erase, export, records, take_in

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def furnish(stubs: Stubs, scope: types_pb.Scope) -> list[file_pb.File]:
    """Give a user a chart that two revisions of a memory refer to, a memory with an attachment, and one with an image."""
    chart = upload(stubs, scope, b"chart", name="chart.csv", category=types_pb.FILE_CATEGORY_CHART)
    ref = f"chart:{chart.id}"
    content = f"See `{ref}`, and [again]({ref}).\n\n```\n`{ref}`\n```\n"
    spoken = create(stubs, scope, content, key="spoken", summary=f"What `{ref}` shows.")
    longer = types_pb.Memory(id=spoken.id, content=f"{spoken.content}\nMore.")
    stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(scope=scope, memory=longer, update_mask={"paths": ["content"]}), timeout=TIMEOUT
    )
    bearer = create(stubs, scope, "Bears an attachment.", key="bearer")
    attached = upload(
        stubs, scope, b"attached", category=types_pb.FILE_CATEGORY_MEMORY, metadata={"memory_id": bearer.id.upper()}
    )
    create(stubs, scope, f"A picture: ![t](data:image/png;base64,{PIXEL})", key="pictured")
    return [chart, attached]


def faults(stubs: Stubs, scope: types_pb.Scope) -> list[admin_pb.IntegrityFinding]:
    """Return what is wrong with a user's references."""
    request = admin_pb.CheckIntegrityRequest(scope=scope, orphan_grace=Duration())
    found = stubs.admin.CheckIntegrity(request, timeout=TIMEOUT)
    wrong = {admin_pb.INTEGRITY_FAULT_FILE_REF, admin_pb.INTEGRITY_FAULT_FILE_ORPHANED}
    return [one.finding for one in found if one.HasField("finding") and one.finding.fault in wrong]


def by_key(stubs: Stubs, scope: types_pb.Scope) -> dict[str, types_pb.Memory]:
    """Return the memories of a user by key."""
    return {memory.key: memory for memory in list_all(stubs, scope)}


def files_of(stubs: Stubs, scope: types_pb.Scope) -> dict[str, file_pb.File]:
    """Return the files of a user by hash."""
    files = stubs.files.ListFiles(file_pb.ListFilesRequest(scope=scope), timeout=TIMEOUT).files
    return {file.sha256: file for file in files}


def test_contents_follow_the_files(stubs: Stubs, user: str) -> None:
    """In all revisions, in the places where references are found, and in those alone; hashes follow."""
    mine, heirs = types_pb.Scope(user_id=user), types_pb.Scope(user_id=f"{user}-heir")
    chart, attached = furnish(stubs, mine)
    file = export(stubs, user, include_vectors=True)
    take_in(stubs, heirs.user_id, file)

    copied, memories = files_of(stubs, heirs), by_key(stubs, heirs)
    old, new = f"chart:{chart.id}", f"chart:{copied[chart.sha256].id}"
    assert old != new
    text = f"See `{new}`, and [again]({new}).\n\n```\n`{old}`\n```\n"
    assert f"{text}\nMore." == memories["spoken"].content
    assert f"What `{new}` shows." == memories["spoken"].summary
    told = records(export(stubs, heirs.user_id), "revision")
    assert [text, "Bears an attachment."] == [line["content"] for line in told]
    [picture] = memories["pictured"].file_refs
    assert f"A picture: ![t](memory:{picture.id})" == memories["pictured"].content
    refs = [ref for memory in memories.values() for ref in memory.file_refs]
    resolved = stubs.files.ResolveFileRefs(file_pb.ResolveFileRefsRequest(scope=heirs, refs=refs), timeout=TIMEOUT)
    assert [one.id for one in refs] == [one.file.id for one in resolved.resolved]
    assert [copied[attached.sha256].id] == [ref.id for ref in memories["bearer"].file_refs]
    assert memories["bearer"].id == copied[attached.sha256].metadata["memory_id"]
    assert [] == faults(stubs, heirs)


def test_the_same_file_again_changes_nothing(stubs: Stubs, user: str) -> None:
    """Also when whom it is of is gone meanwhile, and the old ids are free."""
    furnish(stubs, types_pb.Scope(user_id=user))
    file = export(stubs, user)
    take_in(stubs, f"{user}-heir", file)
    before = export(stubs, f"{user}-heir")

    for step in (lambda: None, lambda: erase(stubs, user, confirm=True, request_id=str(uuid.uuid4()))):
        step()
        last = take_in(stubs, f"{user}-heir", file)
        assert ({}, 0, len(records(file))) == (dict(last.stored_counts), last.skipped_count, last.unchanged_count)
    assert records(before) == records(export(stubs, f"{user}-heir"))


def test_a_file_whose_text_was_indexed_since_is_the_same(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The bytes and the text of a file are no part of its record."""
    uploaded = upload(stubs, scope, "The walrus sings. 海象唱歌。".encode(), name="a.txt")
    file = export(stubs, scope.user_id)

    def indexed() -> bool:
        answer = stubs.files.GetFile(file_pb.GetFileRequest(scope=scope, id=uploaded.id), timeout=TIMEOUT)
        return answer.file.text.state == file_pb.FILE_TEXT_STATE_INDEXED

    until(indexed)
    last = take_in(stubs, scope.user_id, file)

    assert (1, 0, {}) == (last.unchanged_count, last.skipped_count, dict(last.stored_counts))


def test_a_later_edit_keeps_to_the_new_ids(stubs: Stubs, user: str) -> None:
    """What the content says is what is there."""
    furnish(stubs, types_pb.Scope(user_id=user))
    heirs = types_pb.Scope(user_id=f"{user}-heir")
    take_in(stubs, heirs.user_id, export(stubs, user))
    memory = by_key(stubs, heirs)["spoken"]
    edited = types_pb.Memory(id=memory.id, content=f"{memory.content} Edited.")
    request = memory_pb.UpdateMemoryRequest(scope=heirs, memory=edited, update_mask={"paths": ["content"]})
    after = stubs.memory.UpdateMemory(request, timeout=TIMEOUT).memory

    assert list(memory.file_refs) == list(after.file_refs)
    assert [] == faults(stubs, heirs)


def test_what_no_file_came_with_keeps_its_name(stubs: Stubs, user: str) -> None:
    """A reference to somebody else's file, or to what is elsewhere: the same user, and another one."""
    scope = types_pb.Scope(user_id=user)
    theirs = upload(stubs, types_pb.Scope(user_id=f"{user}-victim"), b"theirs", category=types_pb.FILE_CATEGORY_CHART)
    content = f"`chart:{theirs.id}` `chart:{uuid.uuid4()}` `chart:f1`"
    create(stubs, scope, content)
    file = export(stubs, user)

    assert 1 == take_in(stubs, user, file).unchanged_count
    take_in(stubs, f"{user}-heir", file)
    [copied] = list_all(stubs, types_pb.Scope(user_id=f"{user}-heir"))
    assert content == copied.content
    assert [f"chart:{theirs.id}", "chart:f1"] == [f"chart:{copied.file_refs[place].id}" for place in (0, 2)]


def test_a_file_of_somebody_else_is_not_taken_over(stubs: Stubs, user: str) -> None:
    """A file that names it as the user's own is taken in under another id, and what speaks of it follows."""
    scope = types_pb.Scope(user_id=user)
    theirs = upload(stubs, types_pb.Scope(user_id=f"{user}-victim"), b"theirs", category=types_pb.FILE_CATEGORY_CHART)
    mine = upload(stubs, scope, b"mine", category=types_pb.FILE_CATEGORY_CHART)
    create(stubs, scope, f"See `chart:{mine.id}`.", key="spoken")
    forged = _with_ids(export(stubs, user), {mine.id: theirs.id})

    for _ in range(2):
        last = take_in(stubs, f"{user}-other", _of_user(forged, f"{user}-other"))
        assert (0, []) == (last.skipped_count, list(last.issues))
    other = types_pb.Scope(user_id=f"{user}-other")
    [copied], [memory] = files_of(stubs, other).values(), list_all(stubs, other)
    assert copied.id != theirs.id
    assert f"See `chart:{copied.id}`." == memory.content
    assert [copied.id] == [ref.id for ref in memory.file_refs]


def _with_ids(file: bytes, ids: dict[str, str]) -> bytes:
    for old, new in ids.items():
        file = file.replace(old.encode(), new.encode())
    return changed(file, lambda lines: lines)


def _of_user(file: bytes, user: str) -> bytes:
    return changed(file, lambda lines: lines[0].update(user_id=user))
