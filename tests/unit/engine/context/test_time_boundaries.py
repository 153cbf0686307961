"""Contexts with memories of the first and the last days that there are, and contexts as of those days."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memsvc.domain.context import Section
from memsvc.domain.history import AsOf
from memsvc.domain.memory import Kind, Layer
from memsvc.domain.scope import Scope
from memsvc.engine.services import Services
from tests.unit.engine.context.context_fixture import HERE, WHOLE, WORLD, events, remember, shown, text_of

WEB = Scope("ada", "web")
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
ZONES = ("UTC", "America/New_York", "Asia/Shanghai", "Pacific/Kiritimati")


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("moment", "day"), [(FIRST, "0001-01-01"), (LAST, "9999-12-31"), (datetime(987, 6, 5, 12, tzinfo=UTC), "0987-06-0")]
)
def test_a_day_at_the_limits_is_told(application: Services, moment: datetime, day: str, zone: str) -> None:
    """In every zone: where its clocks would leave the years 1 to 9999, the day is that of UTC; years have four digits."""
    made = remember(application, WORLD, "Answer in short sentences.", layer=Layer.CORE, event_time=moment)
    said = remember(application, HERE, "Hello there.", kind=Kind.MESSAGE, event_time=moment)

    lines = text_of(events(application, replace(WHOLE, text="", zone=ZoneInfo(zone)))).splitlines()

    for memory in (made, said):
        [line] = [line for line in lines if memory.content in line]
        assert f"] {day}" in line


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("moment", [FIRST, LAST])
@pytest.mark.parametrize("which", ["valid_time", "known_time"])
def test_a_context_of_a_moment_at_the_limits_is_built(
    application: Services, which: str, moment: datetime, zone: str
) -> None:
    """Of what was true or known at the first or the last moment, in any zone, with all its sections."""
    note = remember(application, WEB, "Deployed at nine.", layer=Layer.SHORT_TERM)
    as_of = AsOf(valid_time=moment) if which == "valid_time" else AsOf(known_time=moment)

    happened = events(application, replace(WHOLE, text="", zone=ZoneInfo(zone), as_of=as_of))

    # Whatever is there was changed after the first moment, long before the last one, and not known at the first.
    is_recent = moment == FIRST and which == "valid_time"
    assert shown(happened, Section.SHORT_TERM) == ([note.id] if is_recent else [])
