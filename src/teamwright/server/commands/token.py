"""`teamwright serve token`: makes, lists and revokes what programs and browsers show to a server."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result, write_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.server.security.credentials import Sessions, Tokens

app = typer.Typer(
    help="Make, list and revoke the tokens with which programs use a server, and sessions of browsers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Who uses the token; audit lines and answers have it.")]


@app.command()
def new(
    name: Name,
    role: Annotated[
        str, typer.Option("--role", help="read, answer (and steer), run (start and end runs), or admin.")
    ] = "read",
    json: Json = False,
) -> int:
    """Make a token and print it. It is stored as a hash and can't be shown again."""
    made = _stores()[0].create(name, role)
    say(f"The token of {one_line(name)!r} ({role}); it is shown this once:")
    # Not by `write_result`, which would mask it.
    write_text((dumps({"name": name, "role": role, "token": made}, indent=2) if json else made) + "\n")
    return 0


@app.command("list")
def list_tokens(json: Json = False, out: Out = None) -> int:
    """List the names and roles of all tokens, and the sessions of browsers, which began with a token or an address."""
    from teamwright.values.results import iso

    check_out(out)
    tokens, sessions = _stores()
    found: list[dict[str, JsonValue]] = [{"name": one.name, "role": one.role} for one in tokens.all()]
    lines = [f"{one_line(one.name)}  {one.role}" for one in tokens.all()]
    for one in sessions.all():
        found.append({"name": one.name, "role": one.role, "session": one.id, "until": iso(one.until)})
        lines.append(f"{one_line(one.name)}  {one.role}  session {one.id} until {iso(one.until)}")
    if json:
        write_json(found, out)
    elif lines:
        write_result("\n".join(lines), out)
    else:
        say("There are no tokens yet; make one with  teamwright serve token new NAME --role run")
    return 0


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who uses the token, or the id of a session.")],
    json: Json = False,
) -> int:
    """Revoke a token with its sessions, or end sessions by name or id; at once, also for a server that runs."""
    from teamwright.errors import UnknownName

    tokens, sessions = _stores()
    had_token = any(one.name == name for one in tokens.all())
    ended = sessions.end_named(name)
    if not tokens.delete(name) and not ended:
        known = [*(one.name for one in tokens.all()), *(one.id for one in sessions.all())]
        raise UnknownName("token or session", name, known)
    if json:
        write_json({"name": name, "revoked": had_token, "sessions": ended})
    else:
        gone = [f"The token of {one_line(name)!r} is revoked."] if had_token else []
        say(" ".join([*gone, *([f"{ended} session{'s' * (ended > 1)} ended."] if ended else [])]))
    return 0


def _stores() -> tuple[Tokens, Sessions]:
    from teamwright.server.security.credentials import Sessions, Tokens, sessions_file, tokens_file

    tokens = Tokens(tokens_file())
    return tokens, Sessions(tokens, file=sessions_file())
