"""The commands against a service of their own."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import invoke
from tests.support.server_process import ServerProcess


def test_ready_file_and_output_have_the_address(service: ServerProcess) -> None:
    """Whoever started the service can read where it is."""
    assert service.data_dir.with_name("data.ready").read_text() == f"{service.address}\n"
    line = f"memsvc is serving on {service.address} (data in {service.data_dir})"
    assert line in service.log.read_text().splitlines()


def test_second_service_on_the_same_data_is_refused(service: ServerProcess) -> None:
    """One process at a time owns the data directory; the other one says so in a line."""
    told = invoke("check", "--data-dir", str(service.data_dir))

    assert told.exit_code == 1
    assert told.stderr.startswith("memsvc: The data directory is in use by the process ")
    assert told.stderr.count("\n") == 1


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
    """A dash stands for what is piped in; the line break that `echo` adds makes no other memory of it."""
    run("add", "-", given="piped in\n")
    run("add", "piped in")

    assert run("list").count("piped in") == 1


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
    [_, line, question] = run("conflicts", "list").splitlines()
    conflict_id = line.split("\t")[0]
    settled = run("conflicts", "resolve", conflict_id, "confirm")

    assert told[1].startswith(f"{conflict_id} open: 北京 -> 上海")
    assert told[2].strip() in question
    assert "“小王住在北京”" in question
    assert run("conflicts", "detect") == "1 memories compared, 0 conflicts stored.\n"
    assert line.split("\t")[1:] == ["open", "小王住在北京。", "小王搬到了上海。"]
    assert settled == f"{conflict_id} confirmed\n"
    assert "confirmed" in run("conflicts", "list", "--state", "confirmed")
    assert json.loads(run("conflicts", "list", "--state", "confirmed", "--json"))["id"] == conflict_id
    run("conflicts", "resolve", conflict_id, "reject", code=1)


def test_superseded_memory_leaves_the_list(run: Any) -> None:
    """The new memory is there, the old one is SUPERSEDED; one that is there can take a place, too."""
    first = run("add", "the kettle is blue", "--on-conflict", "keep-both").split()[0]
    second = run("supersede", first, "the kettle is green").split()[0]
    third = run("add", "there is no kettle any more").split()[0]
    told = run("supersede", second, "--by", third)

    assert told == f"{third} supersedes {second}\n"
    assert "status     superseded" in run("get", first)
    assert [line.split("\t")[0] for line in run("list").splitlines()] == ["id", third]
    assert run("supersede", second, "x", code=1) == ""
    run("supersede", second, code=2)


def test_a_bad_line_of_an_import_fails_alone(run: Any, address: str, tmp_path: Path) -> None:
    """The lines before and after are stored; each bad one is reported with file, line and field, and the exit is 1."""
    file = tmp_path / "notes.jsonl"
    lines = [b'{"content": "first"}', b'{"content": "x", "importance": 9}', b"", b"no JSON", b'{"contnt": "x"}']
    file.write_bytes(b"\n".join([*lines, b'{"content": "\xff"}', b'{"content": "last"}']))
    command = ["import", str(file), "--address", address, "--user", "bad"]

    told = invoke(*command)
    again = invoke(*command, "--json")

    assert (told.exit_code, again.exit_code) == (1, 1)
    assert told.stdout.startswith("6 read: 2 created, 0 updated, 0 already there, 4 failed")
    assert sorted(told.stderr.splitlines()) == [
        "memsvc: Line 2 of notes.jsonl was not stored: importance: must be 1 to 5, or 0 for the default.",
        "memsvc: Line 4 of notes.jsonl was not stored: it is no JSON object.",
        "memsvc: Line 5 of notes.jsonl was not stored: contnt: there is no such field.",
        "memsvc: Line 6 of notes.jsonl was not stored: it is no UTF-8 text.",
    ]
    assert [json.loads(again.stdout)[name] for name in ("receivedCount", "duplicateCount", "failedCount")] == [6, 2, 4]
    assert {json.loads(line)["content"] for line in run("list", "--json", user="bad").splitlines()} == {"first", "last"}


def test_an_import_reports_keys_that_are_not_stored(run: Any, address: str) -> None:
    """By line, with the memory that has the content; the rest are counted."""
    lines = [f'{{"content": "same", "key": "k{number}"}}' for number in range(23)]
    told = invoke("import", "-", "--address", address, "--user", "same", given="\n".join(lines))

    [memory] = map(json.loads, run("list", "--json", user="same").splitlines())
    reports = told.stderr.splitlines()
    assert told.exit_code == 0
    assert reports[0].endswith(f"was not stored: {memory['id']} has the same content.")
    assert "memsvc: 2 more keys were not stored." in reports


def test_many_bad_lines_are_counted(address: str) -> None:
    """The first are reported one by one."""
    lines = '{"content": "x", "importance": 9}\n' * 1_500 + "bad\n" * 500 + '{"content": "good"}\n'
    told = invoke("import", "-", "--address", address, "--user", "many", given=lines)

    assert told.exit_code == 1
    assert told.stdout.startswith("2,001 read: 1 created, 0 updated, 0 already there, 2,000 failed")
    assert told.stderr.count("was not stored") == 20
    assert told.stderr.endswith("memsvc: 1,980 more were not stored.\n")


def test_edited_document_updates_its_sections(run: Any, tmp_path: Path) -> None:
    """Importing a document twice leaves each section once, in its last form."""
    file = tmp_path / "notes.md"
    file.write_text("# Tea\n\ngreen\n\n# Cups\n\nsix\n")
    run("import", str(file), "--wait")
    file.write_text("# Tea\n\nblack\n\n# Cups\n\nsix\n")

    run("import", str(file), "--wait")

    contents = {json.loads(line)["content"] for line in run("list", "--json").splitlines()}
    assert contents == {"black", "six"}


def test_an_export_of_another_system_is_imported_once(run: Any, address: str, tmp_path: Path) -> None:
    """A dry run shows what would come and changes nothing; a second import adds what is new alone."""
    said = [
        {
            "uuid": "m1",
            "sender": "human",
            "text": "I play the oboe. 我吹双簧管。",
            "created_at": "2026-01-02T03:04:05Z",
        },
        {"uuid": "m2", "sender": "assistant", "text": "How lovely!", "created_at": "2026-01-02T03:05:05Z"},
        {"uuid": "m3", "sender": "human", "text": ""},
    ]
    export = [{"uuid": "c1", "name": "Music", "chat_messages": said}]
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps(export))
    command = ["import", "--from", "claude", str(file)]

    planned = run(*command, "--dry-run").splitlines()
    assert planned[:3] == ["Would be imported", "kind\tmemories\tfrom", "message\t2\t2026-01-02 to 2026-01-02"]
    assert "2026-01-02\tuser\tclaude/c1/m1\tI play the oboe. 我吹双簧管。" in planned
    assert planned[-1] == "1 parts without text, such as images, would be left out."
    assert run("list", "--json") == ""
    lines = [json.loads(line) for line in run(*command, "--dry-run", "--json").splitlines()]
    assert [line["key"] for line in lines] == ["claude/c1/m1", "claude/c1/m2"]

    first = run(*command, "--wait").splitlines()
    assert first[0].startswith("2 read: 2 created, 0 updated, 0 already there, 0 failed")
    assert first[1] == "1 parts without text, such as images, were left out."
    said.append({"uuid": "m4", "sender": "human", "text": "And the harp."})
    file.write_text(json.dumps(export))
    assert run(*command).startswith("3 read: 1 created, 0 updated, 2 already there, 0 failed")
    assert len(run("list", "--json").splitlines()) == 3
    [hit] = [json.loads(line) for line in run("search", "双簧管", "--limit", "1", "--json").splitlines()]
    assert "oboe" in json.dumps(hit)

    told = invoke("import", "--source-user", "x", str(file), "--address", address)
    assert (told.exit_code, told.stderr) == (1, "memsvc: --source-user goes with --from.\n")


def test_unknown_memory_is_told_with_advice(address: str) -> None:
    """Who asks for what is not there learns where to look."""
    unknown = "0190163d-8694-739b-aea5-966c26f8ad91"

    told = invoke("get", unknown, "--address", address)

    assert told.exit_code == 1
    assert "`memsvc list`" in told.stderr


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
    told = invoke("project", "--json")
    assert json.loads(told.stdout) == {"id": "acme/tools", "root": str(tmp_path)}
    assert invoke("project", "/").exit_code == 1


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
    told = invoke("import", "-", "--address", address, "--user", "utf8", given=lines)

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


def test_times_at_the_limits_are_shown_or_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What clocks here cannot tell is shown in UTC; what cannot be told in UTC is refused in a line."""
    last = "9999-12-31T20:00:00"

    def in_zone(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    try:
        in_zone("UTC")
        run("add", "the end", "--when", last)
        in_zone("Pacific/Kiritimati")
        assert last[:10] in run("list")
        in_zone("Pacific/Pago_Pago")
        for moment in (last, "0001-01-01T00:30:00"):
            run("add", "never", "--when", moment, code=1)
        assert "never" not in run("list")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_words_name_times_and_days(run: Any) -> None:
    """Of events and of reminders."""
    today = datetime.now().astimezone()
    yesterday, tomorrow = (f"{today + timedelta(days=days):%Y-%m-%d}" for days in (-1, 1))
    happened = run("add", "the lawn was mown", "--when", "yesterday").split()[0]
    to_come = run("add", "mow the lawn", "--remind", "tomorrow").split()[0]
    soon = run("add", "water the lawn", "--remind", "in 2 hours").split()[0]

    assert f"happened   {yesterday} 00:00" in run("get", happened)
    assert f"reminds    {tomorrow}" in run("get", to_come)
    assert "time" in json.loads(run("get", soon, "--json"))["reminder"]
