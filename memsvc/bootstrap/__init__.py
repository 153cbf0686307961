"""Construction of the service from its settings: one module for each part, `memsvc.bootstrap.app` for the whole."""
