"""OpenAI's errors in the words of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import openai

from memsvc.domain.errors import BackendUnavailableError

NAME = "openai"


@contextmanager
def translate() -> Iterator[None]:
    """Raise what the domain knows in place of what the client raises, with the cause.

    Raises:
        BackendUnavailableError: The endpoint cannot be reached, is too slow, or refuses what it is asked.
    """
    try:
        yield
    except openai.OpenAIError as error:
        raise BackendUnavailableError(NAME) from error
