"""`teamwright runs say` and its siblings: interventions in a run that any process drives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_run
from teamwright.cli.run import STDIN, read_task
from teamwright.cli.terminal.options import MaxCalls, MaxSeconds, MaxTokens, MaxUsd, Run, run_limits
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result

if TYPE_CHECKING:
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
    read = read_task(text, what="message") or ""
    message = read.strip() if text == STDIN else read
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


def add_expert(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent to add, by its name in the manifest.")],
    source: Annotated[Path, typer.Option("--from", metavar="MANIFEST", help="The manifest that declares the agent.")],
    wait: Wait = False,
    by: By = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Add a member to the team of a run. Paths in its declaration are relative to the folder of the run's team."""
    from teamwright.errors import UnknownName
    from teamwright.teams.load import read_manifest

    agents = read_manifest([source]).manifest.agents
    if name not in agents:
        raise UnknownName("agent", name, agents)
    spec = agents[name]
    return steer(run, lambda runs, run_id: runs.add_member(run_id, name, spec, by=by, wait=wait), out, json=json)


def remove_expert(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The member to remove.")],
    wait: Wait = False,
    by: By = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Remove a member from the team of a run; what it has done is kept."""
    return steer(run, lambda runs, run_id: runs.remove_member(run_id, name, by=by, wait=wait), out, json=json)


def edit_plan(
    run: Run,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the new plan from a file, as YAML.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send the plan without asking.")] = False,
    wait: Wait = False,
    by: By = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Edit the plan of a run's team in $EDITOR, look at the difference, and send it. What is done stays done."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.plan_editor import edited_plan

        plan = await edited_plan(await engine.runs.history(found.id), file, ask=not (yes or json))
        if plan is None:
            say("nothing was sent")
            return 0
        return report_receipt(await engine.runs.edit_plan(found.id, plan, by=by, wait=wait), out, json=json)

    return with_run(run, work)


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
