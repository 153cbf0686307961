"""What GetStats warns of: sessions, tiers and reviews near their limits; and what GetPerformance tells of each layer."""

from __future__ import annotations

import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import HYBRID, TIMEOUT, create_all, search
from tests.support.server_process import Stubs
from tests.support.sessions import append, open_session, place

WARNING, CRITICAL, INFO = (
    types_pb.SEVERITY_WARNING,
    types_pb.SEVERITY_CRITICAL,
    types_pb.SEVERITY_INFO,
)


def code_name(warning: types_pb.Warning) -> str:
    """Return the code without its prefix."""
    return types_pb.WarningCode.Name(warning.code).removeprefix("WARNING_CODE_")


def point_name(measured: admin_pb.OperationPerformance | admin_pb.SlowOperation) -> str:
    """Return where it was measured, in lower case."""
    return admin_pb.MeasurementPoint.Name(measured.point).removeprefix("MEASUREMENT_POINT_").lower()


def warned(stubs: Stubs, scope: types_pb.Scope) -> tuple[admin_pb.GetStatsResponse, dict[str, int]]:
    """Return the counts of a scope, and the severity of each sort of warning about it."""
    reply = stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=scope), timeout=TIMEOUT)
    ours = ("SESSION_NEARLY_FULL", "CORE_COUNT", "ACTIVE_COUNT", "QUARANTINE_WAITING")
    return reply, {name: one.severity for one in reply.warnings if (name := code_name(one)) in ours}


@pytest.mark.parametrize(("words", "severity"), [(60, None), (75, WARNING), (90, CRITICAL)])
def test_a_session_that_fills_up_is_told(stubs: Stubs, user: str, words: int, severity: int | None) -> None:
    """Over 70 % of its limit it is a warning, over 85 % critical; the fullest comes first."""
    fields = {"token_limit": 100, "auto_trim": session_pb.SESSION_AUTO_TRIM_NEVER}
    keep = session_pb.SESSION_ON_OPEN_KEEP_OTHERS
    for name, length in (("fresh", 1), ("filling", words)):
        open_session(stubs, place(user, name), on_open=keep, **fields)
        append(stubs, place(user, name), [" the" * length])
    reply, found = warned(stubs, types_pb.Scope(user_id=user))

    assert ({} if severity is None else {"SESSION_NEARLY_FULL": severity}) == found
    assert ["filling", "fresh"] == [one.session_id for one in reply.sessions]
    fullest = reply.sessions[0]
    assert (100, fullest.token_count / 100) == (fullest.token_limit, fullest.usage_ratio)
    assert not warned(stubs, types_pb.Scope(user_id=f"{user}2"))[0].sessions


def test_tiers_and_reviews_near_their_limits_are_told(stubs: Stubs, scope: types_pb.Scope) -> None:
    """9 of 10 core memories are worth a word, 11 a warning; so is a memory that waits for a review."""

    def add(first: int, count: int) -> dict[str, int]:
        core = types_pb.MEMORY_TIER_CORE
        contents = [types_pb.Memory(content=f"Rule {first + number}.", tier=core) for number in range(count)]
        create_all(stubs, scope, contents)
        return warned(stubs, scope)[1]

    assert {} == add(0, 8)
    assert {"CORE_COUNT": INFO} == add(8, 1)
    assert {"CORE_COUNT": WARNING} == add(9, 2)
    create_all(stubs, scope, [types_pb.Memory(content="Hm.", status=types_pb.MEMORY_STATUS_QUARANTINED)])
    assert {"CORE_COUNT": WARNING, "QUARANTINE_WAITING": INFO} == warned(stubs, scope)[1]


def test_what_is_out_of_use_fills_no_tier(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Archiving is what the warning asks for, so it ends the warning."""
    tier = types_pb.MEMORY_TIER_ACTIVE
    added = create_all(stubs, scope, [types_pb.Memory(content=f"Point {number}.", tier=tier) for number in range(21)])
    assert {"ACTIVE_COUNT": WARNING} == warned(stubs, scope)[1]
    for memory in added[:4]:
        archive = lifecycle_pb.ArchiveMemoryRequest(scope=scope, id=memory.id)
        stubs.lifecycle.ArchiveMemory(archive, timeout=TIMEOUT)
    reply, found = warned(stubs, scope)

    assert ({}, 21) == (found, reply.count_by_tier["ACTIVE"])


def test_every_layer_of_a_search_is_measured(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The call, the engine with its stages, and each backend; slow operations say where they were measured."""
    create_all(stubs, scope, ["The walrus sings."])
    search(stubs, scope, "a query that nobody asked before", mode=HYBRID)
    told = stubs.admin.GetPerformance(admin_pb.GetPerformanceRequest(), timeout=TIMEOUT).operations
    measured = {(point_name(one), one.operation): one for one in told}

    assert {
        ("edge", "Search"), ("engine", "Search"), ("vectors", "Search"), ("lexical", "Search"),
        ("embedder", "EmbedQuery"), ("store", "ReadCandidates"), ("store", "Transaction"), ("lexical", "Replace"),
    } <= measured.keys()  # fmt: skip
    stages = [stage.stage for stage in measured["engine", "Search"].stages]
    assert {"embed", "dense", "bm25", "hydrate"} <= set(stages)
    assert all(one.call_count for one in measured.values())
    slowest = stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT).slowest
    assert {point_name(one) for one in slowest} <= {"edge", "engine"}
