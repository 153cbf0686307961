"""Recorded durations continue after a restart."""

from __future__ import annotations

import json
from pathlib import Path

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create
from tests.support.server_process import Stubs
from tests.support.server_thread import served


def measured(stubs: Stubs) -> tuple[admin_pb.OperationPerformance, int]:
    """Return the durations of CreateMemory at the edge, and the beginning of the measurement in seconds."""
    asked = admin_pb.GetPerformanceRequest(operation="CreateMemory")
    report = stubs.admin.GetPerformance(asked, timeout=TIMEOUT)
    [found] = [one for one in report.operations if one.point == admin_pb.MEASUREMENT_POINT_EDGE]
    return found, report.since.ToMicroseconds()


def test_durations_continue_after_a_restart(tmp_path: Path) -> None:
    """Counts, percentiles and the beginning; a damaged file begins anew and does not keep the service from starting."""
    scope = types_pb.Scope(user_id="ada")
    with served(tmp_path / "data") as stubs:
        for text in ("The otter sleeps.", "水獭在睡觉。"):
            create(stubs, scope, text)
        before, since = measured(stubs)
    assert before.call_count == 2
    [kept] = (tmp_path / "data").glob("durations.json")
    with served(tmp_path / "data") as stubs:
        create(stubs, scope, "The heron fishes.")
        after, again = measured(stubs)
    assert (after.call_count, again) == (3, since)
    assert after.max.ToMicroseconds() >= before.max.ToMicroseconds()
    assert all(len(row[-1]) <= 128 for row in json.loads(kept.read_text())["durations"])

    kept.write_text("no JSON")
    with served(tmp_path / "data") as stubs:
        create(stubs, scope, "The newt hides.")
        fresh, later = measured(stubs)
    assert fresh.call_count == 1
    assert later > since
