"""What may be wrong with what is stored, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from memsvc.domain.memory import FileRef

ORPHAN_GRACE = timedelta(days=7)
"""For how long a file may be without a memory that refers to it, unless somebody says otherwise."""


class Fault(StrEnum):
    """Something that is not as it should be."""

    LINK = "LINK"
    CONTENT = "CONTENT"
    CHUNKS = "CHUNKS"
    KEYWORDS = "KEYWORDS"
    CONFLICT = "CONFLICT"
    MESSAGE = "MESSAGE"
    SESSION = "SESSION"
    REMAINS = "REMAINS"
    INDEX_MISSING = "INDEX_MISSING"
    INDEX_STALE = "INDEX_STALE"
    INDEX_ORPHANED = "INDEX_ORPHANED"
    FILE_REF = "FILE_REF"
    FILE_ORPHANED = "FILE_ORPHANED"
    FILE_CONTENT = "FILE_CONTENT"


class Part(StrEnum):
    """What a store keeps beside a memory, and what may be left of one that is gone."""

    CHUNKS = "chunks"
    KEYWORDS = "keywords"
    TAGS = "tags"
    METADATA = "metadata"
    REFS = "references to files"
    VECTORS = "vectors"
    STATEMENTS = "statements"
    REVISIONS = "revisions"


REMEDIES: Mapping[Fault, str] = {
    Fault.LINK: "The link is taken away, in a new revision.",
    Fault.CONTENT: "The content stays as it is and the hash is made anew, in a new revision.",
    Fault.CHUNKS: "The pieces are cut anew, in a new revision.",
    Fault.KEYWORDS: "They are entered anew.",
    Fault.CONFLICT: "The conflict is removed.",
    Fault.MESSAGE: "It is removed from the order of messages; a content that is there stays as a memory.",
    Fault.SESSION: "None: right when the messages were removed for good; else close the session.",
    Fault.REMAINS: "They are removed.",
    Fault.INDEX_MISSING: "The entries are written.",
    Fault.INDEX_STALE: "The entries are written anew.",
    Fault.INDEX_ORPHANED: "The entries are removed.",
    Fault.FILE_REF: "With remove_broken_refs it is taken from file_refs; one in the content is for you to change.",
    Fault.FILE_ORPHANED: "With remove_orphan_files it is removed for good.",
    Fault.FILE_CONTENT: "None: upload the same bytes once more.",
}
"""What a repair does about each."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be; empty names where it is about no memory, or nobody's."""

    fault: Fault
    detail: str
    memory_id: str = ""
    user_id: str = ""
    project_id: str = ""
    is_repaired: bool = False
    file_ref: FileRef | None = None


@dataclass(frozen=True, slots=True)
class FileCleaning:
    """What is to be done about files and references to files: looked at only, unless this says otherwise.

    Attributes:
        grace: For how long a file may be without a memory that refers to it.
        is_off: Whether they are left aside.
    """

    removes_broken_refs: bool = False
    removes_orphan_files: bool = False
    grace: timedelta = ORPHAN_GRACE
    is_off: bool = False


@dataclass(frozen=True, slots=True)
class Checking:
    """How far a check is in one of its parts."""

    part: str
    checked: int


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """The end of a check: *unchecked* says what could not be looked at, and why."""

    memories: int
    findings: int
    repaired: int
    by_fault: Mapping[str, int]
    unchecked: tuple[str, ...] = ()
