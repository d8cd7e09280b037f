"""`teamwright serve webhooks`: lists the attempts of a server to call its webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result

if TYPE_CHECKING:
    from teamwright.server.webhook_notices import WebhookLine


def list_attempts(
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many attempts to list.")] = 20,
    json: Json = False,
    out: Out = None,
) -> int:
    """List the attempts to tell a webhook of ended runs and budget warnings, newest first.

    Attempts to tell one of a pause are in the record of the run: see  teamwright runs show.
    """
    from teamwright.journal.location import companion_folder
    from teamwright.server.webhook_notices import LOG_FILE, WebhookLog

    check_out(out)
    found = WebhookLog(companion_folder() / LOG_FILE).attempts(limit)
    if json:
        write_json([one.model_dump() for one in found], out)
    elif found:
        write_result("\n".join(map(_line, found)), out)
    else:
        say("No webhook was called yet; TEAMWRIGHT_WEBHOOK names one.")
    return 0


def _line(one: WebhookLine) -> str:
    outcome = "delivered" if one.error is None else one_line(one.error)
    later = "" if one.retry_in is None else f"; again in {one.retry_in:g} s"
    return f"{one.time}  {one_line(one.run_id)}  {one.kind}  attempt {one.attempt}: {outcome}{later}"
