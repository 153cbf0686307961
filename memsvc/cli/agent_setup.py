"""The command setup: the configuration files of coding agents, shown as differences, written, and undone."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any

import typer

from memsvc.cli.agent_plugins import (
    HERMES_MANIFEST,
    hermes_plugin,
    openclaw_files,
    with_hermes_provider,
    without_hermes_provider,
)
from memsvc.cli.connection import DEFAULT_ADDRESS, HERE, CliContext, connected
from memsvc.cli.enums import CodingAgent
from memsvc.cli.errors import CommandError, print_error
from memsvc.cli.output import write

NAME = "memsvc"
"""The name of the MCP server in the configurations."""
_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
_HOOK_SECONDS = 15
_HOOK = re.compile(r"(?:^|[\s/'\"])memsvc['\"]? hook claude-code\b")
"""A command of ours among the hooks of others."""
_BEGIN, _END = "# memsvc setup: begin", "# memsvc setup: end"
_BLOCK = re.compile(rf"\n?^{_BEGIN}$.*?^{_END}$\n?", re.MULTILINE | re.DOTALL)
_FOLDERS = frozenset(
    {".claude", "commands", ".cursor", "rules", ".codex", ".openclaw", ".hermes", "plugins", "memsvc", "__pycache__"}
)
"""Folders that are removed when nothing is left in them."""
_COMMANDS = {
    "remember": (
        "Store something in long-term memory",
        "Store this in memory with the tool `remember` of the MCP server `memsvc`, one statement each: $ARGUMENTS",
    ),
    "recall": (
        "Search long-term memory",
        "Search memory with the tool `recall` of the MCP server `memsvc`, and answer from what it finds: $ARGUMENTS",
    ),
}
_RULE = """---
description: Long-term memory
alwaysApply: true
---

The MCP server `memsvc` is your long-term memory of this user and project. At the start of a task call its tool
`context` with the task. When you need an earlier decision, preference or fact, call `recall`. When the user states
a lasting fact, preference or decision, call `remember`, with the outdated memory if it replaces one.
"""


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change of one file; None: there is no file."""

    path: Path
    before: str | None
    after: str | None


@connected
def setup(
    session: CliContext,
    *,
    agent: Annotated[CodingAgent, typer.Argument(help="The agent.")],
    folder: Annotated[Path, typer.Option(help="The folder of the project.", file_okay=False, exists=True)] = Path(),
    undo: Annotated[bool, typer.Option("--undo", help="Remove what this command wrote.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes; write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without a question.")] = False,
) -> None:
    """Configure a coding agent to use the memory.

    Shows the changes of its configuration files, and writes them.

    claude-code: MCP server, hooks that recall at the start and at each prompt and keep what was said, and commands, in
    the folder. cursor: MCP server and a rule, in the folder. codex: MCP server, in ~/.codex/config.toml. openclaw and
    hermes: a memory plugin, in ~/.openclaw and ~/.hermes, that recalls before each turn and keeps what was said.
    """
    edits = [one for one in _EDITS[agent](session, folder.absolute(), undo) if one.before != one.after]
    if not edits:
        write("There is nothing to undo." if undo else "Everything is configured already.")
        return
    for edit in edits:
        _show(edit)
    if dry_run:
        return
    if not yes and not _confirmed(len(edits)):
        message = "Nothing was written."
        raise CommandError(message)
    for edit in edits:
        _write(edit)
    write(f"{len(edits)} files {'restored' if undo else 'written'}. Start the agent again.")
    if not undo:
        _tell_health(session)


def _confirmed(count: int) -> bool:
    if not sys.stdin.isatty():
        message = "Answer with --yes, or look with --dry-run: there is no terminal to ask at."
        raise CommandError(message)
    return typer.confirm(f"Write {count} files?")


def _show(edit: _Edit) -> None:
    before, after = ((text or "").splitlines() for text in (edit.before, edit.after))
    old, new = ("/dev/null" if text is None else str(edit.path) for text in (edit.before, edit.after))
    for line in difflib.unified_diff(before, after, old, new, lineterm=""):
        write(line)


def _write(edit: _Edit) -> None:
    """Write a file as a whole, so that a reader never sees a part of it; keep its permissions."""
    if edit.after is None:
        edit.path.unlink(missing_ok=True)
        for compiled in edit.path.parent.glob(f"__pycache__/{edit.path.stem}.*.pyc"):
            compiled.unlink()
            if not any(compiled.parent.iterdir()):
                compiled.parent.rmdir()
        for folder in (edit.path.parent, edit.path.parent.parent):
            if folder.name in _FOLDERS and not any(folder.iterdir()):
                folder.rmdir()
        return
    edit.path.parent.mkdir(parents=True, exist_ok=True)
    target = edit.path.resolve()
    with NamedTemporaryFile("w", dir=target.parent, encoding="utf-8", newline="", delete=False) as file:
        file.write(edit.after)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    Path(file.name).chmod(mode)
    Path(file.name).replace(target)


def _tell_health(session: CliContext) -> None:
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        with session.client(timeout=3.0) as client:
            client.load_core(limit=1)
    except MemsvcCallError as error:
        print_error(f"memsvc: {error} The agent works without its memory until the service answers: `memsvc serve`.")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        message = f"{str(path)!r} is no UTF-8 text."
        raise CommandError(message) from error


def _program() -> str:
    """Return the path of the command memsvc: agents start it from anywhere."""
    own = Path(sys.argv[0])
    beside = Path(sys.executable).with_name("memsvc")
    if own.name == "memsvc" and own.is_absolute() and own.exists():
        return str(own)
    return str(beside) if beside.exists() else shutil.which("memsvc") or "memsvc"


def _options(session: CliContext, folder: Path) -> list[str]:
    """Return the options that name service, user and project; secrets stay in the environment."""
    from memsvc.client.projects import find_project  # noqa: PLC0415 - a quick start

    found = find_project(folder)
    project = session.project or (found.id if found else folder.name)
    return [*_service_options(session), "--user", session.user, "--project", project]


def _service_options(session: CliContext) -> list[str]:
    """Return the options that name the service and its files of TLS, with absolute paths; agents start anywhere."""
    address = session.address
    if address.startswith("unix:"):
        address = f"unix:{Path(address.removeprefix('unix:').removeprefix('//')).absolute()}"
    options = [] if address == DEFAULT_ADDRESS else ["--address", address]
    if session.tls is not None:
        files = (session.tls.ca, session.tls.certificate, session.tls.key)
        for name, file in zip(("--tls-ca", "--tls-certificate", "--tls-key"), files, strict=True):
            options += [name, str(file.absolute())] if file is not None else []
    return options


def _json_edit(path: Path, change: Callable[[dict[str, Any]], None]) -> _Edit:
    """Return the change of a JSON file; one that holds nothing afterwards is removed."""
    before = _read(path)
    try:
        value = json.loads(before) if before and before.strip() else {}
    except ValueError as error:
        message = f"{str(path)!r} is no JSON ({error}); correct it, or remove its comments, first."
        raise CommandError(message) from error
    if not isinstance(value, dict):
        message = f"{str(path)!r} must hold a JSON object."
        raise CommandError(message)
    changed = json.loads(json.dumps(value))
    change(changed)
    if changed == value:
        return _Edit(path, before, before)
    return _Edit(path, before, f"{json.dumps(changed, indent=2, ensure_ascii=False)}\n" if changed else None)


def _part(value: dict[str, Any], name: str, kind: type, path: Path) -> Any:
    """Return a part of a configuration, made if it is missing.

    Raises:
        CommandError: It is something else.
    """
    found = value.setdefault(name, kind())
    if not isinstance(found, kind):
        message = f"{name!r} in {str(path)!r} has a form that is not known; nothing was changed."
        raise CommandError(message)
    return found


def _server_edit(path: Path, entry: Mapping[str, Any] | None) -> _Edit:
    """Return the change that sets the MCP server in a file, or removes it."""

    def change(value: dict[str, Any]) -> None:
        servers = _part(value, "mcpServers", dict, path)
        if entry is None:
            servers.pop(NAME, None)
        else:
            servers[NAME] = entry
        if not servers:
            del value["mcpServers"]

    return _json_edit(path, change)


def _claude_code(session: CliContext, folder: Path, undo: bool) -> list[_Edit]:  # noqa: FBT001 - of the option
    options = _options(session, folder)
    entry = {
        "command": _program(),
        "args": ["mcp", *options, "--agent", "claude-code"],
        "env": {"MEMSVC_API_KEY": "${MEMSVC_API_KEY:-}"},
    }
    settings = folder / ".claude" / "settings.local.json"
    command = shlex.join([_program(), "hook", "claude-code", *options])

    def change(value: dict[str, Any]) -> None:
        hooks = _part(value, "hooks", dict, settings)
        for event in _EVENTS:
            groups = [_without_ours(group) for group in _part(hooks, event, list, settings)]
            kept = [group for group in groups if group is not None]
            if not undo:
                kept.append({"hooks": [{"type": "command", "command": command, "timeout": _HOOK_SECONDS}]})
            hooks[event] = kept
            if not kept:
                del hooks[event]
        if not hooks:
            del value["hooks"]

    commands = [
        _file_edit(
            folder / ".claude" / "commands" / f"{name}.md",
            f"---\ndescription: {title}\n---\n\n{text}\n",
            undo=undo,
        )
        for name, (title, text) in _COMMANDS.items()
    ]
    return [
        _server_edit(folder / ".mcp.json", None if undo else entry),
        _json_edit(settings, change),
        *commands,
    ]


def _without_ours(group: Any) -> Any:
    """Return a group of hooks without those of this command; None: nothing is left."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    kept = [one for one in group["hooks"] if not (isinstance(one, dict) and _HOOK.search(str(one.get("command", ""))))]
    if len(kept) == len(group["hooks"]):
        return group
    return {**group, "hooks": kept} if kept else None


def _file_edit(path: Path, text: str, *, undo: bool) -> _Edit:
    """Return the change that writes a file of ours; one that a person wrote or changed is left alone."""
    before = _read(path)
    if undo:
        return _Edit(path, before, None if before == text else before)
    return _Edit(path, before, text if before is None else before)


def _cursor(session: CliContext, folder: Path, undo: bool) -> list[_Edit]:  # noqa: FBT001 - of the option
    entry = {
        "command": _program(),
        "args": ["mcp", *_options(session, folder), "--agent", "cursor"],
        "env": {"MEMSVC_API_KEY": "${env:MEMSVC_API_KEY}"},
    }
    return [
        _server_edit(folder / ".cursor" / "mcp.json", None if undo else entry),
        _file_edit(folder / ".cursor" / "rules" / "memsvc.mdc", _RULE, undo=undo),
    ]


def _codex(session: CliContext, folder: Path, undo: bool) -> list[_Edit]:  # noqa: FBT001 - of the option
    """Return the change of the personal configuration, whose other lines stay as they are."""
    import tomllib  # noqa: PLC0415 - a quick start

    del folder
    path = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
    before = _read(path)
    rest = _BLOCK.sub("", before or "")
    try:
        known = tomllib.loads(rest)
    except tomllib.TOMLDecodeError as error:
        message = f"{str(path)!r} is no TOML ({error}); correct it first."
        raise CommandError(message) from error
    if undo:
        return [_Edit(path, before, rest if rest.strip() or before is None else None)] if before else []
    servers = known.get("mcp_servers", {})
    if isinstance(servers, dict) and NAME in servers:
        message = f"{str(path)!r} configures the MCP server {NAME!r} already; remove its table first."
        raise CommandError(message)
    options = [*_service_options(session), "--user", session.user, "--project", session.project or HERE]
    arguments = json.dumps(["mcp", *options, "--agent", "codex"], ensure_ascii=False)
    entry = (f"command = {json.dumps(_program())}", f"args = {arguments}", 'env_vars = ["MEMSVC_API_KEY"]')
    block = "\n".join((_BEGIN, f"[mcp_servers.{NAME}]", *entry, _END))
    after = f"{rest.rstrip()}\n\n{block}\n" if rest.strip() else f"{block}\n"
    try:
        is_extended = isinstance(servers, dict) and tomllib.loads(after)["mcp_servers"][NAME]["args"][0] == "mcp"
    except tomllib.TOMLDecodeError:
        is_extended = False
    if not is_extended:
        message = (
            f"A table cannot be added to 'mcp_servers' in {str(path)!r}; nothing was changed. Write each server there "
            f"as a table [mcp_servers.NAME], or add this by hand: {NAME} = {{ {', '.join(entry)} }}"
        )
        raise CommandError(message)
    return [_Edit(path, before, after)]


def _hook_command(session: CliContext, agent: CodingAgent) -> list[str]:
    """Return the command of a plugin, without the user; an assistant's project has its name unless one is given."""
    options = _service_options(session)
    return [_program(), "hook", str(agent), *options, "--project", session.project or str(agent)]


def _own_file_edit(path: Path, text: str, *, undo: bool) -> _Edit:
    """Return the change that writes a file of a plugin folder of ours, whatever it held."""
    return _Edit(path, _read(path), None if undo else text)


def _hermes(session: CliContext, folder: Path, undo: bool) -> list[_Edit]:  # noqa: FBT001 - of the option
    """Return the provider's files, and the change of the configuration, whose other lines stay as they are."""
    del folder
    home = Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    plugin, path = home / "plugins" / NAME, home / "config.yaml"
    before = _read(path)
    rest = without_hermes_provider(before or "")
    after = rest if undo else with_hermes_provider(rest, str(path))
    command = _hook_command(session, CodingAgent.HERMES)
    return [
        _own_file_edit(plugin / "plugin.yaml", HERMES_MANIFEST, undo=undo),
        _own_file_edit(plugin / "__init__.py", hermes_plugin(command, session.user), undo=undo),
        _Edit(path, before, after if after.strip() else None),
    ]


def _openclaw(session: CliContext, folder: Path, undo: bool) -> list[_Edit]:  # noqa: FBT001 - of the option
    """Return the plugin's files, and the change of the configuration: path, entry and memory slot."""
    del folder
    home = Path(os.environ.get("OPENCLAW_STATE_DIR") or Path.home() / ".openclaw")
    path = Path(os.environ.get("OPENCLAW_CONFIG_PATH") or home / "openclaw.json")
    plugin = home / NAME

    def change(value: dict[str, Any]) -> None:
        plugins = _part(value, "plugins", dict, path)
        load, slots = _part(plugins, "load", dict, path), _part(plugins, "slots", dict, path)
        entries, paths = _part(plugins, "entries", dict, path), _part(load, "paths", list, path)
        allowed = plugins.get("allow")
        _take_out(plugins, paths, str(plugin))
        if not undo:
            replaced = slots.get("memory", "")
            paths.append(str(plugin))
            entries[NAME] = {
                "enabled": True,
                "hooks": {"allowConversationAccess": True},
                "config": {"replaced": replaced},
            }
            slots["memory"] = NAME
            if isinstance(allowed, list):
                allowed.append(NAME)
        for part, name in ((load, "paths"), (plugins, "load"), (plugins, "slots"), (plugins, "entries")):
            if not part[name]:
                del part[name]
        if not plugins:
            del value["plugins"]

    files = openclaw_files(_hook_command(session, CodingAgent.OPENCLAW), session.user)
    return [
        *(_own_file_edit(plugin / name, text, undo=undo) for name, text in files.items()),
        _json_edit(path, change),
    ]


def _take_out(plugins: dict[str, Any], paths: list[Any], plugin: str) -> None:
    """Remove what the command added to the plugins of OpenClaw, and give the memory slot back."""
    entry = plugins["entries"].pop(NAME, None)
    if plugin in paths:
        paths.remove(plugin)
    if isinstance(plugins.get("allow"), list) and NAME in plugins["allow"]:
        plugins["allow"].remove(NAME)
    if plugins["slots"].get("memory") == NAME:
        config = entry.get("config") if isinstance(entry, dict) else None
        replaced = config.get("replaced") if isinstance(config, dict) else None
        if replaced:
            plugins["slots"]["memory"] = replaced
        else:
            del plugins["slots"]["memory"]


_EDITS: dict[CodingAgent, Callable[[CliContext, Path, bool], list[_Edit]]] = {
    CodingAgent.CLAUDE_CODE: _claude_code,
    CodingAgent.CURSOR: _cursor,
    CodingAgent.CODEX: _codex,
    CodingAgent.OPENCLAW: _openclaw,
    CodingAgent.HERMES: _hermes,
}
