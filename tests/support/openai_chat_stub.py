"""What an endpoint that speaks OpenAI's chat protocol answers: the outside world of the language model tests."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tests.support import http_stub
from tests.support.http_stub import Endpoint, Reply


def said(content: str, *, finish: str = "stop", **message: Any) -> Reply:
    """Return the reply of a model that says *content*."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return Reply(
        body={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


def serving() -> AbstractContextManager[Endpoint]:
    """Serve an endpoint that says "Lisbon"."""
    return http_stub.serving(lambda _: said("Lisbon"))
