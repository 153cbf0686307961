"""When the embedder tries again, how long it waits for the endpoint, and when it gives up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc_backends.openai import EMBEDDER, OpenAiEmbedderSettings
from tests.integration.embedders.endpoint.support import Opener, Stopwatch, refused, unit
from tests.support.http_stub import DROPPED, Endpoint, Reply, failed
from tests.support.until import PATIENCE_SECONDS, until


@pytest.mark.parametrize("reply", [failed(429), failed(500), failed(503), failed(408), DROPPED])
def test_what_may_pass_is_tried_again(opened: Opener, endpoint: Endpoint, clock: Stopwatch, reply: Reply) -> None:
    """Twice here, with growing pauses; a dropped connection the first time at once."""
    endpoint.replies.extend([reply, reply])

    assert opened().embed_passages(["a"])[0] == pytest.approx(unit("a"))
    assert len(endpoint.asked) == 3
    first, second = clock.waits
    assert first == 0.0 if reply is DROPPED else 0.18 < first <= 0.25
    assert 0.37 < second <= 0.5


@pytest.mark.parametrize(("headers", "seconds"), [({"retry_after": "7"}, 7.0), ({"retry_after_ms": "1500"}, 1.5)])
def test_it_waits_as_long_as_the_endpoint_asks(
    opened: Opener, endpoint: Endpoint, clock: Stopwatch, headers: dict[str, str], seconds: float
) -> None:
    """Within its patience."""
    endpoint.replies.append(failed(429, **headers))

    opened().embed_passages(["a"])

    assert clock.waits == [seconds]


def test_beyond_its_patience_the_caller_is_told_when_to_come_back(
    opened: Opener, endpoint: Endpoint, clock: Stopwatch
) -> None:
    """And until then nobody asks the endpoint, whether for a passage or for a query; afterwards somebody does."""
    endpoint.replies.append(failed(429, retry_after="90"))
    embedder = opened()

    assert refused(embedder).retry_seconds == 90.0
    clock.now += 30
    with pytest.raises(BackendUnavailableError, match="takes no more requests for now") as caught:
        embedder.embed_query("q")
    assert caught.value.retry_seconds == pytest.approx(60.0)
    assert (len(endpoint.asked), clock.waits) == (1, [])

    clock.now += 61
    assert embedder.embed_query("q") == pytest.approx(unit("q"))


def test_a_query_waits_less_than_passages(opened: Opener, endpoint: Endpoint, clock: Stopwatch) -> None:
    """A search goes on without it."""
    endpoint.otherwise = lambda _: failed(503, retry_after="3")
    embedder = opened(query_patience_seconds=2, patience_seconds=10, retries=3)

    with pytest.raises(BackendUnavailableError) as caught:
        embedder.embed_query("q")
    assert (caught.value.retry_seconds, clock.waits) == (3.0, [])

    clock.now += 4
    refused(embedder)
    assert clock.waits == [3.0, 3.0, 3.0]


def test_a_slow_endpoint_is_given_up(stack: ExitStack, endpoint: Endpoint, tmp_path: Path) -> None:
    """A query after its patience, a passage after its tries; by the machine's own clock."""
    endpoint.held.clear()
    settings = OpenAiEmbedderSettings(
        base_url=endpoint.url, model="m", dimensions=8, timeout_seconds=0.1, query_patience_seconds=0.1, retries=1
    )
    embedder = stack.enter_context(EMBEDDER.open(settings, BackendContext(tmp_path, lambda: NOW)))

    with pytest.raises(BackendUnavailableError, match="does not answer in time"):
        embedder.embed_query("q")
    # What was sent may be read after nobody waits for the answer any more.
    until(lambda: endpoint.asked)
    assert len(endpoint.asked) == 1


def test_requests_and_tokens_keep_to_their_limits(opened: Opener, clock: Stopwatch) -> None:
    """What is over a burst of ten seconds' worth waits; a query goes ahead of it."""
    by_requests, by_tokens = opened(requests_per_minute=60), opened(tokens_per_minute=600)
    for _ in range(12):
        by_requests.embed_passages(["a"])
    assert clock.waits == [1.0, 1.0]
    by_requests.embed_query("q")
    assert clock.waits == [1.0, 1.0]

    clock.waits.clear()
    by_tokens.embed_passages(["x" * 400])
    by_tokens.embed_passages(["x" * 40])
    assert clock.waits == [1.0]


def test_a_query_beyond_the_limit_is_told_when_to_come_back(opened: Opener, endpoint: Endpoint) -> None:
    """It does not wait for minutes."""
    embedder = opened(requests_per_minute=1, query_patience_seconds=1)
    embedder.embed_passages(["a"])

    with pytest.raises(BackendUnavailableError, match="its limit allows") as caught:
        embedder.embed_query("q")
    assert caught.value.retry_seconds == pytest.approx(54.0)
    assert len(endpoint.asked) == 1


def test_closing_wakes_who_waits(stack: ExitStack, endpoint: Endpoint, tmp_path: Path) -> None:
    """Nobody waits on for an endpoint that is not asked any more."""
    endpoint.otherwise = lambda _: failed(429, retry_after="100")
    settings = OpenAiEmbedderSettings(base_url=endpoint.url, model="m", dimensions=8, patience_seconds=300)
    embedder = stack.enter_context(EMBEDDER.open(settings, BackendContext(tmp_path, lambda: NOW)))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(embedder.embed_passages, ["a"])
        while not endpoint.asked:
            threading.Event().wait(0.001)
        stack.close()
        with pytest.raises(BackendClosedError):
            waiting.result(PATIENCE_SECONDS)
