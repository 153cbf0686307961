"""CheckIntegrity of files over the wire: told by default, removed on request, for one user alone."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import delete, listed, upload, written_ref
from tests.support.rpc import TIMEOUT, create, get
from tests.support.server_process import Stubs

AT_ONCE = Duration()


def check(stubs: Stubs, scope: types_pb.Scope, **request: object) -> list[tuple[str, str, bool]]:
    """Check a scope; return the faults of files: what it is, the reference, and whether it was put right."""
    asked = admin_pb.CheckIntegrityRequest(scope=scope, **request)  # type: ignore[arg-type]  # by name
    events = list(stubs.admin.CheckIntegrity(asked, timeout=TIMEOUT))
    found = [event.finding for event in events if event.HasField("finding") and event.finding.HasField("file_ref")]
    assert sum(one.repaired for one in found) == events[-1].summary.repaired_count
    return [
        (
            admin_pb.IntegrityFault.Name(one.fault).removeprefix("INTEGRITY_FAULT_"),
            written_ref(one.file_ref),
            one.repaired,
        )
        for one in found
    ]


def test_broken_references_and_orphans_are_told_then_removed(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A deleted file leaves a broken reference, a deleted memory an orphan; nothing goes unless it is named."""
    kept, lost, orphan = (upload(stubs, scope, name.encode(), name=name) for name in ("kept", "lost", "orphan"))
    refs = [types_pb.FileRef(category=types_pb.FILE_CATEGORY_UPLOAD, id=file.id) for file in (kept, lost)]
    memory = create(stubs, scope, "It refers to files.", file_refs=refs)
    delete(stubs, scope, lost.id)
    broken = ("FILE_REF", f"upload:{lost.id}", False)
    alone = ("FILE_ORPHANED", f"upload:{orphan.id}", False)

    assert check(stubs, scope) == [broken]
    assert check(stubs, scope, orphan_grace=AT_ONCE, repair=True) == [broken, alone]
    assert check(stubs, scope, orphan_grace=AT_ONCE, ignore_files=True) == []
    assert check(stubs, scope, orphan_grace=AT_ONCE, remove_orphan_files=True) == [broken, (*alone[:2], True)]
    assert listed(stubs, scope) == ["kept"]
    assert check(stubs, scope, orphan_grace=AT_ONCE, remove_broken_refs=True) == [(*broken[:2], True)]
    assert check(stubs, scope, orphan_grace=AT_ONCE) == []
    after = get(stubs, scope, memory.id)
    assert ([ref.id for ref in after.file_refs], after.revision) == ([kept.id], 2)
    before = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, id=memory.id, revision=1), timeout=TIMEOUT)
    assert len(before.memory.file_refs) == 2


def test_maintenance_removes_broken_references(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Those beside the content; one in the content stays, and so do those of other users."""
    other = types_pb.Scope(user_id=f"{scope.user_id}-2")
    made = []
    for place in (scope, other):
        file = upload(stubs, place, b"x", name="lost")
        refs = [types_pb.FileRef(category=types_pb.FILE_CATEGORY_UPLOAD, id=file.id)]
        made.append(create(stubs, place, "It refers to a file. 它引用一个文件。", file_refs=refs).id)
        create(stubs, place, f"See `upload:{file.id}`.")
        delete(stubs, place, file.id)

    def maintain() -> list[str]:
        step = lifecycle_pb.MAINTENANCE_STEP_CHECK_REFERENCES
        asked = lifecycle_pb.RunMaintenanceRequest(scope=scope, steps=[step])
        told = list(stubs.lifecycle.RunMaintenance(asked, timeout=TIMEOUT))
        return [change.memory_id for response in told for change in response.changes]

    assert maintain() == made[:1]
    assert [len(get(stubs, place, one).file_refs) for place, one in zip((scope, other), made, strict=True)] == [0, 1]
    assert maintain() == []


def test_files_of_others_are_left_alone(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Another user's, and those of another project of the user."""
    other = types_pb.Scope(user_id=f"{scope.user_id}-2")
    elsewhere = types_pb.Scope(user_id=scope.user_id, project_id="web")
    for place in (other, elsewhere):
        upload(stubs, place, b"x", name="theirs", category=types_pb.FILE_CATEGORY_CHART)

    assert check(stubs, scope, orphan_grace=AT_ONCE, remove_orphan_files=True, remove_broken_refs=True) == []
    assert [listed(stubs, place) for place in (other, elsewhere)] == [["theirs"], ["theirs"]]


def test_a_file_that_a_summary_refers_to_is_no_orphan(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Until the summary is another one; and an attachment stays when a memory that had it, too, is purged."""
    file = upload(stubs, scope, b"x", name="summed up")
    attached = upload(stubs, scope, b"y", name="attached", category=types_pb.FILE_CATEGORY_MEMORY)
    summary = f"See `upload:{file.id}` and [this](memory:{attached.id})."
    memory = create(stubs, scope, "It has a summary.", summary=summary)
    purged = create(stubs, scope, f"The attachment is `memory:{attached.id}`.")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=purged.id, purge=True), timeout=TIMEOUT)

    assert check(stubs, scope, orphan_grace=AT_ONCE, remove_orphan_files=True) == []
    assert sorted(listed(stubs, scope)) == ["attached", "summed up"]
    update = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=types_pb.Memory(id=memory.id, summary="Plain."), update_mask={"paths": ["summary"]}
    )
    stubs.memory.UpdateMemory(update, timeout=TIMEOUT)
    found = check(stubs, scope, orphan_grace=AT_ONCE, remove_orphan_files=True)
    assert [(fault, done) for fault, _, done in found] == [("FILE_ORPHANED", True)] * 2


def test_a_global_file_that_a_project_refers_to_is_no_orphan(stubs: Stubs, scope: types_pb.Scope) -> None:
    """From wherever it is looked at."""
    file = upload(stubs, scope, b"x", name="shared")
    web = types_pb.Scope(user_id=scope.user_id, project_id="web")
    create(stubs, web, f"See `upload:{file.id}`.")

    for place in (scope, web):
        assert check(stubs, place, orphan_grace=AT_ONCE, remove_orphan_files=True) == []
    assert listed(stubs, scope) == ["shared"]
