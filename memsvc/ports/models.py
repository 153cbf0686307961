"""The port to a language model: words in, words or JSON out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from memsvc.domain.clock import Deadline
from memsvc.domain.memory import Json


class UnusableAnswerError(Exception):
    """The model answered, but not with what it was asked for; asking again may help."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt of a language model.

    Attributes:
        instructions: What it is to do, from us.
        material: What it is to do it with, from others: data, never instructions.
        most_tokens: How long the answer may be; 0 leaves it to the model.
    """

    instructions: str
    material: str
    most_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Schema:
    """The shape of an answer: a JSON schema of an object, and a name for it of letters, digits and underscores."""

    name: str
    schema: Mapping[str, Any]


class LanguageModel(Protocol):
    """Answers prompts. Safe to call from several threads; what it says is not trusted, and not the same every time."""

    @property
    def model(self) -> str:
        """Name the model."""
        ...

    def text(self, prompt: Prompt, *, deadline: Deadline) -> str:
        """Return the answer as text, trimmed and not empty.

        Raises:
            BackendUnavailableError: The model cannot be reached, refuses the service, or is not done by the deadline.
            UnusableAnswerError: The answer is empty, cut off or a refusal.
        """
        ...

    def json(self, prompt: Prompt, schema: Schema, *, deadline: Deadline) -> dict[str, Json]:
        """Return the answer as a JSON object. That it has the shape is asked for, not promised: check it.

        Raises:
            BackendUnavailableError: As for `text`.
            UnusableAnswerError: The answer is no JSON object, cut off or a refusal.
        """
        ...

    def ping(self) -> None:
        """Return when the model's service answers, or raise BackendUnavailableError."""
        ...


# The port to an embedding model.


Vector: TypeAlias = npt.NDArray[np.float32]
"""One vector, shape (dimension,)."""
Vectors: TypeAlias = npt.NDArray[np.float32]
"""Several vectors, shape (count, dimension)."""


class Embedder(Protocol):
    """Turns text into vectors of unit length whose dot product says how near two meanings are.

    Safe to call from several threads; the same text must give the same vector.
    """

    @property
    def model(self) -> str:
        """Name the vector space: two embedders with the same model give comparable vectors."""
        ...

    @property
    def dimension(self) -> int:
        """Return the length of every vector."""
        ...

    @property
    def query_lanes(self) -> int:
        """Return how many queries it can embed at once before each takes longer; 0: any number."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts that are to be found, one row for each, in order. No texts: shape (0, dimension).

        A concurrent query must not wait for all of *texts*.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed a text that is searched with: no more of it than `query_part`.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        ...

    def query_part(self, text: str) -> str:
        """Return the beginning of a query that `embed_query` embeds; all of *text* unless it is long.

        Its length is bounded by the time that embedding it takes, which cannot be interrupted. The part of a part is
        the part itself, and has the same vector as *text*.
        """
        ...

    def clear_text_cache(self) -> None:
        """Drop everything that is kept of texts in memory; an erasure calls it. Later calls give the same vectors."""
        ...

    def ping(self) -> None:
        """Return when the model answers, or raise BackendUnavailableError."""
        ...


# Embedders that also give vectors of single tokens, for late interaction.


@dataclass(frozen=True, slots=True, eq=False)
class QueryTokens:
    """The tokens of a query.

    Attributes:
        vectors: Float32 [tokens, 128], of length 1.
        rarities: The weight of each token, in nats, not negative: float64 [tokens].
    """

    vectors: Vectors
    rarities: npt.NDArray[np.float64]


class TokenEmbedder(Protocol):
    """The optional part of an `Embedder`: token vectors of the same pass as the vector of a text."""

    @property
    def token_model(self) -> str:
        """Name the space of token vectors and how they are packed; empty if the engine in use gives none."""
        ...

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[bytes]]:
        """Embed texts as `embed_passages` does; and return the tokens of each: 16 bytes a token, the signs of its 128.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        ...

    def embed_query_with_tokens(self, text: str) -> tuple[Vector, QueryTokens]:
        """Embed a text that is searched with, as `embed_query` does, with its tokens; of long texts only the first.

        Raises:
            BackendUnavailableError: The model cannot be reached.
        """
        ...


def token_embedder(embedder: Embedder) -> TokenEmbedder | None:
    """Return *embedder* as one that gives token vectors, or None if it gives none."""
    return cast("TokenEmbedder", embedder) if getattr(embedder, "token_model", "") else None


# The port to a reranker: a model that reads a query and a text together and says how well they fit.


class Reranker(Protocol):
    """Scores texts against a query. Safe to call from several threads; the same input gives the same scores."""

    @property
    def name(self) -> str:
        """Name the model."""
        ...

    def rerank(self, query: str, texts: Sequence[str], *, deadline: Deadline) -> list[float]:
        """Return one score for each of *texts*, in their order: 0 (has nothing to do with it) to 1 (answers it).

        A score depends on the query and its own text alone, not on the other texts. No texts: no scores.

        Raises:
            DeadlineExceededError: The deadline passed first.
            BackendUnavailableError: The model cannot be reached.
            BackendClosedError: The reranker was closed.
        """
        ...

    def ping(self) -> None:
        """Return when the model answers, or raise BackendUnavailableError."""
        ...


# The port to a tokenizer: how many tokens of a language model a text takes.


class Tokenizer(Protocol):
    """Counts tokens. Safe to call from several threads; the same text always gives the same number.

    Tokens of a joined text need not be the sum of its parts': callers with an exact budget must count the joined text.
    """

    @property
    def name(self) -> str:
        """Name the vocabulary: counts of tokenizers with the same name are comparable."""
        ...

    @property
    def adds_up(self) -> bool:
        """Tell whether lines cost together what they cost alone.

        That is: texts that end with a newline, each followed by one that begins with "-", "#", "<" or a letter.
        """
        ...

    def count(self, text: str) -> int:
        """Return how many tokens *text* takes: 0 for an empty text, never negative, whatever the text holds.

        Nothing in a text has a special meaning: "<|endoftext|>" is counted as the characters it is made of.

        Raises:
            BackendUnavailableError: The tokenizer cannot be reached.
        """
        ...

    def ping(self) -> None:
        """Return when the tokenizer answers, or raise BackendUnavailableError."""
        ...
