"""Git commits of changes to the files of a vault."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

from dulwich.errors import NotGitRepository
from dulwich.file import FileLocked, GitFile
from dulwich.ignore import IgnoreFilterManager
from dulwich.index import (
    ConflictedIndexEntry,
    IndexChecksumWriter,
    IndexEntry,
    index_entry_from_stat,
    read_index_dict_with_version,
    write_index_dict,
)
from dulwich.object_store import commit_tree_changes, tree_lookup_path
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import HEADREF, Ref
from dulwich.repo import Repo

from memsvc.engine.vault.file_status import open_inside
from memsvc.engine.vault.filesystem import reason_of

MAX_COMMIT_FILES = 2_000
"""Maximum number of files per commit, which bounds how long the index is locked."""
MAX_LISTED_FILES = 20
"""Maximum number of files named in a message."""

log = logging.getLogger(__name__)
FILE_MODE = 0o100644
IN_PROGRESS_MARKERS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")
"""Files in the Git directory that mark a merge, rebase, cherry-pick or revert in progress."""


@dataclass(frozen=True, slots=True)
class CommitFormat:
    """The author and message of commits.

    Attributes:
        message: The first line; "{summary}" in it is replaced by the counts, such as "2 added, 1 changed".
    """

    signature: CommitSignature
    message: str


class GitCommits:
    """A collector of changed files that commits them together on request. A failed commit never fails a write.

    Files that cannot be committed, during a merge for example, stay pending for the next commit.
    """

    def __init__(self, root: Path, form: CommitFormat, now: Callable[[], datetime]) -> None:
        """Commit files of *root* with times from the clock *now*."""
        self._root = root
        self._form = form
        self._now = now
        self._lock = threading.Lock()
        self._working = threading.Lock()
        self._pending: set[str] = set()
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Return the reason why the last commit failed; empty after a success."""
        return self._trouble

    @property
    def waiting_count(self) -> int:
        """Return the number of files pending a commit."""
        return len(self._pending)

    def note(self, paths: Iterable[str]) -> None:
        """Record that these files were written, changed or removed. Thread-safe and cheap."""
        with self._lock:
            self._pending.update(paths)

    def commit(self) -> int:
        """Commit the pending files, and return the number of files committed."""
        done = 0
        with self._working:
            while taken := self._take_paths():
                try:
                    files = commit_files(
                        self._root, taken, signature=self._form.signature, message=self._message, now=self._now()
                    )
                except (RepositoryBusyError, RepositoryUnsupportedError) as error:
                    self._postpone(taken, str(error))
                    break
                except OSError as error:
                    self._postpone(taken, f"{type(error).__name__}: {reason_of(error)}")
                    break
                except (NotGitRepository, ValueError, KeyError, AssertionError) as error:
                    # Dulwich raises these for a damaged repository or an unknown format. Messages may have paths of
                    # notes, which have titles.
                    self._postpone(taken, type(error).__name__)
                    break
                self._trouble = ""
                done += len(files)
        return done

    def _take_paths(self) -> list[str]:
        with self._lock:
            taken = sorted(self._pending)[:MAX_COMMIT_FILES]
            self._pending.difference_update(taken)
        return taken

    def _postpone(self, paths: Iterable[str], trouble: str) -> None:
        self.note(paths)
        if trouble != self._trouble:
            log.warning("changes of the vault are waiting to be committed to Git: %s", trouble)
        self._trouble = trouble

    def _message(self, files: CommittedFiles) -> str:
        summary = ", ".join(f"{count} {sort}" for sort, count in change_counts(files).items())
        marked = [
            *(f"A {path}" for path in files.added),
            *(f"M {path}" for path in files.changed),
            *(f"D {path}" for path in files.removed),
        ]
        more = [f"and {len(marked) - MAX_LISTED_FILES} more"] if len(marked) > MAX_LISTED_FILES else []
        return "\n".join([self._form.message.replace("{summary}", summary), "", *marked[:MAX_LISTED_FILES], *more])


# One commit of given files, independent of what users have staged.
#
# The commit is based on the tree of the last commit, so staged changes are neither included nor altered. No hook runs
# and nothing is signed: those are for people. The index is locked during the commit, as Git itself does.


_Index: TypeAlias = dict[bytes, IndexEntry | ConflictedIndexEntry]


class RepositoryBusyError(Exception):
    """The repository cannot be committed to now, because another operation is in progress; the message names it."""


class RepositoryUnsupportedError(Exception):
    """The repository does not support commits; the message says why."""


@dataclass(frozen=True, slots=True)
class CommitSignature:
    """The name and e-mail address of a committer."""

    name: str
    email: str

    def __str__(self) -> str:
        """Return the signature in Git's format."""
        return f"{self.name} <{self.email}>"


@dataclass(frozen=True, slots=True)
class CommittedFiles:
    """Files of one commit by kind of change; paths are relative to the vault."""

    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    removed: Sequence[str] = ()

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.added) + len(self.changed) + len(self.removed)


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    name: bytes
    before: ObjectID | None
    blob: Blob | None
    status: os.stat_result | None


@dataclass(slots=True)
class _StagedIndex:
    """The locked index and the changes to it."""

    entries: _Index
    version: int
    changes: dict[bytes, IndexEntry | None] = field(default_factory=dict)


def commit_files(
    root: Path,
    paths: Sequence[str],
    *,
    signature: CommitSignature,
    message: Callable[[CommittedFiles], str],
    now: datetime,
) -> CommittedFiles:
    """Commit the current state of these files of *root*, in the repository of *root*, or in a new one.

    Files that are unchanged since the last commit are left out, and new ones that Git ignores; if no file is left there
    is no commit. Return the committed files.

    Raises:
        RepositoryBusyError: A merge or rebase is in progress, no branch is checked out, or the index is locked.
        RepositoryUnfitError: The repository has no work tree, or its index has an unsupported format.
    """
    with _open_repository(root) as repository:
        branch = _branch(repository)
        with _lock_index(repository) as staged:
            head = _head(repository, branch)
            changes = list(_changes(repository, root, paths, (head, staged)))
            if not changes:
                return CommittedFiles()
            files = _sort_changes(changes)
            made = _make_commit(repository, head, changes, f"{message(files).strip()}\n", signature, now)
            if not repository.refs.set_if_equals(
                branch,
                None if head is None else head.id,
                made.id,
                committer=str(signature).encode(),
                timestamp=int(now.timestamp()),
                timezone=0,
                message=b"commit: " + made.message.split(b"\n")[0],
            ):
                message_text = f"{branch.decode(errors='replace')} was updated during the commit"
                raise RepositoryBusyError(message_text)
            _stage(staged, changes)
            return files


@contextmanager
def _open_repository(root: Path) -> Iterator[Repo]:
    try:
        repository = Repo.discover(str(root))
    except NotGitRepository:
        repository = Repo.init(str(root), default_branch=b"main")
    with repository:
        if repository.bare:
            message = "The repository has no work tree."
            raise RepositoryUnsupportedError(message)
        yield repository


def _branch(repository: Repo) -> Ref:
    """Return the checked-out branch."""
    folder = Path(os.fsdecode(repository.controldir()))
    for name in IN_PROGRESS_MARKERS:
        if (folder / name).exists():
            message = f"a merge or rebase is in progress ({name})"
            raise RepositoryBusyError(message)
    names, _ = repository.refs.follow(HEADREF)
    if len(names) == 1:
        message = "no branch is checked out"
        raise RepositoryBusyError(message)
    return names[-1]


def _head(repository: Repo, branch: Ref) -> Commit | None:
    identity = repository.refs.read_ref(branch)
    found = None if identity is None else repository[ObjectID(identity)]
    return found if isinstance(found, Commit) else None


@contextmanager
def _lock_index(repository: Repo) -> Iterator[_StagedIndex]:
    """Lock and read the index, and rewrite it if it was changed."""
    path = repository.index_path()
    try:
        file = GitFile(path, "wb")
    except FileLocked:
        message = "its index is locked"
        raise RepositoryBusyError(message) from None
    try:
        staged = _read_index(repository, Path(path))
        yield staged
        if staged.changes:
            for name, entry in staged.changes.items():
                if entry is None:
                    staged.entries.pop(name, None)
                else:
                    staged.entries[name] = entry
            writer = IndexChecksumWriter(file, repository.object_format)
            write_index_dict(writer, staged.entries, staged.version, (), repository.object_format)
            # Renames the lock over the index.
            writer.close()
    finally:
        # Does nothing after the rename.
        file.abort()


def _read_index(repository: Repo, path: Path) -> _StagedIndex:
    """Read the index. Optional extensions are caches that Git rebuilds; an index with required ones is unsupported."""
    if not path.exists():
        return _StagedIndex({}, 2)
    data = path.read_bytes()
    reader = BytesIO(data)
    entries, version, _ = read_index_dict_with_version(reader, repository.object_format)
    if reader.tell() != len(data) - repository.object_format.oid_length:
        message = "Its index is split or sparse."
        raise RepositoryUnsupportedError(message)
    return _StagedIndex(entries, version)


def _changes(
    repository: Repo, root: Path, paths: Sequence[str], known: tuple[Commit | None, _StagedIndex]
) -> Iterator[_Change]:
    """Yield differences from the last commit; files excluded by a sparse checkout do not count as removed."""
    head, staged = known
    place = os.path.relpath(root.resolve(), Path(os.fsdecode(repository.path)).resolve())
    normalizer = repository.get_blob_normalizer()
    ignored = IgnoreFilterManager.from_repo(repository)
    for path in sorted(set(paths)):
        name = os.fsencode(path if place == "." else f"{place}/{path}".replace(os.sep, "/"))
        before = _create_commit(repository, head, name)
        entry = staged.entries.get(name)
        if isinstance(entry, IndexEntry) and entry.skip_worktree:
            continue
        data, status = _read(root, path)
        if data is None:
            if before is not None:
                yield _Change(path, name, before, None, None)
            continue
        blob = normalizer.checkin_normalize(Blob.from_string(data), name)
        if blob.id != before and (before is not None or not ignored.is_ignored(os.fsdecode(name))):
            yield _Change(path, name, before, blob, status)


def _read(root: Path, path: str) -> tuple[bytes | None, os.stat_result | None]:
    try:
        descriptor = open_inside(root, path)
    except OSError:
        return None, None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(), os.fstat(descriptor)


def _create_commit(repository: Repo, head: Commit | None, name: bytes) -> ObjectID | None:
    if head is None:
        return None
    try:
        mode, identity = tree_lookup_path(repository.object_store.__getitem__, head.tree, name)
    except (KeyError, NotADirectoryError):
        return None
    return identity if stat.S_ISREG(mode) else None


def _make_commit(
    repository: Repo,
    head: Commit | None,
    changes: Sequence[_Change],
    message: str,
    signature: CommitSignature,
    now: datetime,
) -> Commit:
    blobs = [(change.blob, None) for change in changes if change.blob is not None]
    repository.object_store.add_objects(blobs)
    wanted = [
        (change.name, None, None) if change.blob is None else (change.name, FILE_MODE, change.blob.id)
        for change in changes
    ]
    commit = Commit()
    commit.tree = commit_tree_changes(repository.object_store, Tree() if head is None else head.tree, wanted)
    commit.parents = [] if head is None else [head.id]
    commit.author = commit.committer = str(signature).encode()
    commit.author_time = commit.commit_time = int(now.timestamp())
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = message.encode()
    repository.object_store.add_object(commit)
    return commit


def _stage(staged: _StagedIndex, changes: Sequence[_Change]) -> None:
    """Update the index with the committed files, except those with a different staged version."""
    for change in changes:
        entry = staged.entries.get(change.name)
        held = entry.sha if isinstance(entry, IndexEntry) else None
        wanted = None if change.blob is None else change.blob.id
        if isinstance(entry, ConflictedIndexEntry) or held not in {change.before, wanted}:
            continue
        if change.blob is None or change.status is None:
            staged.changes[change.name] = None
        else:
            staged.changes[change.name] = index_entry_from_stat(change.status, change.blob.id, FILE_MODE)


def _sort_changes(changes: Sequence[_Change]) -> CommittedFiles:
    return CommittedFiles(
        added=[change.path for change in changes if change.before is None],
        changed=[change.path for change in changes if change.before is not None and change.blob is not None],
        removed=[change.path for change in changes if change.blob is None],
    )


def change_counts(files: CommittedFiles) -> Mapping[str, int]:
    """Return the number of files per kind of change, without zeros."""
    sorts = {"added": len(files.added), "changed": len(files.changed), "removed": len(files.removed)}
    return {sort: count for sort, count in sorts.items() if count}
