"""`teamwright mcp`: teams for one client of the Model Context Protocol, over stdin and stdout.

Editors and desktop programs start such a process for themselves. What it drives when its client closes it is
interrupted, and goes on with the next such process over the same journal, or with `teamwright serve`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.options import MaxTokens, MaxUsd
from teamwright.server.wing import WING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teamwright.server.credentials import Allowance

MANIFESTS = ("team.yaml", "team.yml")


def mcp(
    teams: Annotated[
        list[Path], typer.Argument(metavar="TEAM…", help="Folders with a team.yaml, or with such folders inside.")
    ],
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
) -> int:
    """Offer teams to an editor or desktop program, as tools of the Model Context Protocol over stdin and stdout.

    The client starts this command. Each call is a run, which outlives it: a run that is cut off goes on when the
    command is started again.

    Example:
      teamwright mcp teams/review --max-usd 1
    """
    import anyio

    from teamwright.errors import UsageError
    from teamwright.server.credentials import Allowance

    folders = tuple(one.parent if one.name in MANIFESTS else one for one in teams)
    for one in folders:
        if not one.is_dir():
            raise UsageError(f"There is no folder {str(one)!r}; name folders with a team.yaml.")
    anyio.run(serve_stdio, folders, Allowance(max_usd, max_tokens))
    return 0


async def serve_stdio(folders: Sequence[Path], allowance: Allowance) -> None:
    """Serve until the client closes stdin; runs that are not over then are interrupted, and can be resumed."""
    from anyio.to_thread import run_sync

    with WING.needed("The command `teamwright mcp`"):
        from teamwright.server.app import server_engine
        from teamwright.server.credentials import OWNER_NAME, Visitor, tokens_file
        from teamwright.server.mcp.door import needs_extra
        from teamwright.server.state import open_state
    with needs_extra("The command `teamwright mcp`"):
        from mcp.server.stdio import stdio_server

        from teamwright.server.mcp.team_server import TeamServer

    data = tokens_file().parent
    async with server_engine(None) as engine, open_state(engine, folders, data, over_stdio=True) as state:
        for one in await run_sync(state.catalogue.entries):
            if one.team is None:  # the client shows only the others
                typer.echo(f"{one.id!r} is no tool: {one.problem}", err=True)
        server = TeamServer(state, Visitor(OWNER_NAME, "admin", allowance)).protocol
        async with stdio_server() as (reading, writing):  # what teams print goes to stderr from here on
            await server.run(reading, writing, server.create_initialization_options())
