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
        ("{", "Failed to load JSON: "),
        ("[]", "it is no JSON object"),
        ('{"contents": "x"}', "contents: there is no such field"),
        ('{"scope": {"usr": "x"}}', "scope.usr: there is no such field"),
        ('{"importance": "high"}', "importance: invalid literal for int()"),
        ('{"kind": "FOO"}', "kind: Invalid enum value FOO"),
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
    assert len(bad.fault) < 120
    assert "\n" not in bad.fault


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
    ],
)
def test_a_file_of_another_format_is_refused_with_what_to_do(
    name: str, form: ImportFormat, text: str, words: str, tmp_path: Path
) -> None:
    """Before anything is sent."""
    (tmp_path / name).write_text(text)

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
