"""Sessions, the order of their messages, and memories that are archived together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Layer, Status
from memsvc.domain.scope import Scope
from memsvc.domain.sessions import (
    AutoTrim,
    ExtractedMemory,
    Message,
    MessageRecord,
    MessageState,
    Role,
    Session,
    SessionCounts,
    SessionName,
    SessionState,
    ToolCall,
)
from memsvc.ports.metadata import MetadataStore, Record, UniquenessRaceError
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert, purge, revise

EVERY_STATE = frozenset(SessionState)
LIVE = frozenset({MessageState.ACTIVE})
KEPT = frozenset({MessageState.ACTIVE, MessageState.ARCHIVED})


def _session(session_id: str = "s", project_id: str = "", agent_id: str = "", **fields: Any) -> Session:
    user_id = fields.pop("user_id", "ada")
    scope = Scope(user_id, project_id, agent_id, session_id)
    return Session(scope=scope, create_time=NOW, update_time=NOW, token_limit=1_000, **fields)


def _opened(store: MetadataStore, *sessions: Session) -> list[Session]:
    with store.transaction() as transaction:
        return [transaction.sessions.insert(session) for session in sessions]


def _said(store: MetadataStore, session: Session, *contents: str, start: int = 1, tokens: int = 10) -> list[Message]:
    """Append messages by the way that the engine takes."""
    scope = session.scope
    memories = [
        factories.memory(
            content, user_id=scope.user_id, project_id=scope.project_id, session_id=scope.session_id,
            kind=Kind.MESSAGE, layer=Layer.SESSION,
        )
        for content in contents
    ]  # fmt: skip
    with store.transaction() as transaction:
        stored = transaction.insert([Record(memory, is_unique=False) for memory in memories])
        records = [
            MessageRecord(memory.row, ordinal, Role.USER, tokens) for ordinal, memory in enumerate(stored, start=start)
        ]
        transaction.sessions.append(session, records)
    return [Message(record, memory) for record, memory in zip(records, stored, strict=True)]


def _listed(store: MetadataStore, session: Session, states: frozenset[MessageState] = LIVE, **paging: Any) -> list[str]:
    wanted: dict[str, Any] = {"after": None, "limit": 100, "descending": False} | paging
    return [one.memory.content for one in store.sessions.messages(session, states=states, **wanted)]


class StoreSessionsContract(StoreSeams):
    """Contract of sessions."""

    def test_a_session_comes_back_as_it_was_written(self, store: MetadataStore) -> None:
        """Every field, when it is new and after a change."""
        times = {f"{name}_time": NOW + timedelta(microseconds=number) for number, name in enumerate(("end", "trim"), 1)}
        given = _session(
            "会话", "web", "agent", title="标题 🦭", state=SessionState.CLOSED, auto_trim=AutoTrim.NEVER,
            metadata={"票": [1, {"a": None}]}, last_ordinal=7, trim_count=3, flushed_ordinal=5,
            last_message_time=NOW, **times,
        )  # fmt: skip
        [opened] = _opened(store, given)
        changed = replace(opened, title="", state=SessionState.ACTIVE, end_time=None, metadata={}, token_limit=5)
        assert replace(given, row=opened.row) == opened == store.sessions.get(given.name)
        with store.transaction() as transaction:
            transaction.sessions.update(changed)
            assert transaction.sessions.get(given.name) == changed

        assert store.sessions.get(given.name) == changed

    def test_agents_that_opened_sessions(self, store: MetadataStore) -> None:
        """Of the requested ones alone, and of exactly this owner and project; "" for a session without an agent."""
        [one, other, *_] = _opened(
            store,
            _session("会话", "web", "agent"),
            _session("s", "web"),
            _session("t", "web", "agent"),
            _session("u", "shop"),
        )
        owner = one.scope.owner

        found = store.sessions.agents(owner, "web", {one.scope.session_id, "s", "u", "no session"})

        assert found == {one.scope.session_id: "agent", other.scope.session_id: ""}
        assert store.sessions.agents(owner, "web", ()) == store.sessions.agents("nobody", "web", {"s"}) == {}

    def test_writing_sessions_is_part_of_the_transaction(self, store: MetadataStore) -> None:
        """A writer that is kept knows the sessions inserted since."""
        [session] = _opened(store, _session())
        with store.transaction() as transaction:
            sessions = transaction.sessions
            [memory] = transaction.insert([Record(factories.memory(kind=Kind.MESSAGE), is_unique=False)])
            sessions.append(session, [line := MessageRecord(memory.row, 1, Role.USER, 1)])
            assert sessions.are_live([Message(line, memory)])

    def test_a_name_is_exact_and_taken_once(self, store: MetadataStore) -> None:
        """Another owner, project or spelling is another session; the agent is no part of the name."""
        _opened(store, _session("s", "web", "a"), _session("s"), _session("s", user_id="ada-2"), _session("S", "web"))

        assert store.sessions.get(SessionName(OWNER, "web", "s ")) is None
        assert store.sessions.get(SessionName(OWNER, "we", "s")) is None
        with pytest.raises(UniquenessRaceError), store.transaction() as transaction:
            transaction.sessions.insert(_session("s", "web", "b"))

    def test_sessions_are_listed_newest_first(self, store: MetadataStore) -> None:
        """Of one project, in the states asked for, page by page."""
        opened = _opened(store, *(_session(f"s{number}", "web") for number in range(5)), _session("other"))
        with store.transaction() as transaction:
            transaction.sessions.update(replace(opened[1], state=SessionState.ARCHIVED))

        def names(
            states: frozenset[SessionState] = EVERY_STATE, before: int | None = None, limit: int = 9
        ) -> list[str]:
            page = store.sessions.page(OWNER, "web", states=states, before=before, limit=limit)
            return [session.scope.session_id for session in page]

        assert names() == ["s4", "s3", "s2", "s1", "s0"]
        assert names(limit=2) == ["s4", "s3"]
        assert names(before=opened[3].row, limit=2) == ["s2", "s1"]
        assert names(frozenset({SessionState.ARCHIVED})) == ["s1"]
        assert names(frozenset({SessionState.ACTIVE, SessionState.CLOSED})) == ["s4", "s3", "s2", "s0"]
        assert names(limit=0) == names(frozenset()) == []
        [of_agent] = _opened(store, _session("a", "web", "agent"))
        with store.transaction() as transaction:
            assert transaction.sessions.active(OWNER, "web") == [opened[0], *opened[2:5], of_agent]
            assert transaction.sessions.active(OWNER, "we") == []

    def test_messages_are_read_in_order(self, store: MetadataStore) -> None:
        """Forwards and backwards, from any place, of one session, with all that is kept of them."""
        session, other = _opened(store, _session("s"), _session("t"))
        first = _said(store, session, "a", "b", "c")
        _said(store, other, "x")
        [call] = _said(store, session, "d", start=4)

        assert _listed(store, session) == ["a", "b", "c", "d"]
        assert _listed(store, session, descending=True, limit=2) == ["d", "c"]
        assert _listed(store, session, after=1, limit=2) == ["b", "c"]
        assert _listed(store, session, after=3, descending=True) == ["b", "a"]
        assert _listed(store, session, limit=0) == []
        assert store.sessions.messages(session, states=KEPT, after=3, limit=1, descending=False) == [call]
        assert store.sessions.messages(session, states=LIVE, after=None, limit=1, descending=False) == first[:1]

    def test_what_is_kept_of_a_message_comes_back(self, store: MetadataStore) -> None:
        """Every field."""
        [session] = _opened(store, _session())
        [memory] = insert(store, factories.memory("f()", kind=Kind.MESSAGE, session_id="s"))
        extracted = (ExtractedMemory("a", "0f"), ExtractedMemory("b"))
        calls = (ToolCall("c1", "查", {"城": "里斯本", "n": [1, 2.5, None]}), ToolCall("", "g"))
        record = MessageRecord(
            memory.row, 1, Role.ASSISTANT, 123, is_pinned=True, has_content=False, tool_calls=calls, tool_call_id="c0"
        )
        with store.transaction() as transaction:
            transaction.sessions.append(session, [record])
            transaction.sessions.set_summary([memory.row, 999], "the summary")
            transaction.sessions.note_extractions({memory.row: extracted, 999: extracted})

        [found] = store.sessions.messages(session, states=LIVE, after=None, limit=9, descending=False)
        assert found == Message(replace(record, summary_id="the summary", extracted=extracted), memory)

    def test_what_was_extracted_from_messages(self, store: MetadataStore) -> None:
        """By the rows of the messages; those of which nothing was extracted are left out, and the last note counts."""
        [session] = _opened(store, _session())
        first, second, third = (one.memory.row for one in _said(store, session, "a", "b", "c"))
        with store.transaction() as transaction:
            transaction.sessions.note_extractions({first: [ExtractedMemory("m", "0f")], second: [ExtractedMemory("n")]})
        with store.transaction() as transaction:
            transaction.sessions.note_extractions({second: [ExtractedMemory("n"), ExtractedMemory("ö", "1")]})

        assert store.sessions.extractions({first, second, third, 999}) == {
            first: (ExtractedMemory("m", "0f"),),
            second: (ExtractedMemory("n"), ExtractedMemory("ö", "1")),
        }
        assert store.sessions.extractions([third]) == store.sessions.extractions([]) == {}

    def test_summaries_are_found_by_their_sources(self, store: MetadataStore) -> None:
        """Memories they derive from, messages, memories extracted from these; of any status, of the same owner only."""
        [session] = _opened(store, _session())
        first, second, third = _said(store, session, "a", "b", "c")
        kinds: dict[str, Any] = {"kind": Kind.SUMMARY, "source": "x"}
        source, extracted, foreign = insert(
            store, *map(factories.memory, ("source", "extracted")), factories.memory("foreign", user_id="ada-2")
        )
        trimmed, derived, deleted, other = insert(
            store,
            factories.memory("trimmed", **kinds),
            factories.memory("derived", project_id="web", derived_from_ids=(source.id, foreign.id), **kinds),
            factories.memory("deleted", derived_from_ids=(source.id,), status=Status.DELETED, **kinds),
            factories.memory("no summary", derived_from_ids=(source.id,)),
        )
        with store.transaction() as transaction:
            transaction.sessions.set_summary([second.memory.row, first.memory.row], trimmed.id)
            transaction.sessions.note_extractions(
                {first.memory.row: [ExtractedMemory(extracted.id)], third.memory.row: [ExtractedMemory(source.id)]}
            )

        with store.transaction() as transaction:
            found = {one.id: transaction.summaries_of(one) for one in (source, extracted, foreign, other, first.memory)}
            assert found == {
                source.id: [derived.id, deleted.id],
                extracted.id: [trimmed.id],
                foreign.id: [],
                other.id: [],
                first.memory.id: [trimmed.id],
            }
            messages = transaction.sessions.messages_of(trimmed.id)
            assert [one.memory for one in messages] == [first.memory, second.memory]
            assert [one.record.summary_id for one in messages] == [trimmed.id, trimmed.id]
            assert store.sessions.messages_of(["", trimmed.id, derived.id]) == {trimmed.id: messages}
            assert store.sessions.messages_of([]) == {}
            assert transaction.sessions.messages_of("") == transaction.sessions.messages_of(derived.id) == []

    def test_a_place_is_taken_once(self, store: MetadataStore) -> None:
        """Two messages cannot have the same ordinal."""
        [session] = _opened(store, _session())
        _said(store, session, "a")

        with pytest.raises(UniquenessRaceError):
            _said(store, session, "b", start=1)
        assert _listed(store, session) == ["a"]

    def test_the_state_of_a_message_follows_its_memory(self, store: MetadataStore) -> None:
        """Archived, deleted, restored, purged: lists and counts know."""
        [session] = _opened(store, _session())
        a, b, c, d = (one.memory for one in _said(store, session, "a", "b", "c", "d"))
        revise(store, a, status=Status.ARCHIVED)
        deleted = revise(store, b, ChangeAction.DELETED, status=Status.DELETED)
        revise(store, c, title="T")
        purge(store, d)

        assert (_listed(store, session), _listed(store, session, KEPT)) == (["c"], ["a", "c"])
        assert store.sessions.counts([session]) == {session.row: SessionCounts(1, 10, 1, 10)}
        with store.transaction() as transaction:
            standing = transaction.sessions.status(session.name)
            assert standing is not None
            assert (standing.session, standing.newest_row, standing.live_tokens) == (session, c.row, 10)
        revise(store, deleted, ChangeAction.RESTORED, status=Status.ACTIVE)
        assert _listed(store, session) == ["b", "c"]

    def test_what_was_not_flushed_is_counted(self, store: MetadataStore) -> None:
        """The tokens of live messages that come after the last one that was."""
        [session] = _opened(store, _session())
        a, _, c, _ = (one.memory for one in _said(store, session, "a", "b", "c", "d"))

        def unflushed() -> int:
            with store.transaction() as transaction:
                standing = transaction.sessions.status(session.name)
            assert standing is not None
            return standing.unflushed_tokens

        assert unflushed() == 40
        with store.transaction() as transaction:
            transaction.sessions.update(replace(session, flushed_ordinal=1))
        assert unflushed() == 30
        revise(store, a, status=Status.ARCHIVED)
        revise(store, c, status=Status.ARCHIVED)
        assert unflushed() == 20
        with store.transaction() as transaction:
            transaction.sessions.update(replace(session, flushed_ordinal=4))
        assert unflushed() == 0

    def test_tokens_are_counted_anew(self, store: MetadataStore) -> None:
        """More or fewer, but never less than none; other messages are left alone."""
        [session] = _opened(store, _session())
        a, b, _ = (one.memory for one in _said(store, session, "a", "b", "c"))
        with store.transaction() as transaction:
            transaction.sessions.add_tokens(a.row, 7)
            transaction.sessions.add_tokens(b.row, -12)
            transaction.sessions.add_tokens(10**6, 5)

        found = store.sessions.messages(session, states=LIVE, after=None, limit=9, descending=False)
        assert [one.record.token_count for one in found] == [17, 0, 10]

    def test_what_can_be_dropped_is_known(self, store: MetadataStore) -> None:
        """A live message before that ordinal and the last rounds which is neither pinned nor a system message."""
        [session] = _opened(store, _session())
        roles = ((Role.SYSTEM, False), (Role.USER, True), (Role.TOOL, False), (Role.USER, False))
        fields: dict[str, Any] = {"session_id": "s", "kind": Kind.MESSAGE, "layer": Layer.SESSION}
        memories = insert(store, *(factories.memory(f"{number}", **fields) for number in range(len(roles))))
        records = [
            MessageRecord(memory.row, ordinal, role, 10, is_pinned=is_pinned)
            for ordinal, (memory, (role, is_pinned)) in enumerate(zip(memories, roles, strict=True), start=1)
        ]
        with store.transaction() as transaction:
            transaction.sessions.append(session, records)

        def droppable(*wanted: tuple[int, int]) -> list[bool]:
            with store.transaction() as transaction:
                return [
                    transaction.sessions.has_droppable(session, before=before, keep_rounds=rounds)
                    for before, rounds in wanted
                ]

        assert droppable((3, 0), (4, 0)) == [False, True]
        assert droppable((4, 1), (4, 2), (4, 9)) == [True, False, False]
        assert droppable((5, 0), (5, 1), (5, 2)) == [True, True, False]
        revise(store, memories[2], status=Status.ARCHIVED)
        assert droppable((4, 0), (5, 1), (5, 0)) == [False, False, True]

    def test_a_session_without_messages_counts_zero(self, store: MetadataStore) -> None:
        """It is in the answer all the same."""
        [session] = _opened(store, _session())

        assert store.sessions.counts([session]) == {session.row: SessionCounts()}
        assert store.sessions.counts([]) == {}
        with store.transaction() as transaction:
            standing = transaction.sessions.status(session.name)
            assert standing is not None
            assert (standing.newest_row, standing.live_tokens) == (None, 0)
            assert transaction.sessions.status(replace(session.name, session_id="t")) is None

    def test_memories_are_put_away_together(self, store: MetadataStore) -> None:
        """As by an update of each: revision, status, time, outbox, the earlier revision, the state of messages."""
        [session] = _opened(store, _session())
        said = _said(store, session, *(f"内容 {number}" for number in range(300)))
        fact, before = insert(store, factories.memory("a fact"), factories.memory("another"))
        head = store.feed.head_position()
        memories = [*(one.memory for one in said[:250]), fact]
        with store.transaction() as transaction:
            assert transaction.sessions.are_live(said)
            put = transaction.set_status(memories, Status.ARCHIVED)
            assert not transaction.sessions.are_live(said)
            assert transaction.sessions.are_live(said[250:])
            assert transaction.position == head + 251

        stored = store.memories.get([memory.id for memory in put], reach=ADA)
        assert stored == {memory.id: memory for memory in put}
        assert {(memory.revision, memory.status) for memory in put} == {(2, Status.ARCHIVED)}
        assert store.memories.revision(fact.id, 1, reach=ADA) == fact
        assert [change.row for change in store.feed.changes_after(head, limit=999)] == [
            memory.row for memory in memories
        ]
        assert store.sessions.counts([session])[session.row] == SessionCounts(50, 500, 250, 2_500)
        assert before == store.memories.get([before.id], reach=ADA)[before.id]
        # Its content is free again.
        insert(store, factories.memory("a fact"))

    def test_an_outdated_memory_is_not_put_away(self, store: MetadataStore) -> None:
        """None of them is then."""
        one, two = insert(store, factories.memory("1"), factories.memory("2"))
        revise(store, two, title="T")

        with pytest.raises(UniquenessRaceError), store.transaction() as transaction:
            transaction.set_status([one, two], Status.ARCHIVED)
        assert store.memories.get([one.id], reach=ADA) == {one.id: one}
        with store.transaction() as transaction:
            assert transaction.set_status([], Status.ARCHIVED) == []

    def test_sessions_outlive_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """With their messages."""
        [session] = _opened(store, _session())
        _said(store, session, "a", "b")
        again = reopen()

        assert again.sessions.get(session.name) == session
        assert _listed(again, session) == ["a", "b"]
