"""The tokenizer port on the compiled module of the package bpe-openai."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, closing
from enum import StrEnum
from pathlib import Path
from typing import Protocol, cast

from memsvc.domain.errors import BackendClosedError
from memsvc.ports.models import Tokenizer
from memsvc.ports.plugin import BackendContext, BackendSettings, BackendSpec

NAME = "bpe"
PACKAGE = "bpe_openai"
_SUFFIXES = frozenset({".so", ".pyd", ".dylib"})

# The options of the bpe tokenizer.


class BpeVocabulary(StrEnum):
    """The available vocabularies."""

    O200K = "o200k_base"
    """GPT-4o and later; close to those of other makers in English and in Chinese."""
    CL100K = "cl100k_base"
    """GPT-4 and 3.5; half as many tokens again for Chinese."""


class BpeSettings(BackendSettings):
    """Settings of the bpe tokenizer."""

    vocabulary: BpeVocabulary = BpeVocabulary.O200K
    """Whose tokens are counted."""


class _TiktokenEncoding(Protocol):
    def count(self, text: str) -> int: ...


class BpeTokenizer:
    """`memsvc.ports.models.Tokenizer`: a loaded vocabulary is only read, so threads may share it."""

    adds_up = True
    """The vocabularies cut after a newline that no white space follows."""

    def __init__(self, name: str, encoding: _TiktokenEncoding) -> None:
        """Count by a loaded *encoding*."""
        self.name = name
        self._encoding: _TiktokenEncoding | None = encoding

    def count(self, text: str) -> int:
        """Count the tokens of *text*."""
        encoding = self._open_encoding()
        try:
            return encoding.count(text)
        except UnicodeEncodeError:
            # Half a surrogate pair has no UTF-8.
            return encoding.count(text.encode("utf-8", "replace").decode("utf-8"))

    def ping(self) -> None:
        """Return when the vocabulary is loaded."""
        self._open_encoding()

    def close(self) -> None:
        """Give the vocabulary back; calls under way keep it until they end."""
        self._encoding = None

    def _open_encoding(self) -> _TiktokenEncoding:
        if self._encoding is None:
            raise BackendClosedError(NAME)
        return self._encoding


def _load(vocabulary: str) -> _TiktokenEncoding:
    """Load the compiled module by its path, past the package's own `__init__`, and a vocabulary of it."""
    path = _module_path()
    spec = importlib.util.spec_from_file_location(f"{PACKAGE}._bindings", path)
    if spec is None or spec.loader is None:
        message = f"The package {PACKAGE} has no module for this platform."
        raise ModuleNotFoundError(message, name=PACKAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("_TiktokenEncoding", module.tokenizer_for_encoding(vocabulary))


def _module_path() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        message = "The tokenizer 'bpe' needs its package: pip install bpe-openai"
        raise ModuleNotFoundError(message, name=PACKAGE)
    for path in sorted(Path(next(iter(found.submodule_search_locations))).glob("_bindings.*")):
        if path.suffix in _SUFFIXES:
            return path
    message = f"The package {PACKAGE} has no module for this platform."
    raise ModuleNotFoundError(message, name=PACKAGE)


def _open(settings: BpeSettings, _context: BackendContext) -> AbstractContextManager[Tokenizer]:
    return closing(BpeTokenizer(settings.vocabulary.value, _load(settings.vocabulary.value)))


BPE: BackendSpec[Tokenizer] = BackendSpec(BpeSettings, _open)
"""The entry point `bpe`."""
