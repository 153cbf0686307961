"""The queue of webhooks: what it collects, the order of each owner, attempts, dead letters and erasure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.operations import WebhookDelivery, WebhookSelection
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import OWNER, StoreSeams, insert, purge, revise

_ALL = WebhookSelection("a", "", frozenset(), frozenset(ChangeAction))
_SECOND = timedelta(seconds=1)


def _collect(store: MetadataStore, selection: WebhookSelection = _ALL, limit: int = 100) -> int:
    """Collect everything; return how many deliveries were queued."""
    total = 0
    while True:
        read, queued = store.webhooks.collect(selection, limit=limit)
        total += queued
        if read < limit:
            return total


def _due(store: MetadataStore, endpoint: str = "a", limit: int = 99) -> list[WebhookDelivery]:
    return store.webhooks.due(endpoint, at=NOW, limit=limit)


class StoreWebhooksContract(StoreSeams):
    """`webhooks`."""

    def test_a_new_endpoint_begins_after_the_newest_change(self, store: MetadataStore) -> None:
        """Earlier changes are not queued; later ones are, once."""
        insert(store, factories.memory("before"))
        assert store.webhooks.state("a") is None
        assert _collect(store) == 0
        [memory] = insert(store, factories.memory("之后"))
        assert _collect(store) == 1
        assert _collect(store) == 0
        [delivery] = _due(store)
        assert (delivery.owner, delivery.change.memory_id) == (OWNER, memory.id)
        assert (delivery.change.revision, delivery.change.action) == (1, ChangeAction.CREATED)
        assert (delivery.attempts, delivery.first_time, delivery.next_time) == (0, None, None)
        state = store.webhooks.state("a")
        assert state is not None
        assert (state.pending, state.dead, state.is_gone, state.oldest) == (1, 0, False, NOW)

    def test_changes_that_are_no_longer_kept_are_passed_over(
        self, store: MetadataStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An endpoint that was off for too long gets the rest, and the log has a warning, once."""
        _collect(store)
        insert(store, factories.memory("1"))
        store.feed.mark_applied(store.feed.pending_changes(limit=9))
        store.feed.settle()
        assert store.feed.trim(before=NOW + _SECOND) == 1
        [kept] = insert(store, factories.memory("2"))

        assert _collect(store) == 1
        assert [one.change.memory_id for one in _due(store)] == [kept.id]
        assert _collect(store) == 0
        assert len([one for one in caplog.records if "were removed from the outbox" in one.message]) == 1

    def test_each_endpoint_gets_what_it_selects(self, store: MetadataStore) -> None:
        """Whole names of tenants and users, and actions; pages of any size give the same."""
        users = frozenset({factories.memory("", user_id="bob").scope.owner})
        some = WebhookSelection("b", "", users, frozenset({ChangeAction.CREATED}))
        tenant = WebhookSelection("c", "acme", frozenset(), frozenset(ChangeAction))
        for selection in (_ALL, some, tenant):
            _collect(store, selection)
        ours, bobs, _ = insert(
            store, factories.memory("1"), factories.memory("2", user_id="bob"), factories.memory("3", user_id="bobby")
        )
        foreign = factories.memory("4")
        [theirs] = insert(store, replace(foreign, scope=replace(foreign.scope, tenant_id="acme")))
        corp = factories.memory("5")
        insert(store, replace(corp, scope=replace(corp.scope, tenant_id="acme-corp")))
        purge(store, bobs)

        assert [_collect(store, one, limit=2) for one in (_ALL, some, tenant)] == [4, 1, 1]
        assert ours.id in [one.change.memory_id for one in _due(store)]
        assert [one.change.memory_id for one in _due(store, "b")] == [bobs.id]
        assert [one.change.memory_id for one in _due(store, "c")] == [theirs.id]

    def test_the_oldest_of_each_owner_is_due(self, store: MetadataStore) -> None:
        """The next one once it is done with; a later time holds back its owner alone."""
        _collect(store)
        [first] = insert(store, factories.memory("1"))
        revise(store, first, ChangeAction.UPDATED)
        [other] = insert(store, factories.memory("2", user_id="bob"))
        _collect(store)
        mine, bobs = _due(store)
        assert [mine.change.memory_id, bobs.change.memory_id] == [first.id, other.id]
        assert len(_due(store, limit=1)) == 1

        tried = replace(mine, attempts=1, first_time=NOW, next_time=NOW + _SECOND, status=500, error="没有")
        store.webhooks.settle([bobs], [tried])
        assert _due(store) == []
        [again] = store.webhooks.due("a", at=NOW + _SECOND, limit=9)
        assert again == tried
        store.webhooks.settle([again], [])
        [following] = _due(store)
        assert (following.change.memory_id, following.change.revision) == (first.id, 2)

    def test_dead_letters_are_listed_retried_and_dropped(self, store: MetadataStore) -> None:
        """By endpoint and position; a retried one is new; other endpoints and pending ones stay."""
        _collect(store)
        insert(store, *(factories.memory(f"{number}", user_id=f"u{number}") for number in range(4)))
        _collect(store)
        due = _due(store)
        dead = [replace(one, attempts=3, first_time=NOW, next_time=NOW, is_dead=True, status=404) for one in due[:3]]
        store.webhooks.settle([], dead)
        assert store.webhooks.dead_letters("", after=("", -1), limit=9) == dead
        place = (dead[0].endpoint, dead[0].change.position)
        assert store.webhooks.dead_letters("a", after=place, limit=1) == [dead[1]]
        assert store.webhooks.dead_letters("b", after=("", -1), limit=9) == []

        assert store.webhooks.retry("a", [dead[0].change.position, due[3].change.position]) == 1
        assert store.webhooks.drop("a", [dead[1].change.position]) == 1
        assert store.webhooks.drop("b", []) == 0
        assert [one.change.position for one in _due(store)] == [due[0].change.position, due[3].change.position]
        assert _due(store)[0].attempts == 0
        assert store.webhooks.retry("a", []) == 1

    def test_an_endpoint_is_turned_off_and_on(self, store: MetadataStore) -> None:
        """Its queue stays."""
        _collect(store)
        store.webhooks.set_gone("a", NOW)
        off = store.webhooks.state("a")
        store.webhooks.set_gone("a", None)
        on = store.webhooks.state("a")
        assert off is not None
        assert on is not None
        assert (off.is_gone, on.is_gone) == (True, False)

    def test_an_erasure_removes_what_is_queued(self, store: MetadataStore) -> None:
        """Pending ones and dead letters of the owner, also when an attempt ends afterwards; those of others stay."""
        _collect(store)
        insert(store, factories.memory("1"))
        insert(store, factories.memory("2"), factories.memory("3", user_id="bob"))
        _collect(store)
        mine, bobs = _due(store)
        store.webhooks.settle([], [replace(mine, is_dead=True)])
        with store.transaction() as transaction:
            transaction.begin_erasure(Erasure(owner_digest(OWNER), OWNER, "r", NOW))
            while transaction.erase_rest(OWNER, limit=1):
                pass
        store.webhooks.settle([], [replace(mine, attempts=9)])

        assert store.webhooks.dead_letters("", after=("", -1), limit=9) == []
        assert _due(store) == [bobs]
        assert _collect(store) == 0
