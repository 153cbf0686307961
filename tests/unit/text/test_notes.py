"""Memories as Markdown files, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.domain.field_rules import is_blank
from memsvc.domain.memory import FileRef, Keyword, Kind, Layer, Memory, Recurrence, Reminder, Slot, Status, Tier
from memsvc.domain.vault import NoteError, NoteFormat, differences
from memsvc.testing.factories import memory
from memsvc.text.passages import memory_keywords
from memsvc.text.vault_notes import note_of, read_note, render_note

ID = "019c31c4-5a4c-7a69-a08f-0d35c0a0d5f1"
BOMB = (
    b"---\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9))
    + b"---\ntext\n"
)
"""Each line is ten times as long as the one before when its aliases are written out."""
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NASTY = st.sampled_from(
    [
        "---\n",
        "---\ntitle: x\n---\n",
        "\r\n",
        "\ufeff",
        "  \n",
        "\n\n",
        "\t",
        "...\n",
        "--- \r\n",
        "关联文件",
        "\x85",
        "\u2028",
        "%YAML",
        " `chart:x1`",
        "\n\n**Related files**:\n- `chart:q`\n",
        "\n\n**关联文件**:\n",
    ]
)
CONTENT = st.lists(TEXT | NASTY, min_size=1, max_size=6).map("".join).filter(lambda text: not is_blank(text))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
REFS = (FileRef("artifact", "a:b"), FileRef("chart", "é"), FileRef("chart", "x1"), FileRef("chart", "q"))
TIME = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Return any memory that a person could have."""
    return memory(
        draw(CONTENT),
        title=draw(TEXT | NASTY),
        category=draw(TEXT | st.sampled_from(["yes", "null", "2026-02-06", "1e3", "0x1f", "~", "- a", "a: b", "#"])),
        tags=tuple(draw(st.lists(TEXT.filter(bool), max_size=3))),
        summary=draw(TEXT | NASTY),
        layer=draw(st.sampled_from(Layer)),
        kind=draw(st.sampled_from(Kind)),
        tier=draw(st.sampled_from(Tier)),
        status=draw(st.sampled_from(Status)),
        importance=draw(st.integers(1, 5)),
        confidence=draw(st.floats(0, 1)),
        event_time=draw(st.none() | TIME),
        expire_time=draw(st.none() | TIME),
        work_in_progress=draw(st.booleans()),
        metadata=draw(st.dictionaries(TEXT, JSON, max_size=3)),
        file_refs=draw(st.lists(st.sampled_from(REFS), unique=True).map(tuple)),
        keywords=draw(st.sampled_from([(), (Keyword("zebra", 0.25), Keyword("安", 1.0))])),
        reminder=draw(
            st.sampled_from([None, Reminder(2, 29, 0, Recurrence.YEARLY, 61, "Asia/Shanghai", Slot.MORNING)])
        ),
    )


OKF_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "type": TEXT | st.sampled_from(["Metric", "fact", "Fact", " x"]),
        "status": st.sampled_from(["draft", "stable", "deprecated", "x", 1]),
        "state": st.sampled_from(["archived", "x"]),
        "sources": st.sampled_from(
            [[], ["a"], [{"resource": "a"}], [{"resource": "a", "id": "b"}], [{"resource": "memory:x"}], "a", [1, 2]]
        ),
        "stale_after": st.sampled_from(["2027-01-01", 1]),
        "description": TEXT,
        "verified": st.sampled_from([{"by": "human:ada", "at": "2026-01-02T03:04:05+00:00"}]),
    },
)
"""Metadata with names that the Open Knowledge Format uses."""


@settings(max_examples=150)
@given(memories(), st.sampled_from(NoteFormat), OKF_METADATA, st.sampled_from(["", "import", "memory:x"]))
def test_every_memory_comes_back_as_it_was(
    written: Memory, form: NoteFormat, metadata: dict[str, Any], source: str
) -> None:
    """The file of a memory says all of it, whatever its content and fields look like, in both formats."""
    written = replace(written, metadata={**written.metadata, **metadata}, source=source)
    note = read_note(render_note(written, form), form)

    assert note.content == written.content
    assert differences(note, written, note_of(written)) == {}
    assert note.memory_id == written.id


@pytest.mark.parametrize("form", NoteFormat)
def test_times_that_are_equal_are_written_alike(form: NoteFormat) -> None:
    """The file has the same bytes, without anchors, when two fields of the memory are one object and when they are not."""
    day = datetime(2026, 2, 6, 9, 30, tzinfo=UTC)
    one = memory("Tea.", create_time=day, update_time=day, event_time=day)
    two = replace(one, update_time=day + timedelta(0), event_time=day + timedelta(0))

    assert render_note(one, form) == render_note(two, form)
    assert b"&" not in render_note(one, form)


@pytest.mark.parametrize("summary", ["Where she lives", ""])
def test_extracted_keywords_are_not_written(summary: str) -> None:
    """Neither those of title, summary and content, nor those of a version that left the summary out."""
    words = memory_keywords(title="Home", summary=summary, content="Anna lives in Lisbon.")
    written = memory(
        "Anna lives in Lisbon.", title="Home", summary="Where she lives", keywords=tuple(map(Keyword._make, words))
    )

    assert b"keywords" not in render_note(written)


def front_of(data: bytes) -> Any:
    """Return the front matter of a file."""
    return yaml.safe_load(data.decode().removeprefix("---\n").partition("\n---\n")[0])


@settings(max_examples=60)
@given(memories())
def test_a_file_in_okf_is_a_concept(written: Memory) -> None:
    """Its front matter is YAML with a type that is no empty text, and its status one of the three."""
    front = front_of(render_note(written, NoteFormat.OKF))

    assert isinstance(front["type"], str)
    assert front["type"].strip()
    assert front.get("status", "stable") in {"draft", "stable", "deprecated"}
    assert front["generated"]["by"]
    assert front["generated"]["at"] == written.update_time
    if written.expire_time is not None:
        assert front["stale_after"] >= written.expire_time.date()


@settings(max_examples=60)
@given(CONTENT)
def test_the_line_ends_of_windows_change_nothing(content: str) -> None:
    """A checkout that turns every line end into CRLF leaves a memory of plain line ends as it is."""
    plain = content.replace("\r", "")
    written = memory(plain)
    data = render_note(written).replace(b"\n", b"\r\n")

    assert differences(read_note(data), written, note_of(written)) == {}


@settings(max_examples=100)
@given(st.binary(max_size=200) | CONTENT.map(lambda text: f"---\n{text}\n---\nbody\n".encode()))
def test_any_bytes_are_a_note_or_a_named_error(data: bytes) -> None:
    """What cannot be read is refused with what is wrong, never otherwise."""
    try:
        note = read_note(data)
    except NoteError as error:
        assert error.description
    else:
        assert note.content


def test_a_file_without_front_matter_is_its_content() -> None:
    """A plain Markdown file says its content and no more; its last line end is not part of it."""
    assert {"content": "# Heading\n\ntext"} == dict(read_note("\ufeff# Heading\n\ntext\n".encode()).values)


def test_a_byte_order_mark_before_the_front_matter_is_passed_over() -> None:
    """Windows editors begin files with one."""
    assert read_note(b"\xef\xbb\xbf---\r\ntitle: A\r\n---\r\n\r\ntext\r\n").values == {"content": "text", "title": "A"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_before_the_front_matter_are_passed_over(end: str) -> None:
    """Front matter does not become content, which keeps its own rules and blank lines."""
    note = read_note(f"{end} {end}---{end}title: A{end}---{end}{end}Text.{end}".encode())
    assert (note.values["title"], note.content) == ("A", "Text.")
    for text in ("\n---\nA rule above.", "\n\nText.\n\n---\ntitle: A\n---", "---\nNo id, no end."):
        assert read_note(f"{text}\n".encode()).content == text


def test_an_alias_is_read_as_its_value() -> None:
    """A text that is repeated by an alias is the same text."""
    note = read_note(b"---\ntitle: &t Tea\nsummary: *t\n---\nText.\n")
    assert (note.values["title"], note.values["summary"]) == ("Tea", "Tea")


def test_what_a_complete_file_leaves_out_is_cleared() -> None:
    """A line taken out of a file of an id takes the value away."""
    written = memory(title="T", tags=("a",), keywords=(Keyword("zebra", 0.5),), reminder=Reminder(2, 3))
    kept = [
        line for line in render_note(written).decode().split("\n") if not line.startswith(("title:", "tags:", "- a"))
    ]
    data = "\n".join(kept).replace("keywords:\n  zebra: 0.5\n", "").replace("reminder:\n  month: 2\n  day: 3\n", "")

    found = differences(read_note(data.encode()), written, note_of(written))

    assert found == {"title": "", "tags": (), "keywords": (), "reminder": None}


@pytest.mark.parametrize(
    ("content", "heading"), [("The report is done.", "Related files"), ("报告写好了。", "关联文件")]
)
def test_files_given_apart_stand_below_the_text(content: str, heading: str) -> None:
    """As a list that a person can change, in the language of the text; those in the text are not repeated."""
    refs = (FileRef("report", "r1"), FileRef("chart", "c1"))
    written = memory(f"{content} `chart:c1`", file_refs=refs)

    data = render_note(written).decode()
    assert data.endswith(f"{content} `chart:c1`\n\n**{heading}**:\n- `report:r1`\n")
    assert "file_refs" not in data
    without = data.replace("- `report:r1`\n", "- `artifact:a1`\n")
    assert differences(read_note(without.encode()), written, note_of(written)) == {
        "file_refs": (FileRef("artifact", "a1"), FileRef("chart", "c1"))
    }


def test_unknown_names_are_kept_as_metadata() -> None:
    """Nothing that somebody wrote into the front matter is lost."""
    note = read_note(b"---\naliases: [x, y]\nday: 2026-02-06\nmetadata: {z: 1}\n---\ntext\n")

    assert note.values["metadata"] == {"aliases": ["x", "y"], "day": "2026-02-06", "z": 1}


def test_a_time_without_a_zone_is_utc() -> None:
    """A day is its first moment."""
    east = timezone(timedelta(hours=8))
    note = read_note(b"---\nevent_time: 2026-02-06\nexpire_time: 2026-03-01 10:00:00+08:00\n---\ntext\n")

    assert note.values["event_time"] == datetime(2026, 2, 6, tzinfo=UTC)
    assert note.values["expire_time"] == datetime(2026, 3, 1, 10, tzinfo=east)


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (b"---\ntitle: [\n---\ntext\n", 3, "YAML"),
        (b"---\ntitle: A\nimportance: 9\n---\ntext\n", 3, "importance"),
        (b"---\nlayer: forever\n---\ntext\n", 2, "layer"),
        (b"---\n- a\n---\ntext\n", 2, "names and values"),
        (b"---\nevent_time: 2026-02-31\n---\ntext\n", 2, "day"),
        (b"---\na: &x [1]\nb: *x\n---\ntext\n", 2, "anchor"),
        (b"---\nkey: daily/yesterday\n---\ntext\n", 2, "daily"),
        (b"\n \n---\nkey: daily/yesterday\n---\ntext\n", 4, "daily"),
        (f"---\nid: {ID}\ntitle: A\n\ntext\n".encode(), 1, "does not end"),
        (f"\ufeff\r\n---\r\ntitle: A\r\nid: '{ID}'\r\ntext\r\n".encode(), 2, "does not end"),
        (f"---\nid: {ID}\n--\n\ntext\n".encode(), 1, "does not end"),
        (b'---\ntitle: A\ntags: [a]\n"title": B\n---\ntext\n', 4, "'title' twice"),
        (b"---\nx:\n  a: 1\n  a: 2\n---\ntext\n", 4, "'a' twice"),
        (b"---\na: &a {k: v}\nb:\n  <<: *a\n---\ntext\n", 4, "'<<'"),
        (b"---\na: &a [*a]\n---\ntext\n", 2, "aliases"),
        (BOMB, 6, "aliases"),
        (b"---\ntitle: A\n---\n", 4, "content"),
        ("---\ntitle: A\n---\n\u3000 \n".encode(), 4, "content"),
        (b"text\nmore \xff\n", 2, "UTF-8"),
        (b"a\nb\0\n", 2, "NUL"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(data: bytes, line: int, word: str) -> None:
    """The error names the line, and what is wrong there."""
    with pytest.raises(NoteError) as raised:
        read_note(data)

    assert raised.value.line == line
    assert word in raised.value.description


@pytest.mark.parametrize(
    "words", ["12:30", "1.10", "007", "1_000", "2026-2-6", "1e3", "no", "on", "0x1F", "会议 12:30"]
)
def test_a_text_is_what_is_written(words: str) -> None:
    """In all fields that are texts, though YAML 1.1 would make numbers, days and truths of it."""
    note = read_note(f"---\ntitle: {words}\ntags: [{words}]\nsummary: {words}\n---\nText.\n".encode())

    assert {name: note.values[name] for name in ("title", "tags", "summary")} == {
        "title": words, "tags": (words,), "summary": words,
    }  # fmt: skip


def test_metadata_are_numbers_where_they_are_plain_ones() -> None:
    """A time of day, an area code and a country stay what they are; a day is that day."""
    front = "at: 12:30\nzip: 01234\ncountry: NO\nseats: 5\nshare: 1.50\nfar: -1.0e+20\nday: 2026-02-06\nis_open: true\n"
    note = read_note(f"---\n{front}---\nText.\n".encode())

    assert note.values["metadata"] == {
        "at": "12:30", "zip": "01234", "country": "NO", "seats": 5, "share": 1.5, "far": -1.0e20, "day": "2026-02-06",
        "is_open": True,
    }  # fmt: skip
    found = note.values["metadata"]
    assert isinstance(found, dict)
    assert [type(value) for value in found.values()] == [str, str, str, int, float, float, str, bool]


@pytest.mark.parametrize(
    ("word", "meant"), [("true", True), ("yes", True), ("On", True), ("off", False), ("no", False)]
)
def test_a_flag_may_be_said_in_words(word: str, meant: bool) -> None:  # noqa: FBT001 - a parameter of a test
    """As many write it."""
    note = read_note(f"---\nwork_in_progress: {word}\n---\nText.\n".encode())

    assert note.values["work_in_progress"] is meant


@pytest.mark.parametrize("value", ["!!bool x", "!!timestamp x", "!!int ''", "!!float x", "!!binary x", "[a]", "{a: b}"])
def test_a_value_that_is_not_of_its_tag_is_refused(value: str) -> None:
    """Whatever the YAML library makes of it."""
    with pytest.raises(NoteError) as caught:
        read_note(f"---\nwork_in_progress: {value}\n---\nText.\n".encode())

    assert caught.value.line == 2


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, ".inf", "-.inf", ".nan", "[1, .inf]"])
def test_numbers_that_are_no_doubles_are_refused(number: str) -> None:
    """Everybody who reads metadata reads doubles; one that is none would make every list of the user fail."""
    with pytest.raises(NoteError) as caught:
        read_note(f"---\nmetadata: {{count: {number}}}\n---\nText.\n".encode())

    assert caught.value.line == 2


OKF_NOTE = b"""---
type: Metric
title: Revenue \xe6\x94\xb6\xe5\x85\xa5
description: Recognized revenue.
tags: [finance]
resource: https://example.com/revenue
sources:
  - id: policy
    resource: https://example.com/policy
    author: team:finance
generated: { by: human:ada, at: 2026-06-20T22:53:05Z }
verified:
  - { by: human:ada, at: 2026-06-25T09:00:00Z }
status: draft
stale_after: 2027-09-23
runtime: bigquery
---

# Definition
"""


def test_a_concept_of_somebody_else_is_a_memory() -> None:
    """Type, summary, time, source and expiry; everything else is kept as metadata and written at its place again."""
    note = read_note(OKF_NOTE, NoteFormat.OKF)
    values = dict(note.values)
    metadata = values["metadata"]

    assert (values["kind"], values["title"], values["summary"]) == (
        Kind.DOCUMENT,
        "Revenue 收入",
        "Recognized revenue.",
    )
    assert values["event_time"] == datetime(2026, 6, 20, 22, 53, 5, tzinfo=UTC)
    assert values["expire_time"] == datetime(2027, 9, 23, tzinfo=UTC)
    assert values["source"] == "human:ada"
    assert isinstance(metadata, dict)
    assert metadata["type"] == "Metric"
    assert metadata["sources"][0]["author"] == "team:finance"

    # As a store gives them back: plain times.
    plain = {
        name: datetime.fromtimestamp(value.timestamp(), UTC) if isinstance(value, datetime) else value
        for name, value in values.items()
        if name != "content"
    }
    stored = memory("# Definition", **plain)
    again = front_of(render_note(stored, NoteFormat.OKF))
    wanted = front_of(OKF_NOTE)
    for name in ("type", "title", "description", "tags", "resource", "status", "stale_after", "runtime"):
        assert again[name] == wanted[name], name


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("status: deprecated", "status", Status.ARCHIVED),
        ("status: deprecated\nstate: expired", "status", Status.EXPIRED),
        ("status: stable\nstate: archived", "status", Status.ACTIVE),
        ("stale_after: 2027-01-01", "expire_time", datetime(2027, 1, 1, tzinfo=UTC)),
        (
            "stale_after: 2027-01-01\nexpire_time: 2026-12-31 12:00:00",
            "expire_time",
            datetime(2026, 12, 31, 12, tzinfo=UTC),
        ),
        ("stale_after: 2028-01-01\nexpire_time: 2026-12-31 12:00:00", "expire_time", datetime(2028, 1, 1, tzinfo=UTC)),
        ("sources: [{resource: notes.txt}]", "source", "notes.txt"),
        ("type: decision", "kind", Kind.DECISION),
        ("description: short", "summary", "short"),
    ],
)
def test_edits_of_terms_of_okf_are_edits_of_the_memory(line: str, name: str, value: object) -> None:
    """What a person writes in OKF's terms counts."""
    note = read_note(f"---\nid: 019c31c4-5a4c-7a69-a08f-0d35c0a0d5f1\n{line}\n---\nText.\n".encode(), NoteFormat.OKF)

    assert note.values[name] == value


def test_terms_of_okf_are_metadata_in_the_other_format() -> None:
    """As any unknown name."""
    note = read_note(b"---\ntype: Metric\ndescription: x\n---\nText.\n")

    assert note.values["metadata"] == {"type": "Metric", "description": "x"}
    assert "kind" not in note.values
