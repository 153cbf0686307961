"""The options of the bpe tokenizer."""

from __future__ import annotations

from enum import StrEnum

from memsvc.ports.plugin import BackendSettings


class Vocabulary(StrEnum):
    """The vocabularies there are."""

    O200K = "o200k_base"
    """GPT-4o and later; close to those of other makers in English and in Chinese."""
    CL100K = "cl100k_base"
    """GPT-4 and 3.5; half as many tokens again for Chinese."""


class BpeSettings(BackendSettings):
    """What can be chosen about the bpe tokenizer."""

    vocabulary: Vocabulary = Vocabulary.O200K
    """Whose tokens are counted."""
