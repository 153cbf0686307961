"""The full-text index in the process: BM25 by Tantivy, in a directory of its own."""

from memsvc_backends.tantivy.index import TANTIVY

__all__ = ["TANTIVY"]
