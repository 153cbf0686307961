"""Memory plugins of OpenClaw and Hermes, which `memsvc setup` writes: each calls `memsvc hook` for its agent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from memsvc.cli.errors import CommandError

NAME = "memsvc"
_SECONDS = 15
HERMES_MANIFEST = """name: memsvc
version: 0.1.0
description: "Long-term memory of the service memsvc. Written by `memsvc setup hermes`."
"""
_HERMES = '''"""Memory provider of memsvc. Written by `memsvc setup hermes`; `memsvc setup hermes --undo` removes it."""

import json
import logging
import shutil
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor

from agent.memory_provider import MemoryProvider

COMMAND = {command}
USER = {user}
SECONDS = {seconds}
logger = logging.getLogger(__name__)


class MemsvcMemoryProvider(MemoryProvider):
    """Recalls memories before a turn and keeps what is said in it."""

    def __init__(self):
        self._session = ""
        self._user = USER
        self._keeps = True
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memsvc")

    @property
    def name(self):
        return "memsvc"

    def is_available(self):
        return shutil.which(COMMAND[0]) is not None

    def unavailable_reason(self):
        return f"The program {{COMMAND[0]}} is missing; run `memsvc setup hermes` again."

    def initialize(self, session_id, **kwargs):
        self._session = session_id
        self._keeps = kwargs.get("agent_context", "primary") == "primary"
        # Users of a messaging platform have memories of their own.
        sender = kwargs.get("user_id")
        self._user = f"{{kwargs.get('platform', 'gateway')}}-{{sender}}" if sender else USER

    def get_tool_schemas(self):
        return []

    def prefetch(self, query, *, session_id=""):
        return self._run("UserPromptSubmit", session_id, prompt=query)

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None):
        said = (("user", user_content), ("assistant", assistant_content))
        turn = [{{"id": str(uuid.uuid4()), "role": role, "text": text}} for role, text in said if text]
        if self._keeps and turn:
            self._worker.submit(self._run, "Stop", session_id or self._session, messages=turn)

    def on_session_switch(self, new_session_id, **kwargs):
        self._session = new_session_id

    def shutdown(self):
        self._worker.shutdown(wait=True)

    def _run(self, event, session_id, **fields):
        given = {{"hook_event_name": event, "session_id": session_id or self._session, **fields}}
        try:
            done = subprocess.run(
                [*COMMAND, "--user", self._user], input=json.dumps(given), capture_output=True, encoding="utf-8",
                timeout=SECONDS, check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            logger.warning("memsvc: %s", error)
            return ""
        if done.stderr:
            logger.warning("%s", done.stderr.strip())
        return done.stdout.strip()


def register(ctx):
    """Register the provider."""
    ctx.register_memory_provider(MemsvcMemoryProvider())
'''
_OPENCLAW = """// Memory plugin of memsvc. Written by `memsvc setup openclaw`; the option --undo removes it.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";

const COMMAND = %(command)s;
const USER = %(user)s;
const MILLISECONDS = %(seconds)s * 1000;
const MOST_PROMPTS = 256;

/** Runs the hook of an event; returns what it writes, "" if it fails. */
function run(api, ctx, event) {
  // Senders of a channel have memories of their own.
  const user = ctx.senderId ? `${ctx.messageProvider ?? ctx.channel ?? "channel"}-${ctx.senderId}` : USER;
  return new Promise((resolve) => {
    const child = spawn(COMMAND[0], [...COMMAND.slice(1), "--user", user], { timeout: MILLISECONDS });
    let output = "";
    let errors = "";
    const end = (problem) => {
      if (problem) {
        api.logger?.warn?.(`memsvc: ${problem}`);
      }
      resolve(output.trim());
    };
    child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
    child.stdin.on("error", () => undefined);
    child.on("error", (error) => end(error.message));
    child.on("close", () => end(errors.trim()));
    child.stdin.end(JSON.stringify(event));
  });
}

function textOf({ content }) {
  const parts = Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\\n\\n");
}

/** Prompts of turns that have not ended, without the context that is added to them. */
const prompts = new Map();

export default {
  id: "memsvc",
  name: "memsvc",
  description: "Long-term memory of the service memsvc.",
  register(api) {
    api.on(
      "before_prompt_build",
      async ({ prompt }, ctx) => {
        const session = ctx.sessionId ?? ctx.sessionKey ?? "";
        prompts.set(session, prompt);
        if (prompts.size > MOST_PROMPTS) {
          prompts.delete(prompts.keys().next().value);
        }
        const event = { hook_event_name: "UserPromptSubmit", session_id: session, prompt };
        const context = await run(api, ctx, event);
        return context === "" ? undefined : { prependContext: context };
      },
      { timeoutMs: MILLISECONDS },
    );
    api.on("agent_end", async ({ success, messages = [] }, ctx) => {
      const session = ctx.sessionId ?? ctx.sessionKey ?? "";
      const prompt = prompts.get(session);
      prompts.delete(session);
      // Runs of the system, such as heartbeats and scheduled jobs, say nothing of the user.
      const isOfSystem = ctx.jobId !== undefined || (ctx.trigger ?? "user") !== "user";
      if (!success || prompt === undefined || isOfSystem) {
        return;
      }
      const begin = messages.findLastIndex(({ role }) => role === "user");
      const answers = messages.slice(begin + 1).filter(({ role }) => role === "assistant");
      const said = [["user", prompt], ...answers.map((message) => ["assistant", textOf(message)])];
      const turn = said
        .filter(([, text]) => text.trim() !== "")
        .map(([role, text]) => ({ id: randomUUID(), role, text }));
      await run(api, ctx, { hook_event_name: "Stop", session_id: session, messages: turn });
    });
  },
};
"""


def hermes_plugin(command: Sequence[str], user: str) -> str:
    """Return the source of the memory provider for Hermes."""
    return _HERMES.format(command=repr(list(command)), user=repr(user), seconds=_SECONDS)


def openclaw_plugin(command: Sequence[str], user: str) -> str:
    """Return the source of the memory plugin for OpenClaw."""
    words = {"command": json.dumps(list(command)), "user": json.dumps(user), "seconds": _SECONDS}
    return _OPENCLAW % words


def openclaw_files(command: Sequence[str], user: str) -> Mapping[str, str]:
    """Return the files of the memory plugin for OpenClaw by their names."""
    manifest: Mapping[str, Any] = {
        "id": NAME,
        "name": NAME,
        "description": "Long-term memory of the service memsvc.",
        "kind": "memory",
        "activation": {"onStartup": True, "onCapabilities": ["hook"]},
        "configSchema": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"replaced": {"type": "string"}},
        },
    }
    package = {
        "name": "memsvc-openclaw",
        "version": "0.1.0",
        "private": True,
        "type": "module",
        "openclaw": {"extensions": ["./index.js"]},
    }
    return {
        "openclaw.plugin.json": f"{json.dumps(manifest, indent=2)}\n",
        "package.json": f"{json.dumps(package, indent=2)}\n",
        "index.js": openclaw_plugin(command, user),
    }


_MEMORY = re.compile(r"^memory:[ \t]*(?:#.*)?$", re.MULTILINE)
_BLOCK = re.compile(r"(?:[ \t]+[^\n]*|[ \t]*#[^\n]*|[ \t]*)(?:\n|\Z)")
_MARK = "# memsvc setup"
_OURS = re.compile(rf"^[ \t]+provider: {NAME}  {_MARK}(?:, was: (?P<was>[^\n]*))?\n?", re.MULTILINE)
_PARAGRAPH = "\n\n"
_WHOLE = f"memory:  {_MARK}\n  provider: {NAME}\n"


def with_hermes_provider(text: str, path: str) -> str:
    """Return a configuration of Hermes with the provider, all other lines as they are.

    Raises:
        CommandError: It names another provider, or has a form that cannot be edited.
    """
    if _WHOLE in text or _OURS.search(text):
        return text
    given = _loaded(text, path)
    found = _MEMORY.search(text)
    if found is None and "memory" in given:
        raise _unknown_form(path)
    if found is None:
        end = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{end}\n{_WHOLE}" if text.strip() else _WHOLE
    else:
        changed = _with_line(text, found.end() + 1, path)
    memory = given.get("memory") or {}
    if not isinstance(memory, dict) or _loaded(changed, path) != {**given, "memory": {**memory, "provider": NAME}}:
        raise _unknown_form(path)
    return changed


def _with_line(text: str, begin: int, path: str) -> str:
    """Return a configuration with the provider in the block of its memory, which begins at a place."""
    end = begin
    while end < len(text) and (part := _BLOCK.match(text, end)) and part.end() > end:
        end = part.end()
    block = text[begin:end]
    indented = re.search(r"^([ \t]+)[^#\s]", block, re.MULTILINE)
    indent = indented[1] if indented else "  "
    given = re.search(rf"^{indent}provider:[ \t]*(?P<all>(?P<value>[^#\n]*?)[ \t]*(?:#[^\n]*)?)$", block, re.MULTILINE)
    if given is None:
        return f"{text[:begin].rstrip()}\n{indent}provider: {NAME}  {_MARK}\n{text[begin:]}"
    value = given["value"].strip("\"'")
    if value not in {"", "null", "~", "builtin"}:
        message = f"{path!r} names the memory provider {value!r}, and Hermes uses one alone; remove it first."
        raise CommandError(message)
    line = f"{indent}provider: {NAME}  {_MARK}, was: {given['all']}"
    return text[: begin + given.start()] + line + text[begin + given.end() :]


def _loaded(text: str, path: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - a quick start

    try:
        value = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        message = f"{path!r} is no YAML ({' '.join(str(error).split())}); correct it first."
        raise CommandError(message) from error
    if not isinstance(value, dict):
        raise _unknown_form(path)
    return value


def _unknown_form(path: str) -> CommandError:
    return CommandError(f"'memory' in {path!r} has a form that is not known; set memory.provider to {NAME!r} there.")


def without_hermes_provider(text: str) -> str:
    """Return a configuration of Hermes without what `with_hermes_provider` added."""
    if _WHOLE in text:
        before, _, after = text.partition(_WHOLE)
        return f"{before[:-1] if before.endswith(_PARAGRAPH) else before}{after}"

    def restored(found: re.Match[str]) -> str:
        if found["was"] is None:
            return ""
        indent = found[0][: len(found[0]) - len(found[0].lstrip())]
        return f"{indent}provider: {found['was']}".rstrip() + "\n"

    return _OURS.sub(restored, text)
