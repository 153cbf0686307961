"""Reads of the memories that an agent loads at its start."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from memsvc.domain.context import Essential
from memsvc.domain.memory import Kind, Layer, Memory, Status, Tier
from memsvc.ports.metadata import MetadataStore
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import ADA, StoreSeams, insert, purge, reach_of, revise

FITTING: dict[Essential, tuple[dict[str, Any], ...]] = {
    Essential.CORE: ({"layer": Layer.CORE}, {"tier": Tier.CORE}),
    Essential.ACTIVE: ({"tier": Tier.ACTIVE},),
    Essential.PREFERENCE: ({"kind": Kind.PREFERENCE},),
}

PASSED_OR_COMING: tuple[dict[str, Any], ...] = (
    {"expire_time": NOW},
    {"valid_to": NOW},
    {"valid_from": NOW + timedelta(microseconds=1)},
)
"""Each is not in use at NOW, by the least difference."""
HOLDING: dict[str, Any] = {
    "expire_time": NOW + timedelta(microseconds=1),
    "valid_to": NOW + timedelta(microseconds=1),
    "valid_from": NOW,
}

_numbers = count(1)


def distinct(**fields: Any) -> Memory:
    """Return a memory whose content no other has."""
    return factories.memory(f"Number {next(_numbers)}.", **fields)


class StoreEssentialsContract(StoreSeams):
    """Core memories, active ones, preferences."""

    @pytest.mark.parametrize("essential", Essential)
    def test_each_sort_is_found(self, store: MetadataStore, essential: Essential) -> None:
        """The most important first, equal ones in the order of writing; at most as many as asked for."""
        wanted: list[Memory] = []
        for fields in FITTING[essential]:
            made = [distinct(importance=importance, **fields) for importance in (2, 5, 2)]
            wanted += insert(store, *made)
            insert(store, distinct())
        wanted.sort(key=lambda memory: (-memory.importance, memory.row))

        assert store.memories.essentials(essential, reach=ADA, now=NOW, limit=100) == wanted
        assert store.memories.essentials(essential, reach=ADA, now=NOW, limit=2) == wanted[:2]
        assert store.memories.essentials(essential, reach=ADA, now=NOW, limit=0) == []

    @pytest.mark.parametrize("essential", Essential)
    def test_only_what_is_in_use_counts(self, store: MetadataStore, essential: Essential) -> None:
        """Another status, a private memory, a purged one and one that does not hold now are left out.

        Work in progress does not expire.
        """
        fields = FITTING[essential][-1]
        made = [distinct(status=status, **fields) for status in Status if status is not Status.ACTIVE]
        made.append(distinct(layer=Layer.SESSION, session_id="s", **fields))
        if essential is not Essential.ACTIVE:
            made.append(distinct(**{"layer": Layer.CORE} | fields | {"tier": Tier.ARCHIVED}))
        made += [distinct(**fields, **times, importance=5) for times in PASSED_OR_COMING]
        kept = distinct(**fields, **HOLDING)
        *_, kept, changed, gone = insert(store, *made, kept, distinct(**fields), distinct(**fields))
        revise(store, changed, layer=Layer.LONG_TERM, tier=Tier.CONTEXTUAL, kind=Kind.FACT)
        purge(store, gone)

        assert store.memories.essentials(essential, reach=ADA, now=NOW, limit=1) == [kept]
        assert store.memories.essentials(essential, reach=ADA, now=NOW, limit=100) == [kept]
        [work] = insert(store, distinct(**fields, expire_time=NOW, work_in_progress=True))
        assert store.memories.essentials(essential, reach=ADA, now=NOW, limit=100) == [kept, work]

    @pytest.mark.parametrize("essential", Essential)
    def test_the_next_one_to_begin_is_foretold(self, store: MetadataStore, essential: Essential) -> None:
        """To the microsecond; not what is not essential, private, archived, of others, or holds already.

        What had begun when it was written holds, although the clock was set back since.
        """
        fields = FITTING[essential][0]
        soon, later = NOW + timedelta(hours=1, microseconds=1), NOW + timedelta(hours=2)
        assert store.memories.next_essential(reach=ADA, now=NOW) is None

        insert(
            store,
            distinct(valid_from=NOW, **fields),
            distinct(valid_from=NOW + timedelta(minutes=1)),
            distinct(valid_from=NOW + timedelta(minutes=2), status=Status.ARCHIVED, **fields),
            distinct(valid_from=NOW + timedelta(minutes=3), user_id="bob", **fields),
            distinct(valid_from=later, project_id="web", **fields),
            distinct(valid_from=soon, **fields),
            distinct(valid_from=NOW + timedelta(minutes=4), create_time=later, **fields),
        )

        assert store.memories.next_essential(reach=ADA, now=NOW) == soon
        assert store.memories.next_essential(reach=ADA, now=soon) == later
        assert store.memories.next_essential(reach=reach_of(projects=("web-2",)), now=NOW) is None

    @pytest.mark.parametrize("essential", Essential)
    def test_reach_holds(self, store: MetadataStore, essential: Essential) -> None:
        """Of the owner and the projects asked for alone."""
        fields = FITTING[essential][0]
        here, there, _, _ = insert(
            store,
            distinct(project_id="web", **fields),
            distinct(**fields),
            distinct(project_id="web-2", **fields),
            distinct(user_id="ada-2", project_id="web", **fields),
        )

        assert store.memories.essentials(essential, reach=reach_of(projects=("web", "")), now=NOW, limit=9) == [
            here,
            there,
        ]
        assert store.memories.essentials(essential, reach=reach_of(projects=()), now=NOW, limit=9) == []

    def test_a_session_is_read_from_its_end(self, store: MetadataStore) -> None:
        """Messages and private memories in use, the newest first; not those of other sessions, projects or owners."""
        talk: dict[str, Any] = {"session_id": "s", "project_id": "web"}
        first, second, *_ = insert(
            store,
            distinct(kind=Kind.MESSAGE, **talk),
            distinct(layer=Layer.SESSION, **talk),
            distinct(**talk),
            distinct(kind=Kind.MESSAGE, status=Status.ARCHIVED, **talk),
            distinct(kind=Kind.MESSAGE, **talk | {"session_id": "s2"}),
            distinct(kind=Kind.MESSAGE, **talk | {"project_id": "web-2"}),
            distinct(kind=Kind.MESSAGE, user_id="ada-2", **talk),
            distinct(kind=Kind.MESSAGE, tier=Tier.ARCHIVED, **talk),
            *(distinct(kind=Kind.MESSAGE, **talk, **times) for times in PASSED_OR_COMING),
        )
        web = reach_of(projects=("web",))

        assert store.memories.session_rows("s", reach=web, now=NOW, limit=9) == [second.row, first.row]
        assert store.memories.session_rows("s", reach=web, now=NOW, limit=1) == [second.row]
        assert store.memories.session_rows("s", reach=web, now=NOW, limit=0) == []
        assert store.memories.session_rows("", reach=web, now=NOW, limit=9) == []

    def test_recent_memories_are_those_changed_last(self, store: MetadataStore) -> None:
        """SHORT_TERM ones in use, from the moment given on, whenever they were made."""

        def note(hours: int, **fields: Any) -> Memory:
            moment = NOW - timedelta(hours=hours)
            return distinct(layer=Layer.SHORT_TERM, create_time=NOW - timedelta(days=9), update_time=moment, **fields)

        three, one, again, *_ = insert(
            store, note(3), note(1), note(1), note(4), note(1, status=Status.ARCHIVED), note(1, user_id="bob"),
            distinct(), note(0, tier=Tier.ARCHIVED), *(note(0, **times) for times in PASSED_OR_COMING),
        )  # fmt: skip
        since = NOW - timedelta(hours=3)

        assert store.memories.recent_rows(since=since, reach=ADA, now=NOW, limit=9) == [again.row, one.row, three.row]
        assert store.memories.recent_rows(since=since, reach=ADA, now=NOW, limit=2) == [again.row, one.row]
        assert store.memories.recent_rows(since=since, reach=reach_of(projects=("web",)), now=NOW, limit=9) == []
        assert store.memories.recent_rows(since=since, reach=ADA, now=NOW, limit=0) == []
