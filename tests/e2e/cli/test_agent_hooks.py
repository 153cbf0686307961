"""Hooks of a coding agent against a real service: recall at the start and at prompts, and keep what was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsvc.client import Memsvc
from tests.support.command_line import invoke
from tests.support.server_process import FAST, ServerProcess


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


def said(server: ServerProcess, user: str) -> list[str]:
    """Return the messages that the session has."""
    with Memsvc(server.bound, user_id=user, project_id="web") as client:
        return [one.content for one in client.list_messages("claude-code-s1", include_archived=True)]


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
    started = hook(server, user, "SessionStart", source="startup", session_id="s2")
    assert started == "" or "memory" in started


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
