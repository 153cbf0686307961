"""The command backends: what there is to choose from."""

from __future__ import annotations

import json

from memsvc.cli.errors import report_errors
from memsvc.cli.output import write, write_table
from memsvc.cli.serve import AsJson, Config, read_settings


def backends(
    *,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the backends that can be chosen, and those that are. Whether they answer tells `memsvc check`."""
    from memsvc.bootstrap.plugins import found_backends  # noqa: PLC0415 - a quick start
    from memsvc.settings.profile import BACKENDS  # noqa: PLC0415

    found = found_backends()
    with report_errors():
        settings = read_settings(config, None)
    rows = []
    for each in found:
        profiles = [profile.value for profile, chosen in BACKENDS.items() if chosen.get(each.port) == each.name]
        is_chosen = getattr(settings, each.port).backend == each.name
        rows.append((each.port, each.name, is_chosen, profiles, each.distribution, each.target))
    if as_json:
        for row in rows:
            write(
                json.dumps(
                    dict(zip(("port", "name", "chosen", "profiles", "distribution", "target"), row, strict=True))
                )
            )
        return
    write_table(
        ("port", "backend", "chosen", "profiles", "offered by", "object"),
        [(port, name, "yes" if chosen else "", ", ".join(of), *rest) for port, name, chosen, of, *rest in rows],
        title=f"Profile {settings.profile}",
    )
