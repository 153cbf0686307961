"""Files that people make, edit, move and remove become changes of memories."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsvc.domain.memory import Kind, Layer, Origin, Status
from memsvc.domain.scope import Scope
from memsvc.domain.vault import VaultAction
from tests.unit.engine.vault.vault_fixture import BASE, Bench, place


def test_a_new_file_becomes_a_memory(bench: Bench) -> None:
    """Layer by folder, kind and title by name, and the file names the memory from then on."""
    path = bench.put(f"{BASE}/core/20260206_decision_use-sqlite.md", "We use SQLite.\n")

    taken = bench.took(path)

    made = bench.memory(taken.memory_id)
    assert taken.action is VaultAction.CREATED
    assert (made.content, made.layer, made.kind, made.title) == (
        "We use SQLite.",
        Layer.CORE,
        Kind.DECISION,
        "use sqlite",
    )
    assert (made.origin, made.source, made.scope.agent_id, made.scope.project_id) == (
        Origin.USER,
        "vault",
        "vault",
        "apollo",
    )
    assert f"id: {made.id}" in bench.text(path)
    assert bench.take(path) is VaultAction.UNCHANGED


@pytest.mark.parametrize(
    "time", ["2026-01-02", "2026-01-02 03:04:05", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05+00:00"]
)
def test_a_new_file_with_a_time_becomes_one_memory(bench: Bench, time: str) -> None:
    """The file names the memory whichever form the time has, and a second look changes nothing."""
    path = bench.put(f"{BASE}/long_term/a.md", f"---\nevent_time: {time}\n---\nThe lake froze.\n")

    taken = bench.took(path)

    assert taken.action is VaultAction.CREATED
    assert bench.memory(taken.memory_id).event_time == datetime.fromisoformat(time).replace(tzinfo=UTC)
    assert f"id: {taken.memory_id}" in bench.text(path)
    assert bench.take(path) is VaultAction.UNCHANGED


def test_a_copy_of_a_file_that_expires_is_another_memory(bench: Bench) -> None:
    """The copy has the time of the original, in another project, too."""
    path = bench.put(f"{BASE}/short_term/a.md", "Buy oats.\n")
    first = bench.memory(bench.took(path).memory_id)
    assert "expire_time: " in bench.text(path)

    for copy in (f"{BASE}/short_term/copy.md", f"{BASE.replace('apollo', 'gemini')}/short_term/copy.md"):
        bench.put(copy, bench.text(path))
        taken = bench.took(copy)
        assert taken.memory_id != first.id
        assert [first.expire_time] == [one.expire_time for one in bench.memories() if one.id == taken.memory_id]
        assert f"id: {taken.memory_id}" in bench.text(copy)


def test_an_edit_becomes_a_revision(bench: Bench) -> None:
    """Content and fields alike; the earlier revision stays."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    bench.put(path, bench.text(path).replace("One.", "Two.").replace("title: a", "title: B\ntags: [x, y]"))

    assert bench.take(path) is VaultAction.UPDATED
    now = bench.memory(memory_id)
    assert (now.content, now.title, now.tags, now.revision) == ("Two.", "B", ("x", "y"), 2)
    assert bench.take(path) is VaultAction.UNCHANGED


def test_a_file_that_is_gone_deletes_its_memory_softly(bench: Bench) -> None:
    """It can be restored, and is when the file comes back."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    kept = bench.text(path)
    (bench.root / path).unlink()

    assert bench.take(path) is VaultAction.DELETED
    assert bench.memory(memory_id).status is Status.DELETED
    assert bench.take(path) is VaultAction.UNCHANGED

    bench.put(path, kept.replace("One.", "Once more."))
    assert bench.take(path) is VaultAction.RESTORED
    now = bench.memory(memory_id)
    assert (now.status, now.content) == (Status.ACTIVE, "Once more.")


def test_a_moved_file_gives_its_layer(bench: Bench) -> None:
    """In any order of telling, it is the same memory; archive/ archives it."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    moved, away = f"{BASE}/core/b.md", f"{BASE}/archive/core/b.md"
    for before, after in ((path, moved), (moved, away)):
        (bench.root / after).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / before).rename(bench.root / after)
        taken = {one.path: one for one in bench.taking.take_all([before, after])}
        assert taken[before].action is VaultAction.UNCHANGED
        assert taken[after].memory_id == memory_id

    now = bench.memory(memory_id)
    assert (now.layer, now.status) == (Layer.CORE, Status.ARCHIVED)


def test_a_file_and_its_memory_both_changed_are_both_kept(bench: Bench) -> None:
    """The file's side is the memory's; the other is an earlier revision and lies beside the file."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    written = bench.memory(memory_id)
    bench.change(memory_id, content="By call.")
    bench.put(path, bench.text(path).replace("One.", "By hand."))

    taken = bench.took(path)

    assert taken.action is VaultAction.CONFLICT
    assert bench.memory(memory_id).content == "By hand."
    assert bench.memory(memory_id).revision == written.revision + 2
    [beside] = [name for name in bench.files() if ".conflict-" in name]
    assert "By call." in bench.text(beside)
    assert beside in taken.detail
    assert bench.take(beside) is VaultAction.IGNORED


def test_a_deletion_does_not_win_over_a_change(bench: Bench) -> None:
    """The memory stays, and will be written again."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    bench.change(memory_id, content="By call.")
    (bench.root / path).unlink()

    assert bench.take(path) is VaultAction.CONFLICT
    assert bench.memory(memory_id).status is Status.ACTIVE
    assert [one.id for one in bench.context.manifest.behind(owner=None, after_row=0, limit=9)] == [memory_id]


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"---\nimportance: 9\n---\ntext\n", 2), (b"---\ntitle: [\n---\ntext\n", 3), (b"\xff\xfe", 1), (b"", 1)],
)
def test_a_bad_file_is_reported_and_left_alone(bench: Bench, data: bytes, line: int) -> None:
    """Of a new memory or a known one: nothing is lost on either side."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    for bad in (path, f"{BASE}/core/new.md"):
        bench.put(bad, data)
        taken = bench.took(bad)
        assert (taken.action, taken.line) == (VaultAction.INVALID, line)
        assert (bench.root / bad).read_bytes() == data
    assert bench.memory(memory_id).content == "One."


def test_a_copy_is_another_memory(bench: Bench) -> None:
    """Two files of one id are two memories, of the same content too."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    copy = bench.put(f"{BASE}/long_term/b.md", bench.text(path))

    taken = bench.took(copy)

    assert taken.action is VaultAction.CREATED
    assert taken.memory_id != memory_id
    assert f"id: {taken.memory_id}" in bench.text(copy)


@pytest.mark.parametrize("moves", [{"a": "b", "b": "a"}, {"b": "a", "c": "b"}, {"a": "b", "b": "c"}])
@pytest.mark.parametrize("contents", [("One.", "Two.", "Three."), ("一。", "二。", "三。")])
def test_a_file_moved_to_where_another_was_keeps_its_memory(
    bench: Bench, moves: dict[str, str], contents: tuple[str, ...]
) -> None:
    """Names that are swapped or passed on: what each memory says, and its file, stay the same."""
    paths = {name: f"{BASE}/long_term/{name}.md" for name in "abc"}
    known = {
        name: bench.took(bench.put(paths[name], f"{content}\n")).memory_id
        for name, content in zip("abc", contents, strict=True)
    }
    said = {name: (bench.root / path).read_bytes() for name, path in paths.items()}
    for path in (paths[name] for name in moves):
        (bench.root / path).unlink()
    for name, other in moves.items():
        bench.put(paths[other], said[name])

    taken = {one.path: one for one in bench.taking.take_all(paths.values())}

    assert {name: taken[paths[other]].memory_id for name, other in moves.items()} == {
        name: known[name] for name in moves
    }
    for name, content in zip("abc", contents, strict=True):
        assert bench.memory(known[name]).content == content
    for name, other in moves.items():
        assert bench.take(paths[other]) is VaultAction.UNCHANGED
        assert (bench.root / paths[other]).read_bytes() == said[name]


@pytest.mark.parametrize(
    ("before", "after"), [(BASE, "users/ada/projects/web"), (BASE, "users/ada"), ("users/ada", BASE)]
)
def test_a_file_moved_to_another_project_is_a_new_memory(bench: Bench, before: str, after: str) -> None:
    """With all that the file says; the old memory is deleted softly and can be restored with its history."""
    old, new = f"{before}/long_term/a.md", f"{after}/long_term/a.md"
    made = bench.took(bench.put(old, "One.\n")).memory_id
    bench.change(made, content="Two.", tags=("x",))
    bench.vault.follow()
    (bench.root / new).parent.mkdir(parents=True, exist_ok=True)
    (bench.root / old).rename(bench.root / new)
    taken = {one.path: one for one in bench.taking.take_all([old, new])}

    every = {memory.id: memory for memory in bench.memories()}
    moved, kept = every[taken[new].memory_id], every[made]
    assert (taken[new].action, taken[old].action) == (VaultAction.CREATED, VaultAction.DELETED)
    assert (moved.content, moved.tags, moved.status) == (kept.content, kept.tags, Status.ACTIVE)
    assert (kept.id != moved.id, kept.status, kept.revision) == (True, Status.DELETED, 3)
    bench.vault.follow()
    assert bench.files() == [new]


def test_documents_logs_and_knowledge_are_known_by_their_place(bench: Bench) -> None:
    """The name of the file is the key."""
    for path, key in (
        ("context/USER", "context/USER"),
        ("daily/2026-02-06", "daily/2026-02-06"),
        ("knowledge/world/Sun", "knowledge/world/Sun"),
    ):
        taken = bench.took(bench.put(f"{BASE}/{path}.md", f"About {path}.\n"))
        assert bench.memory(taken.memory_id).key == key
    assert bench.take(bench.put(f"{BASE}/daily/yesterday.md", "x\n")) is VaultAction.INVALID
    assert bench.take(bench.put(f"{BASE}/sessions/2026-02/x.md", "x\n")) is VaultAction.INVALID


def test_an_editor_without_front_matter_changes_the_content_alone(bench: Bench) -> None:
    """A file that lost its front matter keeps all that it said."""
    path = bench.put(f"{BASE}/core/a.md", "# Title\n\nOne.\n")
    memory_id = bench.took(path).memory_id
    bench.put(path, "Two.")

    assert bench.take(path) is VaultAction.UPDATED
    now = bench.memory(memory_id)
    assert (now.content, now.title, now.layer) == ("Two.", "Title", Layer.CORE)


def test_links_are_never_followed(bench: Bench, tmp_path: Path) -> None:
    """Neither a linked file nor a linked folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (bench.root / BASE / "core").mkdir(parents=True)
    (bench.root / BASE / "core" / "link.md").symlink_to(outside / "secret.md")
    (bench.root / BASE / "long_term").symlink_to(outside)

    assert bench.take(f"{BASE}/core/link.md") is VaultAction.INVALID
    assert bench.take(f"{BASE}/long_term/secret.md") is VaultAction.INVALID
    assert list(bench.context.folder.notes()) == [f"{BASE}/core/link.md"]
    assert bench.writes.total() == 0


def test_an_id_of_somebody_else_means_nothing(bench: Bench) -> None:
    """A file that names a memory of another user or project makes a new one of its folder's owner."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    other = bench.put("users/bob/long_term/a.md", bench.text(path).replace("One.", "Mine now."))

    taken = bench.took(other)

    assert taken.action is VaultAction.CREATED
    assert taken.memory_id != memory_id
    assert bench.memory(memory_id).content == "One."


def test_an_edited_layer_moves_the_file(bench: Bench) -> None:
    """The writer brings it to the folder that it belongs to; an edited title leaves it where its person has it."""
    path = bench.put(f"{BASE}/long_term/a.md", "One.\n")
    memory_id = bench.took(path).memory_id
    bench.put(path, bench.text(path).replace("title: a", "title: New"))
    assert bench.take(path) is VaultAction.UPDATED
    bench.vault.follow()
    assert bench.files() == [path]

    bench.put(path, bench.text(path).replace("layer: long_term", "layer: core"))
    assert bench.take(path) is VaultAction.UPDATED
    bench.vault.follow()
    assert bench.files() == [place(bench.memory(memory_id))]


def test_a_shortened_folder_is_known_by_its_files(bench: Bench) -> None:
    """A folder whose name is shortened is known by the files in it; without any it is nobody's."""
    long = "x" * 128
    made = bench.writes.create("One.", Scope(long)).memory
    bench.vault.follow()
    folder = place(made).rpartition("/")[0]

    taken = bench.took(bench.put(f"{folder}/new.md", "Two.\n"))
    assert taken.action is VaultAction.CREATED
    assert bench.writes.stored(taken.memory_id, Scope(long)) is not None
    unknown = bench.put(f"users/{'y' * 60}~0123456789abcdef/core/new.md", "Three.\n")
    assert bench.take(unknown) is VaultAction.INVALID


def test_two_new_files_of_one_key_do_not_overwrite_each_other(bench: Bench) -> None:
    """The second one is told, and left alone."""
    front = "---\nkey: plan\n---\n"
    first, second = (bench.put(f"{BASE}/core/{name}.md", f"{front}By {name}.\n") for name in "ab")

    assert bench.take(first) is VaultAction.CREATED
    assert bench.take(second) is VaultAction.INVALID
    assert bench.text(second) == f"{front}By b.\n"


def test_equal_new_files_are_two_memories(bench: Bench) -> None:
    """Taken together or one after the other."""
    paths = [bench.put(f"{BASE}/core/{name}.md", "Same.\n") for name in "abc"]

    taken = list(bench.taking.take_all(paths))

    assert len({one.memory_id for one in taken}) == 3
    assert all(one.action is VaultAction.CREATED for one in taken)
    assert bench.synced() == {}


@pytest.mark.parametrize("is_together", [True, False])
def test_a_file_with_a_key_and_the_content_of_another_file_is_another_memory(
    bench: Bench, *, is_together: bool
) -> None:
    """The key does not go to the memory of the other file."""
    first = bench.took(bench.put(f"{BASE}/long_term/Tea.md", "Green tea.\n")).memory_id
    path = bench.put(f"{BASE}/long_term/Drink.md", "---\nkey: drink\n---\nGreen tea.\n")
    [second] = bench.taking.take_all([path]) if is_together else [bench.took(path)]

    assert second.action is VaultAction.CREATED
    assert second.memory_id != first
    assert (bench.memory(first).key, bench.memory(second.memory_id).key) == ("", "drink")
    assert bench.synced() == {}
