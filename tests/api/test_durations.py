"""Recorded durations continue after a restart."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from memsvc.engine.runtime.latency_stats import LatencyStats
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, refused
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


class Ticks:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 25, 12, 0, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment


def within(stubs: Stubs, **window: float) -> tuple[dict[str, int], datetime]:
    """Return how often operations ran at the edge within a window, and the beginning of the window."""
    length = Duration()
    length.FromTimedelta(timedelta(**window))
    report = stubs.admin.GetPerformance(admin_pb.GetPerformanceRequest(window=length), timeout=TIMEOUT)
    edge = [one for one in report.operations if one.point == admin_pb.MEASUREMENT_POINT_EDGE]
    return {one.operation: one.call_count for one in edge}, report.since.ToDatetime(UTC)


def test_a_window_counts_the_calls_of_the_last_minutes_or_hours(tmp_path: Path) -> None:
    """The time series continue after a restart; a window begins with a whole minute or hour."""
    scope, now = types_pb.Scope(user_id="ada"), Ticks()
    with served(tmp_path / "data", now=now) as stubs:
        create(stubs, scope, "The otter sleeps.")
        now.moment += timedelta(minutes=50)
        create(stubs, scope, "水獭在睡觉。")
        recent, since = within(stubs, minutes=10)
        assert recent["CreateMemory"] == 1
        assert since == datetime(2026, 11, 25, 12, 40, tzinfo=UTC)
        assert within(stubs, hours=1)[0]["CreateMemory"] == 2
        now.moment += timedelta(hours=30)
        stubs.admin.Diagnose(admin_pb.DiagnoseRequest(), timeout=TIMEOUT)
    with served(tmp_path / "data", now=now) as stubs:
        assert "CreateMemory" not in within(stubs, hours=24)[0]
        assert within(stubs, hours=24)[0]["Diagnose"] == 1
        week, since = within(stubs, days=7)
        assert week["CreateMemory"] == 2
        assert since == datetime(2026, 11, 25, 12, 0, 30, tzinfo=UTC)


def test_the_percentiles_of_a_window_are_near_the_exact_ones() -> None:
    """Within 10 percent, and the longest and the mean are exact."""
    stats = LatencyStats(Ticks())
    durations = [0.0001 * 1.01**number for number in range(1_000)]
    for seconds in durations:
        stats.record("Search", "engine", seconds)

    _, [found] = stats.window(timedelta(minutes=5))

    for share, value in ((0.5, found.durations.p50), (0.95, found.durations.p95), (0.99, found.durations.p99)):
        assert value == pytest.approx(durations[int(share * 1_000)], rel=0.1)
    assert found.durations.max == durations[-1]
    assert found.durations.mean == pytest.approx(sum(durations) / 1_000)


@pytest.mark.parametrize("window", [Duration(), Duration(seconds=-1), Duration(seconds=7 * 86_400, nanos=1)])
def test_a_window_that_breaks_a_rule_is_refused(tmp_path: Path, window: Duration) -> None:
    """It has to be positive and at most a week."""
    with served(tmp_path / "data") as stubs:
        assert refused(stubs.admin.GetPerformance, admin_pb.GetPerformanceRequest(window=window)).fields == ("window",)
