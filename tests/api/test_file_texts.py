"""The text of files: its states, its passages in SearchAll and in contexts, and who may find it."""

from __future__ import annotations

from typing import Any

import pytest

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support import documents
from tests.support.files import delete, get, upload
from tests.support.rpc import TIMEOUT, create
from tests.support.server_process import Stubs
from tests.support.until import until

FILES = search_pb.CONTEXT_SECTION_FILES
REPORT = types_pb.FILE_CATEGORY_REPORT
OFFICE = "application/vnd.openxmlformats-officedocument"


def indexed(stubs: Stubs, scope: types_pb.Scope, content: bytes, **header: Any) -> file_pb.File:
    """Upload a file, and return its record once its text is no longer pending."""
    file = upload(stubs, scope, content, **header)
    return settled(stubs, scope, file.id)


def settled(stubs: Stubs, scope: types_pb.Scope, file_id: str) -> file_pb.File:
    """Return the record of a file once its text is no longer pending."""

    def look() -> file_pb.File | None:
        file = get(stubs, scope, file_id)
        return None if file.text.state == file_pb.FILE_TEXT_STATE_PENDING else file

    return until(look)


def found(stubs: Stubs, scope: types_pb.Scope, query: str, **request: Any) -> search_pb.SearchAllResponse:
    """Search all groups."""
    asked = search_pb.SearchAllRequest(scope=scope, query=query, **request)
    return stubs.search.SearchAll(asked, timeout=TIMEOUT)


def context_of(stubs: Stubs, scope: types_pb.Scope, query: str, **options: Any) -> search_pb.RenderContextResponse:
    """Render a context."""
    asked = search_pb.RenderContextRequest(
        scope=scope, query=query, options=search_pb.ContextOptions(**options) if options else None
    )
    return stubs.search.RenderContext(asked, timeout=TIMEOUT)


DOCUMENTS = {
    "notes.txt": "Zoo\n\nThe walrus pool leaks on Fridays.\n海象池每周五漏水。\n".encode(),
    "notes.md": "# Pools\n\nThe walrus pool leaks on Fridays.\n\n## 水池\n海象池每周五漏水。\n".encode(),
    "pools.csv": "pool,state\nwalrus pool,leaks on Fridays\n海象池,每周五漏水\n".encode(),
    "pools.html": "<h1>Pools</h1>\n<p>The <b>walrus</b> pool leaks\n<p>海象池每周五漏水".encode(),
    "pools.pdf": documents.pdf(["The walrus pool leaks on Fridays.", "海象池每周五漏水。"]),
    "pools.docx": documents.docx(["The walrus pool leaks on Fridays.", "海象池每周五漏水。"]),
    "pools.xlsx": documents.xlsx({"pools": [["walrus pool leaks"]], "水池": [["海象池每周五漏水"]]}),
    "pools.pptx": documents.pptx([["The walrus pool leaks on Fridays."], ["海象池每周五漏水。"]]),
}


@pytest.mark.parametrize(
    ("name", "english", "chinese"),
    [
        ("notes.txt", (0, 3), (0, 4)),
        ("notes.md", (0, 3), (0, 6)),
        ("pools.csv", (0, 2), (0, 3)),
        ("pools.html", (0, 2), (0, 3)),
        ("pools.pdf", (1, 1), (2, 1)),
        ("pools.docx", (0, 1), (0, 2)),
        ("pools.xlsx", (1, 1), (2, 1)),
        ("pools.pptx", (1, 1), (2, 1)),
    ],
)
def test_text_of_every_kind_is_found_with_its_place(
    stubs: Stubs, scope: types_pb.Scope, name: str, english: tuple[int, int], chinese: tuple[int, int]
) -> None:
    """In English and in Chinese, with page and line, in SearchAll and as evidence of contexts."""
    file = indexed(stubs, scope, DOCUMENTS[name], name=name, category=REPORT)
    assert file.text.state == file_pb.FILE_TEXT_STATE_INDEXED
    assert file.text.char_count > 20
    assert file.text.passage_count >= 1
    assert file.text.reason == file_pb.FILE_TEXT_REASON_UNSPECIFIED

    for query, (page, line), word, locale, shown in (
        ("walrus leaking", english, "walrus", "en", f"page {english[0]}, line" if english[0] else ", line"),
        ("海象 漏水", chinese, "海象", "zh", f"第{chinese[0]}页，第" if chinese[0] else "，第"),
    ):
        [hit] = found(stubs, scope, query).reports
        assert hit.file.file.id == file.id
        best = hit.passages[0]
        assert word in best.snippet
        assert [best.snippet[span.start : span.end] for span in best.spans]
        assert best.page == page
        assert best.start_line <= line <= best.end_line
        assert 0 < best.score <= 1
        assert hit.score >= best.score

        reply = context_of(stubs, scope, query, locale=locale)
        cited = [one for one in reply.citations if one.section == FILES]
        text = reply.markdown[cited[0].start : cited[0].end]
        assert cited[0].passage.file == types_pb.FileRef(category=REPORT, id=file.id)
        assert (cited[0].passage.name, cited[0].passage.page) == (name, page)
        assert cited[0].passage.start_line <= line <= cited[0].passage.end_line
        assert name in text
        assert shown in text
        assert word in text
        assert f"{file.create_time.ToDatetime():%Y-%m-%d}" in text


@pytest.mark.parametrize(
    ("content", "header", "state", "reason"),
    [
        (b"\x89PNG", {"name": "a.png"}, "UNSUPPORTED", "UNSUPPORTED_TYPE"),
        (b"{}", {"name": "a", "media_type": "text/rtf"}, "UNSUPPORTED", "UNSUPPORTED_TYPE"),
        ("déjà vu à côté".encode("latin-1"), {"name": "a.txt"}, "FAILED", "UNKNOWN_ENCODING"),
        (b"\x00\x01\x02\x03" * 20, {"name": "a.txt"}, "FAILED", "UNKNOWN_ENCODING"),
        (b"%PDF-1.4 and no more", {"name": "a.pdf"}, "FAILED", "MALFORMED"),
        (b"PK no archive", {"name": "a.docx"}, "FAILED", "MALFORMED"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", {"name": "a.xlsx"}, "FAILED", "ENCRYPTED"),
        (b"", {"name": "a.txt"}, "INDEXED", "UNSPECIFIED"),
        ("海象".encode("gb18030"), {"name": "a.txt"}, "INDEXED", "UNSPECIFIED"),
        ("walrus".encode("utf-16"), {"name": "a.txt"}, "INDEXED", "UNSPECIFIED"),
        (b"walrus", {"name": "a", "media_type": "text/x-anything"}, "INDEXED", "UNSPECIFIED"),
    ],
)
def test_states_of_texts(
    stubs: Stubs, scope: types_pb.Scope, content: bytes, header: dict[str, str], state: str, reason: str
) -> None:
    """Each failure has a named reason and a description, and a failed text leaves the file as it is."""
    file = indexed(stubs, scope, content, **header)

    assert file_pb.FileTextState.Name(file.text.state) == f"FILE_TEXT_STATE_{state}"
    assert file_pb.FileTextReason.Name(file.text.reason) == f"FILE_TEXT_REASON_{reason}"
    assert bool(file.text.message) == (reason != "UNSPECIFIED")
    assert file.size_bytes == len(content)


def test_nobody_else_finds_a_text(stubs: Stubs, user: str) -> None:
    """Not another user or project, nor by a context; a global file is found from every project of its user."""
    scopes = {
        "global": types_pb.Scope(user_id=user),
        "web": types_pb.Scope(user_id=user, project_id="web"),
        "shop": types_pb.Scope(user_id=user, project_id="shop"),
        "prefix": types_pb.Scope(user_id=f"{user}-2", project_id="web"),
        "other": types_pb.Scope(user_id=f"other-{user}"),
    }
    placed = {
        name: indexed(stubs, scopes[name], f"The narwhal of {name} sings.".encode(), name=f"{name}.txt").id
        for name in ("global", "web", "shop")
    }
    visible = {
        "global": {"global"}, "web": {"global", "web"}, "shop": {"global", "shop"}, "prefix": set(), "other": set(),
    }  # fmt: skip
    for name, scope in scopes.items():
        expected = {placed[one] for one in visible[name]}
        assert {hit.file.file.id for hit in found(stubs, scope, "narwhal sings").files} == expected
        cited = [one.passage.file.id for one in context_of(stubs, scope, "narwhal sings").citations]
        assert set(cited) == expected
        for private in ("agent_id", "session_id"):
            narrow = types_pb.Scope(**{"user_id": scope.user_id, "project_id": scope.project_id, private: "x"})
            assert {hit.file.file.id for hit in found(stubs, narrow, "narwhal sings").files} == expected


def test_scores_do_not_depend_on_texts_of_others(stubs: Stubs, user: str) -> None:
    """Rarity counts the passages of the own user and project alone."""
    mine = types_pb.Scope(user_id=user, project_id="web")
    indexed(stubs, mine, b"The narwhal sings.", name="a.txt")
    before = found(stubs, mine, "narwhal sings loudly").files[0].passages[0].score
    for scope in (types_pb.Scope(user_id=user, project_id="shop"), types_pb.Scope(user_id=f"{user}-2")):
        indexed(stubs, scope, b"\n\n".join([b"The narwhal sings. " * 30] * 20), name="b.txt")

    assert found(stubs, mine, "narwhal sings loudly").files[0].passages[0].score == before


def test_a_deleted_file_is_not_found(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Equal bytes of another file are found by that one still."""
    first, second = (indexed(stubs, scope, b"The puffin digs burrows.", name=name) for name in ("a.txt", "b.txt"))
    assert {hit.file.file.id for hit in found(stubs, scope, "puffin burrows").files} == {first.id, second.id}

    delete(stubs, scope, first.id)

    assert {hit.file.file.id for hit in found(stubs, scope, "puffin burrows").files} == {second.id}


def test_files_come_after_memories_and_within_the_budget(stubs: Stubs, scope: types_pb.Scope) -> None:
    """What has no room is reported; the section can be left out or asked for alone."""
    create(stubs, scope, "The otter keeper is called Mia.")
    text = b"\n\n".join(b"Otter %d eats %d fish. " % (at, at) * 18 for at in range(30))
    indexed(stubs, scope, text, name="otters.txt")

    whole = context_of(stubs, scope, "otter")
    sections = [one.section for one in whole.citations]
    assert sections == [search_pb.CONTEXT_SECTION_LONG_TERM] + [FILES] * 3
    [omission] = list(context_of(stubs, scope, "otter", total_tokens=700).summary.omissions)
    assert (omission.section, omission.reason) == (FILES, search_pb.OMISSION_REASON_BUDGET)
    assert omission.memory_count
    small = context_of(stubs, scope, "otter", total_tokens=700)
    assert small.token_count <= 700
    assert small.citations[0].section == search_pb.CONTEXT_SECTION_LONG_TERM
    alone = context_of(stubs, scope, "otter", sections=[FILES])
    assert {one.section for one in alone.citations} == {FILES}
    without = context_of(stubs, scope, "otter", sections=[search_pb.CONTEXT_SECTION_LONG_TERM])
    assert {one.section for one in without.citations} == {search_pb.CONTEXT_SECTION_LONG_TERM}


def test_a_delta_does_not_repeat_passages(stubs: Stubs, scope: types_pb.Scope) -> None:
    """A passage that the earlier context shows is unchanged; one of a deleted file is removed."""
    file = indexed(stubs, scope, b"The heron stands in the reeds.", name="birds.txt")
    first = context_of(stubs, scope, "heron reeds")
    asked = search_pb.RenderContextRequest(
        scope=scope, query="heron reeds", earlier_cursor=first.summary.context_cursor
    )

    assert not stubs.search.RenderContext(asked, timeout=TIMEOUT).citations
    delete(stubs, scope, file.id)
    assert list(stubs.search.RenderContext(asked, timeout=TIMEOUT).summary.removed_ids) == [
        first.citations[0].memory_id
    ]


def test_a_file_is_found_by_name_and_text_once(stubs: Stubs, scope: types_pb.Scope) -> None:
    """The score is the larger of the two; passages are at most three, best first."""
    text = b"\n\n".join(b"Badger setts have %d doors. " % at * 22 for at in range(9))
    file = indexed(stubs, scope, text, name="badger setts.txt")

    [hit] = found(stubs, scope, "badger setts").files

    assert hit.file.file.id == file.id
    assert len(hit.passages) == 3
    assert hit.score == 1.0
    assert [one.score for one in hit.passages] == sorted((one.score for one in hit.passages), reverse=True)
    assert len({one.id for one in hit.passages}) == 3
    assert all(len(one.snippet) <= 60 for one in found(stubs, scope, "badger", snippet_chars=60).files[0].passages)
