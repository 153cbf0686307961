"""A user is carried from server to server: everything, as it was, once; what is wrong with a file is told."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from memsvc.client import Memsvc, MemsvcCallError
from memsvc.v1 import erasure_pb2, transfer_pb2
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types
from tests.e2e.calls import TIMEOUT, create, create_all, found, get, list_all, refused
from tests.e2e.filing import upload
from tests.e2e.running import FAST, ServerProcess, Stubs
from tests.e2e.transferring import Line, changed, export, furnish, records, requests, take_in, without

Reason = transfer_pb2.ImportIssueReason
READ = ("access_count", "access_time")
VOLATILE = ("id", "related_ids", "previous_id", "older_id", "newer_id", "supersedes_id", "superseded_by_id")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Another server."""
    with ServerProcess(tmp_path_factory.mktemp("elsewhere") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def there(elsewhere: ServerProcess) -> Iterator[Stubs]:
    """The stubs of the other server."""
    with elsewhere.stubs() as stubs:
        yield stubs


@pytest.fixture(scope="module")
def furnished(stubs: Stubs) -> tuple[str, bytes]:
    """A user with something of everything, and the file of it, vectors included."""
    user = f"moving-{uuid.uuid4()}"
    furnish(stubs, user, "quagga")
    return user, export(stubs, user, include_vectors=True)


def test_a_file_tells_everything_of_the_user(furnished: tuple[str, bytes]) -> None:
    """A header, records of every kind, and a footer that counts them."""
    user, file = furnished
    lines = [json.loads(line) for line in file.splitlines()]
    header, footer = lines[0], lines[-1]

    assert ("header", "memsvc-user", 1, user) == tuple(
        header[name] for name in ("record", "format", "version", "user_id")
    )
    assert ("footer", len(lines) - 1) == (footer["record"], footer["lines"])
    assert {"session", "memory", "revision", "conflict", "checkpoint", "tombstone", "file"} == footer["counts"].keys()
    assert footer["counts"] == header["counts"]
    statuses = {line["status"] for line in records(file, "memory")}
    assert {"ACTIVE", "DELETED", "QUARANTINED"} <= statuses
    [talk] = records(file, "session")
    assert 2 == len([line for line in records(file, "memory") if "message" in line]) == talk["last_ordinal"]
    assert all("vectors" in line for line in records(file, "memory") if line["status"] == "ACTIVE")
    found, given = (line for line in records(file, "memory") if "reminder" in line)
    assert ("phrase" in found["reminder"], [one["day"] for one in given["acknowledged"]]) == (True, ["2026-02-28"])
    assert "row" not in {name for line in lines for name in line}


def test_a_user_is_the_same_elsewhere(stubs: Stubs, there: Stubs) -> None:
    """Field by field: exported there, the file is the same to the last byte but for the header's time."""
    user = f"moving-{uuid.uuid4()}"
    furnish(stubs, user, "quagga")
    file = export(stubs, user, include_vectors=True)
    last = take_in(there, user, file, wait_for=types.WAIT_FOR_INDEXED)

    assert ([], 0) == (list(last.issues), last.skipped_count)
    again = export(there, user, include_vectors=True)
    assert file.splitlines()[1:-1] == again.splitlines()[1:-1]
    scope = types.Scope(user_id=user, project_id="p")
    assert any("波尔图" in text for text in found(there, scope, "小王住在哪里？"))
    assert any("Porto" in text for text in found(there, scope, "where does Anna live?"))


def test_the_same_file_again_changes_nothing(there: Stubs, furnished: tuple[str, bytes]) -> None:
    """However it is cut into messages."""
    user, file = furnished
    take_in(there, user, file)
    for size in (997, 1_000_000):
        last = take_in(there, user, file, size=size)
        assert ({}, 0, "") == (dict(last.stored_counts), last.skipped_count, last.consistency_token)
        assert len(records(file)) == last.unchanged_count
    after = records(export(there, user, include_vectors=True))
    assert [without(line, READ) for line in records(file)] == [without(line, READ) for line in after]


def test_another_user_gets_ids_of_their_own(stubs: Stubs, furnished: tuple[str, bytes]) -> None:
    """On the same server too; what memories say of each other follows, and nothing of the first one changes."""
    user, file = furnished
    before = export(stubs, user)
    other = f"heir-{uuid.uuid4()}"
    last = take_in(stubs, other, file)
    assert 0 == last.skipped_count
    copy = export(stubs, other, include_vectors=True)

    plain, copied = records(file), records(copy)
    assert [_same(line) for line in plain] == [_same(line) for line in copied]
    ids = {line["id"]: new["id"] for line, new in zip(plain, copied, strict=True)}
    memories = [line["id"] for line in records(file, "memory")]
    assert not {*memories} & {ids[name] for name in memories}
    for line, new in zip(plain, copied, strict=True):
        for name in ("previous_id", "older_id", "newer_id", "superseded_by_id"):
            assert ids.get(line.get(name)) == new.get(name)
        assert [ids[one] for one in line.get("related_ids", ())] == new.get("related_ids", [])
    assert len(plain) == take_in(stubs, other, file).unchanged_count
    assert before.splitlines()[1:-1] == export(stubs, user).splitlines()[1:-1]


def _same(line: Line) -> Line:
    kept = {name: value for name, value in line.items() if name not in VOLATILE}
    return (
        kept if line["record"] in {"memory", "revision", "conflict", "tombstone", "file"} else kept | {"id": line["id"]}
    )


def test_an_id_of_somebody_else_is_not_touched(stubs: Stubs, user: str) -> None:
    """A file that names it as the user's own is taken in under another id; the reply gives nothing away."""
    victim = types.Scope(user_id=f"{user}-victim")
    theirs = create(stubs, victim, "The secret of the walrus.")
    mine = create(stubs, types.Scope(user_id=user), "mine")
    file = export(stubs, user)

    def forge(lines: list[Line]) -> None:
        lines[1] |= {"id": theirs.id, "content": "forged", "related_ids": [theirs.id, mine.id]}

    forged = changed(file, forge)
    for _ in range(2):
        last = take_in(stubs, user, forged)
        assert (0, []) == (last.skipped_count, list(last.issues))
    assert theirs == get(stubs, victim, theirs.id)
    [new] = [memory for memory in list_all(stubs, types.Scope(user_id=user)) if memory.content == "forged"]
    assert (2, [new.id, mine.id]) == (len(list_all(stubs, types.Scope(user_id=user))), list(new.related_ids))


def test_prefixes_are_other_users(stubs: Stubs, user: str) -> None:
    """The file of "a" holds nothing of "ab"; an unknown user's file has a header and a footer."""
    for name in ("a", "ab", "abc"):
        create(stubs, types.Scope(user_id=f"{user}{name}"), f"says {name}")

    assert ["says ab"] == [line["content"] for line in records(export(stubs, f"{user}ab"))]
    assert [] == records(export(stubs, user))


def test_what_is_here_and_differs_is_told(stubs: Stubs, user: str) -> None:
    """By line, and left as it is: changed memories, keys and contents that others have; the rest is stored."""
    scope = types.Scope(user_id=user)
    one, two, three = create_all(
        stubs, scope, [types.Memory(content="one", key="k"), "two", types.Memory(content="three", title="t")]
    )
    file = export(stubs, user)
    new_ids = [str(uuid.uuid4()) for _ in range(3)]

    def change(lines: list[Line]) -> None:
        lines[1] |= {"id": new_ids[0], "content": "another"}
        lines[2] |= {"id": new_ids[1]}
        lines[3] |= {"title": "changed"}
        lines.append(lines[1] | {"id": new_ids[2], "key": "free", "content": "fresh"})

    last = take_in(stubs, user, changed(file, change))
    assert [
        (2, new_ids[0], Reason.IMPORT_ISSUE_REASON_KEY_TAKEN, one.id),
        (3, new_ids[1], Reason.IMPORT_ISSUE_REASON_CONTENT_TAKEN, two.id),
        (4, three.id, Reason.IMPORT_ISSUE_REASON_DIFFERS, ""),
    ] == [(issue.line, issue.id, issue.reason, issue.in_the_way) for issue in last.issues]
    assert (3, {"memory": 1}) == (last.skipped_count, dict(last.stored_counts))
    assert {"one", "two", "three", "fresh"} == {memory.content for memory in list_all(stubs, scope)}
    assert "t" == get(stubs, scope, three.id).title


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
        (3, {"record": "revision"}, "claims_content"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(stubs: Stubs, user: str, number: int, fields: Line, path: str) -> None:
    """By its number and field; what comes before it is stored, nothing after it."""
    create_all(stubs, types.Scope(user_id=user), ["one", "two", "three"])
    file = changed(export(stubs, user), lambda lines: lines[number - 1].update(fields))
    target = f"{user}-2"
    refusal = refused(stubs.lifecycle.ImportUser, requests(target, file))

    assert (grpc.StatusCode.INVALID_ARGUMENT, (f"data.lines[{number}].{path}",)) == (refusal.code, refusal.fields)
    assert max(0, number - 2) == len(list_all(stubs, types.Scope(user_id=target)))


@pytest.mark.parametrize("field", ["supersedes_id", "superseded_by_id"])
def test_a_memory_that_supersedes_itself_is_named(stubs: Stubs, user: str, field: str) -> None:
    """By its line and field."""
    create(stubs, types.Scope(user_id=user), "one")
    file = changed(export(stubs, user), lambda lines: lines[1].update({field: lines[1]["id"]}))
    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", file))

    assert (f"data.lines[2].{field}",) == refusal.fields


@pytest.mark.parametrize("media_type", ["x", "image/", "image/png; charset=x", "a b/c", ""])
def test_a_media_type_that_is_none_is_named(stubs: Stubs, user: str, media_type: str) -> None:
    """By its line and field."""
    upload(stubs, types.Scope(user_id=user), b"bytes")
    file = changed(export(stubs, user), lambda lines: lines[1].update(media_type=media_type))
    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", file))

    assert ("data.lines[2].media_type",) == refusal.fields


def test_arguments_of_a_tool_are_numbers_that_can_be_told(stubs: Stubs, user: str) -> None:
    """Of a message too, or it could never be listed."""
    talk = types.Scope(user_id=user, session_id="s")
    called = session_pb.ToolCall(id="c", name="n")
    called.arguments.update({"a": 1})
    message = session_pb.NewMessage(role=types.MESSAGE_ROLE_ASSISTANT, content="Hello.", tool_calls=[called])
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=talk), timeout=TIMEOUT)
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=talk, messages=[message]), timeout=TIMEOUT)

    def change(lines: list[Line]) -> None:
        lines[2]["message"]["tool_calls"][0]["arguments"] = {"a": [10**309]}

    refusal = refused(stubs.lifecycle.ImportUser, requests(f"{user}-2", changed(export(stubs, user), change)))
    assert ("data.lines[3].message.tool_calls[0].arguments",) == refusal.fields


def test_what_a_write_takes_an_import_takes(stubs: Stubs, there: Stubs, user: str) -> None:
    """The ends of what is allowed, and texts that are not what they look like."""
    scope = types.Scope(user_id=user)
    long = types.Memory(content="long")
    long.metadata.update({f"{number:04}": number for number in range(1_300)})
    odd = types.Memory(content="odd", tags=["t" * 64])
    odd.metadata.update({"a": "\\u0000", "b": "9" * 400, "c": 1.7976931348623157e308, "d": -0.5, "e": 2.0**80})
    odd.event_time.FromJsonString("0001-01-01T00:00:00Z")
    odd.expire_time.FromJsonString("9999-12-31T23:59:59.999999Z")
    create_all(stubs, scope, [long, odd, types.Memory(content="day", key="daily/2026-02-06")])

    file = export(stubs, user)
    last = take_in(there, user, file)

    assert (3, []) == (last.stored_counts["memory"], list(last.issues))
    assert records(file) == records(export(there, user))


def test_a_zone_that_only_another_machine_knows_is_taken(stubs: Stubs, user: str) -> None:
    """Lists of time zones differ; without one that is known the reminder is of the zone of whoever asks."""
    create(stubs, types.Scope(user_id=user), "one")
    reminder = {"month": 2, "day": 3, "time_zone": "Mars/Olympus"}
    file = changed(export(stubs, user), lambda lines: lines[1].update(reminder=reminder))

    assert 1 == take_in(stubs, f"{user}-2", file).stored_counts["memory"]


def test_a_file_that_was_cut_or_changed_is_noticed(stubs: Stubs, user: str) -> None:
    """At its end; sent whole, it goes on where it was."""
    create_all(stubs, types.Scope(user_id=user), ["one", "two", "三"])
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


def test_unknown_records_that_say_so_are_left_out(stubs: Stubs, user: str) -> None:
    """And told; the others are stored."""
    create(stubs, types.Scope(user_id=user), "one")
    dream = {"record": "dream", "optional": True, "id": "d", "of": "sheep"}
    file = changed(export(stubs, user), lambda lines: [lines[0], dream, *lines[1:]])
    last = take_in(stubs, f"{user}-2", file)

    assert [(2, "dream", Reason.IMPORT_ISSUE_REASON_SKIPPED)] == [(i.line, i.kind, i.reason) for i in last.issues]
    assert {"memory": 1} == dict(last.stored_counts)


PARTS = {
    ("", "", "", ""): {"user_id"},
    ("a\0", "", "", ""): {"user_id"},
    ("a", "p", "a", "s"): {"project_id", "agent_id", "session_id"},
}


@pytest.mark.parametrize("named", PARTS)
def test_a_part_of_a_user_is_refused(stubs: Stubs, named: tuple[str, str, str, str]) -> None:
    """All violations at once; a user is needed, and nothing else may be named."""
    scope = types.Scope(**dict(zip(("user_id", "project_id", "agent_id", "session_id"), named, strict=True)))
    paths = {f"scope.{name}" for name in PARTS[named]}
    header = transfer_pb2.ImportUserRequest(header=transfer_pb2.ImportUserHeader(scope=scope))
    erasing = erasure_pb2.EraseUserRequest(scope=scope, confirm=True, request_id="x" * 129)

    assert paths == set(refused(stubs.lifecycle.ExportUser, transfer_pb2.ExportUserRequest(scope=scope)).fields)
    assert paths | {"request_id"} == set(refused(stubs.lifecycle.EraseUser, erasing).fields)
    refusal = refused(stubs.lifecycle.ImportUser, iter([header]))
    assert {f"header.{path}" for path in paths} == set(refusal.fields)


def test_messages_out_of_order_are_refused(stubs: Stubs, user: str) -> None:
    """No header, a second header, and nothing at all."""
    header = next(requests(user, b""))
    data = transfer_pb2.ImportUserRequest(data=b"x")
    for messages, path in (([], "header"), ([data], "header"), ([header, header], "data")):
        refusal = refused(stubs.lifecycle.ImportUser, iter(messages))
        assert (grpc.StatusCode.INVALID_ARGUMENT, (path,)) == (refusal.code, refusal.fields)


def test_what_is_written_meanwhile_is_not_in_the_file(stubs: Stubs, user: str) -> None:
    """The file is of the moment in which it was begun, and no reader is kept waiting."""
    scope = types.Scope(user_id=user)
    create_all(stubs, scope, [f"{number} " + "x" * 100_000 for number in range(40)])
    call = stubs.lifecycle.ExportUser(transfer_pb2.ExportUserRequest(scope=scope), timeout=TIMEOUT)
    first = next(call)
    create(stubs, scope, "later")

    file = first.data + b"".join(part.data for part in call)
    assert 40 == len(records(file, "memory")) == first.total_count
    assert max(len(first.data), 1) <= 262_144


def test_a_broken_import_goes_on_after_a_kill(tmp_path: Path, stubs: Stubs, user: str) -> None:
    """kill -9 in the middle: sent again, everything is there once."""
    scope = types.Scope(user_id=user)
    for part in range(3):
        create_all(stubs, scope, [f"walrus {part} {number}" for number in range(600)])
    file = export(stubs, user)
    with ServerProcess(tmp_path / "data", environment=FAST) as server:
        with server.stubs() as there:
            call = there.lifecycle.ImportUser(requests(user, file, size=20_000), timeout=TIMEOUT)
            for response in call:
                if response.stored_counts["memory"]:
                    break
            server.kill()
        server.start()
        with server.stubs() as there:
            last = take_in(there, user, file)
            assert 1_800 == last.unchanged_count + last.stored_counts["memory"]
            assert last.unchanged_count
            assert records(file) == records(export(there, user))


def test_the_client_carries_a_user(elsewhere: ServerProcess, server: ServerProcess, user: str) -> None:
    """Both faces share the methods; the project of the client plays no part, but nobody erases more than they name."""
    with Memsvc(server.bound, user_id=user, project_id="p") as here:
        here.create("The walrus sings.")
        pieces = [piece.data for piece in here.export_user(include_vectors=True)]
        with Memsvc(elsewhere.bound, user_id=user) as there:
            *_, last = there.import_user(iter(pieces), wait_for="INDEXED")
            assert (True, 1) == (last.done, last.stored_counts["memory"])
        with pytest.raises(MemsvcCallError) as refused:
            here.erase_user(confirm=True)
        assert ("scope.project_id",) == tuple(one.field for one in refused.value.violations)
    with Memsvc(server.bound, user_id=user) as whole:
        receipt = whole.erase_user()
        assert (True, 1) == (receipt.dry_run, receipt.stores[0].removed_counts["memories"])
