"""Both indexes on a Qdrant server, which several processes can share: vectors, and words as sparse vectors."""

from memsvc_backends.qdrant_server.sparse_index import SPARSE
from memsvc_backends.qdrant_server.vector_index import SERVER

__all__ = ["SERVER", "SPARSE"]
