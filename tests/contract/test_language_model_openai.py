"""The OpenAI-compatible language model keeps the port's promises, and its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.models import LanguageModel, UnusableAnswerError
from memsvc.ports.plugin import BackendContext
from memsvc.testing.factories import NOW
from memsvc.testing.models import PROMPT, SCHEMA, LanguageModelContract
from memsvc_backends.openai import LANGUAGE_MODEL, OpenAiLanguageModelSettings
from tests.support.http_stub import Endpoint, Reply, failed
from tests.support.openai_chat_stub import said, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as endpoint:
        endpoint.otherwise = lambda body: said('{"name": "Lisbon"}' if "response_format" in body else " Lisbon\n")
        yield endpoint


def opened(stack: ExitStack, url: str, **options: Any) -> LanguageModel:
    settings = OpenAiLanguageModelSettings(base_url=url, model="m", **{"timeout_seconds": 20, "retries": 1} | options)
    context = BackendContext(Path("unused"), lambda: NOW)
    model: LanguageModel = stack.enter_context(LANGUAGE_MODEL.open(settings, context))
    return model


class TestOpenAi(LanguageModelContract):
    @pytest.fixture
    def stack(self) -> Iterator[ExitStack]:
        with ExitStack() as stack:
            yield stack

    @pytest.fixture
    def model(self, stack: ExitStack, endpoint: Endpoint) -> LanguageModel:
        return opened(stack, endpoint.url, api_key="k")

    @pytest.fixture
    def unreachable(self, stack: ExitStack) -> LanguageModel:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        return opened(stack, f"http://127.0.0.1:{port}/v1", retries=0)

    @pytest.fixture
    def close(self, stack: ExitStack) -> Callable[[], None]:
        return stack.close

    def test_it_speaks_the_protocol(self, model: LanguageModel, endpoint: Endpoint) -> None:
        """Model, roles, key, temperature and the strict schema are where the protocol has them."""
        assert model.json(PROMPT, SCHEMA, deadline=Deadline()) == {"name": "Lisbon"}

        asked = endpoint.asked[0]
        assert (asked["model"], asked["temperature"], endpoint.keys) == ("m", 0.0, ["Bearer k"])
        assert [message["role"] for message in asked["messages"]] == ["system", "user"]
        assert asked["messages"][1]["content"] == PROMPT.material
        assert asked["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "capital", "schema": SCHEMA.schema, "strict": True},
        }

    def test_older_endpoints_are_told_the_schema_in_words(self, stack: ExitStack, endpoint: Endpoint) -> None:
        """They know no schemas."""
        model = opened(stack, endpoint.url, json_output="object")

        assert model.json(PROMPT, SCHEMA, deadline=Deadline()) == {"name": "Lisbon"}
        assert endpoint.asked[0]["response_format"] == {"type": "json_object"}
        assert json.dumps(SCHEMA.schema) in endpoint.asked[0]["messages"][0]["content"]

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_what_may_pass_is_tried_again(self, model: LanguageModel, endpoint: Endpoint, status: int) -> None:
        """Once, as the settings say."""
        endpoint.replies.append(failed(status))

        assert model.text(PROMPT, deadline=Deadline()) == "Lisbon"
        assert len(endpoint.asked) == 2

    @pytest.mark.parametrize(("status", "tries"), [(401, 1), (400, 1), (500, 2)])
    def test_what_does_not_pass_is_told(
        self, model: LanguageModel, endpoint: Endpoint, status: int, tries: int
    ) -> None:
        """A wrong key or request is not tried again."""
        endpoint.otherwise = lambda _: failed(status)

        with pytest.raises(BackendUnavailableError):
            model.text(PROMPT, deadline=Deadline())
        assert len(endpoint.asked) == tries

    def test_the_deadline_ends_the_wait(self, model: LanguageModel, endpoint: Endpoint) -> None:
        """An endpoint that does not answer is not waited for longer than the caller does."""
        endpoint.held.clear()

        with pytest.raises(BackendUnavailableError):
            model.text(PROMPT, deadline=Deadline.after(0.3))

    @pytest.mark.parametrize(
        "reply",
        [
            said(""),
            said("   "),
            said("{}", refusal="I will not."),
            said('{"name": "Lis', finish="length"),
            Reply(body={"object": "chat.completion", "choices": []}),
            Reply(body={"object": "chat.completion"}),
        ],
    )
    def test_no_answer_is_told(self, model: LanguageModel, endpoint: Endpoint, reply: Reply) -> None:
        """Empty, refused, cut off, or no message at all."""
        endpoint.replies.append(reply)

        with pytest.raises(UnusableAnswerError):
            model.text(PROMPT, deadline=Deadline())

    @pytest.mark.parametrize("content", ["Lisbon", "[1]", "null", '"x"', "{"])
    def test_what_is_no_object_is_told(self, model: LanguageModel, endpoint: Endpoint, content: str) -> None:
        """JSON that is no object, and text that is no JSON."""
        endpoint.replies.append(said(content))

        with pytest.raises(UnusableAnswerError):
            model.json(PROMPT, SCHEMA, deadline=Deadline())


@pytest.mark.parametrize("wrong", [{"model": ""}, {"base_url": "ftp://x"}, {"timeout_seconds": 0}, {"typo": 1}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    """By their name, before anything is opened."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        OpenAiLanguageModelSettings(**{"model": "m"} | wrong)
