"""Notes, entries and results of the vault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memsvc.domain.memory import Memory
from memsvc.domain.write_requests import PatchValue


class NoteFormat(StrEnum):
    """Names of the front matter. MEMSVC: those of the API. OKF: those of the Open Knowledge Format 0.2."""

    MEMSVC = "memsvc"
    OKF = "okf"


@dataclass(frozen=True, slots=True)
class Note:
    """Note of a memory, as read from its file.

    Attributes:
        values: Fields of `Memory` by name, content among them. A note with an id says all that a person may edit: what
            its file leaves out has its default there. One without an id says only what its file names.
        memory_id: Empty when the file names none.
        agent_id: Of the memory's scope, as the file names it; likewise *session_id*.
    """

    values: Mapping[str, PatchValue]
    memory_id: str = ""
    agent_id: str = ""
    session_id: str = ""

    @property
    def content(self) -> str:
        """Return the text below the front matter."""
        return str(self.values["content"])


class NoteError(Exception):
    """A file that cannot be read as a memory.

    Attributes:
        line: Counted from 1; 0: the file as a whole.
        description: What is wrong, and what would be right. It quotes no content.
    """

    def __init__(self, line: int, description: str) -> None:
        super().__init__(f"line {line}: {description}" if line else description)
        self.line = line
        self.description = description


@dataclass(frozen=True, slots=True)
class VaultEntry:
    """Entry of the vault's manifest for one of its files.

    Attributes:
        memory_id: Whose file it is; empty: it is the transcript of *session_id*.
        digest: The SHA-256 of the file as it was last written or taken back, lower-case hex.
        revision: The memory's revision that the file says; of a transcript `memsvc.ports.features.Transcript.stamp`.
        anchor: `memsvc.domain.vault_layout.NoteLocation.anchor` at that time.
    """

    path: str
    owner: str
    project_id: str
    digest: str
    revision: int
    anchor: str = ""
    memory_id: str = ""
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class VaultCopy:
    """A file that is no memory, because it is a copy of the file of a memory that has another one.

    Attributes:
        digest: The SHA-256 of the file as it was rejected, lower-case hex.
        memory_id: The memory of which it is a copy.
    """

    path: str
    owner: str
    project_id: str
    digest: str
    memory_id: str


class VaultAction(StrEnum):
    """Action on one file, done or planned by a dry run. The first ones change the vault, the others the store."""

    WRITTEN = "WRITTEN"
    """The file was written again from its memory."""
    MOVED = "MOVED"
    """The file was written at another path, since the memory's place changed."""
    REMOVED = "REMOVED"
    """The file was removed, since its memory was deleted or is withheld."""
    CREATED = "CREATED"
    """A new memory was made of the file."""
    UPDATED = "UPDATED"
    """The file was edited, and its memory has a next revision."""
    RENAMED = "RENAMED"
    """The file has another path; its memory is the same one."""
    DELETED = "DELETED"
    """The file was removed, and its memory deleted softly."""
    RESTORED = "RESTORED"
    """The file of a deleted memory came back, and so did the memory."""
    CONFLICT = "CONFLICT"
    """File and memory were both changed: both are kept."""
    INVALID = "INVALID"
    """The file cannot be read as a memory; it was left alone."""
    READ_ONLY = "READ_ONLY"
    """The file is a transcript, whose edits are not taken back; it was left alone."""
    UNCHANGED = "UNCHANGED"
    """File and memory say the same."""
    IGNORED = "IGNORED"
    """The path is none that the vault looks at."""


@dataclass(frozen=True, slots=True)
class FileResult:
    """Result for one file.

    Attributes:
        line: Where the file is wrong; 0: nowhere in particular.
        detail: What is wrong, or the path of the other version of a conflict.
        kept_path: The path of the other version of a conflict; empty: none was kept.
    """

    path: str
    action: VaultAction
    memory_id: str = ""
    line: int = 0
    detail: str = ""
    kept_path: str = ""


@dataclass(frozen=True, slots=True)
class MergedNote:
    """Policy that merges two changes of one memory.

    Attributes:
        note: What the memory says from now on.
        other_version: The other version, to be kept as a file of its own; None: *note* contains both.
    """

    note: Note
    other_version: Memory | None = None


@dataclass(frozen=True, slots=True)
class VaultProgress:
    """Progress of a synchronisation: *done* files were examined in *phase*."""

    phase: str
    done: int


@dataclass(frozen=True, slots=True)
class VaultSummary:
    """Summary of a synchronisation.

    Attributes:
        files: Notes that were found in the vault.
        known: Files that the vault knows.
        behind: Changes of memories that the writer has still to look at.
        counts: Files by what was done with them; those of which there are none are left out.
    """

    files: int = 0
    known: int = 0
    behind: int = 0
    counts: Mapping[VaultAction, int] = field(default_factory=dict)


def differences(note: Note, memory: Memory, shown: Note) -> dict[str, PatchValue]:
    """Return what *note* says otherwise than *memory* does, whose own note is *shown*."""
    found = {name: value for name, value in note.values.items() if not _same(name, value, getattr(memory, name))}
    if note.memory_id:
        # What a file shows only when it was given is taken away by taking it out of the file.
        cleared: dict[str, PatchValue] = {"keywords": (), "reminder": None}
        found |= {name: value for name, value in cleared.items() if name in shown.values.keys() - note.values.keys()}
    return found


def _same(name: str, new: object, old: object) -> bool:
    if name == "metadata":
        # As JSON, because to Python True equals 1.
        return json.dumps(new, sort_keys=True, default=dict) == json.dumps(old, sort_keys=True, default=dict)
    if name == "keywords" and isinstance(new, tuple) and isinstance(old, tuple):
        return set(new) == set(old)
    return new == old
