"""Images in what is said, over the wire: kept as files when it is remembered, and otherwise not at all."""

from __future__ import annotations

from base64 import b64encode

import grpc
import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_file_refs import refs_of
from tests.support.files import download, listed, written_ref
from tests.support.rpc import TIMEOUT, refused
from tests.support.server_process import Stubs

PNG = b"\x89PNG\r\n\x1a\n of no picture"


def image(data: bytes = PNG) -> str:
    """Return an image as it stands in a text."""
    return f"![logo](data:image/png;base64,{b64encode(data).decode()})"


def capture(stubs: Stubs, scope: types_pb.Scope, text: str, **more: object) -> list[memory_pb.CaptureDecision]:
    """Capture a text."""
    request = memory_pb.CaptureMemoryRequest(scope=scope, message=types_pb.ChatMessage(content=text), **more)
    return list(stubs.memory.CaptureMemory(request, timeout=TIMEOUT).decisions)


@pytest.mark.parametrize("said", ["Remember that our logo is {}", "请记住：我们的标志是 {}"])
def test_an_image_that_is_remembered_becomes_a_file(stubs: Stubs, scope: types_pb.Scope, said: str) -> None:
    """The memory refers to it, and its bytes are those that were sent."""
    [decision] = capture(stubs, scope, said.format(image()))

    [ref] = decision.memory.file_refs
    assert decision.remember
    assert decision.memory.content.endswith(f"![logo](memory:{ref.id})")
    assert listed(stubs, scope) == ["logo.png"]
    assert download(stubs, scope, ref.id) == PNG


def test_an_image_that_is_not_remembered_is_not_kept(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Neither when nobody would remember the text, nor by a dry run, which shows what the memory would say."""
    assert not any(decision.remember for decision in capture(stubs, scope, f"ok, thanks {image()}"))
    [rehearsed] = capture(stubs, scope, f"Remember that our logo is {image()}", dry_run=True)

    assert rehearsed.remember
    assert "base64" not in rehearsed.memory.content
    assert listed(stubs, scope) == []
    [decision] = capture(stubs, scope, f"Remember that our logo is {image()}")
    assert decision.memory.content == rehearsed.memory.content


def test_a_repeated_capture_has_the_same_answer(stubs: Stubs, scope: types_pb.Scope) -> None:
    """With its request_id a text that holds an image is captured once."""
    [first] = capture(stubs, scope, f"Remember that our logo is {image()}", request_id="r")
    [again] = capture(stubs, scope, f"Remember that our logo is {image()}", request_id="r")

    assert again == first
    assert len(listed(stubs, scope)) == 1


def test_images_of_a_conversation_become_files(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A flush tells them among the files that it found; memories of the conversation refer to them."""
    messages = [
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=f"Remember that our logo is {image()}"),
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content="Noted."),
        types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=f"你看一下这张图 {image(PNG + b'2')}"),
    ]
    reply = stubs.memory.FlushMessages(memory_pb.FlushMessagesRequest(scope=scope, messages=messages), timeout=TIMEOUT)

    told = [written_ref(ref) for ref in reply.file_refs]
    assert len(listed(stubs, scope)) == len(told) == 2
    assert {download(stubs, scope, ref.id) for ref in reply.file_refs} == {PNG, PNG + b"2"}
    memories = [result.memory for result in reply.results]
    assert sorted(ref for memory in memories for ref in refs_of(memory)) == sorted(told)
    assert not any("base64" in memory.content for memory in memories)


def test_images_that_cannot_be_kept_are_refused(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The field is named, and nothing is kept of the messages before."""
    broken = "![x](data:image/png;base64,abc)"
    captured = refused(
        stubs.memory.CaptureMemory,
        memory_pb.CaptureMemoryRequest(scope=scope, message=types_pb.ChatMessage(content=f"Remember {broken}")),
    )
    messages = [types_pb.ChatMessage(content=f"Remember {image()}"), types_pb.ChatMessage(content=broken)]
    flushed = refused(stubs.memory.FlushMessages, memory_pb.FlushMessagesRequest(scope=scope, messages=messages))

    assert [captured.code, flushed.code] == [grpc.StatusCode.INVALID_ARGUMENT] * 2
    assert captured.fields == ("message.content",)
    assert flushed.fields == ("messages[1].content",)
    assert listed(stubs, scope) == []
