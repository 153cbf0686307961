"""Numbers that everybody can read: JSON has no bounds, the languages that read it have doubles."""

from __future__ import annotations

import sys


def fits_json_number(number: float) -> bool:
    """Return whether a number, whole or not, is finite and within the range of doubles."""
    return -sys.float_info.max <= number <= sys.float_info.max
