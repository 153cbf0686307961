"""The rules for writes, one by one, each with the path it is told by."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.errors import InvalidRequestError
from memsvc.domain.write_requests import Draft, RejectedItem
from memsvc.server.requests import memory as requests
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import types_pb2 as types_pb

DIMENSION = 3
ID = "0190163d-8694-739b-aea5-966c26f8ad91"
SCOPE = types_pb.Scope(user_id="ada")


def check(request: memory_pb.CreateMemoryRequest) -> None:
    """Decode a request to store one memory."""
    requests.create_memory_request(request, dimension=DIMENSION)


def nested(depth: int) -> Struct:
    """Return a Struct nested *depth* deep."""
    struct = Struct(fields={"leaf": Value(number_value=1)})
    for _ in range(depth - 1):
        struct = Struct(fields={"inner": Value(struct_value=struct)})
    return struct


def create(memory: types_pb.Memory | None = None, **fields: object) -> memory_pb.CreateMemoryRequest:
    """Return a request to create that is in order but for what is given."""
    given = memory or types_pb.Memory(content="Anna lives in Lisbon.")
    return memory_pb.CreateMemoryRequest(**{"scope": SCOPE, "memory": given, **fields})  # type: ignore[arg-type] # any field


def violations(check: Callable[[], object]) -> list[str]:
    """Return the paths that a check complains of."""
    with pytest.raises(InvalidRequestError) as caught:
        check()
    return [violation.field for violation in caught.value.violations]


BAD_MEMORIES = [
    (types_pb.Memory(), "memory.content"),
    (types_pb.Memory(content="a\0b"), "memory.content"),
    (types_pb.Memory(content="x" * 1_000_001), "memory.content"),
    (types_pb.Memory(content="x", key="a\nb"), "memory.key"),
    (types_pb.Memory(content="x", key="k" * 257), "memory.key"),
    (types_pb.Memory(content="x", category="c" * 65), "memory.category"),
    (types_pb.Memory(content="x", speaker="\0"), "memory.speaker"),
    (types_pb.Memory(content="x", title="t" * 513), "memory.title"),
    (types_pb.Memory(content="x", summary="s" * 16_385), "memory.summary"),
    (types_pb.Memory(content="x", source="s" * 257), "memory.source"),
    (types_pb.Memory(content="x", tags=["a", "b", "c", ""]), "memory.tags[3]"),
    (types_pb.Memory(content="x", tags=["t"] * 33), "memory.tags"),
    (types_pb.Memory(content="x", keywords=[types_pb.Keyword(term="", weight=0.5)]), "memory.keywords[0].term"),
    (types_pb.Memory(content="x", keywords=[types_pb.Keyword(term="a", weight=1.5)]), "memory.keywords[0].weight"),
    (
        types_pb.Memory(content="x", keywords=[types_pb.Keyword(term="a", weight=float("nan"))]),
        "memory.keywords[0].weight",
    ),
    (types_pb.Memory(content="x", related_ids=[ID, "x"]), "memory.related_ids[1]"),
    (
        types_pb.Memory(content="x", file_refs=[types_pb.FileRef(category=9, id="1")]),  # type: ignore[arg-type] # no value of the enum
        "memory.file_refs[0].category",
    ),
    (
        types_pb.Memory(content="x", file_refs=[types_pb.FileRef(category=types_pb.FILE_CATEGORY_TEMP)]),
        "memory.file_refs[0].id",
    ),
    (types_pb.Memory(content="x", importance=6), "memory.importance"),
    (types_pb.Memory(content="x", importance=-1), "memory.importance"),
    (types_pb.Memory(content="x", confidence=float("inf")), "memory.confidence"),
    (types_pb.Memory(content="x", confidence=1.01), "memory.confidence"),
    (types_pb.Memory(content="x", layer=99), "memory.layer"),  # type: ignore[arg-type] # proto3 enums are open
    (types_pb.Memory(content="x", kind=99), "memory.kind"),  # type: ignore[arg-type] # likewise
    (types_pb.Memory(content="x", tier=99), "memory.tier"),  # type: ignore[arg-type] # likewise
    (types_pb.Memory(content="x", layer=types_pb.MEMORY_LAYER_SESSION), "memory.layer"),
    (types_pb.Memory(content="x", event_time=Timestamp(seconds=10**12)), "memory.event_time"),
    (types_pb.Memory(content="x", event_time=Timestamp(nanos=-1)), "memory.event_time"),
    (types_pb.Memory(content="x", expire_time=Timestamp(nanos=10**9)), "memory.expire_time"),
    (types_pb.Memory(content="x", ttl=Duration()), "memory.ttl"),
    (types_pb.Memory(content="x", ttl=Duration(seconds=-1)), "memory.ttl"),
    (types_pb.Memory(content="x", ttl=Duration(seconds=1, nanos=-1)), "memory.ttl"),
    (types_pb.Memory(content="x", ttl=Duration(seconds=36_501 * 86_400)), "memory.ttl"),
    (types_pb.Memory(content="x", ttl=Duration(seconds=1), expire_time=Timestamp(seconds=1)), "memory.ttl"),
    (types_pb.Memory(content="x", metadata=nested(9)), "memory.metadata"),
    (types_pb.Memory(content="x", metadata=Struct(fields={"a": Value(string_value="x" * 16_384)})), "memory.metadata"),
    (types_pb.Memory(content="x", metadata=Struct(fields={"a": Value(number_value=float("nan"))})), "memory.metadata"),
    (types_pb.Memory(content="x", metadata=Struct(fields={"a\0": Value()})), "memory.metadata"),
    (
        types_pb.Memory(
            content="x",
            metadata=Struct(fields={"a": Value(list_value=ListValue(values=[Value(string_value="\0")]))}),
        ),
        "memory.metadata",
    ),
    (types_pb.Memory(content="x", scope=types_pb.Scope(user_id="eve")), "memory.scope.user_id"),
    (types_pb.Memory(content="x", scope=types_pb.Scope(project_id="a\tb")), "memory.scope.project_id"),
]


@pytest.mark.parametrize(("memory", "path"), BAD_MEMORIES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_field_of_a_new_memory_is_told_by_its_path(memory: types_pb.Memory, path: str) -> None:
    """Each rule names the field that breaks it, and nothing else."""
    assert [path] == violations(lambda: check(create(memory)))


BAD_REQUESTS = [
    (create(scope=types_pb.Scope()), "scope.user_id"),
    (create(scope=types_pb.Scope(user_id="a\x1fb")), "scope.user_id"),
    (create(scope=types_pb.Scope(user_id="ada", agent_id="a" * 129)), "scope.agent_id"),
    (create(scope=types_pb.Scope(user_id="ada", session_id="\x7f")), "scope.session_id"),
    (create(request_id="r" * 129), "request_id"),
    (create(on_duplicate=77), "on_duplicate"),
    (create(wait_for=77), "wait_for"),
    (create(vector=[1.0]), "vector"),
    (create(vector=[0.0, 0.0, 0.0]), "vector"),
    (create(vector=[1.0, float("nan"), 0.0]), "vector"),
    (create(vector=[1.0, float("inf"), 0.0]), "vector"),
]


@pytest.mark.parametrize(("request_", "path"), BAD_REQUESTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_part_of_a_creating_request_is_told_by_its_path(
    request_: memory_pb.CreateMemoryRequest, path: str
) -> None:
    """What stands beside the memory is checked as well."""
    assert [path] == violations(lambda: check(request_))


def test_everything_wrong_is_told_at_once() -> None:
    """One reply names all violations, in the order of the request."""
    memory = types_pb.Memory(tags=[""], importance=9)

    paths = violations(lambda: check(create(memory, scope=types_pb.Scope())))

    assert paths == ["scope.user_id", "memory.content", "memory.tags[0]", "memory.importance"]


def test_limits_themselves_are_allowed() -> None:
    """A request at all limits is in order."""
    memory = types_pb.Memory(
        content="x" * 1_000_000,
        key="k" * 256,
        tags=["t" * 64] * 32,
        importance=5,
        confidence=0.0,
        ttl=Duration(seconds=36_500 * 86_400),
        metadata=nested(8),
        event_time=Timestamp(seconds=-62_135_596_800),
    )

    check(create(memory, scope=types_pb.Scope(user_id="u" * 128), request_id="r" * 128))


def test_output_only_fields_of_a_new_memory_are_ignored() -> None:
    """What the service sets may be sent back without harm."""
    memory = types_pb.Memory(content="x", id="no uuid", status=types_pb.MEMORY_STATUS_ACTIVE, revision=-5)

    check(create(memory))


@pytest.mark.parametrize("status", [number for number in (*types_pb.MemoryStatus.values(), 99, -1) if number])
def test_a_new_memory_is_active_or_quarantined(status: int) -> None:
    """Any other status is refused, in a batch for its item alone."""
    memory = types_pb.Memory(content="x", status=status)  # type: ignore[arg-type] # unknown numbers, too
    is_allowed = status in {types_pb.MEMORY_STATUS_ACTIVE, types_pb.MEMORY_STATUS_QUARANTINED}

    item = requests.batch_memory(memory_pb.BatchMemory(memory=memory), SCOPE, dimension=DIMENSION)

    assert isinstance(item, Draft) is is_allowed
    if isinstance(item, RejectedItem):
        assert [one.field for one in item.violations] == ["memory.status"]
    if is_allowed:
        check(create(memory))
    else:
        assert violations(lambda: check(create(memory))) == ["memory.status"]


def test_a_tiny_vector_is_allowed() -> None:
    """Any length but zero will do."""
    check(create(vector=[1e-38, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("ids", "keys", "field"),
    [(0, 0, "ids"), (1_000, 1, "keys"), (1, 1_000, "keys"), (0, 1_001, "keys"), (1_001, 0, "ids")],
)
def test_a_read_of_many_counts_ids_and_keys_together(ids: int, keys: int, field: str) -> None:
    """The error says so; 1 000 in all are allowed."""
    request = memory_pb.BatchGetMemoriesRequest(scope=SCOPE, ids=[ID] * ids, keys=["k"] * keys)
    with pytest.raises(InvalidRequestError) as caught:
        requests.batch_get_memories_request(request)

    [violation] = caught.value.violations
    assert (violation.field, violation.description) == (field, "ids and keys together must hold 1 to 1000 values")
    allowed = memory_pb.BatchGetMemoriesRequest(scope=SCOPE, ids=[ID] * 999, keys=["k"])
    assert requests.batch_get_memories_request(allowed)[1:] == ((ID,), ("k",))


@pytest.mark.parametrize("count", [0, 1_001])
def test_a_batch_holds_1_to_1000_memories(count: int) -> None:
    """An empty batch and one that is too large are refused as a whole."""
    request = memory_pb.BatchCreateMemoriesRequest(scope=SCOPE, memories=[memory_pb.BatchMemory()] * count)

    assert violations(lambda: requests.batch_create_memories_request(request)) == ["memories"]


def test_a_bad_memory_of_a_batch_is_rejected_alone() -> None:
    """The paths are those within the item."""
    entry = memory_pb.BatchMemory(memory=types_pb.Memory(content="x", tags=[""]))

    rejected = requests.batch_memory(entry, SCOPE, dimension=DIMENSION)

    assert isinstance(rejected, RejectedItem)
    assert [violation.field for violation in rejected.violations] == ["memory.tags[0]"]
    assert rejected.reason == "INVALID_REQUEST"


def test_a_good_memory_of_a_batch_becomes_a_draft() -> None:
    """Its own project takes the place of the request's."""
    entry = memory_pb.BatchMemory(memory=types_pb.Memory(content="x", scope=types_pb.Scope(project_id="p")))

    draft = requests.batch_memory(entry, SCOPE, dimension=DIMENSION)

    assert isinstance(draft, Draft)
    assert draft.project_id == "p"


@pytest.mark.parametrize("first_index", [-1, 11])
def test_a_batch_of_an_import_leaves_no_gap(first_index: int) -> None:
    """Memories that were never sent must not be passed over."""
    message = memory_pb.ImportMemoriesRequest(batch=memory_pb.ImportBatch(first_index=first_index))

    assert violations(lambda: requests.import_memories_batch(message, next_index=10)) == ["batch.first_index"]


def test_the_header_of_an_import_is_checked() -> None:
    """Paths begin with the header."""
    header = memory_pb.ImportHeader(request_id="r" * 129)

    assert violations(lambda: requests.import_memories_header(header)) == ["header.scope.user_id", "header.request_id"]


def update(memory: types_pb.Memory, *paths: str, **fields: object) -> memory_pb.UpdateMemoryRequest:
    """Return a request to change the fields at *paths*."""
    request = memory_pb.UpdateMemoryRequest(**{"scope": SCOPE, "memory": memory, **fields})  # type: ignore[arg-type] # any
    request.update_mask.paths.extend(paths)
    return request


BAD_UPDATES = [
    (update(types_pb.Memory()), "memory.id"),
    (update(types_pb.Memory(id="x")), "memory.id"),
    (update(types_pb.Memory(key="\n")), "memory.key"),
    (update(types_pb.Memory(id=ID), "title", "id"), "update_mask.paths[1]"),
    (update(types_pb.Memory(id=ID), "scope"), "update_mask.paths[0]"),
    (update(types_pb.Memory(id=ID), "revision"), "update_mask.paths[0]"),
    (update(types_pb.Memory(id=ID), "metadata.a"), "update_mask.paths[0]"),
    (update(types_pb.Memory(id=ID), "content"), "memory.content"),
    (update(types_pb.Memory(id=ID, status=types_pb.MEMORY_STATUS_DELETED), "status"), "memory.status"),
    (update(types_pb.Memory(id=ID, importance=9)), "memory.importance"),
    (update(types_pb.Memory(id=ID, ttl=Duration(seconds=1), expire_time=Timestamp(seconds=1))), "memory.ttl"),
    (update(types_pb.Memory(id=ID), "title", expected_revision=-1), "expected_revision"),
]


@pytest.mark.parametrize(("request_", "path"), BAD_UPDATES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_update_is_told_by_its_path(request_: memory_pb.UpdateMemoryRequest, path: str) -> None:
    """Names, masks and new values are checked."""
    assert [path] == violations(lambda: requests.update_memory_request(request_, dimension=DIMENSION))


def test_fields_outside_the_mask_are_not_looked_at() -> None:
    """Only what is to change has to be in order."""
    requests.update_memory_request(update(types_pb.Memory(id=ID, importance=9), "title"), dimension=DIMENSION)


def test_a_deletion_needs_a_uuid() -> None:
    """Any other text cannot be an id of the service."""
    request = memory_pb.DeleteMemoryRequest(scope=SCOPE, id=ID[:-1], expected_revision=-1)

    assert violations(lambda: requests.delete_memory_request(request)) == ["id", "expected_revision"]
