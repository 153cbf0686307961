"""The `memsvc` command, also as `python -m memsvc`."""

from __future__ import annotations

import sys

CLI_PACKAGES = frozenset({"typer", "rich", "markdown_it"})


def main() -> None:
    """Run the command; without the extra `cli`, exit with 1 and name it."""
    try:
        from memsvc.cli.app import main as run  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        if error.name not in CLI_PACKAGES:
            raise
        sys.exit("memsvc: The command line needs the extra cli: pip install 'memsvc[cli]'")
    run()


if __name__ == "__main__":
    main()
