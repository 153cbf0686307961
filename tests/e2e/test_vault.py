"""Memories as files, over the wire: written by themselves, taken back, synchronised, forgotten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from memsvc.client import Memsvc
from memsvc.v1 import admin_service_pb2 as admin_pb
from memsvc.v1 import memory_service_pb2 as memory_pb
from memsvc.v1 import session_service_pb2 as session_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.command_line import invoke
from tests.support.rpc import TIMEOUT, create, found, get, list_all, refused
from tests.support.server_process import FAST, ServerProcess, Stubs
from tests.support.until import until
from tests.support.user_data import erase


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the vault."""
    return tmp_path_factory.mktemp("vault") / "notes"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, vault: Path) -> Iterator[ServerProcess]:
    """A server of this module that keeps a vault."""
    # The watcher has tests of its own; here it would take edits before the synchronisation that is tested.
    environment = {**FAST, "MEMSVC_VAULT__DIRECTORY": str(vault), "MEMSVC_VAULT__WATCH": "off"}
    with ServerProcess(tmp_path_factory.mktemp("vaults") / "data", environment) as running:
        yield running


@pytest.fixture(scope="module")
def stubs(server: ServerProcess) -> Iterator[Stubs]:
    """The stubs of this module's server."""
    with server.stubs() as stubs:
        yield stubs


def sync(stubs: Stubs, user: str, **request: Any) -> tuple[dict[str, str], dict[str, int]]:
    """Synchronise; return the actions by path, and the counts."""
    request = admin_pb.SyncVaultRequest(scope=types_pb.Scope(user_id=user), **request)
    *told, last = stubs.admin.SyncVault(request, timeout=TIMEOUT)
    assert last.HasField("summary")
    changes = [one.change for one in told if one.HasField("change")]
    actions = {one.path: admin_pb.VaultAction.Name(one.action).removeprefix("VAULT_ACTION_") for one in changes}
    return actions, dict(last.summary.count_by_action)


def notes(vault: Path, user: str) -> dict[str, str]:
    """Return the files of a user by their path below the user's folder."""
    folder = vault / "users" / user
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.md")}


def settled_notes(stubs: Stubs, vault: Path, user: str, count: int) -> dict[str, str]:
    """Return the files of a user once there are *count* and the service has nothing to do about them.

    A file that is changed before the service has noted what it wrote is taken for an edit of something else.
    """
    until(lambda: len(notes(vault, user)) == count and sync(stubs, user) == ({}, {}))
    return notes(vault, user)


@pytest.mark.parametrize(
    ("title", "content"), [("Tea", "Ada likes tea.\n\n---\nnot front matter"), ("茶", "小王喜欢龙井茶。")]
)
def test_a_memory_is_written_by_itself(stubs: Stubs, vault: Path, user: str, title: str, content: str) -> None:
    """Soon after the call, in its place, in any language."""
    made = create(stubs, types_pb.Scope(user_id=user), content, title=title, tags=["drink"])
    day = made.create_time.ToDatetime().strftime("%Y%m%d")
    name = f"long_term/{day}_fact_{title}.md"
    until(lambda: name in notes(vault, user))

    text = notes(vault, user)[name]
    assert f"id: {made.id}" in text
    assert text.endswith(f"\n---\n\n{content}\n")


def test_an_edited_file_is_found_by_search(stubs: Stubs, vault: Path, user: str) -> None:
    """An edit, a new file and a removed one: each becomes a change of a memory."""
    scope = types_pb.Scope(user_id=user)
    kept, gone = create(stubs, scope, "One walrus swims."), create(stubs, scope, "Something else.")
    folder = vault / "users" / user
    for name, text in settled_notes(stubs, vault, user, 2).items():
        if "walrus" in text:
            (folder / name).write_text(text.replace("walrus", "quokka"))
        else:
            (folder / name).unlink()
    (folder / "core").mkdir()
    (folder / "core" / "rules.md").write_text("# Rules\n\nNumbats first.\n")
    (folder / "core" / "bad.md").write_text("---\nimportance: many\n---\nx\n")

    planned = sync(stubs, user, dry_run=True)
    assert planned[1] == {"CREATED": 1, "UPDATED": 1, "DELETED": 1, "INVALID": 1}
    assert sync(stubs, user) == planned

    until(lambda: bool(found(stubs, scope, "quokka")))
    assert get(stubs, scope, kept.id).content == "One quokka swims."
    [rules] = [one for one in list_all(stubs, scope) if one.title == "Rules"]
    assert rules.layer == types_pb.MEMORY_LAYER_CORE
    assert gone.id not in {one.id for one in list_all(stubs, scope)}
    assert sync(stubs, user)[1] == {"INVALID": 1}


def test_logs_documents_knowledge_and_transcripts_have_their_places(stubs: Stubs, vault: Path, user: str) -> None:
    """As keys say; what was said is one file a session, in the folder of its month."""
    scope = types_pb.Scope(user_id=user, project_id="Web")
    for key in ("daily/2026-02-06", "context/MEMORY", "knowledge/opinions/tea"):
        request = memory_pb.AppendMemoryRequest(scope=scope, key=key, content=f"About {key}.")
        stubs.memory.AppendMemory(request, timeout=TIMEOUT)
    session = types_pb.Scope(user_id=user, project_id="Web", session_id="chat-1")
    stubs.session.CreateSession(session_pb.CreateSessionRequest(scope=session), timeout=TIMEOUT)
    messages = [types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content="Hello there.")]
    stubs.session.AppendMessages(session_pb.AppendMessagesRequest(scope=session, messages=messages), timeout=TIMEOUT)
    until(lambda: any("Hello there." in text for text in settled_notes(stubs, vault, user, 4).values()))

    *documents, transcript = sorted(notes(vault, user))
    assert documents == [
        "projects/!web/context/MEMORY.md",
        "projects/!web/daily/2026-02-06.md",
        "projects/!web/knowledge/opinions/tea.md",
    ]
    assert transcript.startswith("projects/!web/sessions/2")
    assert "Hello there." in notes(vault, user)[transcript]


def test_a_forced_sync_writes_missing_files_again(stubs: Stubs, vault: Path, user: str) -> None:
    """Instead of deleting their memories."""
    create(stubs, types_pb.Scope(user_id=user), "Kept.")
    [name] = settled_notes(stubs, vault, user, 1)
    (vault / "users" / user / name).unlink()

    assert sync(stubs, user, rewrite_all=True)[1] == {"WRITTEN": 1}
    assert list(notes(vault, user)) == [name]


def test_an_erased_user_has_no_files(stubs: Stubs, vault: Path, user: str) -> None:
    """Nor a folder; other users' files stay."""
    create(stubs, types_pb.Scope(user_id=user), "To be forgotten.")
    create(stubs, types_pb.Scope(user_id=f"{user}-other"), "To be kept.")
    for each in (user, f"{user}-other"):
        settled_notes(stubs, vault, each, 1)

    assert erase(stubs, user, confirm=True).clean
    assert not (vault / "users" / user).exists()
    assert len(notes(vault, f"{user}-other")) == 1


def test_sync_of_a_user_tells_nothing_of_others(stubs: Stubs, vault: Path, user: str) -> None:
    """Neither their files nor their memories, and nothing of them is changed."""
    other = vault / "users" / f"{user}-other" / "core"
    other.mkdir(parents=True)
    (other / "secret.md").write_text("Secret.\n")

    assert sync(stubs, user) == ({}, {})
    assert (other / "secret.md").read_text() == "Secret.\n"
    assert list_all(stubs, types_pb.Scope(user_id=f"{user}-other")) == []


@pytest.mark.parametrize(
    "key", ["../../../escape", "/etc/escape", "context/../../escape", "context/a/../../../b", "C:\\x"]
)
def test_no_key_leads_out_of_the_vault(stubs: Stubs, vault: Path, user: str, key: str) -> None:
    """Whatever keys, ids, titles and categories hold."""
    hostile = f"{user}/../.."
    create(stubs, types_pb.Scope(user_id=hostile, project_id="../p"), "x", key=key, title=key, category="../c")
    sync(stubs, hostile)

    inside = [path for path in vault.rglob("*") if path.is_file()]
    assert any(hostile.split("/", maxsplit=1)[0] in str(path) for path in inside)
    assert not [path for path in vault.parent.rglob("*escape*") if vault not in path.parents]


def test_a_restart_takes_back_what_was_edited_meanwhile(tmp_path: Path) -> None:
    """The service synchronises when it starts; a kill loses nothing, and no file is written without need."""
    vault = tmp_path / "notes"
    scope = types_pb.Scope(user_id="ada")
    with ServerProcess(tmp_path / "data", {**FAST, "MEMSVC_VAULT__DIRECTORY": str(vault)}) as server:
        with server.stubs() as stubs:
            known = {create(stubs, scope, content).id for content in ("One.", "Two.")}
        server.kill()
        path = vault / "users" / "ada" / "long_term" / "new.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Three.\n")
        server.start()
        with server.stubs() as stubs:
            # The new file is written anew, with the id, after its memory is there.
            until(lambda: ["id: " in text for text in notes(vault, "ada").values()] == [True] * 3)
            assert len(list_all(stubs, scope)) == 3
            assert known < {memory.id for memory in list_all(stubs, scope)}
            before = {path: path.stat().st_mtime_ns for path in vault.rglob("*.md")}
            assert sync(stubs, "ada") == ({}, {})
            assert sync(stubs, "ada", rewrite_all=True) == ({}, {})
        assert {path: path.stat().st_mtime_ns for path in vault.rglob("*.md")} == before


def test_client_and_command_line_synchronise(server: ServerProcess, vault: Path, user: str) -> None:
    """Both faces; the status changes nothing, and exit codes say whether all is well."""
    with Memsvc(server.bound, user_id=user) as client:
        client.create("Numbats sleep.")
        assert next(iter(reversed(list(client.sync_vault())))).summary.file_count <= 1
        folder = vault / "users" / user / "core"
        folder.mkdir(parents=True)
        (folder / "new.md").write_text("New.\n")
        common = ["--address", server.bound, "--user", user]
        status = invoke("vault", "status", *common)
        assert (status.exit_code, "1 created" in status.output) == (1, True)
        synced = invoke("vault", "sync", *common)
        assert (synced.exit_code, "core/new.md" in synced.output) == (0, True)
        assert invoke("vault", "status", *common).exit_code == 0
        (folder / "bad.md").write_bytes(b"\xff")
        bad = invoke("vault", "sync", "--json", *common)
        assert (bad.exit_code, "UTF-8" in bad.output) == (1, True)
        (folder / "bad.md").unlink()
        os.close(os.open(os.fsencode(folder) + b"/caf\xe9.md", os.O_CREAT))
        misnamed = invoke("vault", "sync", *common)
        assert (misnamed.exit_code, r"core/caf\xe9.md" in misnamed.output) == (1, True)


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        ({}, {"scope.user_id"}),
        ({"all": True, "scope": types_pb.Scope(user_id="u")}, {"scope"}),
        ({"scope": types_pb.Scope()}, {"scope.user_id"}),
        (
            {"scope": types_pb.Scope(user_id="u", project_id="p", session_id="s")},
            {"scope.project_id", "scope.session_id"},
        ),
        ({"scope": types_pb.Scope(user_id="x" * 129, agent_id="a")}, {"scope.user_id", "scope.agent_id"}),
    ],
)
def test_a_wrong_request_is_refused(stubs: Stubs, request_: dict[str, Any], fields: set[str]) -> None:
    """With every field that is wrong."""
    refusal = refused(stubs.admin.SyncVault, admin_pb.SyncVaultRequest(**request_))

    assert grpc.StatusCode.INVALID_ARGUMENT is refusal.code
    assert fields == set(refusal.fields)


def test_a_vault_of_concepts_is_written_and_read(tmp_path: Path) -> None:
    """In the Open Knowledge Format: every file conforms, edits count, and a bundle of somebody else becomes memories."""
    vault = tmp_path / "notes"
    environment = {**FAST, "MEMSVC_VAULT__DIRECTORY": str(vault), "MEMSVC_VAULT__WATCH": "off"}
    with ServerProcess(tmp_path / "data", {**environment, "MEMSVC_VAULT__FORMAT": "okf"}) as server:
        with server.stubs() as stubs:
            scope = types_pb.Scope(user_id="ada")
            kept = create(
                stubs,
                scope,
                "绿茶 green tea",
                kind=types_pb.MEMORY_KIND_PREFERENCE,
                title="Tea 茶",
                summary="Likes green tea.",
                source="chat",
                metadata={"verified": {"by": "human:ada", "at": "2026-01-02T00:00:00Z"}},
            )
            indexed = create(stubs, scope, "an index", key="context/index")
            session = stubs.session.CreateSession(
                session_pb.CreateSessionRequest(scope=types_pb.Scope(user_id="ada", session_id="s")), timeout=TIMEOUT
            )
            said = [types_pb.ChatMessage(role=types_pb.MESSAGE_ROLE_USER, content="hello")]
            stubs.session.AppendMessages(
                session_pb.AppendMessagesRequest(scope=session.session.scope, messages=said), timeout=TIMEOUT
            )
            written = settled_notes(stubs, vault, "ada", 3)
            fronts = {path: yaml.safe_load(text.split("---\n")[1]) for path, text in written.items()}
            assert {front["type"] for front in fronts.values()} == {"Preference", "Document", "Transcript"}
            assert {Path(path).name.lower() for path in fronts}.isdisjoint({"index.md", "log.md"})
            [path] = [path for path, front in fronts.items() if front["type"] == "Preference"]
            front = fronts[path]
            assert (front["title"], front["description"]) == ("Tea 茶", "Likes green tea.")
            assert front["sources"] == [{"resource": "chat"}]
            assert front["verified"]["by"] == "human:ada"
            assert front["generated"]["by"] == "memsvc/agent"
            assert "metadata" not in front

            folder = vault / "users" / "ada"
            text = written[path].replace("Likes green tea.", "Likes jasmine tea.").replace("绿茶", "茉莉花茶")
            (folder / path).write_text(text, encoding="utf-8")
            (folder / "long_term" / "index.md").write_text("# Notes\n\n* [Tea](tea.md) - a list\n")
            (folder / "long_term" / "metric.md").write_text(
                "---\ntype: Metric\ntitle: 收入 Revenue\nstale_after: 2999-01-01\nruntime: sql\n---\n\nSum of orders.\n",
                encoding="utf-8",
            )
            actions, _ = sync(stubs, "ada")
            assert actions == {f"users/ada/{path}": "UPDATED", "users/ada/long_term/metric.md": "CREATED"}
            edited = get(stubs, scope, kept.id)
            assert (edited.summary, edited.content) == ("Likes jasmine tea.", "茉莉花茶 green tea")
            [metric] = [one for one in list_all(stubs, scope) if one.title == "收入 Revenue"]
            assert metric.kind == types_pb.MEMORY_KIND_DOCUMENT
            assert metric.expire_time.ToDatetime().year == 2999
            assert dict(metric.metadata) == {"type": "Metric", "runtime": "sql"}
            until(lambda: sync(stubs, "ada") == ({}, {}))
            rewritten = yaml.safe_load((folder / "long_term" / "metric.md").read_text().split("---\n")[1])
            assert (rewritten["type"], rewritten["runtime"], str(rewritten["stale_after"])) == (
                "Metric",
                "sql",
                "2999-01-01",
            )
            memory = types_pb.Memory(id=indexed.id, status=types_pb.MEMORY_STATUS_ARCHIVED)
            stubs.memory.UpdateMemory(memory_pb.UpdateMemoryRequest(scope=scope, memory=memory), timeout=TIMEOUT)
            # The file is moved first, and then written.
            archived = "status: deprecated\nstate: archived\n"
            until(lambda: any(archived in path.read_text() for path in (folder / "archive").rglob("*.md")))

    copy = tmp_path / "copy"
    with ServerProcess(copy, FAST) as other:
        where = ["--address", other.bound, "--user", "eve"]
        told = invoke("import", "--from", "okf", str(vault / "users" / "ada" / "long_term"), "--wait", *where)
        assert told.stdout.startswith("2 read: 2 created"), told
