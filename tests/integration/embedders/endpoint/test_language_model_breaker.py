"""The circuit breaker of the language model at an endpoint."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.clock import Deadline
from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.faults import FAILURES, BreakerState
from memsvc.ports.models import Prompt
from memsvc.ports.plugin import BackendContext
from memsvc_backends.openai.entry_points import LANGUAGE_MODEL
from memsvc_backends.openai.settings import OpenAiLanguageModelSettings
from tests.support.http_stub import Reply, failed, serving
from tests.support.until import until

PROMPT = Prompt("Answer.", "你好, hello")
ANSWER = Reply(
    body={"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]}
)


def test_an_endpoint_that_fails_is_left_alone_and_probed() -> None:
    """After a few failures calls fail without a request; once it answers, so does the model."""
    context = BackendContext(Path("unused"), lambda: datetime.now(UTC))
    with serving(lambda _: failed(503)) as endpoint:
        settings = OpenAiLanguageModelSettings(base_url=endpoint.url, model="m", retries=0)
        with LANGUAGE_MODEL.open(settings, context) as model:
            for _ in range(FAILURES):
                with pytest.raises(BackendUnavailableError):
                    model.text(PROMPT, deadline=Deadline())
            assert {"openai-chat": BreakerState.OPEN} == context.faults.read().breakers
            with pytest.raises(BackendUnavailableError):
                model.text(PROMPT, deadline=Deadline())
            assert len(endpoint.asked) == FAILURES

            endpoint.otherwise = lambda _: ANSWER

            def answer() -> str:
                with suppress(BackendUnavailableError):
                    return model.text(PROMPT, deadline=Deadline())
                return ""

            assert until(answer) == "ok"
            assert {"openai-chat": BreakerState.CLOSED} == context.faults.read().breakers
