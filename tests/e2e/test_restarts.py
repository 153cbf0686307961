"""What each kind of data keeps over a kill and a restart."""

from __future__ import annotations

from pathlib import Path

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_conflicts import listed, resolve
from tests.api.test_provenance import EN, QUARANTINED, TOOL, waiting
from tests.api.test_reminders import AFTERNOON, MORNING, acknowledge, day, due, moment
from tests.support.rpc import KEYWORD, create, found, write
from tests.support.server_process import FAST, ServerProcess
from tests.support.sessions import append, open_session, place, said, show


def test_acknowledged_reminders_stay_acknowledged(tmp_path: Path) -> None:
    """After a kill, too; and the zone of the settings is that of whoever names none."""
    scope = types_pb.Scope(user_id="u")
    server = ServerProcess(tmp_path / "data")
    server.environment = {**server.environment, "MEMSVC_REMINDERS__TIME_ZONE": "Asia/Shanghai"}
    with server:
        with server.stubs() as stubs:
            memory = create(stubs, scope, "明天提醒我交房租。", event_time=moment("2026-03-04T20:00"))
            assert day(2026, 3, 6) == memory.reminder.date
            assert [(memory.content, AFTERNOON)] == due(stubs, scope, "2026-03-06T08:00")
            acknowledge(stubs, scope, memory, day(2026, 3, 6), slot=MORNING)
        server.kill()
        server.start()
        with server.stubs() as stubs:
            assert [] == due(stubs, scope, "2026-03-06T01:00")
            assert [(memory.content, AFTERNOON)] == due(stubs, scope, "2026-03-06T08:00")


def test_conflicts_stay_and_can_be_resolved(tmp_path: Path) -> None:
    """After kill -9 the conflict is there, and can be resolved."""
    scope = types_pb.Scope(user_id="u")
    with ServerProcess(tmp_path / "data") as server:
        with server.stubs() as stubs:
            create(stubs, scope, "Anna lives in Lisbon.")
            [conflict] = write(stubs, scope, "Anna moved to Porto.").conflicts
        server.kill()
        server.start()
        with server.stubs() as stubs:
            assert [conflict] == listed(stubs, scope)
            resolve(stubs, scope, conflict.id, memory_pb.CONFLICT_RESOLUTION_CONFIRM)
            assert ["Anna moved to Porto."] == found(stubs, scope, "Anna", mode=KEYWORD)


def test_messages_stay_in_their_order(tmp_path: Path) -> None:
    """Every message, in order, with its session."""
    with ServerProcess(tmp_path / "data", FAST) as server:
        here = place("u")
        with server.stubs() as stubs:
            open_session(stubs, here, title="kept")
            for number in range(20):
                append(stubs, here, [f"line {number}"], request_id=f"r{number}")
        server.kill()
        server.start()
        with server.stubs() as stubs:
            assert [f"line {number}" for number in range(20)] == [one.content for one in said(stubs, here)]
            assert ("kept", 20) == (show(stubs, here).title, show(stubs, here).message_count)
            assert 20 == append(stubs, here, ["line 19"], request_id="r19").messages[0].ordinal


def test_withheld_memories_stay_withheld(tmp_path: Path) -> None:
    """What is withheld stays withheld."""
    scope = types_pb.Scope(user_id="u")
    with ServerProcess(tmp_path / "data") as server:
        with server.stubs() as stubs:
            one = write(stubs, scope, types_pb.Memory(content=EN, origin=TOOL, trust=0.1, status=QUARANTINED)).memory
        server.kill()
        server.start()
        with server.stubs() as stubs:
            assert waiting(stubs, scope) == [one]
            assert found(stubs, scope, "vault code") == []
