"""What memsvc needs of the world, as Protocols whose docstrings are the contract. Suites: `memsvc.testing`."""
