"""What was damaged by hand is named and mended, for one user alone or for all, and searches go on."""

from __future__ import annotations

import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from memsvc.domain.memory import content_hash
from memsvc.ports.plugin import BackendContext
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from memsvc_backends.tantivy import TANTIVY
from memsvc_backends.tantivy.index import TantivySettings
from tests.support.rpc import KEYWORD, TIMEOUT, create, create_all, found, get, list_all, refused
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.sessions import append, open_session, place, said

pytestmark = pytest.mark.xdist_group("integrity")
NOBODY = str(uuid.UUID(int=7 << 76 | 2 << 62 | 1))
LONG = "\n\n".join(f"# Part {number}\n\n" + f"The walrus of part {number} swims. " * 60 for number in range(4))
ENVIRONMENT = {**FAST, "MEMSVC_INDEXING__UPKEEP_SECONDS": "3600"}


def check(
    stubs: Stubs, scope: types_pb.Scope | None, *, repair: bool = False
) -> tuple[list[admin_pb.IntegrityFinding], admin_pb.IntegritySummary]:
    """Check one scope, or everything; return the findings and the summary."""
    request = admin_pb.CheckIntegrityRequest(scope=scope, all=scope is None, repair=repair)
    events = list(stubs.admin.CheckIntegrity(request, timeout=TIMEOUT))
    assert ["summary"] == [event.WhichOneof("event") for event in events[-1:]]
    findings = [event.finding for event in events if event.HasField("finding")]
    summary = events[-1].summary
    assert (len(findings), sum(one.repaired for one in findings)) == (summary.finding_count, summary.repaired_count)
    assert not summary.unchecked
    return findings, summary


def faults(findings: list[admin_pb.IntegrityFinding]) -> Counter[str]:
    """Count the findings by the name of their fault."""
    return Counter(admin_pb.IntegrityFault.Name(one.fault).removeprefix("INTEGRITY_FAULT_") for one in findings)


def fill(stubs: Stubs, user: str) -> dict[str, types_pb.Memory]:
    """Store what the damage is done to; return the memories by what is done to them."""
    scope = types_pb.Scope(user_id=user)
    names = ("link", "content", "terms", "gone", "missing", "whole")
    made = create_all(
        stubs, scope, [types_pb.Memory(content=f"The {name} walrus swims.", tags=["sea"]) for name in names]
    )
    memories = dict(zip(names, made, strict=True))
    memories["chunks"] = create(stubs, scope, LONG, key="long")
    for session in ("lost", "emptied"):
        open_session(stubs, place(user, session))
        append(stubs, place(user, session), [f"I saw a gannet in {session}."])
    return memories


def damage(database: sqlite3.Connection, user: str, memories: dict[str, types_pb.Memory]) -> None:
    """Damage what one user has, in every way that a check knows of but for the indexes."""
    owner = f"\x1f{user}"

    def change(statement: str, *values: object) -> None:
        assert database.execute(statement, values).rowcount, statement

    rows = {name: database.execute("SELECT row FROM memories WHERE id = ?", [one.id]).fetchone()[0]
            for name, one in memories.items()}  # fmt: skip
    change(
        "UPDATE memories SET related_ids = json_array(?, ?), superseded_by_id = ? WHERE row = ?",
        NOBODY, memories["whole"].id, NOBODY, rows["link"],
    )  # fmt: skip
    change("UPDATE memories SET content = 'The changed walrus swims.' WHERE row = ?", rows["content"])
    change("DELETE FROM memory_chunks WHERE entry >> 16 = ? AND entry & 1 = 1", rows["chunks"])
    change("DELETE FROM memory_keywords WHERE row = ?", rows["terms"])
    change("DELETE FROM memory_tags WHERE row = ?", rows["terms"])
    change("DELETE FROM memories WHERE row = ?", rows["gone"])
    change(
        "INSERT INTO conflicts VALUES (?, '', ?, ?, ?, 'OPEN', 'GENERAL', 'x', 'y', 'z', 1, NULL)",
        owner, str(uuid.uuid4()), memories["whole"].id, NOBODY,
    )  # fmt: skip
    change("DELETE FROM sessions WHERE owner = ? AND id = 'lost'", owner)
    change(
        "DELETE FROM messages WHERE session_row = (SELECT row FROM sessions WHERE owner = ? AND id = 'emptied')", owner
    )


def lose_words(server: ServerProcess, rows: list[int]) -> None:
    """Take memories out of the index of words."""
    context = BackendContext(directory=server.data_dir / "lexical", now=lambda: datetime.now(UTC))
    with TANTIVY.open(TantivySettings(), context) as index:
        index.replace({row: [] for row in rows})


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[tuple[ServerProcess, dict[str, types_pb.Memory]]]:
    """A server on a store in which what two users have was damaged by hand, and the memories of the first."""
    with ServerProcess(tmp_path / "data", environment=ENVIRONMENT) as server:
        with server.stubs() as stubs:
            everybody = {user: fill(stubs, user) for user in ("ada", "bob")}
        server.stop()
        with closing(sqlite3.connect(server.data_dir / "metadata" / "memsvc.db")) as database:
            for user, memories in everybody.items():
                damage(database, user, memories)
            ids = [memories["missing"].id for memories in everybody.values()]
            rows = [database.execute("SELECT row FROM memories WHERE id = ?", [one]).fetchone()[0] for one in ids]
            database.commit()
        lose_words(server, rows)
        server.start()
        yield server, everybody["ada"]


OWN = Counter(LINK=2, CONTENT=1, CHUNKS=1, KEYWORDS=1, CONFLICT=1, MESSAGE=1, SESSION=1, REMAINS=3, INDEX_MISSING=1)
"""What is wrong with the things of each user. The pieces of what is gone that name no owner are told with all alone."""


def test_a_check_names_what_is_damaged_and_repairs_what_it_is_asked_to(
    damaged: tuple[ServerProcess, dict[str, types_pb.Memory]],
) -> None:
    """Without repair nothing changes; with it one user is well again, and the other is as before; then all, and nobody's.

    A second repair has nothing to do, and what it says of sessions is all that is left.
    """
    server, memories = damaged
    ada, bob = (types_pb.Scope(user_id=user) for user in ("ada", "bob"))
    with server.stubs() as stubs:
        findings, summary = check(stubs, ada)
        assert OWN == faults(findings) == Counter(summary.count_by_fault)
        assert {"ada"} == {one.user_id for one in findings}
        assert all(one.detail and one.remedy and not one.repaired for one in findings)
        about = {admin_pb.IntegrityFault.Name(one.fault)[16:]: one.memory_id for one in findings}
        names = {
            "LINK": "link",
            "CONTENT": "content",
            "CHUNKS": "chunks",
            "KEYWORDS": "terms",
            "INDEX_MISSING": "missing",
        }
        assert {fault: memories[name].id for fault, name in names.items()} == {one: about[one] for one in names}
        assert faults(findings) == faults(check(stubs, ada)[0])
        theirs = check(stubs, bob)[0]

        mended, _ = check(stubs, ada, repair=True)
        assert {"SESSION"} == set(faults([one for one in mended if not one.repaired]))
        assert OWN == faults(mended)
        assert Counter(SESSION=1) == faults(check(stubs, ada)[0])
        assert theirs == check(stubs, bob)[0]

        linked, content = (get(stubs, ada, memories[name].id) for name in ("link", "content"))
        assert ([memories["whole"].id], "", 2) == (list(linked.related_ids), linked.superseded_by_id, linked.revision)
        assert content_hash("The changed walrus swims.") == content.content_hash
        assert memories["whole"] == get(stubs, ada, memories["whole"].id)
        assert "The missing walrus swims." in found(stubs, ada, "missing walrus", mode=KEYWORD)
        assert "The changed walrus swims." in found(stubs, ada, "changed walrus", mode=KEYWORD)
        assert LONG in found(stubs, ada, "part 1 walrus", mode=KEYWORD)
        tagged = list_all(stubs, ada, filter=filters_pb.Filter(tags_any=["sea"]))
        assert memories["terms"].id in {memory.id for memory in tagged}
        assert ["I saw a gannet in lost."] == found(stubs, place("ada", "lost"), "gannet", mode=KEYWORD, limit=1)

        before = check(stubs, None)[0]
        everything = check(stubs, None, repair=True)[0]
        after = check(stubs, None, repair=True)[0]
        assert faults(before) == faults(everything)
        assert {"REMAINS", "INDEX_ORPHANED"} <= set(faults(everything))
        left = [one for one in everything if not one.repaired]
        assert {"SESSION"} == set(faults(after)) == set(faults(left))


def test_maintenance_repairs_links_and_indexes(damaged: tuple[ServerProcess, dict[str, types_pb.Memory]]) -> None:
    """Of one user, and then of all with the entries that belong to no memory; what was repaired is not found again."""
    server, memories = damaged
    links, indexes = lifecycle_pb.MAINTENANCE_STEP_CHECK_REFERENCES, lifecycle_pb.MAINTENANCE_STEP_COMPARE_INDEXES
    ada, bob = (types_pb.Scope(user_id=user) for user in ("ada", "bob"))
    with server.stubs() as stubs:

        def maintain(step: int, scope: types_pb.Scope | None, *, dry_run: bool = False) -> list[tuple[str, str]]:
            asked = lifecycle_pb.RunMaintenanceRequest(
                scope=scope,
                all=scope is None,
                steps=[step],
                dry_run=dry_run,  # type: ignore[list-item] # an enum's number
            )
            told = list(stubs.lifecycle.RunMaintenance(asked, timeout=TIMEOUT))
            assert (told[-1].tallies[0].failure, told[-1].tallies[0].complete) == ("", True)
            return [(change.user_id, change.memory_id) for response in told for change in response.changes]

        for step, name in ((links, "link"), (indexes, "missing")):
            mine = [("ada", memories[name].id)]
            theirs = maintain(step, bob, dry_run=True)
            assert maintain(step, ada, dry_run=True) == mine == maintain(step, ada)
            assert maintain(step, ada) == []
            assert theirs == maintain(step, bob, dry_run=True)
            assert {user for user, _ in theirs} == {"bob"}
            assert set(theirs) <= set(maintain(step, None))
            assert maintain(step, None) == []
        assert {"LINK", "INDEX_MISSING", "INDEX_ORPHANED"}.isdisjoint(faults(check(stubs, None)[0]))
        assert "The missing walrus swims." in found(stubs, ada, "missing walrus", mode=KEYWORD)


def test_a_healthy_scope_has_no_findings(stubs: Stubs, user: str) -> None:
    """Whatever was done with it through the API: written, superseded, deleted, restored, appended to, chunked."""
    scope = types_pb.Scope(user_id=user, project_id="p")
    first = create(stubs, scope, "The kettle is blue.", tags=["a"])
    create(stubs, scope, LONG, related_ids=[first.id])
    supersede = memory_pb.SupersedeMemoryRequest(scope=scope, id=first.id, memory=types_pb.Memory(content="It is red."))
    stubs.memory.SupersedeMemory(supersede, timeout=TIMEOUT)
    deleted = create(stubs, scope, "It will be gone.")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=deleted.id), timeout=TIMEOUT)
    open_session(stubs, place(user, "s", "p"))
    append(stubs, place(user, "s", "p"), ["One gannet.", "Two gannets."])
    assert 2 == len(said(stubs, place(user, "s", "p")))

    findings, summary = check(stubs, scope)

    assert ([], 5) == (findings, summary.memory_count)


def test_a_purged_memory_leaves_a_link_that_is_taken_away(stubs: Stubs, user: str) -> None:
    """The one thing that the API itself can leave behind."""
    scope = types_pb.Scope(user_id=user)
    target = create(stubs, scope, "The kettle is blue.")
    other = create(stubs, scope, "The walrus sings.", related_ids=[target.id])
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=target.id, purge=True), timeout=TIMEOUT)
    [finding], _ = check(stubs, scope, repair=True)

    assert (other.id, True, user) == (finding.memory_id, finding.repaired, finding.user_id)
    assert target.id in finding.detail
    assert [] == list(get(stubs, scope, other.id).related_ids)
    assert [] == check(stubs, scope)[0]


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (admin_pb.CheckIntegrityRequest(), ("scope.user_id",)),
        (admin_pb.CheckIntegrityRequest(scope=types_pb.Scope(user_id="a\x00", project_id="x" * 129)),
         ("scope.user_id", "scope.project_id")),
        (admin_pb.CheckIntegrityRequest(scope=types_pb.Scope(user_id="u"), all=True), ("scope",)),
    ],
)  # fmt: skip
def test_wrong_requests_are_refused(
    stubs: Stubs, request_: admin_pb.CheckIntegrityRequest, fields: tuple[str, ...]
) -> None:
    """With every violation at once: one user, or all, but not both."""
    refusal = refused(stubs.admin.CheckIntegrity, request_)
    assert (grpc.StatusCode.INVALID_ARGUMENT, fields) == (refusal.code, refusal.fields)
