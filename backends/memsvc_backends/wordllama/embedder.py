"""The embedder port on the token table of the package wordllama."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.models import Embedder, Vector, Vectors
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec

NAME = "wordllama"
MODEL = "wordllama/l2-supercat-256"


class WordllamaSettings(BackendSettings):
    """No options: the package has one table, of 256 dimensions."""


class _TokenIds(Protocol):
    ids: list[int]


class _Tokenizer(Protocol):
    def encode(self, text: str, *, add_special_tokens: bool) -> _TokenIds: ...


class _Table(Protocol):
    """The part of WordLlamaInference in use; encoding and look-up only read, so threads may share it."""

    tokenizer: _Tokenizer
    embedding: Vectors


class WordllamaEmbedder:
    """The mean of a text's token vectors, scaled to unit length; a text without tokens gives the first axis."""

    model = MODEL

    query_lanes = 0

    def __init__(self, table: _Table) -> None:
        """Embed by a loaded *table*."""
        self._table: _Table | None = table
        self.dimension = int(table.embedding.shape[1])

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, one after the other: 50 µs each, and other threads run in between."""
        table = self._open_table()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for text, row in zip(texts, vectors, strict=True):
            row[:] = _embed(table, text)
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query, as a passage: the table knows no difference."""
        return _embed(self._open_table(), text)

    def query_part(self, text: str) -> str:
        """Return the whole query: a token is one row of a table."""
        return text

    def clear_text_cache(self) -> None:
        """Return: no text is kept."""

    def ping(self) -> None:
        """Return when the table is loaded."""
        self._open_table()

    def close(self) -> None:
        """Give the table back; calls under way keep it until they end."""
        self._table = None

    def _open_table(self) -> _Table:
        if self._table is None:
            raise BackendClosedError(NAME)
        return self._table


def _embed(table: _Table, text: str) -> Vector:
    # The tokenizer is native and takes UTF-8; half a surrogate pair has none.
    text = text.encode("utf-8", "replace").decode("utf-8")
    ids = table.tokenizer.encode(text, add_special_tokens=False).ids
    total = table.embedding[[id_ for id_ in ids if id_ < len(table.embedding)]].sum(axis=0)
    length = float(np.linalg.norm(total))
    if not length:
        total[0] = length = 1.0
    return cast("Vector", (total / length).astype(np.float32))


def _load_table() -> _Table:
    """Load tokenizer and weights from the package itself; nothing is downloaded."""
    with _root_logger_untouched():
        try:
            package = importlib.import_module(NAME)
        except ModuleNotFoundError as error:
            message = "The embedder 'wordllama' needs a package that is not installed: pip install memsvc[wordllama]"
            raise ModuleNotFoundError(message, name=error.name) from error
    # The tokenizer is in the package too, but the loader looks for it in its cache directory only.
    directory = Path(package.__file__ or "").parent
    try:
        return cast("_Table", package.WordLlama.load(cache_dir=directory, disable_download=True))
    except FileNotFoundError as error:
        raise BackendUnavailableError(NAME) from error


@contextmanager
def _root_logger_untouched() -> Iterator[None]:
    """Make `logging.basicConfig`, which the package calls when imported, do nothing: the root has a handler."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _open(_settings: WordllamaSettings, _context: BackendContext) -> AbstractContextManager[Embedder]:
    return closing(WordllamaEmbedder(_load_table()))


WORDLLAMA: BackendSpec[Embedder] = BackendSpec(WordllamaSettings, _open)
