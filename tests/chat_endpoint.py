"""An endpoint that speaks OpenAI's chat protocol, over real HTTP: the outside world of the language model tests."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

Reply = tuple[int, dict[str, Any] | str]
"""A status and a body."""


def said(content: str, *, finish: str = "stop", **message: Any) -> Reply:
    """Return the reply of a model that says *content*."""
    return 200, {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def failed(status: int) -> Reply:
    """Return a reply that is an error."""
    return status, {"error": {"message": "no", "type": "error", "code": None, "param": None}}


@dataclass
class Endpoint:
    """What the endpoint is asked, and what it answers: the replies in turn, then what *otherwise* says."""

    url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    otherwise: Callable[[dict[str, Any]], Reply] = lambda _: said("Lisbon")
    held: threading.Event = field(default_factory=threading.Event)
    """Replies wait for it; it is set from the start."""

    def statements(self, place: int = -1) -> list[dict[str, Any]]:
        """Return the statements that a question was about."""
        material: list[dict[str, Any]] = json.loads(self.asked[place]["messages"][1]["content"])["statements"]
        return material


class _Handler(BaseHTTPRequestHandler):
    endpoint: ClassVar[Endpoint]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply((200, {"object": "list", "data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.endpoint.asked.append(body)
        self.endpoint.keys.append(self.headers.get("Authorization", ""))
        self.endpoint.held.wait(30)
        self._reply(self.endpoint.replies.popleft() if self.endpoint.replies else self.endpoint.otherwise(body))

    def _reply(self, reply: Reply) -> None:
        status, body = reply
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Endpoint]:
    """Serve an endpoint on a free port of loopback."""
    endpoint = Endpoint()
    endpoint.held.set()
    handler = type("Handler", (_Handler,), {"endpoint": endpoint})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.held.set()
        server.shutdown()
        server.server_close()
        thread.join()
