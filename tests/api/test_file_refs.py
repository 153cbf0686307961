"""References to files over the wire: found in contents, resolved, told with hits; images and attachments."""

from __future__ import annotations

from base64 import b64encode, encodebytes

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct

from memsvc.v1 import errors_pb2 as errors_pb
from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import digest_of, download, listed, upload, written_ref
from tests.support.rpc import TIMEOUT, Refusal, create, get, refused, write
from tests.support.server_process import Stubs

PNG = b"\x89PNG\r\n\x1a\n of no picture"
URI = f"data:image/png;base64,{b64encode(PNG).decode()}"


def refs_of(memory: types_pb.Memory) -> list[str]:
    """Return the references of a memory as they are written."""
    return [written_ref(ref) for ref in memory.file_refs]


def resolve(stubs: Stubs, scope: types_pb.Scope, *refs: str) -> list[file_pb.ResolvedFileRef]:
    """Resolve references."""
    pairs = [ref.split(":", 1) for ref in refs]
    named = [
        types_pb.FileRef(category=types_pb.FileCategory.Value(f"FILE_CATEGORY_{category.upper()}"), id=name)
        for category, name in pairs
    ]
    request = file_pb.ResolveFileRefsRequest(scope=scope, refs=named)
    return list(stubs.files.ResolveFileRefs(request, timeout=TIMEOUT).resolved)


def attach(
    stubs: Stubs, scope: types_pb.Scope, memory_id: str, content: bytes = b"1;2", **header: object
) -> file_pb.File:
    """Upload a file that belongs to a memory."""
    metadata = Struct()
    metadata.update({"memory_id": memory_id})
    return upload(stubs, scope, content, category=types_pb.FILE_CATEGORY_MEMORY, metadata=metadata, **header)


def test_references_are_found_by_every_way_of_writing(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Create, batch, import, update, append and ingest; times and web addresses are none."""
    made = create(stubs, scope, "用户分析了 `artifact:abc123`，见 ![图](chart:ghi789)，10:30，http://x/chart:no")
    batch = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content="The `report:q1` is done."))]
    )
    [batched] = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results
    imported = memory_pb.BatchMemory(memory=types_pb.Memory(content="[`upload:x`](report:y)", key="i"))
    header = memory_pb.ImportHeader(scope=scope)
    parts = [
        memory_pb.ImportMemoriesRequest(header=header),
        memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(memories=[imported])),
    ]
    list(stubs.memory.ImportMemories(iter(parts), timeout=TIMEOUT))
    loaded = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=scope, key="i"), timeout=TIMEOUT).memory
    for text in ("上午 `artifact:a`", "下午 `chart:b`"):
        request = memory_pb.AppendMemoryRequest(scope=scope, key="daily/2026-02-06", content=text)
        appended = stubs.memory.AppendMemory(request, timeout=TIMEOUT).memory
    document = [
        memory_pb.IngestDocumentRequest(header=memory_pb.DocumentHeader(scope=scope, name="a.md")),
        memory_pb.IngestDocumentRequest(data="# 报告\n\n见 `report:周报.pdf`。".encode()),
    ]
    ingested = stubs.memory.IngestDocument(iter(document), timeout=TIMEOUT).memory
    changed = types_pb.Memory(id=made.id, content="Now `chart:new`.")
    update = memory_pb.UpdateMemoryRequest(scope=scope, memory=changed, update_mask=FieldMask(paths=["content"]))
    updated = stubs.memory.UpdateMemory(update, timeout=TIMEOUT).memory

    assert refs_of(made) == ["artifact:abc123", "chart:ghi789"]
    assert refs_of(batched.memory) == ["report:q1"]
    assert refs_of(loaded) == ["report:y", "upload:x"]
    assert refs_of(appended) == ["artifact:a", "chart:b"]
    assert refs_of(ingested) == ["report:周报.pdf"]
    assert refs_of(updated) == ["chart:new"]


def test_a_flush_finds_them_in_what_was_said(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Beside those of tool calls and artifacts."""
    call = types_pb.ToolCall(
        name="plot", file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id="def456")]
    )
    messages = [
        types_pb.ChatMessage(content="以后的报表请都用表格，参考 `report:w1`。"),
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content="好的。", tool_calls=[call]),
    ]
    request = memory_pb.FlushMessagesRequest(scope=scope, messages=messages, artifact_ids=["abc"])

    flushed = stubs.memory.FlushMessages(request, timeout=TIMEOUT)

    assert [written_ref(ref) for ref in flushed.file_refs] == ["report:w1", "chart:def456", "artifact:abc"]
    assert all({"report:w1", "chart:def456", "artifact:abc"} <= set(refs_of(one.memory)) for one in flushed.results)


def test_arguments_of_a_tool_call_mark_the_file_that_it_returned(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With the response format "file_ref", in a flush and in a session; what marks no file is passed over."""

    def call(**arguments: str | int) -> types_pb.ToolCall:
        made = types_pb.ToolCall(name="plot")
        made.arguments.update({"response_format": "file_ref", **arguments})
        return made

    calls = [
        call(category="chart", file_id="def456"), call(category="chart", file_id="def456"),
        call(category="chart", file_id="other", response_format="text"), call(category="poem", file_id="x"),
        call(category="chart", file_id=7), call(category="chart", file_id=""), call(file_id="def456"),
    ]  # fmt: skip
    said = types_pb.ChatMessage(content="以后的报表请都用表格。", role=types_pb.MESSAGE_ROLE_USER)
    made = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content="好的。", tool_calls=calls)
    flushed = stubs.memory.FlushMessages(
        memory_pb.FlushMessagesRequest(scope=scope, messages=[said, made]), timeout=TIMEOUT
    )
    session = types_pb.Scope(user_id=scope.user_id, session_id="s")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=session), timeout=TIMEOUT)
    [appended] = stubs.session.AppendMessages(
        session_pb.AppendMessagesRequest(scope=session, messages=[made]), timeout=TIMEOUT
    ).messages

    assert [written_ref(ref) for ref in flushed.file_refs] == ["chart:def456"]
    assert refs_of(get(stubs, session, appended.memory_id)) == ["chart:def456"]
    [read] = stubs.session.ListMessages(session_pb.ListMessagesRequest(scope=session), timeout=TIMEOUT).messages
    assert list(read.tool_calls) == calls


def test_references_are_resolved_one_by_one(stubs: Stubs, scope: types_pb.Scope) -> None:
    """In order, repeated ones too; those to nothing say so, and so does a wrong category."""
    chart = upload(stubs, scope, b"c", name="图.png", category=types_pb.FILE_CATEGORY_CHART)
    found, wrong, again, unknown = resolve(
        stubs, scope, f"chart:{chart.id}", f"report:{chart.id}", f"chart:{chart.id}", "artifact:elsewhere"
    )

    assert (found.file, found.HasField("status")) == (chart, False)
    assert again == found
    for one in (wrong, unknown):
        assert not one.HasField("file")
        assert (one.status.code, one.status.reason) == (
            grpc.StatusCode.NOT_FOUND.value[0],
            errors_pb.ERROR_REASON_FILE_NOT_FOUND,
        )
    assert (unknown.ref.category, unknown.ref.id) == (types_pb.FILE_CATEGORY_ARTIFACT, "elsewhere")
    assert (found.download_url, found.preview_url) == ("", "")


def test_hits_tell_what_their_references_lead_to(stubs: Stubs, scope: types_pb.Scope) -> None:
    """When files are to be included, and only then."""
    chart = upload(stubs, scope, b"c2", name="trend.png", category=types_pb.FILE_CATEGORY_CHART)
    create(stubs, scope, f"The zebra trend: ![trend](chart:{chart.id}), from `artifact:gone`.")

    def hit(**fields: bool) -> search_pb.Hit:
        request = search_pb.SearchRequest(scope=scope, query="zebra trend", **fields)
        [found] = stubs.search.Search(request, timeout=TIMEOUT).hits
        return found

    assert (list(hit().file_refs), list(hit().files)) == ([], [])
    known, unknown = hit(include_files=True).files
    assert known.file == chart
    assert (unknown.ref.id, unknown.HasField("file")) == ("gone", False)
    streamed = search_pb.StreamSearchRequest(
        search=search_pb.SearchRequest(scope=scope, query="zebra trend", include_files=True)
    )
    *_, last = stubs.search.StreamSearch(streamed, timeout=TIMEOUT)
    assert last.fused.hits[0].files[0].file == chart


def test_an_image_in_a_content_becomes_a_file(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The content refers to it instead; the same content again is a duplicate, and one file."""
    content = f"检测到 GMV 异常。\n\n![异常图表]({URI})\n"
    written = write(stubs, scope, content)
    again = write(stubs, scope, content)

    [ref] = written.memory.file_refs
    assert written.memory.content == f"检测到 GMV 异常。\n\n![异常图表](memory:{ref.id})\n"
    assert download(stubs, scope, ref.id) == PNG
    [resolved] = resolve(stubs, scope, f"memory:{ref.id}")
    assert (resolved.file.name, resolved.file.media_type) == ("异常图表.png", "image/png")
    assert (again.outcome, again.memory.id) == (types_pb.WRITE_OUTCOME_DUPLICATE, written.memory.id)
    assert listed(stubs, scope) == ["异常图表.png"]


def test_images_go_with_their_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """When it is deleted for good, and no other refers to them."""
    one, other = (write(stubs, scope, f"{text} ![x]({URI})").memory for text in ("One.", "Other."))

    def delete(memory: types_pb.Memory, *, hard: bool) -> list[str]:
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=memory.id, purge=hard), timeout=TIMEOUT)
        return listed(stubs, scope)

    assert delete(one, hard=True) == ["x.png"]
    assert delete(other, hard=False) == ["x.png"]
    assert delete(other, hard=True) == []


def test_a_file_is_attached_to_a_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The memory refers to it in a new revision; a repeated upload attaches nothing more."""
    memory = create(stubs, scope, "The contract was signed.")
    fields = {"name": "contract.pdf", "request_id": f"{memory.id}-1", "sha256": digest_of(b"pdf")}

    file = attach(stubs, scope, memory.id, b"pdf", **fields)

    assert attach(stubs, scope, memory.id, b"pdf", **fields) == file
    after = get(stubs, scope, memory.id)
    assert (refs_of(after), after.revision, after.content) == ([f"memory:{file.id}"], 2, memory.content)


def test_a_file_cannot_be_attached_to_what_is_not_there(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Nor to a memory that is deleted, another user's, or refers to as many as it may; no file is kept then."""
    gone = create(stubs, scope, "Gone.")
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=gone.id), timeout=TIMEOUT)
    theirs = create(stubs, types_pb.Scope(user_id=f"{scope.user_id}-2"), "Theirs.")
    many = [types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id=str(number)) for number in range(64)]
    full = write(stubs, scope, types_pb.Memory(content="Full.", file_refs=many)).memory

    refusals = []
    for memory_id in (gone.id, theirs.id, "nothing", full.id):
        with pytest.raises(grpc.RpcError) as caught:
            attach(stubs, scope, memory_id)
        refusals.append(Refusal.from_error(caught.value))

    assert [one.reason for one in refusals] == ["MEMORY_NOT_FOUND"] * 3 + ["INVALID_REQUEST"]
    assert refusals[-1].fields == ("header.metadata.memory_id",)
    assert listed(stubs, scope) == []


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("![x](data:image/png;base64,abc)", "base64"),
        ("![x](data:image/png;base64,)", "base64"),
        (f"![x]({URI})" * 17, "17"),
    ],
)
def test_images_that_cannot_be_kept_are_refused(stubs: Stubs, scope: types_pb.Scope, content: str, word: str) -> None:
    """Broken ones and too many, whichever way they come; nothing is stored."""
    creating = memory_pb.CreateMemoryRequest(scope=scope, memory=types_pb.Memory(content=content))
    refusal = refused(stubs.memory.CreateMemory, creating)
    appending = memory_pb.AppendMemoryRequest(scope=scope, key="k", content=content)
    batch = memory_pb.BatchCreateMemoriesRequest(
        scope=scope, memories=[memory_pb.BatchMemory(memory=types_pb.Memory(content=one)) for one in (content, "good")]
    )
    bad, good = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results

    assert (refusal.reason, refusal.fields) == ("INVALID_REQUEST", ("memory.content",))
    assert refused(stubs.memory.AppendMemory, appending).fields == ("content",)
    assert (bad.status.reason, good.memory.content) == (errors_pb.ERROR_REASON_INVALID_REQUEST, "good")
    assert word in bad.status.field_violations[0].description
    assert listed(stubs, scope) == []


@pytest.mark.parametrize(("locale", "heading"), [("en", "Related files"), ("zh", "关联文件")])
def test_a_context_names_the_files_given_apart(stubs: Stubs, scope: types_pb.Scope, locale: str, heading: str) -> None:
    """Those in the content are there already; the line stays within its item."""
    refs = [
        types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id="said"),
        types_pb.FileRef(category=types_pb.FILE_CATEGORY_ARTIFACT, id="the data"),
    ]
    write(stubs, scope, types_pb.Memory(content="The walrus trend: `chart:said`.", file_refs=refs))
    options = search_pb.ContextOptions(locale=locale)
    request = search_pb.RenderContextRequest(scope=scope, query="walrus trend", options=options)

    text = stubs.search.RenderContext(request, timeout=TIMEOUT).markdown

    assert f"The walrus trend: `chart:said`.\n  {heading}: `artifact:the%20data`\n" in text


def test_images_in_lines_and_in_code_spans(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A wrapped image is one whole file, one in a code span an example; a purge removes what was stored."""
    image = bytes(range(256))
    wrapped = encodebytes(image).decode().strip()

    memory = create(stubs, scope, f"图 ![a](data:image/png;base64,{wrapped}) and `![b]({URI})`.")

    [ref] = refs_of(memory)
    assert memory.content == f"图 ![a]({ref}) and `![b]({URI})`."
    assert download(stubs, scope, memory.file_refs[0].id) == image
    given = [types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id=str(number)) for number in range(64)]
    full = create(stubs, scope, f"- ~~~\n  ![b]({URI})\n  ~~~", file_refs=given)
    assert [one.category for one in full.file_refs[62:]] == [
        types_pb.FILE_CATEGORY_CHART,
        types_pb.FILE_CATEGORY_MEMORY,
    ]
    assert len(listed(stubs, scope)) == 2
    for one in (memory, full):
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=scope, id=one.id, purge=True), timeout=TIMEOUT)
    assert listed(stubs, scope) == []
