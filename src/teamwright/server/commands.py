"""`teamwright serve`: serves runs and the page, and says who may use the server.

Each command imports the server when it is called.
"""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

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
    from pydantic import JsonValue

    from teamwright.server.credentials import Allowance, Sessions, Tokens


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


@app.command(START, hidden=True)
def serve(
    folders: Folders = None,
    port: Annotated[
        str,
        typer.Option(
            "--port",
            metavar="[HOST:]PORT",
            help="Where to listen, on loopback unless a host is named; 0 takes a free port.",
        ),
    ] = "8420",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A further name under which the server may be called."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> int:
    """Serve runs and the page over HTTP, until Ctrl-C. The printed address works once, for one browser.

    Runs that are started here are driven here. After a restart, also after a crash, the server resumes the runs that it
    was driving. Programs need a token: see  teamwright serve tokens --help.

    Example:
      teamwright serve teams --port 8420
    """
    import anyio

    with WING.needed("The command `teamwright serve`"):
        from teamwright.server.app import ServerSettings, serve as listen
    from teamwright.cli.terminal.interrupts import raise_on_interrupt

    def started(address: str) -> None:
        if json:
            write_text(dumps({"url": address}) + "\n")
        else:
            write_result(f"Teamwright serves on {address}")
            say(f"{_how_to_open()} Ctrl-C stops the server, and runs can be resumed.")

    host, number = parse_address(port)
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
