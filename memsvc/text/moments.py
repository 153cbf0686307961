"""Moments as people read them: in their time zone, and as a day."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo


def local(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return *moment* as clocks in *zone* show it, or in UTC where they would show a year before 1 or after 9999.

    Without a zone the clock is that of this machine.
    """
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment.astimezone(UTC)


def day_text(moment: date) -> str:
    """Return the day of *moment* as "2026-02-06", the year always with four digits, which "%Y" does not promise."""
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}"
