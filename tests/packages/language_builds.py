"""Builds of the package and the example of a language, by the command of the example's README, in a copy."""

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
RUN_SECONDS = 120
BUILDS = ROOT / "build" / "packages"
TOOLS: Mapping[str, tuple[str, ...]] = {
    "python": (),
    "go": ("go",),
    "typescript": ("node", "npm"),
    "java": ("java", "javac", "mvn"),
}
"""Programs that must be on the PATH to build the package and the example of a language."""
MADE = ("node_modules", "dist", "dist-test", "target", "memsvc-agent")
"""Files and folders that a build makes: none of them is copied."""
MAVEN = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dmaven.repo.local={BUILDS / 'maven'}"
"""`mvn install` writes into a repository of this checkout."""


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
class Build:
    """The built package and example of a language.

    Attributes:
        root: A copy of the checkout with the folders that the build needs.
    """

    language: str
    root: Path

    @property
    def package(self) -> Path:
        """The folder of the package."""
        return self.root / "packages" / self.language

    @property
    def example(self) -> Path:
        """The folder of the example."""
        return self.root / "examples" / self.language

    def run_example(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the example to its end."""
        command, folder = shlex.split(Commands.of(self.language).run), self.example
        if self.language == "python":
            command, folder = [sys.executable, command[1]], ROOT
        return run([*command, *arguments], folder, **environment)


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with no setting of memsvc but the given ones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMSVC_")}
    return subprocess.run(
        command, cwd=folder, env={**clean, "MAVEN_OPTS": MAVEN, **environment}, timeout=RUN_SECONDS,
        check=False, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
    )  # fmt: skip


def build(language: str) -> Build:
    """Build a package and its example in a copy; skip the test if the tools of the language are missing."""
    sources = [Path("packages", language), Path("examples", language), Path("proto")]
    if language == "python":  # memsvc is installed where its tests run
        return Build(language, ROOT)
    root = _built(language, language, sources, Commands.of(language).build)
    return Build(language, root)


ADAPTER_BUILD = "(cd ../../packages/typescript && npm ci && npm run build) && npm ci && npm run build"
"""The command in the READMEs of adapters in TypeScript."""


def build_adapter(name: str) -> Path:
    """Build the adapter integrations/NAME in TypeScript, with the client, in a copy; return its folder.

    Skip the test if Node.js or npm is missing.
    """
    folder = Path("integrations", name)
    return _built(f"adapter-{name}", "typescript", [Path("packages", "typescript"), folder], ADAPTER_BUILD) / folder


def _built(name: str, language: str, sources: list[Path], command: str) -> Path:
    """Return a copy of sources in which a command was run in the second of them.

    The copy is kept in build/, by the digest of its sources: a build in Java takes a minute of processor time.
    """
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the package in {language} needs {', '.join(missing)} on the PATH")
    folder = BUILDS / f"{name}-{_digest(language, sources)}"
    finished = folder / "finished"
    if finished.exists():
        return folder
    for old in BUILDS.glob(f"{name}-*"):
        shutil.rmtree(old, ignore_errors=True)
    for source in sources:
        shutil.copytree(ROOT / source, folder / source, ignore=shutil.ignore_patterns(*MADE))
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder / sources[1], env={**os.environ, "MAVEN_OPTS": MAVEN}, timeout=BUILD_SECONDS,
        check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"`{command}` in {sources[1]} failed:\n{done.stdout[-4000:]}"
    finished.touch()
    return folder


def _digest(language: str, sources: list[Path]) -> str:
    """Return the digest of sources and of the places of the tools."""
    digest = hashlib.sha256("".join(map(str, map(shutil.which, TOOLS[language]))).encode())
    for source in sources:
        for path in sorted((ROOT / source).rglob("*")):
            if path.is_file() and not {*path.relative_to(ROOT).parts}.intersection(MADE):
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
