"""Hooks of a coding agent against a real service: recall at the start and at prompts, and keep what was said."""

from __future__ import annotations

import importlib.resources
import json
import os
import shutil
import signal
import subprocess
import sys
import zoneinfo
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memsvc.cli.agent_plugins import hermes_plugin, openclaw_files
from memsvc.client import Memsvc, MemsvcCallError
from memsvc.domain.field_rules import time_zone
from memsvc.v1 import session_service_pb2 as session_pb
from tests.support.child_processes import edge_pids
from tests.support.command_line import invoke
from tests.support.server_process import FAST, ServerProcess
from tests.support.until import until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of this module."""
    with ServerProcess(tmp_path_factory.mktemp("hooks") / "data", FAST) as running:
        yield running


def hook(server: ServerProcess, user: str, name: str, **event: Any) -> Any:
    """Run the hook of an event; return the context that it gives, "" for none."""
    given = json.dumps({"session_id": "s1", "cwd": "/", "hook_event_name": name, **event})
    options = ["--address", server.bound, "--user", user, "--project", "web"]
    told = invoke("hook", "claude-code", *options, given=given)
    assert (told.exit_code, told.stderr) == (0, "")
    if not told.stdout:
        return ""
    output = json.loads(told.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == name
    return output["additionalContext"]


def line(number: int, role: str, content: Any, **more: Any) -> str:
    """Return a line of a transcript."""
    entry = {
        "type": role,
        "uuid": f"u{number}",
        "timestamp": f"2026-11-01T10:00:{number:02}.000Z",
        "message": {"role": role, "content": content},
        **more,
    }
    return json.dumps(entry, ensure_ascii=False)


def text_part(text: str) -> dict[str, str]:
    """Return a part of a message that is text."""
    return {"type": "text", "text": text}


def said(server: ServerProcess, user: str) -> list[str]:
    """Return the messages that the session has."""
    with Memsvc(server.bound, user_id=user, project_id="web") as client:
        return [one.content for one in client.list_messages("claude-code-s1", include_archived=True)]


def state(server: ServerProcess, user: str) -> session_pb.SessionState:
    """Return the state of the session; UNSPECIFIED before it exists."""
    with Memsvc(server.bound, user_id=user, project_id="web") as client:
        try:
            return client.get_session("claude-code-s1").state
        except MemsvcCallError:
            return session_pb.SESSION_STATE_UNSPECIFIED


def test_what_was_said_in_one_session_is_recalled_in_the_next(server: ServerProcess, tmp_path: Path) -> None:
    """Each message is kept once, whatever runs again; tools, hidden lines and subagents are not kept."""
    user = "hooks"
    assert hook(server, user, "SessionStart", source="startup") == ""
    transcript = tmp_path / "t.jsonl"
    lines = [
        line(1, "user", "I always deploy on Tuesdays. 我对青霉素过敏。"),
        line(2, "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Noted, Tuesdays."}]),
        line(3, "assistant", [{"type": "tool_use", "name": "Bash", "input": {}}]),
        line(4, "user", [{"type": "tool_result", "content": "ok"}]),
        line(5, "user", "<command-name>/clear</command-name>"),
        line(6, "user", "hidden", isMeta=True),
        line(7, "assistant", "of a subagent", isSidechain=True),
        "no JSON",
        '{"type": "summary", "summary": "x"}',
    ]
    transcript.write_text("\n".join(lines))
    for event in ("Stop", "Stop", "PreCompact"):
        assert hook(server, user, event, transcript_path=str(transcript)) == ""
    assert said(server, user) == ["I always deploy on Tuesdays. 我对青霉素过敏。", "Noted, Tuesdays."]

    lines.append(line(8, "user", "My editor is Helix."))
    transcript.write_text("\n".join(lines))
    hook(server, user, "SessionEnd", transcript_path=str(transcript), reason="other")
    assert said(server, user)[2:] == ["My editor is Helix."]

    found = hook(server, user, "UserPromptSubmit", prompt="Which day do I deploy on?", session_id="s2")
    assert "Tuesdays" in found
    assert "青霉素" in hook(server, user, "UserPromptSubmit", prompt="我对什么药过敏?", session_id="s2")
    long = "Which day do I deploy on? " * 400
    assert "Tuesdays" in hook(server, user, "UserPromptSubmit", prompt=long, session_id="s2")
    assert "Noted, Tuesdays." not in hook(server, user, "UserPromptSubmit", prompt="Noted, Tuesdays.", session_id="s1")
    started = hook(server, user, "SessionStart", source="startup", session_id="s2")
    assert started == "" or "memory" in started


def test_the_end_of_a_turn_waits_for_the_indexes(server: ServerProcess, tmp_path: Path) -> None:
    """The next prompt finds what the turn said, however slow the indexes are."""
    user = "slow indexes"
    transcript = tmp_path / "t.jsonl"
    transcript.write_text(line(1, "user", "I always deploy on Tuesdays."))
    vectors = until(lambda: edge_pids(server))
    with ThreadPoolExecutor(1) as executor:
        for pid in vectors:
            os.kill(pid, signal.SIGSTOP)
        try:
            kept = executor.submit(hook, server, user, "Stop", transcript_path=str(transcript))
            until(lambda: state(server, user) == session_pb.SESSION_STATE_CLOSED)
            assert wait([kept], timeout=0.5).not_done
        finally:
            for pid in vectors:
                with suppress(ProcessLookupError):  # the watchdog has replaced it
                    os.kill(pid, signal.SIGCONT)
        assert kept.result() == ""
    assert "Tuesdays" in hook(server, user, "UserPromptSubmit", prompt="Which day do I deploy on?", session_id="s2")


def test_halves_of_surrogate_pairs_and_nul_do_not_stop_a_conversation(server: ServerProcess, tmp_path: Path) -> None:
    """They are replaced in texts, ids and prompts; separators of lines within a text do not end its line."""
    user = "surrogates"
    transcript = tmp_path / "t.jsonl"
    lines = [
        json.dumps({"type": "user", "uuid": "u\ud83d1", "message": {"content": "My cat is called Mia \ud83d."}}),
        json.dumps(
            {"type": "assistant", "uuid": "u2", "message": {"content": [{"type": "text", "text": "A\0b \udc00"}]}}
        ),
        line(3, "user", "I deploy on Tuesdays.\u2028And on Fridays.\x85"),
        "[" * 100_000,
        json.dumps(
            {"type": "user", "uuid": 4, "timestamp": "0001-01-01T00:00:00+14:00", "message": {"content": "Bye."}}
        ),
    ]
    transcript.write_text("\n".join(lines))
    for _ in range(2):
        assert hook(server, user, "Stop", transcript_path=str(transcript), session_id="s1") == ""
    texts = ["My cat is called Mia ?.", "A?b ?", "I deploy on Tuesdays.\u2028And on Fridays.", "Bye."]
    assert said(server, user) == texts
    asked = "What is my cat \ud83d called?\0"
    assert "Mia" in hook(server, user, "UserPromptSubmit", prompt=asked, session_id="s\ud83d2")
    for odd in (None, ["x"], {}, 1.5):
        assert hook(server, "odd", "UserPromptSubmit", prompt=odd, session_id=odd) == ""


@pytest.mark.parametrize(
    "path",
    ["\0", "~nobody-of-this-name/t", "x" * 5_000, "/\ud83d", ".", 7, ["x"]],
    ids=["nul", "home", "long", "surrogate", "folder", "number", "list"],
)
def test_an_odd_path_of_the_transcript_gives_one_line_at_most(server: ServerProcess, path: Any) -> None:
    """And no traceback."""
    given = json.dumps({"session_id": "s1", "hook_event_name": "Stop", "transcript_path": path})
    told = invoke("hook", "claude-code", "--address", server.bound, "--user", "odd-path", given=given)
    assert told.exception is None or isinstance(told.exception, SystemExit)
    assert told.stderr.count("\n") <= 1
    assert "Traceback" not in told.stderr


def test_what_nobody_said_is_not_kept(server: ServerProcess, tmp_path: Path) -> None:
    """Summaries of a compaction, output of shell commands, errors of the model's service and interruptions."""
    user = "unsaid"
    transcript = tmp_path / "t.jsonl"
    lines = [
        line(1, "user", "I always deploy on Tuesdays."),
        line(2, "user", "This session is being continued from a previous one.", isCompactSummary=True),
        line(3, "user", "Of the transcript.", isVisibleInTranscriptOnly=True),
        line(4, "assistant", "API Error: 529 overloaded", isApiErrorMessage=True),
        line(5, "user", "<bash-input>ls</bash-input>"),
        line(6, "user", "<bash-stdout>My cat is called Mia.</bash-stdout><bash-stderr></bash-stderr>"),
        line(7, "user", "<bash-stderr>No such file</bash-stderr>"),
        line(8, "user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        line(9, "user", "Caveat: The messages below were generated by the user while running local commands."),
        line(10, "assistant", "<bash-input> is a tag. Noted, Tuesdays."),
        line(11, "user", "Caveat: never deploy on Fridays."),
    ]
    transcript.write_text("\n".join(lines))
    hook(server, user, "Stop", transcript_path=str(transcript))
    assert said(server, user) == [
        "I always deploy on Tuesdays.", "<bash-input> is a tag. Noted, Tuesdays.", "Caveat: never deploy on Fridays.",
    ]  # fmt: skip


def test_a_part_that_the_agent_added_hides_no_prompt(server: ServerProcess, tmp_path: Path) -> None:
    """Reminders and what an editor shows are parts of a message, beside the prompt; images have no text."""
    user = "parts"
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}
    opened = "<ide_opened_file>The user opened the file /x.py in the IDE.</ide_opened_file>"
    transcript = tmp_path / "t.jsonl"
    lines = [
        line(1, "user", [text_part("<system-reminder>x</system-reminder>"), text_part("I keep bees.")]),
        line(2, "user", [text_part(opened), text_part("My sister is Eva.")]),
        line(3, "user", [image, text_part("This is my cat Mona.")]),
        line(4, "user", [image]),
        line(5, "user", "<task-notification>\n<task-id>b1</task-id></task-notification>"),
        line(6, "user", [{"type": "tool_result", "content": "R" * 100_000}, text_part("No, use tabs.")]),
    ]
    synthetic = json.loads(line(7, "assistant", [text_part("No response requested.")]))
    synthetic["message"]["model"] = "<synthetic>"
    transcript.write_text("\n".join([*lines, json.dumps(synthetic)]))
    hook(server, user, "Stop", transcript_path=str(transcript))
    assert said(server, user) == ["I keep bees.", "My sister is Eva.", "This is my cat Mona.", "No, use tabs."]


def test_a_forked_conversation_is_kept_beside_the_first(server: ServerProcess, tmp_path: Path) -> None:
    """A fork begins with the messages of the first session, with their ids, in as many calls."""
    user = "forks"
    transcript = tmp_path / "t.jsonl"
    transcript.write_text("\n".join(line(number, "user", f"Statement {number}") for number in range(60)))
    for session in ("s1", "s2"):
        hook(server, user, "Stop", transcript_path=str(transcript), session_id=session)
        with Memsvc(server.bound, user_id=user, project_id="web") as client:
            assert 60 == sum(1 for _ in client.list_messages(f"claude-code-{session}", include_archived=True))


def test_a_rewritten_transcript_repeats_nothing(server: ServerProcess, tmp_path: Path) -> None:
    """One that became shorter, and another one of the same session."""
    user = "rewritten"
    transcript, other = tmp_path / "t.jsonl", tmp_path / "o.jsonl"
    lines = [line(number, "user", f"Statement {number}") for number in range(1, 5)]
    for kept in (lines, lines[:2], [*lines[:2], line(5, "user", "Statement 5")]):
        transcript.write_text("\n".join(kept))
        hook(server, user, "Stop", transcript_path=str(transcript))
    other.write_text(line(6, "user", "Statement 6"))
    hook(server, user, "Stop", transcript_path=str(other))
    transcript.write_text("\n".join([*lines, line(5, "user", "Statement 5"), line(7, "user", "Statement 7")]))
    hook(server, user, "Stop", transcript_path=str(transcript))
    assert said(server, user) == [f"Statement {number}" for number in range(1, 8)]


def test_two_terminals_keep_each_message_once(server: ServerProcess, tmp_path: Path) -> None:
    """Their hooks run at once in the same session, and one of them sees more of the transcript."""
    lines = [line(number, "user", f"Statement {number}") for number in range(1, 7)]
    paths = [tmp_path / "short.jsonl", tmp_path / "long.jsonl"]
    paths[0].write_text("\n".join(lines[:4]))
    paths[1].write_text("\n".join(lines))
    for attempt in range(3):
        user = f"terminals {attempt}"
        options = ["--address", server.bound, "--user", user, "--project", "web"]
        events = [
            json.dumps({"session_id": "s1", "hook_event_name": "Stop", "transcript_path": str(path)}) for path in paths
        ]
        command = [sys.executable, "-m", "memsvc", "hook", "claude-code", *options]
        running = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in events]
        for process, event in zip(running, events, strict=True):
            assert process.stdin is not None
            process.stdin.write(event)
            process.stdin.close()
        for process in running:
            assert process.stderr is not None
            assert ("", 0) == (process.stderr.read(), process.wait())
            process.stderr.close()
        assert said(server, user) == [f"Statement {number}" for number in range(1, 7)]


def test_a_hook_that_is_overtaken_twice_keeps_each_message_once(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one created the session and then kept its messages, each just before this one would have done so."""
    user = "overtaken"
    lines = [line(number, "user", f"Statement {number}") for number in range(1, 7)]
    paths = [tmp_path / "short.jsonl", tmp_path / "long.jsonl"]
    paths[0].write_text("\n".join(lines[:4]))
    paths[1].write_text("\n".join(lines))
    create, append = Memsvc.create_session, Memsvc.append_messages

    def create_after_the_other(client: Memsvc, *given: Any) -> Any:
        monkeypatch.setattr(Memsvc, "create_session", create)
        client.create_session(*given)
        return client.create_session(*given)

    def append_after_the_other(client: Memsvc, *given: Any, **options: Any) -> Any:
        monkeypatch.setattr(Memsvc, "append_messages", append)
        with monkeypatch.context() as before_the_end:
            before_the_end.setattr(Memsvc, "close_session", lambda *_, **__: None)
            hook(server, user, "Stop", transcript_path=str(paths[0]))
        return client.append_messages(*given, **options)

    monkeypatch.setattr(Memsvc, "create_session", create_after_the_other)
    monkeypatch.setattr(Memsvc, "append_messages", append_after_the_other)
    hook(server, user, "Stop", transcript_path=str(paths[1]))

    assert said(server, user) == [f"Statement {number}" for number in range(1, 7)]


def test_a_turn_whose_end_was_interrupted_is_closed_by_the_next_event(server: ServerProcess, tmp_path: Path) -> None:
    """The hook ended after its messages were appended; the next event has no new message."""
    user = "interrupted"
    transcript = tmp_path / "t.jsonl"
    transcript.write_text(line(1, "user", "My cat is called Mia."))
    with Memsvc(server.bound, user_id=user, project_id="web", session_id="claude-code-s1") as client:
        client.create_session()
        client.append_messages([{"role": "USER", "content": "My cat is called Mia.", "metadata": {"uuid": "u1"}}])
        hook(server, user, "SessionEnd", transcript_path=str(transcript), reason="other")

        ended = client.get_session()
        assert (ended.message_count, session_pb.SessionState.Name(ended.state)) == (1, "SESSION_STATE_CLOSED")
        assert [one.content for one in client.list(filters={"kinds": ["FACT"]})] == ["My cat is called Mia."]
        hook(server, user, "SessionEnd", transcript_path=str(transcript), reason="other")
        assert client.get_session().update_time == ended.update_time


def test_a_long_transcript_is_kept_in_several_calls(server: ServerProcess, tmp_path: Path) -> None:
    """It is larger than a message of gRPC may be."""
    user = "long"
    transcript = tmp_path / "t.jsonl"
    lines = [line(number, "user", f"{number} {'😀' * 99_000}") for number in range(43)]
    transcript.write_text("\n".join(lines), encoding="utf-8")
    hook(server, user, "Stop", transcript_path=str(transcript))
    assert [one.split()[0] for one in said(server, user)] == [str(number) for number in range(43)]


def test_days_are_those_of_the_machine(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said in the evening of UTC was said on the next day in Shanghai."""
    user = "zone"
    transcript = tmp_path / "t.jsonl"
    transcript.write_text(line(1, "user", "My cat is called Mia.", timestamp="2026-11-01T20:00:00.000Z"))
    hook(server, user, "Stop", transcript_path=str(transcript))

    def asked() -> str:
        return str(hook(server, user, "UserPromptSubmit", prompt="What is my cat called?", session_id="s2"))

    monkeypatch.setenv("TZ", "UTC")
    until(lambda: "Mia" in asked())
    assert "2026-11-01" in asked()
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    assert "2026-11-02" in asked()
    assert "2026-11-01" not in asked()


@pytest.fixture
def zone_of_this_machine_alone(tmp_path: Path) -> Iterator[str]:
    """A time zone, 9 hours ahead of UTC, that this process knows and the service does not."""
    name = "Mars/Olympus"
    path = tmp_path / "zones" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(importlib.resources.files("tzdata.zoneinfo.Asia").joinpath("Tokyo").read_bytes())
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[str(tmp_path / "zones"), *before])
    time_zone.cache_clear()  # another test of this process may have asked for the name, and will expect no zone again
    yield name
    zoneinfo.reset_tzpath(to=before)
    zoneinfo.ZoneInfo.clear_cache()
    time_zone.cache_clear()


def test_a_zone_that_the_service_does_not_know_costs_no_context(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone_of_this_machine_alone: str
) -> None:
    """Days are those of the same offset from UTC, and one line on stderr says so."""
    user = "unknown-zone"
    transcript = tmp_path / "t.jsonl"
    transcript.write_text(line(1, "user", "My cat is called Mia.", timestamp="2026-11-01T20:00:00.000Z"))
    hook(server, user, "Stop", transcript_path=str(transcript))
    prompt = "What is my cat called?"
    until(lambda: "Mia" in hook(server, user, "UserPromptSubmit", prompt=prompt, session_id="s2"))

    monkeypatch.setenv("TZ", zone_of_this_machine_alone)
    given = json.dumps({"session_id": "s2", "hook_event_name": "UserPromptSubmit", "prompt": prompt})
    options = ["--address", server.bound, "--user", user, "--project", "web"]
    told = invoke("hook", "claude-code", *options, given=given)
    assert told.exit_code == 0
    context = json.loads(told.stdout)["hookSpecificOutput"]["additionalContext"]
    assert ("Mia" in context, "2026-11-02" in context) == (True, True)
    assert told.stderr.count("\n") == 1
    assert f"'{zone_of_this_machine_alone}'" in told.stderr
    assert "Etc/GMT-9" in told.stderr


def test_long_ids_of_one_beginning_are_distinct(server: ServerProcess) -> None:
    """Those of messages and of sessions: no message is taken for a repetition of another one."""
    user, long = "long-ids", "x" * 200
    for session in ("1", "2"):
        for number in (1, 2, 2):
            messages = [{"id": f"{long}{session}{number}", "role": "user", "text": f"Message {session}.{number}."}]
            text_hook(server, user, "hermes", "Stop", session_id=f"{long}{session}", messages=messages)
    with Memsvc(server.bound, user_id=user, project_id="web") as client:
        sessions = [one.scope.session_id for one in client.list_sessions()]
        kept = {tuple(one.content for one in client.list_messages(one, include_archived=True)) for one in sessions}
    assert kept == {(f"Message {one}.1.", f"Message {one}.2.") for one in "12"}


def test_nothing_is_given_where_nothing_is_relevant(server: ServerProcess) -> None:
    """An empty prompt, and a user without memories."""
    assert hook(server, "empty", "UserPromptSubmit", prompt="What is the plan?") == ""
    assert hook(server, "empty", "UserPromptSubmit", prompt="  ") == ""
    assert hook(server, "empty", "Stop", transcript_path="/nowhere.jsonl") == ""
    assert hook(server, "empty", "Stop") == ""
    assert hook(server, "empty", "Notification") == ""


def test_a_service_that_is_away_does_not_stop_the_agent() -> None:
    """One line on stderr, and success; wrong input is a failure."""
    event = json.dumps({"hook_event_name": "SessionStart", "session_id": "s"})
    told = invoke("hook", "claude-code", "--address", "127.0.0.1:1", given=event)
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr.startswith("memsvc: ")
    for given in ("", "[]", "{"):
        told = invoke("hook", "claude-code", "--address", "127.0.0.1:1", given=given)
        assert told.exit_code == 1
        assert "JSON" in told.stderr


def text_hook(server: ServerProcess, user: str, agent: str, name: str, **event: Any) -> str:
    """Run the hook of an assistant; return the text that it writes."""
    given = json.dumps({"hook_event_name": name, **event}, ensure_ascii=False)
    done = invoke("hook", agent, "--address", server.bound, "--user", user, "--project", "web", given=given)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def turn(number: int, user: str, assistant: str) -> list[dict[str, str]]:
    """Return the messages of a turn."""
    return [
        {"id": f"u{number}", "role": "user", "text": user},
        {"id": f"a{number}", "role": "assistant", "text": assistant},
    ]


@pytest.mark.parametrize("agent", ["openclaw", "hermes"])
def test_messages_of_an_event_are_kept_and_recalled_elsewhere(server: ServerProcess, agent: str) -> None:
    """As plain text; what was said in the conversation itself is left out, and outdated memories say so."""
    user = f"text-{agent}"
    assert text_hook(server, user, agent, "UserPromptSubmit", session_id="s1", prompt="Hello.") == ""
    first = turn(1, "I live in Hamburg. My cat is called Mia. 我对青霉素过敏。", "Noted, Mia.")
    text_hook(server, user, agent, "Stop", session_id="s1", messages=first)
    text_hook(server, user, agent, "Stop", session_id="s1", messages=first)
    text_hook(server, user, agent, "Stop", session_id="s1", messages=turn(2, "I live in Berlin now.", "Noted."))
    with Memsvc(server.bound, user_id=user, project_id="web") as client:
        kept = [one.content for one in client.list_messages(f"{agent}-s1", include_archived=True)]
    assert kept == [first[0]["text"], "Noted, Mia.", "I live in Berlin now.", "Noted."]

    def asked(prompt: str) -> str:
        return text_hook(server, user, agent, "UserPromptSubmit", session_id="s2", prompt=prompt)

    # Messages are durable when the hook ends, and searches include them soon after.
    until(lambda: "Berlin" in asked("Where do I live?"))
    told = asked("Where do I live?")
    assert told.startswith("From memory (memsvc):\n\n")
    for line_of_text in told.splitlines():
        assert "Hamburg" not in line_of_text or "outdated" in line_of_text or "conflict" in line_of_text
    assert "青霉素" in asked("我对什么过敏？")
    again = text_hook(server, user, agent, "UserPromptSubmit", session_id="s1", prompt="What is my cat called?")
    assert "Noted, Mia." not in again
    assert text_hook(server, f"{user}-2", agent, "UserPromptSubmit", session_id="s3", prompt="Where do I live?") == ""


@pytest.mark.parametrize("messages", ["text", [1], [{"id": "1", "role": "tool", "text": "x"}], [{"role": "user"}]])
def test_messages_of_another_form_are_refused(messages: Any) -> None:
    """With the form that they need."""
    given = json.dumps({"hook_event_name": "Stop", "session_id": "s", "messages": messages})
    done = invoke("hook", "hermes", "--address", "127.0.0.1:1", given=given)
    assert done.exit_code == 1
    assert "id, role and text" in done.stderr


PROGRAM = str(Path(sys.executable).with_name("memsvc"))
HERMES_STUB = "class MemoryProvider:\n    pass\n"
HERMES_RUN = """
import sys
sys.path[:0] = [sys.argv[1]]
import plugin
class Context:
    def register_memory_provider(self, provider):
        self.provider = provider
context = Context()
plugin.register(context)
provider = context.provider
assert provider.name == "memsvc" and provider.is_available() and provider.get_tool_schemas() == []
for extra in ({}, {"platform": "telegram", "user_id": "7"}):
    provider.initialize("s1", hermes_home="/", agent_context="primary", **extra)
    provider.sync_turn("My dog is called Rex.", "Noted.", session_id="s1", messages=[])
    provider._worker.submit(int).result()
    provider.on_session_switch("s2")
    for _ in range(50):
        if "Rex" in provider.prefetch("What is my dog called?"):
            break
    print("Rex" in provider.prefetch("What is my dog called?"))
provider.initialize("s3", agent_context="cron")
provider.sync_turn("My cat is called Mia.", "Noted.")
provider._user = "telegram-8"
print(repr(provider.prefetch("What is my dog called?")))
provider.shutdown()
"""
OPENCLAW_RUN = """
import plugin from "./index.js";
const hooks = {};
const warnings = [];
plugin.register({ on: (name, handler) => (hooks[name] = handler), logger: { warn: (text) => warnings.push(text) } });
const answer = [{ role: "user", content: "x" }, { role: "assistant", content: [{ type: "text", text: "已记住。" }] }];
for (const sender of [{}, { senderId: "7", messageProvider: "discord" }]) {
  const turn = async (sessionId, prompt, more = {}) => {
    const given = await hooks.before_prompt_build({ prompt, messages: [] }, { sessionId, ...sender });
    await hooks.agent_end({ success: true, messages: answer }, { sessionId, ...sender, ...more });
    return given?.prependContext ?? "";
  };
  console.log(await turn("s1", "我的狗叫小黑。"));
  await turn("s1", "My cat is called Mia.", { jobId: "1" });
  let isKnown = false;
  for (let count = 0; count < 50 && !isKnown; count += 1) {
    isKnown = (await turn("s2", "我的狗叫什么名字？", { jobId: "2" })).includes("小黑");
  }
  console.log(isKnown);
}
const other = { sessionId: "s3", senderId: "8", messageProvider: "discord" };
console.log(await hooks.before_prompt_build({ prompt: "我的狗叫什么名字？" }, other));
console.log(JSON.stringify(warnings));
"""


def command(server: ServerProcess, agent: str) -> list[str]:
    """Return the command that `memsvc setup` puts into a plugin."""
    return [PROGRAM, "hook", agent, "--address", server.bound, "--project", "web"]


def test_the_provider_for_hermes_recalls_and_keeps(server: ServerProcess, tmp_path: Path) -> None:
    """Users of a platform have memories of their own; turns of scheduled jobs are not kept."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "memory_provider.py").write_text(HERMES_STUB)
    (tmp_path / "plugin.py").write_text(hermes_plugin(command(server, "hermes"), "owner-h"))

    done = subprocess.run(
        [sys.executable, "-c", HERMES_RUN, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["True", "True", "''"], done.stderr
    for user in ("owner-h", "telegram-7"):
        with Memsvc(server.bound, user_id=user, project_id="web") as client:
            assert [one.content for one in client.list_messages("hermes-s1", include_archived=True)] == [
                "My dog is called Rex.", "Noted.",
            ]  # fmt: skip


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not on the PATH")
def test_the_plugin_for_openclaw_recalls_and_keeps(server: ServerProcess, tmp_path: Path) -> None:
    """Senders of a channel have memories of their own; scheduled jobs are not kept."""
    for name, text in openclaw_files(command(server, "openclaw"), "owner-o").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "run.mjs").write_text(OPENCLAW_RUN)

    done = subprocess.run(
        ["node", "run.mjs"], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.stdout.splitlines() == ["", "true", "", "true", "undefined", "[]"], done.stderr
    for user in ("owner-o", "discord-7"):
        with Memsvc(server.bound, user_id=user, project_id="web") as client:
            assert [one.content for one in client.list_messages("openclaw-s1", include_archived=True)] == [
                "我的狗叫小黑。", "已记住。",
            ]  # fmt: skip


def test_plugins_work_without_the_service(tmp_path: Path) -> None:
    """The agent gets no context, and the failure is logged."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "memory_provider.py").write_text(HERMES_STUB)
    code = "import plugin; print(repr(plugin.MemsvcMemoryProvider().prefetch('Hello.')))"
    for program in (PROGRAM, "/none/memsvc"):
        (tmp_path / "plugin.py").write_text(hermes_plugin([program, "hook", "hermes", "--address", "127.0.0.1:1"], "a"))
        done = subprocess.run(
            [sys.executable, "-B", "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False,
            timeout=120,
        )  # fmt: skip
        assert done.stdout == "''\n"
        assert "memsvc" in done.stderr
