"""Statistics for an operator of the service, and for others."""

from __future__ import annotations

from pathlib import Path

from memsvc.domain.scope import Scope
from tests.unit.engine.maintenance.engine_fixture import open_house


def test_warnings_about_the_whole_service_name_amounts_to_its_operator_alone(tmp_path: Path) -> None:
    """Code and severity are the same for all, and so are the counts of the scope."""
    scope = Scope("ada", "apollo")
    with open_house(tmp_path) as house:
        house.create("Tea 茶.")
        statistics = house.application.statistics
        statistics._disk = lambda: (1_000_000, 12_345)  # a disk that is nearly full
        own, others = statistics.of(scope), statistics.of(scope, is_operator=False)

    assert own.counts == others.counts
    assert (own.storage_bytes > 0, others.storage_bytes, others.pending_changes) == (True, 0, 0)
    [before], [after] = own.warnings, others.warnings
    assert (before.code, before.severity) == (after.code, after.severity) == ("STORAGE_NEARLY_FULL", before.severity)
    assert "12,345" in before.message
    assert not any(character.isdigit() for character in after.message)
