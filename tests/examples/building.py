"""Builds an example in a copy of its own, by the command of its README, and runs it."""

from __future__ import annotations

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

from tests.support.server_process import ROOT

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


def build(language: str, folder: Path) -> Program:
    """Build an example in a new copy under *folder*; skip the test where the language's tools are missing."""
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the example in {language} needs {', '.join(missing)} on the PATH")
    commands = Commands.of(language)
    if language == "python":  # whoever runs the tests has installed memsvc; nothing is to be built
        return Program((sys.executable, commands.run.split()[1]), ROOT)
    copy = folder / "examples" / language
    shutil.copytree(ROOT / "examples" / language, copy, ignore=shutil.ignore_patterns(*MADE))
    shutil.copytree(ROOT / "proto", folder / "proto")
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])  # where buf is
    done = subprocess.run(
        ["bash", "-c", commands.build], cwd=copy, env={**os.environ, "PATH": path}, timeout=BUILD_SECONDS,
        check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"`{commands.build}` in examples/{language} failed:\n{done.stdout[-4000:]}"
    return Program(tuple(shlex.split(commands.run)), copy)
