"""What can be imported."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToJson

from memsvc.cli.enums import ImportFormat
from memsvc.cli.errors import CommandError
from memsvc.cli.import_sources import entries_from_lines, memories_from_markdown, read_source
from memsvc.v1 import types_pb2 as types_pb

DOCUMENT = """\
Before all headings.

# Guide

Welcome.

## Install

Run it.

## Empty

# Guide

Again.
"""


def test_document_is_split_at_its_headings() -> None:
    """Each section with text is a memory, titled with the headings above it."""
    found = [(memory.title, memory.content) for memory in memories_from_markdown(DOCUMENT, "guide.md")]

    assert found == [
        ("guide.md", "Before all headings."),
        ("Guide", "Welcome."),
        ("Guide > Install", "Run it."),
        ("Guide", "Again."),
    ]


def test_sections_have_keys_of_their_own() -> None:
    """Importing a document again meets its sections again, also where headings repeat."""
    first = [memory.key for memory in memories_from_markdown(DOCUMENT, "guide.md")]
    again = [memory.key for memory in memories_from_markdown(DOCUMENT, "guide.md")]

    assert first == again == ["guide.md#guide.md", "guide.md#Guide", "guide.md#Guide > Install", "guide.md#Guide (2)"]


def test_keys_of_folders_say_nothing_that_is_not_so() -> None:
    """A document in a folder "daily" is no daily log, and its key is one that the service takes."""
    keys = [next(memories_from_markdown("text", name)).key for name in ("daily/monday.md", "context/me.md", "a/b.md")]

    assert keys == ["./daily/monday.md#daily/monday.md", "context/me.md#context/me.md", "a/b.md#a/b.md"]


def test_long_names_fit_the_api() -> None:
    """Keys, titles and sources are cut to what the API takes, and stay apart."""
    text = "\n\n".join(f"{'#' * level} {'word ' * 36}{level}\n\ntext" for level in (1, 2, 3, 3))

    found = list(memories_from_markdown(text, "n" * 400))

    assert max(len(memory.key) for memory in found) <= 256
    assert max(len(memory.title) for memory in found) <= 512
    assert max(len(memory.source) for memory in found) <= 256
    assert len({memory.key for memory in found[-2:]}) == 2


def test_document_without_text_is_nothing() -> None:
    """Blank documents and bare headings make no memories."""
    assert [list(memories_from_markdown(text, "x.md")) for text in ("", " \n", "# Title\n")] == [[], [], []]


def test_lines_are_memories_with_the_names_of_the_api() -> None:
    """What the service writes as JSON can be read back; blank lines are passed over."""
    memory = types_pb.Memory(content="text", kind=types_pb.MEMORY_KIND_NOTE, scope=types_pb.Scope(session_id="s"))
    line = MessageToJson(memory, indent=None)

    entries = entries_from_lines(io.StringIO(f"{line}\n\n{line}\n"), "f")

    assert [(entry.place, entry.memory) for entry in entries] == [("Line 1 of f", memory), ("Line 3 of f", memory)]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "it ends in the middle of a value; write one memory to a line"),
        ('{"content": "a', "the string has no closing quote, at column 13; write one memory to a line"),
        ('{"content": "a\n', "it ends in the middle of a value; write one memory to a line"),
        ('{"content": "a"} x', "there is text after the end, at column 18; write one memory to a line"),
        ("{'content': 'a'}", "a field name in double quotes is missing, at column 2"),
        ('{"content" "a"}', "a colon is missing, at column 12"),
        ('{"content": "a" "title": "b"}', "a comma or a closing bracket is missing, at column 17"),
        ('{"content": a}', "a value is missing or is not JSON, at column 13"),
        ('{"content": "C:\\games"}', "the backslash begins no escape of JSON, at column 16"),
        (
            '{"content": "a\tb"}',
            "a tab or another control character must be escaped, or a quote is missing, at column 15",
        ),
        ('{"content": "a", "content": "b"}', "the field 'content' occurs twice in one object"),
        (f'{{"importance": {"9" * 5_000}}}', "it has a number with too many digits"),
        (f'{{"metadata": {{"a": {"[" * 99_999}{"]" * 99_999}}}}}', "it is nested too deep"),
        ('{"metadata": ' + '{"a":' * 990 + "1" + "}" * 991, "it is nested too deep"),
        ("[]", "it is no JSON object"),
        ('{"contents": "x"}', "contents: there is no such field"),
        ('{"scope": {"usr": "x"}}', "scope.usr: there is no such field"),
        ('{"scope": 5}', "scope: must be a JSON object"),
        ('{"content": 5}', "content: must be a JSON string"),
        ('{"content": NaN}', "content: must be a JSON string"),
        ('{"tags": "x"}', "tags: must be a JSON list"),
        ('{"tags": ["x", 1]}', "tags[1]: must be a JSON string"),
        ('{"importance": "high"}', "importance: must be a whole number"),
        ('{"kind": "FOO"}', "kind: must be one of MEMORY_KIND_FACT, "),
        ('{"event_time": "yesterday"}', 'event_time: must be a time with its zone, such as "2026-03-01T09:30:00Z"'),
        ('{"content": "\udcff"}', "it is no UTF-8 text"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_the_others_are_read(line: str, fault: str) -> None:
    """In one line, without all the names that a memory could have had."""
    good = '{"content": "fine"}'
    first, bad, last = entries_from_lines([good, line, good], "f.jsonl")

    assert first.memory == last.memory == types_pb.Memory(content="fine")
    assert (bad.place, bad.memory) == ("Line 2 of f.jsonl", None)
    assert bad.fault.startswith(fault)
    assert len(bad.fault) < 320
    assert "\n" not in bad.fault
    for words in ("Expecting", "(char", "Failed to", "int()", "Invalid enum", "RecursionError"):
        assert words not in bad.fault


def test_an_export_is_told_from_memories() -> None:
    """Whoever takes one command for the other learns which it is."""
    with pytest.raises(CommandError, match="import-user"):
        list(entries_from_lines(['{"record":"header","format":"memsvc-user","version":1}'], "ada.jsonl"))


@pytest.mark.parametrize(
    ("name", "form", "text", "words"),
    [
        ("notes.txt", ImportFormat.AUTO, "# Tea\n\ngreen\n", "holds text, not JSON Lines"),
        (
            "notes.md",
            ImportFormat.JSONL,
            "\n# Tea\n",
            "with --format md, or store it as one document with `memsvc ingest`",
        ),
        ("notes.json", ImportFormat.AUTO, '[{"content": "a"}]', "holds a JSON array; write one memory to a line"),
        ("notes.jsonl", ImportFormat.AUTO, '{"content": "a"}'.encode("utf-16"), "is UTF-16 text; convert it to UTF-8"),
        ("photo.png", ImportFormat.AUTO, b"\x89PNG\r\n\x1a\n\0\0\0", "is no UTF-8 text"),
    ],
)
def test_a_file_of_another_format_is_refused_with_what_to_do(
    name: str, form: ImportFormat, text: str | bytes, words: str, tmp_path: Path
) -> None:
    """Before anything is sent."""
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(CommandError, match=re.escape(words)):
        read_source(str(tmp_path / name), form)


def test_text_files_of_json_lines_and_markdown_are_read(tmp_path: Path) -> None:
    """The ending does not decide alone."""
    (tmp_path / "memories.txt").write_text('{"content": "a"}\n')
    (tmp_path / "notes.txt").write_text("# Tea\n\ngreen\n")

    lines = read_source(str(tmp_path / "memories.txt"), ImportFormat.AUTO)
    sections = read_source(str(tmp_path / "notes.txt"), ImportFormat.MD)

    assert [entry.memory for entry in lines.entries] == [types_pb.Memory(content="a")]
    assert [entry.place for entry in sections.entries] == ["Section 'Tea' of notes.txt"]


@pytest.mark.parametrize(
    ("name", "text", "content"), [("a.jsonl", '{"content": "tea"}\n', "tea"), ("a.md", "# Tea\n\ngreen\n", "green")]
)
def test_a_byte_order_mark_is_no_part_of_the_text(name: str, text: str, content: str, tmp_path: Path) -> None:
    """Programs on Windows write one before UTF-8."""
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())

    [entry] = read_source(str(tmp_path / name), ImportFormat.AUTO).entries

    assert entry.memory is not None
    assert entry.memory.content == content
    assert not entry.memory.title.startswith("\ufeff")


def test_directory_is_read_with_relative_names(tmp_path: Path) -> None:
    """Every Markdown document below a directory is read, in order, and named by its place."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_text("two")
    (tmp_path / "one.markdown").write_text("one")
    (tmp_path / "other.txt").write_text("other")

    source = read_source(str(tmp_path), ImportFormat.AUTO)

    memories = [entry.memory for entry in source.entries if entry.memory is not None]
    assert [(memory.source, memory.content) for memory in memories] == [
        ("b/two.md", "two"),
        ("one.markdown", "one"),
    ]
    assert source.count == 2


def test_file_is_counted_before_it_is_read(tmp_path: Path) -> None:
    """A bar can be drawn: the lines are counted."""
    file = tmp_path / "m.jsonl"
    file.write_text('{"content": "a"}\n\n{"content": "b"}\n')

    source = read_source(str(file), ImportFormat.AUTO)

    assert source.count == 2
    assert [entry.memory and entry.memory.content for entry in source.entries] == ["a", "b"]


def test_directory_without_documents_is_told(tmp_path: Path) -> None:
    """Nothing to import is a mistake."""
    with pytest.raises(CommandError, match="no Markdown documents"):
        read_source(str(tmp_path), ImportFormat.AUTO)
