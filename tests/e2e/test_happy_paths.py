"""One call of each method that no other test of a server process makes."""

from __future__ import annotations

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, create_all
from tests.support.server_process import Stubs

SAME = ("I enjoy alpine hiking.", "The user likes alpine hiking")


def test_memories_are_merged_and_parted(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By ConsolidateMemories and UndoConsolidation."""
    create_all(stubs, scope, SAME)
    merging = lifecycle_pb.ConsolidateMemoriesRequest(scope=scope)
    [group] = stubs.lifecycle.ConsolidateMemories(merging, timeout=TIMEOUT).groups
    parting = lifecycle_pb.UndoConsolidationRequest(scope=scope, id=group.merged.id)
    parted = stubs.lifecycle.UndoConsolidation(parting, timeout=TIMEOUT)

    assert parted.merged.id == group.merged.id
    assert parted.merged.status == types_pb.MEMORY_STATUS_DELETED


def test_memories_are_promoted_archived_and_summed_up(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By PromoteMemory, ArchiveMemory, SummarizePeriod and RunMaintenance."""
    memory = create(stubs, scope, "The walrus sings.", layer=types_pb.MEMORY_LAYER_SHORT_TERM)
    promotion = lifecycle_pb.PromoteMemoryRequest(scope=scope, id=memory.id)
    promoted = stubs.lifecycle.PromoteMemory(promotion, timeout=TIMEOUT).memory
    summing = lifecycle_pb.SummarizePeriodRequest(scope=scope, topic="walrus")
    summary = stubs.lifecycle.SummarizePeriod(summing, timeout=TIMEOUT)
    archiving = lifecycle_pb.ArchiveMemoryRequest(scope=scope, id=memory.id)
    archived = stubs.lifecycle.ArchiveMemory(archiving, timeout=TIMEOUT).memory
    maintaining = lifecycle_pb.RunMaintenanceRequest(scope=scope, dry_run=True)
    *_, last = stubs.lifecycle.RunMaintenance(maintaining, timeout=TIMEOUT)

    assert promoted.layer == types_pb.MEMORY_LAYER_LONG_TERM
    assert "walrus" in summary.memory.content
    assert archived.status == types_pb.MEMORY_STATUS_ARCHIVED
    assert last.tallies


def test_memories_and_files_are_found_together(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By BatchGetMemories, SearchAll, ResolveFileRefs and BuildContext."""
    memory = create(stubs, scope, "The walrus sings.")
    file = upload(stubs, scope, b"walrus", name="walrus.txt")
    getting = memory_pb.BatchGetMemoriesRequest(scope=scope, ids=[memory.id])
    searching = search_pb.SearchAllRequest(scope=scope, query="walrus", include_files=True)
    refs = [types_pb.FileRef(category=types_pb.FILE_CATEGORY_TEMP, id=file.id)]
    resolving = file_pb.ResolveFileRefsRequest(scope=scope, refs=refs)
    building = search_pb.BuildContextRequest(scope=scope, query="walrus")

    assert [memory.id] == [one.id for one in stubs.memory.BatchGetMemories(getting, timeout=TIMEOUT).memories]
    assert memory.id in str(stubs.search.SearchAll(searching, timeout=TIMEOUT))
    assert [file.id] == [one.ref.id for one in stubs.files.ResolveFileRefs(resolving, timeout=TIMEOUT).resolved]
    assert memory.id in str(list(stubs.search.BuildContext(building, timeout=TIMEOUT)))
