"""Files of memories over the wire: resolved with a memory and with hits, contents with links, and appended ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from memsvc.v1 import errors_pb2 as errors_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload, written_ref
from tests.support.rpc import TIMEOUT, create, refused
from tests.support.server_process import Stubs
from tests.support.server_thread import served

CHART, REPORT = types_pb.FILE_CATEGORY_CHART, types_pb.FILE_CATEGORY_REPORT
URLS = {
    "download_url": "https://files.example.com/{category}/{id}",
    "preview_url": "https://files.example.com/{category}/{id}/preview",
}


@pytest.fixture(scope="module")
def linking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """Return the stubs of a service that knows the URLs of files."""
    with served(tmp_path_factory.mktemp("linking") / "data", files=URLS) as stubs:
        yield stubs


def get_linked(stubs: Stubs, scope: types_pb.Scope, memory_id: str, *fields: str) -> memory_pb.GetMemoryResponse:
    request = memory_pb.GetMemoryRequest(
        scope=scope, id=memory_id, include_files=True, read_mask=FieldMask(paths=fields) if fields else None
    )
    return stubs.memory.GetMemory(request, timeout=TIMEOUT)


def append(stubs: Stubs, scope: types_pb.Scope, content: str, **fields: object) -> types_pb.Memory:
    request = memory_pb.AppendMemoryRequest(scope=scope, key="daily/2026-11-20", content=content, **fields)  # type: ignore[arg-type]
    return stubs.memory.AppendMemory(request, timeout=TIMEOUT).memory


def values(**given: object) -> Struct:
    struct = Struct()
    struct.update(given)
    return struct


def test_a_memory_brings_its_files_and_links_to_them(linking: Stubs, scope: types_pb.Scope) -> None:
    """Code spans, links, images and definitions; unknown files and blocks of code remain as they are."""
    chart = upload(linking, scope, b"c", name="销量 [Q1].png", category=CHART, metadata=values(about="销量"))
    content = (
        f'销量见 `chart:{chart.id}` 和 [图](chart:{chart.id})，![small](<chart:{chart.id}> "Q1")，`report:gone`，[x]。\n\n'
        f"```\n`chart:{chart.id}`\n```\n\n[x]: chart:{chart.id}\n"
    )
    url = f"https://files.example.com/chart/{chart.id}"

    found = get_linked(linking, scope, create(linking, scope, content).id)

    assert found.linked_content == (
        f'销量见 [销量 \\[Q1\\].png](<{url}>) 和 [图](<{url}>)，![small](<{url}> "Q1")，`report:gone`，[x]。\n\n'
        f"```\n`chart:{chart.id}`\n```\n\n[x]: <{url}>\n"
    )
    assert found.memory.content == content
    assert [written_ref(one.ref) for one in found.files] == [written_ref(ref) for ref in found.memory.file_refs]
    known, unknown = sorted(found.files, key=lambda one: one.HasField("status"))
    assert (known.file.metadata["about"], known.download_url, known.preview_url) == ("销量", url, f"{url}/preview")
    assert unknown.status.reason == errors_pb.ERROR_REASON_FILE_NOT_FOUND


def test_files_come_only_when_asked_for(linking: Stubs, stubs: Stubs, scope: types_pb.Scope) -> None:
    """A read mask leaves them; without a URL in the settings there are no links."""
    for service, is_linked in ((linking, True), (stubs, False)):
        report = upload(service, scope, b"r", name="weekly.md", category=REPORT)
        memory = create(service, scope, f"The weekly numbers are in `report:{report.id}`.")

        plain = service.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, id=memory.id), timeout=TIMEOUT)
        masked = get_linked(service, scope, memory.id, "id")

        assert (len(plain.files), plain.linked_content) == (0, "")
        assert (masked.memory.content, [one.file.name for one in masked.files]) == ("", ["weekly.md"])
        assert masked.linked_content.startswith("The weekly numbers are in [weekly.md](<https://") is is_linked


@pytest.mark.parametrize(
    ("content", "query"),
    [("The walrus trend is in `chart:{id}`.", "walrus trend"), ("海象走势见 `chart:{id}`。", "海象走势")],
)
def test_hits_bring_linked_contents(linking: Stubs, scope: types_pb.Scope, content: str, query: str) -> None:
    """Of single searches and of those over everything, whatever the read mask leaves out."""
    chart = upload(linking, scope, b"c", name="trend.png", category=CHART)
    create(linking, scope, content.format(id=chart.id))
    wanted = content.format(id=chart.id).replace(
        f"`chart:{chart.id}`", f"[trend.png](<https://files.example.com/chart/{chart.id}>)"
    )
    mask = FieldMask(paths=["id"])
    single = search_pb.SearchRequest(scope=scope, query=query, include_files=True, read_mask=mask)
    every = search_pb.SearchAllRequest(scope=scope, query=query, include_files=True)

    [hit] = linking.search.Search(single, timeout=TIMEOUT).hits
    [other] = linking.search.SearchAll(every, timeout=TIMEOUT).memories

    assert (hit.linked_content, hit.memory.content) == (wanted, "")
    assert other.linked_content == wanted


def test_appended_text_brings_files_and_metadata(stubs: Stubs, scope: types_pb.Scope) -> None:
    """They are added to those of the memory; a value of the same name replaces the earlier one."""
    first = append(
        stubs,
        scope,
        "上午 `report:q1`",
        file_refs=[types_pb.FileRef(category=CHART, id="a")],
        metadata=values(n=1, by="x"),
    )
    second = append(stubs, scope, "Then lunch.")
    third = append(
        stubs, scope, "下午", file_refs=[types_pb.FileRef(category=CHART, id="b")], metadata=values(n=2, m={"k": True})
    )

    assert [written_ref(ref) for ref in first.file_refs] == ["chart:a", "report:q1"]
    assert second.file_refs == first.file_refs
    assert second.metadata == first.metadata == values(n=1, by="x")
    assert [written_ref(ref) for ref in third.file_refs] == ["chart:a", "chart:b", "report:q1"]
    assert third.metadata == values(n=2, by="x", m={"k": True})


def test_wrong_appended_fields_are_named(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Unknown categories, too many files in one request and in the memory, metadata that are too long together."""
    many = [types_pb.FileRef(category=CHART, id=f"c{number}") for number in range(64)]
    append(stubs, scope, "All.", file_refs=many, metadata=values(a="x" * 10_000))

    def faults(**fields: object) -> list[str]:
        request = memory_pb.AppendMemoryRequest(scope=scope, key="daily/2026-11-20", content="x", **fields)  # type: ignore[arg-type]
        return sorted(refused(stubs.memory.AppendMemory, request).fields)

    assert faults(file_refs=[types_pb.FileRef(id="a")]) == ["file_refs[0].category"]
    assert faults(file_refs=[*many, types_pb.FileRef(category=CHART, id="more")]) == ["file_refs"]
    assert faults(file_refs=[types_pb.FileRef(category=CHART, id="more")]) == ["file_refs"]
    assert faults(metadata=values(b="x" * 10_000)) == ["metadata"]


@pytest.mark.parametrize("text", ["From now on send reports as tables.", "以后的报表请都用表格。"])
def test_tool_calls_of_a_session_bring_their_files_to_memories(stubs: Stubs, scope: types_pb.Scope, text: str) -> None:
    """What a session stores at its end refers to the files that its tool calls returned."""
    inner = types_pb.Scope(user_id=scope.user_id, project_id="p", session_id="s")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=inner), timeout=TIMEOUT)
    call = types_pb.ToolCall(name="plot", file_refs=[types_pb.FileRef(category=CHART, id="def456")])
    messages = [
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=text),
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content="OK", tool_calls=[call]),
    ]
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=inner, messages=messages), timeout=TIMEOUT)

    closed = stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=inner), timeout=TIMEOUT)

    [result] = closed.flush.results
    assert [written_ref(ref) for ref in result.memory.file_refs] == ["chart:def456"]
