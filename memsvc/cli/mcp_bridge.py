"""The command mcp: it serves MCP clients on stdin and stdout."""

from __future__ import annotations

from typing import Annotated

import typer

from memsvc.cli.connection import CliContext, connected
from memsvc.cli.errors import CommandError
from memsvc.cli.moments import is_time_zone, machine_time_zone


def _serve_bridge(  # noqa: PLR0913 - an option each
    session: CliContext,
    *,
    agent: Annotated[str, typer.Option(envvar="MEMSVC_AGENT", help="Agent id of written memories.")] = "",
    conversation: Annotated[str, typer.Option("--session", envvar="MEMSVC_SESSION", help="Session id.")] = "",
    time_zone: Annotated[
        str,
        typer.Option(
            envvar="MEMSVC_TIME_ZONE", help="Time zone, such as Asia/Shanghai.  [default: that of this machine]"
        ),
    ] = "",
    locale: Annotated[str, typer.Option(envvar="MEMSVC_LOCALE", help="Language of headings: en or zh.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for a service that is unreachable.")] = 5.0,
) -> None:
    """Serve an MCP client on stdin and stdout.

    Claude, Cursor and other clients get a memory of one user and project.

    The client starts this command. The service need not run yet.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - a quick start

    if find_spec("mcp") is None:
        message = "The command mcp needs the extra mcp: pip install 'memsvc[mcp]'"
        raise CommandError(message)
    from memsvc.mcp.connection import BridgeScope  # noqa: PLC0415
    from memsvc.mcp.server import run  # noqa: PLC0415

    session.require_endpoint()
    if time_zone and not is_time_zone(time_zone):
        message = f"There is no time zone {time_zone!r}; name one such as Asia/Shanghai."
        raise CommandError(message)
    run(
        BridgeScope(
            address=session.address,
            user=session.user,
            project=session.project,
            agent=agent,
            session=conversation,
            api_key=session.api_key,
            tls=session.tls,
            time_zone=time_zone or machine_time_zone(),
            locale=locale,
            read_only=read_only,
            patience_seconds=patience,
        )
    )


mcp = connected(_serve_bridge, without=("as_json",), needs_project=False)
