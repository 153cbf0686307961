"""`python -m memsvc` is the `memsvc` command."""

from __future__ import annotations

from memsvc.cli.app import main

if __name__ == "__main__":
    main()
