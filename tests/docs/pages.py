"""The pages of the documentation, their fenced blocks, and the commands in those."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "reference" / "api"
"""Its blocks are signatures that docs/generate.py takes from the compiled .proto files."""
HAND_WRITTEN = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "tests/bench/README.md")
ADDRESS, HTTP_URL = "127.0.0.1:50051", "http://127.0.0.1:50080"
ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, the page and the number of its first line."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command with the output that the page shows."""

    place: str
    text: str
    expected: str


def pages() -> list[Path]:
    """Return every page that people write."""
    docs = sorted(page for page in (ROOT / "docs").rglob("*.md") if GENERATED not in page.parents)
    return [*(ROOT / name for name in HAND_WRITTEN), *docs]


def name(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages, or those of some languages. Lists of pages are none."""
    fence = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for one in fence.finditer(text):
            if one[1] != "{toctree}":
                found.append(Block(name(page), text.count("\n", 0, one.start(2)) + 1, one[1], one[2]))
    return [block for block in found if not languages or block.language in languages]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block.

    A command begins with "$ " and goes on while a quote is open or the line ends with a backslash or a bar. The lines
    below it are its output.
    """
    lines = block.text.splitlines()
    start = 0
    while start < len(lines):
        assert lines[start].startswith("$ "), f"{block.page}:{block.line + start} is not a command"
        text, end = lines[start][2:], start + 1
        while text.endswith(("\\", "|")) or has_open_quote(text):
            text, end = f"{text}\n{lines[end]}", end + 1
        written = end
        while end < len(lines) and not lines[end].startswith("$ "):
            end += 1
        yield Command(f"{block.page}:{block.line + start}", text, "\n".join(lines[written:end]))
        start = end


def has_open_quote(text: str) -> bool:
    """Return whether a shell would ask for another line."""
    try:
        shlex.split(text)
    except ValueError:
        return True
    return False


def agrees(written: str, expected: str) -> bool:
    """Return whether an output equals the expected one, where "…" is any text and white space does not count."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split(ANYTHING)]
    return re.fullmatch(r"\s*.*?\s*".join(parts), " ".join(written.split()), re.DOTALL) is not None
