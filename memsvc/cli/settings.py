"""The command that tells every setting."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memsvc.cli.connection import project_of
from memsvc.cli.errors import CommandError, print_error, report_errors, require_server
from memsvc.cli.output import write, write_json_value, write_table
from memsvc.cli.serve import AsJson, Config, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memsvc.bootstrap.settings_reference import Setting


BEGIN, END = "<!-- settings -->", "<!-- /settings -->"
"""The markers before and after the table in a file."""


def settings(
    *,
    word: Annotated[
        str, typer.Argument(help="Only settings whose name contains this word, such as embedder or server.tls.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON Lines.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write Markdown, with the options of the backends of memsvc.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option(help="Write the Markdown between the markers of this file.", hidden=True)
    ] = None,
) -> None:
    """List every setting with its default and values.

    A setting such as server.address is said in memsvc.toml, or by the variable MEMSVC_SERVER__ADDRESS.
    """
    with report_errors():
        require_server("`memsvc settings`")
        from memsvc.bootstrap.settings_reference import catalogue  # noqa: PLC0415 - a quick start

        is_document = markdown or into is not None
        known = catalogue(ours_alone=is_document)
        found = [one for one in known.settings if word.lower() in _name(one).lower()]
        if not found:
            message = f"No setting has {word!r} in its name; `memsvc settings` lists all of them."
            raise CommandError(message)
        if into is not None:
            _put(into, "\n".join(_markdown(found)))
        elif as_json:
            for one in found:
                write_json_value(_described(one))
        elif is_document:
            for line in _markdown(found):
                write(line)
        else:
            rows = [(_name(one), one.default, one.values, one.meaning) for one in found]
            write_table(("setting", "default", "values", "meaning"), rows)
    for problem in known.missing:
        print_error(f"memsvc: {problem}")


def _name(one: Setting) -> str:
    return f"{one.path} ({one.backend})" if one.backend else one.path


def _described(one: Setting) -> dict[str, str]:
    return {
        "setting": one.path,
        "variable": one.variable,
        "port": one.port,
        "backend": one.backend,
        "default": one.default,
        "values": one.values,
        "meaning": one.meaning,
    }


def _markdown(found: Sequence[Setting]) -> Iterator[str]:
    """Yield the lines of a table for each group, and for each backend."""
    for title, group in groupby(found, key=_title):
        yield from ("", f"### {title}", "", "| setting, variable | default | values | meaning |", "| --- " * 4 + "|")
        for one in group:
            default = f"`{one.default}`" if one.default else ""
            cells = (f"`{one.path}`<br>`{one.variable}`", default, _cell(one.values), _cell(one.meaning))
            yield f"| {' | '.join(cells)} |"
    yield ""


def _title(one: Setting) -> str:
    if one.backend:
        return f"`{one.port}.backend = {json.dumps(one.backend)}`"
    return f"`{one.path.partition('.')[0]}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _put(path: Path, text: str) -> None:
    """Put *text* between the markers of a file.

    Raises:
        CommandError: The file has no such markers.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"{str(path)!r} has no lines {BEGIN} and {END} to put the settings between."
        raise CommandError(message)
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


# The command backends: what there is to choose from.


def backends(
    *,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the available and the selected backends.

    `memsvc check` tests whether they answer.
    """
    with report_errors():
        require_server("`memsvc backends`")
        from memsvc.bootstrap.plugins import found_backends  # noqa: PLC0415 - a quick start
        from memsvc.settings.profile import BACKENDS  # noqa: PLC0415

        found = found_backends()
        settings = read_settings(config, None)
    rows = []
    for each in found:
        profiles = [profile.value for profile, chosen in BACKENDS.items() if chosen.get(each.port) == each.name]
        is_chosen = getattr(settings, each.port).backend == each.name
        rows.append((each.port, each.name, is_chosen, profiles, each.distribution, each.target))
    if as_json:
        for row in rows:
            write_json_value(
                dict(zip(("port", "name", "chosen", "profiles", "distribution", "target"), row, strict=True))
            )
        return
    write_table(
        ("port", "backend", "chosen", "profiles", "offered by", "object"),
        [(port, name, "yes" if chosen else "", ", ".join(of), *rest) for port, name, chosen, of, *rest in rows],
        title=f"Profile {settings.profile}",
    )


# The command that tells which project a folder belongs to.


def project(
    *,
    folder: Annotated[Path, typer.Argument(help="A folder of the project.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show the project of a folder, as in `--project .`."""
    with report_errors():
        found = project_of(folder)
    if as_json:
        write_json_value({"id": found.id, "root": str(found.root)})
        return
    write(f"{'id':<11}{found.id}")
    write(f"{'root':<11}{found.root}")
