"""Rules for field values that the API, front matter and user imports share.

Each rule returns the description of what is wrong with a value, or an empty string. The numbers are in
`memsvc.domain.limits`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memsvc.domain import limits

UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_NO_ZONES = frozenset({"localtime", "posixrules", "Factory"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_VISIBLE = re.compile(r"[^\s\u00ad\u200b-\u200f\u2060\ufeff]")


def length_fault(text: str, *, most: int, least: int = 0) -> str:
    """Return the fault of a text whose length in characters is out of bounds."""
    if least <= len(text) <= most:
        return ""
    bounds = f"{least} to {most}" if least else f"at most {most}"
    return f"must have {bounds} characters, not {len(text)}"


def nul_fault(text: str) -> str:
    """Return the fault of a text that contains NUL, which neither database stores."""
    return "must not contain NUL" if "\0" in text else ""


def control_fault(text: str) -> str:
    """Return the fault of a name that contains control characters."""
    return "must not contain control characters" if _CONTROL.search(text) else ""


def text_fault(text: str, *, most: int, least: int = 0) -> str:
    """Return the fault of a free text: its length, or a NUL in it."""
    if least <= len(text) <= most and "\0" not in text:
        return ""
    return length_fault(text, most=most, least=least) or nul_fault(text)


def is_blank(text: str) -> bool:
    """Return whether a text has nothing but white space and characters without a width."""
    return _VISIBLE.search(text) is None


def content_fault(text: str) -> str:
    """Return the fault of the content of a memory: its length, a NUL in it, or that it is blank."""
    return text_fault(text, most=limits.CONTENT, least=1) or ("must not be blank" if is_blank(text) else "")


def name_fault(text: str, *, most: int, least: int = 0) -> str:
    """Return the fault of a text that names something: its length, or control characters in it."""
    if not text and not least:
        return ""
    return length_fault(text, most=most, least=least) or control_fault(text)


def count_fault(values: Collection[object], *, most: int, least: int = 0) -> str:
    """Return the fault of a list with too few or too many values."""
    if least <= len(values) <= most:
        return ""
    bounds = f"{least} to {most}" if least else f"at most {most}"
    return f"must hold {bounds} values, not {len(values)}"


JSON_TOO_LONG = f"must take at most {limits.METADATA_BYTES} bytes as JSON text"


def json_size_fault(text: str) -> str:
    """Return the fault of metadata whose JSON text is too long.

    Raises:
        UnicodeEncodeError: The text contains lone surrogates.
    """
    return "" if len(text.encode()) <= limits.METADATA_BYTES else JSON_TOO_LONG


def json_depth_fault(depth: int) -> str:
    """Return the fault of an object or list in metadata that is nested too deep."""
    return f"must be nested at most {limits.METADATA_DEPTH} deep" if depth > limits.METADATA_DEPTH else ""


@lru_cache(maxsize=1_000)
def time_zone(name: str) -> ZoneInfo | None:
    """Return the time zone with an IANA name, UTC for an empty name, or None for an unknown name.

    Files of the machine next to those of the zones are none: "localtime" is the zone of whichever machine is asked, and
    those of "right/" count leap seconds.
    """
    if name in _NO_ZONES or name.startswith("right/"):
        return None
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
