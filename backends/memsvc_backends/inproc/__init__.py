"""Dict-based reference of every port: slow, plain, and the oracle that the other backends are held against."""

from memsvc_backends.inproc.blobs import BLOBS
from memsvc_backends.inproc.embedder import EMBEDDER
from memsvc_backends.inproc.lexical import LEXICAL
from memsvc_backends.inproc.metadata import METADATA
from memsvc_backends.inproc.reranker import RERANKER
from memsvc_backends.inproc.tokenizer import ESTIMATE
from memsvc_backends.inproc.vectors import VECTORS

__all__ = ["BLOBS", "EMBEDDER", "ESTIMATE", "LEXICAL", "METADATA", "RERANKER", "VECTORS"]
