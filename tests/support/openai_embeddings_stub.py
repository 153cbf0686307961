"""What an endpoint that speaks OpenAI's embeddings protocol answers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tests.support import http_stub
from tests.support.http_stub import Endpoint, Reply

DIMENSION = 8


def vector_of(text: str, dimension: int = DIMENSION) -> list[float]:
    """Return a vector that belongs to *text*, of no particular length."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return [float(x) for x in np.random.default_rng(seed).normal(size=dimension).astype(np.float32)]


def answered(body: dict[str, Any], vectors: Sequence[Any] | None = None) -> Reply:
    """Return the reply with the vectors of what was asked, or with *vectors* as they stand."""
    texts = body["input"]
    if vectors is None:
        vectors = [vector_of(text, body.get("dimensions", DIMENSION)) for text in texts]
        if body.get("encoding_format") == "base64":
            vectors = [base64.b64encode(np.array(one, "<f4").tobytes()).decode() for one in vectors]
    data = [{"object": "embedding", "index": place, "embedding": one} for place, one in enumerate(vectors)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply(body={"object": "list", "data": data, "model": body["model"], "usage": usage})


def serving() -> AbstractContextManager[Endpoint]:
    """Serve an endpoint that gives each text its vector."""
    return http_stub.serving(answered)
