"""`teamwright serve`: serves runs and the page over HTTP until it is interrupted."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typing_extensions import override

from teamwright.cli.terminal.output import redirect_prints, say, write_result, write_text
from teamwright.server.commands import token, webhooks
from teamwright.server.wing import WING

START = "serve"
"""The hidden command that a plain `teamwright serve` means."""


class ServeGroup(TyperGroup):
    """Takes `serve FOLDER…` and `serve token …`: an argument that names no command is one of `start`."""

    @override
    def resolve_command(self, ctx: object, args: list[str]) -> Any:
        """Return the command that is meant, and its arguments; help shows the plain one without a second name."""
        if args[:1] == [START]:
            return "", self.commands[START], args[1:]
        return super().resolve_command(cast("Any", ctx), args)

    @override
    def parse_args(self, ctx: object, args: list[str]) -> list[str]:
        """Insert the name of the command that a plain `serve` means."""
        if not args or args[0] not in self.commands:
            args = [START, *args]
        return super().parse_args(cast("Any", ctx), args)


app = typer.Typer(
    cls=ServeGroup,
    rich_markup_mode=None,
    help="Serve runs and the page; `serve token` is who may use it, `serve webhooks` whom it told.",
)
app.add_typer(token.app, name="token")
app.command("webhooks")(webhooks.list_attempts)

Folders = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FOLDER]…", help="Folders with teams; only these can be started. By default the current folder."
    ),
]


@app.command(START, hidden=True)
def serve(
    folders: Folders = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8420,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further name under which the server may be called."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> int:
    """Serve runs and the page over HTTP, until Ctrl-C. The printed address works once, for one browser.

    Runs that are started here are driven here. After a restart, also after a crash, the server resumes the runs that it
    was driving. Programs need a token: see  teamwright serve token --help.
    """
    import anyio

    with WING.needed("The command `teamwright serve`"):
        from teamwright.server.listener import ServerSettings
        from teamwright.server.listener import serve as listen
    from teamwright.cli.terminal.interrupts import raise_on_interrupt

    def started(address: str) -> None:
        if json:
            write_text(dumps({"url": address}) + "\n")
        else:
            write_result(f"Teamwright serves on {address}")
            say("Open this address in a browser; it works once. Ctrl-C stops the server, and runs can be resumed.")

    settings = ServerSettings(tuple(folders or [Path()]), host, port, hosts=tuple(allow_host or ()))
    with redirect_prints(), raise_on_interrupt():
        anyio.run(listen, settings, started)
    return 0
