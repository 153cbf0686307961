"""Synthetic memories: short texts with Zipf's share of words, and vectors in clusters. The same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tests.bench.vocabulary import COMMON, FRAME, SPEAKERS, names

SEED = 20260206
_EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
_SPAN_DAYS = 730
_TAIL = 6_000
_CLUSTERS = 64
_SESSION_LINES = 20
_MIN_WORDS, _MAX_WORDS = 9, 26


@dataclass(frozen=True, slots=True)
class Line:
    """One memory to be."""

    text: str
    vector: npt.NDArray[np.float32]
    time: datetime
    session: str
    speaker: str


@dataclass(frozen=True, slots=True)
class Question:
    """A search for a line that is there: some of its words, and a vector near its own."""

    user: str
    text: str
    vector: npt.NDArray[np.float32]
    time: datetime


class Corpus:
    """The memories of several users, made when they are asked for."""

    def __init__(self, *, users: int, lines: int, dimension: int, prefix: str = "user") -> None:
        self.users = [f"{prefix}-{number:03d}" for number in range(users)]
        self.lines_per_user = lines
        self.dimension = dimension

    @property
    def size(self) -> int:
        """Return the number of memories of all users."""
        return len(self.users) * self.lines_per_user

    def lines(self, user: str) -> list[Line]:
        """Return the user's memories, in the order of time."""
        random = _random(user)
        vectors = self._vectors(random)
        days = np.sort(random.random(self.lines_per_user)) * _SPAN_DAYS
        return [
            Line(
                text=self._text(random),
                vector=vectors[number],
                time=_EPOCH + timedelta(days=float(days[number])),
                session=f"s{number // _SESSION_LINES}",
                # Every other session is talk, the rest are facts that nobody said.
                speaker=str(random.choice(SPEAKERS)) if number // _SESSION_LINES % 2 else "",
            )
            for number in range(self.lines_per_user)
        ]

    def questions(self, count: int, *, purpose: str) -> list[Question]:
        """Return questions spread over the users; another *purpose* gives other ones."""
        random = _random(purpose)
        share = -(-count // len(self.users))
        asked = [question for user in self.users for question in self._asked(user, share, random)]
        random.shuffle(asked)
        return asked[:count]

    def _asked(self, user: str, count: int, random: np.random.Generator) -> list[Question]:
        lines = self.lines(user)
        chosen = random.integers(0, len(lines), count)
        return [self._question(user, lines[number], random) for number in chosen]

    def _question(self, user: str, line: Line, random: np.random.Generator) -> Question:
        words = line.text.rstrip(".").split()
        kept = [word for word in words if word not in FRAME] or words
        picked = random.choice(kept, size=min(5, len(kept)), replace=False)
        noise = random.standard_normal(self.dimension).astype(np.float32)
        return Question(user, " ".join(picked), _unit(line.vector + noise * 0.02), line.time)

    def _text(self, random: np.random.Generator) -> str:
        count = int(random.integers(_MIN_WORDS, _MAX_WORDS + 1))
        words = [self._words[number] for number in np.searchsorted(self._cumulated, random.random(count))]
        return " ".join(words).capitalize() + "."

    def _vectors(self, random: np.random.Generator) -> npt.NDArray[np.float32]:
        which = random.integers(0, _CLUSTERS, self.lines_per_user)
        noise = random.standard_normal((self.lines_per_user, self.dimension)).astype(np.float32)
        return _unit(self._centres[which] + noise * 0.05)

    @cached_property
    def _centres(self) -> npt.NDArray[np.float32]:
        random = _random("centres")
        # Embeddings of real models share a direction; what tells them apart is smaller.
        shared = _unit(random.standard_normal((1, self.dimension)).astype(np.float32))
        own = _unit(random.standard_normal((_CLUSTERS, self.dimension)).astype(np.float32))
        return shared * 1.5 + own

    @cached_property
    def _words(self) -> list[str]:
        return [*FRAME, *COMMON, *names(_TAIL)]

    @cached_property
    def _cumulated(self) -> npt.NDArray[np.float64]:
        shares = 1.0 / (np.arange(len(self._words)) + 4.0)
        cumulated: npt.NDArray[np.float64] = np.cumsum(shares / shares.sum())
        cumulated[-1] = 1.0
        return cumulated


def _random(purpose: str) -> np.random.Generator:
    return np.random.default_rng([SEED, *purpose.encode()])


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return scaled
