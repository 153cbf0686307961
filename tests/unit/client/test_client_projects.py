"""A folder's project is found, and named alike wherever it is checked out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memsvc.client import Project, find_project

MANIFESTS = {
    "go.mod": "module example.org/tools/v2\n\ngo 1.22\n",
    "package.json": '{"name": "@acme/tools"}',
    "Cargo.toml": '[package]\nname = "tools"\n',
    "pyproject.toml": '[project]\nname = "工具"\n',
}
NAMES = dict(zip(MANIFESTS, ("example.org/tools/v2", "@acme/tools", "tools", "工具"), strict=True))
ORIGIN = "github.com/acme/tools"


def inside(root: Path) -> Path:
    """Return a folder deep inside."""
    folder = root / "src" / "deep"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that might be a project's."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_marks_the_root_and_names_it(root: Path, manifest: str) -> None:
    """From any folder inside."""
    (root / manifest).write_text(MANIFESTS[manifest], encoding="utf-8")

    assert find_project(inside(root)) == Project(NAMES[manifest], root)


@pytest.mark.parametrize("manifest", MANIFESTS)
@pytest.mark.parametrize("content", [b"", b"{", b"[", b"\xff\xfe", b'{"name": 7}', b"[project]\nname = 7"])
def test_a_broken_manifest_still_marks_the_root(root: Path, manifest: str, content: bytes) -> None:
    """The folder's own name stands in."""
    (root / manifest).write_bytes(content)

    assert find_project(root) == Project("project", root)


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Acme/tools.git",
        "https://user:secret@github.com/acme/tools",
        "git@github.com:acme/tools.git",
        "ssh://git@github.com:22/acme/tools.git/",
    ],
)
def test_a_repository_is_named_by_its_origin(root: Path, url: str) -> None:
    """However it was cloned, without credentials, and whatever manifests lie inside; its worktrees too."""
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(root))
    for words in (("init", "-q"), ("remote", "add", "origin", url), ("commit", "-q", "--allow-empty", "-m", "m")):
        subprocess.run([*git, *words], check=True)
    beside = root.with_name("beside")
    subprocess.run([*git, "worktree", "add", "-q", str(beside)], check=True, stderr=subprocess.DEVNULL)
    folder = inside(root)
    (folder / "package.json").write_text(MANIFESTS["package.json"])

    assert find_project(folder) == Project(ORIGIN, root)
    assert find_project(inside(beside)) == Project(ORIGIN, beside)


def test_a_repository_without_an_origin_is_named_by_its_manifest_or_folder(root: Path) -> None:
    """In this order."""
    (root / ".git").mkdir()
    assert find_project(inside(root)) == Project("project", root)
    (root / "Cargo.toml").write_text(MANIFESTS["Cargo.toml"])
    assert find_project(inside(root)) == Project("tools", root)


@pytest.mark.parametrize("place", [".memsvc", ".memsvc/project"])
def test_the_own_marker_comes_first(root: Path, place: str) -> None:
    """The nearest one, before any repository; what it says is the name, without what a name may not hold."""
    (root / ".git").mkdir()
    part = inside(root)
    file = part / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("  后端\tservice  \nsecond line\n", encoding="utf-8")

    assert find_project(part) == Project("后端 service", part)
    assert find_project(root) == Project("project", root)


def test_a_name_fits_a_scope(root: Path) -> None:
    """At most 128 characters."""
    (root / ".memsvc").write_text("x" * 1_000)

    found = find_project(root)
    assert found is not None
    assert found.id == "x" * 128


def test_a_folder_outside_of_every_project_has_none(tmp_path: Path) -> None:
    """Unless the test's own folder lies in one."""
    found = find_project(tmp_path)

    assert found is None or found.root in tmp_path.parents
