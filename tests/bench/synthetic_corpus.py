"""Synthetic memories: short texts with Zipf's share of words, and vectors in clusters. The same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

SEED = 20260206
_EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
_SPAN_DAYS = 730
_TAIL = 6_000
_CLUSTERS = 64
_SESSION_LINES = 20
_MIN_WORDS, _MAX_WORDS = 9, 26

_FRAME = (
    "the a of to and in that it was for on with as at by from they we she he my our this about after before "
    "because when while then so but or not just really very again still"
)
FRAME = tuple(_FRAME.split())

_COMMON = (
    "meeting project garden kitchen holiday birthday friend sister brother teacher doctor neighbour colleague "
    "manager customer report budget deadline release server database backup meeting train airport flight ticket "
    "hotel museum concert guitar piano painting camera photo recipe dinner breakfast coffee bread cheese soup "
    "apple market grocery bicycle river mountain beach forest island village city office school university library "
    "book novel poem chapter lesson exam homework language grammar letter parcel invoice contract salary bank loan "
    "house roof window door carpet lamp engine tyre battery charger laptop keyboard screen printer phone "
    "medicine allergy vitamin exercise marathon yoga swimming football tennis chess puzzle film series podcast "
    "weather storm snow rain summer winter autumn spring morning evening weekend monday friday "
    "bought sold found lost painted repaired cooked baked planted visited called wrote read learned taught promised "
    "forgot remembered decided planned cancelled booked paid borrowed returned started finished moved adopted "
    "likes prefers hates wants needs hopes thinks believes knows said told asked answered agreed refused "
    "happy tired worried proud excited angry surprised busy late early expensive cheap broken new old favourite "
    "red green blue black white small large quiet loud spicy sweet fresh cold warm important urgent private"
)
COMMON = tuple(_COMMON.split())

_ONSETS = ("b", "br", "d", "dr", "f", "g", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
_NUCLEI = ("a", "e", "i", "o", "u", "ai", "ea")
_ENDS = ("nd", "l", "rk", "s", "t", "m")

SPEAKERS = ("Anna", "Ben", "Clara", "David", "Elena", "Farid", "Grace", "Henry")


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


def names(count: int) -> list[str]:
    """Return *count* invented words, always the same ones."""
    made = ("".join(parts) for parts in product(_ONSETS, _NUCLEI, _ONSETS, _NUCLEI, _ENDS))
    step = 7
    return [word for number, word in enumerate(made) if number % step == 0][:count]
