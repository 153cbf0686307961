"""MCP over Streamable HTTP: callers and scopes by key, by URL and by the tokens of an authorization server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client, ClientSession, MCPError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import NewApiKey
from tests.e2e.access.support import ASKING, DAY, make_key
from tests.e2e.mcp.support import Bridge, session, text_of
from tests.support.server_process import FAST, HTTP, ServerProcess

SECONDS = 60.0
FOLDER = Path(__file__).parent / "authorization_server"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A service with keys of every sort."""
    data = tmp_path_factory.mktemp("mcp") / "data"
    keys = {
        "ada": NewApiKey("ada", tenant_id="acme", user_ids=("ada",)),
        "reader": NewApiKey("reader", ApiKeyRole.READ_ONLY, tenant_id="acme", user_ids=("ada",)),
        "project": NewApiKey("project", tenant_id="acme", user_ids=("ada",), project_ids=("web",)),
        "any": NewApiKey("any", tenant_id="acme"),
        "two": NewApiKey("two", tenant_id="acme", user_ids=("ada", "bob")),
        "late": NewApiKey("late", tenant_id="acme", user_ids=("ada",), ttl=DAY),
    }
    texts = {name: make_key(data, key, ago=2 * DAY if name == "late" else 0 * DAY).text for name, key in keys.items()}
    with ServerProcess(data, ASKING | HTTP) as server:
        yield Keyed(server, texts)


@dataclass
class Keyed:
    """A running service, and the texts of its keys."""

    server: ServerProcess
    texts: Mapping[str, str]

    def session(self, key: str, query: str = "", **headers: str) -> contextlib.AbstractContextManager[Bridge]:
        """Open a session with a key."""
        bearer = {"Authorization": f"Bearer {self.texts[key]}"}
        return session(f"{self.server.url}/mcp{query}", headers=bearer | headers)


@pytest.mark.parametrize(
    ("content", "query"),
    [("The user takes tea with milk.", "what does she drink?"), ("用户周末在湖边划船。", "周末做什么？")],
)
def test_without_keys_the_url_says_for_whom(server: ServerProcess, user: str, content: str, query: str) -> None:
    """Every tool works; another user, another project and no user at all see nothing of it."""
    with session(f"{server.url}/mcp?user={user}&project=web") as bridge:
        stored = bridge.done("remember", content=content)
        assert content in bridge.said("recall", query=query)
        [handle] = re.findall(r"^- (\[[m-z]\d+\])", bridge.said("context", query=query), re.MULTILINE)
        assert content in bridge.said("get_memory", id=handle)
        assert stored["id"] in str(bridge.ask(bridge.session.read_resource, f"memsvc://memory/{stored['id']}"))
    for query_string in (f"?user={user}-other&project=web", f"?user={user}&project=app"):
        with session(f"{server.url}/mcp{query_string}") as bridge:
            assert content not in bridge.said("recall", query=query)
    with session(f"{server.url}/mcp", headers={"X-Memsvc-User": user, "X-Memsvc-Project": "web"}) as bridge:
        assert content in bridge.said("recall", query=query)
    with session(f"{server.url}/mcp") as bridge, pytest.raises(MCPError, match=r"\?user=NAME"):
        bridge.call("recall", query=query)
    with session(f"{server.url}/mcp?user=u&time_zone=Mars/Olympus") as bridge, pytest.raises(MCPError, match="Olympus"):
        bridge.call("recall", query=query)


def test_conflicts_are_listed_and_settled(server: ServerProcess, user: str) -> None:
    """The question comes with the conflict; a wrong resolution is refused; then nothing is open."""
    with session(f"{server.url}/mcp?user={user}") as bridge:
        bridge.done("remember", content="My dentist appointment is on Monday.")
        older = bridge.done("remember", content="My favourite colour is blue.")["id"]
        newer = bridge.done("remember", content="My favourite colour is green.")["id"]
        [conflict] = bridge.done("conflicts")["conflicts"]
        assert "?" in conflict["question"]
        assert (newer, older) == (conflict["newer_id"], conflict["older_id"])
        assert "My favourite colour is blue." in bridge.said("conflicts")
        assert "resolution" in bridge.refused("resolve_conflict", id=conflict["id"], resolution="MAYBE")
        assert "settled" in bridge.said("resolve_conflict", id=conflict["id"], resolution="confirm")
        assert [] == bridge.done("conflicts").get("conflicts", [])
        assert "green" in bridge.said("recall", query="favourite colour")


def test_prompts(server: ServerProcess, user: str) -> None:
    """People choose them; what is wrong is named."""
    with session(f"{server.url}/mcp?user={user}") as bridge:
        listed = bridge.ask(bridge.session.list_prompts).prompts
        assert ["remember", "brief-me"] == [prompt.name for prompt in listed]
        told = bridge.ask(bridge.session.get_prompt, "remember", {"what": "票在抽屉里"})
        assert "票在抽屉里" in told.messages[0].content.text
        assert "conflicts" in bridge.ask(bridge.session.get_prompt, "brief-me", {}).messages[0].content.text
        for name, arguments, part in (("nope", {}, "nope"), ("remember", {}, "what"), ("brief-me", {"a": "b"}, "a")):
            with pytest.raises(MCPError, match=part):
                bridge.ask(bridge.session.get_prompt, name, arguments)


def test_a_key_says_for_whom(keyed: Keyed) -> None:
    """The user of the key, whatever the URL says; a key of all users needs the URL; of two, one of them."""
    with keyed.session("ada") as bridge:
        bridge.done("remember", content="The wine is in the cellar.")
        assert "cellar" in bridge.said("recall", query="wine")
    with keyed.session("any", "?user=ada") as bridge:
        assert "cellar" in bridge.said("recall", query="wine")
    with keyed.session("any", "?user=eve") as bridge:
        assert "cellar" not in bridge.said("recall", query="wine")
    with keyed.session("two", "?user=ada") as bridge:
        assert "cellar" in bridge.said("recall", query="wine")
    with keyed.session("two", "?user=eve") as bridge:
        assert "not authorised" in bridge.refused("recall", query="wine") or bridge.refused("recall", query="wine")
    for key in ("any", "two"):
        with keyed.session(key) as bridge, pytest.raises(MCPError, match="Whose memories"):
            bridge.call("recall", query="wine")
    with keyed.session("ada", "?user=eve") as bridge, pytest.raises(MCPError, match="'ada', not 'eve'"):
        bridge.call("recall", query="wine")
    with keyed.session("project", **{"X-Memsvc-Project": "app"}) as bridge, pytest.raises(MCPError, match="'web'"):
        bridge.call("recall", query="wine")


def test_a_reader_gets_tools_that_read(keyed: Keyed) -> None:
    """Nothing that changes something is offered, called or asked for."""
    for key, word in (("ada", True), ("any", True), ("reader", False)):
        with keyed.session(key) as bridge:
            instructions = bridge.session.initialize_result.instructions
        assert ("remember" in instructions, "recall" in instructions) == (word, True)
    with keyed.session("reader") as bridge:
        tools = {tool.name for tool in bridge.ask(bridge.session.list_tools).tools}
        assert {"recall", "context", "conflicts"} < tools
        assert not {"remember", "forget", "resolve_conflict", "capture"} & tools
        assert ["brief-me"] == [prompt.name for prompt in bridge.ask(bridge.session.list_prompts).prompts]
        with pytest.raises(MCPError, match="no tool"):
            bridge.call("remember", content="x")


@pytest.mark.parametrize("key", ["ada", "reader"])
def test_a_client_of_the_newer_protocol_gets_the_instructions_of_its_key(keyed: Keyed, key: str) -> None:
    """It has no handshake, and asks for them."""

    async def main() -> Any:
        bearer = {"Authorization": f"Bearer {keyed.texts[key]}"}
        async with httpx2.AsyncClient(headers=bearer, timeout=SECONDS) as client:
            streams = streamable_http_client(f"{keyed.server.url}/mcp", http_client=client)
            async with Client(streams) as one:
                return one.session.discover_result

    discovered = asyncio.run(main())
    assert discovered is not None
    assert ("remember" in discovered.instructions, "recall" in discovered.instructions) == (key == "ada", True)


@pytest.mark.parametrize("token", ["", "memsvc_nonsense", "nonsense", "late"])
def test_bad_keys_are_refused_before_anything(keyed: Keyed, token: str) -> None:
    """With 401, as the protocol says."""
    text = keyed.texts.get(token, token)
    headers = {"Authorization": f"Bearer {text}"} if text else {}
    answer = httpx2.post(f"{keyed.server.url}/mcp", json={}, headers=headers)
    assert 401 == answer.status_code
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_session_is_of_the_key_that_opened_it(keyed: Keyed) -> None:
    """Who knows the id of a session and has another key does not get into it."""
    first = {
        "Authorization": f"Bearer {keyed.texts['ada']}",
        "Accept": "application/json, text/event-stream",
    }
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    url = f"{keyed.server.url}/mcp"
    opened = httpx2.post(url, json=hello, headers=first)
    name = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert 200 == httpx2.post(url, json=ask, headers=first | name).status_code
    other = first | name | {"Authorization": f"Bearer {keyed.texts['any']}"}
    assert httpx2.post(url, json=ask, headers=other).status_code in {401, 403, 404}


def test_a_header_names_the_user_as_the_url_does(server: ServerProcess, user: str) -> None:
    """In UTF-8; other bytes are refused."""
    name = f"é网{user}"
    with session(f"{server.url}/mcp", headers={"X-Memsvc-User": name.encode()}) as bridge:
        bridge.done("remember", content="The ladder is behind the shed.")
    with session(f"{server.url}/mcp?{urlencode({'user': name})}") as bridge:
        assert "ladder" in bridge.said("recall", query="ladder")
    with (
        session(f"{server.url}/mcp", headers={"X-Memsvc-User": b"\xe9"}) as bridge,
        pytest.raises(MCPError, match="X-Memsvc-User must be text in UTF-8"),
    ):
        bridge.call("recall", query="ladder")


def test_only_pages_of_listed_origins_may_call(tmp_path: Path) -> None:
    """With the headers of the protocol; others are refused, as the protocol says. A page of the same host may call."""
    page = "https://agents.example"
    ask = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "page", "version": "1"},
        },
    }
    headers = {"Accept": "application/json, text/event-stream"}
    environment = FAST | HTTP | {"MEMSVC_HTTP__CORS_ORIGINS": f'["{page}"]'}
    with ServerProcess(tmp_path / "data", environment) as server:
        url = f"{server.url}/mcp?user=ada"
        for method in ("POST", "DELETE"):
            asked = {
                "origin": page,
                "access-control-request-method": method,
                "access-control-request-headers": "authorization,mcp-protocol-version,mcp-session-id,x-memsvc-user",
            }
            assert 200 == httpx2.options(url, headers=asked).status_code
        opened = httpx2.post(url, json=ask, headers=headers | {"origin": page})
        assert 200 == opened.status_code
        assert {"mcp-session-id", "www-authenticate"} <= set(
            opened.headers["access-control-expose-headers"].split(", ")
        )
        assert 200 == httpx2.post(url, json=ask, headers=headers | {"origin": server.url}).status_code
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            refused = httpx2.post(url, json=ask, headers=headers | {"origin": origin})
            assert (403, "permission_denied") == (refused.status_code, refused.json()["code"])


def test_mcp_is_turned_off_by_a_setting(tmp_path: Path) -> None:
    """Then nothing is at its path."""
    with ServerProcess(tmp_path / "data", FAST | HTTP | {"MEMSVC_HTTP__MCP": "false"}) as server:
        assert 404 == httpx2.post(f"{server.url}/mcp", json={}).status_code


# An authorization server: oidc-provider, in a process of its own.


@dataclass
class Issuer:
    """A running authorization server, and the service that accepts its tokens."""

    url: str
    resource: str
    server: ServerProcess

    def token(self, client: str, scope: str, resource: str = "") -> str:
        """Return an access token for a client."""
        form = {"grant_type": "client_credentials", "scope": scope, "resource": resource or self.resource}
        answer = httpx2.post(f"{self.url}/token", data=form, auth=(client, "secret"))
        return str(answer.raise_for_status().json()["access_token"])

    def answer(self, token: str) -> httpx2.Response:
        """Return the answer to a request with a token."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        return httpx2.post(self.resource, json={}, headers=headers)

    def status(self, token: str) -> int:
        """Return the status of a request with a token."""
        return self.answer(token).status_code


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """The authorization server and a service that trusts it."""
    if missing := [tool for tool in ("node", "npm") if shutil.which(tool) is None]:
        pytest.skip(f"the authorization server needs {', '.join(missing)} on the PATH")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    resource = f"http://{address}/mcp"
    folder = tmp_path_factory.mktemp("issuer") / "authorization_server"
    shutil.copytree(FOLDER, folder)
    subprocess.run(["npm", "ci", "--silent"], cwd=folder, check=True)
    command = ["node", "server.mjs", resource]
    with (
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.terminate)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        environment = FAST | {
            "MEMSVC_HTTP__ADDRESS": address,
            "MEMSVC_HTTP__OAUTH__ISSUER": url,
            "MEMSVC_HTTP__OAUTH__RESOURCE": resource,
            "MEMSVC_HTTP__OAUTH__SCOPES": '["memory"]',
            "MEMSVC_HTTP__OAUTH__WRITE_SCOPE": "memory.write",
        }
        with ServerProcess(tmp_path_factory.mktemp("resource") / "data", environment) as server:
            yield Issuer(url, resource, server)


class _Tokens:
    """The storage of the SDK's client."""

    kept: Any = None

    async def get_tokens(self) -> Any:
        return self.kept

    async def set_tokens(self, tokens: Any) -> None:
        self.kept = tokens

    async def get_client_info(self) -> Any:
        return None

    async def set_client_info(self, _: Any) -> None:
        return None


def test_a_client_finds_the_authorization_server(issuer: Issuer) -> None:
    """From 401 over the metadata of the resource to a token; the user is the token's, not the URL's."""

    def login(client: str) -> ClientCredentialsOAuthProvider:
        return ClientCredentialsOAuthProvider(
            issuer.resource, _Tokens(), client, "secret", scope="memory memory.write", issuer=issuer.url
        )

    with session(issuer.resource, auth=login("ada")) as bridge:
        bridge.done("remember", content="The ladder is behind the shed.")
        assert "ladder" in bridge.said("recall", query="ladder")
    with session(issuer.resource, auth=login("bob")) as bridge:
        assert "ladder" not in bridge.said("recall", query="ladder")
    with session(f"{issuer.resource}?user=ada", auth=login("bob")) as bridge, pytest.raises(MCPError, match="'bob'"):
        bridge.call("recall", query="ladder")


def test_the_metadata_name_the_issuer(issuer: Issuer) -> None:
    """RFC 9728: the refusal names the document, which names the resource, the issuer and the scopes."""
    refused = httpx2.post(issuer.resource, json={})
    told = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
    metadata = httpx2.get(told).json()
    assert 401 == refused.status_code
    assert issuer.resource == metadata["resource"]
    assert [issuer.url] == [one.rstrip("/") for one in metadata["authorization_servers"]]
    assert ["memory", "memory.write"] == metadata["scopes_supported"]


def test_scopes_decide_what_is_offered(issuer: Issuer) -> None:
    """A token without the scope to write reads; one without the scope of the service is refused, as not enough."""
    headers = {"Authorization": f"Bearer {issuer.token('ada', 'memory')}"}
    with session(issuer.resource, headers=headers) as bridge:
        assert "remember" not in {tool.name for tool in bridge.ask(bridge.session.list_tools).tools}
        assert bridge.said("recall", query="anything")
    refused = issuer.answer(issuer.token("ada", "memory.write"))
    assert 403 == refused.status_code
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert "resource_metadata=" in refused.headers["www-authenticate"]


def test_tokens_of_others_are_refused(issuer: Issuer) -> None:
    """For another audience, by another key, expired, unsigned, signed by a shared secret, cut."""
    good = issuer.token("ada", "memory")
    assert 401 != issuer.status(good)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(good, options={"verify_signature": False})
    head = jwt.get_unverified_header(good)
    forged = jwt.encode(claims, other, algorithm="RS256", headers={"kid": head["kid"]})
    assert 401 == issuer.status(issuer.token("ada", "memory", "https://another.example/mcp"))
    assert 401 == issuer.status(forged)
    assert 401 == issuer.status(jwt.encode(claims, "a shared secret of thirty-two bytes", algorithm="HS256"))
    assert 401 == issuer.status(jwt.encode(claims, None, algorithm="none"))
    assert 401 == issuer.status(good[:-10])
    assert 401 == issuer.status(good.rpartition(".")[0] + ".")


def test_what_a_tool_says_is_text(server: ServerProcess, user: str) -> None:
    """Also over HTTP, an error of a tool is for the model to read."""
    with session(f"{server.url}/mcp?user={user}") as bridge:
        result = bridge.call("get_memory", id="m9")
        assert result.is_error
        assert "m9" in text_of(result)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_a_subscribed_resource_tells_of_its_changes(keyed: Keyed) -> None:
    """By the watch within the process; the link of the caller outlasts its first session, which watched, too."""
    for number in range(2):
        with keyed.session("ada") as bridge:
            memory_id = bridge.done("remember", content=f"Version one of the note {number}.")["id"]
            bridge.portal.call(_await_change, bridge.session, memory_id)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_each_session_of_a_caller_is_told(keyed: Keyed) -> None:
    """Of two sessions that watch the same resource one may unsubscribe, and the other one is still told."""
    with keyed.session("ada") as one, keyed.session("ada") as other:
        memory_id = one.done("remember", content="The boat is moored in Weesp.")["id"]
        both = [(bridge, bridge.portal.call(_subscribe, bridge.session, memory_id)) for bridge in (one, other)]
        one.done("update_memory", id=memory_id, content="The boat is moored in Muiden.")
        for bridge, told in both:
            bridge.portal.call(_hear, told)
        other.portal.call(other.session.unsubscribe_resource, f"memsvc://memory/{memory_id}")
        one.done("update_memory", id=memory_id, content="The boat is moored in Hoorn.")
        one.portal.call(_hear, both[0][1])


async def _subscribe(session: ClientSession, memory_id: str) -> asyncio.Event:
    """Subscribe to a memory; return the event that is set at each change."""
    uri, told = f"memsvc://memory/{memory_id}", asyncio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated" and str(message.params.uri) == uri:
            told.set()

    session._message_handler = hear
    await session.subscribe_resource(uri)
    return told


async def _hear(told: asyncio.Event) -> None:
    async with asyncio.timeout(SECONDS):
        await told.wait()
    told.clear()


async def _await_change(session: ClientSession, memory_id: str) -> None:
    """Subscribe to a memory, change it, and return when the change is told."""
    told = await _subscribe(session, memory_id)
    await session.call_tool("update_memory", {"id": memory_id, "content": f"Another note than {memory_id}."})
    await _hear(told)
