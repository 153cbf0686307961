"""Isolation: no read returns or counts memories outside its reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memsvc.domain.filters import And
from memsvc.domain.memory import Keyword, Memory
from memsvc.domain.scope import OWNER_SEPARATOR, Reach
from memsvc.domain.search import Order, OrderField, WordMatch
from memsvc.ports.metadata import ContentName, MetadataStore
from memsvc.testing import factories
from memsvc.testing.store_harness import StoreSeams, insert

Look = Callable[[MetadataStore, Memory, Reach], object]


def _transaction(look: Callable[..., object]) -> Look:
    def run(store: MetadataStore, memory: Memory, reach: Reach) -> object:
        with store.transaction() as transaction:
            return look(transaction, memory, reach)

    return run


def _pages(store: MetadataStore, _: Memory, reach: Reach) -> object:
    orders = [Order(field, descending) for field in OrderField for descending in (True, False)]
    return [
        memory
        for order in orders
        for memory in store.memories.page(reach=reach, where=None, order=order, after=None, limit=9)
    ]


LOOKS: dict[str, Look] = {
    "get": lambda store, memory, reach: store.memories.get([memory.id], reach=reach),
    "get_by_key": lambda store, memory, reach: store.memories.get_by_key(memory.key, reach=reach),
    "by_rows": lambda store, memory, reach: store.memories.by_rows([memory.row], reach=reach),
    "page": _pages,
    "candidates": lambda store, memory, reach: [*store.memories.candidates([memory.row], reach=reach)],
    "keyword_hits": lambda store, _, reach: store.memories.keyword_hits(["word"], reach=reach, where=None, limit=9),
    "keyword_hits where": lambda store, _, reach: store.memories.keyword_hits(
        ["word"], reach=reach, where=And(()), limit=9
    ),
    "keywords_with": lambda store, _, reach: store.memories.keywords_with(
        ["wo"], reach=reach, where=None, match=WordMatch.PREFIX, limit=9
    ),
    "rows_where": lambda store, _, reach: store.memories.rows_where(And(()), reach=reach),
    "revision": lambda store, memory, reach: store.memories.revision(memory.id, 1, reach=reach),
    "counts": lambda store, _, reach: store.memories.counts(reach=reach).by_status,
    "transaction.get": _transaction(lambda transaction, memory, reach: transaction.get(memory.id, reach=reach)),
    "find_keys": _transaction(
        lambda transaction, memory, reach: transaction.find_keys(
            reach.owner, [(project, memory.key) for project in reach.project_ids]
        )
    ),
    "find_contents": _transaction(
        lambda transaction, memory, reach: transaction.find_contents(
            reach.owner, [ContentName(project, "FACT", memory.content_hash) for project in reach.project_ids]
        )
    ),
    "last_row": _transaction(
        lambda transaction, memory, reach: [
            row
            for project in reach.project_ids
            if (row := transaction.last_row(reach.owner, project, memory.scope.session_id)) is not None
        ]
    ),
}
"""A question for every method that is held to a reach or an owner."""

OWNER = f"t{OWNER_SEPARATOR}acme"
OTHERS = [
    f"t{OWNER_SEPARATOR}acme-corp",
    f"t{OWNER_SEPARATOR}acm",
    f"t{OWNER_SEPARATOR}ACME",
    f"t{OWNER_SEPARATOR}acme ",
    f"t{OWNER_SEPARATOR}a_me",
    f"t{OWNER_SEPARATOR}%",
    f"t{OWNER_SEPARATOR}ａｃｍｅ",
    f"{OWNER_SEPARATOR}acme",
    f"t2{OWNER_SEPARATOR}acme",
    "acme",
    "",
]
PROJECTS = ["web-2", "we", "WEB", "web ", "w_b", "%", ""]


class StoreReachContract(StoreSeams):
    """Owners and projects are compared whole."""

    @pytest.fixture
    def memory(self, store: MetadataStore) -> Memory:
        """Store a memory that every question finds within its reach."""
        fields = {"tenant_id": "t", "user_id": "acme", "project_id": "web", "session_id": "s", "key": "k"}
        return insert(store, factories.memory("secret", keywords=(Keyword("word", 1.0),), **fields))[0]

    @pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
    def test_nothing_is_seen_from_outside(self, store: MetadataStore, memory: Memory, look: Look) -> None:
        """Other owners and projects, however alike, see nothing; no projects, nothing; the own, the memory."""
        assert look(store, memory, Reach(OWNER, ("web",)))
        assert look(store, memory, Reach(OWNER, ("", "web")))
        for other in OTHERS:
            assert not look(store, memory, Reach(other, ("web", "")))
        assert not look(store, memory, Reach(OWNER, tuple(PROJECTS)))
        assert not look(store, memory, Reach(OWNER, ()))

    @pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
    def test_everyone_sees_the_own(self, store: MetadataStore, memory: Memory, look: Look) -> None:
        """The same key, content, keyword and session in another place is another memory, and changes no answer here."""
        before = look(store, memory, Reach(OWNER, ("web",)))
        places = [(owner, "web") for owner in OTHERS if OWNER_SEPARATOR in owner]
        places += [(OWNER, project) for project in PROJECTS]
        for owner, project in places:
            tenant, _, user = owner.partition(OWNER_SEPARATOR)
            place = {"tenant_id": tenant, "user_id": user, "project_id": project}
            fields = {"session_id": "s", "key": "k", "keywords": (Keyword("word", 1.0),)}
            [own] = insert(store, factories.memory("secret", **place, **fields))

            assert look(store, own, Reach(owner, (project,)))
            assert not look(store, memory, Reach(owner, ("nowhere",)))
        assert look(store, memory, Reach(OWNER, ("web",))) == before
