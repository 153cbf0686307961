"""Messages in JSON: the compiled form is that of Protocol Buffers' own library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from memsvc.domain.errors import InvalidRequestError, Violation
from memsvc.json_faults import json_fault
from memsvc.server.http import messages
from memsvc.server.http.messages import JsonForm
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from tests.support.descriptors import METHODS

DEPTH = 6
"""Messages that hold messages of their own type end there."""
STRUCT: dict[str, Any] = {
    "party": 2,
    "share": 0.1,
    "on": True,
    "off": None,
    "里斯本": ["港口", {"nested": [[], {}]}],
    "": "\u2028</script>",
}
NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**53 + 1),
    FieldDescriptor.CPPTYPE_UINT32: (1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (1, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.1 + 0.2, -1e300),
    FieldDescriptor.CPPTYPE_FLOAT: (0.1, 1e-7),
    FieldDescriptor.CPPTYPE_BOOL: (True, True),
}
WELL_KNOWN: dict[str, tuple[Message, Message]] = {
    "google.protobuf.Timestamp": (Timestamp(seconds=1, nanos=20), Timestamp(seconds=-62_135_596_800)),
    "google.protobuf.Duration": (Duration(seconds=1, nanos=500_000_000), Duration(seconds=-3)),
}


OUTPUTS = {method.descriptor.output_type.full_name: method.descriptor.output_type for method in METHODS.values()}
COMPILED = messages.compiled_messages(output.file for output in OUTPUTS.values())


def filled(described: Descriptor, number: int, depth: int = 0) -> Message:
    """Return a message in which every field has a value; the last one of a oneof stays."""
    message: Message = message_factory.GetMessageClass(described)()
    if described.full_name in WELL_KNOWN:
        message.CopyFrom(WELL_KNOWN[described.full_name][number])
    elif isinstance(message, Struct):
        message.update(STRUCT)
    elif described.full_name == "google.protobuf.Value":
        json_format.Parse(f'["港口", {number}]', message)
    else:
        for field in described.fields:
            if depth < DEPTH or field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
                _fill(message, field, number, depth)
    return message


def _fill(message: Message, field: FieldDescriptor, number: int, depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for each in (0, 1):
            _put(message, field, list(values(field.message_type.fields_by_name["value"], each, depth)), f"k{each}")
    elif field.is_repeated:
        container = getattr(message, field.name)
        container.extend(value for each in (number, 0, 1) for value in values(field, each, depth))
    else:
        [value] = values(field, number, depth)
        if isinstance(value, Message):
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, value)


def _put(message: Message, field: FieldDescriptor, found: list[Any], key: str) -> None:
    entries = getattr(message, field.name)
    if isinstance(found[0], Message):
        entries[key].CopyFrom(found[0])
    else:
        entries[key] = found[0]


def values(field: FieldDescriptor, number: int, depth: int) -> Iterator[Any]:
    """Yield a value for a field."""
    if field.message_type is not None:
        yield filled(field.message_type, number, depth + 1)
    elif field.enum_type is not None:
        yield field.enum_type.values[-1].number if number else 0
    elif field.type == FieldDescriptor.TYPE_BYTES:
        yield (b"\xff\xfe\0", b"a")[number]
    elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        yield ('里斯本 😀 "\\\n\0', "a" * 200)[number]
    else:
        yield NUMBERS[field.cpp_type][number]


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("number", [0, 1])
def test_responses_are_written_as_the_library_writes_them(name: str, number: int) -> None:
    """Every field of every response, also times, free JSON, 64-bit integers, bytes and short floats."""
    message = filled(OUTPUTS[name], number)

    told = json.loads(JsonForm(search_pb.SearchRequest, 1, COMPILED).encode(message))

    assert told == json.loads(json_format.MessageToJson(message))


def test_a_platform_without_the_compiled_form_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the library, which is slower."""
    message = filled(OUTPUTS["memsvc.v1.SearchResponse"], 0)
    compiled = JsonForm(search_pb.SearchRequest, 1, COMPILED).encode(message)
    assert COMPILED

    monkeypatch.setattr(messages, "IS_COMPILED", False)
    without = messages.compiled_messages([OUTPUTS["memsvc.v1.SearchResponse"].file])

    assert without is None
    assert json.loads(JsonForm(search_pb.SearchRequest, 1, without).encode(message)) == json.loads(compiled)


def test_an_enum_of_a_newer_version_is_a_number_and_an_empty_response_an_object() -> None:
    """Neither fails."""
    response = search_pb.SearchResponse()
    assert JsonForm(search_pb.SearchRequest, 1, COMPILED).encode(response) == b"{}"

    response.hits.add().currency = 77  # type: ignore[assignment]

    assert json.loads(JsonForm(search_pb.SearchRequest, 1, COMPILED).encode(response)) == {"hits": [{"currency": 77}]}


def negated(depth: int, innermost: Any) -> dict[str, Any]:
    """Return a search whose filter is nested *depth* deep."""
    for _ in range(depth):
        innermost = {"negated": innermost}
    return {"filter": {"where": innermost}}


FAULTS = [
    ("CreateMemory", {"memory": {"layer": "CORE"}}, "memory.layer", "must be one of MEMORY_LAYER_CORE, MEMORY_LAYER_SESSION, "),
    ("CreateMemory", {"memory": {"layer": {}}}, "memory.layer", "must be one of MEMORY_LAYER_CORE, "),
    ("CreateMemory", {"memory": {"ttl": "5 days"}}, "memory.ttl", 'must be a duration in seconds, such as "3.5s"'),
    ("CreateMemory", {"memory": {"ttl": 5}}, "memory.ttl", 'must be a duration in seconds, such as "3.5s"'),
    ("CreateMemory", {"memory": {"eventTime": "昨天"}}, "memory.eventTime", "must be a time with its zone, such as "),
    ("CreateMemory", {"memory": {"content": float("nan")}}, "memory.content", "must be a JSON string"),
    ("CreateMemory", {"memory": {"content": ["喝茶"]}}, "memory.content", "must be a JSON string"),
    ("CreateMemory", {"memory": {"content": "\ud800"}}, "memory.content", "must be valid Unicode"),
    ("CreateMemory", {"memory": {"confidence": "high"}}, "memory.confidence", "must be a finite number"),
    ("CreateMemory", {"memory": {"workInProgress": "yes"}}, "memory.workInProgress", "must be true or false"),
    ("CreateMemory", {"memory": {"metadata": 5}}, "memory.metadata", "must be a JSON object"),
    ("CreateMemory", {"memory": "喝茶"}, "memory", "must be a JSON object"),
    ("CreateMemory", {"memory": {"keywords": [{"term": "a"}, {"term": 1}]}}, "memory.keywords[1].term", "must be a JSON string"),
    ("CreateMemory", {"memory": {"tags": "茶"}}, "memory.tags", "must be a JSON list"),
    ("CreateMemory", {"memory": {"tags": ["茶", None]}}, "memory.tags[1]", "must be a JSON string"),
    ("BatchCreateMemories", {"memories": [{}, {"memory": {"ttl": "5"}}]}, "memories[1].memory.ttl", "must be a duration"),
    ("UpdateMemory", {"updateMask": ["content"]}, "updateMask", 'must be a string of field names, such as "'),
    ("Search", {"limit": "x"}, "limit", "must be a whole number from -2147483648 to 2147483647"),
    ("Search", {"limit": 1.5}, "limit", "must be a whole number"),
    ("Search", {"limit": True}, "limit", "must be a whole number"),
    ("Search", {"limit": 10**12}, "limit", "must be a whole number"),
    ("Search", {"limit": " 5"}, "limit", "must be a whole number"),
    ("Search", {"vector": [0.5, "a"]}, "vector[1]", "must be a finite number"),
    ("Search", {"filter": {"layers": ["MEMORY_LAYER_CORE", "core"]}}, "filter.layers[1]", "must be one of MEMORY_LAYER_CORE"),
    ("Search", negated(40, 5), f"filter.where{40 * '.negated'}", "must be a JSON object"),
    ("Search", negated(100, {}), "request", "must not be nested more than 100 deep"),
    ("Search", negated(400, {}), "request", "must not be nested more than 100 deep"),
    ("Search", negated(400, 5), "request", "must not be nested more than 100 deep"),
    ("Search", {"unknown": 1, "limit": "x"}, "unknown", "is no field of this message, which has: "),
]  # fmt: skip


@pytest.mark.parametrize("compiled", [COMPILED, None], ids=["compiled", "pure"])
@pytest.mark.parametrize(("method", "body", "field", "description"), FAULTS)
def test_a_value_of_the_wrong_form_is_named_with_the_right_form(
    method: str, body: dict[str, Any], field: str, description: str, compiled: Any
) -> None:
    """In words of JSON, with the place in a list; with either form of the library."""
    [request] = [each.descriptor.input_type for each in METHODS.values() if each.descriptor.name == method]
    form = JsonForm(message_factory.GetMessageClass(request), 10_000, compiled)

    with pytest.raises(InvalidRequestError) as refused:
        form.decode(json.dumps(body).encode())

    [violation] = refused.value.violations
    assert violation.field == field
    assert violation.description.startswith(description)
    assert "float" not in violation.description
    assert "int()" not in violation.description


@pytest.mark.parametrize(
    ("body", "description"),
    [
        (b'{"limit": 1,}', "must be JSON: "),
        (b'{"limit": 1', "must be JSON: it ends in the middle of a value"),
        (b'{\n"query": "a"\n"limit": 1}', "must be JSON: a comma or a closing bracket is missing, at line 3, column 1"),
        (b'{"limit": 1, "limit": 2}', "must be JSON: the field 'limit' occurs twice in one object"),
        (b'\xef\xbb\xbf{"limit": 1}', "must be JSON in UTF-8 without a byte order mark"),
        ('{"limit": 1}'.encode("utf-16"), "must be JSON in UTF-8 without a byte order mark"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_the_place(body: bytes, description: str) -> None:
    """In words of JSON instead of those of a parser."""
    with pytest.raises(InvalidRequestError) as refused:
        JsonForm(search_pb.SearchRequest, 1_000).decode(body)

    [violation] = refused.value.violations
    assert violation.field == "request"
    assert violation.description.startswith(description)
    assert "Expecting" not in violation.description
    assert "(char" not in violation.description


@pytest.mark.parametrize(
    ("body", "field", "description"),
    [
        ('{"scope": {"userId": "a", "user_id": "b"}}', "scope.user_id", "is given twice, also as userId"),
        ('{"scope": {"user\\u005fid": "a", "userId": null}}', "scope.userId", "is given twice, also as user_id"),
        ('{"read_mask": "content", "readMask": "content"}', "readMask", "is given twice, also as read_mask"),
    ],
)
def test_both_names_of_a_field_are_refused(body: str, field: str, description: str) -> None:
    """Parsers differ in which of them they take."""
    with pytest.raises(InvalidRequestError) as refused:
        JsonForm(search_pb.SearchRequest, 1_000).decode(body.encode())

    assert refused.value.violations == (Violation(field, description),)


def test_names_of_free_json_may_differ_in_their_underscores_alone() -> None:
    """They are names of the caller's own."""
    body = b'{"memory": {"content": "a", "metadata": {"userId": 1, "user_id": 2}}}'
    request: Any = JsonForm(memory_pb.CreateMemoryRequest, 1_000).decode(body)
    assert request.memory.metadata["user_id"] == 2


def places(described: Descriptor, depth: int = 0) -> Iterator[tuple[FieldDescriptor, ...]]:
    """Yield the way to every field of a message and of those in it."""
    for field in described.fields:
        yield (field,)
        inner = field.message_type
        if inner is not None and not inner.full_name.startswith("google.") and depth < 2:
            yield from ((field, *rest) for rest in places(inner, depth + 1))


UNPAIRED = r'"a\ud800"'
FREE = {"google.protobuf.Struct": f"{{{UNPAIRED}: 1}}", "google.protobuf.Value": f'{{"a": [{UNPAIRED}]}}'}


def test_unpaired_surrogates_are_refused_wherever_they_are() -> None:
    """In texts, numbers, enums, bytes, times and free JSON, and as the name of a field: never in words of Python."""
    for method in METHODS.values():
        form = JsonForm(method.request, 1_000)
        for way in places(method.descriptor.input_type):
            inner = way[-1].message_type
            body, path = UNPAIRED, ""
            if inner is not None:
                # A name within a message has no path of its own, since none can hold it.
                text = inner.full_name in {*WELL_KNOWN, "google.protobuf.FieldMask"}
                body = FREE.get(inner.full_name, UNPAIRED if text else f"{{{UNPAIRED}: 1}}")
            for field in reversed(way):
                body = f'{{"{field.json_name}": {f"[{body}]" if field.is_repeated else body}}}'
                path = f"{field.json_name}{'[0]' if field.is_repeated else ''}{path and '.'}{path}"

            with pytest.raises(InvalidRequestError) as refused:
                form.decode(body.encode())

            [violation] = refused.value.violations
            assert violation == Violation(path, "must be valid Unicode, without unpaired surrogates"), (body, violation)


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("number", [0, 1])
def test_no_value_that_the_library_writes_is_a_fault(name: str, number: int) -> None:
    """Neither in the short form nor with numbers for enums."""
    message = filled(OUTPUTS[name], number)

    for as_numbers in (False, True):
        written = json_format.MessageToDict(message, use_integers_for_enums=as_numbers)
        assert json_fault(written, OUTPUTS[name]) is None
