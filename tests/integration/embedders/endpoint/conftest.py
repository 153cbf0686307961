"""An endpoint, and what opens embedders of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.embedding_endpoint import serving
from tests.http_endpoint import Endpoint
from tests.integration.embedders.endpoint.opening import Opener, Stopwatch


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as endpoint:
        yield endpoint


@pytest.fixture
def clock() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def opened(stack: ExitStack, endpoint: Endpoint, clock: Stopwatch, tmp_path: Path) -> Opener:
    return Opener(stack, endpoint, clock, tmp_path)
