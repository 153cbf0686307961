"""Commits of the vault's files in real repositories, looked at by Git itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.engine.vault import git as commits
from memsvc.engine.vault.git import CommitFormat, CommitSignature, GitCommits

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NOW = datetime(2026, 2, 6, 10, 11, 12, tzinfo=UTC)
FORM = CommitFormat(CommitSignature("memsvc 记忆", "memsvc@example.org"), "memory: {summary}")
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Someone",
    "GIT_AUTHOR_EMAIL": "someone@example.org",
    "GIT_COMMITTER_NAME": "Someone",
    "GIT_COMMITTER_EMAIL": "someone@example.org",
}


class Shell:
    """Git as a person uses it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "core.quotepath=off", "-c", "commit.gpgsign=false", *arguments],
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.rstrip("\n")

    def files(self) -> list[str]:
        """Return the paths of the last commit."""
        return self("ls-tree", "-r", "--name-only", "HEAD").split("\n")

    def status(self) -> str:
        return self("status", "--porcelain", "-uall")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """Return a vault within a repository of a person, who has committed and staged things of their own."""
    folder = tmp_path / "project" / "notes" / "vault"
    folder.mkdir(parents=True)
    git = Shell(tmp_path / "project")
    git("init", "-q", "-b", "work")
    (tmp_path / "project" / "code.py").write_text("one\n")
    (folder / "x.md").write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "mine")
    return folder


@pytest.fixture
def git(vault: Path) -> Shell:
    return Shell(vault.parent.parent)


@pytest.fixture
def ours(vault: Path) -> GitCommits:
    return GitCommits(vault, FORM, lambda: NOW)


def test_only_the_vaults_files_are_committed(vault: Path, git: Shell, ours: GitCommits) -> None:
    """What is written, new and removed; by whom and with what message the settings say; the work tree is clean then."""
    (vault / "deep" / "er").mkdir(parents=True)
    (vault / "deep" / "er" / "巴黎.md").write_text("new\n")
    (vault / "gone.md").write_text("new\n")
    ours.note(["deep/er/巴黎.md", "gone.md"])
    first = ours.commit()
    (vault / "x.md").write_text("two\n")
    (vault / "gone.md").unlink()
    ours.note(["x.md", "gone.md"])
    second = ours.commit()

    assert (first, second) == (2, 2)
    assert git.files() == ["code.py", "notes/vault/deep/er/巴黎.md", "notes/vault/x.md"]
    assert git("log", "--format=%an <%ae> %cI %s", "-2") == (
        "memsvc 记忆 <memsvc@example.org> 2026-02-06T10:11:12+00:00 memory: 1 changed, 1 removed\n"
        "memsvc 记忆 <memsvc@example.org> 2026-02-06T10:11:12+00:00 memory: 2 added"
    )
    assert git("log", "--format=%b", "-1") == "M x.md\nD gone.md"
    assert git("log", "-1", "--format=", "--name-status") == "D\tnotes/vault/gone.md\nM\tnotes/vault/x.md"
    assert git.status() == ""
    assert git("fsck", "--strict") == ""


def test_what_a_person_has_staged_or_left_lying_stays_theirs(vault: Path, git: Shell, ours: GitCommits) -> None:
    """Neither is it committed, nor does it leave the index; a later commit of theirs holds theirs and nothing else."""
    (git.folder / "code.py").write_text("staged\n")
    git("add", "code.py")
    (git.folder / "code.py").write_text("staged and then edited\n")
    (git.folder / "loose.txt").write_text("loose\n")
    (vault / "of-theirs.md").write_text("nobody noted this\n")
    (vault / "new.md").write_text("new\n")
    ours.note(["new.md"])

    assert ours.commit() == 1

    assert git.status() == "MM code.py\n?? loose.txt\n?? notes/vault/of-theirs.md"
    git("commit", "-qm", "theirs")
    assert git("log", "-1", "--format=", "--name-status") == "M\tcode.py"
    assert git("show", "HEAD:code.py") == "staged"
    assert git("show", "HEAD:notes/vault/new.md") == "new"


def test_a_version_of_our_file_that_a_person_has_staged_stays_staged(vault: Path, git: Shell, ours: GitCommits) -> None:
    """The commit holds the file as it lies there, the index theirs."""
    (vault / "x.md").write_text("staged\n")
    git("add", "notes/vault/x.md")
    (vault / "x.md").write_text("two\n")
    ours.note(["x.md"])

    assert ours.commit() == 1

    assert (git("show", "HEAD:notes/vault/x.md"), git("show", ":notes/vault/x.md")) == ("two", "staged")


def test_a_vault_outside_of_any_repository_becomes_one(tmp_path: Path) -> None:
    """With a first commit on a branch."""
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "x.md").write_text("one\n")
    ours, git = GitCommits(tmp_path / "vault", FORM, lambda: NOW), Shell(tmp_path / "vault")
    ours.note(["x.md", "never.md"])

    assert ours.commit() == 1

    assert (git.files(), git("branch", "--show-current"), git.status()) == (["x.md"], "main", "")


def test_nothing_is_committed_where_nothing_changed(vault: Path, git: Shell, ours: GitCommits) -> None:
    """Files as the last commit has them, files that never were, and ignored ones make no commit."""
    (git.folder / ".gitignore").write_text("private*\n")
    (vault / "private.md").write_text("mine\n")
    head = git("rev-parse", "HEAD")
    ours.note(["x.md", "never.md", "private.md"])

    assert (ours.commit(), ours.commit()) == (0, 0)

    assert (git("rev-parse", "HEAD"), ours.waiting_count) == (head, 0)


def _merging(git: Shell) -> Callable[[], object]:
    marker = git.folder / ".git" / "MERGE_HEAD"
    marker.write_text(git("rev-parse", "HEAD"))
    return marker.unlink


def _detached(git: Shell) -> Callable[[], object]:
    git("checkout", "-q", "--detach")
    return lambda: git("checkout", "-q", "work")


def _locked(git: Shell) -> Callable[[], object]:
    lock = git.folder / ".git" / "index.lock"
    lock.write_bytes(b"")
    return lock.unlink


def _split(git: Shell) -> Callable[[], object]:
    git("update-index", "--split-index")
    return lambda: git("update-index", "--no-split-index")


@pytest.mark.parametrize("hinder", [_merging, _detached, _locked, _split])
def test_commits_wait_while_somebody_works_in_the_repository(
    vault: Path, git: Shell, ours: GitCommits, hinder: Callable[[Shell], Callable[[], object]]
) -> None:
    """During a merge, without a branch, while the index is held or of another kind; then they are made."""
    (vault / "x.md").write_text("two\n")
    head = git("rev-parse", "HEAD")
    release = hinder(git)
    ours.note(["x.md"])

    assert (ours.commit(), ours.waiting_count, bool(ours.trouble)) == (0, 1, True)

    release()
    assert git("rev-parse", "HEAD") == head
    assert (ours.commit(), ours.waiting_count, ours.trouble) == (1, 0, "")
    assert git("show", "HEAD:notes/vault/x.md") == "two"


def test_a_damaged_repository_is_a_trouble_and_no_error(vault: Path, git: Shell, ours: GitCommits) -> None:
    """Whoever writes hears nothing of it; the files wait."""
    (git.folder / ".git" / "index").write_bytes(b"no index at all")
    (vault / "x.md").write_text("two\n")
    ours.note(["x.md"])

    assert (ours.commit(), ours.waiting_count) == (0, 1)
    assert ours.trouble
    assert not (git.folder / ".git" / "index.lock").exists()


def test_line_ends_are_those_that_git_is_told_to_keep(vault: Path, git: Shell, ours: GitCommits) -> None:
    """With the attribute text a file with Windows' line ends is committed with Git's, as `git add` does."""
    (git.folder / ".gitattributes").write_text("*.md text\n")
    git("add", ".gitattributes")
    git("commit", "-qm", "attributes")
    (vault / "x.md").write_bytes(b"one\r\ntwo\r\n")
    ours.note(["x.md"])

    assert ours.commit() == 1
    assert git("cat-file", "-p", "HEAD:notes/vault/x.md") == "one\ntwo"
    assert git.status() == ""


def test_a_linked_work_tree_is_committed_to(vault: Path, git: Shell, tmp_path: Path) -> None:
    """Its .git is a file."""
    git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    folder = tmp_path / "linked" / "notes" / "vault"
    (folder / "x.md").write_text("two\n")
    ours = GitCommits(folder, FORM, lambda: NOW)
    ours.note(["x.md"])

    assert ours.commit() == 1
    assert (git("show", "other:notes/vault/x.md"), git("show", "work:notes/vault/x.md")) == ("two", "one")


def test_many_files_are_several_commits(
    vault: Path, git: Shell, ours: GitCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nobody waits long for the index; a message names the first files only."""
    monkeypatch.setattr(commits, "MAX_COMMIT_FILES", 25)
    names = [f"many/{number:02}.md" for number in range(60)]
    (vault / "many").mkdir()
    for name in names:
        (vault / name).write_text(f"{name}\n")
    ours.note(names)

    assert ours.commit() == 60

    assert git("log", "--format=%s", "-3") == "memory: 10 added\nmemory: 25 added\nmemory: 25 added"
    assert git("log", "--format=%b", "-1", "--skip=1").split("\n")[-1] == "and 5 more"
    assert len(git.files()) == 62
    assert git.status() == ""


def test_a_link_is_not_followed(vault: Path, git: Shell, ours: GitCommits) -> None:
    """What it leads to is not committed; the file that was there is gone."""
    (git.folder.parent / "secret.md").write_text("secret\n")
    (vault / "x.md").unlink()
    (vault / "x.md").symlink_to(git.folder.parent / "secret.md")
    ours.note(["x.md"])

    assert ours.commit() == 1
    assert git.files() == ["code.py"]
