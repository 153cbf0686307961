"""Statements are found by their topics, and conflicts are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

from memsvc.domain.conflicts import Conflict, ConflictState, Fact, Rule, ValuePart
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Layer, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.ports.features import StoredFact
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, OWNER, StoreSeams, insert, purge, reach_of, revise

HOME = Fact(Rule.LOCATION, "home of anna", (ValuePart("place", "lisbon"),))
DOG = Fact(Rule.GENERAL, "小王 狗", (ValuePart("date", "03-05"), ValuePart("value", "旺财")), positive=False)
_numbers = count(1)


def conflict(older: Memory, newer: Memory, **fields: Any) -> Conflict:
    """Return an open conflict of two memories with a fresh id, the ids ascending."""
    plain = Conflict(
        id=f"01890000-0000-7000-9000-{next(_numbers):012x}",
        owner=older.scope.owner,
        project_id=older.scope.project_id,
        older_id=older.id,
        newer_id=newer.id,
        rule=Rule.LOCATION,
        topic="home of anna",
        older_value="lisbon",
        newer_value="波尔图",
        create_time=NOW,
    )
    return replace(plain, **fields)


def stating(content: str, *statements: Fact, **fields: Any) -> Record:
    """Return the record of a new memory that states something."""
    return Record(factories.memory(content, **fields), statements=statements)


class StoreConflictsContract(StoreSeams):
    """Contract of conflicts."""

    def test_statements_are_found_by_topic(self, store: MetadataStore) -> None:
        """Of exactly the owner and project, whole, those of newer memories first, at most so many of each topic."""
        one, two, three = insert(store, stating("1", HOME, DOG), stating("2", HOME), stating("3", HOME))
        insert(store, stating("4", HOME, project_id="web"), stating("5", HOME, user_id="bob"), stating("6"))

        with store.transaction() as transaction:
            found = transaction.find_facts(OWNER, "", ["小王 狗", HOME.topic, "home of ann", HOME.topic], limit=2)
            assert transaction.find_facts(OWNER, "", [], limit=2) == []
            assert transaction.find_facts(OWNER, "", [HOME.topic], limit=0) == []
            before = transaction.find_facts(OWNER, "", [HOME.topic], limit=1, without=range(two.row + 1, three.row + 1))
            around = transaction.find_facts(OWNER, "", [HOME.topic], limit=9, without=range(two.row, two.row + 1))
        assert before == [StoredFact(two.id, HOME)]
        assert around == [StoredFact(three.id, HOME), StoredFact(one.id, HOME)]
        assert found == [StoredFact(one.id, DOG), StoredFact(three.id, HOME), StoredFact(two.id, HOME)]

    def test_statements_are_of_active_memories(self, store: MetadataStore) -> None:
        """An archived memory states nothing until it is ACTIVE again; None leaves its statements alone."""
        [memory] = insert(store, stating("1", HOME))

        def found() -> list[StoredFact]:
            with store.transaction() as transaction:
                return transaction.find_facts(OWNER, "", [HOME.topic], limit=9)

        away = revise(store, memory, status=Status.CONFLICTED)
        assert found() == []
        back = revise(store, away, status=Status.ACTIVE)
        assert found() == [StoredFact(memory.id, HOME)]
        after = Record(replace(back, revision=back.revision + 1), statements=(DOG,))
        with store.transaction() as transaction:
            transaction.update(back, after, ChangeAction.UPDATED)
        assert found() == []
        purge(store, after.memory)
        assert found() == []

    def test_memories_with_statements_are_read_page_by_page(self, store: MetadataStore) -> None:
        """Of a project by create_time, of all owners by row; earlier statements of a topic, the latest first."""
        days = [timedelta(days=day) for day in (2, 0, 1)]
        late, early, middle = insert(
            store, *(stating(f"{day}", HOME, create_time=NOW + day) for day in days)
        )  # fmt: skip
        core = stating("core", HOME, DOG, layer=Layer.CORE, create_time=NOW + timedelta(days=3))
        [fourth] = insert(store, core)
        bob, _ = insert(store, stating("5", HOME, user_id="bob"), stating("6"))
        reads = store.statements

        def page(**fields: Any) -> list[str]:
            chosen: dict[str, Any] = {"layers": (), "since": None, "after": (), "limit": 9} | fields
            return [one.memory_id for one in reads.memories_with_facts(OWNER, "", **chosen)]

        assert page() == [early.id, middle.id, late.id, fourth.id]
        first = reads.memories_with_facts(OWNER, "", layers=(), since=None, after=(), limit=2)
        assert page(after=first[-1].place) == [late.id, fourth.id]
        assert page(since=NOW + days[2], limit=2) == [middle.id, late.id]
        assert page(layers=(Layer.CORE,)) == [fourth.id]
        assert reads.memories_with_facts(OWNER, "web", layers=(), since=None, after=(), limit=9) == []
        rows = reads.rows_with_facts(after=early.row, limit=3)
        assert [one.memory_id for one in rows] == [middle.id, fourth.id, bob.id]
        assert (rows[1].owner, rows[1].project_id, rows[1].update_time) == (OWNER, "", fourth.update_time)
        assert set(rows[1].statements) == {HOME, DOG}
        earlier = reads.facts_before(OWNER, "", HOME.topic, row=middle.row, limit=9)
        assert earlier == [StoredFact(early.id, HOME), StoredFact(late.id, HOME)]
        assert reads.facts_before(OWNER, "", HOME.topic, row=middle.row, limit=1) == earlier[:1]

    def test_memories_are_found_by_their_topics(self, store: MetadataStore) -> None:
        """The newest first, each once; of the named projects and of the owner alone."""
        both, dog, web = insert(store, stating("1", HOME, DOG), stating("2", DOG), stating("3", HOME, project_id="web"))
        insert(store, stating("4", HOME, user_id="bob"), stating("5"))

        def rows(projects: Sequence[str], *topics: str, limit: int = 9) -> list[int]:
            return store.statements.rows_on_topics(OWNER, projects, topics, limit=limit)

        assert rows([""], HOME.topic, DOG.topic) == [dog.row, both.row]
        assert rows(["", "web"], HOME.topic, "home of ann") == [web.row, both.row]
        assert rows(["", "web"], HOME.topic, DOG.topic, limit=2) == [web.row, dog.row]
        assert rows([""]) == rows([], HOME.topic) == rows([""], HOME.topic, limit=0) == rows(["shop"], HOME.topic) == []

    def test_conflicts_of_memories_are_found_in_every_state(self, store: MetadataStore) -> None:
        """By either side, and those of which both sides are named; of the owner alone."""
        a, b, c = insert(store, *(factories.memory(text) for text in "abc"))
        made = [conflict(a, b, state=ConflictState.KEPT_BOTH, resolve_time=NOW), conflict(b, c)]
        with store.transaction() as transaction:
            transaction.add_conflicts(made)
            assert transaction.conflicts_between(OWNER, [a.id, b.id]) == made[:1]
            assert transaction.conflicts_between(OWNER, [a.id, c.id]) == []
            assert transaction.conflicts_between(OWNER, []) == []

        assert store.statements.conflicts_of(OWNER, [b.id]) == made
        assert store.statements.conflicts_of(OWNER, [c.id]) == made[1:]
        assert store.statements.conflicts_of("someone", [b.id]) == store.statements.conflicts_of(OWNER, []) == []

    def test_conflicts_are_kept(self, store: MetadataStore) -> None:
        """Every field comes back, after a change too; what is settled is no longer open."""
        older, newer, other = insert(store, *(factories.memory(text) for text in "abc"))
        made = conflict(older, newer)
        with store.transaction() as transaction:
            transaction.add_conflicts([made])
            transaction.add_conflicts([])
            assert transaction.get_conflict(made.id, reach=ADA) == made
            assert transaction.open_conflicts(OWNER, [newer.id]) == [made]
            assert transaction.open_conflicts(OWNER, [older.id, newer.id]) == [made]
            assert transaction.open_conflicts(OWNER, [other.id]) == transaction.open_conflicts(OWNER, []) == []
        assert store.conflicts.get([made.id, "x"], reach=ADA) == {made.id: made}

        done = replace(
            made, newer_id=other.id, newer_value="x", state=ConflictState.KEPT_BOTH, resolve_time=NOW + timedelta(1)
        )
        with store.transaction() as transaction:
            transaction.settle_conflicts([done])
            assert transaction.open_conflicts(OWNER, [older.id]) == []
        assert store.conflicts.get([made.id], reach=ADA) == {made.id: done}

    def test_conflicts_over_a_memory_are_found(self, store: MetadataStore) -> None:
        """Those of every state in which it is the older side, newest first; of its owner alone."""
        a, b, c = insert(store, *(factories.memory(text) for text in "abc"))
        made = [conflict(a, b, state=ConflictState.REJECTED, resolve_time=NOW), conflict(b, c), conflict(a, c)]
        with store.transaction() as transaction:
            transaction.add_conflicts(made)

            assert transaction.conflicts_over(OWNER, a.id, limit=9) == [made[2], made[0]]
            assert transaction.conflicts_over(OWNER, a.id, limit=1) == [made[2]]
            assert transaction.conflicts_over(OWNER, c.id, limit=9) == []
            assert transaction.conflicts_over(Scope("bob").owner, a.id, limit=9) == []
            assert transaction.conflicts_over(OWNER, a.id, limit=0) == []

    def test_superseded_memories_are_found(self, store: MetadataStore) -> None:
        """All that one superseded, of any project and status, as the transaction has them; of its owner alone."""
        one, far, other = insert(
            store,
            factories.memory("1", superseded_by_id="new", status=Status.SUPERSEDED),
            factories.memory("2", superseded_by_id="new", project_id="web", status=Status.DELETED),
            factories.memory("3", superseded_by_id="newer"),
        )
        insert(store, factories.memory("4", superseded_by_id="new", user_id="bob"), factories.memory("5"))
        with store.transaction() as transaction:
            assert transaction.superseded_by(OWNER, "new") == [one, far]
            after = replace(other, superseded_by_id="new", revision=2)
            transaction.update(other, Record(after), ChangeAction.UPDATED)

            assert transaction.superseded_by(OWNER, "new") == [one, far, after]
            assert transaction.superseded_by(OWNER, "newer") == transaction.superseded_by(OWNER, "") == []

    def test_conflicts_survive_a_restart(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """Reopening a closed store keeps what was committed."""
        older, newer = insert(store, stating("a", HOME), factories.memory("b"))
        made = conflict(older, newer)
        with store.transaction() as transaction:
            transaction.add_conflicts([made])
        again = reopen()

        assert again.conflicts.get([made.id], reach=ADA) == {made.id: made}
        with again.transaction() as transaction:
            assert transaction.find_facts(OWNER, "", [HOME.topic], limit=9) == [StoredFact(older.id, HOME)]

    def test_conflicts_go_with_a_memory(self, store: MetadataStore) -> None:
        """A purge of either side removes them."""
        a, b, c = insert(store, *(factories.memory(text) for text in "abc"))
        first, second, third = conflict(a, b), conflict(b, c), conflict(a, c)
        with store.transaction() as transaction:
            transaction.add_conflicts([first, second, third])
        purge(store, b)

        assert store.conflicts.get([first.id, second.id, third.id], reach=ADA) == {third.id: third}

    def test_conflicts_are_taken_back(self, store: MetadataStore) -> None:
        """A savepoint that fails leaves none."""
        a, b = insert(store, *(factories.memory(text) for text in "ab"))
        with store.transaction() as transaction:
            with suppress(KeyError), transaction.savepoint():
                transaction.add_conflicts([conflict(a, b)])
                raise KeyError
            assert transaction.open_conflicts(OWNER, [a.id]) == []

    def test_conflicts_page_newest_first(self, store: MetadataStore) -> None:
        """Pages go on below an id, in the states asked for, of one memory when asked."""
        a, b, c = insert(store, *(factories.memory(text) for text in "abc"))
        made = [conflict(a, b), conflict(b, c), conflict(a, c, state=ConflictState.CLOSED, resolve_time=NOW)]
        with store.transaction() as transaction:
            transaction.add_conflicts(made)

        def page(*states: ConflictState, memory_id: str = "", before: str = "", limit: int = 9) -> list[Conflict]:
            return store.conflicts.page(reach=ADA, states=states, memory_id=memory_id, before=before, limit=limit)

        assert page(*ConflictState) == made[::-1]
        assert page(*ConflictState, limit=2) == [made[2], made[1]]
        assert page(*ConflictState, before=made[1].id) == [made[0]]
        assert page(ConflictState.OPEN) == [made[1], made[0]]
        assert page(ConflictState.OPEN, memory_id=a.id) == [made[0]]
        assert page(*ConflictState, memory_id=c.id) == [made[2], made[1]]
        assert page() == page(*ConflictState, limit=0) == []

    def test_conflicts_keep_to_their_reach(self, store: MetadataStore) -> None:
        """Other owners, tenants and projects see and find nothing."""
        made = []
        for fields in ({"project_id": "web"}, {}):
            a, b = insert(store, *(factories.memory(text, **fields) for text in "ab"))
            made.append(conflict(a, b))
        with store.transaction() as transaction:
            transaction.add_conflicts(made)

        for reach in (reach_of("ad"), reach_of("ada-2"), reach_of(tenant_id="t"), reach_of(projects=("we", "web-2"))):
            assert store.conflicts.get([one.id for one in made], reach=reach) == {}
            assert (
                store.conflicts.page(reach=reach, states=tuple(ConflictState), memory_id="", before="", limit=9) == []
            )
            with store.transaction() as transaction:
                assert transaction.get_conflict(made[0].id, reach=reach) is None
        with store.transaction() as transaction:
            assert transaction.open_conflicts(Scope("bob").owner, [made[0].older_id]) == []
        found = store.conflicts.page(
            reach=reach_of(projects=("web",)), states=tuple(ConflictState), memory_id="", before="", limit=9
        )
        assert found == [made[0]]
