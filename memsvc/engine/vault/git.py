"""Git commits of what happened to the files of a vault (requirement V4)."""

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

MOST_FILES = 2_000
"""Files of one commit, so that the index is not held for long."""
SHOWN = 20
"""Files named in a message."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitForm:
    """What commits look like.

    Attributes:
        message: The first line; "{summary}" in it stands for what happened, such as "2 added, 1 changed".
    """

    signature: Signature
    message: str


class GitCommits:
    """Collects the files that changed and commits them together, when asked to. Nothing here ever fails a write.

    What cannot be committed, because somebody merges, say, waits for the next time.
    """

    def __init__(self, root: Path, form: CommitForm, now: Callable[[], datetime]) -> None:
        """Commit files of *root*; *now* is the clock."""
        self._root = root
        self._form = form
        self._now = now
        self._lock = threading.Lock()
        self._working = threading.Lock()
        self._pending: set[str] = set()
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Return why the last commit was not made; empty when nothing was in the way."""
        return self._trouble

    @property
    def waiting(self) -> int:
        """Return how many files wait to be committed."""
        return len(self._pending)

    def note(self, paths: Iterable[str]) -> None:
        """Note that these files were written, changed or removed. To be called by any thread; costs next to nothing."""
        with self._lock:
            self._pending.update(paths)

    def commit(self) -> int:
        """Commit what was noted, and return how many files were committed."""
        done = 0
        with self._working:
            while taken := self._taken():
                try:
                    files = commit_files(
                        self._root, taken, signature=self._form.signature, message=self._message, now=self._now()
                    )
                except (RepositoryBusyError, RepositoryUnfitError) as error:
                    self._put_off(taken, str(error))
                    break
                except (NotGitRepository, OSError, ValueError, KeyError, AssertionError) as error:
                    # Dulwich says by these that a repository is damaged, or of a form that it does not know.
                    self._put_off(taken, f"{type(error).__name__}: {error}")
                    break
                self._trouble = ""
                done += len(files)
        return done

    def _taken(self) -> list[str]:
        with self._lock:
            taken = sorted(self._pending)[:MOST_FILES]
            self._pending.difference_update(taken)
        return taken

    def _put_off(self, paths: Iterable[str], trouble: str) -> None:
        self.note(paths)
        if trouble != self._trouble:
            log.warning("changes of the vault wait to be committed to Git: %s", trouble)
        self._trouble = trouble

    def _message(self, files: Files) -> str:
        summary = ", ".join(f"{count} {sort}" for sort, count in counted(files).items())
        marked = [
            *(f"A {path}" for path in files.added),
            *(f"M {path}" for path in files.changed),
            *(f"D {path}" for path in files.removed),
        ]
        more = [f"and {len(marked) - SHOWN} more"] if len(marked) > SHOWN else []
        return "\n".join([self._form.message.replace("{summary}", summary), "", *marked[:SHOWN], *more])


# One commit of some files of a Git repository, beside whatever its people are about to commit.
#
# The commit is made of the last one's tree, so what people have staged is neither in it nor changed by it. No hook runs
# and nothing is signed: those are for people. The index is locked meanwhile, as Git itself does.


FILE_MODE = 0o100644
UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")
"""Files of a repository in which somebody merges or rebases."""

_Index: TypeAlias = dict[bytes, IndexEntry | ConflictedIndexEntry]


class RepositoryBusyError(Exception):
    """The repository cannot be committed to just now, since somebody works in it; the message says what they do."""


class RepositoryUnfitError(Exception):
    """The repository is none that can be committed to; the message says why."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who commits."""

    name: str
    email: str

    def __str__(self) -> str:
        """Return it as Git writes it."""
        return f"{self.name} <{self.email}>"


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one commit, by what happened to them; paths as the vault names them."""

    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    removed: Sequence[str] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.added) + len(self.changed) + len(self.removed)


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    name: bytes
    before: ObjectID | None
    blob: Blob | None
    status: os.stat_result | None


@dataclass(slots=True)
class _Staged:
    """The index, held."""

    entries: _Index
    version: int
    changes: dict[bytes, IndexEntry | None] = field(default_factory=dict)


def commit_files(
    root: Path, paths: Sequence[str], *, signature: Signature, message: Callable[[Files], str], now: datetime
) -> Files:
    """Commit how these files of *root* lie there now, in the repository that *root* is in, or in a new one.

    Files that are as the last commit has them are left out, those that Git is told to ignore too; without any other
    there is no commit. Return what was committed.

    Raises:
        RepositoryBusyError: Somebody merges, rebases, has no branch checked out, or holds the index.
        RepositoryUnfitError: It has no work tree, or its index is of a kind that is not understood.
    """
    with _opened(root) as repository:
        branch = _branch(repository)
        with _held_index(repository) as staged:
            head = _head(repository, branch)
            changes = list(_changes(repository, root, paths, (head, staged)))
            if not changes:
                return Files()
            files = _sorted_out(changes)
            made = _made(repository, head, changes, f"{message(files).strip()}\n", signature, now)
            if not repository.refs.set_if_equals(
                branch,
                None if head is None else head.id,
                made.id,
                committer=str(signature).encode(),
                timestamp=int(now.timestamp()),
                timezone=0,
                message=b"commit: " + made.message.split(b"\n")[0],
            ):
                message_text = f"{branch.decode(errors='replace')} moved on meanwhile"
                raise RepositoryBusyError(message_text)
            _stage(staged, changes)
            return files


@contextmanager
def _opened(root: Path) -> Iterator[Repo]:
    try:
        repository = Repo.discover(str(root))
    except NotGitRepository:
        repository = Repo.init(str(root), default_branch=b"main")
    with repository:
        if repository.bare:
            message = "The repository has no work tree."
            raise RepositoryUnfitError(message)
        yield repository


def _branch(repository: Repo) -> Ref:
    """Return the branch that is checked out."""
    folder = Path(os.fsdecode(repository.controldir()))
    for name in UNDER_WAY:
        if (folder / name).exists():
            message = f"somebody merges or rebases in it ({name})"
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
def _held_index(repository: Repo) -> Iterator[_Staged]:
    """Read the index, keep everybody else from it, and write it anew if changes to it were noted."""
    path = repository.index_path()
    try:
        file = GitFile(path, "wb")
    except FileLocked:
        message = "somebody holds its index"
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
        # After the renaming this does nothing.
        file.abort()


def _read_index(repository: Repo, path: Path) -> _Staged:
    """Read the index. Its extensions are caches, which Git fills anew; one that is more than that is none of ours."""
    if not path.exists():
        return _Staged({}, 2)
    data = path.read_bytes()
    reader = BytesIO(data)
    entries, version, _ = read_index_dict_with_version(reader, repository.object_format)
    if reader.tell() != len(data) - repository.object_format.oid_length:
        message = "Its index is split or sparse."
        raise RepositoryUnfitError(message)
    return _Staged(entries, version)


def _changes(
    repository: Repo, root: Path, paths: Sequence[str], known: tuple[Commit | None, _Staged]
) -> Iterator[_Change]:
    """Yield what differs from the last commit; files that a sparse checkout leaves out are not missing."""
    head, staged = known
    place = os.path.relpath(root.resolve(), Path(os.fsdecode(repository.path)).resolve())
    normalizer = repository.get_blob_normalizer()
    ignored = IgnoreFilterManager.from_repo(repository)
    for path in sorted(set(paths)):
        name = os.fsencode(path if place == "." else f"{place}/{path}".replace(os.sep, "/"))
        before = _committed(repository, head, name)
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


def _committed(repository: Repo, head: Commit | None, name: bytes) -> ObjectID | None:
    if head is None:
        return None
    try:
        mode, identity = tree_lookup_path(repository.object_store.__getitem__, head.tree, name)
    except (KeyError, NotADirectoryError):
        return None
    return identity if stat.S_ISREG(mode) else None


def _made(
    repository: Repo, head: Commit | None, changes: Sequence[_Change], message: str, signature: Signature, now: datetime
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


def _stage(staged: _Staged, changes: Sequence[_Change]) -> None:
    """Note for the index what was committed, but for files of which somebody has staged a version of their own."""
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


def _sorted_out(changes: Sequence[_Change]) -> Files:
    return Files(
        added=[change.path for change in changes if change.before is None],
        changed=[change.path for change in changes if change.before is not None and change.blob is not None],
        removed=[change.path for change in changes if change.blob is None],
    )


def counted(files: Files) -> Mapping[str, int]:
    """Return how many files there are of each sort, without those of which there are none."""
    sorts = {"added": len(files.added), "changed": len(files.changed), "removed": len(files.removed)}
    return {sort: count for sort, count in sorts.items() if count}
