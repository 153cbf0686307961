"""A user is carried from server to server: everything, as it was, once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsvc.client import Memsvc, MemsvcCallError
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, create_all, found, get, list_all
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.user_data import Line, changed, export, furnish, records, requests, take_in, without

Reason = lifecycle_pb.ImportIssueReason
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
    last = take_in(there, user, file, wait_for=types_pb.WAIT_FOR_INDEXED)

    assert ([], 0) == (list(last.issues), last.skipped_count)
    again = export(there, user, include_vectors=True)
    assert file.splitlines()[1:-1] == again.splitlines()[1:-1]
    scope = types_pb.Scope(user_id=user, project_id="p")
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
    victim = types_pb.Scope(user_id=f"{user}-victim")
    theirs = create(stubs, victim, "The secret of the walrus.")
    mine = create(stubs, types_pb.Scope(user_id=user), "mine")
    file = export(stubs, user)

    def forge(lines: list[Line]) -> None:
        lines[1] |= {"id": theirs.id, "content": "forged", "related_ids": [theirs.id, mine.id]}

    forged = changed(file, forge)
    for _ in range(2):
        last = take_in(stubs, user, forged)
        assert (0, []) == (last.skipped_count, list(last.issues))
    assert theirs == get(stubs, victim, theirs.id)
    [new] = [memory for memory in list_all(stubs, types_pb.Scope(user_id=user)) if memory.content == "forged"]
    assert (2, [new.id, mine.id]) == (len(list_all(stubs, types_pb.Scope(user_id=user))), list(new.related_ids))


def test_prefixes_are_other_users(stubs: Stubs, user: str) -> None:
    """The file of "a" holds nothing of "ab"; an unknown user's file has a header and a footer."""
    for name in ("a", "ab", "abc"):
        create(stubs, types_pb.Scope(user_id=f"{user}{name}"), f"says {name}")

    assert ["says ab"] == [line["content"] for line in records(export(stubs, f"{user}ab"))]
    assert [] == records(export(stubs, user))


def test_what_is_here_and_differs_is_told(stubs: Stubs, user: str) -> None:
    """By line, and left as it is: changed memories, keys and contents that others have; the rest is stored."""
    scope = types_pb.Scope(user_id=user)
    one, two, three = create_all(
        stubs, scope, [types_pb.Memory(content="one", key="k"), "two", types_pb.Memory(content="three", title="t")]
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
    ] == [(issue.line, issue.id, issue.reason, issue.blocking_id) for issue in last.issues]
    assert (3, {"memory": 1}) == (last.skipped_count, dict(last.stored_counts))
    assert {"one", "two", "three", "fresh"} == {memory.content for memory in list_all(stubs, scope)}
    assert "t" == get(stubs, scope, three.id).title


def test_what_a_write_takes_an_import_takes(stubs: Stubs, there: Stubs, user: str) -> None:
    """The ends of what is allowed, and texts that are not what they look like."""
    scope = types_pb.Scope(user_id=user)
    long = types_pb.Memory(content="long")
    long.metadata.update({f"{number:04}": number for number in range(1_300)})
    odd = types_pb.Memory(content="odd", tags=["t" * 64])
    odd.metadata.update({"a": "\\u0000", "b": "9" * 400, "c": 1.7976931348623157e308, "d": -0.5, "e": 2.0**80})
    odd.event_time.FromJsonString("0001-01-01T00:00:00Z")
    odd.expire_time.FromJsonString("9999-12-31T23:59:59.999999Z")
    create_all(stubs, scope, [long, odd, types_pb.Memory(content="day", key="daily/2026-02-06")])

    file = export(stubs, user)
    last = take_in(there, user, file)

    assert (3, []) == (last.stored_counts["memory"], list(last.issues))
    assert records(file) == records(export(there, user))


def test_a_zone_that_only_another_machine_knows_is_taken(stubs: Stubs, user: str) -> None:
    """Lists of time zones differ; without one that is known the reminder is of the zone of whoever asks."""
    create(stubs, types_pb.Scope(user_id=user), "one")
    reminder = {"month": 2, "day": 3, "time_zone": "Mars/Olympus"}
    file = changed(export(stubs, user), lambda lines: lines[1].update(reminder=reminder))

    assert 1 == take_in(stubs, f"{user}-2", file).stored_counts["memory"]


def test_unknown_records_that_say_so_are_left_out(stubs: Stubs, user: str) -> None:
    """And told; the others are stored."""
    create(stubs, types_pb.Scope(user_id=user), "one")
    dream = {"record": "dream", "optional": True, "id": "d", "of": "sheep"}
    file = changed(export(stubs, user), lambda lines: [lines[0], dream, *lines[1:]])
    last = take_in(stubs, f"{user}-2", file)

    assert [(2, "dream", Reason.IMPORT_ISSUE_REASON_SKIPPED)] == [(i.line, i.kind, i.reason) for i in last.issues]
    assert {"memory": 1} == dict(last.stored_counts)


def test_what_is_written_meanwhile_is_not_in_the_file(stubs: Stubs, user: str) -> None:
    """The file is of the moment in which it was begun, and no reader is kept waiting."""
    scope = types_pb.Scope(user_id=user)
    create_all(stubs, scope, [f"{number} " + "x" * 100_000 for number in range(40)])
    call = stubs.lifecycle.ExportUser(lifecycle_pb.ExportUserRequest(scope=scope), timeout=TIMEOUT)
    first = next(call)
    create(stubs, scope, "later")

    file = first.data + b"".join(part.data for part in call)
    assert 40 == len(records(file, "memory")) == first.total_count
    assert max(len(first.data), 1) <= 262_144


def test_a_broken_import_goes_on_after_a_kill(tmp_path: Path, stubs: Stubs, user: str) -> None:
    """kill -9 in the middle: sent again, everything is there once."""
    scope = types_pb.Scope(user_id=user)
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
