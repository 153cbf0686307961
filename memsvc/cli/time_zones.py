"""Names of time zones: that of this machine, and the check of one that was given."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

FOLDER = "zoneinfo/"
"""The folder of the files of zones, as it is named in links and in TZ."""
_UNNAMED = frozenset({"localtime", "posixrules", "Factory"})
"""Files of that folder that are no zones of the IANA."""


def is_time_zone(name: str) -> bool:
    """Return whether there is a time zone with this IANA name."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - a quick start

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return name not in _UNNAMED


def machine_time_zone(root: Path = Path("/")) -> str:
    """Return the IANA name of this machine's time zone: by TZ, /etc/localtime or /etc/timezone; empty if none has one.

    *root* is the folder that holds `etc`.
    """
    return next((name for name in _candidates(root) if name and is_time_zone(name)), "")


def _candidates(root: Path) -> Iterator[str]:
    yield _name(os.environ.get("TZ", "").removeprefix(":"))
    # The target names the zone; a copy of a zone's file does not.
    with contextlib.suppress(OSError, RuntimeError):
        file = str((root / "etc" / "localtime").resolve())
        yield _name(file) if FOLDER in file else ""
    try:
        yield (root / "etc" / "timezone").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return


def _name(zone: str) -> str:
    """Return the name of a zone that may be given by its file."""
    return zone.rpartition(FOLDER)[2].removeprefix("posix/").removeprefix("right/")
