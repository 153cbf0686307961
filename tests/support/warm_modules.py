"""Modules that the service and its commands import, for the processes that `forked_process` starts.

Backends import their libraries when they are opened; those of the default profile are named here.
"""

from __future__ import annotations

from importlib import import_module

NAMES = (
    "memsvc.bootstrap.app",
    "memsvc.bootstrap.check",
    "memsvc.bootstrap.offline",
    "memsvc.cli.app",
    "memsvc.client",
    "memsvc.logging_config",
    "memsvc.server.server",
    "memsvc.tracing",
    "memsvc_backends.bpe.tokenizer",
    "memsvc_backends.fsspec_blobs.store",
    "memsvc_backends.in_memory",
    "memsvc_backends.qdrant_edge.index",
    "memsvc_backends.sql.store",
    "memsvc_backends.tantivy.index",
    "memsvc_backends.wordllama.embedder",
    "chardet",
    "charset_normalizer",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvloop",
    "wordllama",
)

for name in NAMES:
    import_module(name)
