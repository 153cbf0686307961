"""Dict-based reference of every port: slow, plain, and the oracle that the other backends are held against."""

from backends.inproc.blobs import BLOBS
from backends.inproc.embedder import EMBEDDER
from backends.inproc.lexical import LEXICAL
from backends.inproc.metadata import METADATA
from backends.inproc.reranker import RERANKER
from backends.inproc.tokenizer import ESTIMATE
from backends.inproc.vectors import VECTORS

__all__ = ["BLOBS", "EMBEDDER", "ESTIMATE", "LEXICAL", "METADATA", "RERANKER", "VECTORS"]
