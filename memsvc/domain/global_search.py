"""A search over memories and files at once: what is asked, and the groups of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from memsvc.domain.files import File, FileCategory
from memsvc.domain.scope import Scope, Visibility
from memsvc.domain.search import SearchQuery, SearchReply


class Group(StrEnum):
    """A part of the answer."""

    MEMORY = "MEMORY"
    FILES = "FILES"
    REPORTS = "REPORTS"
    CHARTS = "CHARTS"


CATEGORIES: Mapping[Group, AbstractSet[FileCategory]] = {
    Group.FILES: frozenset(FileCategory) - {FileCategory.REPORT, FileCategory.CHART},
    Group.REPORTS: frozenset({FileCategory.REPORT}),
    Group.CHARTS: frozenset({FileCategory.CHART}),
}
"""Which files are in which group: every category in one."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a search found. *score* is over 0 and at most 1: comparable within one search only."""

    file: File
    score: float


@dataclass(frozen=True, slots=True)
class GlobalQuery:
    """A search over several groups.

    Attributes:
        memories: How memories are looked for; None: not at all.
        groups: The groups of files that are wanted.
        limit: How many of each group to return at most.
    """

    scope: Scope
    text: str
    visibility: Visibility
    groups: AbstractSet[Group]
    limit: int
    memories: SearchQuery | None = None


@dataclass(frozen=True, slots=True)
class GlobalReply:
    """What was found, by group; *memories* is None when they were not looked for."""

    memories: SearchReply | None
    files: Mapping[Group, tuple[FoundFile, ...]] = field(default_factory=dict)
