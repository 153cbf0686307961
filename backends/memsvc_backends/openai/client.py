"""HTTP client of an OpenAI-compatible endpoint, its health check and error translation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import openai

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc_backends.openai.settings import EndpointSettings

PING_SECONDS = 5.0
NO_KEY = "none"
"""The client wants a key even where the endpoint does not."""
_NO_LIST = frozenset({404, 405})
"""What an endpoint that offers no list of models answers."""
NAME = "openai"
_REFUSED_KEY = "refuses the key: check api_key or api_key_file among its options"
_PROBLEMS = {
    401: _REFUSED_KEY,
    403: _REFUSED_KEY,
    404: "knows no such model, or is not at this address: check base_url and model among its options",
    429: "takes no more requests for now",
}


@contextmanager
def open_client(settings: EndpointSettings, *, retries: int) -> Iterator[openai.OpenAI]:
    """Make a client; nothing is asked yet."""
    with openai.OpenAI(
        base_url=settings.base_url,
        api_key=_key(settings),
        timeout=settings.timeout_seconds,
        max_retries=retries,
    ) as client:
        yield client


def ping(client: openai.OpenAI) -> None:
    """Ask for the list of models; an endpoint that has none, but answers, is there.

    Raises:
        BackendUnavailableError: The endpoint does not answer, or refuses the key.
        BackendClosedError: The client is closed.
    """
    refuse_when_closed(client)
    try:
        with translate():
            client.with_options(timeout=PING_SECONDS, max_retries=0).models.list()
    except BackendUnavailableError as error:
        if getattr(error.__cause__, "status_code", None) not in _NO_LIST:
            raise


def refuse_when_closed(client: openai.OpenAI) -> None:
    """Return, or raise BackendClosedError when the client is closed."""
    if client.is_closed():
        raise BackendClosedError(NAME)


def _key(settings: EndpointSettings) -> str | Callable[[], str]:
    """Return the key, or what reads it from its file before each request: so it may be changed while serving."""
    if settings.api_key_file is None:
        return settings.api_key.get_secret_value() or NO_KEY
    return lambda: _read(settings.api_key_file)


def _read(path: Path | None) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() if path is not None else NO_KEY
    except (OSError, UnicodeDecodeError) as error:
        raise BackendUnavailableError(NAME, problem="has no key: its api_key_file cannot be read") from error


# OpenAI's errors in the words of the domain.


@contextmanager
def translate() -> Iterator[None]:
    """Translate errors of the client into errors of the domain.

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
