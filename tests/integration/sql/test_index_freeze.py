"""Where processes share a store, one can have the indexes stand still: nobody applies a change meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest
from pydantic import SecretStr

from memsvc.domain.errors import BackendUnavailableError
from memsvc.ports.metadata import MetadataStore
from memsvc.ports.plugin import BackendContext
from memsvc.testing import factories
from memsvc.testing.store_harness import insert
from memsvc_backends.sql import SQL, SqlSettings, outbox
from tests.support.postgres_server import emptied
from tests.support.until import PATIENCE_SECONDS


@pytest.fixture
def stores(context: BackendContext) -> Iterator[tuple[MetadataStore, MetadataStore]]:
    """Open the same database twice, as two processes would."""
    with emptied("still") as url:
        settings = SqlSettings(url=SecretStr(url))
        with SQL.open(settings, context) as one, SQL.open(settings, context) as other:
            yield one, other


def _lent(store: MetadataStore) -> int:
    with store.feed.claim((), limit=9) as changes:
        return len(changes)


def test_nobody_is_lent_changes_while_one_holds_the_indexes_still(stores: tuple[MetadataStore, MetadataStore]) -> None:
    """Who asks waits until it is over."""
    one, other = stores
    insert(one, factories.memory("a"))
    with ThreadPoolExecutor(1) as pool:
        with one.feed.pause():
            asked = pool.submit(_lent, other)
            with pytest.raises(FutureTimeoutError):
                asked.result(0.2)
        assert asked.result(PATIENCE_SECONDS) == 1


def test_the_indexes_stand_still_when_all_is_given_back(
    stores: tuple[MetadataStore, MetadataStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lent is waited for; whoever never gives it back makes it fail, and all goes on as before."""
    one, other = stores
    insert(one, factories.memory("a"))
    monkeypatch.setattr(outbox, "WAIT_MS", 20)
    monkeypatch.setattr(outbox, "PATIENCE", 2)
    with one.feed.claim((), limit=9), pytest.raises(BackendUnavailableError), other.feed.pause():
        pass
    with other.feed.pause():
        pass
    assert _lent(other) == 1


def test_a_store_of_one_process_has_nobody_to_wait_for(store: MetadataStore) -> None:
    """It stands still by itself, also while its only process applies changes."""
    insert(store, factories.memory("a"))
    with store.feed.claim((), limit=9) as changes, store.feed.pause():
        assert len(changes) == 1
