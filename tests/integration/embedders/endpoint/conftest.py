"""An endpoint, and what opens embedders of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.embedders.endpoint.support import Opener, Stopwatch
from tests.support.http_stub import Endpoint
from tests.support.openai_embeddings_stub import serving


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
