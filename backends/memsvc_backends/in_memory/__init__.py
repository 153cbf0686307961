"""In-memory reference implementations of the indexes, models and blobs: plain, slow and without files.

Tests use them where another backend is not the subject, and compare the other backends with them.
"""

from memsvc_backends.in_memory.blobs import BLOBS
from memsvc_backends.in_memory.embedder import EMBEDDER
from memsvc_backends.in_memory.lexical import LEXICAL
from memsvc_backends.in_memory.reranker import RERANKER
from memsvc_backends.in_memory.tokenizer import ESTIMATE
from memsvc_backends.in_memory.vectors import VECTORS

__all__ = ["BLOBS", "EMBEDDER", "ESTIMATE", "LEXICAL", "RERANKER", "VECTORS"]
