"""Summaries whose sources are deleted, purged, quarantined or restored say so over the wire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import lifecycle_service_pb2 as lifecycle_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.api.test_contexts import render
from tests.api.test_extracted_memories import locale_of
from tests.support.http_stub import failed
from tests.support.openai_chat_stub import said as said_by_model
from tests.support.openai_chat_stub import serving
from tests.support.rpc import TIMEOUT, create, found, get, refused, search
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.sessions import append, open_session, place, said, say, trim

INDEXED = types_pb.WAIT_FOR_INDEXED


@dataclass(frozen=True)
class Talk:
    """A conversation: a secret among other things, and rounds that stay in the session."""

    secret: str
    others: tuple[str, str]
    rounds: tuple[str, ...]


TALKS = [
    Talk(
        "My daughter Mathilde is allergic to walnuts.",
        (
            "We decided that the kitchen gets a new oven in March.",
            "The carpenter Olsen builds the shelves for the hall.",
        ),
        ("What is the weather like?", "And how warm is the sea?", "Thanks, that will do."),
    ),
    Talk(
        "我女儿小满对核桃过敏，出门要带药。",
        ("我们决定三月份给厨房换一台新烤箱。", "木匠老周负责做门厅的书架。"),
        ("今天天气怎么样？", "海水有多暖？", "谢谢，就这些。"),
    ),
]
talks = pytest.mark.parametrize("talk", TALKS, ids=("en", "zh"))


def messages_of(talk: Talk) -> list[types_pb.ChatMessage]:
    """Return the messages of a conversation, long enough for a summary that quotes the first three."""
    texts = (talk.others[0], talk.secret, talk.others[1], *talk.rounds)
    return [say(text, token_count=200) for text in texts]


def trimmed(stubs: Stubs, user: str, talk: Talk) -> types_pb.Memory:
    """Have a conversation whose first three messages are trimmed; return their summary."""
    here = place(user)
    open_session(stubs, here, auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
    append(stubs, here, messages_of(talk))
    reply = trim(stubs, here, target_tokens=0, keep_rounds=3, wait_for=INDEXED)
    assert reply.archived_message_count == 3
    assert all(text in reply.summary.content for text in (talk.secret, *talk.others))
    return reply.summary


def message_id(stubs: Stubs, user: str, text: str) -> str:
    """Return the id of the memory of a message."""
    [message] = [one for one in said(stubs, place(user), include_archived=True) if one.content == text]
    return message.memory_id


def extracted_id(stubs: Stubs, user: str, text: str) -> str:
    """Return the id of the memory that was extracted from a message."""
    [message] = [one for one in said(stubs, place(user), include_archived=True) if one.content == text]
    [name] = message.extracted_ids
    return name


def delete(stubs: Stubs, scope: types_pb.Scope, memory_id: str, *, purge: bool = False) -> None:
    """Delete a memory."""
    request = memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id, purge=purge, wait_for=INDEXED)
    stubs.memory.DeleteMemory(request, timeout=TIMEOUT)


def restore(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> None:
    """Restore a memory."""
    request = memory_pb.RestoreMemoryRequest(scope=scope, id=memory_id, wait_for=INDEXED)
    stubs.memory.RestoreMemory(request, timeout=TIMEOUT)


def summarised(stubs: Stubs, scope: types_pb.Scope) -> types_pb.Memory:
    """Summarise all memories of a project."""
    request = lifecycle_pb.SummarizePeriodRequest(scope=scope, month="2026-02", wait_for=INDEXED)
    return stubs.lifecycle.SummarizePeriod(request, timeout=TIMEOUT).memory


def contents(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> list[str]:
    """Return the contents of all revisions of a memory."""
    request = memory_pb.ListRevisionsRequest(scope=scope, id=memory_id)
    return [one.memory.content for one in stubs.memory.ListRevisions(request, timeout=TIMEOUT).revisions]


@talks
def test_a_deleted_message_leaves_the_summary(stubs: Stubs, user: str, talk: Talk) -> None:
    """No search finds it there; what else was said stays, and a restored message returns."""
    summary, elsewhere = trimmed(stubs, user, talk), place(user, "another")
    secret = message_id(stubs, user, talk.secret)
    delete(stubs, place(user), secret)

    after = get(stubs, elsewhere, summary.id)
    assert talk.secret not in after.content
    assert all(text in after.content for text in talk.others)
    assert f"user: {talk.secret}" not in "\n".join(found(stubs, elsewhere, talk.secret, limit=100))
    assert talk.secret in contents(stubs, elsewhere, summary.id)[-1]
    restore(stubs, place(user), secret)
    assert get(stubs, elsewhere, summary.id).content == summary.content


@talks
def test_a_deleted_memory_leaves_the_summary_of_its_message(stubs: Stubs, user: str, talk: Talk) -> None:
    """The memory was extracted from the message, which stays in the transcript; a restored memory returns."""
    summary, elsewhere = trimmed(stubs, user, talk), place(user, "another")
    memory = extracted_id(stubs, user, talk.secret)
    delete(stubs, elsewhere, memory)

    assert talk.secret not in get(stubs, elsewhere, summary.id).content
    assert not any(talk.secret in text for text in found(stubs, elsewhere, talk.secret, limit=100))
    assert message_id(stubs, user, talk.secret)
    restore(stubs, elsewhere, memory)
    assert get(stubs, elsewhere, summary.id).content == summary.content


@talks
@pytest.mark.parametrize("is_deleted_before", [False, True], ids=("at once", "after a deletion"))
def test_a_purge_removes_the_earlier_revisions_of_the_summary(
    stubs: Stubs, user: str, talk: Talk, *, is_deleted_before: bool
) -> None:
    """They say what was purged; the links to the purged message go, too."""
    summary, elsewhere = trimmed(stubs, user, talk), place(user, "another")
    secret = message_id(stubs, user, talk.secret)
    if is_deleted_before:
        delete(stubs, place(user), secret)
    delete(stubs, place(user), secret, purge=True)

    [only] = contents(stubs, elsewhere, summary.id)
    assert talk.secret not in only
    assert all(text in only for text in talk.others)
    assert secret not in get(stubs, elsewhere, summary.id).related_ids
    assert refused(stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=elsewhere, id=secret)).reason


@talks
def test_a_summary_of_which_nothing_remains_is_deleted(stubs: Stubs, user: str, talk: Talk) -> None:
    """A summary that was deleted so returns with a message that is restored, and quotes that alone."""
    summary, elsewhere = trimmed(stubs, user, talk), place(user, "another")
    secret = message_id(stubs, user, talk.secret)
    for text in (*talk.others, talk.secret):
        delete(stubs, place(user), message_id(stubs, user, text))

    missing = refused(stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=elsewhere, id=summary.id))
    assert missing.reason == "MEMORY_NOT_FOUND"
    restore(stubs, place(user), secret)
    assert get(stubs, elsewhere, summary.id).content == f"user: {talk.secret}"


@talks
def test_a_summary_outlasts_the_end_of_its_conversation(stubs: Stubs, user: str, talk: Talk) -> None:
    """ClearMessages leaves it; a memory that is deleted afterwards takes its own sentence alone."""
    summary, elsewhere = trimmed(stubs, user, talk), place(user, "another")
    memory = extracted_id(stubs, user, talk.secret)
    stubs.session.ClearMessages(session_pb.ClearMessagesRequest(scope=place(user)), timeout=TIMEOUT)
    assert get(stubs, elsewhere, summary.id) == summary

    delete(stubs, elsewhere, memory)
    after = get(stubs, elsewhere, summary.id).content
    assert after == "\n".join(f"user: {text}" for text in talk.others)


@talks
def test_what_was_deleted_before_a_trim_is_not_summarised(stubs: Stubs, user: str, talk: Talk) -> None:
    """The message from which the deleted memory was extracted stays in the transcript."""
    here, elsewhere = place(user), place(user, "another")
    open_session(stubs, here, auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
    append(stubs, here, messages_of(talk))
    first = trim(stubs, here, target_tokens=0, keep_rounds=5, wait_for=INDEXED)
    assert (first.archived_message_count, first.summary.content) == (1, f"user: {talk.others[0]}")
    delete(stubs, elsewhere, extracted_id(stubs, user, talk.secret))
    reply = trim(stubs, here, target_tokens=0, keep_rounds=3)

    assert (reply.archived_message_count, reply.summary.content) == (2, f"user: {talk.others[1]}")


@talks
def test_a_deleted_memory_leaves_the_summary_of_its_month(stubs: Stubs, user: str, talk: Talk) -> None:
    """A purge leaves no revision that says it; a deletion of all its memories by a filter deletes the summary."""
    scope = types_pb.Scope(user_id=user, project_id="home")
    moment = Timestamp()
    moment.FromJsonString("2026-02-10T10:00:00Z")
    secret, *others = (
        create(stubs, scope, text, event_time=moment, tags=["home"]) for text in (talk.secret, *talk.others)
    )
    summary = summarised(stubs, scope)
    assert all(text in summary.content for text in (talk.secret, *talk.others))

    delete(stubs, scope, secret.id)
    after = get(stubs, scope, summary.id)
    assert talk.secret not in after.content
    assert all(text in after.content for text in talk.others)
    restore(stubs, scope, secret.id)
    assert talk.secret in get(stubs, scope, summary.id).content
    delete(stubs, scope, secret.id, purge=True)
    [only] = contents(stubs, scope, summary.id)
    assert talk.secret not in only
    assert list(get(stubs, scope, summary.id).derived_from_ids) == [one.id for one in others]

    tagged = filters_pb.Filter(tags_any=["home"])
    preview = memory_pb.DeleteMemoriesRequest(scope=scope, filter=tagged, dry_run=True)
    [planned] = stubs.memory.DeleteMemories(preview, timeout=TIMEOUT)
    deletion = memory_pb.DeleteMemoriesRequest(
        scope=scope, filter=tagged, selection_token=planned.preview.selection_token
    )
    assert [one.summary.changed_count for one in stubs.memory.DeleteMemories(deletion, timeout=TIMEOUT)][-1] == 2
    missing = refused(stubs.memory.GetMemory, memory_pb.GetMemoryRequest(scope=scope, id=summary.id))
    assert missing.reason == "MEMORY_NOT_FOUND"


@talks
def test_a_summary_of_summaries_follows(stubs: Stubs, user: str, talk: Talk) -> None:
    """The summary of a month quotes that of trimmed messages."""
    summary, scope = trimmed(stubs, user, talk), types_pb.Scope(user_id=user)
    month = f"{datetime.now(UTC):%Y-%m}"
    request = lifecycle_pb.SummarizePeriodRequest(scope=scope, month=month, wait_for=INDEXED)
    everything = stubs.lifecycle.SummarizePeriod(request, timeout=TIMEOUT).memory
    assert talk.secret in everything.content
    assert summary.id in everything.derived_from_ids

    memory = extracted_id(stubs, user, talk.secret)
    delete(stubs, scope, memory)
    assert talk.secret not in get(stubs, scope, summary.id).content
    assert talk.secret not in get(stubs, scope, everything.id).content
    delete(stubs, scope, memory, purge=True)
    assert not any(talk.secret in text for one in (summary, everything) for text in contents(stubs, scope, one.id))


@talks
def test_a_summary_in_other_words_is_replaced_by_sentences(tmp_path: Path, talk: Talk) -> None:
    """A language model wrote it: nothing tells which of its words are those of the deleted message."""
    with serving() as endpoint:
        words = f"They spoke of an oven, shelves and this: {talk.secret.upper()}"
        endpoint.otherwise = lambda body: failed(503) if "response_format" in body else said_by_model(words)
        model = {"backend": "openai", "options": {"base_url": endpoint.url, "model": "m", "retries": 0}}
        with served(tmp_path / "data", language_model=model) as stubs:
            here, elsewhere = place("ada"), place("ada", "another")
            open_session(stubs, here, auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
            append(stubs, here, messages_of(talk))
            summary = trim(stubs, here, target_tokens=0, keep_rounds=3, wait_for=INDEXED).summary
            delete(stubs, here, message_id(stubs, "ada", talk.others[0]))
            after = get(stubs, elsewhere, summary.id)
            delete(stubs, here, message_id(stubs, "ada", talk.secret), purge=True)
            last = contents(stubs, elsewhere, summary.id)

    assert summary.content == words
    assert after.content == f"user: {talk.secret}\nuser: {talk.others[1]}"
    assert last == [f"user: {talk.others[1]}"]


@talks
def test_a_quarantined_memory_leaves_summaries_until_it_is_approved(stubs: Stubs, user: str, talk: Talk) -> None:
    """Its words must not reach an agent by way of a summary."""
    summary, scope = trimmed(stubs, user, talk), types_pb.Scope(user_id=user)
    memory = types_pb.Memory(
        id=extracted_id(stubs, user, talk.secret), scope=scope, status=types_pb.MEMORY_STATUS_QUARANTINED
    )
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=memory, update_mask=FieldMask(paths=["status"]))
    stubs.memory.UpdateMemory(request, timeout=TIMEOUT)
    assert talk.secret not in get(stubs, scope, summary.id).content

    approve = memory_pb.ReviewMemoryRequest(scope=scope, id=memory.id, verdict=memory_pb.REVIEW_VERDICT_APPROVE)
    stubs.memory.ReviewMemory(approve, timeout=TIMEOUT)
    assert get(stubs, scope, summary.id).content == summary.content


@talks
def test_the_deletion_of_another_users_memory_changes_no_summary(stubs: Stubs, user: str, talk: Talk) -> None:
    """Not even when it says the same."""
    summary = trimmed(stubs, user, talk)
    other = types_pb.Scope(user_id=f"{user}-other")
    delete(stubs, other, create(stubs, other, talk.secret).id, purge=True)

    assert get(stubs, place(user, "another"), summary.id) == summary
    assert search(stubs, place(user, "another"), talk.secret).hits


MOVES = [
    (
        "I live in Leeds.",
        "I live in York.",
        "The hall of the library gets new lamps in March.",
        "Where do I live?",
        "outdated",
    ),
    ("我住在苏州。", "我住在无锡。", "图书馆的大厅三月份换新灯。", "我住在哪里？", "过时"),
]
moves = pytest.mark.parametrize(("said", "changed", "other", "query", "mark"), MOVES)


def marked(stubs: Stubs, user: str, query: str, memory_id: str) -> tuple[int, str]:
    """Return the currency of a hit, and the id of the newer memory."""
    reply = search(stubs, place(user, "another"), query, judge_currency=True, limit=50)
    [hit] = [one for one in reply.hits if one.memory.id == memory_id]
    return hit.currency, hit.newer_memory_id


def update(stubs: Stubs, scope: types_pb.Scope, memory_id: str, content: str) -> None:
    """Change the content of a memory."""
    memory = types_pb.Memory(id=memory_id, content=content)
    mask = FieldMask(paths=["content"])
    request = memory_pb.UpdateMemoryRequest(scope=scope, memory=memory, update_mask=mask, wait_for=INDEXED)
    stubs.memory.UpdateMemory(request, timeout=TIMEOUT)


@moves
@pytest.mark.parametrize("is_alone", [False, True], ids=("one line", "every line"))
def test_a_summary_of_messages_is_marked_once_a_memory_of_them_changed(  # noqa: PLR0917 - a conversation
    stubs: Stubs, user: str, said: str, changed: str, other: str, query: str, mark: str, *, is_alone: bool
) -> None:
    """Possibly outdated while it says something else that holds; the newer memory is named, in contexts too."""
    here, elsewhere = place(user), place(user, "another")
    open_session(stubs, here, auto_trim=session_pb.SESSION_AUTO_TRIM_NEVER)
    texts = [said, *([] if is_alone else [other]), *TALKS[0].rounds]
    append(stubs, here, [say(text, token_count=200) for text in texts])
    summary = trim(stubs, here, target_tokens=0, keep_rounds=3, wait_for=INDEXED).summary
    assert said in summary.content
    memory = extracted_id(stubs, user, said)
    assert marked(stubs, user, query, summary.id) == (types_pb.CURRENCY_CURRENT, "")

    update(stubs, elsewhere, memory, changed)

    currency = types_pb.CURRENCY_OUTDATED if is_alone else types_pb.CURRENCY_POSSIBLY_OUTDATED
    assert marked(stubs, user, query, summary.id) == (currency, memory)
    options = search_pb.ContextOptions(locale=locale_of(said))
    context = render(stubs, elsewhere, query=query, options=options).markdown
    assert changed in context
    assert all(mark in line for line in context.splitlines() if said in line and changed not in line)


@moves
@pytest.mark.parametrize("is_superseded", [False, True], ids=("updated", "superseded"))
def test_a_summary_of_a_month_is_marked_once_a_source_changed(  # noqa: PLR0917 - a conversation
    stubs: Stubs, user: str, said: str, changed: str, other: str, query: str, mark: str, *, is_superseded: bool
) -> None:
    """In place or by a memory that supersedes it; a change of what it does not quote marks nothing."""
    scope = types_pb.Scope(user_id=user)
    moment = Timestamp()
    moment.FromJsonString("2026-02-10T10:00:00Z")
    memory, lamps = (create(stubs, scope, text, event_time=moment) for text in (said, other))
    summary = summarised(stubs, scope)
    restyled = memory_pb.UpdateMemoryRequest(
        scope=scope, memory=types_pb.Memory(id=lamps.id, importance=4), update_mask=FieldMask(paths=["importance"])
    )
    stubs.memory.UpdateMemory(restyled, timeout=TIMEOUT)
    assert marked(stubs, user, query, summary.id) == (types_pb.CURRENCY_CURRENT, "")

    if is_superseded:
        request = memory_pb.SupersedeMemoryRequest(
            scope=scope, id=memory.id, memory=types_pb.Memory(content=changed), wait_for=INDEXED
        )
        newer = stubs.memory.SupersedeMemory(request, timeout=TIMEOUT).memory.id
    else:
        update(stubs, scope, memory.id, changed)
        newer = memory.id

    assert marked(stubs, user, query, summary.id) == (types_pb.CURRENCY_POSSIBLY_OUTDATED, newer)
    context = render(stubs, scope, query=query, options=search_pb.ContextOptions(locale=locale_of(said))).markdown
    assert [mark in line for line in context.splitlines() if said in line or "summary/2026-02" in line] == [True]
