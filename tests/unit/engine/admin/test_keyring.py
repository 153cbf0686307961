"""Keys are known again without the store, and no longer than they are good."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memsvc.domain.api_keys import ApiKeyRole, KeyDemand, new_key_text
from memsvc.domain.errors import (
    ApiKeyExpiredError,
    ApiKeyInvalidError,
    ApiKeyNotFoundError,
    ApiKeyRequiredError,
    InvalidRequestError,
    RequestIdReusedError,
)
from memsvc.engine.admin.api_keys import ApiKeyAuthenticator, ApiKeyService, NewApiKey
from memsvc.engine.commit.group_committer import GroupCommitter
from memsvc.ports.metadata import MetadataStore
from memsvc.testing.store_harness import Clock
from tests.support.sqlite_store import sqlite_store

REFRESH = timedelta(seconds=2)
INSTANT = timedelta(microseconds=1)


@pytest.fixture
def clock() -> Clock:
    """The clock of everything."""
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[MetadataStore]:
    """An empty store."""
    with sqlite_store(tmp_path, clock) as store:
        yield store


@pytest.fixture
def committer(store: MetadataStore) -> Iterator[GroupCommitter]:
    """What writes."""
    committer = GroupCommitter(store)
    yield committer
    committer.close()


@pytest.fixture
def keyring(store: MetadataStore, clock: Clock) -> ApiKeyAuthenticator:
    """The keyring of this process."""
    return ApiKeyAuthenticator(store.api_keys, demand=KeyDemand.AUTO, refresh=REFRESH, now=clock)


@pytest.fixture
def keys(store: MetadataStore, committer: GroupCommitter, keyring: ApiKeyAuthenticator, clock: Clock) -> ApiKeyService:
    """What makes keys in this process."""
    return ApiKeyService(store.api_keys, committer, now=clock, random=os.urandom, changed=keyring.forget)


@pytest.fixture
def others(store: MetadataStore, committer: GroupCommitter, clock: Clock) -> ApiKeyService:
    """What makes keys in another process on the same store."""
    return ApiKeyService(store.api_keys, committer, now=clock, random=os.urandom)


def test_a_key_is_looked_up_once_and_then_known(
    keyring: ApiKeyAuthenticator, keys: ApiKeyService, clock: Clock
) -> None:
    """The store is asked again when what is known is old."""
    made = keys.create(NewApiKey(name="x", tenant_id="acme"))

    assert keyring.find_cached(made.text) is None
    assert keyring.authenticate(made.text) == made.key == keyring.find_cached(made.text)
    clock.moment += REFRESH - INSTANT
    assert keyring.find_cached(made.text) == made.key
    clock.moment += INSTANT
    assert keyring.find_cached(made.text) is None


def test_what_this_process_revokes_opens_nothing_at_once(keyring: ApiKeyAuthenticator, keys: ApiKeyService) -> None:
    """Even when it was known a moment ago."""
    made = keys.create(NewApiKey())
    keyring.authenticate(made.text)
    keys.revoke(made.key.id)

    assert keyring.find_cached(made.text) is None
    with pytest.raises(ApiKeyInvalidError):
        keyring.authenticate(made.text)


def test_what_another_process_revokes_opens_nothing_soon(
    keyring: ApiKeyAuthenticator, others: ApiKeyService, clock: Clock
) -> None:
    """Within the time of refreshing, and at once where it was not known."""
    made = others.create(NewApiKey())
    keyring.authenticate(made.text)
    others.revoke(made.key.id)

    assert keyring.find_cached(made.text) is not None
    clock.moment += REFRESH
    assert keyring.find_cached(made.text) is None
    with pytest.raises(ApiKeyInvalidError):
        keyring.authenticate(made.text)


def test_a_key_that_is_known_ends_at_its_moment(
    keyring: ApiKeyAuthenticator, keys: ApiKeyService, clock: Clock
) -> None:
    """Not only when the store is asked again."""
    made = keys.create(NewApiKey(ttl=timedelta(seconds=1)))
    keyring.authenticate(made.text)
    clock.moment += timedelta(seconds=1)

    with pytest.raises(ApiKeyExpiredError):
        keyring.find_cached(made.text)


def test_what_is_no_key_of_ours_is_refused(keyring: ApiKeyAuthenticator, keys: ApiKeyService) -> None:
    """No text, another text, a key of another service, and one with the id of ours but another secret."""
    made = keys.create(NewApiKey())
    keyring.authenticate(made.text)
    _, foreign = new_key_text(made.key.create_time, os.urandom)
    same_id = bytes.fromhex(made.key.id)[6:]
    _, other_secret = new_key_text(
        made.key.create_time, lambda count: same_id if count == len(same_id) else bytes(count)
    )

    with pytest.raises(ApiKeyRequiredError):
        keyring.find_cached("")
    with pytest.raises(ApiKeyInvalidError):
        keyring.find_cached("password")
    assert keyring.find_cached(foreign) is None
    with pytest.raises(ApiKeyInvalidError):
        keyring.authenticate(foreign)
    assert other_secret.startswith(f"memsvc_{made.key.id}_")
    for ask in (keyring.find_cached, keyring.authenticate):
        with pytest.raises(ApiKeyInvalidError):
            ask(other_secret)
    assert keyring.find_cached(made.text) == made.key


def test_keys_are_asked_for_from_the_first_one_on(
    keyring: ApiKeyAuthenticator, others: ApiKeyService, clock: Clock
) -> None:
    """Also when another process made it, within the time of refreshing, and when none opens anything any more."""
    assert keyring.is_key_required() is None
    assert keyring.check_for_keys() is False
    assert keyring.is_key_required() is False
    made = others.create(NewApiKey())
    clock.moment += REFRESH
    assert keyring.is_key_required() is None
    assert keyring.check_for_keys() is True
    others.revoke(made.key.id)
    clock.moment += 10 * REFRESH

    assert keyring.is_key_required() is True


def test_the_first_key_of_this_process_is_asked_for_at_once(keyring: ApiKeyAuthenticator, keys: ApiKeyService) -> None:
    """Whatever was known before."""
    assert keyring.check_for_keys() is False
    keys.create(NewApiKey())

    assert keyring.is_key_required() is None
    assert keyring.check_for_keys() is True


@pytest.mark.parametrize(("demand", "expected"), [(KeyDemand.REQUIRED, True), (KeyDemand.OFF, False)])
def test_settings_may_say_whether_keys_are_asked_for(
    store: MetadataStore,
    clock: Clock,
    demand: KeyDemand,
    expected: bool,  # noqa: FBT001 - a value to be expected
) -> None:
    """Whether or not there are any; the store is not asked."""
    keyring = ApiKeyAuthenticator(store.api_keys, demand=demand, refresh=REFRESH, now=clock)

    assert keyring.is_key_required() is expected


def test_a_repeated_request_makes_no_second_key(keys: ApiKeyService, store: MetadataStore) -> None:
    """It is answered with the key, but not with its text, which nobody has any more."""
    made = keys.create(NewApiKey(name="a"), request_id="r")
    again = keys.create(NewApiKey(name="a"), request_id="r")

    assert (again.key, again.text) == (made.key, "")
    assert list(keys.page(after="", limit=9, include_ended=True)) == [made.key]
    with pytest.raises(RequestIdReusedError):
        keys.create(NewApiKey(name="b"), request_id="r")


def test_revoking_again_changes_nothing(keys: ApiKeyService, clock: Clock) -> None:
    """The first time counts, with an id of the request and without."""
    made = keys.create(NewApiKey(role=ApiKeyRole.ADMIN))
    revoked = keys.revoke(made.key.id, request_id="r")
    clock.moment += REFRESH

    assert revoked == keys.revoke(made.key.id, request_id="r") == keys.revoke(made.key.id)
    with pytest.raises(ApiKeyNotFoundError):
        keys.revoke("f" * 20)


def test_a_key_that_is_over_already_is_not_made(keys: ApiKeyService, clock: Clock) -> None:
    """Nothing is stored."""
    with pytest.raises(InvalidRequestError):
        keys.create(NewApiKey(expire_time=clock.moment))

    assert list(keys.page(after="", limit=9, include_ended=True)) == []
