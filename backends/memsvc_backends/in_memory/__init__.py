"""In-memory reference implementations of indexes, models and blobs: simple, slow and without files.

Tests use them where another backend is not the subject, and compare the other backends with them.
"""

from memsvc_backends.in_memory.blobs import BLOBS
from memsvc_backends.in_memory.indexes import LEXICAL, VECTORS
from memsvc_backends.in_memory.models import EMBEDDER, ESTIMATE, RERANKER

__all__ = ["BLOBS", "EMBEDDER", "ESTIMATE", "LEXICAL", "RERANKER", "VECTORS"]
