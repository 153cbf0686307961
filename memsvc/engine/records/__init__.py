"""Records of memories: building, patching, provenance, statements."""
