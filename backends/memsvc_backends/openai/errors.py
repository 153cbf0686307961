"""OpenAI's errors in the words of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import openai

from memsvc.domain.errors import BackendUnavailableError

NAME = "openai"
_REFUSED_KEY = "refuses the key: check api_key or api_key_file among its options"
_PROBLEMS = {
    401: _REFUSED_KEY,
    403: _REFUSED_KEY,
    404: "knows no such model, or is not at this address: check base_url and model among its options",
    429: "takes no more requests for now",
}


@contextmanager
def translate() -> Iterator[None]:
    """Raise what the domain knows in place of what the client raises, with the cause.

    Raises:
        BackendUnavailableError: The endpoint cannot be reached, is too slow, or refuses what it is asked.
    """
    try:
        yield
    except openai.OpenAIError as error:
        raise BackendUnavailableError(NAME, problem=problem_of(error)) from error


def problem_of(error: openai.OpenAIError) -> str:
    """Say what is wrong, for the end of a sentence; nothing that the endpoint says of itself goes into it."""
    if isinstance(error, openai.APITimeoutError):
        return "does not answer in time"
    if isinstance(error, openai.APIStatusError):
        return _PROBLEMS.get(error.status_code, f"answers with the HTTP status {error.status_code}")
    return "cannot be reached: check that it is up, and base_url among its options"
