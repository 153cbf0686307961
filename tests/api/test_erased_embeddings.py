"""Embeddings of texts that are gone: they name no memory, but anybody who knows a text finds out that it was there."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.rpc import TIMEOUT, create, found
from tests.support.server_process import Stubs
from tests.support.server_thread import served
from tests.support.user_data import erase, removed

ADA, BEN = types_pb.Scope(user_id="ada"), types_pb.Scope(user_id="ben")
RICH = {"ranking": {"tier": "E"}}


def digests(directory: Path) -> set[bytes]:
    """Return the digests of all embedded texts."""
    with closing(sqlite3.connect(directory / "metadata" / "memsvc.db")) as database:
        return {digest for (digest,) in database.execute("SELECT digest FROM embeddings")}


def has(directory: Path, text: str) -> bool:
    """Return whether the embedding of a text is stored."""
    return hashlib.sha256(text.encode()).digest() in digests(directory)


def purge(stubs: Stubs, scope: types_pb.Scope, memory_id: str) -> None:
    request = memory_pb.DeleteMemoryRequest(scope=scope, id=memory_id, purge=True)
    stubs.memory.DeleteMemory(request, timeout=TIMEOUT)


def say(stubs: Stubs, user: str, *texts: str) -> None:
    """Store messages of one session, and wait until they are indexed."""
    scope = types_pb.Scope(user_id=user, project_id="p", session_id="s")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=scope), timeout=TIMEOUT)
    messages = [types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content=text) for text in texts]
    request = session_pb.AppendMessagesRequest(scope=scope, messages=messages, wait_for=types_pb.WAIT_FOR_INDEXED)
    stubs.session.AppendMessages(request, timeout=TIMEOUT)


@pytest.mark.parametrize("text", ["Ada has had the quagga virus since 2019.", "阿达自2019年起患有斑驴病。"])
def test_an_erasure_removes_the_embeddings_of_memories_that_were_purged_before(tmp_path: Path, text: str) -> None:
    """Those of earlier revisions too; what others have, and what the indexes need of themselves, stays."""
    with served(tmp_path) as stubs:
        at_first = digests(tmp_path)
        kept = create(stubs, BEN, "Ben plays the cello.").content
        secret = create(stubs, ADA, text)
        changed = types_pb.Memory(id=secret.id, content=f"{text} {text}")
        stubs.memory.UpdateMemory(
            memory_pb.UpdateMemoryRequest(
                scope=ADA, memory=changed, update_mask={"paths": ["content"]}, wait_for=types_pb.WAIT_FOR_INDEXED
            ),
            timeout=TIMEOUT,
        )
        assert has(tmp_path, text)
        purge(stubs, ADA, secret.id)

        receipt = erase(stubs, ADA.user_id, confirm=True)

        assert (receipt.clean, removed(receipt)["metadata"]["embeddings"]) == (True, 2)
        assert digests(tmp_path) - at_first == {hashlib.sha256(kept.encode()).digest()}
        assert [kept] == found(stubs, BEN, "cello")


def test_an_erasure_leaves_the_embeddings_that_stored_texts_need(tmp_path: Path) -> None:
    """Equal texts of others, deleted memories that may be restored, and earlier revisions, which searches as of then find."""
    with served(tmp_path) as stubs:
        for scope in (ADA, BEN):
            create(stubs, scope, "The okapi sleeps.")
        deleted = create(stubs, BEN, "The okapi wakes.")
        stubs.memory.DeleteMemory(memory_pb.DeleteMemoryRequest(scope=BEN, id=deleted.id), timeout=TIMEOUT)
        changed = create(stubs, BEN, "The okapi eats.")
        changed.content = "The okapi drinks."
        request = memory_pb.UpdateMemoryRequest(scope=BEN, memory=changed, update_mask={"paths": ["content"]})
        stubs.memory.UpdateMemory(request, timeout=TIMEOUT)
        before = digests(tmp_path)

        receipt = erase(stubs, ADA.user_id, confirm=True)

        assert "embeddings" not in removed(receipt)["metadata"]
        assert before <= digests(tmp_path)


def test_an_erasure_removes_the_embeddings_of_messages_with_their_predecessor(tmp_path: Path) -> None:
    """Tier E embeds runs of sentences and a message with the one before, in English and Chinese."""
    with served(tmp_path, **RICH) as stubs:
        at_first = digests(tmp_path)
        say(stubs, "ben", "The okapi sleeps.", "It snores.")
        kept = digests(tmp_path)
        say(stubs, "ada", "Gerd is my landlord. The bus was late.", "He is fine.", "房东叫盖尔德。", "他很好。")
        assert has(tmp_path, "Gerd is my landlord. The bus was late.\nHe is fine.")
        assert has(tmp_path, "房东叫盖尔德。\n他很好。")

        receipt = erase(stubs, "ada", confirm=True)

        assert receipt.clean
        assert kept == digests(tmp_path) > at_first


def test_an_erasure_removes_the_embeddings_of_an_earlier_tier(tmp_path: Path) -> None:
    """The setting may have changed since: no text needs those views any more."""
    with served(tmp_path, **RICH) as stubs:
        at_first = digests(tmp_path)
        say(stubs, "ada", "Gerd is my landlord. The bus was late.", "He is fine.")
    with served(tmp_path) as stubs:
        assert erase(stubs, "ada", confirm=True).clean
        assert digests(tmp_path) <= at_first
