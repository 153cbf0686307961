"""API keys are kept as they are given, listed in order, revoked once, and never lost; quotas hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memsvc.domain.api_keys import ApiKey, ApiKeyRole, Quota, QuotaSubject, Usage
from memsvc.domain.errors import QuotaExceededError
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Memory, Status
from memsvc.ports.features import TakenCalls
from memsvc.ports.metadata import MetadataStore, Record, Transaction
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import Clock, StoreSeams, insert, revise

_HOUR = timedelta(hours=1)


def _key(number: int, **fields: object) -> ApiKey:
    values = {"name": "", "role": ApiKeyRole.READ_WRITE, "digest": bytes([number]) * 32, "create_time": NOW}
    return ApiKey(id=f"{number:020x}", **(values | fields))  # type: ignore[arg-type]  # fields of a key


def _add(store: MetadataStore, *keys: ApiKey) -> None:
    with store.transaction() as transaction:
        for key in keys:
            transaction.add_key(key)


class StoreKeysContract(StoreSeams):
    """Keys of the whole service."""

    def test_a_key_is_kept_whole(self, store: MetadataStore) -> None:
        """Every field comes back; an id that is not there gives nothing."""
        whole = _key(
            1, name="机器人 🤖", role=ApiKeyRole.ADMIN, tenant_id="acme",
            user_ids=("ada", "ada-2"), project_ids=("网", ""),
            expire_time=NOW + _HOUR, revoke_time=NOW + 2 * _HOUR, calls_per_second=0.5, concurrent_calls=3,
        )  # fmt: skip
        _add(store, whole, _key(2))

        assert store.api_keys.get(whole.id) == whole
        assert store.api_keys.get(_key(2).id) == _key(2)
        assert store.api_keys.get("") is None
        assert store.api_keys.get(whole.id[:-1]) is None

    def test_keys_are_listed_page_by_page(self, store: MetadataStore) -> None:
        """By id, whatever the order of adding; on request only those in force."""
        ended = (_key(2, expire_time=NOW), _key(4, revoke_time=NOW - _HOUR))
        alive = (_key(1), _key(3, expire_time=NOW + _HOUR), _key(5))
        _add(store, alive[1], ended[1], alive[0], ended[0], alive[2])
        everything = sorted((*alive, *ended), key=lambda key: key.id)

        assert list(store.api_keys.page(after="", limit=9, alive_at=None)) == everything
        assert list(store.api_keys.page(after=_key(2).id, limit=2, alive_at=None)) == everything[2:4]
        assert list(store.api_keys.page(after="", limit=9, alive_at=NOW)) == list(alive)
        assert list(store.api_keys.page(after=_key(1).id, limit=1, alive_at=NOW)) == [alive[1]]
        assert list(store.api_keys.page(after="", limit=0, alive_at=None)) == []

    def test_a_key_is_revoked_once(self, store: MetadataStore) -> None:
        """The first time counts; a key that is not there is none."""
        _add(store, _key(1), _key(2))
        with store.transaction() as transaction:
            first = transaction.revoke_key(_key(1).id, NOW)
            again = transaction.revoke_key(_key(1).id, NOW + _HOUR)
            none = transaction.revoke_key("f" * 20, NOW)

        assert (first, again, none) == (_key(1, revoke_time=NOW), _key(1, revoke_time=NOW), None)
        assert store.api_keys.get(_key(1).id) == first
        assert store.api_keys.get(_key(2).id) == _key(2)

    def test_there_are_keys_from_the_first_one_on(self, store: MetadataStore) -> None:
        """Also when it opens nothing any more: a service that asked for keys goes on asking."""
        assert not store.api_keys.has_any()
        _add(store, _key(1, revoke_time=NOW, expire_time=NOW))

        assert store.api_keys.has_any()

    def test_keys_outlive_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """A store that keeps its data keeps keys."""
        _add(store, _key(1))
        again = reopen()

        assert (again.api_keys.get(_key(1).id), again.api_keys.has_any()) == (_key(1), True)


ACME = QuotaSubject.TENANT, "acme"
KEY = QuotaSubject.KEY, _key(1).id


def _set(store: MetadataStore, holder: tuple[QuotaSubject, str], rate: float = 0.0, **limits: int) -> Quota:
    """Set a quota, and return it."""
    quota = Quota(*holder, calls_per_second=rate, limits=Usage(**limits), update_time=NOW)
    with store.transaction() as transaction:
        transaction.set_quota(quota)
    return quota


def _used(store: MetadataStore, holder: tuple[QuotaSubject, str] = ACME) -> Usage:
    return store.quotas.get(*holder).used


@contextmanager
def _paying(store: MetadataStore, key_id: str | None = "") -> Iterator[Transaction]:
    """Open a transaction for a call, in a part that can fail alone."""
    with store.transaction() as transaction, transaction.savepoint():
        transaction.set_payer(key_id)
        yield transaction


def _write(store: MetadataStore, *contents: str, key_id: str | None = "", **fields: Any) -> list[Memory]:
    """Insert memories of tenant acme for a call."""
    new = [Record(factories.memory(content, tenant_id="acme", **fields)) for content in contents]
    with _paying(store, key_id) as transaction:
        return transaction.insert(new)


class StoreQuotasContract(StoreSeams):
    """Quotas of tenants and keys, and the amounts that they have stored."""

    def test_amounts_follow_every_write(self, store: MetadataStore) -> None:
        """Inserts, revisions and removals, of every status; deleting for now takes nothing back."""
        first, second = _write(store, "茶", "tea", key_id=KEY[1])
        assert _used(store) == _used(store, KEY) == Usage(2, 6)
        noted = revise(store, first, metadata={"名": [1]})
        assert _used(store) == Usage(2, 6 + len('"名":[1]'.encode()))
        gone = revise(store, noted, ChangeAction.DELETED, content="茶茶", status=Status.DELETED)
        assert _used(store).content_bytes == 6 + 3 + len('"名":[1]'.encode())
        with _paying(store, KEY[1]) as transaction:
            transaction.purge(gone)
        assert _used(store) == Usage(1, 3)
        assert _used(store, KEY).memories == 1
        with store.transaction() as transaction:
            file = transaction.files.insert(factories.file(b"1;2", tenant_id="acme"))
        assert _used(store) == Usage(1, 3, 3)
        with store.transaction() as transaction:
            assert transaction.files.delete([file, file]) == 1
            transaction.erase_memories(second.scope.owner, [second.row])
        assert _used(store) == Usage()

    def test_what_fails_is_not_counted(self, store: MetadataStore) -> None:
        """Neither a part that is taken back, nor a transaction; what is in the same one before and after is."""
        with store.transaction() as transaction:
            transaction.insert([Record(factories.memory("a", tenant_id="acme"))])
            with suppress(ZeroDivisionError), transaction.savepoint():
                transaction.insert([Record(factories.memory("bb", tenant_id="acme"))])
                raise ZeroDivisionError
            transaction.insert([Record(factories.memory("cccc", tenant_id="acme"))])
        with suppress(ZeroDivisionError), store.transaction() as transaction:
            transaction.insert([Record(factories.memory("d", tenant_id="acme"))])
            raise ZeroDivisionError

        assert _used(store) == Usage(2, 5)

    @pytest.mark.parametrize("holder", [ACME, KEY])
    def test_no_more_memories_than_the_quota(self, store: MetadataStore, holder: tuple[QuotaSubject, str]) -> None:
        """The write that would exceed it is refused as a whole, and says what is stored; a smaller one fits."""
        _set(store, holder, memories=3)
        _write(store, "a", key_id=KEY[1])
        with pytest.raises(QuotaExceededError) as refused:
            _write(store, "b", "c", "d", key_id=KEY[1])
        assert _used(store, holder) == Usage(1, 1)
        _write(store, "b", "c", key_id=KEY[1])
        with pytest.raises(QuotaExceededError):
            _write(store, "d", key_id=KEY[1])

        assert (refused.value.metadata["limit"], refused.value.metadata["used"]) == ("3", "1")
        assert (refused.value.metadata["added"], refused.value.metadata["quota"]) == ("3", "memories")
        assert _used(store, holder).memories == 3

    def test_bytes_have_quotas(self, store: MetadataStore) -> None:
        """Of content, by UTF-8, and of files. What makes a memory smaller is welcome beyond the quota, too."""
        [memory] = _write(store, "茶" * 10)
        _set(store, ACME, content_bytes=20, file_bytes=5)
        for content in ("茶", "t"):
            with pytest.raises(QuotaExceededError, match="bytes of content"):
                _write(store, content)
        with _paying(store) as transaction:
            transaction.update(memory, Record(replace(memory, revision=2, content="茶" * 6)), ChangeAction.UPDATED)
        _write(store, "it")
        with _paying(store) as transaction:
            transaction.files.insert(factories.file(b"12345", tenant_id="acme"))
        with pytest.raises(QuotaExceededError, match="bytes of files"), _paying(store) as transaction:
            transaction.files.insert(factories.file(b"6", tenant_id="acme"))

        assert _used(store) == Usage(2, 20, 5)

    def test_quotas_are_those_of_their_holder(self, store: MetadataStore) -> None:
        """Another tenant, another key and work that no call pays for are not held to them."""
        _set(store, ACME, memories=1)
        _set(store, KEY, memories=1)
        _write(store, "a", key_id=KEY[1])
        insert(store, factories.memory("b", tenant_id="acme"))
        with _paying(store) as transaction:
            transaction.insert([Record(factories.memory("c")), Record(factories.memory("d", tenant_id="acme-2"))])
        assert _used(store).memories == 2

        _set(store, ACME)
        _write(store, "e", key_id=_key(2).id)
        with pytest.raises(QuotaExceededError):
            _write(store, "f", key_id=KEY[1])

    def test_several_writers_of_a_transaction(self, store: MetadataStore) -> None:
        """Each is refused for itself; those before count for those after."""
        _set(store, ACME, memories=2)
        with store.transaction() as transaction:
            transaction.set_payer("")
            for user, content in (("ada", "a"), ("bob", "b"), ("ada", "c"), ("小明", "d")):
                with suppress(QuotaExceededError), transaction.savepoint():
                    transaction.insert([Record(factories.memory(content, tenant_id="acme", user_id=user))])

        assert _used(store).memories == 2

    def test_quotas_are_kept_and_listed(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """By subject and id, page by page; one without limits is removed. They outlive the store."""
        quotas = [
            _set(store, KEY, 0.5, memories=1),
            _set(store, (QuotaSubject.TENANT, "")),
            _set(store, (QuotaSubject.TENANT, "a"), file_bytes=1 << 40),
            _set(store, (QuotaSubject.TENANT, "名"), content_bytes=7),
        ]
        _set(store, ACME, memories=9)
        _set(store, ACME)
        store = reopen()
        assert [one.quota for one in store.quotas.page(after=None, limit=9)] == [quotas[0], *quotas[2:]]
        assert [one.quota for one in store.quotas.page(after=KEY, limit=1)] == [quotas[2]]
        assert store.quotas.get(*KEY).quota == quotas[0]
        assert store.quotas.get(*ACME).quota == Quota(*ACME)

    def test_rates_come_with_keys(self, store: MetadataStore) -> None:
        """That of the key's quota and that of its tenant's, so that a call needs no look-up of its own."""
        _add(store, _key(1, tenant_id="acme"), _key(2))
        _set(store, KEY, 0.5)
        _set(store, ACME, 7.0)

        first, second = store.api_keys.get(_key(1).id), store.api_keys.get(_key(2).id)
        assert first is not None
        assert second is not None
        assert (first.quota_calls_per_second, first.tenant_calls_per_second) == (0.5, 7.0)
        assert (second.quota_calls_per_second, second.tenant_calls_per_second) == (0.0, 0.0)

    @pytest.mark.parametrize(("rate", "burst"), [(5.0, 5), (1.0, 1), (0.5, 1), (2.5, 2), (1e3, 1000), (1e6, 1_000_000)])
    def test_a_second_of_calls_may_come_at_once(
        self, store: MetadataStore, clock: Clock, rate: float, burst: int
    ) -> None:
        """At least one; what is taken first, and later by others, adds up. A refusal says when one more may begin."""
        taken = store.call_rates.take("key/a", rate=rate, wanted=burst + 1, now=clock())
        assert taken.count == burst
        assert taken.retry_seconds == pytest.approx((burst + 1) / rate - max(1.0, 1 / rate), abs=1e-5)
        assert store.call_rates.take("tenant/名", rate=rate, wanted=1, now=clock()) == TakenCalls(1)

    def test_calls_are_taken_at_a_rate(
        self, store: MetadataStore, clock: Clock, let_pass: Callable[[timedelta], None]
    ) -> None:
        """Over time never more; a pause gives no more than one burst. A raised rate counts at once."""

        def take(wanted: int, rate: float = 0.01) -> TakenCalls:
            return store.call_rates.take("key/a", rate=rate, wanted=wanted, now=clock())

        assert take(3).count == 1
        refused = take(1)
        assert refused.count == 0
        assert refused.retry_seconds == pytest.approx(100, abs=5)
        let_pass(timedelta(seconds=50))
        assert take(1).retry_seconds == pytest.approx(50, abs=5)
        let_pass(timedelta(seconds=51))
        assert take(2).count == 1
        let_pass(timedelta(days=1))
        assert [take(2).count, take(1).count] == [1, 0]
        assert take(1, 0.1).retry_seconds <= 10
        let_pass(timedelta(seconds=10))
        assert take(9, 0.1).count == 1

    def test_calls_are_taken_by_several_at_once(self, store: MetadataStore, clock: Clock) -> None:
        """Together they get what one alone would."""
        with ThreadPoolExecutor(4) as pool:
            taken = list(
                pool.map(lambda _: store.call_rates.take("key/a", rate=0.001, wanted=2, now=clock()).count, range(20))
            )
        assert sorted(taken) == [0] * 19 + [1]

    def test_amounts_are_corrected_by_their_drift(self, store: MetadataStore) -> None:
        """Wrong stored amounts become those of a count. Writes in between are not lost."""
        insert(store, factories.memory("a", tenant_id="acme"), factories.memory("bb"))
        with store.transaction() as transaction:
            transaction.add_usage(*ACME, Usage(5, -7, 9))
            transaction.add_usage(QuotaSubject.TENANT, "gone", Usage(1))
        drift = store.quotas.drift()
        assert drift == {"acme": Usage(-5, 7, -9), "gone": Usage(-1)}

        insert(store, factories.memory("c", tenant_id="acme"))
        with store.transaction() as transaction:
            for tenant, amount in drift.items():
                transaction.add_usage(QuotaSubject.TENANT, tenant, amount)
        assert _used(store) == Usage(2, 2)
