"""Rules for contexts, and for what is loaded at a start."""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memsvc.domain import limits
from memsvc.domain.context import Locale
from memsvc.server.convert.enums import SECTION
from memsvc.server.convert.vectors import numbers_from_proto
from memsvc.server.validate.filters import check_filter
from memsvc.server.validate.history import check_as_of
from memsvc.server.validate.scopes import check_scope
from memsvc.server.validate.values import (
    check_enums,
    check_integer,
    check_number,
    check_text,
    check_vector,
)
from memsvc.server.validate.violations import Violations
from memsvc.v1 import context_pb2 as pb

MOST_TOKENS = 10_000_000
SECTIONS = 64
TOLERANCE = 0.001
LOCALE, TIME_ZONE = 35, 64
SHARES = ("core", "session", "short_term", "long_term")


def check_build(request: pb.BuildContextRequest, *, dimension: int) -> None:
    """Check a request for a context, but for its tokens."""
    found = Violations()
    check_scope(found, request.scope)
    if not request.cursor:
        _check_wanted(found, request, dimension)
    elif request.earlier_cursor:
        found.add("earlier_cursor", "must not be given together with cursor")
    found.finish()


def check_render(request: pb.RenderContextRequest, *, dimension: int) -> None:
    """Check a request for a rendered context, but for its tokens."""
    found = Violations()
    check_scope(found, request.scope)
    _check_wanted(found, request, dimension)
    found.finish()


def check_load_core(request: pb.LoadCoreRequest) -> None:
    """Check a request for what is loaded at a start."""
    found = Violations()
    check_scope(found, request.scope)
    check_integer(found, "limit", request.limit, least=1, most=limits.SEARCH_LIMIT)
    check_zone(found, "time_zone", request.time_zone)
    found.finish()


@cache
def known_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of a name; none without a name is UTC, None is none at all."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def check_zone(found: Violations, field: str, name: str) -> None:
    """Check the name of a time zone; it may be empty."""
    if len(name) > TIME_ZONE or known_zone(name) is None:
        found.add(field, "must be the IANA name of a time zone such as 'Asia/Shanghai', or empty")


def language_of(locale: str) -> str:
    """Return the language of a locale, such as "zh" of "zh-CN"."""
    return locale.replace("_", "-").partition("-")[0].lower()


def _check_wanted(found: Violations, request: pb.BuildContextRequest | pb.RenderContextRequest, dimension: int) -> None:
    check_text(found, "query", request.query, most=limits.QUERY)
    check_vector(found, "vector", numbers_from_proto(request), dimension)
    options = request.options
    if options.HasField("total_tokens") and not 1 <= options.total_tokens <= MOST_TOKENS:
        found.add("options.total_tokens", f"must be 1 to {MOST_TOKENS}, or absent for the default")
    if options.HasField("shares"):
        _check_shares(found, options.shares)
    check_enums(found, "options.sections", options.sections, SECTION.from_proto, count=SECTIONS)
    if options.HasField("filter"):
        check_filter(found, options.filter, field="options.filter")
    check_as_of(found, options.as_of, field="options.as_of")
    check_integer(found, "options.relevant_limit", options.relevant_limit, least=1, most=limits.SEARCH_LIMIT)
    check_number(found, "options.min_score", options.min_score, most=1.0)
    if len(options.locale) > LOCALE or (options.locale and language_of(options.locale) not in set(Locale)):
        found.add("options.locale", "must be 'en' or 'zh', with or without a region, or empty")
    check_zone(found, "options.time_zone", options.time_zone)


def _check_shares(found: Violations, shares: pb.ContextShares) -> None:
    values = {name: getattr(shares, name) for name in SHARES}
    for name, value in values.items():
        check_number(found, f"options.shares.{name}", value, most=1.0)
    total = sum(values.values())
    if all(0.0 <= value <= 1.0 for value in values.values()) and abs(total - 1.0) > TOLERANCE:
        found.add("options.shares", f"must sum to 1, not {total:g}")
