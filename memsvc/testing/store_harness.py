"""Harness of the metadata store's contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory
from memsvc.domain.scope import Reach, Scope
from memsvc.ports.metadata import MetadataStore, Record
from memsvc.testing.factories import NOW

EVERYWHERE = ("", "web", "web-2")
"""The projects that the tests use."""


class Clock:
    """The clock of a store under test: it stops at the time that is set."""

    def __init__(self) -> None:
        """Start at the time of `memsvc.testing.factories`."""
        self.moment = NOW

    def __call__(self) -> datetime:
        """Return the time."""
        return self.moment


class StoreSeams:
    """Fixtures of a binding: `store`, a fresh store that runs by the fixture `clock`.

    It gives `close` too, which leaves the store's context, and `reopen` when the store keeps its data: that closes
    the store and returns another on the same data.
    """

    @pytest.fixture(autouse=True)
    def true_amounts(self, store: MetadataStore) -> Iterator[None]:
        """Check after every test, unless the store is closed, that the stored amounts are those that are there."""
        yield
        with suppress(BackendClosedError):
            assert store.quotas.drift() == {}

    @pytest.fixture
    def clock(self) -> Clock:
        """Return the clock that the binding passes to the store."""
        return Clock()

    @pytest.fixture
    def let_pass(self, clock: Clock) -> Callable[[timedelta], None]:
        """Let a time pass for leases, claims and rates of calls; a store with a clock of its own overrides it."""

        def run(time: timedelta) -> None:
            clock.moment += time

        return run

    @pytest.fixture
    def close(self) -> Callable[[], None]:
        """Close the store under test."""
        pytest.skip("the binding does not close its store")

    @pytest.fixture
    def reopen(self) -> Callable[[], MetadataStore]:
        """Close the store under test and open another on the same data."""
        pytest.skip("the store does not keep its data")


def reach_of(user_id: str = "ada", projects: tuple[str, ...] = EVERYWHERE, tenant_id: str = "") -> Reach:
    """Return the reach of a user over *projects*."""
    return Reach(Scope(user_id, tenant_id=tenant_id).owner, projects)


ADA = reach_of()
OWNER = ADA.owner


def insert(store: MetadataStore, *new: Memory | Record) -> list[Memory]:
    """Insert in one transaction."""
    with store.transaction() as transaction:
        return transaction.insert([one if isinstance(one, Record) else Record(one) for one in new])


def revise(
    store: MetadataStore, before: Memory, action: ChangeAction = ChangeAction.UPDATED, /, **changes: Any
) -> Memory:
    """Write the next revision of a memory, with these fields changed, in one transaction."""
    after = replace(before, revision=before.revision + 1, **changes)
    with store.transaction() as transaction:
        transaction.update(before, Record(after), action)
    return after


def purge(store: MetadataStore, *memories: Memory) -> None:
    """Purge in one transaction."""
    with store.transaction() as transaction:
        for memory in memories:
            transaction.purge(memory)
