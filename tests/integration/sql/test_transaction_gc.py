"""What a transaction leaves behind: nothing that only a look for garbage would find, while every search waits."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from memsvc.ports.metadata import Record
from memsvc.testing import factories
from memsvc_backends.sql import SqlMetadataStore


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Let objects go only when nothing refers to them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_transaction_and_what_it_wrote_go_when_it_ends(store: SqlMetadataStore) -> None:
    """It knows its sessions and files, and these know it; that must not keep all of them."""
    with store.transaction() as transaction:
        transaction.insert([Record(factories.memory())])
        assert transaction.sessions is not None
        assert transaction.files is not None
        remains = weakref.ref(transaction)
    del transaction

    assert remains() is None
