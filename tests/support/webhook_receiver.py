"""An HTTP server that gets webhooks, and answers as a test asks for."""

from __future__ import annotations

import hmac
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()


@dataclass(frozen=True)
class Answer:
    """An answer; *hangs* sends none before the receiver ends, *drips* sends a header without end.

    Of *body* nothing but these bytes is sent, whatever the headers promise.
    """

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    drips: bool = False
    body: bytes = b""


@dataclass(frozen=True)
class Request:
    """A request that arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def user(self) -> str:
        return str(self.event["data"]["userId"])

    @property
    def change(self) -> Any:
        return self.event["data"]["change"]

    def is_signed(self, secret: str = SECRET) -> bool:
        """Return whether the signature is that of Standard Webhooks."""
        key = b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = b64encode(hmac.new(key, signed, sha256).digest()).decode()
        return self.headers["webhook-signature"] == f"v1,{expected}"


class Receiver:
    """What arrived, in order, and how to answer: *answer* gets the path and the user of a request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answer: Callable[[str, str], Answer] = lambda _path, _user: Answer()
        self.requests: list[Request] = []
        self.ended = threading.Event()

    def of(self, path: str = "/", user: str = "", *, accepted: bool = False) -> list[Request]:
        """Return the requests to a path, of a user, without repetitions of what was accepted.

        An event whose answer came too late is sent again, as at a busy moment: receivers tell it by its id.
        """
        found: list[Request] = []
        kept: set[tuple[str, str]] = set()
        for one in list(self.requests):
            event = (one.path, one.headers.get("webhook-id", ""))
            if event in kept:
                continue
            if one.status == 204 and event[1]:
                kept.add(event)
            if one.path == path and user in {"", one.user} and (not accepted or one.status == 204):
                found.append(one)
        return found


@contextmanager
def receiving(tls: SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver at a free port of loopback, with TLS where it is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if len(body) < int(self.headers["content-length"]):
                return  # The request was broken off.
            user = json.loads(body)["data"]["userId"]
            answer = receiver.answer(self.path, user)
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(
                Request(self.path, headers, body, 0 if answer.hangs or answer.drips else answer.status)
            )
            if answer.hangs:
                receiver.ended.wait()
                return
            if answer.drips:
                self._drip()
                return
            self.send_response(answer.status)
            for name, value in {"content-length": "0", **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def do_GET(self) -> None:
            receiver.requests.append(Request(self.path, {}, b'{"data":{"userId":"GET"}}', 200))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def _drip(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
            while not receiver.ended.wait(0.1):
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
