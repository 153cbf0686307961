"""What can be imported."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToJson

from memsvc.cli.enums import ImportFormat
from memsvc.cli.errors import CommandError
from memsvc.cli.import_sources import memories_from_lines, memories_from_markdown, read_source
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

    assert list(memories_from_lines(io.StringIO(f"{line}\n\n{line}\n"), "f")) == [memory, memory]


@pytest.mark.parametrize("line", ["{", '{"contents": "x"}', "[]", '{"importance": "high"}'])
def test_line_that_is_no_memory_is_named(line: str) -> None:
    """The message says which line it is."""
    with pytest.raises(CommandError, match=r"Line 2 of f\.jsonl is no memory"):
        list(memories_from_lines(['{"content": "fine"}', line], "f.jsonl"))


def test_what_is_wrong_with_a_line_is_said_in_one() -> None:
    """Not with all the names that a memory could have had."""
    with pytest.raises(CommandError) as caught:
        list(memories_from_lines(['{"contents": "x"}'], "f.jsonl"))

    assert '"contents"' in str(caught.value)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_an_export_is_told_from_memories() -> None:
    """Whoever takes one command for the other learns which it is."""
    with pytest.raises(CommandError, match="import-user"):
        list(memories_from_lines(['{"record":"header","format":"memsvc-user","version":1}'], "ada.jsonl"))


def test_directory_is_read_with_relative_names(tmp_path: Path) -> None:
    """Every Markdown document below a directory is read, in order, and named by its place."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_text("two")
    (tmp_path / "one.markdown").write_text("one")
    (tmp_path / "other.txt").write_text("other")

    source = read_source(str(tmp_path), ImportFormat.AUTO)

    assert [(memory.source, memory.content) for memory in source.memories] == [
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
    assert [memory.content for memory in source.memories] == ["a", "b"]


def test_directory_without_documents_is_told(tmp_path: Path) -> None:
    """Nothing to import is a mistake."""
    with pytest.raises(CommandError, match="no Markdown documents"):
        read_source(str(tmp_path), ImportFormat.AUTO)
