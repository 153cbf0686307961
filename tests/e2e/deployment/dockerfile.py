"""The Dockerfile, read and followed without an engine: its build stage in a folder, and what the image would run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.server_process import ROOT

DOCKERFILE = ROOT / "docker" / "Dockerfile"
PLACES = ("/opt/memsvc", "/wheels", "/var/lib/memsvc", "/run/memsvc")
"""The absolute paths of the image that are put below the folder."""
NOT_SENT = shutil.ignore_patterns("__pycache__")


def instructions(stage: int) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a stage: the first word, and the rest on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = -1
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        found += word == "FROM"
        if word and found == stage:
            yield word, rest


@dataclass(frozen=True, slots=True)
class Image:
    """A folder with what the image holds."""

    root: Path

    def build(self, extras: str) -> None:
        """Follow the build stage: copy, download, check, install. This Python takes the place of the image's.

        The layer of wheels is kept in build/, as an engine keeps it, until the lock changes: pip needs 6 s of processor
        time to choose among all files of the index. Nothing is compiled: that takes 6 s, and most is never imported.
        """
        source = self.root / "src"
        source.mkdir()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"EXTRAS": extras, "PIP_COMPILE": "0"}
        for word, rest in instructions(0):
            if word == "COPY":
                *files, _ = rest.split()
                for file in files:
                    _copy(ROOT / file, source / (file if (ROOT / file).is_dir() else Path(file).name))
            if word == "RUN":
                command = re.sub(r"(^|&& )(python|pip) ", rf"\1{sys.executable} -m \2 ", self.placed(rest))
                command = command.replace("-m python ", "")
                if rest.startswith("pip download"):
                    self._download(rest, command, source, environment)
                else:
                    _run(command, source, environment)
        shutil.rmtree(source)
        shutil.rmtree(self.root / "wheels")

    def _download(self, instruction: str, command: str, source: Path, environment: Mapping[str, str]) -> None:
        """Fill the folder of wheels by the command, or with those that the same instruction made of the same files."""
        files = sorted(path for path in source.rglob("*") if path.is_file())
        parts = [instruction.encode(), sys.version.encode(), *(path.read_bytes() for path in files)]
        layer = ROOT / "build" / "image" / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
        wheels = self.root / "wheels"
        if not layer.exists():
            part = layer.with_name(f"{layer.name}.{os.getpid()}")
            part.mkdir(parents=True)
            wheels.symlink_to(part)
            _run(command, source, environment)
            wheels.unlink()
            part.replace(layer)
        wheels.mkdir()
        for path in layer.iterdir():
            (wheels / path.name).symlink_to(path)

    def placed(self, text: str) -> str:
        """Return *text* with the image's paths below the folder."""
        for place in PLACES:
            text = text.replace(place, f"{self.root}{place}")
        return text

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of a process in the image: nothing of ours is in it."""
        ((_, declared),) = [one for one in instructions(1) if one[0] == "ENV"]
        pairs = dict(pair.split("=", 1) for pair in self.placed(declared).split())
        return {**pairs, "PATH": pairs["PATH"].replace("$PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", **more}

    def command(self) -> list[str]:
        """Return what the image runs."""
        found = dict(instructions(1))
        program, *arguments = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
        return [f"{self.root}/opt/memsvc/bin/{program}", *(self.placed(each) for each in arguments)]

    def healthcheck(self) -> list[str]:
        """Return how the image is asked for its health."""
        found = dict(instructions(1))["HEALTHCHECK"]
        program, *arguments = json.loads(found[found.index("[") :])
        return [f"{self.root}/opt/memsvc/bin/{program}", *(self.placed(each) for each in arguments)]


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOT_SENT)
    else:
        shutil.copy(source, target)
