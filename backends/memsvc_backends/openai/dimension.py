"""How long a model's vectors are: set, remembered from an earlier start, or learned by asking once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from memsvc.domain.errors import BackendUnavailableError
from memsvc_backends.openai.errors import NAME

FILE = "dimensions.json"


def dimension_of(space: str, directory: Path, ask: Callable[[], int]) -> int:
    """Return the length remembered for the vectors of *space*, or that which *ask* tells, and remember it.

    Raises:
        BackendUnavailableError: It is not known yet, and the endpoint does not tell it now.
    """
    path = directory / FILE
    known = _read(path)
    if space in known:
        return known[space]
    try:
        found = ask()
    except BackendUnavailableError as error:
        problem = (
            f"{error.problem}; how long its vectors are is not known yet: once it answers that is learned, or set "
            "dimensions among its options"
        )
        raise BackendUnavailableError(NAME, retry_seconds=error.retry_seconds, problem=problem) from error
    directory.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{FILE}.{os.getpid()}")
    part.write_text(json.dumps(known | {space: found}, ensure_ascii=False, indent=1), encoding="utf-8")
    part.replace(path)
    return found


def _read(path: Path) -> dict[str, int]:
    """Return what is remembered; a file that cannot be read is as good as none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: length for name, length in value.items() if isinstance(length, int) and length > 0}
