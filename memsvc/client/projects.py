"""Project of a folder, so that all agents that work in it use the same name."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

OWN_MARKER = ".memsvc"
GIT = ".git"
MAX_NAME = 128
"""What `Scope.project_id` may hold."""

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_REMOTE = re.compile(r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^:/]+)(?::[0-9]+(?=/))?[:/](?P<path>.+?)(?:\.git)?/*")
_GO_MODULE = re.compile(r"^module\s+\"?([^\s\"]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Project:
    """A project: the name to use as `project_id`, and its topmost folder."""

    id: str
    root: Path


def find_project(folder: Path | str = ".") -> Project | None:
    """Return the project of a folder, or None when no folder from there up is the root of one.

    The root is the nearest folder up that holds `.memsvc`; without any, the nearest that is a Git repository; without
    any, the nearest that holds go.mod, package.json, Cargo.toml or pyproject.toml. The name is the first line of the
    file `.memsvc` (or `.memsvc/project`), else the host and path of the Git remote `origin`, without credentials,
    else the name that the manifest gives, else that of the folder. So clones on other machines have the same name.
    Files that cannot be read as what they are count as empty.
    """
    start = Path(folder).absolute()
    folders = [start, *start.parents]
    for markers in ((OWN_MARKER,), (GIT,), tuple(_MANIFESTS)):
        for root in folders:
            if any((root / marker).exists() for marker in markers):
                return Project(_name_of(root), root)
    return None


def _name_of(root: Path) -> str:
    names = (_fit(name) for name in _names(root))
    return next((name for name in names if name), root.anchor)


def _names(root: Path) -> Iterator[str]:
    own = root / OWN_MARKER
    yield _text(own / "project" if own.is_dir() else own).strip().partition("\n")[0]
    yield _remote(root / GIT)
    for manifest, name_in in _MANIFESTS.items():
        yield name_in(_text(root / manifest))
    yield root.name


def _fit(name: str) -> str:
    return _UNFIT.sub(" ", name).strip()[:MAX_NAME]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _remote(git: Path) -> str:
    config = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        config.read_string(_text(_git_folder(git) / "config"))
    except configparser.Error:
        return ""
    url = config.get('remote "origin"', "url", fallback=None) or ""
    match = _REMOTE.fullmatch(url.strip())
    return f"{match['host']}/{match['path'].strip('/')}".lower() if match else ""


def _git_folder(git: Path) -> Path:
    """Return where a repository keeps its configuration: a worktree's `.git` is a file that leads there."""
    if git.is_dir():
        return git
    own = git.parent / _text(git).removeprefix("gitdir:").strip()
    shared = _text(own / "commondir").strip()
    return own / shared if shared else own


def _go_name(text: str) -> str:
    match = _GO_MODULE.search(text)
    return match[1] if match else ""


def _json_name(text: str) -> str:
    try:
        return _member(json.loads(text), "name")
    except ValueError:
        return ""


def _toml_name(table: str) -> Callable[[str], str]:
    def name_in(text: str) -> str:
        try:
            return _member(tomllib.loads(text).get(table), "name")
        except tomllib.TOMLDecodeError:
            return ""

    return name_in


def _member(found: object, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


_MANIFESTS: dict[str, Callable[[str], str]] = {
    "go.mod": _go_name,
    "package.json": _json_name,
    "Cargo.toml": _toml_name("package"),
    "pyproject.toml": _toml_name("project"),
}
"""The files that mark a root, and how to read the project's name in them."""
