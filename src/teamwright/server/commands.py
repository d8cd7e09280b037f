"""`teamwright serve`: teams over HTTP with the page, or for one program over stdin and stdout; and who may use them.

Each command imports the server when it is called. Editors and desktop programs start a process for themselves, over
stdin and stdout. What it drives when its client closes it is interrupted, and goes on with the next such process over
the same journal, or with `teamwright serve`.
"""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.core import TyperGroup
from typing_extensions import override

from teamwright.cli.terminal.options import MaxTokens, MaxUsd, parse_address
from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    one_line,
    redirect_prints,
    say,
    write_file,
    write_json,
    write_result,
    write_text,
)
from teamwright.server.wing import WING
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from teamwright.server.credentials import Allowance, Sessions, Tokens


MANIFESTS = ("team.yaml", "team.yml")
START = "serve"
"""The hidden command that a plain `teamwright serve` means."""


class ServeGroup(TyperGroup):
    """Takes `serve FOLDER…` and `serve tokens …`: an argument that names no command is one of `start`."""

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
    help="Serve runs and the page; `serve tokens` is who may use it.",
)

Folders = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FOLDER]…", help="Folders with teams; only these can be started. By default the current folder."
    ),
]

Protocol = Annotated[
    Literal["http", "mcp", "acp"],
    typer.Option("--protocol", help="mcp or acp: for the one program that starts this, over stdin and stdout."),
]
Port = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="[HOST:]PORT",
        help="Where to listen (8420), on loopback unless a host is named; 0 takes a free port.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="A further name under which the server may be called."),
]


@app.command(START, hidden=True)
def serve(
    folders: Folders = None,
    protocol: Protocol = "http",
    port: Port = None,
    allow_host: AllowHost = None,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> int:
    """Serve runs and the page over HTTP, until Ctrl-C. The printed address works once, for one browser.

    Runs that are started here are driven here. After a restart, also after a crash, the server resumes the runs that it
    was driving. Programs need a token: see  teamwright serve tokens --help.

    With --protocol mcp, the teams are tools of the Model Context Protocol for an editor or desktop program, which
    starts this command; with --protocol acp, one team is an agent of the Agent Client Protocol in Zed, JetBrains and
    other editors. --max-usd and --max-tokens bound each run then; over HTTP, tokens have bounds.

    Examples:
      teamwright serve teams --port 8420
      teamwright serve teams/review --protocol mcp --max-usd 1
    """
    import anyio

    from teamwright.errors import UsageError

    if protocol != "http":
        if port is not None or allow_host or json:
            raise UsageError(f"--protocol {protocol} opens no port; leave out --port, --allow-host and --json.")
        return _serve_stdio(protocol, folders or [Path()], max_usd, max_tokens)
    if max_usd is not None or max_tokens is not None:
        raise UsageError(
            "Over HTTP a token bounds its runs:  teamwright serve tokens NAME --role run --max-usd X --max-tokens N"
        )
    with WING.needed("The command `teamwright serve`"):
        from teamwright.server.app import ServerSettings, serve as listen
    from teamwright.cli.terminal.interrupts import raise_on_interrupt

    def started(address: str) -> None:
        if json:
            write_text(dumps({"url": address}) + "\n")
        else:
            write_result(f"Teamwright serves on {address}")
            say(f"{_how_to_open()} Ctrl-C stops the server, and runs can be resumed.")

    host, number = parse_address(port or "8420")
    settings = ServerSettings(tuple(folders or [Path()]), host, number, hosts=tuple(allow_host or ()))
    with redirect_prints(), raise_on_interrupt():
        anyio.run(listen, settings, started)
    return 0


def _how_to_open() -> str:
    """How to open the page at the printed address, or that this installation has none."""
    from teamwright.server.credentials import CODE_SECONDS
    from teamwright.server.routes.page import has_page

    if not has_page():
        return (
            "This installation has no page, only the interface for programs; in a checkout, build it with  make page."
        )
    within = count_text(round(CODE_SECONDS / 60), "minute")
    return f"Open this address in a browser; it works once, within {within}. A restart prints a new one."


def _serve_stdio(protocol: str, teams: Sequence[Path], max_usd: float | None, max_tokens: int | None) -> int:
    """Serve one client until it closes stdin."""
    import anyio

    from teamwright.errors import UsageError
    from teamwright.server.credentials import Allowance

    folders = [one.parent if one.name in MANIFESTS else one for one in teams]
    allowance = Allowance(max_usd, max_tokens)
    if protocol == "mcp":
        for one in folders:
            if not one.is_dir():
                raise UsageError(f"There is no folder {str(one)!r}; name folders with a team.yaml.")
        anyio.run(_serve_tools, folders, allowance)
        return 0
    if len(folders) != 1:
        raise UsageError("An agent of an editor is one team; name one folder.")
    (folder,) = folders
    if not any((folder / one).is_file() for one in MANIFESTS):
        raise UsageError(f"There is no team.yaml in {str(folder)!r}; name the folder of a team.")
    anyio.run(_serve_agent, folder, allowance)
    return 0


async def _serve_tools(folders: Sequence[Path], allowance: Allowance) -> None:
    """Serve teams as tools of the Model Context Protocol; runs that are not over at the end can be resumed."""
    from anyio.to_thread import run_sync

    with WING.needed("The option `--protocol mcp`"):
        from teamwright.server.app import server_engine
        from teamwright.server.credentials import OWNER_NAME, Visitor, tokens_file
        from teamwright.server.mcp.routes import needs_extra
        from teamwright.server.state import open_state
    with needs_extra("The option `--protocol mcp`"):
        from teamwright.server.mcp.team_server import TeamServer

    data = tokens_file().parent
    async with server_engine(None) as engine, open_state(engine, folders, data, over_stdio=True) as state:
        for one in await run_sync(state.catalogue.entries):
            if one.team is None:  # the client shows only the others
                typer.echo(f"{one.id!r} is no tool: {one.problem}", err=True)
        await TeamServer(state, Visitor(OWNER_NAME, "admin", allowance)).serve_stdio()


async def _serve_agent(folder: Path, allowance: Allowance) -> None:
    """Serve a team as an agent in an editor; a run that is not over at the end can be resumed."""
    from anyio.to_thread import run_sync

    with WING.needed("The option `--protocol acp`"):
        from teamwright.server.app import server_engine
        from teamwright.server.chat.acp import EditorAgent
        from teamwright.server.chat.acp_peer import opened_peer
        from teamwright.server.credentials import OWNER_NAME, Visitor, tokens_file
        from teamwright.server.state import open_state

    data = tokens_file().parent
    async with server_engine(None) as engine, open_state(engine, [folder], data, over_stdio=True) as state:
        (id_,) = await run_sync(state.catalogue.ids)
        loaded = await run_sync(state.catalogue.load, id_)
        async with opened_peer() as peer:
            await peer.serve(EditorAgent(state, loaded, Visitor(OWNER_NAME, "admin", allowance), peer))


@app.command("tokens")
def tokens(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Who uses the token, or the id of a session; without it, all are shown."),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", help="Make a token: read, answer (and steer), run (start and end runs), or admin."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Revoke the token with its sessions, or end a session; at once.")
    ] = False,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="NAME", help="The tenant's budget that its runs draw on.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """List the tokens with which programs use a server, and sessions of browsers; or make or revoke one.

    A new token is printed. It is stored as a hash and can't be shown again. Audit lines and answers have its name.
    --max-usd and --max-tokens bound each run that it starts.

    Examples:
      teamwright serve tokens
      teamwright serve tokens ci --role run --max-usd 2
      teamwright serve tokens ci --remove
    """
    from teamwright.errors import UsageError
    from teamwright.server.credentials import UNBOUNDED, Allowance

    check_out(out)
    if (name is None) != (role is None and not remove) or (role is not None and remove):
        raise UsageError("Say what to do with which token: NAME --role ROLE makes it, and NAME --remove revokes it.")
    allowance = Allowance(max_usd, max_tokens, budget or "")
    if role is None and allowance != UNBOUNDED:
        raise UsageError("--max-usd, --max-tokens and --budget belong to a new token: NAME --role ROLE makes it.")
    if name is None:
        _list_tokens(out, json=json)
    elif role is not None:
        _make_token(name, role, allowance, out, json=json)
    else:
        _revoke(name, out, json=json)
    return 0


def _make_token(name: str, role: str, allowance: Allowance, out: Path | None, *, json: bool) -> None:
    made = _stores()[0].create(name, role, allowance)
    text = (dumps({"name": name, "role": role, "token": made}, indent=2) if json else made) + "\n"
    if out is not None:
        write_file(text, out, private=True)
        return
    say(f"The token of {one_line(name)!r} ({role}); it is shown this once:")
    write_text(text)  # not by `write_result`, which would mask it


def _list_tokens(out: Path | None, *, json: bool) -> None:
    from teamwright.values.turns.results import iso

    tokens, sessions = _stores()
    found: list[dict[str, JsonValue]] = [
        {"name": one.name, "role": one.role, **_allowed(one.allowance)} for one in tokens.all()
    ]
    lines = [f"{one_line(one.name)}  {one.role}{_allowed_text(one.allowance)}" for one in tokens.all()]
    for one in sessions.all():
        found.append({"name": one.name, "role": one.role, "session": one.id, "until": iso(one.until)})
        lines.append(f"{one_line(one.name)}  {one.role}  session {one.id} until {iso(one.until)}")
    if json:
        write_json(found, out)
    elif lines:
        write_result("\n".join(lines), out)
    else:
        say("There are no tokens yet; make one with  teamwright serve tokens NAME --role run")


def _allowed(allowance: Allowance) -> dict[str, JsonValue]:
    """What bounds the runs of a token, for programs; nothing where nothing does."""
    given: dict[str, JsonValue] = {"usd": allowance.usd, "tokens": allowance.tokens, "budget": allowance.budget or None}
    return {name: value for name, value in given.items() if value is not None}


def _allowed_text(allowance: Allowance) -> str:
    parts = [f"{amount:g} {unit}" for unit, amount in allowance.ceiling.items()]
    return (f"  at most {' and '.join(parts)} a run" if parts else "") + (
        f"  on the budget {one_line(allowance.budget)!r}" if allowance.budget else ""
    )


def _revoke(name: str, out: Path | None, *, json: bool) -> None:
    """Revoke a token with its sessions, or end sessions by name or id; also for a server that runs."""
    from teamwright.errors import UnknownName

    tokens, sessions = _stores()
    had_token = any(one.name == name for one in tokens.all())
    ended = sessions.end_named(name)
    if not tokens.delete(name) and not ended:
        known = [*(one.name for one in tokens.all()), *(one.id for one in sessions.all())]
        raise UnknownName("token or session", name, known)
    if json:
        write_json({"name": name, "revoked": had_token, "sessions": ended}, out)
    else:
        gone = [f"The token of {one_line(name)!r} is revoked."] if had_token else []
        say(" ".join([*gone, *([f"{ended} session{'s' * (ended > 1)} ended."] if ended else [])]))


def _stores() -> tuple[Tokens, Sessions]:
    from teamwright.server.credentials import Sessions, Tokens, sessions_file, tokens_file

    tokens = Tokens(tokens_file())
    return tokens, Sessions(tokens, file=sessions_file())
