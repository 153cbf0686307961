"""The commands against a service of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memsvc.cli.app import app
from memsvc.client import Memsvc

PORTS = ("METADATA", "VECTORS", "LEXICAL", "EMBEDDER")
FIRST_LINE = "memsvc is serving on "


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A short path: the name of a socket is at most 107 bytes long."""
    with tempfile.TemporaryDirectory(prefix="memsvc-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def address(directory: Path) -> Iterator[str]:
    address = f"unix:{directory / 's'}"
    environment = os.environ | {f"MEMSVC_{port}__BACKEND": "inproc" for port in PORTS}
    command = [sys.executable, "-m", "memsvc", "serve", "--address", address, "--data-dir", str(directory / "data")]
    command += ["--ready-file", str(directory / "ready")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"{FIRST_LINE}{address} (data in {directory / 'data'})\n"
        with Memsvc(address, user_id="u") as client:
            client.wait_ready()
        yield address
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture
def run(address: str, request: pytest.FixtureRequest) -> Any:
    """Run a command as a user of its own for each test."""

    def run(*words: str, given: str = "", user: str = request.node.name, code: int = 0) -> str:
        told = CliRunner().invoke(app, [*words, "--address", address, "--user", user], input=given)
        assert told.exit_code == code, told.stderr
        return told.stdout

    return run


def test_ready_file_has_the_address(address: str, directory: Path) -> None:
    """Whoever started the service can read where it is."""
    assert (directory / "ready").read_text() == f"{address}\n"


def test_second_service_on_the_same_data_is_refused(address: str, directory: Path) -> None:
    """One process at a time owns the data directory; the other one says so in a line."""
    told = CliRunner().invoke(app, ["check", "--data-dir", str(directory / "data")])

    assert told.exit_code == 1
    assert told.stderr.startswith("memsvc: The data directory is in use by the process ")
    assert told.stderr.count("\n") == 1
    assert address


def test_added_memory_is_found_listed_shown_and_deleted(run: Any) -> None:
    """The life of a memory, from the keyboard."""
    memory_id, outcome = run("add", "the kettle is blue", "--tag", "kitchen", "--key", "kettle").split()
    again = run("add", "the kettle is blue").split(maxsplit=1)
    found = run("search", "kettle", "--mode", "keyword", "--tag", "kitchen")
    listed = run("list")
    shown = run("get", "--key", "kettle")
    run("delete", memory_id)

    assert outcome == "created"
    assert again == [memory_id, "already there\n"]
    assert found.splitlines()[0].split("\t") == ["score", "date", "found", "memory"]
    assert found.splitlines()[1].split("\t")[2:] == ["the kettle is blue", memory_id]
    assert listed.splitlines()[1].split("\t")[::2] == [memory_id, "the kettle is blue"]
    assert "tags       kitchen\n" in shown
    assert shown.endswith("\n\nthe kettle is blue\n")
    assert run("list").splitlines() == ["id\tdate\tcontent"]


def test_withheld_memory_is_listed_and_decided(run: Any) -> None:
    """What waits is in a list of its own until it is approved or rejected."""
    good, bad = (run("add", text, "--origin", "tool", "--quarantine").split()[0] for text in ("好的", "bad"))
    listed = [line.split("\t") for line in run("quarantine", "list").splitlines()]
    assert run("list").splitlines() == ["id\tdate\tcontent"]

    assert run("quarantine", "review", good, "approve") == f"{good} approved\n"
    assert json.loads(run("quarantine", "review", bad, "reject", "--json"))["memory"]["review"] == (
        "MEMORY_REVIEW_REJECTED"
    )
    assert [(row[0], *row[2:]) for row in listed] == [
        ("id", "origin", "trust", "content"), (bad, "tool", "0.50", "bad"), (good, "tool", "0.50", "好的"),
    ]  # fmt: skip
    assert run("quarantine", "list", "--json") == ""
    assert run("list").splitlines()[1].split("\t")[0] == good


def test_changes_are_shown_as_they_happened(run: Any) -> None:
    """Each on a line, and with --json with the cursor from which to go on."""
    one = run("add", "one").split()[0]
    two = run("add", "二").split()[0]
    run("delete", one)

    shown = [line.split(maxsplit=4) for line in run("watch", "--oldest", "--limit", "3").splitlines()]
    told = [json.loads(line) for line in run("watch", "--oldest", "--limit", "3", "--json").splitlines()]
    rest = run("watch", "--cursor", told[1]["cursor"], "--limit", "1")

    assert [row[1:] for row in shown] == [
        ["created", "(entered)", one, "one"], ["created", "(entered)", two, "二"], ["deleted", "(left)", one],
    ]  # fmt: skip
    assert [each["change"]["memoryId"] for each in told] == [one, two, one]
    assert rest.split()[1:] == ["deleted", "(left)", one]


def test_content_is_read_from_stdin(run: Any) -> None:
    """A dash stands for what is piped in."""
    run("add", "-", given="piped in")

    assert "piped in" in run("list")


def test_json_is_all_that_is_on_stdout(run: Any) -> None:
    """Programs get JSON from every command, and nothing else."""
    run("add", "the kettle is blue")

    answers = [
        run(*command, "--json")
        for command in (
            ["search", "kettle", "--explain"],
            ["list"],
            ["stats"],
            ["perf"],
            ["diagnose"],
            ["reindex", "--repair"],
            ["check-integrity", "--repair"],
            ["add", "another"],
        )
    ]

    assert all(isinstance(json.loads(line), dict) for answer in answers for line in answer.splitlines())
    assert all(answers)


def test_what_list_writes_import_reads(run: Any) -> None:
    """Memories go from one user to another through a pipe, once the scope is taken out."""
    run("add", "one", "--tag", "t", "--importance", "5", user="from")
    run("add", "two", "--layer", "core", "--speaker", "Ann", "--when", "2026-01-02", user="from")
    lines = run("list", "--json", user="from").replace('"userId": "from"', '"userId": ""')

    report = run("import", "-", "--wait", given=lines, user="to")

    assert report.startswith("2 read: 2 created, 0 updated, 0 already there, 0 failed")
    copied = [json.loads(line) for line in run("list", "--json", user="to").splitlines()]
    assert {(each["content"], each["layer"], each["importance"], tuple(each["tags"])) for each in copied} == {
        ("one", "MEMORY_LAYER_LONG_TERM", 5, ("t",)),
        ("two", "MEMORY_LAYER_CORE", 3, ()),
    }


def test_conflict_is_told_listed_and_resolved(run: Any) -> None:
    """What a new memory contradicts is said when it is added, and settled by a command of its own."""
    run("add", "小王住在北京。")
    told = run("add", "小王搬到了上海。").splitlines()
    [_, line] = run("conflicts", "list").splitlines()
    conflict_id = line.split("\t")[0]
    settled = run("conflicts", "resolve", conflict_id, "confirm")

    assert told[1].startswith(f"{conflict_id} open: 北京 -> 上海")
    assert line.split("\t")[1:] == ["open", "小王住在北京。", "小王搬到了上海。"]
    assert settled == f"{conflict_id} confirmed\n"
    assert "confirmed" in run("conflicts", "list", "--state", "confirmed")
    assert json.loads(run("conflicts", "list", "--state", "confirmed", "--json"))["id"] == conflict_id
    run("conflicts", "resolve", conflict_id, "reject", code=1)


def test_superseded_memory_leaves_the_list(run: Any) -> None:
    """The new memory is there, the old one is DEPRECATED; one that is there can take a place, too."""
    first = run("add", "the kettle is blue", "--on-conflict", "keep-both").split()[0]
    second = run("supersede", first, "the kettle is green").split()[0]
    third = run("add", "there is no kettle any more").split()[0]
    told = run("supersede", second, "--by", third)

    assert told == f"{third} supersedes {second}\n"
    assert "status     deprecated" in run("get", first)
    assert [line.split("\t")[0] for line in run("list").splitlines()] == ["id", third]
    assert run("supersede", second, "x", code=1) == ""
    run("supersede", second, code=2)


def test_import_tells_what_was_bad_and_fails(run: Any, address: str) -> None:
    """Good memories are stored, bad ones are named, and the exit code says that there were some."""
    lines = '{"content": "good"}\n{"content": "bad", "importance": 9}\n'

    told = CliRunner().invoke(app, ["import", "-", "--address", address, "--user", "bad"], input=lines)

    assert told.exit_code == 1
    assert told.stdout.startswith("2 read: 1 created, 0 updated, 0 already there, 1 failed")
    assert told.stderr.startswith("memsvc: memory 2 was not stored: memory.importance: ")
    assert "good" in run("list", user="bad")


def test_edited_document_updates_its_sections(run: Any, tmp_path: Path) -> None:
    """Importing a document twice leaves each section once, in its last form."""
    file = tmp_path / "notes.md"
    file.write_text("# Tea\n\ngreen\n\n# Cups\n\nsix\n")
    run("import", str(file), "--wait")
    file.write_text("# Tea\n\nblack\n\n# Cups\n\nsix\n")

    run("import", str(file), "--wait")

    contents = {json.loads(line)["content"] for line in run("list", "--json").splitlines()}
    assert contents == {"black", "six"}


def test_unknown_memory_is_told_with_advice(address: str) -> None:
    """Who asks for what is not there learns where to look."""
    unknown = "0190163d-8694-739b-aea5-966c26f8ad91"

    told = CliRunner().invoke(app, ["get", unknown, "--address", address])

    assert told.exit_code == 1
    assert "`memsvc list`" in told.stderr


def test_a_conversation_is_kept(run: Any) -> None:
    """Opened, spoken in, read, trimmed, ended and gone on with."""
    assert run("session", "create", "talk", "--title", "计划").startswith("talk active")
    for number in range(5):
        run("session", "append", "talk", f"We decided on step {number}.")
    told = run("session", "append", "talk", "-", "--role", "assistant", "--name", "Ann", given="好的。")
    assert told.startswith("6 appended, ")

    lines = run("session", "messages", "talk", "--limit", "2").splitlines()
    assert [line.split("\t")[1] for line in lines] == ["who", "user", "Ann"]
    assert run("session", "list", "--state", "active").splitlines()[1].startswith("talk\tactive\t")
    assert "0 messages (0 tokens) archived" in run("session", "trim", "talk")
    assert json.loads(run("session", "show", "talk", "--json"))["messageCount"] == "6"
    assert "计划" in run("session", "show", "talk")
    assert run("session", "close", "talk").startswith("talk closed")
    assert run("session", "reopen", "talk").startswith("talk active")
    assert "reads" not in run("session", "messages", "talk", "--archived", "--json")


def test_reports_are_readable_in_a_pipe(run: Any) -> None:
    """Without a terminal the reports are lines with tabs."""
    run("add", "one")

    assert "memories\t1" in run("stats").splitlines()
    assert run("diagnose").splitlines()[-1] == "healthy"
    assert run("perf", "CreateMemory").splitlines()[1].startswith("operation\tlayer\tcount")
    assert run("reindex").splitlines()[-1] == "done"
    assert run("check-integrity").splitlines()[-1] == "1 memories checked, 0 findings, 0 repaired"
    run("session", "create", "talk")
    assert any(line.startswith("talk\t\t0\t64,000\t0%") for line in run("stats").splitlines())


def test_a_broken_link_is_named_and_repaired(run: Any, address: str, request: pytest.FixtureRequest) -> None:
    """The exit code says whether something is left to be done."""
    with Memsvc(address, user_id=request.node.name) as client:
        gone = client.create("one").memory.id
        client.create("two", related_ids=[gone])
        client.delete(gone, hard=True)

    found = run("check-integrity", code=1)
    repaired = run("check-integrity", "--repair")

    assert found.startswith("link\t")
    assert gone in found
    assert "repaired" in repaired.splitlines()[0]
    assert run("check-integrity").splitlines()[-1].endswith("0 findings, 0 repaired")


def test_a_memory_is_changed_and_brought_back(run: Any) -> None:
    """`update` changes what is given, from the revision that is named; `restore` takes a deletion back."""
    memory_id = run("add", "喜欢喝茶", "--tag", "a").split()[0]

    assert run("update", memory_id, "--content", "-", "--tag", "b", "--importance", "5", given="喜欢喝咖啡") == (
        f"{memory_id} updated, revision 2\n"
    )
    assert run("update", memory_id, "--clear", "tags", "--revision", "2") == f"{memory_id} updated, revision 3\n"
    run("update", memory_id, "--title", "x", "--revision", "2", code=1)
    run("update", memory_id, code=1)
    shown = json.loads(run("get", memory_id, "--json"))
    assert (shown["content"], shown["tags"], shown["importance"], shown["title"]) == ("喜欢喝咖啡", [], 5, "")
    run("delete", memory_id, "--revision", "1", code=1)
    run("delete", memory_id)
    run("get", memory_id, code=1)
    assert run("restore", memory_id) == f"{memory_id} restored, revision 5\n"


def test_a_dot_stands_for_the_project_of_the_folder(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored with it is found under the project's name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".memsvc").write_text("acme/tools\n")

    memory_id = run("add", "The build needs make.", "--project", ".").split()[0]

    assert json.loads(run("get", memory_id, "--project", "acme/tools", "--json"))["scope"]["projectId"] == "acme/tools"
    told = CliRunner().invoke(app, ["project", "--json"])
    assert json.loads(told.stdout) == {"id": "acme/tools", "root": str(tmp_path)}
    assert CliRunner().invoke(app, ["project", "/"]).exit_code == 1


def test_captured_text_is_told_line_by_line(run: Any) -> None:
    """What is remembered and what is not, and nothing is stored by a dry run."""
    said = "I prefer tabs. 谢谢！"
    dry = run("capture", said, "--dry-run")

    assert [line.split("\t")[:2] for line in dry.splitlines()[1:]] == [["yes", "preference"], ["no", "small talk"]]
    assert "tabs" not in run("list")
    assert run("capture", "-", given=said).count("yes") == 1
    assert "I prefer tabs." in run("list")
    assert json.loads(run("capture", said, "--json"))["decisions"][0]["reason"] == "CAPTURE_REASON_KNOWN"


def test_a_conversation_is_flushed(run: Any, tmp_path: Path) -> None:
    """From a file, from stdin and from a session; what was remembered before is met again."""
    said = [
        {"role": "user", "content": "I am allergic to peanuts. What now?", "name": "Ada"},
        {"role": "assistant", "content": "You like tea."}, {"content": "我住在杭州。"},
    ]  # fmt: skip
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in said) + "\n\n"
    path = tmp_path / "said.jsonl"
    path.write_text(lines, encoding="utf-8")

    told = run("flush", str(path)).splitlines()
    assert [line.split("\t")[0] for line in told[1:-1]] == ["created", "created"]
    assert told[-1] == "2 remembered, 2 statements ignored"
    assert "0 remembered, 4 statements ignored" in run("flush", "-", given=lines)
    run("session", "create", "talk")
    run("session", "append", "talk", "We decided to use Redis.")
    assert "We decided to use Redis." in run("flush", "--session", "talk")
    assert json.loads(run("flush", "--session", "talk", "--json"))["recalledCount"] == 1


@pytest.mark.parametrize(
    "lines", ["x", "[]", '{"role": "user"}', '{"role": "king", "content": "a"}', '{"content": "a", "to": 1}']
)
def test_a_line_that_is_no_message_is_told(run: Any, lines: str) -> None:
    """And so is a command that names neither messages nor a session, or both."""
    run("flush", "-", given=lines, code=1)
    run("flush", code=1)
    run("flush", "-", "--session", "s", code=1)


def test_text_is_appended_by_key(run: Any) -> None:
    """To a key, and to the note of today."""
    assert run("append", "log", "one").endswith(" log created\n")
    assert run("append", "log", "-", "--separator", ", ", given="two").endswith(" log appended to\n")
    assert "one, two" in run("get", "--key", "log")
    assert " daily/20" in run("append", "today", "今天")
    run("append", "daily/x", "y", code=1)


def test_lines_that_are_no_utf8_are_told(address: str) -> None:
    """Also when they come after others, in the middle of an import."""
    lines = b'{"content": "one"}\n{"content": "\xff"}\n'
    told = CliRunner().invoke(app, ["import", "-", "--address", address, "--user", "utf8"], input=lines)

    assert told.exit_code == 1
    assert "no UTF-8 text" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_document_is_ingested_and_replaced(run: Any, tmp_path: Path) -> None:
    """By its file name as key; a file that is not there, and one that is no text, are told in a line."""
    path = tmp_path / "notes.md"
    path.write_text("# 笔记\n\nThe kettle is blue.\n", encoding="utf-8")
    assert run("ingest", str(path)).endswith(" created, 1 chunks: 笔记\n")
    path.write_text("The kettle is red.", encoding="utf-8")
    assert " updated, " in run("ingest", str(path))
    assert "red" in run("get", "--key", "notes.md")
    path.write_bytes(b"\xff")
    run("ingest", str(path), code=1)
    run("ingest", str(tmp_path / "none.md"), code=1)


def test_a_short_term_memory_is_kept(run: Any) -> None:
    """In better words."""
    memory_id = run("add", "the walrus came by today", "--layer", "short-term").split()[0]
    assert run("promote", memory_id, "A walrus comes by.").rstrip().endswith(f"promoted from {memory_id}")
    assert "A walrus comes by." in run("list")
    run("promote", memory_id, code=1)


def test_what_is_due_is_listed_until_it_is_acknowledged(run: Any) -> None:
    """Every year or once, given or found in the text; in a pipe and as JSON."""
    memory_id = run("add", "Anna's day", "--remind", "03-05").split()[0]
    run("add", "the tax return", "--remind", "2026-03-01")
    run("add", "nothing", "--remind", "tomorrow", code=2)
    assert "reminds    03-05 every year" in run("get", memory_id)
    at = ("--at", "2026-03-05T12:00")
    rows = [line.split("\t") for line in run("reminders", "list", *at).splitlines()[1:]]

    assert [["Anna's day", ""], ["the tax return", "overdue"]] == [[row[4], row[3]] for row in rows]
    assert 2 == len([json.loads(line) for line in run("reminders", "list", *at, "--json").splitlines()])
    assert f"{memory_id} acknowledged\n" == run("reminders", "ack", memory_id, "2026-03-05")
    assert ["the tax return"] == [line.split("\t")[4] for line in run("reminders", "list", *at).splitlines()[1:]]
    assert [] == run("reminders", "list", *at, "--overdue-days", "0").splitlines()[1:]
    run("reminders", "ack", memory_id, "5 March", code=2)
    run("reminders", "ack", memory_id, "2026-03-06", code=1)
    if datetime.now(UTC).strftime("%m-%d") != "03-05":
        run("reminders", "ack", memory_id, code=1)


def test_same_memories_are_merged_and_parted(run: Any) -> None:
    """Shown first, merged only when asked to; then one is listed, and after the undo both are."""
    user = "consolidating"
    for content in ("I enjoy alpine hiking.", "The user likes alpine hiking"):
        run("add", content, user=user)
    shown = run("consolidate", user=user)
    assert ("groups to merge: 1, memories looked at: 2" in shown, "memsvc consolidate --apply" in shown) == (True, True)
    assert "groups merged: 0, memories looked at: 2" in run("consolidate", "--apply", "--threshold", "1", user=user)
    [told] = run("consolidate", "--apply", "--json", user=user).splitlines()
    merged = json.loads(told)["groups"][0]["merged"]["id"]
    assert "I enjoy" not in run("list", user=user)
    run("update", merged, "--content", "I like hiking in the Alps.", user=user)
    run("undo-consolidation", merged, user=user, code=1)
    parted = run("undo-consolidation", merged, "--revision", "2", user=user)
    assert parted.endswith(f"{merged} is deleted\n")
    assert all(content in run("list", user=user) for content in ("I enjoy alpine hiking.", "The user likes"))
    assert "groups merged: 0" in run("consolidate", "--apply", user=user)


def test_a_month_and_a_topic_are_summed_up(run: Any) -> None:
    """In a memory, whose key and text are shown; a month and a span together are refused, as is what is not there."""
    user = "summarizing"
    run("add", "The quagga budget is 400 euros.", "--when", "2026-02-03", user=user)
    told = run("summarize", "2026-02", user=user)
    assert told.startswith("The quagga budget is 400 euros.\nsummary/2026-02: of 1 memories, ")
    spans = ("--since", "2026-02-01", "--until", "2026-03-01")
    assert "of 1 memories" in run("summarize", *spans, "--topic", "Budget", user=user)
    assert "summary/all/budget" in run("summarize", "--topic", "Budget", "--json", user=user)
    run("summarize", "2026-02", *spans, user=user, code=1)
    run("summarize", "2031-01", user=user, code=1)
    run("summarize", user=user, code=1)


def test_a_memory_is_archived_and_comes_back(run: Any) -> None:
    """Out of lists, until it is restored."""
    memory_id = run("add", "the walrus came by today").split()[0]
    assert run("archive", memory_id) == f"{memory_id} archived, revision 2\n"
    assert "walrus" not in run("list")
    assert json.loads(run("archive", memory_id, "--json"))["memory"]["revision"] == "2"
    run("restore", memory_id)
    assert "walrus" in run("list")
    run("archive", "", code=1)


def test_what_is_due_is_listed_and_done(run: Any, address: str) -> None:
    """A dry run says what and why, a run how much; in a pipe and as JSON, for a user or for everybody."""
    with Memsvc(address, user_id="maintained", project_id="p") as client:
        past = datetime.now(UTC) - timedelta(days=1)
        ids = [client.create(f"Note {number}.", expire_time=past).memory.id for number in range(2)]

    dry = [line.split("\t") for line in run("maintain", "--dry-run", user="maintained").splitlines()]
    assert dry[1:3] == [["expire", "expired", "maintained", "p", memory_id] for memory_id in ids]
    assert [line[:4] for line in dry if line[1] == "2"] == [["expire", "2", "0", "0"]]
    assert "Note" not in run("maintain", "--dry-run", "--everybody")
    assert ids[0] in run("maintain", "--dry-run", "--everybody")
    assert ids[0] not in run("maintain", "--dry-run")

    told = [json.loads(line) for line in run("maintain", "--step", "expire", "--json", user="maintained").splitlines()]
    assert [change["memoryId"] for response in told for change in response["changes"]] == ids
    assert told[-1]["tallies"][0]["complete"]
    done = run("maintain", user="maintained").splitlines()
    assert [line.split("\t")[0] for line in done] == ["step", "expire", "promote", "archive", "compact", "consolidate"]
    assert all(line.endswith("all done") for line in done[1:])


def test_a_memory_and_a_project_go_back(run: Any) -> None:
    """History, rollback and checkpoints, in a pipe and as JSON."""
    memory_id = run("add", "the kettle is blue", "--key", "kettle").split()[0]
    run("checkpoint", "create", "blue", "--note", "As it was.")
    run("add", "the kettle is red", "--key", "kettle")
    history = [line.split("\t") for line in run("history", memory_id).splitlines()]

    assert [["2", "updated"], ["1", "created"]] == [[line[0], line[2]] for line in history[1:]]
    assert run("get", memory_id, "--revision", "1").endswith("the kettle is blue\n")
    assert "changed" in run("checkpoint", "diff", "blue").splitlines()[1]
    assert run("checkpoint", "rollback", "blue", "--dry-run").startswith("1 would be changed back, 0 deleted")
    told = run("checkpoint", "rollback", "blue").splitlines()
    assert run("get", memory_id).endswith("the kettle is blue\n")
    assert run("checkpoint", "list").splitlines()[-1].split("\t")[::2] == ["blue", "As it was."]
    run("checkpoint", "rollback", told[-1].split()[-1])
    assert run("get", memory_id).endswith("the kettle is red\n")
    assert run("rollback", memory_id, "1").split()[-1] == "5"
    for command in (["history", memory_id], ["checkpoint", "list"], ["checkpoint", "diff", "blue"]):
        assert all(isinstance(json.loads(line), dict) for line in run(*command, "--json").splitlines())


def test_a_context_is_shown_as_markdown(run: Any, address: str, request: pytest.FixtureRequest) -> None:
    """With a language, a budget, sections, and as what changed since an earlier one; as JSON whole or streamed."""
    run("add", "回答要简短。", "--layer", "core")
    found = run("add", "The otter sleeps by the river.", "--project", "web").split()[0]
    words = ["context", "where does the otter sleep?", "--project", "web"]

    shown = run(*words, "--locale", "zh")
    whole = json.loads(run(*words, "--json"))
    streamed = [json.loads(line) for line in run(*words, "--json", "--stream").splitlines()]
    small = json.loads(run(*words, "--tokens", "5", "--json"))
    section = json.loads(run(*words, "--section", "global-core", "--json"))
    since = json.loads(run(*words, "--since", whole["summary"]["contextCursor"], "--json"))
    told = CliRunner().invoke(app, [*words, "--address", address, "--user", request.node.name])

    assert "## 核心" in shown
    assert f"[mem:{found}]" in shown
    assert whole["citations"][-1]["memoryId"] == found
    texts = (part.get("text", "") for event in streamed for part in event.values() if isinstance(part, dict))
    assert "".join(texts) == whole["markdown"]
    assert (small["markdown"], small["warnings"][0]["code"]) == ("", "BUDGET_TOO_SMALL")
    assert len(section["citations"]) == 1
    assert since["citations"] == []
    assert "of 128000 tokens; cursor " in told.stderr
    run(*words, "--since", "x", code=1)


def test_a_context_can_be_shared_out_narrowed_and_resumed(run: Any) -> None:
    """Parts of the budget, tags and kinds of what is retrieved, a time of validity, the rest of a stream."""
    otter = run("add", "The otter sleeps by the river.", "--tag", "zoo").split()[0]
    heron = run("add", "河边有一只苍鹭。", "--tag", "lake", "--kind", "note").split()[0]
    words = ["context", "otter river 苍鹭", "--json"]

    def cited(*narrowing: str) -> set[str]:
        return {one["memoryId"] for one in json.loads(run(*words, *narrowing)).get("citations", [])}

    streamed = [json.loads(line) for line in run(*words, "--stream").splitlines()]
    resumed = [json.loads(line) for line in run(*words, "--resume", streamed[0]["cursor"]).splitlines()]
    shared = json.loads(run(*words, "--stream", "--share", "core=0.25", "--share", "long_term=0.75").splitlines()[0])

    assert resumed == streamed[1:]
    budgets = {one["section"]: one.get("budgetTokens", 0) for one in shared["plan"]["sections"]}
    assert budgets["CONTEXT_SECTION_LONG_TERM"] == pytest.approx(3 * budgets["CONTEXT_SECTION_GLOBAL_CORE"], abs=3)
    assert budgets["CONTEXT_SECTION_SESSION"] == 0
    assert cited() == {otter, heron}
    assert cited("--tag", "zoo") == {otter}
    assert cited("--kind", "note") == {heron}
    assert len(cited("--relevant-limit", "1")) == 1
    assert cited("--min-score", "1") == set()
    assert cited("--valid-at", "2001-01-01") == {otter, heron}
    for wrong in ("core", "core=much", "cores=0.5"):
        run(*words, "--share", wrong, code=2)


def test_a_search_can_be_refined(run: Any) -> None:
    """Near-duplicates once, novelty, words first, a time of validity; without a reranker none can be asked for."""
    for content in ("The otter sleeps.", "the otter sleeps", "水獭在睡觉。", "水獭在睡觉！"):
        run("add", content)

    plain = json.loads(run("search", "otter 水獭", "--json"))["hits"]
    collapsed = json.loads(run("search", "otter 水獭", "--json", "--collapse"))["hits"]
    diverse = json.loads(run("search", "otter 水獭", "--json", "--diverse"))["hits"]
    answers = [json.loads(line) for line in run("search", "otter 水獭", "--json", "--stream").splitlines()]
    shown = run("search", "otter 水獭", "--stream")

    assert (len(plain), len(collapsed), len(diverse)) == (4, 2, 4)
    assert [next(iter(answer)) for answer in answers] == ["early", "fused"]
    assert [hit["memory"]["id"] for hit in answers[-1]["fused"]["hits"]] == [hit["memory"]["id"] for hit in plain]
    assert shown.count("The otter sleeps.") == 2
    assert len(json.loads(run("search", "otter", "--json", "--valid-at", "2001-01-01"))["hits"]) == 4
    assert json.loads(run("search", "otter", "--json", "--min-score", "1")).get("hits", []) == []
    run("search", "otter", "--rerank", code=1)


def test_what_a_start_loads_is_listed(run: Any) -> None:
    """Core memories and preferences, each with what it is."""
    assert run("load") == ""
    run("add", "Short sentences.", "--layer", "core")
    run("add", "喜欢绿茶", "--kind", "preference")

    lines = [line.split("\t") for line in run("load").splitlines()]

    assert [(line[0], line[-1]) for line in lines[1:]] == [("core", "Short sentences."), ("preference", "喜欢绿茶")]
    assert json.loads(run("load", "--json", "--limit", "1"))["core"][0]["content"] == "Short sentences."
