"""API keys: their texts, roles and states."""

from __future__ import annotations

import os
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.api_keys import ApiKey, ApiKeyRole, KeyState, digest_of_key, key_id_of, new_key_text
from memsvc.domain.secrets import redact
from memsvc.testing.factories import NOW

ID, TEXT = new_key_text(NOW, lambda count: bytes(range(200, 200 + count)))
"""Always the same, since tests are named by it."""


@given(st.binary(min_size=32, max_size=32))
def test_every_text_has_the_one_form_and_names_its_key(secret: bytes) -> None:
    """A prefix, the id, 49 letters and digits: what looks for leaked keys needs no more."""
    key_id, text = new_key_text(NOW, lambda count: secret[:count])

    assert re.fullmatch(rf"memsvc_{key_id}_[0-9A-Za-z]{{49}}", text)
    assert key_id_of(text) == key_id


@given(st.integers(0, len(TEXT) - 1), st.characters(min_codepoint=33, max_codepoint=126))
def test_a_mistyped_text_is_no_key(place: int, letter: str) -> None:
    """One wrong character is seen without asking the store."""
    mistyped = TEXT[:place] + letter + TEXT[place + 1 :]

    assert (key_id_of(mistyped) is None) == (mistyped != TEXT)


@pytest.mark.parametrize(
    "text", ["", "memsvc_", TEXT[:-1], f"{TEXT}0", f" {TEXT}", TEXT.upper(), "é" * 77, "x" * 9_000]
)
def test_other_texts_are_no_keys(text: str) -> None:
    """Whatever is sent."""
    assert key_id_of(text) is None


def test_ids_ascend_with_time() -> None:
    """So that a list by id is one by time."""
    moments = [NOW + timedelta(milliseconds=step) for step in (0, 1, 500, 86_400_000, 10**12)]
    ids = [new_key_text(moment, os.urandom)[0] for moment in moments]

    assert ids == sorted(ids)


def test_only_its_own_text_opens_a_key() -> None:
    """What is kept is a digest."""
    key = ApiKey(ID, "", ApiKeyRole.READ_ONLY, digest_of_key(TEXT), NOW)
    _, other = new_key_text(NOW, os.urandom)

    assert key.is_opened_by(TEXT)
    assert not key.is_opened_by(other)
    assert TEXT.encode() not in key.digest


def test_a_role_may_what_the_one_before_may() -> None:
    """In the order of their names in the enum."""
    covered = {role: [needed for needed in ApiKeyRole if role.covers(needed)] for role in ApiKeyRole}

    assert covered == {
        ApiKeyRole.READ_ONLY: list(ApiKeyRole)[:1],
        ApiKeyRole.READ_WRITE: list(ApiKeyRole)[:2],
        ApiKeyRole.ADMIN: list(ApiKeyRole),
    }


def test_a_key_ends_at_its_moment_and_stays_revoked() -> None:
    """At the moment itself it is good no more; who revoked it meant it."""
    hour = timedelta(hours=1)
    key = ApiKey(ID, "", ApiKeyRole.ADMIN, b"", NOW, expire_time=NOW + hour)
    revoked = ApiKey(ID, "", ApiKeyRole.ADMIN, b"", NOW, expire_time=NOW + hour, revoke_time=NOW)

    states = [key.state(moment) for moment in (NOW, NOW + hour - timedelta(microseconds=1), NOW + hour)]
    assert states == [KeyState.ACTIVE, KeyState.ACTIVE, KeyState.EXPIRED]
    assert revoked.state(NOW + 2 * hour) is KeyState.REVOKED


@pytest.mark.parametrize("said", ["My key is {}, keep it.", "把{}存好", "MEMSVC_API_KEY={}"])
def test_keys_are_taken_out_of_what_is_remembered(said: str) -> None:
    """A key that somebody tells an agent is redacted like those of others."""
    clean, redactions = redact(said.format(TEXT))

    assert TEXT not in clean
    assert "memsvc-key" in {redaction.kind for redaction in redactions}
