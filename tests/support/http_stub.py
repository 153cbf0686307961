"""An endpoint as OpenAI's, over real HTTP, for any of its protocols; it can be told to misbehave."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


@dataclass(frozen=True)
class Reply:
    """What is answered. A status of 0 drops the connection without a word."""

    status: int = 200
    body: dict[str, Any] | str = ""
    headers: dict[str, str] = field(default_factory=dict)


DROPPED = Reply(0)


def failed(status: int, **headers: str) -> Reply:
    """Return a reply that is an error; `retry_after="1"` becomes a header."""
    error = {"error": {"message": "secret words of the endpoint", "type": "error", "code": None, "param": None}}
    return Reply(status, error, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Endpoint:
    """What the endpoint is asked, and what it answers: the replies in turn, then what *otherwise* says."""

    otherwise: Callable[[dict[str, Any]], Reply]
    url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    """Replies wait for it; it is set from the start."""
    most_at_once: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply_to(self, body: dict[str, Any], key: str) -> Reply:
        """Note what is asked, and return what is to be answered."""
        with self.lock:
            self.asked.append(body)
            self.keys.append(key)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.held.wait(30)
        with self.lock:
            self.at_once -= 1
            reply = self.replies.popleft() if self.replies else None
        return reply or self.otherwise(body)


class _Handler(BaseHTTPRequestHandler):
    endpoint: ClassVar[Endpoint]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(Reply(body={"object": "list", "data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._reply(self.endpoint.reply_to(body, self.headers.get("Authorization", "")))

    def _reply(self, reply: Reply) -> None:
        self.close_connection = not reply.status
        if not reply.status:
            return
        data = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
        try:
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(otherwise: Callable[[dict[str, Any]], Reply]) -> Iterator[Endpoint]:
    """Serve an endpoint on a free port of loopback, which answers as *otherwise* says until it is told another."""
    endpoint = Endpoint(otherwise)
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
