"""A model at an endpoint, for tests of what the engine does with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.embedding_endpoint import serving
from tests.http_endpoint import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An endpoint that gives each text its vector."""
    with serving() as endpoint:
        yield endpoint
