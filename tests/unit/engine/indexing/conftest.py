"""A model at an endpoint, for tests of what the engine does with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.http_stub import Endpoint
from tests.support.openai_embeddings_stub import serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An endpoint that gives each text its vector."""
    with serving() as endpoint:
        yield endpoint
