"""The options of the fastembed embedder."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from memsvc.ports.plugin import BackendSettings


class Pooling(StrEnum):
    """Method that pools the vectors of tokens into the vector of a text."""

    MEAN = "mean"
    """Their mean: E5, MiniLM, mpnet."""
    CLS = "cls"
    """That of the first token: BGE, Arctic."""
    LAST = "last"
    """That of the last token: Qwen."""
    NONE = "none"
    """The model does it itself."""


class FastembedSettings(BackendSettings):
    """Settings of the model, its files and its share of the processor."""

    model: str = Field(default="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", min_length=1)
    """The model, by a name that fastembed knows, or, with `path`, by any name."""
    path: Path | None = None
    """A folder that holds the model: tokenizer.json, tokenizer_config.json, special_tokens_map.json, config.json and
    the ONNX file. Nothing is downloaded then."""
    model_file: str = Field(default="model.onnx", min_length=1)
    """The ONNX file in `path`, for a model that fastembed does not know."""
    pooling: Pooling = Pooling.MEAN
    """How that model's vectors are made of those of its tokens: mean, cls, last or none."""
    cache_dir: Path | None = None
    """Where downloaded models are kept. By default a folder of the data directory."""
    download: bool = True
    """Whether a model that is not in `cache_dir` may be downloaded."""
    threads: int = Field(default=0, ge=0, le=1024)
    """How many processor threads a text may take; 0: as many as the machine has processors."""
    batch_items: int = Field(default=8, ge=1, le=512)
    """Texts that the model is given at a time. More make passages cheaper, and concurrent queries wait longer."""
    passage_prefix: str = ""
    """Put before what is to be found, such as "passage: " for models of the E5 family."""
    query_prefix: str = ""
    """Put before what is searched with, such as "query: "."""
