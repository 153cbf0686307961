"""What LangGraph's own tests expect of a store, and what this one promises beyond that."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base", reason="langgraph-checkpoint is not installed")

from langgraph.store.base import GetOp, InvalidNamespaceError, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from memsvc.client import Memsvc, MemsvcCallError
from memsvc_langgraph import MemsvcStore
from memsvc_langgraph.item_keys import MOST_CHARS, key_prefix, memory_key, namespace_of
from tests.support.server_process import ServerProcess
from tests.support.until import until

DAY = 24 * 60.0


@pytest.fixture
def store(client: Memsvc) -> MemsvcStore:
    """A store of the test's user."""
    return MemsvcStore(client)


class TestBatches:
    def test_results_are_in_the_order_of_the_operations(self, store: MemsvcStore) -> None:
        """Reads see the state before the writes of their batch."""
        store.put(("test", "foo"), "key1", {"data": "value1"})
        store.put(("test", "bar"), "key2", {"data": "value2"})

        got, put, found, namespaces, missing = store.batch(
            [
                GetOp(("test", "foo"), "key1"),
                PutOp(("test",), "key3", {"data": "value3"}),
                SearchOp(("test",), filter={"data": "value1"}),
                ListNamespacesOp(),
                GetOp(("test",), "key3"),
            ]
        )

        assert isinstance(got, Item)
        assert got.value == {"data": "value1"}
        assert put is None
        assert [item.key for item in found] == ["key1"]
        assert namespaces == [("test", "bar"), ("test", "foo")]
        assert missing is None
        assert store.get(("test",), "key3").value == {"data": "value3"}

    def test_of_several_writes_to_one_item_the_last_one_counts(self, store: MemsvcStore) -> None:
        """A deletion counts as a write."""
        store.batch(
            [
                PutOp(("a",), "k", {"n": 1}),
                PutOp(("a",), "k", {"n": 2}),
                PutOp(("a",), "gone", {"n": 3}),
                PutOp(("a",), "gone", None),
                PutOp(("a",), "never", None),
            ]
        )

        assert {item.key: item.value for item in store.search(("a",))} == {"k": {"n": 2}}

    def test_a_batch_may_be_empty_or_large(self, store: MemsvcStore) -> None:
        """More items than a request of the service has are sent in several."""
        assert store.batch([]) == []
        store.batch([PutOp(("many",), str(number), {"n": number}, index=False) for number in range(1_050)])

        assert len(store.search(("many",), limit=2_000)) == 1_050
        results = store.batch([GetOp(("many",), str(number)) for number in range(1_050)])
        assert [item.value["n"] for item in results] == list(range(1_050))

    def test_unknown_operations_are_refused(self, store: MemsvcStore) -> None:
        """Nothing is written then."""
        with pytest.raises(TypeError, match="Unknown operation"):
            store.batch([PutOp(("a",), "k", {"n": 1}), "get"])
        assert store.get(("a",), "k") is None


class TestItems:
    def test_an_item_is_put_updated_and_deleted(self, store: MemsvcStore) -> None:
        """An update keeps the time of creation and moves that of the update, also when the value is the same."""
        before = datetime.now(UTC) - timedelta(seconds=5)
        store.put(("test", "documents"), "doc1", {"title": "Test", "content": "Hello, World!"})
        first = store.get(("test", "documents"), "doc1")
        assert (first.namespace, first.key) == (("test", "documents"), "doc1")
        assert first.value == {"title": "Test", "content": "Hello, World!"}
        assert before < first.created_at == first.updated_at

        store.put(("test", "documents"), "doc1", {"title": "Test"})
        second = store.get(("test", "documents"), "doc1")
        assert second.value == {"title": "Test"}
        assert second.created_at == first.created_at
        assert second.updated_at > first.updated_at
        store.put(("test", "documents"), "doc1", {"title": "Test"})
        assert store.get(("test", "documents"), "doc1").updated_at > second.updated_at

        assert store.get(("test", "other"), "doc1") is None
        store.delete(("test", "documents"), "doc1")
        store.delete(("test", "documents"), "doc1")
        assert store.get(("test", "documents"), "doc1") is None

    @pytest.mark.parametrize(
        "value",
        [
            {},
            {"": {"": [None, True, False, 0, -0.0, 1, 1.0, 1e300, 2**70, "é字🙂", [], {}]}},
            {"a.b": {"$gt": 1}, "nul": "a\0b", "lone": "\ud800", "lines": "\r\n\t\u2028"},
            {"deep": json.loads("[" * 40 + "]" * 40)},
            {"text": "![x](data:image/png;base64,iVBORw0KGgo=) " * 600},
            {"text": "长" * 30_000, "n": 7},
            {"inf": math.inf, "huge": 10**400},
            {f"field {number}": number for number in range(500)},
            {"key": "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "password": "password=hunter2hunter2"},
        ],
    )
    def test_values_are_returned_exactly(self, store: MemsvcStore, value: dict[str, Any]) -> None:
        """Numbers keep their type, and large values are whole, whether they are indexed or not."""
        store.put(("exact",), "default", value)
        store.put(("exact",), "unindexed", value, index=False)
        store.put(("exact",), "fields", value, index=["text", "nothing"])

        for key in ("default", "unindexed", "fields"):
            got = store.get(("exact",), key).value
            assert json.dumps(got) == json.dumps(value)
        assert len(store.search(("exact",))) == 3

    def test_values_that_are_no_json_are_refused(self, store: MemsvcStore) -> None:
        """Also those that no memory can hold."""
        with pytest.raises(TypeError):
            store.put(("a",), "k", {"set": {1}})
        with pytest.raises(ValueError, match="at most 1000000"):
            store.put(("a",), "k", {"text": "x" * 1_000_001})
        with pytest.raises(InvalidNamespaceError):
            store.put((), "k", {})

    def test_equal_values_are_items_of_their_own(self, store: MemsvcStore) -> None:
        """Nothing is merged, and no item contradicts another."""
        for key in ("a", "b", "c"):
            store.put(("same",), key, {"text": "Ann lives in Oslo."})
        store.put(("same",), "d", {"text": "Ann lives in Rome."})

        assert sorted(item.key for item in store.search(("same",))) == ["a", "b", "c", "d"]

    def test_users_and_projects_are_separate(self, store: MemsvcStore, server: ServerProcess, user: str) -> None:
        """Other memories of the project are no items."""
        store.put(("a",), "k", {"n": 1})
        with MemsvcStore.from_address(server.bound, user_id=user, project_id="other") as other:
            assert other.get(("a",), "k") is None
            assert other.search(()) == []
            other._client.create("No item at all.", key="langgraphs")
            other._client.create("No item either.")
            assert other.search(()) == []
            assert other.search((), query="item") == []
            assert other.list_namespaces() == []


NAMES = [
    (("a", "b"), "c"),
    (("a",), "b/c"),
    (("a/b",), "c"),
    (("a", "b", "c"), ""),
    (("a",), "b"),
    (("a b", " "), " c "),
    (("%61",), "%"),
    (("a%2Fb",), "c"),
    (("a\nb", "\x7f"), "\t"),
    (("用户", "é", "e\u0301", "🙂"), "键"),
    (("ab",), "c"),
    (("A", "b"), "c"),
    (("x" * 300,), "k"),
    (("x" * 300,), "l"),
    (("x" * 300, "y"), "k"),
    (("x" * 100, "y" * 100), "k" * 100),
    (("x" * 100, "y" * 100), "k" * 101),
    (tuple("abcdefghij" * 20), "k"),
    (("short",), "k" * 1_000),
]


class TestNames:
    def test_memory_keys_do_not_collide(self) -> None:
        """Every name has a key of its own, within the limit, that begins with the prefix of its namespaces."""
        keys = {memory_key(*name) for name in NAMES}

        assert len(keys) == len(NAMES)
        for namespace, key in NAMES:
            made = memory_key(namespace, key)
            assert len(made) <= MOST_CHARS
            assert all(made.startswith(key_prefix(namespace[:depth])) for depth in range(len(namespace) + 1))
            assert namespace_of(made) in {namespace, None}

    def test_all_names_work(self, store: MemsvcStore) -> None:
        """Items are found under their names only, and searches match whole labels."""
        store.batch([PutOp(namespace, key, {"at": index}) for index, (namespace, key) in enumerate(NAMES)])

        results = store.batch([GetOp(*name) for name in NAMES])
        assert [item.value["at"] for item in results] == list(range(len(NAMES)))
        assert [(item.namespace, item.key) for item in results] == NAMES
        everything = store.list_namespaces()
        assert everything == sorted({namespace for namespace, _ in NAMES})
        for prefix in {namespace[:depth] for namespace, _ in NAMES for depth in range(len(namespace) + 1)}:
            below = [name for name in NAMES if name[0][: len(prefix)] == prefix]
            found = store.batch([SearchOp(prefix, limit=100)])[0]
            assert sorted((item.namespace, item.key) for item in found) == sorted(below)
            [listed] = store.batch([ListNamespacesOp((MatchCondition("prefix", prefix),))])
            assert listed == sorted({namespace for namespace, _ in below})
        store.batch([PutOp(*name, None) for name in NAMES])
        assert store.list_namespaces() == []


class TestNamespaces:
    NAMESPACES = (
        ("a", "b", "c"),
        ("a", "b", "d", "e"),
        ("a", "b", "d", "i"),
        ("a", "b", "f"),
        ("a", "c", "f"),
        ("b", "a", "f"),
        ("users", "123"),
        ("users", "456", "settings"),
        ("admin", "users", "789"),
    )

    @pytest.fixture(autouse=True)
    def _fill(self, store: MemsvcStore) -> None:
        store.batch([PutOp(each, f"id-{number}", {"n": 1}) for each in self.NAMESPACES for number in range(2)])

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, sorted(NAMESPACES)),
            ({"prefix": ("a", "b")}, [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f")]),
            ({"prefix": ["users"]}, [("users", "123"), ("users", "456", "settings")]),
            ({"suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]),
            ({"prefix": ("a",), "suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f")]),
            ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
            ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
            ({"prefix": ("*", "a")}, [("b", "a", "f")]),
            ({"suffix": ("users", "*")}, [("admin", "users", "789"), ("users", "123")]),
            ({"max_depth": 1}, [("a",), ("admin",), ("b",), ("users",)]),
            ({"limit": 2, "offset": 1}, [("a", "b", "d", "e"), ("a", "b", "d", "i")]),
            ({"prefix": ("us",)}, []),
            ({"prefix": ("a",) * 9}, []),
        ],
    )
    def test_namespaces_are_listed(
        self, store: MemsvcStore, options: dict[str, Any], expected: list[tuple[str, ...]]
    ) -> None:
        """Conditions apply to the whole namespace, before it is cut to the depth."""
        assert store.list_namespaces(**options) == expected


class TestFilters:
    VALUES: tuple[dict[str, Any], ...] = (
        {"score": 2, "color": "red", "on": True, "nested": {"a": 1, "b": [1, 2]}, "tags": ["x"]},
        {"score": 9, "color": "green", "on": False, "big": 2**53 + 1},
        {"score": 9.5, "color": "Blue", "on": None, "big": 2**53},
        {"score": 10, "a.b": "dot", "text": "long " * 100},
        {"score": "10", "color": "red", "on": 1, "huge": 10**400},
        {f"f{number}": number for number in range(300)} | {"score": 11, "color": "red"},
    )

    @pytest.fixture(autouse=True)
    def _fill(self, store: MemsvcStore) -> None:
        store.batch([PutOp(("f",), str(index), value) for index, value in enumerate(self.VALUES)])

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"score": {"$gte": 10}}, "35"),
            ({"score": {"$gt": 9}}, "235"),
            ({"score": {"$lt": 10}}, "012"),
            ({"score": {"$lte": 9}}, "01"),
            ({"score": {"$gt": 2, "$lt": 10}}, "12"),
            ({"score": 9.0}, "1"),
            ({"score": {"$eq": "10"}}, "4"),
            ({"score": {"$gt": "1"}}, "4"),
            ({"color": "red"}, "045"),
            ({"color": {"$ne": "red"}}, "123"),
            ({"color": {"$gt": "a"}}, "0145"),
            ({"color": "red", "score": {"$gt": 2}}, "5"),
            ({"on": True}, "0"),
            ({"on": 1}, "4"),
            ({"on": None}, "235"),
            ({"on": {"$ne": None}}, "014"),
            ({"nested": {"a": 1}}, "0"),
            ({"nested": {"a": {"$gt": 1}}}, ""),
            ({"nested": {"b": [1, 2]}}, "0"),
            ({"nested": {"$eq": {"a": 1}}}, ""),
            ({"tags": ["x"]}, "0"),
            ({"tags": "x"}, ""),
            ({"a.b": "dot"}, "3"),
            ({"text": "long " * 100}, "3"),
            ({"big": {"$gt": 2**53}}, "1"),
            ({"big": 2**53 + 1}, "1"),
            ({"huge": {"$gt": 5}}, "4"),
            ({"f299": 299}, "5"),
            ({"missing": {"$lt": 5}}, ""),
            ({"missing": {"$ne": 5}}, "012345"),
            ({}, "012345"),
        ],
    )
    @pytest.mark.parametrize("query", [None, "red"])
    def test_filters_compare_values(
        self, store: MemsvcStore, wanted: dict[str, Any], expected: str, query: str | None
    ) -> None:
        """Numbers are compared as numbers and strings as strings; with a query the same items match."""
        found = store.search(("f",), filter=wanted, query=query, limit=50)

        assert sorted(item.key for item in found) == list(expected)

    def test_unknown_operators_are_refused(self, store: MemsvcStore) -> None:
        """Also where no item is compared."""
        with pytest.raises(ValueError, match=r"\$like"):
            store.search(("empty",), filter={"score": {"$like": 1}})

    def test_pages_are_of_the_matching_items(self, store: MemsvcStore) -> None:
        """Offset and limit count matches."""
        pages = [store.search(("f",), filter={"color": "red"}, limit=2, offset=offset) for offset in (0, 2, 4)]

        assert [len(page) for page in pages] == [2, 1, 0]
        assert {item.key for page in pages for item in page} == {"0", "4", "5"}


class TestQueries:
    def test_items_are_found_by_meaning_and_words(self, store: MemsvcStore) -> None:
        """The best match is first and has a score; without a query there are no scores."""
        store.put(("q",), "food", {"memory": "The user loves spicy noodles."})
        store.put(("q",), "pet", {"memory": "The user has a dog called Rex."})
        store.put(("q",), "zh", {"memory": "用户喜欢在海边散步"})

        best, *_ = store.search(("q",), query="What is the dog called?")
        assert best.key == "pet"
        assert best.score > 0
        assert store.search(("q",), query="海边")[0].key == "zh"
        assert all(item.score is None for item in store.search(("q",)))
        assert len(store.search(("q",), query="")) == 3
        assert store.search(("q",), query="dog " * 5_000)[0].key == "pet"

    def test_an_update_is_searched_at_once(self, store: MemsvcStore) -> None:
        """The former text is not."""
        store.put(("q",), "doc1", {"text": "zany zebra Xerxes"})
        store.put(("q",), "doc2", {"text": "something about dogs"})
        assert store.search(("q",), query="Zany Xerxes")[0].key == "doc1"
        store.put(("q",), "doc1", {"text": "a walk in the rain"})
        store.put(("q",), "doc3", {"text": "Xerxes"})
        assert store.search(("q",), query="Zany Xerxes")[0].key == "doc3"
        store.delete(("q",), "doc3")
        assert "doc3" not in [item.key for item in store.search(("q",), query="Zany Xerxes")]

    def test_only_the_given_fields_are_indexed(self, client: Memsvc) -> None:
        """A put may name others, or none."""
        store = MemsvcStore(client, fields=["title"])
        store.put(("q",), "default", {"title": "volcano", "body": "penguin"})
        store.put(("q",), "given", {"title": "harbour", "body": [{"t": "glacier"}]}, index=["body[*].t"])
        store.put(("q",), "none", {"title": "volcano glacier"}, index=False)
        store.put(("q",), "missing", {"text": "volcano glacier"})

        assert client.get(key=memory_key(("q",), "default")).content == "volcano"
        assert client.get(key=memory_key(("q",), "given")).content == "glacier"
        assert store.search(("q",), query="volcano")[0].key == "default"
        assert store.search(("q",), query="glacier")[0].key == "given"
        found = {item.key for query in ("volcano", "glacier") for item in store.search(("q",), query=query)}
        assert found.isdisjoint({"none", "missing"})
        assert len(store.search(("q",))) == 4

    def test_queries_have_pages(self, store: MemsvcStore) -> None:
        """They do not overlap."""
        store.batch([PutOp(("q",), f"doc{number}", {"text": f"test document {number}"}) for number in range(150)])

        pages = [store.search(("q",), query="test document", limit=2, offset=offset) for offset in (0, 2, 4)]
        assert len({item.key for page in pages for item in page}) == 6
        assert len(store.search(("q",), query="test document", limit=120)) == 120

    @pytest.mark.parametrize("query", [None, "apple"])
    def test_namespaces_limit_a_search(self, store: MemsvcStore, query: str | None) -> None:
        """By whole labels."""
        for namespace in (("u",), ("u", "1"), ("u", "1", "x"), ("u", "12"), ("v",)):
            store.put(namespace, "k", {"text": "apple"})

        assert {item.namespace for item in store.search(("u", "1"), query=query)} == {("u", "1"), ("u", "1", "x")}
        assert len(store.search((), query=query)) == 5


class TestTimeToLive:
    def test_items_expire(self, store: MemsvcStore) -> None:
        """Expired items are in no result; a sweep deletes them; a new put makes the item anew."""
        store.put(("t",), "short", {"n": 1}, ttl=0.01)
        store.put(("t",), "long", {"n": 1}, ttl=DAY)
        store.put(("t",), "endless", {"n": 1})
        assert until(lambda: store.get(("t",), "short", refresh_ttl=False) is None)

        assert {item.key for item in store.search(("t",))} == {"long", "endless"}
        assert {item.key for item in store.search(("t",), query="n")} == {"long", "endless"}
        assert store.sweep_ttl() == 1
        assert store.sweep_ttl() == 0
        store.put(("t",), "short", {"n": 2})
        assert store.get(("t",), "short").value == {"n": 2}

    def test_a_put_without_a_time_to_live_ends_it(self, store: MemsvcStore, client: Memsvc) -> None:
        """The time of the last put applies."""
        key = memory_key(("t",), "k")
        store.put(("t",), "k", {"n": 1}, ttl=DAY)
        assert client.get(key=key).HasField("expire_time")
        store.put(("t",), "k", {"n": 2})
        assert not client.get(key=key).HasField("expire_time")
        assert store.get(("t",), "k").value == {"n": 2}

    @pytest.mark.parametrize("by", ["get", "search", "query"])
    def test_reads_refresh_it(self, store: MemsvcStore, client: Memsvc, by: str) -> None:
        """Unless they say otherwise; the time of the update stays."""
        key = memory_key(("t",), "k")
        store.put(("t",), "k", {"text": "apple"}, ttl=DAY)
        before = store.get(("t",), "k", refresh_ttl=False)

        def read(*, refresh: bool | None) -> Item:
            if by == "get":
                return store.get(("t",), "k", refresh_ttl=refresh)
            return store.search(("t",), query="apple" if by == "query" else None, refresh_ttl=refresh)[0]

        first = client.get(key=key).expire_time.ToDatetime()
        read(refresh=False)
        assert client.get(key=key).expire_time.ToDatetime() == first
        read(refresh=None)
        second = client.get(key=key).expire_time.ToDatetime()
        assert second > first
        assert read(refresh=True).updated_at == before.updated_at
        assert client.get(key=key).expire_time.ToDatetime() > second
        assert store.get(("t",), "k").updated_at == before.updated_at

    def test_defaults_of_the_store_apply(self, client: Memsvc) -> None:
        """A put may say that its item never expires."""
        store = MemsvcStore(client, ttl={"default_ttl": DAY, "refresh_on_read": False})
        store.put(("t",), "default", {"n": 1})
        store.put(("t",), "endless", {"n": 1}, ttl=None)

        default = client.get(key=memory_key(("t",), "default"))
        assert default.HasField("expire_time")
        assert not client.get(key=memory_key(("t",), "endless")).HasField("expire_time")
        store.get(("t",), "default")
        assert client.get(key=memory_key(("t",), "default")).revision == default.revision


class TestAsync:
    def test_all_operations_have_an_asynchronous_form(self, store: MemsvcStore) -> None:
        """Any event loop will do, also several after each other."""

        async def write() -> None:
            await asyncio.gather(*(store.aput(("a", str(n % 3)), f"k{n}", {"n": n}, ttl=DAY) for n in range(30)))

        async def read() -> None:
            assert (await store.aget(("a", "1"), "k1")).value == {"n": 1}
            assert await store.aget(("a", "1"), "k2") is None
            assert len(await store.asearch(("a",), filter={"n": {"$lt": 10}}, limit=50)) == 10
            assert await store.alist_namespaces(max_depth=1) == [("a",)]
            await store.adelete(("a", "1"), "k1")
            [gone, found] = await store.abatch([GetOp(("a", "1"), "k1"), SearchOp(("a", "1"), limit=50)])
            assert gone is None
            assert len(found) == 9
            assert store.get(("a", "2"), "k2").value == {"n": 2}

        asyncio.run(write())
        asyncio.run(read())

    def test_errors_of_the_service_are_raised(self, user: str) -> None:
        """As they are by the client."""
        with MemsvcStore.from_address("127.0.0.1:1", user_id=user) as store, pytest.raises(MemsvcCallError):
            store.get(("a",), "k")
