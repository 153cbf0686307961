"""The fields of the index, and how a directory with them is opened."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tantivy import Index, Schema, SchemaBuilder, TextAnalyzerBuilder, Tokenizer

FORMAT = 1
"""Raise it with every change of the schema or of `key`: an index of another format is built anew."""
BODY = "body"
ENTRY = "entry"
FINGERPRINT = "fingerprint"
ROW = "row"
OWNER = "owner"
PROJECT = "project_id"
CONFIDENCE = "confidence"
INDEXED_NUMBERS = ("row", "importance")
"""Numbers that are compared one by one; by the others ranges alone are asked for, which need no postings."""

_ANALYZER = "memsvc_terms"
_KEYWORDS = (OWNER, PROJECT, "agent_id", "session_id", "layer", "kind", "category", "tier", "status", "speaker")
_MANY = ("tags", "metadata")
# Never unsigned: an unsigned fast field that is fed a plain integer panics the writer's thread.
_NUMBERS = (ENTRY, FINGERPRINT, "create_time", "update_time", "event_time", "expire_time")
_MAX_KEY = 512
_MAX_TERM = 16_000
"""Characters; Tantivy drops terms of more than 65 530 bytes without a word."""


def build_schema() -> Schema:
    """Return the schema of every generation."""
    builder = SchemaBuilder()
    builder.add_text_field(BODY, tokenizer_name=_ANALYZER, index_option="freq")
    for name in (*_KEYWORDS, *_MANY):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in INDEXED_NUMBERS:
        builder.add_integer_field(name, indexed=True, fast=True)
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


def key(value: str) -> str:
    """Return what stands for a string in the index: itself, or a digest when it is long."""
    return value if len(value) <= _MAX_KEY else _digest(value)


def term_key(term: str) -> str:
    """Return what stands for a term in the index: itself, or a digest when Tantivy would drop it."""
    return term if len(term) <= _MAX_TERM else _digest(term)


def _digest(value: str) -> str:
    return "\0" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
