"""The API over HTTP: JSON by any client, Connect, gRPC-Web, HTTP/2, wrong input, rules for browsers, a clean stop."""

from __future__ import annotations

import base64
import gzip
import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import trustme
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo

from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.e2e.access.support import ASKING, DAY, make_key
from tests.support.connect_channel import ENVELOPE, ConnectChannel
from tests.support.rpc import TIMEOUT, create
from tests.support.server_process import FAST, HTTP, ServerProcess, Stubs
from tests.support.until import until

CREATE, SEARCH = "/memsvc.v1.MemoryService/CreateMemory", "/memsvc.v1.SearchService/Search"
STREAM, WATCH = "/memsvc.v1.SearchService/StreamSearch", "/memsvc.v1.MemoryService/WatchMemories"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def web(server: ServerProcess) -> Iterator[httpx.Client]:
    """A client of the session's server, as curl is one."""
    with httpx.Client(base_url=server.url, timeout=TIMEOUT) as client:
        yield client


def post(web: httpx.Client, path: str, body: object, **headers: str) -> httpx.Response:
    """Send JSON."""
    return web.post(path, content=json.dumps(body), headers={**JSON, **headers})


def fields(response: httpx.Response) -> list[str]:
    """Return the paths of the violations that an error names, from its bytes; they are also there for people."""
    told = response.json()
    assert told["code"] == "invalid_argument"
    info = ErrorInfo.FromString(base64.b64decode(told["details"][0]["value"] + "=="))
    assert ("memsvc", "ERROR_REASON_INVALID_REQUEST") == (info.domain, info.reason)
    violations = BadRequest.FromString(base64.b64decode(told["details"][1]["value"] + "==")).field_violations
    assert [one.field for one in violations] == [one["field"] for one in told["details"][1]["debug"]["fieldViolations"]]
    return [one.field for one in violations]


@pytest.mark.parametrize(
    ("content", "query"),
    [("Ada moved to Berlin in May.", "where does Ada live"), ("李雷五月搬到了柏林。", "李雷住在哪里")],
)
def test_json_in_and_out(web: httpx.Client, user: str, content: str, query: str) -> None:
    """What curl sends is stored and found, in both languages; the id of the request comes back."""
    created = post(web, CREATE, {"scope": {"userId": user}, "memory": {"content": content}})
    found = post(web, SEARCH, {"scope": {"user_id": user}, "query": query}, **{"x-request-id": "mine"})

    assert 200 == created.status_code, created.text
    assert "WRITE_OUTCOME_CREATED" == created.json()["outcome"]
    assert [content] == [hit["memory"]["content"] for hit in found.json()["hits"]]
    assert "mine" == found.headers["x-request-id"] == found.headers["trailer-x-request-id"]


def test_both_transports_have_the_same_memories(web: httpx.Client, stubs: Stubs, scope: types_pb.Scope) -> None:
    """What was written over gRPC is read over HTTP, in JSON, binary form and as a stream, and all say the same."""
    memory = create(stubs, scope, "The kettle is on the third shelf.", key="kettle")
    request = memory_pb.GetMemoryRequest(scope=scope, key="kettle")
    for form in ("json", "proto"):
        with ConnectChannel(str(web.base_url), form=form) as channel:
            over_http = Stubs(channel)
            assert memory.content == over_http.memory.GetMemory(request, timeout=TIMEOUT).memory.content
            search = search_pb.SearchRequest(scope=scope, query="kettle")
            streamed = over_http.search.StreamSearch(search_pb.StreamSearchRequest(search=search), timeout=TIMEOUT)
            assert [memory.id] == [hit.memory.id for hit in list(streamed)[-1].fused.hits]


def test_a_stream_of_requests(web: httpx.Client, user: str) -> None:
    """An import over HTTP: the requests go in one body, the progress comes as a stream."""
    scope = types_pb.Scope(user_id=user)
    parts = [memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope))]
    lines = [memory_pb.BatchMemory(memory=types_pb.Memory(content=f"Line {number}.")) for number in range(5)]
    batch = memory_pb.ImportBatch(memories=lines)
    parts.append(memory_pb.ImportMemoriesRequest(batch=batch))
    with ConnectChannel(str(web.base_url)) as channel:
        *_, last = Stubs(channel).memory.ImportMemories(iter(parts), timeout=TIMEOUT)
        listed = Stubs(channel).memory.ListMemories(memory_pb.ListMemoriesRequest(scope=scope), timeout=TIMEOUT)
    assert 5 == len(listed.memories), last


def test_grpc_web(web: httpx.Client, stubs: Stubs, scope: types_pb.Scope) -> None:
    """Browsers with a gRPC-Web client get the message, and the status in a frame of trailers."""
    memory = create(stubs, scope, "A", key="k")
    headers = {"content-type": "application/grpc-web+proto", "x-grpc-web": "1"}

    def ask(key: str) -> tuple[list[bytes], str]:
        body = memory_pb.GetMemoryRequest(scope=scope, key=key).SerializeToString()
        content = ENVELOPE.pack(0, len(body)) + body
        answer = web.post("/memsvc.v1.MemoryService/GetMemory", content=content, headers=headers)
        messages, rest, trailers = [], answer.content, ""
        while rest:
            flags, size = ENVELOPE.unpack(rest[:5])
            if flags & 0x80:
                trailers = rest[5 : 5 + size].decode().lower()
            else:
                messages.append(rest[5 : 5 + size])
            rest = rest[5 + size :]
        return messages, trailers or "".join(f"{name}: {value}\n" for name, value in answer.headers.items())

    [message], trailers = ask("k")
    assert memory.id == memory_pb.GetMemoryResponse.FromString(message).memory.id
    assert "grpc-status: 0" in trailers
    assert "grpc-status: 5" in ask("no such key")[1]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ('{"qurey": "x"}', ["qurey"]),
        ('{"scope": {"user": "x"}}', ["scope.user"]),
        ('{"scope": {"userId": 5}}', ["scope.userId"]),
        ('{"mode": "SEARCH_MODE_FAST"}', ["mode"]),
        ('{"limit": 1e99}', ["limit"]),
        ('{"query": "\\ud800"}', ["query"]),
        ('{"query": "a", "query": "b"}', ["request"]),
        ('{"query": ', ["request"]),
        ("[]", ["request"]),
        ("", ["request"]),
        ("x" * 100, ["request"]),
        ("{}", ["scope.user_id", "query"]),
        ('{"filter": ' + '{"where": {"not": ' * 200 + "{}" + "}}" * 200 + "}", None),
    ],
)
def test_wrong_json_is_refused_by_its_field(web: httpx.Client, body: str, paths: list[str] | None) -> None:
    """The error is in JSON, with the path of the field, and with the details that gRPC has."""
    response = web.post(SEARCH, content=body, headers=JSON)

    assert 400 == response.status_code, response.text
    assert paths is None or paths == fields(response)


def test_bytes_that_are_no_text_are_refused(web: httpx.Client) -> None:
    """Neither JSON in another encoding nor bytes that are no message reach a handler."""
    assert ["request"] == fields(web.post(SEARCH, content=b'{"query": "\xff"}', headers=JSON))
    assert ["request"] == fields(
        web.post(SEARCH, content=b"\xff\xff\xff", headers={"content-type": "application/proto"})
    )


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", SEARCH, {"content-type": "text/plain"}, 415),
        ("POST", SEARCH, {}, 415),
        ("POST", STREAM, {"content-type": "application/json"}, 415),
        ("GET", SEARCH, {}, 405),
        ("POST", "/memsvc.v1.SearchService/Serach", JSON, 404),
        ("POST", "/memsvc.v2.SearchService/Search", JSON, 404),
        ("GET", "/../etc/passwd", {}, 404),
        ("POST", "/healthz", JSON, 405),
        ("POST", SEARCH, {**JSON, "connect-protocol-version": "7"}, 400),
        ("POST", SEARCH, {**JSON, "connect-timeout-ms": "soon"}, 400),
        ("POST", SEARCH, {**JSON, "content-encoding": "lzma"}, 501),
        ("POST", SEARCH, {**JSON, "user-agent": b"caf\xe9"}, 400),
        ("POST", SEARCH, {**JSON, "authorization": b"Bearer \xff"}, 400),
    ],
)
def test_wrong_requests_are_told_in_words(
    web: httpx.Client, method: str, path: str, headers: dict[str, str | bytes], status: int
) -> None:
    """Whatever is wrong with the request itself, the answer is an error of Connect with a message."""
    response = web.request(method, path, content=b"{}", headers=headers)

    assert status == response.status_code, response.text
    told = response.json()
    assert told["code"]
    assert told["message"]
    assert "codec" not in told["message"]


def test_large_bodies_are_refused(web: httpx.Client, user: str) -> None:
    """Beyond the limits of JSON, of a message and of what a packed one unpacks to."""
    scope = {"userId": user}
    text = json.dumps({"scope": scope, "query": "x", "keywords": ["y" * 1000] * 5_000}).encode()
    assert ["request"] == fields(web.post(SEARCH, content=text, headers=JSON))
    whole = web.post(SEARCH, content=b" " * (17 * 1024 * 1024), headers=JSON)
    assert (429, "resource_exhausted") == (whole.status_code, whole.json()["code"])
    bomb = web.post(SEARCH, content=gzip.compress(b" " * 200_000_000), headers={**JSON, "content-encoding": "gzip"})
    assert (429, "resource_exhausted") == (bomb.status_code, bomb.json()["code"])
    packed = gzip.compress(json.dumps({"scope": scope, "query": "x"}).encode())
    assert 200 == web.post(SEARCH, content=packed, headers={**JSON, "content-encoding": "gzip"}).status_code


def test_a_deadline_in_the_headers(web: httpx.Client, user: str) -> None:
    """A watch ends at the client's deadline, with the error in its last message."""
    body = json.dumps({"scope": {"userId": user}}).encode()
    headers = {"content-type": "application/connect+json", "connect-timeout-ms": "300"}
    answer = web.post(WATCH, content=ENVELOPE.pack(0, len(body)) + body, headers=headers)
    assert b"deadline_exceeded" in answer.content


def test_a_client_that_leaves_ends_its_call(tmp_path: Path) -> None:
    """A closed connection ends a watch: its slot, the only one, is free again."""
    environment = FAST | HTTP | {"MEMSVC_WATCH__MAX_STREAMS": "1"}
    with ServerProcess(tmp_path / "data", environment) as server, httpx.Client(base_url=server.url) as web:
        first, second = watch(web), watch(web)
        assert b"heartbeat" in next(first.iter_raw())
        assert b"resource_exhausted" in second.read()
        first.close()

        def is_free() -> bool:
            answer = watch(web)
            told = next(answer.iter_raw())
            answer.close()
            return b"heartbeat" in told

        until(is_free)


def watch(web: httpx.Client) -> httpx.Response:
    """Open a watch; nothing of the answer is read."""
    body = json.dumps({"scope": {"userId": "u"}}).encode()
    headers = {"content-type": "application/connect+json"}
    content = ENVELOPE.pack(0, len(body)) + body
    return web.send(web.build_request("POST", WATCH, content=content, headers=headers), stream=True)


def test_http_2_without_encryption(server: ServerProcess, user: str) -> None:
    """The same address speaks HTTP/2 by prior knowledge."""
    pyqwest = pytest.importorskip("pyqwest")
    with pyqwest.SyncHTTPTransport(http_version=pyqwest.HTTPVersion.HTTP2) as transport:
        client = pyqwest.SyncClient(transport)
        body = json.dumps({"scope": {"userId": user}, "query": "x"}).encode()
        answer = client.post(server.url + SEARCH, headers=JSON, content=body)
    assert 200 == answer.status


def test_probes(web: httpx.Client) -> None:
    """What an orchestrator asks by HTTP."""
    assert ["ok\n", "ok\n"] == [web.get(path).text for path in ("/healthz", "/readyz")]


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("evil.example:50052", 421), ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:5", 200)],
)
def test_names_of_others_are_refused_without_keys(web: httpx.Client, user: str, host: str, status: int) -> None:
    """A web page cannot reach the service by a name of its own that resolves to this machine."""
    answer = post(web, SEARCH, {"scope": {"userId": user}, "query": "x"}, host=host)
    assert status == answer.status_code, answer.text


def test_no_origin_is_allowed_unless_it_is_set(web: httpx.Client) -> None:
    """A browser asks first, and is told nothing that allows a call."""
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = web.options(SEARCH, headers=asked)
    assert "access-control-allow-origin" not in answer.headers
    assert answer.status_code >= 400


def test_rules_for_browsers(tmp_path: Path) -> None:
    """Origins that are set may call with a key and read the id of the request; a proxy's name may be allowed."""
    environment = (
        FAST
        | HTTP
        | {
            "MEMSVC_HTTP__CORS_ORIGINS": '["https://agents.example"]',
            "MEMSVC_HTTP__ALLOWED_HOSTS": '["memory.example"]',
        }
    )
    with ServerProcess(tmp_path / "data", environment) as server, httpx.Client(base_url=server.url) as web:
        origin = {"origin": "https://agents.example"}
        asked = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        before = web.options(SEARCH, headers=origin | asked)
        assert (200, "https://agents.example") == (before.status_code, before.headers["access-control-allow-origin"])
        assert "authorization" in before.headers["access-control-allow-headers"]
        call = post(web, SEARCH, {"scope": {"userId": "u"}, "query": "x"}, host="memory.example", **origin)
        assert 200 == call.status_code
        assert "x-request-id" in call.headers["access-control-expose-headers"]
        near = web.options(SEARCH, headers=origin | asked | {"access-control-request-private-network": "true"})
        assert (200, "true") == (near.status_code, near.headers["access-control-allow-private-network"])
        other = web.options(SEARCH, headers={"origin": "https://evil.example"} | asked)
        assert "access-control-allow-origin" not in other.headers


def test_a_proxy_on_this_machine_makes_no_local_caller(web: httpx.Client) -> None:
    """Without authentication keys are made from this machine alone; what a proxy forwards comes from another one."""
    path, body = "/memsvc.v1.AdminService/CreateApiKey", {"name": "n", "role": "API_KEY_ROLE_READER"}
    forwarded = post(web, path, body, **{"x-forwarded-for": "203.0.113.9"})
    assert (403, "permission_denied") == (forwarded.status_code, forwarded.json()["code"])


def test_keys(tmp_path: Path) -> None:
    """Without a key, with one that nobody has, one that expired and one of the wrong role: named errors; then it works."""
    data = tmp_path / "data"
    writer = make_key(data, NewApiKey("writer"))
    reader = make_key(data, NewApiKey("reader", ApiKeyRole.READ_ONLY))
    late = make_key(data, NewApiKey("late", ttl=DAY), ago=2 * DAY)
    with ServerProcess(data, ASKING | HTTP) as server, httpx.Client(base_url=server.url) as web:

        def ask(text: str, path: str = CREATE) -> tuple[int, str]:
            body: dict[str, Any] = {"scope": {"userId": "ada"}}
            body |= {"memory": {"content": "A"}} if path == CREATE else {"query": "A"}
            answer = post(web, path, body, **({"authorization": f"Bearer {text}"} if text else {}))
            details = answer.json().get("details", [{}])
            return answer.status_code, details[0].get("debug", {}).get("reason", "")

        assert (401, "ERROR_REASON_API_KEY_REQUIRED") == ask("")
        assert (401, "ERROR_REASON_API_KEY_INVALID") == ask("nonsense")
        assert (401, "ERROR_REASON_API_KEY_EXPIRED") == ask(late.text)
        assert (403, "ERROR_REASON_PERMISSION_DENIED") == ask(reader.text)
        assert (200, "") == ask(writer.text)
        assert (200, "") == ask(reader.text, SEARCH)
        # With keys any name is answered to: what a page could reach by it needs a key that it has not.
        named = post(web, SEARCH, {}, host="memory.example")
        assert 401 == named.status_code


def test_encryption(tmp_path: Path) -> None:
    """The certificate of the server is that of HTTP; browsers choose HTTP/2; a changed certificate is taken up."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    files = {"CERTIFICATE": tmp_path / "cert.pem", "KEY": tmp_path / "key.pem"}

    def issue() -> None:
        leaf = authority.issue_cert("localhost", "127.0.0.1")
        leaf.private_key_pem.write_to_path(files["KEY"])
        files["CERTIFICATE"].write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))

    issue()
    environment = FAST | HTTP | {f"MEMSVC_SERVER__TLS__{name}": str(path) for name, path in files.items()}
    server = EncryptedProcess(tmp_path / "data", environment, authority=tmp_path / "ca.pem")
    with server:
        import ssl  # noqa: PLC0415

        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with httpx.Client(base_url=server.url, http2=True, verify=context) as web:
            answer = post(web, SEARCH, {"scope": {"userId": "u"}, "query": "x"})
            assert ("HTTP/2", 200) == (answer.http_version, answer.status_code)
        place = urlsplit(server.url)

        def serial() -> str:
            with socket.create_connection((place.hostname, place.port)) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as secure:
                    return str(secure.getpeercert()["serialNumber"])  # type: ignore[index]

        first = serial()
        issue()
        until(lambda: serial() != first)


class EncryptedProcess(ServerProcess):
    """A server that is asked by TLS."""

    def __init__(self, data_dir: Path, environment: dict[str, str], *, authority: Path) -> None:
        super().__init__(data_dir, environment)
        self._authority = authority

    def channel(self) -> Any:
        """Open a channel of one's own to the server."""
        import grpc  # noqa: PLC0415

        credentials = grpc.ssl_channel_credentials(self._authority.read_bytes())
        return grpc.secure_channel(self.bound.replace("127.0.0.1", "localhost"), credentials)


def test_a_slow_client_is_let_go(tmp_path: Path) -> None:
    """Who stops in the middle of a body is told so, and loses the connection's call."""
    environment = FAST | HTTP | {
        "MEMSVC_SERVER__FIRST_MESSAGE_SECONDS": "0.3", "MEMSVC_SERVER__NEXT_MESSAGE_SECONDS": "0.3",
    }  # fmt: skip
    with ServerProcess(tmp_path / "data", environment) as server:
        place = urlsplit(server.url)
        for path in (SEARCH, "/mcp?user=ada"):
            with socket.create_connection((place.hostname, place.port), timeout=TIMEOUT) as plain:
                plain.sendall(
                    f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    'Content-Length: 100\r\n\r\n{"query":'.encode()
                )
                # The header and the body may arrive one after the other.
                answer = plain.recv(65_536)
                while not answer.endswith((b"0\r\n\r\n", b"}")):
                    answer += plain.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 504")
            assert b"deadline_exceeded" in answer
        whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for beginning in (b"POST / HTTP/1.1\r\nHost: loc", whole + b"GET /hea"):
            with socket.create_connection((place.hostname, place.port), timeout=TIMEOUT) as plain:
                plain.sendall(beginning)
                until(partial(_is_closed, plain))


def _is_closed(plain: socket.socket) -> bool:
    return not plain.recv(65_536)


def test_a_unix_socket_and_a_clean_stop(tmp_path: Path) -> None:
    """HTTP over a unix socket; a call under way at the stop ends within the grace; the socket is removed."""
    path = tmp_path / "http.sock"
    environment = FAST | {"MEMSVC_HTTP__ADDRESS": f"unix:{path}", "MEMSVC_SERVER__GRACE_SECONDS": "1"}
    with ServerProcess(tmp_path / "data", environment) as server:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as web:
            assert 200 == post(web, SEARCH, {"scope": {"userId": "u"}, "query": "x"}).status_code
            assert next(watch(web).iter_raw())
            assert 0 == server.stop()
    assert not path.exists()


def test_an_address_in_use_is_told(tmp_path: Path) -> None:
    """The message names the setting."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = FAST | {"MEMSVC_HTTP__ADDRESS": f"127.0.0.1:{taken.getsockname()[1]}"}
        with pytest.raises(RuntimeError, match=r"the port is in use.*http\.address"):
            ServerProcess(tmp_path / "data", environment).start()
