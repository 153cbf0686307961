"""Ports of memsvc as Protocols whose docstrings are the contract. Contract suites: `memsvc.testing`."""
