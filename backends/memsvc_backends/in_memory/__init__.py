"""Dict-based reference of every port: slow, plain, and the oracle that the other backends are held against."""

from memsvc_backends.in_memory.blobs import BLOBS
from memsvc_backends.in_memory.embedder import EMBEDDER
from memsvc_backends.in_memory.lexical import LEXICAL
from memsvc_backends.in_memory.reranker import RERANKER
from memsvc_backends.in_memory.store import METADATA
from memsvc_backends.in_memory.tokenizer import ESTIMATE
from memsvc_backends.in_memory.vectors import VECTORS

__all__ = ["BLOBS", "EMBEDDER", "ESTIMATE", "LEXICAL", "METADATA", "RERANKER", "VECTORS"]
