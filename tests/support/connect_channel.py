"""A gRPC channel over HTTP: the generated stubs call the Connect protocol, so that a test can run over both."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import grpc
import httpx
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

ENVELOPE = struct.Struct(">BI")
END_OF_STREAM = 0b10
CODES = {"canceled": grpc.StatusCode.CANCELLED} | {code.name.lower(): code for code in grpc.StatusCode}


class ConnectError(grpc.RpcError):
    """An error as stubs raise it, from the JSON of Connect."""

    def __init__(self, told: dict[str, Any], trailers: Sequence[tuple[str, Any]] = ()) -> None:
        super().__init__(told)
        self._code = CODES[told["code"]]
        self._message = told.get("message", "")
        status = Status(code=self._code.value[0], message=self._message)
        for detail in told.get("details", ()):
            value = base64.b64decode(detail["value"] + "==")
            status.details.append(AnyMessage(type_url=f"type.googleapis.com/{detail['type']}", value=value))
        self._trailers = (*trailers, ("grpc-status-details-bin", status.SerializeToString()))

    def code(self) -> grpc.StatusCode:
        """Return the code."""
        return self._code

    def details(self) -> str:
        """Return the message."""
        return str(self._message)

    def trailing_metadata(self) -> tuple[Any, ...]:
        """Return the trailers, with the details as gRPC has them."""
        return self._trailers


class ConnectChannel(grpc.Channel):
    """A channel to the HTTP address of a server, with messages in JSON or in binary form."""

    def __init__(self, url: str, *, form: str = "json", token: str = "") -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(120))
        self._form = form

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return _Call(self, method, self._unary)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return _Call(self, method, lambda call, request, headers: _Responses(self, call, [request], headers))

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return _Call(self, method, lambda call, requests, headers: _one(_Responses(self, call, requests, headers)))

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return _Call(self, method, lambda call, requests, headers: _Responses(self, call, requests, headers))

    def subscribe(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def unsubscribe(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> ConnectChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def encode(self, message: Message) -> bytes:
        """Return the bytes of a message."""
        if self._form == "proto":
            return message.SerializeToString()
        return json_format.MessageToJson(message).encode()

    def decode(self, data: bytes, message: type[Message]) -> Message:
        """Return a message."""
        return message.FromString(data) if self._form == "proto" else json_format.Parse(data, message())

    def open(self, path: str, body: bytes, headers: dict[str, str], prefix: str) -> httpx.Response:
        """Send a request; the body of the response is not read yet."""
        request = self._client.build_request(
            "POST", path, content=body, headers={"content-type": f"application/{prefix}{self._form}", **headers}
        )
        return self._client.send(request, stream=True)

    def _unary(self, call: _Call, request: Message, headers: dict[str, str]) -> Message:
        response = self.open(call.path, self.encode(request), headers, "")
        body = response.read()
        trailers = [
            (name.removeprefix("trailer-"), value)
            for name, value in response.headers.items()
            if name.startswith("trailer-")
        ]
        if response.status_code != httpx.codes.OK:
            raise ConnectError(json.loads(body), trailers)
        return self.decode(body, call.response)


class _Call:
    """A method of a stub."""

    def __init__(self, channel: ConnectChannel, path: str, run: Callable[..., Any]) -> None:
        self.path = path
        self._channel = channel
        self._run = run
        service, _, name = path.removeprefix("/").partition("/")
        method = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
        self.response: type[Message] = message_factory.GetMessageClass(method.output_type)

    def __call__(self, request: Any, timeout: float | None = None, metadata: Iterable[Any] = (), **_: Any) -> Any:
        headers = dict(metadata or ())
        if timeout is not None:
            headers["connect-timeout-ms"] = str(round(timeout * 1000))
        return self._run(self, request, headers)


class _Responses(Iterator[Message]):
    """The responses of a stream; the requests were all sent before the first one is read."""

    def __init__(
        self, channel: ConnectChannel, call: _Call, requests: Iterable[Message], headers: dict[str, str]
    ) -> None:
        sent = (channel.encode(request) for request in requests)
        body = b"".join(ENVELOPE.pack(0, len(each)) + each for each in sent)
        self._response = channel.open(call.path, body, headers, "connect+")
        self._channel, self._call = channel, call
        self._chunks = self._response.iter_raw()
        self._read = b""
        self._trailers: Sequence[tuple[str, Any]] = ()

    def __next__(self) -> Message:
        if self._response.status_code != httpx.codes.OK:
            raise ConnectError(json.loads(self._response.read()))
        flags, size = ENVELOPE.unpack(self._take(ENVELOPE.size))
        data = self._take(size)
        if not flags & END_OF_STREAM:
            return self._channel.decode(data, self._call.response)
        told = json.loads(data)
        self._response.close()
        self._trailers = [(name, value) for name, values in told.get("metadata", {}).items() for value in values]
        if "error" in told:
            raise ConnectError(told["error"], self._trailers)
        raise StopIteration

    def trailing_metadata(self) -> Sequence[tuple[str, Any]]:
        """Return the trailers of a stream that has ended."""
        return self._trailers

    def cancel(self) -> None:
        """Close the connection of the stream."""
        self._response.close()

    def _take(self, size: int) -> bytes:
        while len(self._read) < size:
            self._read += next(self._chunks)
        taken, self._read = self._read[:size], self._read[size:]
        return taken


def _one(responses: Iterator[Message]) -> Message:
    [response] = responses
    return response
