"""What goes wrong in file systems, in the port's words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from memsvc.domain.errors import BackendUnavailableError, LimitExceededError

BACKEND = "blobs"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REMOTE = (("botocore.exceptions", "BotoCoreError"), ("botocore.exceptions", "ClientError"), ("aiohttp", "ClientError"))
"""What s3fs lets through of the libraries below it, beside OSError."""
_FULL_RETRY_SECONDS = 60.0


@contextmanager
def translate() -> Iterator[None]:
    """Raise the port's errors instead of those of file systems.

    Raises:
        LimitExceededError: There is no room.
        BackendUnavailableError: Anything else; a file that is not there, too, unless the caller looks for that.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise LimitExceededError("the room for files", retry_seconds=_FULL_RETRY_SECONDS) from error
        raise BackendUnavailableError(BACKEND) from error
    except Exception as error:
        if isinstance(error, _remote_errors()):
            raise BackendUnavailableError(BACKEND) from error
        raise


@cache
def _remote_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of those libraries that are there."""
    found: list[type[BaseException]] = []
    for module, name in _REMOTE:
        try:
            found.append(getattr(import_module(module), name))
        except ImportError:
            continue
    return tuple(found)
