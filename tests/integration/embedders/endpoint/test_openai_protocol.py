"""What is sent to the endpoint, and how what comes back is read."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memsvc_backends.openai.embedder import batches_of
from tests.integration.embedders.endpoint.support import Opener, unit
from tests.support.http_stub import Endpoint, Reply, failed
from tests.support.openai_embeddings_stub import DIMENSION, answered, vector_of


def test_it_speaks_the_protocol(opened: Opener, endpoint: Endpoint) -> None:
    """Model, key, encoding, prefixes, input types and dimensions are where endpoints look for them."""
    embedder = opened(
        api_key="k",
        send_dimensions=True,
        passage_prefix="passage: ",
        query_prefix="query: ",
        passage_input_type="document",
        query_input_type="query",
    )

    assert embedder.embed_passages(["a", " ", "x\0y"])[0] == pytest.approx(unit("passage: a"))
    assert embedder.embed_query("b") == pytest.approx(unit("query: b"))
    assert endpoint.asked == [
        {
            "model": "m",
            "input": ["passage: a", "passage: .", "passage: x y"],
            "encoding_format": "base64",
            "dimensions": DIMENSION,
            "input_type": "document",
        },
        {
            "model": "m",
            "input": ["query: b"],
            "encoding_format": "base64",
            "dimensions": DIMENSION,
            "input_type": "query",
        },
    ]
    assert endpoint.keys == ["Bearer k"] * 2


def test_no_more_is_sent_than_was_set(opened: Opener, endpoint: Endpoint) -> None:
    """Endpoints refuse fields that they do not know."""
    opened(encoding="float").embed_passages(["a"])

    assert endpoint.asked == [{"model": "m", "input": ["a"], "encoding_format": "float"}]


def test_an_endpoint_that_ignores_the_encoding_is_understood(opened: Opener, endpoint: Endpoint) -> None:
    """Numbers where base64 was asked for, in whatever order."""

    def backwards(body: dict[str, Any]) -> Reply:
        reply = answered(body, [vector_of(text) for text in body["input"]])
        assert isinstance(reply.body, dict)
        return replace(reply, body=reply.body | {"data": reply.body["data"][::-1]})

    endpoint.otherwise = backwards

    vectors = opened().embed_passages(["a", "b", "c"])

    assert vectors == pytest.approx(np.array([unit("a"), unit("b"), unit("c")]))


def test_texts_go_in_batches_at_the_same_time(opened: Opener, endpoint: Endpoint) -> None:
    """By number and by size, several requests at once, and come back in order."""
    endpoint.held.clear()
    texts = [f"text {number}" for number in range(10)]
    embedder = opened(batch_items=4, concurrency=2)
    with ThreadPoolExecutor(1) as pool:
        vectors = pool.submit(embedder.embed_passages, texts)
        while endpoint.at_once < 2:
            threading.Event().wait(0.001)
        endpoint.held.set()

    assert vectors.result() == pytest.approx(np.array([unit(text) for text in texts]))
    assert sorted(len(body["input"]) for body in endpoint.asked) == [2, 4, 4]
    assert endpoint.most_at_once == 2


def test_batches_hold_as_much_as_they_may() -> None:
    """In order; a text that is larger than a batch goes alone."""
    texts = ["aa", "b", "cc", "ddddddd", "e", "f", "g", "h"]

    assert list(batches_of(texts, items=3, chars=5)) == [["aa", "b", "cc"], ["ddddddd"], ["e", "f", "g"], ["h"]]
    assert list(batches_of([], items=3, chars=5)) == []


def test_what_is_too_much_is_sent_in_parts_and_cut(opened: Opener, endpoint: Endpoint) -> None:
    """One long text does not keep the others from their vectors, nor itself."""
    endpoint.otherwise = lambda body: failed(400) if max(map(len, body["input"])) > 300 else answered(body)

    vectors = opened().embed_passages(["a", "x" * 1000, "b"])

    assert vectors == pytest.approx(np.array([unit("a"), unit("x" * 250), unit("b")]))


def test_texts_are_cut_off_where_it_was_set(opened: Opener, endpoint: Endpoint) -> None:
    """Before they are sent, whatever was put before them."""
    opened(text_chars=64, passage_prefix="p: ").embed_passages(["x" * 100])

    assert endpoint.asked[0]["input"] == ["p: " + "x" * 64]
