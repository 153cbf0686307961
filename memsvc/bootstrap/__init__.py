"""Making the service out of its settings: each module one part, `memsvc.bootstrap.app` the whole."""
