"""What Tantivy raises, in the words of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memsvc.domain.errors import BackendUnavailableError

NAME = "tantivy"


@contextmanager
def translate() -> Iterator[None]:
    """Raise BackendUnavailableError in place of anything that Tantivy raises."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        raise BackendUnavailableError(NAME) from error
    except BaseException as error:
        # A panic in Rust derives from BaseException, and its class cannot be imported.
        if not is_panic(error):
            raise
        raise BackendUnavailableError(NAME) from error


def is_panic(error: BaseException) -> bool:
    """Return whether the error is a panic of native code."""
    return type(error).__name__ == "PanicException"
