"""Order of two memories that contradict each other: what was said later is newer, whichever was written first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import KEYWORD, TIMEOUT, create, found, get, list_all, write
from tests.support.server_process import Stubs
from tests.support.sessions import open_session, place

ACTIVE, CONFLICTED = types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_CONFLICTED
SUPERSEDED = types_pb.MEMORY_STATUS_SUPERSEDED
OPEN, CONFIRMED = types_pb.CONFLICT_STATE_OPEN, types_pb.CONFLICT_STATE_CONFIRMED
KEPT_BOTH = types_pb.CONFLICT_STATE_KEPT_BOTH
OCTOBER, NOVEMBER = datetime(2025, 10, 1, 12, tzinfo=UTC), datetime(2025, 11, 1, 12, tzinfo=UTC)
SAID = {
    "en": ("I live in Berlin.", "I moved to Madrid.", "live moved"),
    "zh": ("我住在柏林。", "我搬到了马德里。", "马德里 柏林"),
}
QUESTIONS = {
    "en": "You said you live in Berlin (1 October) and later in Madrid (1 November). Which is right now?",
    "zh": "你说过住在柏林（10月1日），后来又说住在马德里（11月1日）。现在哪个是对的？",
}
both = pytest.mark.parametrize("language", SAID)


def dated(content: str, moment: datetime | None, **fields: Any) -> types_pb.Memory:
    """Return a memory that was said at a moment."""
    memory = types_pb.Memory(content=content, **fields)
    if moment is not None:
        memory.event_time.FromDatetime(moment)
    return memory


def late_pair(
    stubs: Stubs, scope: types_pb.Scope, language: str, newer_time: datetime | None = NOVEMBER, **request: Any
) -> tuple[types_pb.Memory, memory_pb.CreateMemoryResponse]:
    """Write what was said later, then what was said before it."""
    before, after, _ = SAID[language]
    newer = write(stubs, scope, dated(after, newer_time)).memory
    return newer, write(stubs, scope, dated(before, OCTOBER), **request)


@both
@pytest.mark.parametrize("newer_time", [NOVEMBER, None], ids=["dated", "undated"])
def test_an_older_statement_that_arrives_late_is_the_older_side(
    stubs: Stubs, scope: types_pb.Scope, language: str, newer_time: datetime | None
) -> None:
    """It is CONFLICTED itself, in the response too; the current one is found as before."""
    newer, reply = late_pair(stubs, scope, language, newer_time)

    [conflict] = reply.conflicts
    assert (reply.memory.id, newer.id) == (conflict.older_memory_id, conflict.newer_memory_id)
    assert (OPEN, CONFLICTED, ACTIVE) == (
        conflict.state, conflict.older_memory.status, conflict.newer_memory.status,
    )  # fmt: skip
    assert CONFLICTED == reply.memory.status == get(stubs, scope, reply.memory.id).status
    assert ACTIVE == get(stubs, scope, newer.id).status
    assert [newer.content] == found(stubs, scope, SAID[language][2], mode=KEYWORD)
    if newer_time is not None:
        assert QUESTIONS[language] == conflict.question


@both
@pytest.mark.parametrize(
    ("resolution", "statuses"),
    [
        (memory_pb.CONFLICT_RESOLUTION_CONFIRM, (SUPERSEDED, ACTIVE)),
        (memory_pb.CONFLICT_RESOLUTION_REJECT, (ACTIVE, types_pb.MEMORY_STATUS_ARCHIVED)),
        (memory_pb.CONFLICT_RESOLUTION_KEEP_BOTH, (ACTIVE, ACTIVE)),
    ],
)
def test_it_is_resolved_as_any_conflict(
    stubs: Stubs, scope: types_pb.Scope, language: str, resolution: int, statuses: tuple[int, int]
) -> None:
    """CONFIRM keeps what was said later, REJECT what was said before."""
    newer, reply = late_pair(stubs, scope, language)
    asked = memory_pb.ResolveConflictRequest(scope=scope, id=reply.conflicts[0].id, resolution=resolution)
    stubs.memory.ResolveConflict(asked, timeout=TIMEOUT)

    assert statuses == (get(stubs, scope, reply.memory.id).status, get(stubs, scope, newer.id).status)


@both
def test_the_last_said_supersedes_what_is_written_after_it(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """With SUPERSEDE the written memory is superseded at once, and was valid until the other was said."""
    newer, reply = late_pair(stubs, scope, language, conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE)

    assert (SUPERSEDED, newer.id) == (reply.memory.status, reply.memory.superseded_by_id)
    assert [CONFIRMED] == [one.state for one in reply.conflicts]
    assert NOVEMBER == reply.memory.valid_to.ToDatetime(UTC)
    current = get(stubs, scope, newer.id)
    assert (ACTIVE, reply.memory.id) == (current.status, current.supersedes_id)
    assert NOVEMBER == current.valid_from.ToDatetime(UTC)


def test_what_is_superseded_late_was_valid_until_the_other_was_stored(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Not until now: an undated statement holds from the moment at which it was stored."""
    newer, reply = late_pair(stubs, scope, "en", None, conflict_policy=types_pb.CONFLICT_POLICY_SUPERSEDE)

    assert newer.create_time == reply.memory.valid_to == get(stubs, scope, newer.id).valid_from


@both
def test_both_are_kept_in_the_order_in_which_they_were_said(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """KEEP_BOTH records the sides and changes neither."""
    newer, reply = late_pair(stubs, scope, language, conflict_policy=types_pb.CONFLICT_POLICY_KEEP_BOTH)

    [conflict] = reply.conflicts
    assert (reply.memory.id, newer.id, KEPT_BOTH) == (
        conflict.older_memory_id, conflict.newer_memory_id, conflict.state,
    )  # fmt: skip
    assert ACTIVE == reply.memory.status == get(stubs, scope, newer.id).status


@both
def test_what_states_more_stays_in_use(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """A late text of several statements is ACTIVE, and its conflict is open."""
    before, after, _ = SAID[language]
    more = {"en": "I work as a nurse.", "zh": "我喜欢爬山。"}[language]
    newer = create(stubs, scope, after)
    reply = write(stubs, scope, dated(f"{before} {more}", OCTOBER))

    assert [(reply.memory.id, newer.id, OPEN)] == [
        (one.older_memory_id, one.newer_memory_id, one.state) for one in reply.conflicts
    ]
    assert ACTIVE == reply.memory.status == get(stubs, scope, newer.id).status


@both
@pytest.mark.parametrize("moment", [OCTOBER, None], ids=["dated", "undated"])
def test_what_is_written_last_is_newer_of_what_was_said_at_once(
    stubs: Stubs, scope: types_pb.Scope, language: str, moment: datetime | None
) -> None:
    """Equal times order nothing."""
    before, after, _ = SAID[language]
    older = write(stubs, scope, dated(before, moment)).memory
    reply = write(stubs, scope, dated(after, moment))

    assert [(older.id, reply.memory.id)] == [(one.older_memory_id, one.newer_memory_id) for one in reply.conflicts]
    assert (CONFLICTED, ACTIVE) == (get(stubs, scope, older.id).status, reply.memory.status)


@pytest.mark.parametrize("reading", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S"], ids=["day", "second"])
def test_an_imprecise_time_is_not_before_what_is_stored_within_it(
    stubs: Stubs, scope: types_pb.Scope, reading: str
) -> None:
    """A day without a time, or a second, does not make the written memory older than one that was stored just before."""
    older = create(stubs, scope, "I live in Berlin.")
    moment = datetime.strptime(older.create_time.ToDatetime(UTC).strftime(reading), reading).replace(tzinfo=UTC)
    reply = write(stubs, scope, dated("I moved to Madrid.", moment))

    assert [(older.id, reply.memory.id)] == [(one.older_memory_id, one.newer_memory_id) for one in reply.conflicts]


def test_a_day_ahead_is_no_time_of_saying(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The event_time of an event that is to come does not make its statement newer than what is said after it."""
    older = write(stubs, scope, dated("The launch is on 9 March 2090.", datetime(2090, 3, 9, tzinfo=UTC))).memory
    reply = write(stubs, scope, dated("The launch is on 3 March 2090.", datetime(2090, 3, 3, tzinfo=UTC)))

    assert [(older.id, reply.memory.id)] == [(one.older_memory_id, one.newer_memory_id) for one in reply.conflicts]


@both
def test_a_batch_is_ordered_by_time(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """An item that was said before an earlier item is the older side."""
    before, after, _ = SAID[language]
    request = memory_pb.BatchCreateMemoriesRequest(
        scope=scope,
        memories=[
            memory_pb.BatchMemory(memory=dated(after, NOVEMBER)),
            memory_pb.BatchMemory(memory=dated(before, OCTOBER)),
        ],
    )
    first, second = stubs.memory.BatchCreateMemories(request, timeout=TIMEOUT).results

    assert [(second.memory.id, first.memory.id)] == [
        (one.older_memory_id, one.newer_memory_id) for one in second.conflicts
    ]
    assert (ACTIVE, CONFLICTED) == (first.memory.status, second.memory.status)


def test_a_changed_memory_is_said_now_unless_it_is_dated(stubs: Stubs, scope: types_pb.Scope) -> None:
    """An update of an older memory contradicts what was created since; one of a dated memory keeps its date."""
    undated = create(stubs, scope, "I like tea.")
    dated_one = write(stubs, scope, dated("I like milk.", OCTOBER)).memory
    home = create(stubs, scope, "I live in Berlin.")

    def update(memory: types_pb.Memory, content: str) -> memory_pb.UpdateMemoryResponse:
        request = memory_pb.UpdateMemoryRequest(scope=scope, memory=types_pb.Memory(id=memory.id, content=content))
        request.update_mask.paths.append("content")
        return stubs.memory.UpdateMemory(request, timeout=TIMEOUT)

    late = update(dated_one, "I live in Rome.")
    assert [(dated_one.id, home.id)] == [(one.older_memory_id, one.newer_memory_id) for one in late.conflicts]
    reply = update(undated, "I live in Madrid.")
    assert [(home.id, undated.id)] == [(one.older_memory_id, one.newer_memory_id) for one in reply.conflicts]


@both
def test_a_session_that_is_closed_later_outdates_nothing_said_after_it(stubs: Stubs, user: str, language: str) -> None:
    """What an old chat said is extracted as the older side."""
    before, after, _ = SAID[language]
    for session, said, moment in (("november", after, NOVEMBER), ("october", before, OCTOBER)):
        here = place(user, session, "p")
        open_session(stubs, here)
        message = types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=said)
        message.event_time.FromDatetime(moment)
        stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=here, messages=[message]), timeout=TIMEOUT)
        reply = stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=here), timeout=TIMEOUT)

    [result] = reply.flush.results
    assert [(before, after)] == [(one.older_memory.content, one.newer_memory.content) for one in result.conflicts]
    elsewhere = types_pb.Scope(user_id=user, project_id="p")
    statuses = {one.content: one.status for one in list_all(stubs, elsewhere)}
    assert ACTIVE == statuses[after]
    assert before not in statuses


MOVED = {
    "en": ("I have a dentist appointment on 20 June 2090.", "The dentist moved to 27 June 2090."),
    "zh": ("我预约了2090年6月20日看牙医。", "牙医改到2090年6月27号了"),
    "mixed": ("I have a dentist appointment on 20 June 2090.", "牙医改到2090年6月27号了"),
}


@pytest.mark.parametrize("language", MOVED)
def test_an_event_that_was_moved_before_its_statement_arrives_stays_moved(
    stubs: Stubs, scope: types_pb.Scope, language: str
) -> None:
    """The late statement of the day is the older side of the one that moved it."""
    before, after = MOVED[language]
    moved = write(stubs, scope, dated(after, NOVEMBER)).memory
    reply = write(stubs, scope, dated(before, OCTOBER))

    assert moved.HasField("reminder")
    assert [(reply.memory.id, moved.id)] == [(one.older_memory_id, one.newer_memory_id) for one in reply.conflicts]
    assert (CONFLICTED, ACTIVE) == (reply.memory.status, get(stubs, scope, moved.id).status)


@pytest.mark.parametrize("language", MOVED)
def test_a_late_move_changes_no_later_day(stubs: Stubs, scope: types_pb.Scope, language: str) -> None:
    """A statement that an event was moved does not move what was said of the event after it."""
    before, after = MOVED[language]
    day = write(stubs, scope, dated(before, NOVEMBER)).memory
    reply = write(stubs, scope, dated(after, OCTOBER))

    assert [] == list(reply.conflicts)
    assert get(stubs, scope, day.id).reminder == day.reminder
