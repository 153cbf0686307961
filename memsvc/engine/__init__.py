"""The use cases: what memsvc does, in terms of domain and ports. Synchronous and safe to call from several threads."""
