"""Capture, flush, append and ingest over the wire, on the real engines."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.disk_scan import contents
from tests.support.fixtures import document
from tests.support.http_stub import Endpoint, failed
from tests.support.openai_chat_stub import said, serving
from tests.support.rpc import TIMEOUT, create, found, get, list_all, refused, write
from tests.support.server_process import FAST, ServerProcess, Stubs

KEY = "sk-a1B2c3D4e5F6g7H8i9J0"
CREATED, UPDATED, DUPLICATE = 1, 2, 3
_MEMORY_FIELDS = {*types_pb.Memory.DESCRIPTOR.fields_by_name} - {"scope"}


@pytest.fixture
def home(user: str) -> types_pb.Scope:
    """A project of the test's user."""
    return types_pb.Scope(user_id=user, project_id="p", session_id="s")


def capture(
    stubs: Stubs, scope: types_pb.Scope, text: str, role: int = 0, **more: Any
) -> memory_pb.CaptureMemoryResponse:
    message = types_pb.ChatMessage(content=text, role=role)
    return stubs.memory.CaptureMemory(
        memory_pb.CaptureMemoryRequest(scope=scope, message=message, **more), timeout=TIMEOUT
    )


def append(stubs: Stubs, scope: types_pb.Scope, key: str, content: str, **more: Any) -> memory_pb.AppendMemoryResponse:
    request = memory_pb.AppendMemoryRequest(scope=scope, key=key, content=content, **more)
    return stubs.memory.AppendMemory(request, timeout=TIMEOUT)


def parts(data: bytes, size: int, **header: Any) -> Iterator[memory_pb.IngestDocumentRequest]:
    fields = {name: header.pop(name) for name in _MEMORY_FIELDS & header.keys()}
    memory = types_pb.Memory(**fields)
    yield memory_pb.IngestDocumentRequest(header=memory_pb.DocumentHeader(memory=memory, **header))
    for start in range(0, len(data), size):
        yield memory_pb.IngestDocumentRequest(data=data[start : start + size])


def ingest(stubs: Stubs, data: bytes, size: int = 1_000, **header: Any) -> memory_pb.IngestDocumentResponse:
    return stubs.memory.IngestDocument(parts(data, size, **header), timeout=TIMEOUT)


def test_what_is_said_is_remembered_and_found(stubs: Stubs, home: types_pb.Scope) -> None:
    """In Chinese and English, each where it belongs, by every search from then on; known the second time."""
    said = "我习惯用 Tab 缩进。你觉得呢？\nWe decided to use Redis for the session cache.\n谢谢！"
    reply = capture(stubs, home, said)

    assert [(one.remember, one.memory.scope.project_id) for one in reply.decisions] == [
        (True, ""), (False, ""), (True, "p"), (False, ""),
    ]  # fmt: skip
    assert reply.decider == memory_pb.CAPTURE_DECIDER_RULES
    assert found(stubs, home, "Redis cache")[0] == "We decided to use Redis for the session cache."
    assert found(stubs, types_pb.Scope(user_id=home.user_id, project_id="q"), "缩进") == ["我习惯用 Tab 缩进。"]
    assert get(stubs, home, reply.decisions[0].memory.id).kind == types_pb.MEMORY_KIND_PREFERENCE
    again = capture(stubs, home, said)
    assert [one.reason for one in again.decisions][::2] == [memory_pb.CAPTURE_REASON_KNOWN] * 2
    assert again.decisions[0].memory.id == reply.decisions[0].memory.id


def test_a_dry_run_changes_nothing(stubs: Stubs, home: types_pb.Scope) -> None:
    """No memory, no id, no token."""
    reply = capture(stubs, home, "I prefer tabs.", dry_run=True)

    assert (reply.decisions[0].remember, reply.decisions[0].memory.id, reply.consistency_token) == (True, "", "")
    assert list_all(stubs, home) == []


def test_a_repeated_capture_and_flush_have_the_same_answers(stubs: Stubs, home: types_pb.Scope) -> None:
    """Byte for byte."""
    text = f"I prefer tabs. The key {KEY} is for the demo of Acme. What now?"
    flush = memory_pb.FlushMessagesRequest(
        scope=home, request_id="f", artifact_ids=["a"], messages=[types_pb.ChatMessage(content="I live in Lisbon.")]
    )

    assert capture(stubs, home, text, request_id="c") == capture(stubs, home, text, request_id="c")
    assert stubs.memory.FlushMessages(flush) == stubs.memory.FlushMessages(flush)
    reused = memory_pb.CaptureMemoryRequest(
        scope=home, message=types_pb.ChatMessage(content="Another."), request_id="c"
    )
    assert refused(stubs.memory.CaptureMemory, reused).reason == "REQUEST_ID_REUSED"


def test_text_that_was_recalled_is_not_captured(stubs: Stubs, home: types_pb.Scope) -> None:
    """A context rendered from memories, fed back whole, leaves nothing."""
    memories = [create(stubs, home, text) for text in ("I love oolong tea.", "我对花生过敏。我住在杭州。")]
    context = "".join(f"- [mem:{memory.id}] 2026-02-06: {memory.content}\n" for memory in memories)
    before = list_all(stubs, home)

    for role in (types_pb.MESSAGE_ROLE_USER, types_pb.MESSAGE_ROLE_ASSISTANT):
        reply = capture(stubs, home, context, role=role)
        assert {one.reason for one in reply.decisions} == {memory_pb.CAPTURE_REASON_RECALLED}
    flush = memory_pb.FlushMessagesRequest(scope=home, messages=[types_pb.ChatMessage(content=context)])
    assert not stubs.memory.FlushMessages(flush).results

    assert [memory.id for memory in list_all(stubs, home)] == [memory.id for memory in before]


def test_no_secret_that_is_said_is_stored(stubs: Stubs, home: types_pb.Scope, server: ServerProcess) -> None:
    """Not in the store, the log, or what is remembered of the request; the reply says what was replaced."""
    secret = f"sk-{uuid.uuid4().hex}"
    reply = capture(stubs, home, f"Remember: the demo key is {secret}, card 4111 1111 1111 1111.", request_id="c")
    flush = memory_pb.FlushMessagesRequest(
        scope=home,
        request_id="f",
        messages=[types_pb.ChatMessage(content=f"Remember that {secret} opens the staging API.")],
    )
    flushed = stubs.memory.FlushMessages(flush)

    assert {one.kind: one.match_count for one in reply.redactions} == {"api-key": 1, "card-number": 1}
    assert {one.kind: one.match_count for one in flushed.redactions} == {"api-key": 1}
    assert flushed.results
    files = [*contents(server.data_dir), (server.log, server.log.read_bytes())]
    assert not [path for path, held in files if secret.encode() in held]


def test_a_flush_stores_memories_with_their_files(stubs: Stubs, home: types_pb.Scope) -> None:
    """World, experience, opinion; the file of the tool call and the artifact are referred to."""
    call = types_pb.ToolCall(name="plot", file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id="c1")])
    flush = memory_pb.FlushMessagesRequest(
        scope=home,
        messages=[
            types_pb.ChatMessage(content="I think Java is too verbose. I live in Lisbon.", speaker="Ada"),
            types_pb.ChatMessage(
                role=types_pb.MESSAGE_ROLE_ASSISTANT, content="我已经修复了登录问题。", tool_calls=[call]
            ),
        ],
        artifact_ids=["a1"],
    )
    flushed = stubs.memory.FlushMessages(flush, timeout=TIMEOUT)

    memories = [result.memory for result in flushed.results]
    assert [memory.category for memory in memories] == ["opinions", "world", "experience"]
    assert [(ref.category, ref.id) for ref in flushed.file_refs] == [
        (types_pb.FILE_CATEGORY_CHART, "c1"),
        (types_pb.FILE_CATEGORY_ARTIFACT, "a1"),
    ]
    assert all(list(memory.file_refs) == list(flushed.file_refs) for memory in memories)
    assert [result.outcome for result in flushed.results] == [CREATED] * 3
    assert memories[0].speaker == "Ada"
    assert found(stubs, home, "登录")[0] == "我已经修复了登录问题。"


@pytest.mark.parametrize(
    ("key", "layer", "kind", "category"),
    [
        ("daily/2026-02-06", types_pb.MEMORY_LAYER_SHORT_TERM, types_pb.MEMORY_KIND_NOTE, "daily"),
        ("context/USER", types_pb.MEMORY_LAYER_CORE, types_pb.MEMORY_KIND_DOCUMENT, "context"),
        ("knowledge/world/capital", types_pb.MEMORY_LAYER_LONG_TERM, types_pb.MEMORY_KIND_FACT, "world"),
        ("knowledge/opinions/茶", types_pb.MEMORY_LAYER_LONG_TERM, types_pb.MEMORY_KIND_OPINION, "opinions"),
        ("scratch", types_pb.MEMORY_LAYER_LONG_TERM, types_pb.MEMORY_KIND_NOTE, ""),
    ],
)
def test_the_first_append_creates_the_next_ones_add(
    stubs: Stubs, home: types_pb.Scope, key: str, layer: int, kind: int, category: str
) -> None:
    """A memory as its key says; each addition is a revision, and is found."""
    first = append(stubs, home, key, "今天学习了 ARM 指令")
    second = append(stubs, home, key, "The walrus came by.\n")
    third = append(stubs, home, key, "end", separator="")
    fourth = append(stubs, home, key, "more", separator=" | ")

    assert (first.outcome, second.outcome, second.memory.revision) == (CREATED, UPDATED, 2)
    assert (first.memory.layer, first.memory.kind, first.memory.category) == (layer, kind, category)
    assert third.memory.content == "今天学习了 ARM 指令\nThe walrus came by.\nend"
    assert fourth.memory.content.endswith("end | more")
    assert get(stubs, home, first.memory.id).content == fourth.memory.content
    assert found(stubs, home, "walrus") == [fourth.memory.content]


def test_context_documents_are_replaced_and_read_by_key(stubs: Stubs, home: types_pb.Scope) -> None:
    """By CreateMemory, which gives a new one what its key says, and GetMemory."""
    first = write(stubs, home, types_pb.Memory(key="context/CLAUDE", content="Be brief."))
    second = write(stubs, home, types_pb.Memory(key="context/CLAUDE", content="Be kind."))

    assert (first.memory.layer, first.memory.tier) == (types_pb.MEMORY_LAYER_CORE, types_pb.MEMORY_TIER_CORE)
    assert second.outcome == UPDATED
    read = stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=home, key="context/CLAUDE"), timeout=TIMEOUT)
    assert read.memory.content == "Be kind."


def test_no_append_is_lost_when_many_come_at_once(stubs: Stubs, home: types_pb.Scope) -> None:
    """Two writers of one day, and two beside them: every line is there once, and repeats add nothing."""
    lines = [f"line {number}." for number in range(60)]

    def add(line: str) -> None:
        for _ in range(2):
            append(stubs, home, "daily/2026-02-07", line, request_id=line, wait_for=types_pb.WAIT_FOR_STORED)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, lines))

    memory = stubs.memory.GetMemory(
        memory_pb.GetMemoryRequest(scope=home, key="daily/2026-02-07"), timeout=TIMEOUT
    ).memory
    assert sorted(memory.content.splitlines()) == sorted(lines)
    assert memory.revision == len(lines)


def test_a_document_becomes_a_memory_in_chunks(stubs: Stubs, home: types_pb.Scope) -> None:
    """Split at its headings, found by what one section says, whole when read; cut anywhere on the wire."""
    text = document() + "\n## 结尾\n\n海象在游泳。\n"
    data = text.encode()
    header = {
        "scope": home, "name": "docs/handbook.md", "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
        "tags": ["book"], "request_id": "d",
    }  # fmt: skip
    reply = ingest(stubs, data, size=7, **header)

    assert (reply.memory.content, reply.memory.title, reply.memory.source) == (text, "Handbook", "docs/handbook.md")
    assert reply.memory.kind == types_pb.MEMORY_KIND_DOCUMENT
    assert reply.chunk_count > 8
    assert ingest(stubs, data, **header) == reply
    hit = stubs.search.Search(_search(home, "how many figs does the flamingo eat"), timeout=TIMEOUT).hits[0]
    assert "flamingo" in hit.snippet
    assert hit.heading_path.endswith("Keeping the flamingo")


def _search(scope: types_pb.Scope, query: str) -> Any:

    return search_pb.SearchRequest(scope=scope, query=query)


def test_a_document_has_the_fields_of_a_memory(stubs: Stubs, scope: types_pb.Scope) -> None:
    """All that a memory can have but content."""
    moment = Timestamp(seconds=int(time.time()))
    ref = types_pb.FileRef(category=types_pb.FILE_CATEGORY_UPLOAD, id="u1")
    reply = ingest(
        stubs, b"I moved to Porto.", scope=scope, importance=5, tier=types_pb.MEMORY_TIER_CORE, event_time=moment,
        file_refs=[ref], speaker="Ada", source="letter", ttl=Duration(seconds=3_600),
    )  # fmt: skip

    memory = reply.memory
    assert (memory.importance, memory.tier, memory.event_time) == (5, types_pb.MEMORY_TIER_CORE, moment)
    assert (list(memory.file_refs), memory.speaker, memory.source) == ([ref], "Ada", "letter")
    assert memory.HasField("expire_time")


def test_what_is_captured_has_speaker_time_tags_and_source(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Those of the message and of the request; with the policy SUPERSEDE the older memory gives way at once."""
    old = create(stubs, scope, "I live in Lisbon.", speaker="Ada", kind=types_pb.MEMORY_KIND_FACT)
    message = types_pb.ChatMessage(
        content="I moved to Porto.", speaker="Ada", event_time=Timestamp(seconds=int(time.time()))
    )
    request = memory_pb.CaptureMemoryRequest(
        scope=scope, message=message, tags=["move"], source="chat", conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE
    )
    memory = stubs.memory.CaptureMemory(request, timeout=TIMEOUT).decisions[0].memory

    assert (memory.speaker, memory.event_time, memory.source) == ("Ada", message.event_time, "chat")
    assert "move" in memory.tags
    assert get(stubs, scope, old.id).superseded_by_id == memory.id


def test_a_skill_is_known_by_its_front_matter(stubs: Stubs, home: types_pb.Scope) -> None:
    """Name and description become title and summary; ingesting again under the key replaces the text."""
    text = "\ufeff---\nname: brew-tea\ndescription: '怎么泡乌龙茶'\n---\n# Ignored\n\nBoil water.\n"
    reply = ingest(stubs, text.encode(), scope=home, name="skills/SKILL.md", key="tea")

    assert (reply.memory.title, reply.memory.summary) == ("brew-tea", "怎么泡乌龙茶")
    assert (reply.memory.kind, reply.chunk_count) == (types_pb.MEMORY_KIND_SKILL, 1)
    assert reply.memory.content.startswith("---")
    again = ingest(stubs, b"Boil more water.", scope=home, key="tea")
    assert (again.outcome, again.memory.id, again.memory.content) == (UPDATED, reply.memory.id, "Boil more water.")


@pytest.mark.parametrize(
    ("data", "header", "fields"),
    [
        (b"", {}, ("data",)),
        (b" \n", {}, ("data",)),
        (b"a\xff", {}, ("data",)),
        (b"a\x00", {}, ("data",)),
        (b"a" * 1_000_001, {}, ("data",)),
        (b"abc", {"size_bytes": 2, "sha256": "0" * 64}, ("header.sha256", "header.size_bytes")),
        (b"a", {"size_bytes": 4_000_001}, ("header.size_bytes",)),
        (b"a", {"sha256": "xyz", "kind": 1, "tags": [""]}, ("header.memory.kind", "header.memory.tags[0]", "header.sha256")),
        (b"a", {"key": "daily/x"}, ("header.memory.key",)),
        (b"a", {"name": "x" * 257, "key": "\n", "title": "x" * 513}, (
            "header.memory.key", "header.memory.title", "header.name",
        )),
        (b"a", {"layer": types_pb.MEMORY_LAYER_SESSION, "request_id": "x" * 129}, (
            "header.memory.layer", "header.request_id",
        )),
        (b"a", {"on_duplicate": 9, "wait_for": 9, "category": "x" * 65, "content": "x"}, (
            "header.memory.category", "header.memory.content", "header.on_duplicate",
            "header.wait_for",
        )),
    ],
)  # fmt: skip
def test_wrong_documents_are_refused(
    stubs: Stubs, scope: types_pb.Scope, data: bytes, header: dict[str, Any], fields: tuple[str, ...]
) -> None:
    """Everything that is wrong is named, and nothing is stored."""
    refusal = refused(stubs.memory.IngestDocument, parts(data, 100_000, scope=scope, **header))

    assert (refusal.code, sorted(refusal.fields)) == (grpc.StatusCode.INVALID_ARGUMENT, sorted(fields))
    assert list_all(stubs, scope) == []


def test_documents_out_of_order_are_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Bytes first, two headers, nothing at all, too many bytes."""
    header = memory_pb.IngestDocumentRequest(header=memory_pb.DocumentHeader(scope=scope))
    data = memory_pb.IngestDocumentRequest(data=b"x" * 1_000_000)

    for requests, field in (
        ([data], "header"),
        ([header, header], "data"),
        ([], "header"),
        ([header, *[data] * 5], "data"),
    ):
        assert refused(stubs.memory.IngestDocument, iter(requests)).fields == (field,)
    assert list_all(stubs, scope) == []


def test_a_document_that_breaks_off_is_not_stored(stubs: Stubs, scope: types_pb.Scope) -> None:
    """gRPC tells the server the end of a cancelled stream before the cancel: half a document is no document."""
    for number in range(12):
        is_asked, is_over = threading.Event(), threading.Event()

        def breaking_off(number: int = number, asked: Any = is_asked, over: Any = is_over) -> Iterator[Any]:
            yield from parts(f"# Part {number}\n\nThe first half of a text.".encode(), 1_000, scope=scope)
            asked.set()
            over.wait(TIMEOUT)

        call = stubs.memory.IngestDocument.future(breaking_off(), timeout=TIMEOUT)
        assert is_asked.wait(TIMEOUT)
        # What came before has arrived when a call behind it is answered.
        assert list_all(stubs, scope) == []
        call.cancel()
        is_over.set()

    whole = ingest(stubs, b"# Whole\n\nAll of it.", scope=scope)
    assert [whole.memory.id] == [memory.id for memory in list_all(stubs, scope)]


def test_everything_written_is_redacted_when_that_is_set(tmp_path: Path) -> None:
    """Create, batch, import, update, append and ingest replace secrets, and say so; without capture they stay."""
    environment = {**FAST, "MEMSVC_REDACTION__WRITES": "true"}
    scope = types_pb.Scope(user_id="u")
    secret = f"key: {KEY} "
    memory = types_pb.Memory(content=secret, title=secret)
    with ServerProcess(tmp_path / "data", environment=environment) as server, server.stubs() as stubs:
        created = write(stubs, scope, memory)
        batch = memory_pb.BatchCreateMemoriesRequest(scope=scope, memories=[memory_pb.BatchMemory(memory=memory)])
        item = stubs.memory.BatchCreateMemories(batch, timeout=TIMEOUT).results[0]
        update = memory_pb.UpdateMemoryRequest(
            scope=scope, memory=types_pb.Memory(id=created.memory.id, content=f"now {KEY}")
        )
        updated = stubs.memory.UpdateMemory(update, timeout=TIMEOUT)
        header = memory_pb.ImportMemoriesRequest(header=memory_pb.ImportHeader(scope=scope))
        entries = [memory_pb.BatchMemory(memory=types_pb.Memory(content=f"{number} {KEY}")) for number in range(3)]
        imported = memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(memories=entries))
        *_, last = stubs.memory.ImportMemories(iter([header, imported]), timeout=TIMEOUT)
        appended = append(stubs, scope, "k", secret)
        ingested = ingest(stubs, secret.encode(), scope=scope)

        assert [sum(one.match_count for one in reply.redactions) for reply in (created, item, updated, appended, ingested)] == [
            2, 2, 1, 1, 1,
        ]  # fmt: skip
        assert (last.redacted_count, item.outcome) == (3, DUPLICATE)
        assert KEY not in repr(list_all(stubs, scope))


def test_a_language_model_decides_and_its_failure_is_told(tmp_path: Path) -> None:
    """Over real gRPC and real HTTP: first the model, then, when it fails, the rules, with a notice."""
    answer = {
        "index": 0, "remember": True, "reason": "PREFERENCE", "detail": "likes tea", "scope": "global", "layer": "CORE",
        "kind": "PREFERENCE", "category": "", "importance": 5, "title": "Tea", "tags": [], "content": "Ada likes tea.",
    }  # fmt: skip
    with serving() as endpoint:
        endpoint.replies.append(said(json.dumps({"decisions": [answer]})))
        endpoint.otherwise = lambda _: failed(503)
        with ServerProcess(tmp_path / "data", environment=_with_model(endpoint)) as server, server.stubs() as stubs:
            scope = types_pb.Scope(user_id="u")
            first = capture(stubs, scope, "Oolong, as ever!")
            second = capture(stubs, scope, "I prefer tabs.")

    assert (first.decider, first.notice, first.decisions[0].memory.content) == (2, "", "Ada likes tea.")
    assert (second.decider, second.decisions[0].remember) == (memory_pb.CAPTURE_DECIDER_RULES, True)
    assert "rules" in second.notice


def _with_model(endpoint: Endpoint) -> dict[str, str]:
    options = {"BASE_URL": endpoint.url, "MODEL": "m", "RETRIES": "0"}
    return {
        **FAST,
        "MEMSVC_LANGUAGE_MODEL__BACKEND": "openai",
        **{f"MEMSVC_LANGUAGE_MODEL__OPTIONS__{name}": value for name, value in options.items()},
    }
