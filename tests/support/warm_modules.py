"""What the service and its commands load, for the processes that `forked_process` starts.

Backends import their libraries when they are opened; those of the default profile are named here. The table of the fast
embedder, the vocabulary of the tokenizer and the tree of the commands are only read: they are made once, before the
fork, which saves each process a quarter of a second.
"""

from __future__ import annotations

import gc
from functools import cache
from importlib import import_module
from typing import Any

import typer.main

from memsvc_backends.bpe import tokenizer
from memsvc_backends.qdrant_edge import generation
from memsvc_backends.wordllama import embedder

NAMES = (
    "memsvc.bootstrap.app",
    "memsvc.bootstrap.check",
    "memsvc.bootstrap.offline",
    "memsvc.cli.app",
    "memsvc.client",
    "memsvc.logging_config",
    "memsvc.mcp.server",
    "memsvc.server.server",
    "memsvc.tracing",
    "memsvc_backends.fsspec_blobs.store",
    "memsvc_backends.in_memory",
    "memsvc_backends.qdrant_edge.index",
    "memsvc_backends.sql.store",
    "memsvc_backends.tantivy.index",
    "chardet",
    "charset_normalizer",
    "openai",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvloop",
)


def _keep(module: Any, name: str, *arguments: Any, **named: Any) -> None:
    """Make a function of a module return the same object for the same arguments, and call it once."""
    kept = cache(getattr(module, name))
    setattr(module, name, kept)
    kept(*arguments, **named)


for each in NAMES:
    import_module(each)
_keep(typer.main, "get_command", import_module("memsvc.cli.app").app)
_keep(tokenizer, "_load", tokenizer.BpeVocabulary.O200K.value)
_keep(embedder, "_load_table")
# Builders yield to searches; where tests keep all processors busy, each start and each rebuild would wait for seconds.
vars(generation)["_NICENESS"] = 0
# The collector need not look at what all processes share, nor write to it.
gc.collect()
gc.freeze()
