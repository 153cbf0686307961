"""The contract of `memsvc.ports.metadata.MetadataStore`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from memsvc.domain.errors import BackendClosedError
from memsvc.domain.filters import And
from memsvc.domain.index_entries import MAX_ORDINAL, ChangeAction, View, entry_id, row_of
from memsvc.domain.memory import Memory, Status
from memsvc.domain.reminders import window
from memsvc.domain.search import Order
from memsvc.ports.change_feed import PassageTokens
from memsvc.ports.metadata import MetadataStore, Record, RequestRecord
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_api_keys import StoreKeysContract, StoreQuotasContract
from memsvc.testing.store_conflicts import StoreConflictsContract
from memsvc.testing.store_core_context import StoreEssentialsContract
from memsvc.testing.store_erasure import StoreErasureContract
from memsvc.testing.store_files import StoreFileFindingContract, StoreFilesContract, StoreFileTextsContract
from memsvc.testing.store_filters import StoreFiltersContract
from memsvc.testing.store_harness import ADA, OWNER, Clock, insert, purge, revise
from memsvc.testing.store_history import StoreChangesContract, StoreHistoryContract
from memsvc.testing.store_integrity import StoreIntegrityContract
from memsvc.testing.store_isolation import StoreReachContract
from memsvc.testing.store_maintenance import StoreLogsContract, StoreUpkeepContract
from memsvc.testing.store_outbox import StoreFeedContract
from memsvc.testing.store_reads import StoreListsContract, StorePlacesContract, StoreReadsContract
from memsvc.testing.store_reminders import StoreRemindersContract
from memsvc.testing.store_sessions import StoreSessionsContract
from memsvc.testing.store_transactions import StoreTransactionsContract
from memsvc.testing.store_uniqueness import StoreNamesContract
from memsvc.testing.store_use import StoreUseContract
from memsvc.testing.store_user_data import StoreTransferContract
from memsvc.testing.store_vault import StoreVaultContract
from memsvc.testing.store_webhooks import StoreWebhooksContract
from memsvc.testing.store_writes import StoreWritesContract

DIGEST = b"\x00\xff" * 8


def _passages(memory: Memory, number: int, tokens: bytes = b"\x00\xff\x01") -> list[PassageTokens]:
    """Return the first passages of a memory."""
    return [PassageTokens(entry_id(memory.row, View.CHUNK, ordinal), DIGEST, tokens) for ordinal in range(number)]


class MetadataStoreContract(
    StoreWritesContract,
    StoreTransactionsContract,
    StoreNamesContract,
    StoreReadsContract,
    StoreReachContract,
    StoreRemindersContract,
    StoreKeysContract,
    StoreQuotasContract,
    StoreListsContract,
    StorePlacesContract,
    StoreFiltersContract,
    StoreFeedContract,
    StoreConflictsContract,
    StoreSessionsContract,
    StoreChangesContract,
    StoreHistoryContract,
    StoreEssentialsContract,
    StoreIntegrityContract,
    StoreLogsContract,
    StoreUpkeepContract,
    StoreTransferContract,
    StoreErasureContract,
    StoreFilesContract,
    StoreFileTextsContract,
    StoreVaultContract,
    StoreFileFindingContract,
    StoreWebhooksContract,
    StoreUseContract,
):
    """Subclass it, give the fixture `store`, and `close` and `reopen` where they apply: see StoreSeams."""

    def test_request_is_remembered_until_forgotten(self, store: MetadataStore, clock: Clock) -> None:
        """A request is recalled under its owner, method and id, as long as it is not too old."""
        with store.transaction() as transaction:
            transaction.remember_request(OWNER, "Create", "r1", RequestRecord("digest", '{"答":1}'))
        clock.moment = NOW + timedelta(hours=1)
        with store.transaction() as transaction:
            transaction.remember_request(OWNER, "Create", "r2", RequestRecord("other", ""))

            assert transaction.recall_request(OWNER, "Create", "r1") == RequestRecord("digest", '{"答":1}')
            assert transaction.forget_requests(before=NOW) == 0
            assert transaction.forget_requests(before=NOW + timedelta(microseconds=1)) == 1
            assert transaction.recall_request(OWNER, "Create", "r1") is None
            assert transaction.recall_request(OWNER, "Create", "r2") == RequestRecord("other", "")

    def test_request_can_be_replaced(self, store: MetadataStore, clock: Clock) -> None:
        """Remembering a request again replaces the answer and makes it young."""
        with store.transaction() as transaction:
            transaction.remember_request(OWNER, "Create", "r1", RequestRecord("digest", "1"))
        clock.moment = NOW + timedelta(hours=1)
        with store.transaction() as transaction:
            transaction.remember_request(OWNER, "Create", "r1", RequestRecord("digest", "2"))

            assert transaction.forget_requests(before=clock.moment) == 0
            assert transaction.recall_request(OWNER, "Create", "r1") == RequestRecord("digest", "2")

    @pytest.mark.parametrize(
        "name", [("\x1fada-2", "Create", "r1"), (OWNER, "Creat", "r1"), (OWNER, "Create", "r10"), ("", "Create", "r1")]
    )
    def test_request_is_known_by_its_whole_name(self, store: MetadataStore, name: tuple[str, str, str]) -> None:
        """Another owner, method or id is another request."""
        with store.transaction() as transaction:
            transaction.remember_request(OWNER, "Create", "r1", RequestRecord("digest", "1"))

            assert transaction.recall_request(*name) is None

    def test_embeddings_are_kept_by_model_and_digest(self, store: MetadataStore) -> None:
        """A vector is found under its model and digest; what is not there is left out."""
        store.embeddings.put("模型/1", {b"\x00a": b"\x00\xff\x01", b"b": b"2"})
        store.embeddings.put("模型/2", {b"b": b"3"})

        assert store.embeddings.get("模型/1", [b"\x00a", b"b", b"c"]) == {b"\x00a": b"\x00\xff\x01", b"b": b"2"}
        assert store.embeddings.get("模型/2", [b"b", b"\x00a"]) == {b"b": b"3"}
        assert store.embeddings.get("模型", [b"b"]) == {}
        assert [store.embeddings.count(model) for model in ("模型/1", "模型/2", "模型")] == [2, 1, 0]

    def test_embedding_that_is_there_stays(self, store: MetadataStore) -> None:
        """Storing a digest again changes nothing, and the new ones beside it are stored."""
        store.embeddings.put("m", {b"a": b"1"})
        store.embeddings.put("m", {b"a": b"2", b"b": b"3"})

        assert store.embeddings.get("m", [b"a", b"b"]) == {b"a": b"1", b"b": b"3"}

    def test_embeddings_are_listed_and_removed(self, store: MetadataStore) -> None:
        """By model, in the order of their digests; those of another model stay."""
        vectors = {bytes([number]): b"v" for number in (0, 200, 7, 255)}
        store.embeddings.put("模型/1", vectors)
        store.embeddings.put("a", {b"\x07": b"w"})

        assert sorted(store.embeddings.models()) == ["a", "模型/1"]
        assert store.embeddings.digests("模型/1", after=b"", limit=3) == [b"\x00", b"\x07", b"\xc8"]
        assert store.embeddings.digests("模型/1", after=b"\xc8", limit=3) == [b"\xff"]
        assert store.embeddings.digests("b", after=b"", limit=3) == []

        assert store.embeddings.remove("模型/1", [b"\x07", b"\xff", b"unknown"]) == 2
        assert store.embeddings.remove("模型/1", []) == 0
        assert store.embeddings.get("模型/1", list(vectors)) == {b"\x00": b"v", b"\xc8": b"v"}
        assert store.embeddings.get("a", [b"\x07"]) == {b"\x07": b"w"}

    def test_many_embeddings_at_once(self, store: MetadataStore) -> None:
        """One call may ask for thousands of digests."""
        vectors = {number.to_bytes(32, "big"): number.to_bytes(4, "little") for number in range(2000)}
        store.embeddings.put("m", vectors)
        store.embeddings.put("m", {})

        assert store.embeddings.get("m", list(vectors)) == vectors
        assert store.embeddings.get("m", []) == {}

    def test_tokens_are_kept_by_passage_and_model(self, store: MetadataStore) -> None:
        """A passage is found under its entry and model; of another model, or without tokens, it is left out."""
        one, other = insert(store, factories.memory("a"), factories.memory("b"))
        first, second = _passages(one, 2)
        store.tokens.replace("模型/1", [one.row], [first, second])
        [empty] = _passages(other, 1, b"")
        store.tokens.replace("模型/2", [other.row], [empty])

        wanted = [first.entry, second.entry, empty.entry, 7]
        assert store.tokens.tokens("模型/1", wanted) == {first.entry: first.tokens, second.entry: second.tokens}
        assert store.tokens.tokens("模型/2", wanted) == {empty.entry: b""}
        assert store.tokens.tokens("模型/1", []) == {}
        assert store.tokens.digests("模型/1", [other.row, one.row, 77]) == {
            first.entry: first.digest,
            second.entry: second.digest,
        }
        assert store.tokens.digests("模型/1", []) == {}
        assert [store.tokens.count(model) for model in ("模型/1", "模型/2", "模型")] == [2, 1, 0]

    def test_tokens_of_a_memory_are_replaced_as_a_whole(self, store: MetadataStore) -> None:
        """Whatever model they were of; those of other memories, and of unknown ones, stay out of it."""
        one, other = insert(store, factories.memory("a"), factories.memory("b"))
        [beside] = _passages(other, 1)
        store.tokens.replace("m", [one.row, other.row], [*_passages(one, 3), beside])
        [new] = _passages(one, 1, b"new")
        unknown = PassageTokens(entry_id(one.row + 77, View.CHUNK, 0), DIGEST, b"x")
        stray = PassageTokens(beside.entry, DIGEST, b"stray")
        store.tokens.replace("n", [one.row, one.row + 77], [new, unknown, stray])

        assert store.tokens.digests("m", [one.row, other.row]) == {beside.entry: DIGEST}
        assert store.tokens.tokens("m", [beside.entry]) == {beside.entry: beside.tokens}
        assert store.tokens.tokens("n", [new.entry, unknown.entry, beside.entry]) == {new.entry: b"new"}
        store.tokens.replace("n", [one.row], [])
        store.tokens.replace("n", [], [stray])
        assert [store.tokens.count(model) for model in ("m", "n")] == [1, 0]

    def test_memories_without_tokens_are_told_in_order(self, store: MetadataStore) -> None:
        """Those that are indexed and embedded here: no deleted or expired ones, none with a given vector in use."""
        done, stale, deleted, given, *missing = insert(
            store,
            factories.memory("1"),
            factories.memory("2"),
            factories.memory("3", status=Status.DELETED),
            Record(factories.memory("4"), given_vector=b"1234", given_model="ours"),
            Record(factories.memory("5"), given_vector=b"1234", given_model="theirs"),
            *(factories.memory(f"m{number}") for number in range(4)),
        )
        store.tokens.replace("m", [done.row, deleted.row], _passages(done, 2))
        store.tokens.replace("old", [stale.row], _passages(stale, 1))
        expected = [stale.row, *(memory.row for memory in missing)]

        assert store.tokens.rows_without("m", given_model="ours", after_row=0, limit=99) == expected
        assert store.tokens.rows_without("m", given_model="ours", after_row=0, limit=2) == expected[:2]
        assert store.tokens.rows_without("m", given_model="ours", after_row=expected[1], limit=2) == expected[2:4]
        assert store.tokens.rows_without("m", given_model="ours", after_row=expected[-1], limit=9) == []
        assert given.row not in expected

    def test_many_tokens_at_once(self, store: MetadataStore) -> None:
        """One call may store and ask for those of hundreds of passages, and of long documents."""
        written = insert(store, *(factories.memory(f"a{number}") for number in range(300)))
        passages = [passage for memory in written for passage in _passages(memory, 1 + memory.row % 3)]
        store.tokens.replace("m", [memory.row for memory in written], passages)
        long = _passages(written[0], MAX_ORDINAL // 8)
        store.tokens.replace("m", [written[0].row], long)
        expected = {one.entry: one.tokens for one in passages if row_of(one.entry) != written[0].row}
        expected |= {one.entry: one.tokens for one in long}

        assert store.tokens.tokens("m", list(expected)) == expected
        assert store.tokens.digests("m", [memory.row for memory in written]).keys() == expected.keys()

    def test_tokens_of_purged_memories_are_gone(self, store: MetadataStore) -> None:
        """With the memory, and nothing brings them back; those of others stay."""
        gone, kept = insert(store, factories.memory("a"), factories.memory("b"))
        passages = [*_passages(gone, 2), *_passages(kept, 2)]
        store.tokens.replace("m", [gone.row, kept.row], passages)
        purge(store, gone)
        store.tokens.replace("m", [gone.row], passages)

        assert store.tokens.digests("m", [gone.row]) == {}
        assert len(store.tokens.digests("m", [kept.row])) == store.tokens.count("m") == 2

    def test_open_store_answers(self, store: MetadataStore) -> None:
        """An open store answers a ping and says how large it is."""
        store.ping()

        assert store.storage_bytes() >= 0

    def test_closed_store_says_so(self, store: MetadataStore, close: Callable[[], None]) -> None:
        """Every use of a closed store is a fault of the program."""
        [memory] = insert(store, factories.memory())
        close()

        uses: list[Callable[[], object]] = [
            lambda: store.memories.get([memory.id], reach=ADA),
            lambda: store.memories.get_by_key("k", reach=ADA),
            lambda: store.memories.page(reach=ADA, where=None, order=Order(), after=None, limit=1),
            lambda: store.memories.rows_where(And(()), reach=ADA),
            lambda: store.memories.counts(reach=ADA),
            lambda: store.reminders.page(reach=ADA, window=window(NOW, 7), after=None, limit=1),
            lambda: store.feed.documents([1]),
            lambda: store.feed.pending_changes(limit=1),
            lambda: store.feed.trim(before=NOW),
            lambda: store.leases.last_end("n"),
            lambda: store.webhooks.state("n"),
            lambda: store.embeddings.get("m", [b"a"]),
            lambda: store.embeddings.put("m", {b"a": b"1"}),
            lambda: store.tokens.tokens("m", [1]),
            lambda: store.tokens.replace("m", [1], []),
            lambda: insert(store, factories.memory("another")),
            store.ping,
        ]
        for use in uses:
            with pytest.raises(BackendClosedError):
                use()

    def test_data_outlive_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """A store that keeps its data has all of them when it is opened again, and goes on counting."""
        [memory] = insert(store, factories.memory("你好 🙂", key="k"))
        after = revise(store, memory, ChangeAction.UPDATED, title="T")
        store.embeddings.put("m", {b"a": b"1"})
        passages = _passages(memory, 1)
        store.tokens.replace("m", [memory.row], passages)
        store.feed.mark_applied(store.feed.pending_changes(limit=1))
        store.feed.settle()
        again = reopen()

        assert again.memories.get_by_key("k", reach=ADA) == after
        assert again.memories.revision(memory.id, 1, reach=ADA) == memory
        assert again.embeddings.get("m", [b"a"]) == {b"a": b"1"}
        assert again.tokens.tokens("m", [passages[0].entry]) == {passages[0].entry: passages[0].tokens}
        assert (again.feed.applied_position(), again.feed.head_position()) == (1, 2)
        [other] = insert(again, factories.memory("another"))
        [change] = again.feed.changes_after(2, limit=9)
        assert (other.row, again.feed.head_position()) == (change.row, change.position)
        assert other.row > memory.row
