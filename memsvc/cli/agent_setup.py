"""The command setup: the configuration files of coding agents, shown as differences, written, and undone."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
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
from memsvc.cli.json_text import JsonTextError, edit_json, parse_json
from memsvc.cli.output import write

NAME = "memsvc"
"""The name of the MCP server in the configurations."""
_EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
_HOOK_SECONDS = 15
_HOOK = re.compile(r"(?:^|[\s/'\"])memsvc['\"]? hook claude-code\b")
"""A command of ours among the hooks of others."""
_BEGIN, _END = "# memsvc setup: begin", "# memsvc setup: end"
_BLOCK = re.compile(rf"^{_BEGIN}$.*?^{_END}$", re.MULTILINE | re.DOTALL)
_REMOVED_BLOCK = re.compile(rf"(?:(?<=\n)\n)?{_BLOCK.pattern}\n?", _BLOCK.flags)
_BYTE_ORDER_MARK = "\ufeff"
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
    if edit.after is None and edit.path.is_symlink():
        # The file may be one of a repository of configurations.
        edit = _Edit(edit.path, edit.before, "{}\n" if edit.path.suffix == ".json" else "")
    if edit.after is None:
        edit.path.unlink(missing_ok=True)
        for compiled in edit.path.parent.glob(f"__pycache__/{edit.path.stem}.*.pyc"):
            compiled.unlink()
            if not any(compiled.parent.iterdir()):
                compiled.parent.rmdir()
        for folder in (edit.path.parent, edit.path.parent.parent):
            if folder.name in _FOLDERS and not folder.is_symlink() and not any(folder.iterdir()):
                folder.rmdir()
        return
    target = edit.path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=target.parent, encoding="utf-8", newline="", delete=False) as file:
        file.write(edit.after)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    try:
        Path(file.name).chmod(mode)
        Path(file.name).replace(target)
    except OSError:
        Path(file.name).unlink()
        raise


def _tell_health(session: CliContext) -> None:
    from memsvc.client import MemsvcCallError  # noqa: PLC0415 - a quick start

    try:
        with session.client(timeout=3.0) as client:
            client.load_core(limit=1)
    except MemsvcCallError as error:
        print_error(f"memsvc: {error} The agent works without its memory until the service answers: `memsvc serve`.")


def _read(path: Path) -> str | None:
    """Return the text of a file with its ends of lines; None without a file."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        message = f"{str(path)!r} is no UTF-8 text."
        raise CommandError(message) from error


def _edited(text: str, change: Callable[[str], str]) -> str:
    """Return a text changed without its byte order mark and the ends of lines of Windows, which come back."""
    plain = text.removeprefix(_BYTE_ORDER_MARK)
    mark = text[: len(text) - len(plain)]
    unix = plain.replace("\r\n", "\n")
    is_windows = unix.count("\n") == plain.count("\r\n") > 0
    changed = change(unix if is_windows else plain)
    return mark + (changed.replace("\n", "\r\n") if is_windows else changed)


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
    """Return the change of a JSON file, all other lines as they are; one that holds nothing afterwards is removed."""
    before = _read(path)
    text = (before or "").removeprefix(_BYTE_ORDER_MARK)
    mark = _BYTE_ORDER_MARK if text != (before or "") else ""
    if not text.strip():
        text = "{}\n"
    try:
        value = parse_json(text)
        if not isinstance(value, dict):
            message = f"{str(path)!r} must hold a JSON object."
            raise CommandError(message)
        changed = json.loads(json.dumps(value))
        change(changed)
        after = edit_json(text, changed)
    except JsonTextError as error:
        message = f"{str(path)!r} is no JSON ({error}); correct it first."
        raise CommandError(message) from error
    if changed == value:
        return _Edit(path, before, before)
    return _Edit(path, before, None if after.strip() == "{}" else mark + after)


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
    """Return the change that sets the MCP server in a file, or removes it; what a person added to it stays.

    Raises:
        CommandError: Another server has its name.
    """

    def change(value: dict[str, Any]) -> None:
        servers = _part(value, "mcpServers", dict, path)
        known = servers.get(NAME, {})
        is_other = NAME in servers and not _is_own_server(known)
        if entry is not None and is_other:
            message = f"{str(path)!r} configures the MCP server {NAME!r} already; remove it first."
            raise CommandError(message)
        if entry is not None:
            servers[NAME] = {**known, **entry, "env": {**entry["env"], **known.get("env", {})}}
        elif not is_other:
            servers.pop(NAME, None)
        if not servers:
            del value["mcpServers"]

    return _json_edit(path, change)


def _is_own_server(entry: Any) -> bool:
    """Return whether an MCP server is the command memsvc, as this command or a person wrote it."""
    if not isinstance(entry, dict) or not isinstance(entry.get("env", {}), dict):
        return False
    arguments = entry.get("args")
    return isinstance(arguments, list) and arguments[:1] == ["mcp"] and Path(str(entry.get("command"))).stem == NAME


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
            groups = _with_hook(_part(hooks, event, list, settings), None if undo else command)
            hooks[event] = groups
            if not groups:
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


def _with_hook(groups: list[Any], command: str | None) -> list[Any]:
    """Return the groups of hooks of an event with one hook of ours, in its place, that runs *command*; None: none."""
    changed: list[Any] = []
    missing = command
    for group in groups:
        if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
            changed.append(group)
            continue
        kept = []
        for one in group["hooks"]:
            if not (isinstance(one, dict) and _HOOK.search(str(one.get("command", "")))):
                kept.append(one)
            elif missing is not None:
                kept.append({**one, "command": missing})
                missing = None
        if kept or not group["hooks"]:
            changed.append({**group, "hooks": kept})
    if missing is not None:
        changed.append({"hooks": [{"type": "command", "command": missing, "timeout": _HOOK_SECONDS}]})
    return changed


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
    del folder
    path = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
    before = _read(path)
    options = [*_service_options(session), "--user", session.user, "--project", session.project or HERE]
    arguments = json.dumps(["mcp", *options, "--agent", "codex"], ensure_ascii=False)
    entry = (f"command = {json.dumps(_program())}", f"args = {arguments}", 'env_vars = ["MEMSVC_API_KEY"]')
    after = _edited(before or "", lambda text: _codex_text(text, entry, path, undo=undo))
    is_empty = not after.removeprefix(_BYTE_ORDER_MARK).strip()
    return [_Edit(path, before, None if is_empty and before != after else after)] if before or not undo else []


def _codex_text(text: str, entry: Sequence[str], path: Path, *, undo: bool) -> str:
    """Return a configuration of Codex with the server, in its place or at the end, or without it.

    Raises:
        CommandError: It has another server of the name, or a form that takes none.
    """
    import tomllib  # noqa: PLC0415 - a quick start

    rest = _REMOVED_BLOCK.sub("", text)
    try:
        known = tomllib.loads(rest)
    except tomllib.TOMLDecodeError as error:
        message = f"{str(path)!r} is no TOML ({error}); correct it first."
        raise CommandError(message) from error
    if undo:
        return rest
    servers = known.get("mcp_servers", {})
    if isinstance(servers, dict) and NAME in servers:
        message = f"{str(path)!r} configures the MCP server {NAME!r} already; remove its table first."
        raise CommandError(message)
    block = "\n".join((_BEGIN, f"[mcp_servers.{NAME}]", *entry, _END))
    if _BLOCK.search(text):
        after = _BLOCK.sub(lambda _: block, text, count=1)
    else:
        end = "" if not text or text.endswith("\n") else "\n"
        after = f"{text}{end}\n{block}\n" if text.strip() else f"{block}\n"
    try:
        is_extended = isinstance(servers, dict) and tomllib.loads(after)["mcp_servers"][NAME]["args"][0] == "mcp"
    except (tomllib.TOMLDecodeError, KeyError):
        is_extended = False
    if not is_extended:
        message = (
            f"A table cannot be added to 'mcp_servers' in {str(path)!r}; nothing was changed. Write each server there "
            f"as a table [mcp_servers.NAME], or add this by hand: {NAME} = {{ {', '.join(entry)} }}"
        )
        raise CommandError(message)
    return after


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
    after = _edited(
        before or "",
        without_hermes_provider if undo else lambda text: with_hermes_provider(text, str(path)),
    )
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
        if undo:
            _take_out(plugins, paths, str(plugin))
        else:
            config = {} if slots.get("memory") == NAME else {"config": {"replaced": slots.get("memory", "")}}
            ours = {"enabled": True, "hooks": {"allowConversationAccess": True}, **config}
            entries[NAME] = {**_part(entries, NAME, dict, path), **ours}
            slots["memory"] = NAME
            for named, name in ((paths, str(plugin)), (allowed, NAME)):
                if isinstance(named, list) and name not in named:
                    named.append(name)
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
