"""Messages and the memories that were extracted from them: contexts mark messages by the state of these."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_contexts import render
from tests.support.rpc import TIMEOUT, at_rest, create, get
from tests.support.server_process import Stubs
from tests.support.sessions import ASSISTANT, USER
from tests.support.sessions import say as message_of
from tests.support.until import until
from tests.support.user_data import changed as changed_file
from tests.support.user_data import export, take_in

INDEXED = types_pb.WAIT_FOR_INDEXED
EVIDENCE = search_pb.CONTEXT_SECTION_EVIDENCE
HOMES = [
    ("I live in Leeds. Do you know a good plumber?", "I live in York.", "Where do I live?", "outdated"),
    ("我住在苏州。你认识好的水管工吗？", "我住在无锡。", "我住在哪里？", "已过时"),
]
homes = pytest.mark.parametrize(("said", "changed", "query", "mark"), HOMES)


def scope_of(user: str, session: str = "") -> types_pb.Scope:
    """Return a scope of the user."""
    return types_pb.Scope(user_id=user, project_id="web", session_id=session)


def converse(
    stubs: Stubs, user: str, session: str, messages: Sequence[types_pb.ChatMessage], *, flush: bool
) -> list[types_pb.Memory]:
    """Append messages to a session that is closed then; return the memories that were extracted."""
    scope = scope_of(user, session)
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=scope, messages=messages), timeout=TIMEOUT)
    request = session_pb.CloseSessionRequest(scope=scope, flush=flush, wait_for=INDEXED)
    closed = stubs.session.CloseSession(request, timeout=TIMEOUT)
    at_rest(stubs)
    return [one.memory for one in closed.flush.results]


def say(stubs: Stubs, user: str, session: str, *texts: str) -> list[types_pb.Memory]:
    """Have a user say something in a session; return the memories that were extracted."""
    return converse(stubs, user, session, [message_of(text) for text in texts], flush=True)


def append(stubs: Stubs, user: str, session: str, *texts: str) -> None:
    """Have a user say something in a session of which nothing is extracted."""
    converse(stubs, user, session, [message_of(text) for text in texts], flush=False)


def extracted_ids(stubs: Stubs, user: str, session: str) -> list[list[str]]:
    """Return the ids of the memories that were extracted from each message."""
    request = session_pb.ListMessagesRequest(scope=scope_of(user, session))
    return [[*one.extracted_ids] for one in stubs.session.ListMessages(request, timeout=TIMEOUT).messages]


def evidence(stubs: Stubs, user: str, query: str, **fields: Any) -> list[str]:
    """Return the lines of earlier conversations in a context."""
    reply = render(stubs, scope_of(user), query=query, **fields)
    return [reply.markdown[one.start : one.end].strip() for one in reply.citations if one.section == EVIDENCE]


def update(stubs: Stubs, memory: types_pb.Memory, **fields: Any) -> None:
    """Change fields of a memory."""
    stubs.memory.UpdateMemory(
        memory_pb.UpdateMemoryRequest(
            scope=memory.scope,
            memory=types_pb.Memory(id=memory.id, **fields),
            update_mask=FieldMask(paths=[*fields]),
            wait_for=INDEXED,
        ),
        timeout=TIMEOUT,
    )


@pytest.mark.parametrize(
    ("texts", "place", "corrected"),
    [
        (("The weather is fine.", "My sister lives in Leeds.", "Correction: she lives in York, I mixed it up."), 1, 2),
        (("天气真好。", "我儿子今年上四年级。", "更正一下，是五年级"), 1, 2),
    ],
)
def test_a_message_names_what_was_extracted_from_it(
    stubs: Stubs, user: str, texts: tuple[str, ...], place: int, corrected: int
) -> None:
    """The corrected message and its correction name one memory; so does a message that says the same later."""
    [memory] = say(stubs, user, "monday", *texts)

    named = extracted_ids(stubs, user, "monday")

    assert [at for at, ids in enumerate(named) if ids] == [place, corrected]
    assert named[place] == named[corrected] == [memory.id]
    say(stubs, user, "tuesday", memory.content)
    assert extracted_ids(stubs, user, "tuesday") == [[memory.id]]


@homes
def test_a_message_is_marked_once_its_memory_was_changed(
    stubs: Stubs, user: str, said: str, changed: str, query: str, mark: str
) -> None:
    """Which says how it is now; a change of anything but the content marks nothing."""
    [memory] = say(stubs, user, "monday", said)
    update(stubs, memory, importance=4)
    options = search_pb.ContextOptions(locale=locale_of(said))
    assert not [line for line in evidence(stubs, user, query, options=options) if mark in line]

    update(stubs, memory, content=changed)

    [line] = evidence(stubs, user, query, options=options)
    assert mark in line
    assert changed in render(stubs, scope_of(user), query=query).markdown


@pytest.mark.parametrize(
    ("old", "new", "summary", "new_summary"),
    [
        (("I live in Leeds.", "I live in Leeds"), ("I live in York.", "I live in York"), "Home: Leeds", ""),
        (("I live in Leeds.", "Home"), ("I live in Leeds, in a flat.", "Home"), "Home: Leeds", "Home: Leeds"),
        (("我住在苏州。", "我住在苏州"), ("我住在无锡。很近。", "我住在无锡"), "住址：苏州", ""),
        (("我住在苏州。", "住址"), ("我住在苏州，离公园很近。", "住址"), "住址：苏州", "住址：苏州"),
        (("# Deploy\n\nWe use k8s.", "Deploy"), ("# Release\n\nWe use k8s.", "Deploy"), "", ""),
    ],
)
def test_title_and_summary_do_not_say_what_the_content_no_longer_says(
    stubs: Stubs, user: str, old: tuple[str, str], new: tuple[str, str], summary: str, new_summary: str
) -> None:
    """Whether the memory is changed by its id or written again under its key; what is given with it counts."""
    (content, title), (changed, new_title) = old, new
    made = create(stubs, scope_of(user), content, title=title, summary=summary, key="k")

    update(stubs, made, content=changed)

    def current() -> types_pb.Memory:
        return stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=made.scope, id=made.id), timeout=TIMEOUT).memory

    assert (current().title, current().summary) == (new_title, new_summary)
    update(stubs, made, content=content, title=title, summary=summary)
    assert (current().title, current().summary) == (title, summary)
    create(stubs, scope_of(user), changed, key="k")
    assert (current().title, current().summary) == (new_title, new_summary)


@homes
def test_a_message_whose_memory_is_purged_is_left_out(
    stubs: Stubs, user: str, said: str, changed: str, query: str, mark: str
) -> None:
    """Of other users it stays, and the transcript keeps it."""
    del changed, mark
    say(stubs, f"{user}-2", "monday", said)
    [memory] = say(stubs, user, "monday", said)

    purge = memory_pb.DeleteMemoryRequest(scope=memory.scope, id=memory.id, purge=True, wait_for=INDEXED)
    stubs.memory.DeleteMemory(purge, timeout=TIMEOUT)

    assert said[:8] not in render(stubs, scope_of(user), query=query).markdown
    assert said[:8] in render(stubs, scope_of(f"{user}-2"), query=query).markdown
    assert extracted_ids(stubs, user, "monday") == [[memory.id]]


@pytest.mark.parametrize(
    ("texts", "query", "wrong"),
    [
        (
            ("I've got a dentist appointment on Tuesday at 10:00. Can you find the address?",
             "no wait, I said Tuesday but it's Thursday. Same time."),
            "When is the dentist?", "Tuesday at 10:00",
        ),
        (
            ("下周三晚上七点开家长会。能帮我查一下学校地址吗？", "打错了，是下周四"),
            "家长会是什么时候？", "下周三晚上",
        ),
    ],
)  # fmt: skip
def test_a_corrected_message_does_not_pass_for_the_truth(
    stubs: Stubs, user: str, texts: tuple[str, ...], query: str, wrong: str
) -> None:
    """A later context marks what was corrected, or leaves it out."""
    [memory] = say(stubs, user, "monday", *texts)

    reply = render(stubs, scope_of(user), query=query)

    assert memory.content in reply.markdown
    assert all("(outdated" in line for line in reply.markdown.splitlines() if wrong in line)


@homes
def test_a_message_of_a_superseded_memory_is_marked(
    stubs: Stubs, user: str, said: str, changed: str, query: str, mark: str
) -> None:
    """With the memory that says how it is now, even one that supersedes the first that superseded it."""
    [memory] = say(stubs, user, "monday", said)
    ids = [memory.id]
    for content in (f"{changed} (?)", changed):
        request = memory_pb.SupersedeMemoryRequest(
            scope=memory.scope, id=ids[-1], memory=types_pb.Memory(content=content), wait_for=INDEXED
        )
        ids.append(stubs.memory.SupersedeMemory(request, timeout=TIMEOUT).memory.id)

    reply = render(stubs, scope_of(user), query=query, options=search_pb.ContextOptions(locale=locale_of(said)))

    [message] = [one for one in reply.citations if one.section == EVIDENCE]
    assert message.currency == types_pb.CURRENCY_OUTDATED
    assert message.newer_memory_id == ids[-1]
    assert mark in reply.markdown


@homes
def test_a_message_of_a_withheld_memory_is_left_out(
    stubs: Stubs, user: str, said: str, changed: str, query: str, mark: str
) -> None:
    """While it is quarantined."""
    del changed, mark
    [memory] = say(stubs, user, "monday", said)
    update(stubs, memory, status=types_pb.MEMORY_STATUS_QUARANTINED)

    assert not evidence(stubs, user, query)
    approve = memory_pb.ReviewMemoryRequest(scope=memory.scope, id=memory.id, verdict=memory_pb.REVIEW_VERDICT_APPROVE)
    stubs.memory.ReviewMemory(approve, timeout=TIMEOUT)
    assert evidence(stubs, user, query)


@pytest.mark.parametrize("resolution", ["REJECT", "KEEP_BOTH", "CONFIRM"])
@pytest.mark.parametrize(("said", "changed", "query"), [home[:3] for home in HOMES])
def test_a_resolved_conflict_holds_for_the_messages(
    stubs: Stubs, user: str, said: str, changed: str, query: str, resolution: str
) -> None:
    """REJECT: what was rejected is left out. KEEP_BOTH: nothing is marked. CONFIRM: the older one is marked."""
    [older] = say(stubs, user, "monday", said)
    newer_said = changed + said[said.index(".") + 1 :] if "." in said else changed + said.partition("。")[2]
    [newer] = say(stubs, user, "tuesday", newer_said)
    listed = memory_pb.ListConflictsRequest(scope=scope_of(user))
    [conflict] = stubs.memory.ListConflicts(listed, timeout=TIMEOUT).conflicts
    request = memory_pb.ResolveConflictRequest(
        scope=scope_of(user), id=conflict.id,
        resolution=memory_pb.ConflictResolution.Value(f"CONFLICT_RESOLUTION_{resolution}"),
    )  # fmt: skip
    stubs.memory.ResolveConflict(request, timeout=TIMEOUT)

    reply = render(stubs, scope_of(user), query=query)

    marks = {said: "", newer_said: ""}
    for one in reply.citations:
        if one.section == EVIDENCE:
            line = reply.markdown[one.start : one.end]
            marks |= {text: types_pb.Currency.Name(one.currency) for text in marks if text in line}
    assert (older.id, newer.id) == (conflict.older_memory_id, conflict.newer_memory_id)
    assert [*marks.values()] == {
        "REJECT": ["CURRENCY_CURRENT", ""],
        "KEEP_BOTH": ["CURRENCY_CURRENT", "CURRENCY_CURRENT"],
        "CONFIRM": ["CURRENCY_OUTDATED", "CURRENCY_CURRENT"],
    }[resolution]


def locale_of(text: str) -> str:
    """Return the locale of a context about a text."""
    return "en" if text.isascii() else "zh"


@homes
def test_an_export_keeps_what_was_extracted(
    stubs: Stubs, user: str, said: str, changed: str, query: str, mark: str
) -> None:
    """Another user who imports it has ids of their own, and their contexts mark and leave out the same messages."""
    [first] = say(stubs, user, "monday", said)
    say(stubs, user, "tuesday", said)
    assert extracted_ids(stubs, user, "tuesday") == [[first.id]]
    update(stubs, first, content=changed)
    heir = f"{user}-heir"

    take_in(stubs, heir, export(stubs, user))

    [[heirs]] = extracted_ids(stubs, heir, "monday")
    assert heirs != first.id
    at_rest(stubs)
    options = search_pb.ContextOptions(locale=locale_of(said))
    [line] = evidence(stubs, heir, query, options=options)
    assert mark in line
    scope = scope_of(heir)
    purge = memory_pb.DeleteMemoryRequest(scope=scope, id=heirs, purge=True, wait_for=INDEXED)
    stubs.memory.DeleteMemory(purge, timeout=TIMEOUT)
    assert not evidence(stubs, heir, query)
    assert evidence(stubs, user, query)


def test_a_file_with_wrong_extractions_is_refused(stubs: Stubs, user: str) -> None:
    """The issue names the field."""
    say(stubs, user, "monday", "I live in Leeds.")
    file = export(stubs, user)

    def wrong(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            for one in line.get("message", {}).get("extracted", ()):
                one["content_hash"] = "not a hash"

    with pytest.raises(grpc.RpcError, match=r"message\.extracted\[0\]\.content_hash"):
        take_in(stubs, f"{user}-heir", changed_file(file, wrong))


@pytest.mark.parametrize(
    ("said", "between", "now", "query"),
    [
        ("I live in Leeds.", "I live in York.", "I live in Porto.", "Where do I live?"),
        ("我住在苏州。", "我住在无锡。", "我住在上海。", "我住在哪里？"),
    ],
)
@pytest.mark.parametrize("is_extracted", [True, False])
def test_what_an_update_says_is_said_now(
    stubs: Stubs, user: str, said: str, between: str, now: str, query: str, *, is_extracted: bool
) -> None:
    """What others said between the first statement and its change does not outdate the change."""
    if is_extracted:
        [memory] = say(stubs, user, "monday", said)
    else:
        memory = create(stubs, scope_of(user), said)
    append(stubs, user, "tuesday", between)
    update(stubs, memory, content=now)

    reply = render(stubs, scope_of(user), query=query)

    marks = {one.memory_id: one.currency for one in reply.citations}
    assert marks.pop(memory.id) == types_pb.CURRENCY_CURRENT
    lines = [line for line in reply.markdown.splitlines() if between.rstrip(".。") in line]
    assert all("(outdated" in line for line in lines)
    changed = stubs.memory.GetMemory(
        memory_pb.GetMemoryRequest(scope=memory.scope, id=memory.id), timeout=TIMEOUT
    ).memory
    assert changed.event_time == changed.update_time


def test_an_update_keeps_the_event_time_that_was_given(stubs: Stubs, user: str) -> None:
    """With the memory or with the update; a change of anything but the content changes no time."""
    first, second = (Timestamp(seconds=seconds) for seconds in (1_700_000_000, 1_710_000_000))
    made = create(stubs, scope_of(user), "The car broke down.", event_time=first)
    other = create(stubs, scope_of(user), "The bike broke down.")

    def event_time(memory: types_pb.Memory) -> Timestamp:
        request = memory_pb.GetMemoryRequest(scope=memory.scope, id=memory.id)
        return stubs.memory.GetMemory(request, timeout=TIMEOUT).memory.event_time

    update(stubs, made, content="The car broke down again.")
    update(stubs, other, importance=5)

    assert (event_time(made), event_time(other)) == (first, Timestamp())
    update(stubs, other, content="The bike broke down again.", event_time=second)
    assert event_time(other) == second


ECHOES = [
    (
        "I take sertraline every morning, keep it between us.", "Understood, I'll be discreet about the sertraline.",
        "Which pills does the user take, sertraline?", "sertraline",
    ),
    ("我下周三要去见离婚律师。", "明白，离婚律师的事我会保密。", "离婚的事怎么样了？", "离婚"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "reply", "query", "word"), ECHOES)
def test_the_reply_to_a_deleted_statement_is_left_out_too(
    stubs: Stubs, user: str, said: str, reply: str, query: str, word: str
) -> None:
    """And a reply in another round, or one that shares no word with it, stays."""
    other = {"en": "The otters sleep.", "zh": "海獭在睡觉。"}[locale_of(said)]
    said_in_turn = (said, reply, "What do otters do at night?", other)
    messages = [message_of(text, (USER, ASSISTANT)[place % 2]) for place, text in enumerate(said_in_turn)]
    [memory] = converse(stubs, user, "monday", messages, flush=True)
    assert extracted_ids(stubs, user, "monday") == [[memory.id], [memory.id], [], []]

    delete = memory_pb.DeleteMemoryRequest(scope=memory.scope, id=memory.id, purge=True, wait_for=INDEXED)
    stubs.memory.DeleteMemory(delete, timeout=TIMEOUT)

    assert word not in "".join(evidence(stubs, user, query))
    assert other in "".join(evidence(stubs, user, other))


@pytest.mark.parametrize(
    ("request_to_forget", "query"),
    [("Please forget what I told you about Bea.", "Bea"), ("离婚那事你忘了吧，当我没说。", "离婚的事怎么样了？")],
)
def test_a_request_to_forget_is_no_evidence(stubs: Stubs, user: str, request_to_forget: str, query: str) -> None:
    """It names what is to be forgotten; with something else in it, it is one."""
    append(stubs, user, "monday", request_to_forget)
    assert not evidence(stubs, user, query)

    more = f"{request_to_forget} Bea's otter 离婚 sleeps in the shed."
    append(stubs, user, "tuesday", more)

    assert more in "".join(evidence(stubs, user, query))


@homes
def test_a_successor_does_not_have_the_title_of_what_it_supersedes(
    stubs: Stubs, user: str, said: str, changed: str, query: str, mark: str
) -> None:
    """If that was made of the content; a title that was given is inherited."""
    del query, mark
    [captured] = say(stubs, user, "monday", said)
    titled = create(stubs, scope_of(user), f"{said} (2)", title="Home 住址")

    def successor(old: types_pb.Memory, content: str) -> types_pb.Memory:
        request = memory_pb.SupersedeMemoryRequest(scope=old.scope, id=old.id, memory=types_pb.Memory(content=content))
        return stubs.memory.SupersedeMemory(request, timeout=TIMEOUT).memory

    assert captured.title
    assert successor(captured, changed).title == changed.rstrip(".。")
    assert successor(titled, f"{changed} (2)").title == "Home 住址"


@pytest.mark.parametrize(
    ("old", "new"), [("The cat is named Tom.", "The cat is named Max."), ("小猫叫汤姆。", "小猫叫麦克斯。")]
)
def test_a_title_with_its_end_mark_follows_the_content(stubs: Stubs, user: str, old: str, new: str) -> None:
    """On an update, on a write by the key and in a successor."""
    scope = scope_of(user)
    before = create(stubs, scope, f"{old} One.", title=old)
    update(stubs, before, content=f"{new} One.")
    updated = get(stubs, scope, before.id)
    create(stubs, scope, f"{old} Two.", title=old, key="two")
    keyed = create(stubs, scope, f"{new} Two.", key="two")
    content = types_pb.Memory(content=f"{new} Three.")
    request = memory_pb.SupersedeMemoryRequest(
        scope=scope, id=create(stubs, scope, f"{old} Three.", title=old).id, memory=content
    )
    superseding = stubs.memory.SupersedeMemory(request, timeout=TIMEOUT).memory

    assert [one.title for one in (updated, keyed, superseding)] == [new] * 3


@pytest.mark.parametrize(
    ("said", "changed", "beside", "query"),
    [
        (
            "We're getting married on 12 June at Arnos Vale, 80 guests.",
            "The wedding is on 19 June at Leigh Court, 80 guests.",
            "The wedding guest list has crept up to 110 guests.",
            "When and where is the wedding?",
        ),
        ("我在苏州工作，住在园区。", "我在无锡工作，住在滨湖。", "我现在在上海工作。", "我在哪里工作？"),
    ],
)
def test_a_message_names_its_own_memory_before_others(
    stubs: Stubs, user: str, said: str, changed: str, beside: str, query: str
) -> None:
    """Even if another one contradicts it by its words."""
    [memory] = say(stubs, user, "monday", said)
    append(stubs, user, "tuesday", beside)
    update(stubs, memory, content=changed)

    reply = render(stubs, scope_of(user), query=query)

    found = {reply.markdown[one.start : one.end]: one for one in reply.citations if one.section == EVIDENCE}
    [message] = [one for line, one in found.items() if said[:8] in line]
    assert (message.currency, message.newer_memory_id) == (types_pb.CURRENCY_OUTDATED, memory.id)


@pytest.mark.parametrize(("said", "query"), [(said, query) for said, _, query, _ in HOMES])
def test_a_message_of_an_expired_memory_is_left_out(stubs: Stubs, user: str, said: str, query: str) -> None:
    """The expiry that a caller gives ends what may be shown; that of a short-term memory is a default."""
    [memory] = say(stubs, user, "monday", said)
    update(stubs, memory, layer=types_pb.MEMORY_LAYER_LONG_TERM)
    assert evidence(stubs, user, query)
    soon = Timestamp()
    soon.FromDatetime(datetime.now(UTC) + timedelta(milliseconds=300))

    update(stubs, memory, expire_time=soon)

    until(lambda: not evidence(stubs, user, query))


@pytest.mark.parametrize(("said", "query", "mark"), [(said, query, mark) for said, _, query, mark in HOMES])
def test_a_message_of_a_memory_that_is_valid_no_more_is_marked(
    stubs: Stubs, user: str, said: str, query: str, mark: str
) -> None:
    """No memory says how it is now."""
    [memory] = say(stubs, user, "monday", said)
    past = Timestamp()
    past.FromDatetime(datetime.now(UTC) - timedelta(days=1))

    update(stubs, memory, valid_to=past)

    options = search_pb.ContextOptions(locale=locale_of(said))
    [line] = evidence(stubs, user, query, options=options)
    assert mark in line
