"""Checks of command lines that cannot run here: the program, its subcommand, its options and the files it names."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer

from memsvc.cli.app import app
from tests.docs.pages import ROOT, Block

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
ASSIGNMENT = re.compile(r"[A-Za-z_]+=\S*")


def problems(block: Block) -> Iterator[str]:
    """Yield what is wrong with the command lines of a block of sh."""
    for line in block.text.replace("\\\n", " ").splitlines():
        for part in split(line):
            problem = problem_of(part)
            if problem:
                yield f"{block.place}: {line.strip()}: {problem}"


def split(line: str) -> list[list[str]]:
    """Return the commands of a line, comments left out."""
    found: list[list[str]] = [[]]
    for word in shlex.split(line, comments=True):
        if word in {"&&", ";", "|"}:
            found.append([])
        else:
            found[-1].append(word)
    return [part for part in found if part]


def problem_of(words: Sequence[str]) -> str:
    """Return what is wrong with a command, or nothing."""
    words = list(words)
    while words and ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    if not words:
        return ""
    program, rest = words[0].removeprefix(".venv/bin/"), words[1:]
    check = PROGRAMS.get(program)
    return f"{program!r} is not a program that is checked" if check is None else check(rest)


def memsvc(words: Sequence[str]) -> str:
    """Check a command of memsvc: it exists, and so do its options; no argument is missing or left over."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands"):
        if not rest or rest[0] not in command.commands:
            return f"memsvc has no command {' '.join(rest[:1])!r}"
        command = command.commands[rest.pop(0)]
    context = command.context_class(command)
    try:
        given, left, _ = command.make_parser(context).parse_args(rest)
    except Exception as error:  # noqa: BLE001 - of which library the errors are is the library's business
        return str(error)
    missing = [
        one.name
        for one in command.params
        if one.param_type_name == "argument" and one.required and not given.get(one.name)
    ]
    return f"left over: {left}" * bool(left) or f"missing: {missing}" * bool(missing)


def mentioned(words: Sequence[str]) -> str:
    """Check a command of memsvc in a sentence: arguments may be left out."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"memsvc has no command {rest[0]!r}"
        command = command.commands[rest.pop(0)]
    options = {"--help", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
    unknown = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in options]
    return f"no option {unknown}" if unknown else ""


def make(words: Sequence[str]) -> str:
    """Check that the targets exist."""
    return next((f"no target {word}" for word in words if "=" not in word and word not in TARGETS), "")


def pip(words: Sequence[str]) -> str:
    """Check that the extras exist."""
    asked = re.findall(r"[\w-]+", " ".join(re.findall(r"\[(.*?)\]", " ".join(words))))
    unknown = set(asked) - set(PYPROJECT["project"]["optional-dependencies"])
    return f"no extra {unknown}" if unknown or words[0] != "install" else ""


def docker(words: Sequence[str]) -> str:
    """Check that files exist; tests/architecture/test_deployments.py looks into them."""
    files = [words[at + 1] for at, word in enumerate(words) if word in {"-f", "--file"}]
    missing = [file for file in files if not (ROOT / file).exists()]
    extras = ",".join(re.findall(r"EXTRAS=(\S+)", " ".join(words)))
    return f"no file {missing}" if missing else pip(["install", f"[{extras}]"])


def kubectl(words: Sequence[str]) -> str:
    """Check that folders exist, and what is run in a container."""
    if "--" in words:
        return problem_of(words[list(words).index("--") + 1 :])
    folders = [words[at + 1] for at, word in enumerate(words) if word == "--kustomize"]
    return next((f"no folder {folder}" for folder in folders if not (ROOT / folder).is_dir()), "")


def helm(words: Sequence[str]) -> str:
    """Check that charts exist; tests/architecture/test_chart.py looks into them."""
    charts = [word for word in words if word.startswith("docker/")]
    return next((f"no chart {chart}" for chart in charts if not (ROOT / chart / "Chart.yaml").is_file()), "")


def python(words: Sequence[str]) -> str:
    """Check that a module or script of the project, and the tests that it is given, exist."""
    if words[0] == "-m" and words[1].startswith(("tests.", "memsvc.")):
        path = ROOT / words[1].replace(".", "/")
        return "" if path.is_dir() or path.with_suffix(".py").exists() else f"no module {words[1]}"
    return next((f"no file {word}" for word in words if "/" in word and not (ROOT / word).exists()), "")


def anything(words: Sequence[str]) -> str:
    """Take any arguments."""
    del words
    return ""


PROGRAMS: dict[str, Callable[[Sequence[str]], str]] = {
    "memsvc": memsvc,
    "make": make,
    "pip": pip,
    "docker": docker,
    "kubectl": kubectl,
    "helm": helm,
    "python": python,
    "export": anything,
    "cd": anything,
}
