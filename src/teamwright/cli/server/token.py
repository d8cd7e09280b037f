"""`teamwright serve token`: makes, lists and revokes the tokens with which programs use a server."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result, write_text

if TYPE_CHECKING:
    from teamwright.server.security.tokens import Tokens

app = typer.Typer(
    help="Make, list and revoke the tokens with which programs use a server.",
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
    made = _tokens().create(name, role)
    say(f"The token of {one_line(name)!r} ({role}); it is shown this once:")
    # Not by `write_result`, which would mask it.
    write_text((dumps({"name": name, "role": role, "token": made}, indent=2) if json else made) + "\n")
    return 0


@app.command("list")
def list_tokens(json: Json = False, out: Out = None) -> int:
    """List the names and roles of all tokens."""
    check_out(out)
    found = _tokens().all()
    if json:
        write_json([{"name": one.name, "role": one.role} for one in found], out)
    elif found:
        write_result("\n".join(f"{one_line(one.name)}  {one.role}" for one in found), out)
    else:
        say("There are no tokens yet; make one with  teamwright serve token new NAME --role run")
    return 0


@app.command()
def revoke(name: Name, json: Json = False) -> int:
    """Revoke a token at once, also for a server that runs."""
    from teamwright.errors import UnknownName

    tokens = _tokens()
    if not tokens.delete(name):
        raise UnknownName("token", name, [one.name for one in tokens.all()])
    if json:
        write_json({"name": name, "revoked": True})
    else:
        say(f"The token of {one_line(name)!r} is revoked.")
    return 0


def _tokens() -> Tokens:
    from teamwright.server.security.tokens import Tokens, tokens_file

    return Tokens(tokens_file())
