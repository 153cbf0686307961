"""People edit the files of a vault while the service runs, as their editors and Git do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until

DEADLINE = 60.0
QUIET = "0.3"


class Person:
    """A user of the service who also looks into the vault."""

    def __init__(self, server: ServerProcess, stubs: Stubs, vault: Path) -> None:
        self.server = server
        self.stubs = stubs
        self.vault = vault
        self.scope = types_pb.Scope(user_id=f"ada-{uuid.uuid4().hex[:8]}", project_id="apollo")
        self.folder = vault / "users" / self.scope.user_id / "projects" / "apollo" / "long_term"

    def create(self, content: str, **fields: object) -> types_pb.Memory:
        memory = types_pb.Memory(content=content, **fields)  # type: ignore[arg-type]
        request = memory_pb.CreateMemoryRequest(scope=self.scope, memory=memory)
        return self.stubs.memory.CreateMemory(request).memory

    def get(self, memory_id: str) -> types_pb.Memory | None:
        """Return a memory, or None when it is deleted."""
        try:
            return self.stubs.memory.GetMemory(memory_pb.GetMemoryRequest(scope=self.scope, id=memory_id)).memory
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.NOT_FOUND
            return None

    def contents(self) -> list[str]:
        listed = self.stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=self.scope, page_size=1_000))
        return sorted(memory.content for memory in listed.memories)

    def found(self, word: str) -> list[str]:
        """Return the ids of what a search for *word* finds."""
        request = search_pb.SearchRequest(scope=self.scope, query=word, mode=search_pb.SEARCH_MODE_KEYWORD, limit=10)
        hits = self.stubs.search.Search(request).hits
        return [hit.memory.id for hit in hits if word in hit.memory.content]

    def file(self, memory: types_pb.Memory) -> Path:
        """Return the file of a memory once it says what the memory does."""
        found: list[Path] = []

        def is_there() -> bool:
            found[:] = [
                path
                for path in self.folder.parent.rglob("*.md")
                if (text := _text(path)) and f"id: {memory.id}" in text and memory.content in text
            ]
            return bool(found)

        until(is_there)
        # The service notes what it wrote after writing it; an edit before that would be one of something else.
        request = admin_pb.SyncVaultRequest(scope=types_pb.Scope(user_id=self.scope.user_id), dry_run=True)
        until(lambda: not any(one.HasField("change") for one in self.stubs.admin.SyncVault(request)))
        return found[0]

    def warnings(self) -> dict[str, str]:
        stats = self.stubs.admin.GetStats(admin_pb.GetStatsRequest(scope=self.scope))
        return {
            types_pb.WarningCode.Name(warning.code).removeprefix("WARNING_CODE_"): warning.message
            for warning in stats.warnings
        }


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _environment(vault: Path) -> dict[str, str]:
    return {
        **FAST,
        "MEMSVC_VAULT__DIRECTORY": str(vault),
        "MEMSVC_VAULT__DEBOUNCE_SECONDS": QUIET,
        "MEMSVC_VAULT__GIT__ENABLED": "true",
        "MEMSVC_VAULT__GIT__BATCH_SECONDS": "0.2",
        "MEMSVC_VAULT__GIT__AUTHOR_NAME": "Keeper",
    }


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault in somebody's repository."""
    project = tmp_path_factory.mktemp("project")
    if shutil.which("git") is not None:
        _git(project, "init", "-q", "-b", "work")
        (project / "code.py").write_text("one\n")
        _git(project, "add", ".")
        _git(project, "commit", "-qm", "mine")
    return project / "notes" / "vault"


@pytest.fixture(scope="module")
def vault_server(vault: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("vault") / "data", _environment(vault)) as server:
        yield server


@pytest.fixture
def person(vault_server: ServerProcess, vault: Path) -> Iterator[Person]:
    with vault_server.stubs() as stubs:
        yield Person(vault_server, stubs, vault)


def _in_place(path: Path, text: str) -> None:
    path.write_text(text)


def _renamed_over(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text)
    temporary.rename(path)


def _like_vim(path: Path, text: str) -> None:
    backup = path.with_name(f"{path.name}~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


@pytest.mark.parametrize("save", [_in_place, _renamed_over, _like_vim])
def test_an_edit_is_found_by_searches(person: Person, save: Callable[[Path, str], None]) -> None:
    """However the editor saves; it is one revision of the same memory, and by what the user said."""
    memory = person.create("The harbour is quiet. 港口很安静。", title="Harbour")
    file = person.file(memory)
    word = f"lighthouse{uuid.uuid4().hex[:8]}"
    save(file, file.read_text().replace("quiet", word))
    until(lambda: person.found(word) == [memory.id])

    now = person.get(memory.id)
    assert now is not None
    assert (now.content, now.revision) == (f"The harbour is {word}. 港口很安静。", memory.revision + 1)


def test_files_come_move_and_go(person: Person) -> None:
    """A new file is a memory; moved it stays the same one; removed it is deleted, and can be restored with its file."""
    person.folder.mkdir(parents=True)
    file = person.folder / "20260206_decision_use-sqlite.md"
    file.write_text("We use SQLite.\n")
    until(lambda: person.contents() == ["We use SQLite."])
    until(lambda: "id: " in file.read_text())
    [memory] = person.stubs.memory.ListMemories(memory_pb.ListMemoriesRequest(scope=person.scope)).memories
    moved = person.folder.parent / "core" / "database.md"
    moved.parent.mkdir()
    file.rename(moved)
    until(lambda: (now := person.get(memory.id)) is not None and now.layer == types_pb.MEMORY_LAYER_CORE)
    # The service writes the layer into the moved file; removed before that, the file would come back.
    until(lambda: "layer: core" in moved.read_text())
    moved.unlink()
    until(lambda: person.get(memory.id) is None)
    person.stubs.memory.RestoreMemory(memory_pb.RestoreMemoryRequest(scope=person.scope, id=memory.id))
    restored = person.file(memory)

    assert (memory.kind, memory.title) == (types_pb.MEMORY_KIND_DECISION, "use sqlite")
    assert "We use SQLite." in restored.read_text()
    assert person.contents() == ["We use SQLite."]


def _edited_and_called(
    person: Person, edit: tuple[str, str], change: types_pb.Memory
) -> tuple[Person, types_pb.Memory, Path]:
    """Edit a file, and change its memory by a call that comes before the edit is taken.

    Where that takes longer than a file has to be quiet, the edit comes first: then somebody else does it anew.
    """
    while True:
        memory = person.create("One.\n\nTwo.\n\nThree.", title="Both")
        file = person.file(memory)
        _renamed_over(file, file.read_text().replace(*edit))
        change.id = memory.id
        request = memory_pb.UpdateMemoryRequest(scope=person.scope, memory=change)
        if person.stubs.memory.UpdateMemory(request).memory.revision == memory.revision + 1:
            return person, memory, file
        person = Person(person.server, person.stubs, person.vault)


def test_both_sides_at_once_lose_nothing(person: Person) -> None:
    """A file that was edited is not written over by a call that comes before it is taken: what fits is merged."""
    change = types_pb.Memory(content="One, by call.\n\nTwo.\n\nThree.", importance=5)
    person, memory, file = _edited_and_called(person, ("Three.", "Three, by hand."), change)
    wanted = "One, by call.\n\nTwo.\n\nThree, by hand."
    until(lambda: (now := person.get(memory.id)) is not None and now.content == wanted)
    until(lambda: wanted in file.read_text())

    now = person.get(memory.id)
    assert now is not None
    assert now.importance == 5


def test_a_conflict_keeps_both(person: Person) -> None:
    """The file's side is the memory's, the other lies beside the file and in the history, and GetStats says so."""
    change = types_pb.Memory(content="One.\n\nTwo, by call.\n\nThree.")
    person, memory, file = _edited_and_called(person, ("Two.", "Two, by hand."), change)
    until(lambda: list(file.parent.glob("*.conflict-*.md")))
    until(lambda: "VAULT_CONFLICT" in person.warnings())

    [beside] = file.parent.glob("*.conflict-*.md")
    listed = person.stubs.memory.ListRevisions(memory_pb.ListRevisionsRequest(scope=person.scope, id=memory.id))
    contents = [revision.memory.content for revision in listed.revisions]
    assert "Two, by call." in beside.read_text()
    assert "Two, by hand." in file.read_text()
    assert "One.\n\nTwo, by call.\n\nThree." in contents
    assert "One.\n\nTwo, by hand.\n\nThree." in contents


def test_a_file_that_cannot_be_read_is_told_and_taken_once_mended(person: Person) -> None:
    """GetStats names it to its user alone; the memory stays as it was."""
    memory = person.create("Whole.", title="Whole")
    file = person.file(memory)
    broken = file.read_text().replace("---\n", "---\ntitle: [open\n", 1)
    file.write_text(broken)
    until(lambda: "VAULT_FILE_INVALID" in person.warnings())
    stranger = Person(person.server, person.stubs, person.vault)

    assert (file.read_text(), person.get(memory.id)) == (broken, memory)
    assert file.name in person.warnings()["VAULT_FILE_INVALID"]
    assert "VAULT_FILE_INVALID" not in stranger.warnings()

    file.write_text(broken.replace("title: [open\n", "").replace("Whole.", "Mended."))
    until(lambda: (now := person.get(memory.id)) is not None and now.content == "Mended.")
    # Said right after the memory was changed.
    until(lambda: "VAULT_FILE_INVALID" not in person.warnings())


def test_many_files_at_once_and_searches_meanwhile(person: Person) -> None:
    """Two hundred files come at once; a search is answered all the while, and in the end all are memories."""
    staged = person.vault.parent / f"staged-{person.scope.user_id}"
    staged.mkdir()
    for number in range(200):
        (staged / f"{number:03}.md").write_text(f"Note number {number} of many.\n")
    person.folder.mkdir(parents=True)
    staged.rename(person.folder / "many")
    asked = 0

    def are_all_there() -> bool:
        nonlocal asked
        person.found("number")
        asked += 1
        return len(person.contents()) == 200

    until(are_all_there)
    assert asked > 1


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_holds_the_vault_and_brings_it_back(person: Person, vault: Path) -> None:
    """What happens is committed, without what people have staged; an older state that is checked out is taken back."""
    project = vault.parent.parent
    memory = person.create("First state.", title="States")
    file = person.file(memory)
    until(lambda: _committed(project, file) == file.read_text())
    first = _git(project, "rev-parse", "HEAD")
    (project / "code.py").write_text("staged\n")
    until(lambda: _could(project, "add", "code.py"))
    request = memory_pb.UpdateMemoryRequest(
        scope=person.scope, memory=types_pb.Memory(id=memory.id, content="Second state.")
    )
    request.update_mask.paths.append("content")
    person.stubs.memory.UpdateMemory(request)
    until(lambda: "Second state." in _committed(project, file))

    assert _git(project, "log", "-1", "--format=%an") == "Keeper"
    # The index is written once the commit is made.
    until(lambda: _git(project, "diff", "--cached", "--name-only") == "code.py")
    until(lambda: _could(project, "checkout", "-q", first, "--", str(file.relative_to(project))))
    until(lambda: (now := person.get(memory.id)) is not None and now.content == "First state.")
    until(lambda: "First state." in _committed(project, file))


def test_files_changed_while_the_service_was_down(tmp_path: Path) -> None:
    """An edit, a removal and a new file are taken at the start."""
    vault = tmp_path / "vault"
    server = ServerProcess(tmp_path / "data", _environment(vault))
    with server, server.stubs() as stubs:
        person = Person(server, stubs, vault)
        edited, removed = person.create("To be edited.", title="Edit"), person.create("To be removed.", title="Gone")
        files = person.file(edited), person.file(removed)
    files[0].write_text(files[0].read_text().replace("To be edited.", "Edited."))
    files[1].unlink()
    (person.folder / "new.md").write_text("New.\n")
    with server, server.stubs() as stubs:
        person.stubs = stubs
        until(lambda: person.contents() == ["Edited.", "New."])

        assert person.get(removed.id) is None


def test_the_command_line_watches_for_a_service_that_does_not(tmp_path: Path) -> None:
    """`memsvc vault watch` synchronises at its start and after every change of a file, and shows what was done."""
    vault = tmp_path / "vault"
    server = ServerProcess(tmp_path / "data", {**_environment(vault), "MEMSVC_VAULT__WATCH": "off"})
    with server, server.stubs() as stubs:
        person = Person(server, stubs, vault)
        memory = person.create("To be edited.", title="Edit")
        file = person.file(memory)
        (person.folder / "new.md").write_text("New.\n")
        command = [sys.executable, "-m", "memsvc", "vault", "watch", str(vault), "--limit", "2"]
        where = {"MEMSVC_ADDRESS": server.bound, "MEMSVC_USER": person.scope.user_id}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **where}) as watch:
            assert watch.stdout is not None
            first = watch.stdout.readline()
            _renamed_over(file, file.read_text().replace("To be edited.", "Edited."))
            second = watch.stdout.readline()
            code = watch.wait(DEADLINE)

        assert (first.split("\t")[0], second.split("\t")[0], code) == ("created", "updated", 0)
        assert memory.id in second
        assert person.contents() == ["Edited.", "New."]


def _committed(project: Path, file: Path) -> str:
    try:
        return _git(project, "show", f"HEAD:{file.relative_to(project)}") + "\n"
    except subprocess.CalledProcessError:
        return ""


def _could(folder: Path, *arguments: str) -> bool:
    """Run Git, and return whether it could: it cannot while the service commits and holds the index."""
    try:
        _git(folder, *arguments)
    except subprocess.CalledProcessError as error:
        assert "index.lock" in error.stderr, error.stderr
        return False
    return True


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.rstrip("\n")
