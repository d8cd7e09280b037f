"""`teamwright runs say` and its siblings: interventions in a run that any process drives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_run
from teamwright.cli.terminal.options import MaxCalls, MaxSeconds, MaxTokens, MaxUsd, Run, run_limits
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result

if TYPE_CHECKING:
    from pathlib import Path

    from teamwright.runtime.engine import Engine
    from teamwright.runtime.followers.receipt import Receipt
    from teamwright.runtime.runs import Runs
    from teamwright.values.results import RunSummary

Expert = Annotated[str | None, typer.Option("--expert", metavar="NAME", help="Only this member of the team.")]
By = Annotated[str, typer.Option("--by", help="Who intervenes, which is recorded.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has taken effect.")]


def say_to_run(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; `-` reads it from stdin.")],
    to: Annotated[str, typer.Option("--to", metavar="EXPERT", help="Only to this member.")] = "",
    wait: Wait = False,
    by: By = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Tell the members of a run something; each reads it with its next turn."""
    message = _read_stdin() if text == "-" else text
    return steer(run, lambda runs, run_id: runs.say(run_id, message, to=to, by=by, wait=wait), out, json=json)


def raise_budget(
    run: Run,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    by: By = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Raise limits of a run and of its team, at once."""
    from teamwright.errors import UsageError

    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    if limits is None:
        raise UsageError("Say what to raise: --max-tokens N, --max-usd X, --max-calls N or --max-seconds S.")
    return steer(run, lambda runs, run_id: runs.raise_budget(run_id, limits, by=by), out, json=json)


def steer(run: str, send: Callable[[Runs, str], Awaitable[Receipt]], out: Path | None, *, json: bool) -> int:
    """Send an intervention to a run, and print how far it came."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        return report_receipt(await send(engine.runs, found.id), out, json=json)

    return with_run(run, work)


def report_receipt(receipt: Receipt, out: Path | None, *, json: bool) -> int:
    """Print how far an intervention came, and the next step for a run without a driver."""
    if json:
        write_json(receipt.to_json(), out)
    else:
        where = f" at {receipt.key}" if receipt.key else ""
        status = {"sent": "sent", "accepted": "accepted", "applied": f"in effect{where}"}[receipt.status]
        number = f" (event {receipt.number})" if receipt.number is not None else ""
        write_result(f"{receipt.intervention.replace('_', ' ')}: {status}{number}", out)
    if receipt.status == "sent":
        say(f"the run has no driver; it takes effect after: teamwright runs resume {receipt.run_id}")
    return 0


def _read_stdin() -> str:
    import sys

    return sys.stdin.read().strip()
