"""The embedder port on fastembed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from loguru import logger

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.models import Vector, Vectors
from memsvc_backends.fastembed.settings import FastembedSettings, Pooling

PROBE = "How long is a vector?"
NAME = "fastembed"
QUERY_CHARS = 2048
CACHE = "models"
"""The folder of the data directory that models are downloaded to."""
_POOLING = {
    Pooling.MEAN: PoolingType.MEAN,
    Pooling.CLS: PoolingType.CLS,
    Pooling.LAST: PoolingType.LAST_TOKEN,
    Pooling.NONE: PoolingType.DISABLED,
}


class FastembedEmbedder:
    """An ONNX model in this process. Calls run side by side; passages go a few at a time, so no query waits long."""

    query_lanes = 0

    def __init__(self, model: TextEmbedding, settings: FastembedSettings) -> None:
        """Embed by a loaded *model*."""
        self._loaded: TextEmbedding | None = model
        self._settings = settings
        self.dimension = len(self._embed_texts([PROBE])[0])
        self.model = _space(settings, self.dimension)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, `batch_items` at a time."""
        self.ping()
        found = np.empty((len(texts), self.dimension), np.float32)
        size = self._settings.batch_items
        for start in range(0, len(texts), size):
            part = texts[start : start + size]
            found[start : start + len(part)] = self._embed_texts(
                [self._settings.passage_prefix + text for text in part]
            )
        return found

    def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        found: Vector = self._embed_texts([self._settings.query_prefix + self.query_part(text)])[0]
        return found

    def query_part(self, text: str) -> str:
        """Return the first 2 048 characters; the model takes no more than its window of them."""
        return text[:QUERY_CHARS]

    def clear_text_cache(self) -> None:
        """Return: no text is kept."""

    def ping(self) -> None:
        """Return when the model is loaded."""
        self._model()

    def close(self) -> None:
        """Give the model back; calls under way keep it until they end."""
        self._loaded = None

    def _model(self) -> TextEmbedding:
        if self._loaded is None:
            raise BackendClosedError(NAME)
        return self._loaded

    def _embed_texts(self, texts: Sequence[str]) -> Vectors:
        # The tokenizer is native and takes UTF-8; half a surrogate pair has none.
        whole = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        vectors = np.array(list(self._model().embed(whole, batch_size=len(whole))), np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors[~(lengths > 0)[:, 0], 0] = 1.0
        return np.ascontiguousarray(vectors / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def _space(settings: FastembedSettings, dimension: int) -> str:
    """Return the name of the vector space: that of the model, with a mark for options that change passage vectors."""
    name = f"{NAME}/{settings.model}@{dimension}"
    if not settings.passage_prefix:
        return name
    return f"{name}#{hashlib.sha256(settings.passage_prefix.encode()).hexdigest()[:8]}"


# Loading a model: one that fastembed knows, or any other one whose files are here.


def load_model(settings: FastembedSettings, directory: Path) -> TextEmbedding:
    """Load the model; *directory* is where the embedder may keep what it downloads.

    Raises:
        BackendUnavailableError: The model is not known, or not here and not to be had, or is none; with what to do.
    """
    logger.disable(NAME)  # it writes to stderr in a form of its own; what matters is raised
    cache = settings.cache_dir or directory / CACHE
    name = _register_model(settings)
    more: dict[str, Any] = {} if settings.path is None else {"specific_model_path": str(settings.path)}
    try:
        return TextEmbedding(
            name, cache_dir=str(cache), threads=settings.threads or None, local_files_only=not settings.download, **more
        )
    except Exception as error:
        # Whatever the packages below raise for a missing or broken file: they have no common class of errors.
        problem = _broken_model(settings.path) if settings.path else _missing_model(settings, cache)
        raise BackendUnavailableError(NAME, problem=problem) from error


def _register_model(settings: FastembedSettings) -> str:
    """Return the name by which fastembed knows the model, and register it first if it is not built in."""
    known = {one["model"].lower() for one in TextEmbedding.list_supported_models()}
    if settings.model.lower() in known:
        return settings.model
    if settings.path is None:
        suitable = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2, intfloat/multilingual-e5-large"
        raise BackendUnavailableError(
            NAME,
            problem=f"knows no model {settings.model!r}: choose one of its own, such as {suitable}, or set path to a "
            "folder that holds yours",
        )
    made_of = f"{settings.path.absolute()}\n{settings.model_file}\n{settings.pooling}"
    name = f"{settings.model}#{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"
    if name.lower() not in known:
        TextEmbedding.add_custom_model(
            model=name,
            pooling=_POOLING[settings.pooling],
            normalization=True,
            # It is never looked for there: its path is given.
            sources=ModelSource(hf=settings.model),
            dim=1,
            model_file=settings.model_file,
        )
    return name


def _missing_model(settings: FastembedSettings, cache: Path) -> str:
    why = "could not download it" if settings.download else "may not download it"
    return (
        f"has no model {settings.model!r} in {str(cache)!r} and {why}. On a machine with a network run: python -c "
        f'\'from fastembed import TextEmbedding; TextEmbedding("{settings.model}", cache_dir="models")\'; copy the '
        "folder models here, and name it by cache_dir among the embedder's options, with download = false. Or name a "
        "folder that holds tokenizer.json, tokenizer_config.json, config.json and an ONNX file by path"
    )


def _broken_model(path: Path) -> str:
    return (
        f"cannot load the model in {str(path)!r}: it must hold tokenizer.json, tokenizer_config.json, "
        "special_tokens_map.json, config.json and the ONNX file that model_file names"
    )
