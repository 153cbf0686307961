"""What is wrong with the file of a user, or with how it is sent, is told."""

from __future__ import annotations

import grpc
import pytest

from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, create_all, list_all, refused
from tests.support.server_process import Stubs
from tests.support.user_data import Line, changed, export, records, requests, take_in

PARTS = {
    ("", "", "", ""): {"user_id"},
    ("a\0", "", "", ""): {"user_id"},
    ("a", "p", "a", "s"): {"project_id", "agent_id", "session_id"},
}


@pytest.mark.parametrize(
    ("number", "fields", "path"),
    [
        (1, {"version": 2}, "version"),
        (1, {"format": "other"}, "format"),
        (2, {"importance": 9}, "importance"),
        (2, {"tags": ["ok", ""]}, "tags[1]"),
        (2, {"colour": "red"}, "colour"),
        (2, {"create_time": "yesterday"}, "create_time"),
        (2, {"create_time": "2026-02-06T00:00:00"}, "create_time"),
        (2, {"id": "no-uuid"}, "id"),
        (2, {"project_id": "a\x1fb"}, "project_id"),
        (2, {"content": "a\0b"}, "content"),
        (2, {"content": ""}, "content"),
        (2, {"metadata": {"a": "x" * 20_000}}, "metadata"),
        (2, {"metadata": {"a": float("nan")}}, "metadata"),
        (2, {"keywords": [["a", 2]]}, "keywords[0][1]"),
        (2, {"status": "LOST"}, "status"),
        (2, {"confidence": -1}, "confidence"),
        (2, {"revision": 0}, "revision"),
        (2, {"vectors": [{"data": "AACAPw=="}]}, "vectors"),
        (2, {"given_vector": {"model": "m", "data": "?"}}, "given_vector.data"),
        (2, {"given_vector": {"model": "m", "data": "AADAfw=="}}, "given_vector.data"),
        (2, {"record": "dream"}, "record"),
        (2, {"metadata": {"a": 10**400}}, "metadata"),
        (2, {"metadata": {"a": [{"b": [-(10**309)]}]}}, "metadata"),
        (2, {"metadata": {"a": {"b": float("-inf")}}}, "metadata"),
        (2, {"metadata": {"a": ["b\0"]}}, "metadata"),
        (2, {"create_time": "0001-01-01T00:00:00+14:00"}, "create_time"),
        (2, {"expire_time": "9999-12-31T23:59:59-14:00"}, "expire_time"),
        (2, {"valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}, "valid_to"),
        (2, {"key": "daily/zzz"}, "key"),
        (2, {"key": "a\nb"}, "key"),
        (2, {"layer": "SESSION"}, "layer"),
        (2, {"importance": True}, "importance"),
        (2, {"importance": "3"}, "importance"),
        (2, {"confidence": True}, "confidence"),
        (2, {"revision": (1 << 62) - 1}, "revision"),
        (2, {"reminder": {"month": 2, "day": 3, "time_zone": "../etc/passwd"}}, "reminder.time_zone"),
        (2, {"reminder": {"month": 2, "day": 3, "time_zone": "Europe"}}, "reminder.time_zone"),
        (2, {"reminder": {"month": True, "day": 3}}, "reminder.month"),
        (2, {"file_refs": [{"category": "pdf", "id": "y"}]}, "file_refs[0].category"),
        (2, {"access_count": 1 << 31}, "access_count"),
        (2, {"acknowledged": [{"day": "2026-02-28", "slot": "MORNING", "time": "2026-02-28T08:00:00Z"}] * 2},
         "acknowledged"),
        (3, {"record": "revision"}, "claims_content"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(stubs: Stubs, user: str, number: int, fields: Line, path: str) -> None:
    """By its number and field; what comes before it is stored, nothing after it."""
    create_all(stubs, types_pb.Scope(user_id=user), ["one", "two", "three"])
    file = changed(export(stubs, user), lambda lines: lines[number - 1].update(fields))
    target = f"{user}-2"
    refusal = refused(stubs.lifecycle.ImportUser, requests(target, file))

    assert (grpc.StatusCode.INVALID_ARGUMENT, (f"data.lines[{number}].{path}",)) == (refusal.code, refusal.fields)
    assert max(0, number - 2) == len(list_all(stubs, types_pb.Scope(user_id=target)))


@pytest.mark.parametrize(("number", "fields"), [(1, {"version": 2}), (1, {"later": 1}), (2, {"later": 1})])
def test_a_file_of_a_newer_version_says_so(stubs: Stubs, user: str, number: int, fields: Line) -> None:
    """With its version; tests/unit/engine/user_data/test_reading.py has the whole text."""
    create(stubs, types_pb.Scope(user_id=user), "一")

    def renew(lines: list[Line]) -> None:
        lines[0]["service"] = "memsvc 99.0.1"
        lines[number - 1].update(fields)

    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", changed(export(stubs, user), renew)))

    assert (f"data.lines[{number}].{next(iter(fields))}",) == refusal.fields
    assert refusal.message.endswith("; the file was made by memsvc 99.0.1")


@pytest.mark.parametrize("field", ["supersedes_id", "superseded_by_id"])
def test_a_memory_that_supersedes_itself_is_named(stubs: Stubs, user: str, field: str) -> None:
    """By its line and field."""
    create(stubs, types_pb.Scope(user_id=user), "one")
    file = changed(export(stubs, user), lambda lines: lines[1].update({field: lines[1]["id"]}))
    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", file))

    assert (f"data.lines[2].{field}",) == refusal.fields


def test_a_revision_that_occurs_twice_is_named(stubs: Stubs, user: str) -> None:
    """By its line; so is one that comes after a later one."""
    scope = types_pb.Scope(user_id=user)
    memory = create(stubs, scope, "one")
    for title in ("a", "b"):
        changed_memory = types_pb.Memory(id=memory.id, title=title)
        stubs.memory.UpdateMemory(
            memory_pb.UpdateMemoryRequest(scope=scope, memory=changed_memory, update_mask={"paths": ["title"]}),
            timeout=TIMEOUT,
        )
    file = export(stubs, user)

    def reverse(lines: list[Line]) -> None:
        lines[2], lines[3] = lines[3], lines[2]

    for change in (lambda lines: lines.insert(3, lines[2]), reverse):
        refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", changed(file, change)))
        assert (grpc.StatusCode.INVALID_ARGUMENT, ("data.lines[4].revision",)) == (refusal.code, refusal.fields)


@pytest.mark.parametrize(
    ("record", "fields", "path"),
    [
        ("session", {"trim_count": 1 << 31}, "trim_count"),
        ("session", {"token_limit": 1 << 31}, "token_limit"),
        ("memory", {"token_count": 1 << 31}, "message.token_count"),
        ("file", {"size_bytes": 1 << 60}, "size_bytes"),
    ],
)
def test_a_number_beyond_the_fields_of_the_api_is_named(
    stubs: Stubs, user: str, record: str, fields: Line, path: str
) -> None:
    """Stored, it would make every read of the user fail."""
    upload(stubs, types_pb.Scope(user_id=user), b"bytes")
    talk = types_pb.Scope(user_id=user, session_id="s")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk), timeout=TIMEOUT)
    message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content="Hello.")
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=talk, messages=[message]), timeout=TIMEOUT)
    file = export(stubs, user)
    [place] = [number for number, line in enumerate(records(file)) if line["record"] == record]

    def change(lines: list[Line]) -> None:
        line = lines[place + 1]
        line.get("message", line).update(fields)

    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", changed(file, change)))
    assert (f"data.lines[{place + 2}].{path}",) == refusal.fields


@pytest.mark.parametrize("media_type", ["x", "image/", "image/png; charset=x", "a b/c", ""])
def test_a_media_type_that_is_none_is_named(stubs: Stubs, user: str, media_type: str) -> None:
    """By its line and field."""
    upload(stubs, types_pb.Scope(user_id=user), b"bytes")
    file = changed(export(stubs, user), lambda lines: lines[1].update(media_type=media_type))
    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", file))

    assert ("data.lines[2].media_type",) == refusal.fields


def test_arguments_of_a_tool_are_numbers_that_can_be_told(stubs: Stubs, user: str) -> None:
    """Of a message too, or it could never be listed."""
    talk = types_pb.Scope(user_id=user, session_id="s")
    called = types_pb.ToolCall(id="c", name="n")
    called.arguments.update({"a": 1})
    message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_ASSISTANT, content="Hello.", tool_calls=[called])
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk), timeout=TIMEOUT)
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=talk, messages=[message]), timeout=TIMEOUT)

    def change(lines: list[Line]) -> None:
        lines[2]["message"]["tool_calls"][0]["arguments"] = {"a": [10**309]}

    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", changed(export(stubs, user), change)))
    assert ("data.lines[3].message.tool_calls[0].arguments",) == refusal.fields


def test_a_file_that_was_cut_or_changed_is_noticed(stubs: Stubs, user: str) -> None:
    """At its end; sent whole, it goes on where it was."""
    create_all(stubs, types_pb.Scope(user_id=user), ["one", "two", "三"])
    file = export(stubs, user)
    lines = file.splitlines(keepends=True)
    wrong = {
        b"": "data.lines[1].record",
        b"".join(lines[:-1]): "data.lines[5].record",
        b"".join(lines[:-1])[:-10]: "data.lines[4]",
        b"".join([*lines[:2], *lines[3:]]): "data.lines[4].lines",
        file.replace(b"three", b"threw").replace("三".encode(), "四".encode()): "data.lines[5].sha256",
        file + b"x\n": "data.lines[6]",
        b"\xff\xfe\n" + file: "data.lines[1]",
        b"{" * 1000 + b"\n": "data.lines[1]",
    }
    for number, (bad, path) in enumerate(wrong.items()):
        refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-{number}", bad))
        assert (grpc.StatusCode.INVALID_ARGUMENT, (path,)) == (refusal.code, refusal.fields)
    last = take_in(stubs, f"{user}-1", file)
    assert (3, {}) == (last.unchanged_count, dict(last.stored_counts))


@pytest.mark.parametrize("named", PARTS)
def test_a_part_of_a_user_is_refused(stubs: Stubs, named: tuple[str, str, str, str]) -> None:
    """All violations at once; a user is needed, and nothing else may be named."""
    scope = types_pb.Scope(**dict(zip(("user_id", "project_id", "agent_id", "session_id"), named, strict=True)))
    paths = {f"scope.{name}" for name in PARTS[named]}
    header = lifecycle_pb.ImportUserRequest(header=lifecycle_pb.ImportUserHeader(scope=scope))
    erasing = lifecycle_pb.EraseUserRequest(scope=scope, confirm=True, request_id="x" * 129)

    assert paths == set(refused(stubs.lifecycle.ExportUser, lifecycle_pb.ExportUserRequest(scope=scope)).fields)
    assert paths | {"request_id"} == set(refused(stubs.lifecycle.EraseUser, erasing).fields)
    refusal = refused(stubs.lifecycle.ImportUser, iter([header]))
    assert {f"header.{path}" for path in paths} == set(refusal.fields)


def test_messages_out_of_order_are_refused(stubs: Stubs, user: str) -> None:
    """No header, a second header, and nothing at all."""
    header = next(requests(user, b""))
    data = lifecycle_pb.ImportUserRequest(data=b"x")
    for messages, path in (([], "header"), ([data], "header"), ([header, header], "data")):
        refusal = refused(stubs.lifecycle.ImportUser, iter(messages))
        assert (grpc.StatusCode.INVALID_ARGUMENT, (path,)) == (refusal.code, refusal.fields)
