"""SQLite enters every hot query by an index, whatever it knows of the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memsvc.domain.clock import to_micros
from memsvc.domain.conflicts import ConflictState
from memsvc.domain.context import Essential
from memsvc.domain.diagnostics import PlacePart
from memsvc.domain.files import FileCategory, FileFilter
from memsvc.domain.filters import And, AnyOf, Field, Match, Not, Range
from memsvc.domain.maintenance import EVERYBODY, MaintenanceScope
from memsvc.domain.memory import FileRef, Keyword, Memory, Reminder, Slot, Status
from memsvc.domain.reminders import window
from memsvc.domain.scope import Scope, SessionVisibility
from memsvc.domain.search import Order, OrderField, PageCursor, WordMatch
from memsvc.domain.sessions import (
    ExtractedMemory,
    Message,
    MessageRecord,
    MessageState,
    Role,
    Session,
    SessionName,
    SessionState,
)
from memsvc.domain.use_feedback import UseCall, UseOutcome, UseReplay, UseReport, UseSelection
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.features import ReminderPlace
from memsvc.ports.metadata import ContentName
from memsvc.ports.operations import LogPlace, ScanPosition, UnreadRule, UpkeepReads
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, insert, revise
from memsvc_backends.sql import SQL, SqlMetadataStore, SqlSettings
from tests.integration.sql.query_plan_support import Plans, noted

USUAL = And((AnyOf(Field.STATUS, ("ACTIVE",)), Not(Range(Field.EXPIRE_TIME, at_most=1e15))))
SESSION = And((USUAL, AnyOf(Field.SESSION_ID, ("s",))))
CURSOR = PageCursor(to_micros(NOW), 1)
Use = Callable[[SqlMetadataStore], object]


def _in_transaction(use: Callable[[Any], object]) -> Use:
    def run(store: SqlMetadataStore) -> None:
        with store.transaction() as transaction:
            use(transaction)

    return run


def _update(store: SqlMetadataStore) -> None:
    before = store.memories.by_rows([1], reach=ADA)[1]
    revise(store, before, content="x", content_hash="x", tags=("n",), keywords=(), metadata={})


def _purge(store: SqlMetadataStore) -> None:
    with store.transaction() as transaction:
        memory = transaction.get(store.memories.by_rows([1], reach=ADA)[1].id, reach=ADA)
        assert isinstance(memory, Memory)
        transaction.purge(memory)


def _acknowledge(store: SqlMetadataStore) -> None:
    before = store.memories.by_rows([1], reach=ADA)[1]
    after = revise(store, before, reminder=Reminder(2, 6))
    with store.transaction() as transaction:
        transaction.acknowledge(after, NOW.date(), Slot.MORNING, NOW)
    revise(store, after, reminder=None)


def _put_away(store: SqlMetadataStore) -> None:
    found = store.memories.by_rows([1, 2], reach=ADA)
    with store.transaction() as transaction:
        transaction.sessions.are_live([Message(MessageRecord(row, 1, Role.USER, 1), one) for row, one in found.items()])
        transaction.set_status(list(found.values()), Status.ARCHIVED)


def _report_use(store: SqlMetadataStore) -> None:
    call = UseCall(Scope("ada"), "q", NOW, [UseReport("a", UseOutcome.WRONG)])
    with store.transaction() as transaction:
        transaction.add_use(call, [1])
        transaction.set_replay(OWNER, UseReplay(NOW, 1, 0), pending=1)
    store.uses.calls(OWNER, limit=9)
    _purge(store)


TALK = SessionName(OWNER, "", "s")
SESSION_OF_MESSAGES = Session(
    scope=Scope("ada", session_id="s"), create_time=NOW, update_time=NOW, token_limit=9, row=77
)
USES: dict[str, Use] = {
    "get": lambda store: store.memories.get(["a", "b"], reach=ADA),
    "get_by_key": lambda store: store.memories.get_by_key("k", reach=ADA),
    "get_by_former_key": lambda store: store.memories.get_by_former_key("k", Status.DELETED, reach=ADA),
    "by_rows": lambda store: store.memories.by_rows([1, 2, 3], reach=ADA),
    "candidates": lambda store: store.memories.candidates([1, 2, 3], reach=ADA),
    "keyword_hits": lambda store: store.memories.keyword_hits(["a", "b"], reach=ADA, where=USUAL, limit=9),
    "keywords_with": lambda store: store.memories.keywords_with(
        ["a"], reach=ADA, where=USUAL, match=WordMatch.PREFIX, limit=9
    ),
    "rows_where": lambda store: store.memories.rows_where(AnyOf(Field.TAGS, ("a", "b")), reach=ADA),
    "rows_where of metadata": lambda store: store.memories.rows_where(AnyOf(Field.METADATA, ("a=1",)), reach=ADA),
    "rows_where of numbers in metadata": lambda store: store.memories.rows_where(
        Range(Field.METADATA, path="n", at_least=-1.0), reach=ADA
    ),
    "selected by prefix": lambda store: store.memories.select_revisions(
        AnyOf(Field.KEY, ("k",), Match.PREFIX), reach=ADA, limit=9
    ),
    "essentials": lambda store: [
        store.memories.essentials(essential, reach=ADA, now=NOW, limit=9) for essential in Essential
    ],
    "next_essential": lambda store: store.memories.next_essential(reach=ADA, now=NOW),
    "session_rows": lambda store: store.memories.session_rows("s", reach=ADA, now=NOW, limit=9),
    "recent_rows": lambda store: store.memories.recent_rows(since=NOW, reach=ADA, now=NOW, limit=9),
    "chunks": lambda store: store.memories.chunks([(1, 0), (1, 1)]),
    "revision": lambda store: store.memories.revision("a", 1, reach=ADA),
    "revisions": lambda store: store.memories.revisions("a", reach=ADA, before=None, limit=9),
    "has_deleted": lambda store: store.memories.has_deleted(reach=ADA),
    "deletion_times": lambda store: store.memories.deletion_times(["a", "b"], reach=ADA),
    "known_at": lambda store: store.memories.known_at([1, 2, 3], NOW, reach=ADA),
    "changed since": lambda store: store.memories.rows_where(Range(Field.UPDATE_TIME, above=1), reach=ADA),
    "files": lambda store: store.files.get(["a", "b"], reach=ADA, now=NOW),
    "files page": lambda store: [
        store.files.page(reach=ADA, where=FileFilter(kinds, words=("a",)), now=NOW, before=9, limit=9)
        for kinds in (frozenset[FileCategory](), frozenset(FileCategory))
    ],
    "files of owner": lambda store: store.files.of_owner(OWNER, after=1, limit=9),
    "every file": lambda store: store.files.every(after=1, limit=9),
    "expired files": lambda store: store.files.expired_files(now=NOW, limit=9),
    "referred": lambda store: store.files.digests_in_use(["a", "b"], apart_from=OWNER),
    "fill": _in_transaction(lambda transaction: transaction.files.fill(OWNER, "a")),
    "digests_of_owner": _in_transaction(lambda transaction: transaction.files.digests_of_owner(OWNER, ["a", "b"])),
    "stored files": _in_transaction(lambda transaction: transaction.files.get_many(OWNER, ["a", "b"])),
    "file ids of others": _in_transaction(lambda transaction: transaction.files.ids_of_others(OWNER, ["a", "b"])),
    "checkpoint": lambda store: store.checkpoints.get(OWNER, "", "c"),
    "checkpoints": lambda store: store.checkpoints.page(OWNER, "", after=(NOW, "c"), limit=9),
    "tombstones": lambda store: store.checkpoints.tombstones(reach=ADA, moment=NOW, after_row=0, limit=9),
    "old_logs": lambda store: [
        store.logs.old_logs(area, before="daily/2026-01-30", after=LogPlace("daily/2026-01-01", 3), limit=9)
        for area in (EVERYBODY, MaintenanceScope(OWNER), MaintenanceScope(OWNER, "web"))
    ],
    "counts": lambda store: store.memories.counts(reach=ADA),
    "documents": lambda store: store.feed.documents([1, 2]),
    "histories": lambda store: store.feed.histories(after_row=0, limit=2),
    "purges": lambda store: store.feed.has_purges(after=0, since=NOW),
    "models": lambda store: store.embeddings.models(),
    "digests": lambda store: store.embeddings.digests("m", after=b"a", limit=2),
    "embeddings removed": lambda store: store.embeddings.remove("m", [b"a"]),
    "scan": lambda store: store.feed.scan(after_row=0, limit=9),
    "expected": lambda store: store.feed.expected_entries(after_row=0, limit=9),
    "pending": lambda store: store.feed.pending_changes(limit=9),
    "since": lambda store: store.feed.changes_after(1, limit=9),
    "applied": lambda store: store.feed.applied_position(),
    "applied since": lambda store: store.feed.applied_changes(1, limit=9),
    "head": lambda store: store.feed.head_position(),
    "pending_count": lambda store: store.feed.pending_count(),
    "mark_applied": lambda store: store.feed.mark_applied(store.feed.pending_changes(limit=1)),
    "embeddings": lambda store: store.embeddings.get("m", [b"a", b"b"]),
    "tokens": lambda store: store.tokens.tokens("m", [1 << 16, 2 << 16]),
    "token digests": lambda store: store.tokens.digests("m", [1, 2]),
    "rows without tokens": lambda store: store.tokens.rows_without("m", given_model="e", after_row=0, limit=9),
    "replace tokens": lambda store: store.tokens.replace("m", [1, 2], [PassageTokens(1 << 16, b"d", b"t")]),
    "embedding count": lambda store: store.embeddings.count("m"),
    "find_facts": _in_transaction(lambda transaction: transaction.find_facts(OWNER, "", ["a", "b"], limit=9)),
    "open_conflicts": _in_transaction(lambda transaction: transaction.open_conflicts(OWNER, ["a", "b"])),
    "conflicts_over": _in_transaction(lambda transaction: transaction.conflicts_over(OWNER, "a", limit=9)),
    "get_conflict": _in_transaction(lambda transaction: transaction.get_conflict("a", reach=ADA)),
    "conflicts": lambda store: store.conflicts.get(["a", "b"], reach=ADA),
    "open conflicts page": lambda store: store.conflicts.page(
        reach=ADA, states=[ConflictState.OPEN], memory_id="", before="x", limit=9
    ),
    "conflicts page": lambda store: store.conflicts.page(
        reach=ADA, states=list(ConflictState), memory_id="", before="x", limit=9
    ),
    "conflicts of a memory": lambda store: store.conflicts.page(
        reach=ADA, states=list(ConflictState), memory_id="a", before="", limit=9
    ),
    "reminders": lambda store: store.reminders.page(
        reach=ADA, window=window(NOW, 7), after=ReminderPlace(1, 1), limit=9
    ),
    "reminders given": lambda store: store.reminders.acknowledgements([1, 2], since=NOW.date(), reach=ADA),
    "acknowledge": _acknowledge,
    "find_keys": _in_transaction(lambda transaction: transaction.find_keys(OWNER, [("", "k"), ("web", "k")])),
    "find_contents": _in_transaction(lambda tx: tx.find_contents(OWNER, [ContentName("", "FACT", "h")])),
    "transaction.get": _in_transaction(lambda transaction: transaction.get("a", reach=ADA)),
    "superseded_by": _in_transaction(lambda transaction: transaction.superseded_by(OWNER, "a")),
    "last_row": _in_transaction(lambda transaction: transaction.last_row(OWNER, "", "s")),
    "insert": lambda store: insert(store, factories.memory("new", keywords=(Keyword("b", 1.0),), tags=("b",))),
    "update": _update,
    "purge": _purge,
    "add_accesses": _in_transaction(lambda transaction: transaction.add_accesses({"a": (1, NOW)})),
    "changes.after": lambda store: store.changes.after(0, reach=ADA, limit=9),
    "changes.count": lambda store: store.changes.count(0, reach=ADA),
    "changes.states": lambda store: store.changes.states([(1, 1), (1, 2), (2, 1)]),
    "changes.identity": lambda store: store.changes.identity,
    "requests": _in_transaction(lambda transaction: transaction.recall_request(OWNER, "m", "r")),
    "session": lambda store: store.sessions.get(TALK),
    "agents of sessions": lambda store: store.sessions.agents(OWNER, "", {"s", "t"}),
    "extracted": lambda store: store.sessions.extractions([1, 2]),
    "note_extractions": _in_transaction(
        lambda transaction: transaction.sessions.note_extractions({1: [ExtractedMemory("a", "b")]})
    ),
    "sessions": lambda store: store.sessions.page(OWNER, "", states=set(SessionState), before=5, limit=9),
    "closed sessions": lambda store: store.sessions.page(OWNER, "", states={SessionState.CLOSED}, before=5, limit=9),
    "session counts": lambda store: store.sessions.counts([SESSION_OF_MESSAGES]),
    "live messages": lambda store: store.sessions.messages(
        SESSION_OF_MESSAGES, states={MessageState.ACTIVE}, after=1, limit=9, descending=False
    ),
    "all messages": lambda store: store.sessions.messages(
        SESSION_OF_MESSAGES, states=set(MessageState), after=9, limit=9, descending=True
    ),
    "standing": _in_transaction(lambda transaction: transaction.sessions.status(TALK)),
    "active sessions": _in_transaction(lambda transaction: transaction.sessions.active(OWNER, "")),
    "insert session": _in_transaction(lambda transaction: transaction.sessions.insert(SESSION_OF_MESSAGES)),
    "update session": _in_transaction(lambda transaction: transaction.sessions.update(SESSION_OF_MESSAGES)),
    "has droppable": _in_transaction(
        lambda tx: tx.sessions.has_droppable(SESSION_OF_MESSAGES, before=9, keep_rounds=3)
    ),
    "add tokens": _in_transaction(lambda transaction: transaction.sessions.add_tokens(1, 5)),
    "topics": lambda store: store.statements.rows_on_topics(OWNER, ["", "web"], ["a", "b"], limit=9),
    "summaries_of": _in_transaction(lambda transaction: transaction.summaries_of(factories.memory())),
    "forget_revisions": _in_transaction(lambda transaction: transaction.forget_revisions(factories.memory())),
    "messages of summaries": lambda store: store.sessions.messages_of(["s", "t"]),
    "messages of a summary": _in_transaction(lambda transaction: transaction.sessions.messages_of("s")),
    "set_summary": _in_transaction(lambda transaction: transaction.sessions.set_summary([1, 2], "s")),
    "put_away": _put_away,
    "files found": lambda store: store.files.search(
        ["a", "b"], reach=ADA, categories=frozenset(FileCategory), now=NOW, limit=9
    ),
    "files referred to": lambda store: store.files.referred_to(OWNER, [FileRef("chart", "a")]),
    "files there": lambda store: store.files.existing_refs(OWNER, [FileRef("chart", "a")], now=NOW),
    "files in and out": _in_transaction(lambda tx: tx.files.delete([tx.files.insert(factories.file(name="plan b"))])),
    "memory with references": lambda store: insert(store, factories.memory("refs", file_refs=(FileRef("chart", "a"),))),
    "lease released": lambda store: store.leases.release("n", holder="a", ended=NOW),
    "last end": lambda store: store.leases.last_end("n"),
    "use reports": lambda store: [
        store.uses.page(reach=ADA, selection=UseSelection("s", sessions, outcome, row), after=after, limit=9)
        for sessions in SessionVisibility
        for outcome in (None, *UseOutcome)
        for row in (None, 1)
        for after in (None, (9, 9))
    ],
    "use counts": lambda store: store.uses.counts(1, owner=OWNER),
    "use feedback": lambda store: store.uses.feedback(OWNER),
    "use signal": lambda store: store.uses.signal(OWNER, [1, 2, 3]),
    "use calls": lambda store: store.uses.calls(OWNER, limit=9),
    "due for replay": lambda store: [
        store.uses.due_for_replay(area, least=1, after="a", limit=9) for area in (EVERYBODY, MaintenanceScope(OWNER))
    ],
    "use reported": _report_use,
    "forget_requests": _in_transaction(lambda transaction: transaction.forget_requests(before=NOW)),
}


UNREAD = UnreadRule(NOW, max_importance=3)
UPKEEP: dict[
    str, tuple[str, Callable[[UpkeepReads, MaintenanceScope, ScanPosition], object], tuple[ScanPosition, ...]]
] = {
    "expired": (
        "memories_expiring",
        lambda reads, area, after: reads.expired_memories(area, at=NOW, after=after, limit=9),
        ((), (1, 2)),
    ),
    "deleted": (
        "memories_deleted",
        lambda reads, area, after: reads.deleted_memories(area, before=NOW, after=after, limit=9),
        ((), (1, 2)),
    ),
    "read often": (
        "memories_read_often",
        lambda reads, area, after: reads.frequently_read(area, least=5, at=NOW, after=after, limit=9),
        ((), (5, 2)),
    ),
    "unread": (
        "memories_unread",
        lambda reads, area, after: reads.unread(area, rule=UNREAD, after=after, limit=9),
        ((), (1, 0, 1, 2), (3, 1, 1, 2, 3)),
    ),
    "least useful": (
        "memories_useful",
        lambda reads, area, after: reads.least_useful(area, owner=OWNER, rule=UNREAD, at=NOW, after=after, limit=9),
        ((), (1, 2, 3)),
    ),
}
"""What upkeep asks for: by which index, how, and from which places on."""


@pytest.fixture
def store(context: BackendContext) -> Iterator[SqlMetadataStore]:
    """Open a store whose statements are noted where the driver gets them."""
    with noted(), SQL.open(SqlSettings(), context) as store:
        assert isinstance(store, SqlMetadataStore)
        # It walks over everything, on purpose.
        store.preloader.join()
        yield store


@pytest.fixture
def plans(store: SqlMetadataStore) -> Plans:
    """Watch a store that holds a few memories."""
    [one] = insert(store, factories.memory("a", key="k", session_id="s", keywords=(Keyword("a", 1.0),), tags=("a",)))
    [other] = insert(store, factories.memory("b", previous_row=one.row, session_id="s"))
    revise(store, one, title="T")
    # What is kept needs no statement.
    store.memories.forget({one.row, other.row})
    return Plans(store)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_table_is_scanned(store: SqlMetadataStore, plans: Plans, use: Use) -> None:
    """Every statement finds its rows by an index or by their number."""
    with plans.recorded():
        use(store)

    assert plans.lines
    assert plans.scans() == []


@pytest.mark.parametrize("use", ["by_rows", "candidates", "documents", "keywords_with"])
def test_rows_are_entered_by_number(store: SqlMetadataStore, plans: Plans, use: str) -> None:
    """A few rows are looked up one by one; an owner's other memories are not touched."""
    with plans.recorded():
        USES[use](store)

    assert {line for line in plans.lines if " memories " in line} == {
        "SEARCH memories USING INTEGER PRIMARY KEY (rowid=?)"
    }


LISTED: dict[str, tuple[str, Use]] = {
    "get_many": ("memories", _in_transaction(lambda tx: tx.get_many(OWNER, ["a", "b"]))),
    "rows": ("memories", _in_transaction(lambda tx: tx.rows(OWNER, ["a", "b"]))),
    "ids of others": ("memories", _in_transaction(lambda tx: tx.ids_of_others(OWNER, ["a", "b"]))),
    "tombstones": ("tombstones", _in_transaction(lambda tx: tx.find_tombstones(OWNER, ["a", "b"]))),
    "known ids": ("memories", lambda store: store.integrity.known_ids(OWNER, ["a", "b"])),
    "erased": ("memories", _in_transaction(lambda tx: tx.erase_memories(OWNER, [1, 2]))),
    "stored files": ("files", USES["stored files"]),
    "files there": ("files", USES["files there"]),
}
"""What takes a list of names: the table that they are of, and how it is asked for."""


@pytest.mark.parametrize("name", LISTED)
def test_what_is_named_is_entered_by_its_name(store: SqlMetadataStore, plans: Plans, name: str) -> None:
    """However much the owner has besides: an import or an erasure goes through it in batches."""
    table, use = LISTED[name]
    with plans.recorded():
        use(store)

    entered = [line for line in plans.lines if f" {table} " in line]
    assert entered
    assert all(re.search(r"\((id|memory_id|rowid|row)=\?\)$", line) for line in entered)


@pytest.mark.parametrize("after", [None, CURSOR], ids=["first", "later"])
@pytest.mark.parametrize("field", OrderField, ids=str)
def test_lists_are_read_in_order_from_an_index(
    store: SqlMetadataStore, plans: Plans, field: OrderField, after: PageCursor | None
) -> None:
    """A page is merged from the projects' indexes: what is sorted is the page, not the list."""
    with plans.recorded():
        store.memories.page(reach=ADA, where=USUAL, order=Order(field), after=after, limit=9)

    assert plans.scans() == []
    assert any(line.startswith(f"SEARCH memories USING INDEX memories_{field.value} (") for line in plans.lines)
    assert {line for line in plans.lines if line.startswith("SEARCH")} <= {
        *(line for line in plans.lines if f"INDEX memories_{field.value} (owner=? AND project_id=?" in line),
        "SEARCH memories USING INTEGER PRIMARY KEY (rowid=?)",
    }
    sorts = [index for index, line in enumerate(plans.lines) if "TEMP B-TREE" in line]
    assert all(plans.lines[index - 1] == "SEARCH memories USING INTEGER PRIMARY KEY (rowid=?)" for index in sorts)


def test_rows_without_tokens_are_read_in_order_from_an_index(store: SqlMetadataStore, plans: Plans) -> None:
    """Tokens and vectors of each are looked up by their keys; nothing is sorted."""
    with plans.recorded():
        store.tokens.rows_without("m", given_model="e", after_row=1, limit=9)

    assert "SEARCH memories USING INDEX memories_indexed (row>?)" in plans.lines
    assert "SEARCH passage_tokens USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in plans.lines
    assert not any("TEMP B-TREE" in line for line in plans.lines)


def test_changes_are_read_in_order_from_an_index(store: SqlMetadataStore, plans: Plans) -> None:
    """A page of an owner's changes does not walk through those of others, nor is it sorted."""
    with plans.recorded():
        store.changes.after(1, reach=ADA, limit=9)

    entered = "SEARCH outbox USING INDEX outbox_reach (owner=? AND project_id=? AND position>?)"
    assert len([line for line in plans.lines if line == entered]) == len(ADA.project_ids)
    assert not any("TEMP B-TREE" in line for line in plans.lines)


def test_quarantined_memories_have_an_index_to_themselves(store: SqlMetadataStore, plans: Plans) -> None:
    """Listing the few that wait does not walk through all others."""
    waiting = And((AnyOf(Field.STATUS, ("QUARANTINED",)), Not(AnyOf(Field.LAYER, ("SESSION",)))))
    with plans.recorded():
        store.memories.page(reach=ADA, where=waiting, order=Order(), after=CURSOR, limit=9)

    assert any("USING INDEX memories_quarantined (" in line for line in plans.lines)
    assert not any("memories_create_time" in line for line in plans.lines)


@pytest.mark.parametrize(
    "area", [EVERYBODY, MaintenanceScope(OWNER), MaintenanceScope(OWNER, "web")], ids=["all", "owner", "project"]
)
@pytest.mark.parametrize("name", UPKEEP)
def test_upkeep_is_found_in_order_from_an_index(
    store: SqlMetadataStore, plans: Plans, name: str, area: MaintenanceScope
) -> None:
    """From the beginning and from a place in the list: nothing is sorted, and what is not due is not walked through."""
    index, use, places = UPKEEP[name]
    with plans.recorded():
        for place in places:
            use(store.upkeep, area, place)

    entered = [line for line in plans.lines if line.startswith(f"SEARCH memories USING INDEX {index} (")]
    assert len(entered) == len(plans.lines)


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_places_are_found_and_counted_in_one_index(store: SqlMetadataStore, plans: Plans, parts: int) -> None:
    """Each place is looked up, and its memories are counted in the index alone."""
    with plans.recorded():
        store.memories.places([PlacePart()] * parts, after=(), live=False, limit=9)

    entered = [line for line in plans.lines if " memories " in line]
    assert entered
    assert all(
        line.startswith(("SEARCH memories USING COVERING INDEX", "SCAN memories USING COVERING INDEX memories_scope"))
        for line in entered
    )
    assert {line for line in entered if line.startswith("SCAN")} == set()


def test_lists_by_key_are_read_from_the_index_of_keys(store: SqlMetadataStore, plans: Plans) -> None:
    """A page of the memories whose keys begin alike does not walk through the others."""
    for test in (AnyOf(Field.KEY, ("k",), Match.PREFIX), AnyOf(Field.KEY, ("k", "l"))):
        with plans.recorded():
            store.memories.page(reach=ADA, where=And((USUAL, test)), order=Order(), after=CURSOR, limit=9)

    entered = {line for line in plans.lines if " memories " in line}
    assert {line for line in entered if "unique_memory_key (owner=? AND project_id=? AND key" in line}
    assert not [line for line in entered if "memories_create_time" in line]
    assert plans.scans() == []


def test_numbers_in_metadata_are_found_by_the_index_of_terms(store: SqlMetadataStore, plans: Plans) -> None:
    """A range of numbers is one part of the table of terms, entered at its beginning."""
    with plans.recorded():
        store.memories.rows_where(Range(Field.METADATA, path="n", at_least=3.0), reach=ADA)

    assert any("memory_metadata" in line and "(owner=? AND term>? AND term<?)" in line for line in plans.lines)


@pytest.mark.parametrize("field", OrderField, ids=str)
def test_lists_of_a_session_are_read_from_its_index(store: SqlMetadataStore, plans: Plans, field: OrderField) -> None:
    """A page of one session does not walk through the memories of the others."""
    with plans.recorded():
        store.memories.page(reach=ADA, where=SESSION, order=Order(field), after=CURSOR, limit=9)

    searches = {line for line in plans.lines if line.startswith("SEARCH")}
    assert searches == {
        "SEARCH memories USING INDEX memories_session (owner=? AND project_id=? AND session_id=?)",
        "SEARCH memories USING INTEGER PRIMARY KEY (rowid=?)",
    }
