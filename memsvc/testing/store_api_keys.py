"""API keys are kept as they are given, listed in order, revoked once, and never lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from memsvc.domain.api_keys import ApiKey, ApiKeyRole
from memsvc.ports.metadata import MetadataStore
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import StoreSeams

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
