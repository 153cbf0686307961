"""Where the files of memories are."""

from __future__ import annotations

import posixpath
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.domain.vault_layout import (
    conflict_path,
    fields_of_name,
    folder_of_id,
    id_of_folder,
    is_note,
    layer_of_move,
    location_of,
    parse_note_path,
    path_key,
    readable_misnamed_path,
    root_of,
    transcript_path,
)
from memsvc.testing.factories import memory

TRICKS = st.sampled_from(
    ["..", "../../etc/passwd", "/etc", "C:\\x", "a\\..\\b", "con", "NUL.txt", "aux.", " . ", "~", "%2e%2e", "a\0b", "é", "e\u0301",
     "ＣＯＮ", "\u202egpj", "a/b", "a:b", "*?", "İ", "ß", "SS", "ﬁ", "각", "각", "x" * 300, "字" * 200]
)  # fmt: skip
NAMES = (st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=128) | TRICKS).filter(bool)
IDS = NAMES.filter(lambda name: "\0" not in name and len(name) <= 128)
FORBIDDEN = set('<>:"\\|?*') | {chr(number) for number in range(32)}
RESERVED = {"con", "prn", "aux", "nul"} | {f"{name}{n}" for name in ("com", "lpt") for n in range(10)}


def assert_safe(path: str) -> None:
    """Fail unless *path* stays below its root and every file system takes it."""
    assert not posixpath.isabs(path)
    assert posixpath.normpath(path) == path
    for part in path.split("/"):
        assert part not in {"", ".", ".."}
        assert not FORBIDDEN & set(part)
        assert part[-1] not in ". "
        assert part.partition(".")[0].lower() not in RESERVED
        assert len(part.encode()) <= 255
        assert not part.startswith(".")


@st.composite
def hostile(draw: st.DrawFn) -> Memory:
    """Return a memory whose names are as bad as can be."""
    user, project = draw(IDS), draw(IDS | st.just(""))
    return memory(
        draw(NAMES),
        user_id=user,
        project_id=project,
        tenant_id=project,
        session_id=user,
        key=draw(st.sampled_from(["", "context/", "knowledge/world/", "daily/"])) + draw(NAMES),
        title=draw(NAMES | st.just("")),
        category=draw(NAMES | st.just("")),
        layer=draw(st.sampled_from(Layer)),
        status=draw(st.sampled_from(Status)),
    )


@settings(max_examples=300)
@given(hostile())
def test_no_path_leaves_the_vault(one: Memory) -> None:
    """Whatever ids, keys, titles and categories hold, the file lies below the folder of its user."""
    scope, paths = one.scope, location_of(one).paths
    for path in (*paths, *transcript_path(scope, one.create_time), conflict_path(paths[0], "1")):
        assert_safe(path)
        assert path.startswith(root_of(scope) + "/")
        assert is_note(path) == (".conflict-" not in path)
        seen = parse_note_path(path)
        assert seen is not None
        assert seen.root == root_of(scope)
        assert seen.scope in {None, Scope(scope.user_id, scope.project_id, tenant_id=scope.tenant_id)}


@settings(max_examples=200)
@given(IDS, IDS)
def test_folders_of_different_ids_differ_on_every_file_system(one: str, other: str) -> None:
    """Case, composition and shortening do not bring two users together; short ones can be read back."""
    assert (path_key(folder_of_id(one)) == path_key(folder_of_id(other))) == (one == other)
    assert id_of_folder(folder_of_id(one)) in {one, None}


@given(st.text(max_size=30))
def test_a_folder_is_of_at_most_one_id(folder: str) -> None:
    """Only the one folder of an id is taken for it."""
    found = id_of_folder(folder)

    assert found is None or path_key(folder_of_id(found)) == path_key(folder)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"category": "knowledge", "title": "Go patterns"}, "users/ada/long_term/20260206_knowledge_Go-patterns.md"),
        ({"layer": Layer.CORE, "kind": Kind.PREFERENCE}, "users/ada/core/20260206_preference_Anna-lives-in-Lisbon.md"),
        ({"layer": Layer.SHORT_TERM, "title": "登录 重构"}, "users/ada/short_term/20260206_fact_登录-重构.md"),
        ({"key": "daily/2026-02-06"}, "users/ada/daily/2026-02-06.md"),
        ({"key": "context/MEMORY"}, "users/ada/context/MEMORY.md"),
        ({"key": "knowledge/opinions/a/b"}, "users/ada/knowledge/opinions/a-b.md"),
        ({"layer": Layer.SESSION, "title": "T"}, "users/ada/sessions/2026-02/20260206_fact_T.md"),
        ({"status": Status.ARCHIVED, "title": "T"}, "users/ada/archive/long_term/20260206_fact_T.md"),
        ({"project_id": "web", "title": "T"}, "users/ada/projects/web/long_term/20260206_fact_T.md"),
        ({"tenant_id": "acme", "title": "T"}, "tenants/acme/users/ada/long_term/20260206_fact_T.md"),
        ({"user_id": "Ada Lovelace", "title": "T"}, "users/!ada !lovelace/long_term/20260206_fact_T.md"),
    ],
)
def test_each_memory_has_its_place(fields: dict[str, Any], path: str) -> None:
    """Folders by user, project and layer; names by date, category and title."""
    assert path == location_of(memory(**fields)).paths[0]


def test_equal_names_are_told_apart_by_the_id() -> None:
    """The last candidate is no other memory's."""
    one, other = memory(title="T"), memory(title="T")

    assert location_of(one).candidates[0] == location_of(other).candidates[0]
    assert not set(location_of(one).candidates[1:]) & set(location_of(other).candidates[1:])


def test_content_does_not_move_a_file() -> None:
    """The anchor of a memory without title is the same whatever it says."""
    assert location_of(memory("One.")).anchor == location_of(memory("Two.")).anchor


def test_a_transcript_lies_in_the_month_of_its_session() -> None:
    """As S1 has it: the moment of the first message, then the session."""
    paths = transcript_path(Scope("ada", "web", session_id="Chat 1"), datetime(2026, 2, 1, 10, 30, tzinfo=UTC))

    assert paths[0] == "users/ada/projects/web/sessions/2026-02/20260201_103000_Chat-1.md"


@pytest.mark.parametrize(
    "path",
    ["readme.md", "users/ada/.git/x.md", "users/ada/x.txt", "users/ada/.x.md", "users/../x.md", "users/ada/~x.md",
     "users/ada/core/x_LOCAL_1.md", "users/ada/core/x.conflict-3.md", "users//x.md", "users/ada/a\\b.md", "users/ada/core/.md"],
)  # fmt: skip
def test_what_is_no_note_is_passed_over(path: str) -> None:
    """Hidden files, editors' own, conflict files and files of nobody."""
    assert not is_note(path)


def test_a_place_says_what_a_new_file_is() -> None:
    """The layer by the folder, the key by the name, the state by archive/."""
    core = parse_note_path("users/ada/projects/web/core/x.md")
    named = parse_note_path("users/ada/archive/knowledge/world/Sun.md")
    bad = parse_note_path("users/ada/daily/yesterday.md")

    assert core is not None
    assert named is not None
    assert bad is not None
    assert (core.scope, core.layer, core.stem) == (Scope("ada", "web"), Layer.CORE, "x")
    assert (named.key, named.is_archived, named.layer) == ("knowledge/world/Sun", True, Layer.LONG_TERM)
    assert "2026-02-06" in bad.fault
    assert parse_note_path("users/x.md") is None


def test_moving_a_file_gives_its_memory_another_layer() -> None:
    """Between folders of one user; a move within a folder says nothing."""
    assert layer_of_move("users/a/long_term/x.md", "users/a/core/x.md") is Layer.CORE
    assert layer_of_move("users/a/long_term/x.md", "users/a/archive/long_term/x.md") is None
    assert layer_of_move("users/a/long_term/x.md", "users/a/long_term/sub/y.md") is None


def test_a_name_says_category_and_title() -> None:
    """As S1 has it; a kind's name stands for the kind."""
    assert fields_of_name("20240201_task_login-refactor") == ("", Kind.TASK, "login refactor")
    assert fields_of_name("20240201_golang_patterns") == ("golang", None, "patterns")
    assert fields_of_name("shopping") == ("", None, "shopping")


def test_a_name_that_is_no_text_is_told_when_it_would_be_a_note() -> None:
    """Old archives hold such names: whoever has one learns of it, readably; noise is not worth a word."""
    names = ["caf\udce9.md", "a\udcff/x.md", "\udce9.txt", ".git/\udce9.md", "café.md"]

    assert not any(is_note(f"users/ada/{name}") for name in names[:4])
    assert [readable_misnamed_path(f"users/ada/{name}") for name in names] == [
        "users/ada/caf\\xe9.md", "users/ada/a\\xff/x.md", None, None, None,
    ]  # fmt: skip
