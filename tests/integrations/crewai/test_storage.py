"""CrewAI's memory storage."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is not installed")

from crewai import BaseLLM, Memory
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.types import MemoryRecord

from memsvc.client import Memsvc, MemsvcCallError
from memsvc_crewai import MemsvcStorage
from tests.integrations.example_runs import run_example
from tests.support.server_process import ServerProcess


class NoModel(BaseLLM):
    """A model that is not called."""

    def call(self, *args: Any, **kwargs: Any) -> str:
        raise AssertionError("the model was called")


@pytest.fixture
def storage(client: Memsvc) -> MemsvcStorage:
    """A storage of the test's user."""
    return MemsvcStorage(client)


def find(storage: MemsvcStorage, query: str, **criteria: Any) -> list[str]:
    """Return the contents of the records that fit a query."""
    [vector] = storage.embed([query])
    return [record.content for record, _ in storage.search(vector, **criteria)]


def naive(text: str) -> datetime:
    """Return a time in UTC as CrewAI has it, without a time zone."""
    return datetime.fromisoformat(text)


def record(content: str, **fields: Any) -> MemoryRecord:
    """Return a record."""
    return MemoryRecord(content=content, **fields)


def test_records_come_back_as_they_were(
    server: ServerProcess, user: str, client: Memsvc, storage: MemsvcStorage
) -> None:
    """With all fields; another user and another project have none of them."""
    saved = record(
        "The boat is green.",
        scope="/crew/a",
        categories=["boats", "船"],
        metadata={"n": [1, 2.5, None]},
        importance=0.8,
        created_at=naive("2026-01-02T03:04:05.000678"),
        source="ann",
        private=True,
    )
    storage.save([saved, record("The boat is green.")])

    assert isinstance(storage, StorageBackend)
    assert storage.get_record(saved.id) == saved
    assert storage.get_record("other") is None
    assert storage.count() == 2
    [found] = [memory for memory in client.list() if memory.key == f"crewai/{saved.id}"]
    assert (found.importance, list(found.tags), found.source) == (4, ["boats", "船"], "crewai")
    for user_id, project_id in ((user, "other"), (f"{user}-2", "agents")):
        with Memsvc(server.bound, user_id=user_id, project_id=project_id) as other:
            assert MemsvcStorage(other).list_records() == []
            assert find(MemsvcStorage(other), "boat") == []


def test_search_finds_by_words_and_criteria(storage: MemsvcStorage) -> None:
    """Within a scope and below, of a category, with a value in the metadata; in two languages."""
    storage.save(
        [
            record("The customer wants invoices in euros.", scope="/crew/sales", categories=["billing"]),
            record("The customer wants a red boat.", scope="/crew/sales/boats", metadata={"n": 1}),
            record("The customer wants a window seat.", scope="/crew/salesforce"),
            record("客户对花生过敏。", scope="/crew/food", categories=["health"]),
        ]
    )

    assert find(storage, "euros invoices", limit=1) == ["The customer wants invoices in euros."]
    assert find(storage, "客户对什么过敏？", limit=1) == ["客户对花生过敏。"]
    assert len(find(storage, "customer wants", scope_prefix="/crew/sales")) == 2
    assert find(storage, "customer wants", scope_prefix="crew//sales/boats/") == ["The customer wants a red boat."]
    assert find(storage, "customer wants", categories=["billing", "none"]) == ["The customer wants invoices in euros."]
    assert find(storage, "customer wants", metadata_filter={"n": 1}) == ["The customer wants a red boat."]
    assert find(storage, "customer wants", metadata_filter={"n": None}) == []
    assert find(storage, "customer", min_score=1.1) == []
    assert find(storage, "customer", limit=0) == []
    assert storage.search([]) == []


def test_scopes_and_categories_are_listed(storage: MemsvcStorage) -> None:
    """Newest first, with dates and counts."""
    days = [naive(f"2026-01-0{day}") for day in (1, 2, 3)]
    storage.save(
        [
            record("One.", scope="/a/x", categories=["c"], created_at=days[0]),
            record("Two.", scope="/a", categories=["c", "d"], created_at=days[2]),
            record("Three.", scope="/b/y/z", created_at=days[1]),
        ]
    )

    assert [each.content for each in storage.list_records()] == ["Two.", "Three.", "One."]
    assert [each.content for each in storage.list_records(limit=1, offset=1)] == ["Three."]
    assert [each.content for each in storage.list_records("/a")] == ["Two.", "One."]
    assert storage.list_scopes() == ["/a", "/b"]
    assert storage.list_scopes("/b/") == ["/b/y"]
    assert storage.list_categories() == {"c": 2, "d": 1}
    assert storage.list_categories("/a/x") == {"c": 1}
    info = storage.get_scope_info("/a")
    assert (info.path, info.record_count, info.categories, info.child_scopes) == ("/a", 2, ["c", "d"], ["/a/x"])
    assert (info.oldest_record, info.newest_record) == (days[0], days[2])
    assert storage.get_scope_info("/none").record_count == 0


def test_deletions_meet_all_criteria_and_can_be_undone(client: Memsvc, storage: MemsvcStorage) -> None:
    """Memories of other programs stay, also after a reset."""
    other = client.create("The user prefers tea.").memory
    old = datetime.now(UTC) - timedelta(days=9)
    one, two, three, four = (
        record("One.", scope="/a", categories=["c"]),
        record("Two.", scope="/a", created_at=old),
        record("Three.", scope="/b", metadata={"n": 1}),
        record("Four.", scope="/b"),
    )
    storage.save([one, two, three, four])

    assert storage.delete(record_ids=[one.id, "none"], scope_prefix="/b") == 0
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(scope_prefix="/a", older_than=datetime.now(UTC) - timedelta(days=1)) == 1
    assert storage.delete(categories=["c"]) == 1
    assert storage.delete(metadata_filter={"n": 1}) == 1
    assert [each.content for each in storage.list_records()] == ["Four."]
    [deleted] = [memory for memory in client.list({"statuses": ["DELETED"]}) if memory.content == "One."]
    client.restore(deleted.id)
    assert storage.get_record(one.id) == one
    storage.reset("/a")
    assert storage.count() == 1
    storage.reset()
    assert storage.count() == 0
    assert [memory.id for memory in client.list()] == [other.id]


def test_updates_replace_records(storage: MemsvcStorage) -> None:
    """One that is not stored is stored."""
    saved = record("The boat is green.", scope="/a", categories=["boats"])
    storage.save([saved])
    changed = saved.model_copy(update={"content": "The boat is red.", "scope": "/b", "categories": []})

    storage.update(changed)
    assert storage.get_record(saved.id) == changed
    assert find(storage, "boat") == ["The boat is red."]
    assert find(storage, "boat", scope_prefix="/a") == []
    storage.update(new := record("The car is blue."))
    assert storage.get_record(new.id) == new


def test_outdated_records_say_so_and_expired_ones_are_not_found(client: Memsvc, storage: MemsvcStorage) -> None:
    """What an agent reads of a match names the newer statement; the mark is not stored."""
    old, newer = record("I live in Hamburg. My cat is called Mia."), record("I live in Berlin now.")
    storage.save([old])
    storage.save([newer])
    [vector] = storage.embed(["Where do I live?"])

    found = {each.id: each for each, _ in storage.search(vector)}
    assert found[old.id].metadata["currency"] in {"outdated", "conflicted"}
    assert found[old.id].metadata["replaced_by"] == newer.content
    storage.update(found[old.id])
    reread = storage.get_record(old.id)
    assert reread is not None
    assert reread.metadata == {}

    client.update(key=f"crewai/{newer.id}", expire_time=datetime.now(UTC) - timedelta(seconds=1))
    assert newer.content not in find(storage, "Where do I live?")
    assert storage.get_record(newer.id) is None
    assert storage.count() == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (record("Text.", id="x" * 300), "1 to 249 characters, not 300"),
        (record("Text.", id=""), "1 to 249 characters, not 0"),
        (record("Text.", metadata={"x": object()}), "must be JSON"),
        (record("Text.", metadata={"x": "y" * 20_000}), "shorten its metadata"),
    ],
)
def test_records_that_do_not_fit_are_refused(storage: MemsvcStorage, wrong: MemoryRecord, told: str) -> None:
    """Nothing is stored."""
    with pytest.raises(ValueError, match=told):
        storage.save([record("Good."), wrong])
    assert storage.count() == 0


def test_failures_are_raised(storage: MemsvcStorage) -> None:
    """Empty content, vectors of another embedder, and a service that cannot be reached."""
    with pytest.raises(MemsvcCallError, match="content"):
        storage.save([record("")])
    with pytest.raises(ValueError, match=r"embedder=storage\.embed"):
        storage.search([0.5] * 32)
    with Memsvc("127.0.0.1:1", user_id="ann", timeout=1) as away, pytest.raises(MemsvcCallError):
        MemsvcStorage(away).count()


def test_async_calls_do_the_same(storage: MemsvcStorage) -> None:
    """On the caller's event loop."""

    async def run() -> tuple[list[str], int]:
        await storage.asave([record("The boat is green.", scope="/a")])
        [vector] = storage.embed(["boat"])
        found = await storage.asearch(vector, limit=1)
        return [each.content for each, _ in found], await storage.adelete(scope_prefix="/a")

    assert asyncio.run(run()) == (["The boat is green."], 1)


def test_a_memory_remembers_recalls_and_forgets(storage: MemsvcStorage) -> None:
    """Without an embedding model, and without a call of the model; equal statements of a batch are stored once."""
    memory = Memory(storage=storage, embedder=storage.embed, llm=NoModel(model="none"), root_scope="/crew/a")
    given: dict[str, Any] = {"scope": "/b", "categories": ["boats"], "metadata": {}, "importance": 0.5}
    saved = memory.remember("The boat is green.", **given)
    assert saved is not None
    memory.remember_many(["The car is red.", "The car is red."], **given)
    memory.drain_writes()

    [best, *_] = memory.recall("green boat", depth="shallow", limit=1)
    assert (best.record.content, best.record.scope) == ("The boat is green.", "/crew/a/b")
    assert len(memory.list_records()) == 2
    assert copy.deepcopy(storage) is storage  # CrewAI copies crews with their memory
    assert memory.forget(record_ids=[saved.id]) == 1
    assert memory.info("/b").record_count == 1
    memory.close()


def test_the_example_knows_what_was_stored(server: ServerProcess) -> None:
    """A crew recalls before its task."""
    shown = [line for line in run_example("crewai", server).splitlines() if line[:3] in {"1: ", "2: "}]
    assert shown == ["1: I do not know your dog.", "2: Your dog is Rex."]
