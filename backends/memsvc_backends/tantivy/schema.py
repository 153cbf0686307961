"""The fields of the index, and how a directory with them is opened.

Why all strings that filters compare share one field: every commit begins a dictionary for each field with terms,
whatever is in it. With fourteen of them a commit of one memory took 8 ms of a processor, with three it takes 3.5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tantivy import Index, Schema, SchemaBuilder, TextAnalyzerBuilder, Tokenizer

from memsvc.domain.errors import BackendUnavailableError

FORMAT = 3
"""Raise it with every change of the schema or of `key`: an index of another format is built anew."""
BODY = "body"
ENTRY = "entry"
FINGERPRINT = "fingerprint"
ROW = "row"
TERMS = "terms"
"""Everything that filters compare as a whole: strings of `filter_term`, and one of `place_term`."""
CONFIDENCE = "confidence"

_ANALYZER = "memsvc_terms"
# Never unsigned: an unsigned fast field that is fed a plain integer panics the writer's thread.
_NUMBERS = (
    ENTRY, FINGERPRINT, "importance", "create_time", "update_time", "event_time", "expire_time", "valid_from",
    "valid_to",
)  # fmt: skip
_MAX_KEY = 512
_MAX_TERM = 16_000
"""Characters; Tantivy drops terms of more than 65 530 bytes without a word."""


def build_schema() -> Schema:
    """Return the schema of every generation."""
    builder = SchemaBuilder()
    builder.add_text_field(BODY, tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field(TERMS, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(ROW, indexed=True, fast=True)
    for name in _NUMBERS:
        builder.add_integer_field(name, fast=True)
    builder.add_float_field(CONFIDENCE, fast=True)
    return builder.build()


def open_index(directory: Path, schema: Schema) -> Index:
    """Open the index in the directory, or create it when there is none."""
    index = Index(schema, str(directory))
    # The default analyzer drops tokens over 40 bytes and folds case; terms are to stay as they are.
    index.register_tokenizer(_ANALYZER, TextAnalyzerBuilder(Tokenizer.whitespace()).build())
    # Searchers change when a change was committed and at no other moment; the default watches files in a thread.
    index.config_reader("manual")
    return index


def filter_term(name: str, value: str | int) -> str:
    """Return what stands for a value of a field: long ones as a digest."""
    return _key(f"{name}={value}")


def place_term(owner: str, project_id: str) -> str:
    """Return what stands for a project of an owner; no two places have the same."""
    return _key(f"{len(owner)}:{owner}{project_id}")


def _key(value: str) -> str:
    return value if len(value) <= _MAX_KEY else _digest(value)


def term_key(term: str) -> str:
    """Return what stands for a term in the index: itself, or a digest when Tantivy would drop it."""
    return term if len(term) <= _MAX_TERM else _digest(term)


def _digest(value: str) -> str:
    return "\0" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()


# What Tantivy raises, in the words of the domain.


NAME = "tantivy"


@contextmanager
def translate() -> Iterator[None]:
    """Raise BackendUnavailableError in place of anything that Tantivy raises."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        raise BackendUnavailableError(NAME) from error
    except BaseException as error:
        # A panic in Rust derives from BaseException, and its class cannot be imported.
        if not is_panic(error):
            raise
        raise BackendUnavailableError(NAME) from error


def is_panic(error: BaseException) -> bool:
    """Return whether the error is a panic of native code."""
    return type(error).__name__ == "PanicException"
