"""memsvc: long-term memory for AI agents, over gRPC."""
