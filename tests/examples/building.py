"""Builds an example in a copy of its own, by the command of its README, and runs it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.forked_process import ROOT

BUILD_SECONDS = 1_200
RUN_SECONDS = 90
BIN = Path(sys.executable).parent
TOOLS: Mapping[str, tuple[str, ...]] = {
    "python": (),
    "go": ("go",),
    "typescript": ("node", "npm"),
    "java": ("java", "javac", "mvn"),
}
"""What must be on the PATH to build and run the example of a language."""
MADE = ("node_modules", "dist", "target", "gen", "memsvc-agent")
"""What a build leaves behind in an example's folder: none of it is copied."""


@dataclass(frozen=True, slots=True)
class Commands:
    """The two commands of an example's README."""

    build: str
    run: str

    @classmethod
    def of(cls, language: str) -> Commands:
        """Read them."""
        text = (ROOT / "examples" / language / "README.md").read_text(encoding="utf-8")
        [block] = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        build, run = block.splitlines()
        return cls(build, run)


@dataclass(frozen=True, slots=True)
class Program:
    """An example that can be run."""

    command: tuple[str, ...]
    folder: Path

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, with no setting of memsvc but the given ones."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
        return subprocess.run(
            [*self.command, *arguments], cwd=self.folder, env={**clean, **environment}, timeout=RUN_SECONDS,
            check=False, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
        )  # fmt: skip


def build(language: str) -> Program:
    """Build an example in a copy; skip the test where the language's tools are missing.

    The copy is kept in build/, by the digest of what it is built from: a build in Java takes a minute of processor time.
    """
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the example in {language} needs {', '.join(missing)} on the PATH")
    commands = Commands.of(language)
    if language == "python":  # whoever runs the tests has installed memsvc; nothing is to be built
        return Program((sys.executable, commands.run.split()[1]), ROOT)
    folder = ROOT / "build" / "examples" / f"{language}-{_digest(language)}"
    copy, finished = folder / "examples" / language, folder / "finished"
    program = Program(tuple(shlex.split(commands.run)), copy)
    if finished.exists():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / language, copy, ignore=shutil.ignore_patterns(*MADE))
    shutil.copytree(ROOT / "proto", folder / "proto")
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])  # where buf is
    environment = {"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-c", commands.build], cwd=copy, env=environment, timeout=BUILD_SECONDS,
        check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"`{commands.build}` in examples/{language} failed:\n{done.stdout[-4000:]}"
    finished.touch()
    return program


def _digest(language: str) -> str:
    """Return the digest of an example's sources, of the API, and of the places of the tools."""
    digest = hashlib.sha256("".join(map(str, map(shutil.which, TOOLS[language]))).encode())
    for folder in (ROOT / "examples" / language, ROOT / "proto"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not {*path.relative_to(folder).parts}.intersection(MADE):
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
