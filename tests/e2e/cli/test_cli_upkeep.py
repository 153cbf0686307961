"""The commands that look after memories."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from memsvc.cli.app import app
from memsvc.client import Memsvc
from tests.support.command_line import invoke


def test_reports_are_readable_in_a_pipe(run: Any) -> None:
    """Without a terminal the reports are lines with tabs."""
    run("add", "one")

    run("add", "Answer in short.", "--layer", "core")
    assert {"memories\t2", "tokens of core memories, estimated\t4"} <= {*run("stats").splitlines()}
    assert run("diagnose").splitlines()[-1] == "healthy"
    assert run("perf", "CreateMemory").splitlines()[1].startswith("operation\tlayer\tcount")
    assert "CreateMemory" in run("perf", "--last-hours", "0.5")
    run("perf", "--last-hours", "169", code=2)
    assert run("reindex").splitlines()[-1] == "done"
    assert run("check-integrity").splitlines()[-1] == "2 memories checked, 0 findings, 0 repaired"
    run("session", "create", "talk")
    assert any(line.startswith("talk\t\t0\t64,000\t0%") for line in run("stats").splitlines())


def test_a_broken_link_is_named_and_repaired(run: Any, address: str, request: pytest.FixtureRequest) -> None:
    """The exit code says whether something is left to be done."""
    with Memsvc(address, user_id=request.node.name) as client:
        gone = client.create("one").memory.id
        client.create("two", related_ids=[gone])
        client.delete(gone, purge=True)

    found = run("check-integrity", code=1)
    repaired = run("check-integrity", "--repair")

    assert found.startswith("link\t")
    assert gone in found
    assert "repaired" in repaired.splitlines()[0]
    assert run("check-integrity").splitlines()[-1].endswith("0 findings, 0 repaired")


def test_a_short_term_memory_is_kept(run: Any) -> None:
    """In better words."""
    memory_id = run("add", "the walrus came by today", "--layer", "short-term").split()[0]
    assert run("promote", memory_id, "A walrus comes by.").rstrip().endswith(f"promoted from {memory_id}")
    assert "A walrus comes by." in run("list")
    run("promote", memory_id, code=1)


def test_uses_are_reported_and_listed(run: Any, address: str, request: pytest.FixtureRequest) -> None:
    """By ids or by the citations of a context; those found wrong are listed alone, and the state says what is missing."""
    first, second = (run("add", text).split()[0] for text in ("The walrus sings.", "海象在唱歌。"))
    gone = "0190163d-8694-739b-aea5-966c26f8ad91"
    reported = run("feedback", "report", "--used", first, "--wrong", second, "--ignored", gone, "--query", "谁在唱歌？")
    assert reported.splitlines() == ["2 reports stored", f"Not found: {gone}"]
    with Memsvc(address, user_id=request.node.name) as client:
        context = client.render_context("walrus")
    cited = next(one.citation for one in context.citations if one.memory_id == first)
    run("feedback", "report", "--used", cited, "--context", context.summary.context_cursor)
    run("feedback", "report", code=2)

    assert [line.split("\t")[1:] for line in run("feedback", "list", "--outcome", "wrong").splitlines()[1:]] == [
        [second, "wrong", "谁在唱歌？"]
    ]
    queries = [line.split("\t")[3] for line in run("feedback", "list", "--memory", first).splitlines()[1:]]
    assert queries == ["walrus", "谁在唱歌？"]
    state = run("feedback", "status").splitlines()
    assert state == [
        "state: too few reports; searches use it by default: no",
        "reports: 2 used, 0 ignored, 1 wrong",
    ]
    assert json.loads(run("feedback", "status", "--json"))["counts"]["usedCount"] == "2"


def test_what_is_due_is_listed_until_it_is_acknowledged(run: Any) -> None:
    """Every year or once, given or found in the text; in a pipe and as JSON."""
    memory_id = run("add", "Anna's day", "--remind", "03-05").split()[0]
    run("add", "the tax return", "--remind", "2026-03-01")
    run("add", "nothing", "--remind", "soon", code=2)
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


def test_days_are_those_of_this_machine(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In contexts, in what an agent loads, and of reminders; `--zone` names another zone."""
    # At any time of the day one of the two has another day than UTC.
    now = datetime.now(UTC)
    zone = next(
        name for name in ("Pacific/Kiritimati", "Etc/GMT+12") if now.astimezone(ZoneInfo(name)).date() != now.date()
    )
    day = max(now.date(), now.astimezone(ZoneInfo(zone)).date())
    memory_id = run("add", "mow the lawn", "--remind", str(day), "--when", "2031-05-01T23:30Z").split()[0]
    is_due = now.astimezone(ZoneInfo(zone)).date() >= day

    def found(option: str = "") -> tuple[bool, bool, bool]:
        named = ("--zone", option) if option else ()
        loaded = "reminder\t" in run("load", *named)
        listed = memory_id in run("reminders", "list", *named)
        acknowledged = "acknowledged" in run("reminders", "ack", memory_id, *named, code=0 if listed else 1)
        return loaded, listed, acknowledged

    monkeypatch.setenv("TZ", zone)
    due, not_due = ("", "UTC") if is_due else ("UTC", "")
    assert found(not_due) == (False, False, False)
    assert found(due) == (True, True, True)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    query = ("context", "When do I mow the lawn?")
    assert "2031-05-02" in run(*query)
    assert "2031-05-01" in run(*query, "--time-zone", "UTC")
    events = [run(*query, "--json", "--stream", "--time-zone", each) for each in ("", "Asia/Tokyo", "UTC")]
    assert ["2031-05-02" in one for one in events] == [True, True, False]


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
    assert "Note" not in run("maintain", "--dry-run", "--all-users")
    assert ids[0] in run("maintain", "--dry-run", "--all-users")
    assert ids[0] not in run("maintain", "--dry-run")

    told = [json.loads(line) for line in run("maintain", "--step", "expire", "--json", user="maintained").splitlines()]
    assert [change["memoryId"] for response in told for change in response["changes"]] == ids
    assert told[-1]["tallies"][0]["complete"]
    done = run("maintain", user="maintained").splitlines()
    steps = ["expire", "promote", "archive", "compact", "consolidate", "replay_use", "purge"]
    assert [line.split("\t")[0] for line in done] == ["step", *steps]
    assert all(line.endswith("all done") for line in done[1:])


def test_titles_are_written_once(run: Any) -> None:
    """In lists, in what is loaded and in hits, whether or not the content begins with them."""
    for title, content in (("Harbour times", "Harbour times: at dawn."), ("茶", "每天早上喝绿茶。")):
        run("add", content, "--title", title, "--layer", "core")
    for command in (("list",), ("load",), ("search", "harbour times 绿茶")):
        told = run(*command)
        assert told.count("Harbour times") == 1, told
        assert re.search("茶(: | - )每天早上喝绿茶。", told), told


def test_an_export_of_nobody_is_an_error_and_spoils_no_file(tmp_path: Path, run: Any, address: str) -> None:
    """A typing error in the name must not pass for a copy; a user with one session alone, or one of it, has data."""
    file = tmp_path / "小明.jsonl"
    for user in ("小明", "ada"):
        run("add", "茶 tea", user=user)
        run("export", str(file), "--force", user=user)
        before = file.read_bytes()
        typo = f"{user}x"
        told = invoke("export", str(file), "--force", "--address", address, "--user", typo)
        assert told.exit_code == 1
        assert repr(typo) in told.stderr
        assert "memsvc usage users" in told.stderr
        assert (file.read_bytes(), [*tmp_path.iterdir()]) == (before, [file])
        piped = invoke("export", "--address", address, "--user", typo)
        assert (piped.exit_code, piped.stdout) == (1, "")
    run("session", "create", "talk", user="talker")
    assert '"record":"session"' in run("export", user="talker")


@pytest.mark.parametrize("words", [("erase",), ("erase", "--confirm"), ("export", "-"), ("import-user", "-")])
def test_what_is_done_to_a_whole_user_takes_no_project(
    run: Any, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option is not offered, the variable is refused, and nothing is done."""
    run("add", "global")
    run("add", "of p", "--project", "p")

    run(*words, "--project", "p", code=2)
    monkeypatch.setenv("MEMSVC_PROJECT", "p")
    run(*words, code=1)
    monkeypatch.delenv("MEMSVC_PROJECT")

    assert "global" in run("list")
    assert "of p" in run("list", "--project", "p")


@pytest.mark.parametrize("name", ["out.md", "out.CSV"])
def test_an_export_into_a_file_of_another_format_is_refused(
    name: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export is JSON Lines, and the ending says so."""
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["export", name, "--address", address])

    assert told.exit_code == 1
    assert told.stderr == f"memsvc: An export is JSON Lines: name the file 'out.jsonl', not {name!r}.\n"
    assert list(tmp_path.iterdir()) == []


def test_many_memories_are_changed_after_a_look(run: Any) -> None:
    """Without a word nothing is changed; a token stands for what was seen, and is refused when that has changed."""
    for name, score in (("one", 1), ("二", 2), ("three", 3)):
        run("add", f"Number {name}.", "--key", f"numbers/{score}", "--tag", "n")
    seen = run("delete-matching", "--key-prefix", "numbers/", "--tag", "n")
    assert "3 memories would be deleted." in seen
    token = seen.split("--token ")[1].strip()
    changed = run("update-matching", "--key-prefix", "numbers/", "--set-importance", "5", "--add-tag", "新", "--yes")
    assert changed.splitlines()[-1] == "3 changed, 0 as they were, 0 failed"
    assert len(run("list", "--tag", "新", "--min-importance", "5").splitlines()) == 4

    run("delete-matching", "--key-prefix", "numbers/", "--tag", "n", "--token", token, code=1)
    preview = json.loads(run("delete-matching", "--key-prefix", "numbers/", "--json"))
    last = run("delete-matching", "--key-prefix", "numbers/", "--token", preview["selectionToken"], "--json")
    assert json.loads(last.splitlines()[-1])["summary"]["changedCount"] == 3
    assert run("list").splitlines()[1:] == []
    run("update-matching", "--tag", "n", code=1)


def test_numbers_in_metadata_select_memories(run: Any, address: str, request: pytest.FixtureRequest) -> None:
    """In lists and searches; what is no test of a number is wrong usage."""
    with Memsvc(address, user_id=request.node.name) as client:
        for content, score in (("Chess with Ann.", 1), ("和小雨下围棋。", 2.5), ("Cards with Bob.", -3)):
            client.create(content, metadata={"game": {"score": score}})

    def listed(*tests: str) -> set[str]:
        options = [part for test in tests for part in ("--number", test)]
        return {line.split("\t")[2] for line in run("list", *options).splitlines()[1:]}

    assert listed("game.score>=1") == {"Chess with Ann.", "和小雨下围棋。"}
    assert listed("game.score > -3", "game.score<2.5") == {"Chess with Ann."}
    assert listed("game.score=2.5") == {"和小雨下围棋。"}
    assert "Cards with Bob." in run("search", "cards or chess", "--number", "game.score<0")
    assert "Cards with Bob." not in run("search", "cards or chess", "--number", "game.score>0")
    for wrong in ("game.score", "game.score>=x", ">3", "game.score>=1.2.3"):
        run("list", "--number", wrong, code=2)


def test_what_holds_memories_is_listed(run: Any) -> None:
    """Users, projects, agents and scopes, in a pipe and as JSON."""
    user = "usage-of-the-command-line"
    run("add", "Global.", user=user)
    run("add", "Of a project.", "--project", "温室", user=user)

    assert [line.split("\t")[:2] for line in run("usage", "users", "--prefix", user).splitlines()[1:]] == [[user, "2"]]
    assert [line.split("\t")[:2] for line in run("usage", "projects", user=user).splitlines()[1:]] == [
        ["", "1"],
        ["温室", "1"],
    ]
    assert len(run("usage", "agents", user=user).splitlines()) == 3
    [_, scope] = [json.loads(line) for line in run("usage", "scopes", "--json", user=user).splitlines()]
    assert (scope["scope"]["projectId"], scope["memoryCount"]) == ("温室", 1)


def test_messages_are_taken_back_and_cleared(run: Any) -> None:
    """The last one is shown, and then all are gone."""
    run("session", "create", "talk")
    for said in ("one", "二", "three"):
        run("session", "append", "talk", said)

    assert run("session", "pop", "talk").splitlines()[1].endswith("three")
    assert [line.split("\t")[-1] for line in run("session", "messages", "talk").splitlines()[1:]] == ["one", "二"]
    assert run("session", "clear", "talk") == "2 messages removed\n"
    assert run("session", "messages", "talk").splitlines()[1:] == []
    run("session", "pop", "nothing", code=1)
