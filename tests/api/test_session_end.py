"""What is left of a session that ends: its memories, once, wherever it ends, and what a failure leaves."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.http_stub import failed
from tests.support.openai_chat_stub import said as openai_said
from tests.support.openai_chat_stub import serving
from tests.support.rpc import TIMEOUT, create, found, list_all, refused
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import ARCHIVED, ASSISTANT, CLOSED, append, open_session, place, say, show, trim

ARCHIVE_OTHERS = session_pb.SESSION_ON_OPEN_ARCHIVE_OTHERS
FACTS = {
    "en": ("I am allergic to peanuts.", "We decided to use Redis for the cache.", "What a day!"),
    "zh": ("我对花生过敏。", "我们决定用 Redis 做缓存。", "今天好累啊！"),
}
LATER = {"en": "I moved to Porto last week.", "zh": "我上周搬到了上海。"}
both = pytest.mark.parametrize("language", FACTS)


def close(stubs: Stubs, here: types_pb.Scope, **fields: Any) -> session_pb.CloseSessionResponse:
    """Close a session."""
    return stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=here, **fields), timeout=TIMEOUT)


def create_session(stubs: Stubs, here: types_pb.Scope, **fields: Any) -> session_pb.CreateSessionResponse:
    """Open a session and return the whole reply."""
    return stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=here, **fields), timeout=TIMEOUT)


def remembered(flush: session_pb.SessionFlush) -> list[str]:
    """Return the contents of what was remembered."""
    return [result.memory.content for result in flush.results]


def kept(stubs: Stubs, here: types_pb.Scope) -> list[str]:
    """Return what another session of the same project finds, apart from summaries."""
    elsewhere = types_pb.Scope(user_id=here.user_id, project_id=here.project_id, session_id="another")
    return sorted(one.content for one in list_all(stubs, elsewhere) if one.kind != types_pb.MEMORY_KIND_SUMMARY)


CORRECTIONS = [
    ("I've got a dentist appointment on Tuesday at 10:00.", "no wait, I said Tuesday but it's Thursday. Same time.",
     "I've got a dentist appointment on Thursday at 10:00."),
    ("My sister lives in Leeds.", "Correction: she lives in York, I mixed it up.", "My sister lives in York."),
    ("下周三晚上七点开家长会。", "打错了，是下周四", "下周四晚上七点开家长会。"),
    ("我儿子今年上四年级。", "更正一下，是五年级", "我儿子今年上五年级。"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "correction", "meant"), CORRECTIONS)
def test_a_corrected_statement_is_remembered_as_it_was_meant(
    stubs: Stubs, user: str, said: str, correction: str, meant: str
) -> None:
    """Neither what was said first, nor the correction alone; its reminder is that of the right day."""
    here = place(user, project="p")
    open_session(stubs, here)
    append(stubs, here, (said, correction))

    flush = close(stubs, here, wait_for=types_pb.WAIT_FOR_INDEXED).flush

    assert [meant] == remembered(flush)
    [result] = flush.results
    alone = create(stubs, place(f"{user}-2"), meant)
    assert result.memory.reminder == alone.reminder


@both
def test_closing_a_session_remembers_what_was_said(stubs: Stubs, user: str, language: str) -> None:
    """The reply lists it; it is found by the next session, belongs to the project, and is stored once."""
    here = place(user, project="p")
    open_session(stubs, here)
    append(stubs, here, FACTS[language])
    reply = close(stubs, here, wait_for=types_pb.WAIT_FOR_INDEXED)

    fact, decision = FACTS[language][:2]
    assert (CLOSED, 3, 3) == (reply.session.state, reply.session.flushed_ordinal, reply.session.message_count)
    assert ("s", [fact, decision]) == (reply.flush.session_id, remembered(reply.flush))
    assert (1, False, "") == (reply.flush.ignored_count, reply.flush.incomplete, reply.flush.notice)
    assert memory_pb.CAPTURE_DECIDER_RULES == reply.flush.decider
    assert {types_pb.WRITE_OUTCOME_CREATED} == {result.outcome for result in reply.flush.results}
    assert {"", "p"} >= {result.memory.scope.project_id for result in reply.flush.results}
    assert {""} == {result.memory.scope.session_id for result in reply.flush.results}
    assert sorted((fact, decision)) == kept(stubs, here)
    assert fact in found(stubs, place(user, "next", "p"), fact)
    again = close(stubs, here)
    assert ([], False) == (remembered(again.flush), again.flush.incomplete)
    assert reply.session == again.session
    assert 2 == len(kept(stubs, here))


@both
def test_a_repeated_request_gets_the_same_reply(stubs: Stubs, user: str, language: str) -> None:
    """With the memories as they were; the id with another option is an error."""
    here = place(user)
    open_session(stubs, here)
    append(stubs, here, FACTS[language])
    reply = close(stubs, here, request_id="r")

    again = close(stubs, here, request_id="r")
    assert (reply.session, list(reply.flush.results)) == (again.session, list(again.flush.results))
    assert reply.flush == again.flush
    refusal = refused(
        stubs.session.CloseSession, session_pb.CloseSessionRequest(scope=here, request_id="r", flush=False)
    )
    assert "REQUEST_ID_REUSED" == refusal.reason


@both
def test_archiving_for_another_session_remembers_too(stubs: Stubs, user: str, language: str) -> None:
    """By opening and by reopening, for each archived session; a session of another project stays as it is."""
    first, second, third = (place(user, name, "p") for name in ("1", "2", "3"))
    elsewhere = place(user, "1", "q")
    for here, text in ((first, FACTS[language][0]), (second, FACTS[language][1]), (elsewhere, LATER[language])):
        open_session(stubs, here)
        append(stubs, here, [text])
    reply = create_session(stubs, third, on_open=ARCHIVE_OTHERS, request_id="r")

    assert [("1", [FACTS[language][0]]), ("2", [FACTS[language][1]])] == [
        (one.session_id, remembered(one)) for one in reply.archived
    ]
    assert reply == create_session(stubs, third, on_open=ARCHIVE_OTHERS, request_id="r")
    assert (ARCHIVED, 1) == (show(stubs, first).state, show(stubs, first).flushed_ordinal)
    assert 0 == show(stubs, elsewhere).flushed_ordinal
    append(stubs, third, [LATER[language]])
    reopening = session_pb.ReopenSessionRequest(scope=first, on_open=ARCHIVE_OTHERS)
    reopened = stubs.session.ReopenSession(reopening, timeout=TIMEOUT)
    assert [("3", [LATER[language]])] == [(one.session_id, remembered(one)) for one in reopened.archived]
    append(stubs, first, [FACTS[language][2]])
    assert [] == remembered(close(stubs, first).flush)


@both
def test_the_caller_may_say_otherwise(stubs: Stubs, user: str, language: str) -> None:
    """Nothing is remembered then, and the reply says that messages are left; closing again takes them up."""
    here, other = place(user), place(user, "2")
    open_session(stubs, here)
    append(stubs, here, FACTS[language])
    reply = create_session(stubs, other, on_open=ARCHIVE_OTHERS, flush=False)

    [ended] = reply.archived
    assert ([], True, "") == (remembered(ended), ended.incomplete, ended.notice)
    assert memory_pb.CAPTURE_DECIDER_UNSPECIFIED == ended.decider
    skipped = close(stubs, here, flush=False)
    assert (CLOSED, 0, True) == (skipped.session.state, skipped.session.flushed_ordinal, skipped.flush.incomplete)
    assert [] == kept(stubs, here)
    assert list(FACTS[language][:2]) == remembered(close(stubs, here).flush)
    assert 2 == len(kept(stubs, here))
    empty = close(stubs, other, flush=False)
    assert not empty.flush.incomplete


def test_a_setting_turns_it_off(tmp_path: Path) -> None:
    """A request may still ask for it."""
    with served(tmp_path / "data", sessions={"flush_on_end": False}) as stubs:
        here = place("u")
        open_session(stubs, here)
        append(stubs, here, FACTS["en"])

        reply = close(stubs, here)
        assert ([], True) == (remembered(reply.flush), reply.flush.incomplete)
        assert list(FACTS["en"][:2]) == remembered(close(stubs, here, flush=True).flush)


@both
def test_what_was_trimmed_or_flushed_before_counts_once(tmp_path: Path, language: str) -> None:
    """Trimmed messages that nothing was extracted from are read as well, others not again."""
    fact, decision, idle = FACTS[language]
    with served(tmp_path / "data", sessions={"flush_tokens": 0}) as stubs:
        here = place("u")
        open_session(stubs, here)
        append(stubs, here, [say(text, token_count=50) for text in (fact, decision, idle, idle, idle)])
        assert 2 == trim(stubs, here, target_tokens=0).archived_message_count
        assert [] == kept(stubs, here)

        assert [fact, decision] == remembered(close(stubs, here).flush)
    with served(tmp_path / "other") as stubs:
        open_session(stubs, here)
        append(stubs, here, [say(text, token_count=50) for text in (fact, decision, idle, idle, idle)])
        trim(stubs, here, target_tokens=0)
        assert 2 == len(kept(stubs, here))
        append(stubs, here, [LATER[language]])

        assert [LATER[language]] == remembered(close(stubs, here).flush)
        assert 3 == len(kept(stubs, here))


@both
def test_a_caller_that_flushes_by_hand_finds_nothing_twice(stubs: Stubs, user: str, language: str) -> None:
    """What FlushMessages stored is known, or the same memory."""
    here = place(user, project="p")
    open_session(stubs, here)
    append(stubs, here, FACTS[language])
    messages = [say(text) for text in FACTS[language]]
    stubs.memory.FlushMessages(memory_pb.FlushMessagesRequest(scope=here, messages=messages), timeout=TIMEOUT)

    reply = close(stubs, here)
    assert {types_pb.WRITE_OUTCOME_DUPLICATE} >= {result.outcome for result in reply.flush.results}
    assert 2 == len(kept(stubs, here))


def test_a_long_session_is_remembered_to_the_end(stubs: Stubs, user: str) -> None:
    """Also beyond what one transaction holds; deleted messages are not read."""
    here = place(user)
    open_session(stubs, here, auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
    for start in range(0, 450, 90):
        append(stubs, here, [say(f"ok {number}", token_count=1) for number in range(start, start + 89)])
        append(stubs, here, [f"We decided that shelf {start} holds tools."])
    last = append(stubs, here, ["I am allergic to dust.", "I am allergic to pollen."]).messages
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=here, id=last[0].memory_id), timeout=TIMEOUT)
    stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=here, id=last[1].memory_id), timeout=TIMEOUT)
    reply = close(stubs, here)

    wanted = [f"We decided that shelf {start} holds tools." for start in range(0, 450, 90)]
    assert (wanted, False) == (remembered(reply.flush), reply.flush.incomplete)
    assert 450 - 5 == reply.flush.ignored_count
    assert 452 == reply.session.flushed_ordinal


def test_secrets_and_roles_are_treated_as_by_a_flush(stubs: Stubs, user: str) -> None:
    """Secrets are replaced, the agent's deeds are the agent's, and a speaker stays."""
    here = place(user)
    open_session(stubs, here)
    key = "sk-a1B2c3D4e5F6g7H8i9J0"
    append(stubs, here, [
        say(f"We decided to use the key {key} for billing.", speaker="Ada"),
        say("I fixed the failing test by resetting the clock.", ASSISTANT),
    ])  # fmt: skip
    reply = close(stubs, here)

    first, second = (result.memory for result in reply.flush.results)
    assert ("Ada", types_pb.MEMORY_ORIGIN_USER) == (first.speaker, first.origin)
    assert ("", types_pb.MEMORY_ORIGIN_AGENT) == (second.speaker, second.origin)
    assert key not in str(reply)
    assert 1 == sum(redaction.match_count for redaction in reply.flush.redactions)


@both
def test_what_a_session_leaves_stays_with_its_user_and_project(stubs: Stubs, user: str, language: str) -> None:
    """Another user's session of the same name is neither read nor ended, and strangers find nothing."""
    here, stranger = place(user, "s", "p"), place(f"{user}-corp", "s", "p")
    for one in (here, stranger):
        open_session(stubs, one)
    append(stubs, here, FACTS[language])
    assert [] == list(
        create_session(stubs, place(f"{user}-corp", "t", "p"), on_open=ARCHIVE_OTHERS).archived[0].results
    )
    close(stubs, here, wait_for=types_pb.WAIT_FOR_INDEXED)

    assert [] == kept(stubs, stranger)
    everything = filters_pb.Filter(session_visibility=filters_pb.SESSION_VISIBILITY_ALL)
    assert [] == found(stubs, stranger, FACTS[language][1], filter=everything)
    # A decision belongs to the project.
    assert FACTS[language][1] not in kept(stubs, place(user, "s", "q"))


def test_what_is_refused_remembers_nothing(stubs: Stubs, user: str) -> None:
    """An unknown session, a taken id, wrong fields."""
    here, missing = place(user), place(user, "missing")
    open_session(stubs, here)
    append(stubs, here, FACTS["en"])

    assert (
        "SESSION_NOT_FOUND" == refused(stubs.session.CloseSession, session_pb.CloseSessionRequest(scope=missing)).reason
    )
    taken = session_pb.CreateSessionRequest(scope=here, on_open=ARCHIVE_OTHERS)
    assert "SESSION_EXISTS" == refused(stubs.session.CreateSession, taken).reason
    wrong = session_pb.CloseSessionRequest(scope=place(user, ""), request_id="x" * 129, wait_for=9)
    refusal = refused(stubs.session.CloseSession, wrong)
    assert grpc.StatusCode.INVALID_ARGUMENT == refusal.code
    assert {"scope.session_id", "request_id", "wait_for"} == set(refusal.fields)
    assert ([], 1, 0) == (kept(stubs, here), show(stubs, here).state, show(stubs, here).flushed_ordinal)


def test_a_trim_that_is_refused_or_repeated_remembers_nothing(stubs: Stubs, user: str) -> None:
    """Neither of a session that was closed without extraction, nor of what was said since the first time."""
    here = place(user)
    open_session(stubs, here)
    trim = session_pb.TrimSessionRequest(scope=here, request_id="once")
    stubs.session.TrimSession(trim, timeout=TIMEOUT)
    append(stubs, here, FACTS["en"])

    stubs.session.TrimSession(trim, timeout=TIMEOUT)
    assert [] == kept(stubs, here)
    stubs.session.CloseSession(session_pb.CloseSessionRequest(scope=here, flush=False), timeout=TIMEOUT)
    refusal = refused(stubs.session.TrimSession, session_pb.TrimSessionRequest(scope=here))
    assert ("SESSION_NOT_ACTIVE", []) == (refusal.reason, kept(stubs, here))


def test_a_language_model_decides_and_the_rules_when_it_fails(tmp_path: Path) -> None:
    """Over real HTTP; the reply says who decided, and why the model did not."""
    decision = {
        "index": 0, "remember": True, "reason": "PREFERENCE", "detail": "likes tea", "scope": "global", "layer": "CORE",
        "kind": "PREFERENCE", "category": "", "importance": 5, "title": "Tea", "tags": [], "content": "Ada likes tea.",
    }  # fmt: skip
    with serving() as endpoint:
        model = {"backend": "openai", "options": {"base_url": endpoint.url, "model": "m", "retries": 0}}
        endpoint.replies.append(openai_said(json.dumps({"decisions": [decision]})))
        endpoint.otherwise = lambda _: failed(503)
        with served(tmp_path / "data", language_model=model) as stubs:
            first, second = place("u", "1"), place("u", "2")
            for here, text in ((first, "Oolong, as ever!"), (second, FACTS["zh"][0])):
                open_session(stubs, here)
                append(stubs, here, [text])
            by_model, by_rules = close(stubs, first).flush, close(stubs, second).flush

    assert (memory_pb.CAPTURE_DECIDER_LANGUAGE_MODEL, ["Ada likes tea."]) == (by_model.decider, remembered(by_model))
    assert (memory_pb.CAPTURE_DECIDER_RULES, [FACTS["zh"][0]]) == (by_rules.decider, remembered(by_rules))
    assert "rules" in by_rules.notice
    assert not by_rules.incomplete


def test_messages_appended_at_the_same_time_are_not_lost(stubs: Stubs, user: str) -> None:
    """Each acknowledged message is read once, however appends and the end overlap."""
    here = place(user)
    open_session(stubs, here)

    def add(number: int) -> str | None:
        text = f"We decided that shelf {number} holds tools."
        try:
            append(stubs, here, [text])
        except grpc.RpcError:
            return None
        return text

    with ThreadPoolExecutor(8) as pool:
        adding = [pool.submit(add, number) for number in range(40)]
        reply = pool.submit(close, stubs, here).result()
        acknowledged = sorted(text for one in adding if (text := one.result()) is not None)
    late = close(stubs, here)

    assert not late.flush.incomplete
    assert reply.flush.incomplete == bool(remembered(late.flush))
    assert acknowledged == sorted([*remembered(reply.flush), *remembered(late.flush)]) == kept(stubs, here)
