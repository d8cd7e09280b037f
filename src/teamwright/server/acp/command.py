"""`teamwright acp`: a team as an agent in an editor that speaks the Agent Client Protocol, over stdin and stdout.

The editor starts such a process for itself. What it drives when the editor closes it is interrupted, and goes on with
the next such process over the same journal, or with `teamwright serve`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.options import MaxTokens, MaxUsd
from teamwright.server.mcp.command import MANIFESTS
from teamwright.server.wing import WING

if TYPE_CHECKING:
    from teamwright.server.credentials import Allowance


def acp(
    team: Annotated[Path, typer.Argument(metavar="TEAM", help="A folder with a team.yaml.")],
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
) -> int:
    """Offer a team as an agent in Zed, JetBrains and other editors, over the Agent Client Protocol.

    The editor starts this command. Each prompt is a run of the team, whose plan, tool calls and questions appear in the
    editor.

    Example:
      teamwright acp teams/review --max-usd 1
    """
    import anyio

    from teamwright.errors import UsageError
    from teamwright.server.credentials import Allowance

    folder = team.parent if team.name in MANIFESTS else team
    if not any((folder / one).is_file() for one in MANIFESTS):
        raise UsageError(f"There is no team.yaml in {str(folder)!r}; name the folder of a team.")
    anyio.run(serve_editor, folder, Allowance(max_usd, max_tokens))
    return 0


async def serve_editor(folder: Path, allowance: Allowance) -> None:
    """Serve until the editor closes stdin; a run that is not over then is interrupted, and can be resumed."""
    from anyio.to_thread import run_sync

    with WING.needed("The command `teamwright acp`"):
        from teamwright.server.acp.agent import EditorAgent
        from teamwright.server.acp.peer import opened_peer
        from teamwright.server.app import server_engine
        from teamwright.server.credentials import OWNER_NAME, Visitor, tokens_file
        from teamwright.server.state import open_state

    data = tokens_file().parent
    async with server_engine(None) as engine, open_state(engine, [folder], data, over_stdio=True) as state:
        (id_,) = await run_sync(state.catalogue.ids)
        loaded = await run_sync(state.catalogue.load, id_)
        async with opened_peer() as peer:
            await peer.serve(EditorAgent(state, loaded, Visitor(OWNER_NAME, "admin", allowance), peer))
