"""The embedder port on OpenAI's embeddings protocol."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import openai

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.faults import FaultLog
from memsvc.ports.models import Embedder, Vector, Vectors
from memsvc_backends.openai.client import NAME, open_client, ping, refuse_when_closed
from memsvc_backends.openai.embedding_requests import (
    PING_TEXT,
    EmbeddingRequester,
    Purpose,
    TooMuchError,
    WaitableClock,
    WaitableMonotonicClock,
)
from memsvc_backends.openai.settings import OpenAiEmbedderSettings

QUERY_CHARS = 2_048
"""Characters of a query that are sent."""
PROBE = "How long is a vector?"
BLANK = "."
"""Sent for texts of nothing but space, which endpoints refuse."""
SHORTEST = 64
"""Characters of a text that is not cut further, although it is refused."""
FILE = "dimensions.json"


class OpenAiEmbedder:
    """A model at an endpoint. Passages go in batches, several at a time; a query goes at once and on its own."""

    query_lanes = 0

    def __init__(
        self,
        client: openai.OpenAI,
        settings: OpenAiEmbedderSettings,
        clock: WaitableClock,
        faults: FaultLog | None = None,
    ) -> None:
        """Use *client*, which the caller closes; `learn` must come before anything is embedded."""
        self._client = client
        self._settings = settings
        self._asking = EmbeddingRequester(client, settings, clock, Random(), faults)  # noqa: S311 - spreads retries, no secret
        self._passages = Purpose(settings.passage_input_type, settings.patience_seconds, is_query=False)
        self._queries = Purpose(settings.query_input_type, settings.query_patience_seconds, is_query=True)
        self._pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix=NAME)
        self._lanes = threading.BoundedSemaphore(settings.concurrency)
        self._is_closed = False
        self.dimension = settings.dimensions

    @property
    def model(self) -> str:
        """Return the name of the vector space: everything that determines passage vectors, except the address."""
        return self._settings.space or f"{_vectors(self._settings)}@{self.dimension}"

    def learn(self, directory: Path) -> None:
        """Find out the dimension where it is not set; what was learned is kept in *directory*.

        Raises:
            BackendUnavailableError: It is neither set nor remembered, and the endpoint does not tell it.
        """
        if not self.dimension:
            name = _vectors(self._settings)
            self.dimension = dimension_of(name, directory, lambda: len(self.embed_passages([PROBE])[0]))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts in as few requests as their sizes allow, `concurrency` of them at a time."""
        self._refuse_when_closed()
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        sent = [self._text_to_send(self._settings.passage_prefix, text) for text in texts]
        batches = list(batches_of(sent, items=self._settings.batch_items, chars=self._settings.batch_chars))
        if len(batches) == 1:
            return self._embed_batch(sent)
        try:
            begun = [self._pool.submit(self._embed_batch, batch) for batch in batches]
        except RuntimeError as error:
            raise BackendClosedError(NAME) from error
        try:
            return np.vstack([future.result() for future in begun])
        finally:
            for future in begun:
                future.cancel()

    def embed_query(self, text: str) -> Vector:
        """Embed a query, waiting no longer than a search should."""
        self._refuse_when_closed()
        sent = self._text_to_send(self._settings.query_prefix, self.query_part(text))
        found: Vector = self._embed([sent], self._queries)[0]
        return found

    def query_part(self, text: str) -> str:
        """Return the first 2 048 characters; what the endpoint refuses as too long is cut in half."""
        return text[: min(QUERY_CHARS, self._settings.text_chars)]

    def clear_text_cache(self) -> None:
        """Return: no text is kept."""

    def ping(self) -> None:
        """Ask for the list of models; an endpoint that has none, but answers, is there.

        While the circuit breaker is open, ask for a vector, too: a list does not show that it answers.
        """
        self._refuse_when_closed()
        ping(self._client)
        if self._asking.is_left_alone:
            self._embed([PING_TEXT], self._queries)

    def close(self) -> None:
        """Take no more calls; those under way come to their end."""
        self._is_closed = True
        self._pool.shutdown(cancel_futures=True)

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise BackendClosedError(NAME)
        refuse_when_closed(self._client)

    def _text_to_send(self, prefix: str, text: str) -> str:
        # Half a surrogate pair has no UTF-8, and some endpoints are written in C.
        text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")[: self._settings.text_chars]
        return prefix + (text if text.strip() else BLANK)

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        with self._lanes:
            return self._embed(texts, self._passages)

    def _embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return the vectors of one request; what is too much for the endpoint is sent in parts, or cut."""
        try:
            return self._asking.vectors(texts, purpose, dimension=self.dimension)
        except TooMuchError as error:
            middle = len(texts) // 2
            if middle:
                return np.vstack([self._embed(texts[:middle], purpose), self._embed(texts[middle:], purpose)])
            half = texts[0][: len(texts[0]) // 2]
            if len(half) < SHORTEST:
                problem = "refuses even a short text: check model, input types and dimensions among its options"
                raise BackendUnavailableError(NAME, retry_seconds=5.0, problem=problem) from error
            return self._embed([half], purpose)


def batches_of(texts: Sequence[str], *, items: int, chars: int) -> Iterator[list[str]]:
    """Yield the texts in order, in lists of at most *items* that have at most *chars* together, or are alone."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= items or size + len(text) > chars):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _vectors(settings: OpenAiEmbedderSettings) -> str:
    """Return the name of the model, with a mark for options that change passage vectors."""
    made = {
        "dimensions": settings.dimensions if settings.send_dimensions else 0,
        "passage_prefix": settings.passage_prefix,
        "passage_input_type": settings.passage_input_type,
    }
    if not any(made.values()):
        return f"{NAME}/{settings.model}"
    mark = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:8]
    return f"{NAME}/{settings.model}#{mark}"


@contextmanager
def open_embedder(
    settings: OpenAiEmbedderSettings,
    directory: Path,
    clock: WaitableClock | None = None,
    faults: FaultLog | None = None,
) -> Iterator[Embedder]:
    """Open an embedder that remembers in *directory* what it learned of its model, and reports to *faults*.

    Raises:
        BackendUnavailableError: How long the vectors are is neither set nor remembered, and the endpoint does not tell.
    """
    own = WaitableMonotonicClock()
    with open_client(settings, retries=0) as client:
        embedder = OpenAiEmbedder(client, settings, clock or own, faults)
        try:
            embedder.learn(directory)
            yield embedder
        finally:
            own.close()
            embedder.close()


# How long a model's vectors are: set, remembered from an earlier start, or learned by asking once.


def dimension_of(space: str, directory: Path, ask: Callable[[], int]) -> int:
    """Return the length remembered for the vectors of *space*, or the result of *ask*, and remember it.

    Raises:
        BackendUnavailableError: It is not known yet, and the endpoint does not tell it now.
    """
    path = directory / FILE
    known = _read(path)
    if space in known:
        return known[space]
    try:
        found = ask()
    except BackendUnavailableError as error:
        problem = (
            f"{error.problem}; how long its vectors are is not known yet: once it answers that is learned, or set "
            "dimensions among its options"
        )
        raise BackendUnavailableError(NAME, retry_seconds=error.retry_seconds, problem=problem) from error
    directory.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{FILE}.{os.getpid()}")
    part.write_text(json.dumps(known | {space: found}, ensure_ascii=False, indent=1), encoding="utf-8")
    part.replace(path)
    return found


def _read(path: Path) -> dict[str, int]:
    """Return what is remembered; a file that cannot be read is as good as none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: length for name, length in value.items() if isinstance(length, int) and length > 0}
