"""The OpenAPI document: valid, complete, and true of a running server, whatever requests are made up by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.connect_channel import END_OF_STREAM, ENVELOPE
from tests.support.descriptors import METHODS
from tests.support.rpc import TIMEOUT
from tests.support.server_process import FAST, HTTP, ServerProcess

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.yaml"
SPECIFIED = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))
STREAMS = [path for path, one in SPECIFIED["paths"].items() if "x-request-message" in one["post"]]
ENDLESS = {"/memsvc.v1.MemoryService/WatchMemories"}
EXAMPLES = 5
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
api = schemathesis.openapi.from_dict(SPECIFIED)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The HTTP address of a server of its own: what is made up erases users, too."""
    with ServerProcess(tmp_path_factory.mktemp("openapi") / "data", FAST | HTTP) as server:
        yield server.url


def test_the_document_is_valid_and_complete() -> None:
    """It is OpenAPI, and has every method of the API as a POST."""
    validate(SPECIFIED)
    told = {f"/{method.descriptor.containing_service.full_name}/{method.name}" for method in METHODS.values()}
    assert told == set(SPECIFIED["paths"])
    assert {"post"} == {each for one in SPECIFIED["paths"].values() for each in one}
    assert all(one["post"]["description"] for one in SPECIFIED["paths"].values())


@api.include(lambda context: context.operation.path not in STREAMS).parametrize()
@settings(
    max_examples=EXAMPLES,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_made_up_requests_get_documented_answers(case: Any, url: str) -> None:
    """No error of the server, no status, content type or field that the document does not have.

    Each body is sent as it is, and once more with a user, because most would be refused for that alone.
    """
    for body in (case.body, _with_a_user(case.body)):
        case.body = body
        case.call_and_validate(base_url=url, checks=CHECKS, timeout=TIMEOUT)


def _with_a_user(body: object) -> object:
    if not isinstance(body, dict):
        return body
    return {name: {"userId": "ada"} if name == "scope" else value for name, value in body.items()}


@pytest.mark.parametrize("path", sorted({*STREAMS} - ENDLESS))
def test_streams_answer_in_envelopes(url: str, path: str) -> None:
    """A stream of requests that are empty objects ends with an error that names what is missing, or succeeds."""
    headers = {"content-type": "application/connect+json"}
    answer = httpx.post(url + path, content=ENVELOPE.pack(0, 2) + b"{}", headers=headers, timeout=TIMEOUT)
    assert (200, "application/connect+json") == (answer.status_code, answer.headers["content-type"])
    rest, ends = answer.content, []
    while rest:
        flags, size = ENVELOPE.unpack(rest[:5])
        told, rest = json.loads(rest[5 : 5 + size]), rest[5 + size :]
        if flags & END_OF_STREAM:
            ends.append(told)
    assert 1 == len(ends)
    assert "error" not in ends[0] or ends[0]["error"]["code"] in {"invalid_argument", "failed_precondition"}, ends
