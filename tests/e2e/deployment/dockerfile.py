"""The Dockerfile, read and followed without an engine: its build stage in a folder, and what the image would run."""

from __future__ import annotations

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
        """Follow the build stage: copy, download, check, install. This Python takes the place of the image's."""
        source = self.root / "src"
        source.mkdir()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"EXTRAS": extras}
        for word, rest in instructions(0):
            if word == "COPY":
                *files, _ = rest.split()
                for file in files:
                    _copy(ROOT / file, source / (file if (ROOT / file).is_dir() else Path(file).name))
            if word == "RUN":
                command = re.sub(r"(^|&& )(python|pip) ", rf"\1{sys.executable} -m \2 ", self.placed(rest))
                command = command.replace("-m python ", "")
                subprocess.run(["sh", "-ec", command], cwd=source, env=environment, check=True, stdout=subprocess.PIPE)
        shutil.rmtree(source)
        shutil.rmtree(self.root / "wheels")

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


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOT_SENT)
    else:
        shutil.copy(source, target)
