"""`teamwright runs pause`, `cancel`, `say` and their siblings: interventions in a run that any process drives."""

from __future__ import annotations

import difflib
import json as to_json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import STDIN, MaxCalls, MaxSeconds, MaxTokens, MaxUsd, Run, read_task, run_limits
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.errors import ManifestError, UsageError
from teamwright.wings import hooks

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.documents.nodes import Node, ProblemReport
    from teamwright.history.history import RunHistory
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.people.receipts import Receipt
    from teamwright.runtime.recorded_runs import Runs
    from teamwright.values.turns.results import RunResult, RunSummary


Member = Annotated[str | None, typer.Option("--member", metavar="NAME", help="Only this member of the team.")]
By = Annotated[str, typer.Option("--by", help="Who intervenes, which is recorded.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has taken effect.")]
NAME = "plan.json"
"""The name of the file in which a person edits a plan."""
EDIT_FIELDS = ("steps", "version", "put", "remove", "variables")


def say_to_run(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; `-` reads it from stdin.")],
    to: Annotated[str, typer.Option("--member", metavar="NAME", help="Only to this member.")] = "",
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


def add_member(
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
    from teamwright.teams.team_loader import read_manifest

    agents = read_manifest([source]).manifest.agents
    if name not in agents:
        raise UnknownName("agent", name, agents)
    spec = agents[name]
    return steer(run, lambda runs, run_id: runs.add_member(run_id, name, spec, by=by, wait=wait), out, json=json)


def remove_member(
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
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the new plan, or a change of it, from a file."),
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


def cancel(
    run: Run,
    reason: Annotated[str, typer.Option("--reason", help="The reason, which is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Cancel a run for good, in whichever process it runs."""

    async def work(engine: Engine, run_id: str) -> RunResult:
        before = await engine.runs.find(run_id)
        now = await engine.runs.cancel(run_id, reason)
        if before is not None and before.status == "queued":
            for leave_queue in hooks("leave_queue"):
                await leave_queue()
        return now

    return _intervene(run, work, out, json=json)


def pause(run: Run, member: Member = None, by: By = "", json: Json = False, out: Out = None) -> int:
    """Pause a running run after its calls in flight have finished; `runs resume` continues it.

    With --member, only this member waits, before its next turn.
    """
    if member is not None:
        return steer(run, lambda runs, run_id: runs.pause_member(run_id, member, by=by), out, json=json)
    return _intervene(run, lambda engine, run_id: engine.runs.pause(run_id), out, json=json)


def _intervene(
    run: str, intervention: Callable[[Engine, str], Awaitable[RunResult]], out: Path | None, *, json: bool
) -> int:
    """Pause or cancel a run, and print its status afterwards."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.foreground_run import is_free
        from teamwright.cli.views.result_wording import summary

        now = await intervention(engine, found.id)
        if json:
            write_json(now.to_json(), out)
        else:
            write_result(summary(now, free=await is_free(engine, now)), out)
        return 0

    return with_run(run, work)


async def edited_plan(history: RunHistory, file: Path | None, *, ask: bool) -> JsonValue:
    """Return the plan as a person has edited it, or as a file has it; `None` if they changed nothing or said no.

    The difference goes to stderr.
    """
    from teamwright.strategies.plan.changes.difference import plan_after

    before = history.plan()
    if before is None and file is None:
        run_id = history.events[0].run_id
        raise UsageError(f"The run {run_id!r} records no plan to edit; write the change into a file: --file FILE.")
    shown = _text(before)
    plan = _read(file) if file is not None else await _edit(shown)
    after = _text(plan_after(before, plan))
    lines = list(difflib.unified_diff(shown.splitlines(), after.splitlines(), "plan", "edited", lineterm="", n=1))
    if not lines:
        return None
    sys.stderr.write("\n".join(lines) + "\n")
    return plan if not ask or await _is_confirmed() else None


async def _edit(text: str) -> JsonValue:
    """Open the plan in the editor of the person, and read what they saved."""
    from teamwright.cli.question_prompt import edit_text, editor_command
    from teamwright.documents.nodes import Place, ProblemReport
    from teamwright.documents.reader import parse_documents

    editor = editor_command()
    if editor is None:
        raise UsageError("Set EDITOR to the editor in which you want to edit the plan, or pass a file: --file FILE.")
    report = ProblemReport()
    documents = parse_documents(await edit_text(editor, f"{text}\n", NAME), Place(NAME), report)
    return _plan(documents, report)


def _read(file: Path) -> JsonValue:
    """Read a plan from a file, as YAML or JSON."""
    from teamwright.documents.nodes import ProblemReport
    from teamwright.documents.reader import mapping_form, read_file

    report, form = (
        ProblemReport(),
        mapping_form(EDIT_FIELDS, "This is not a plan: a plan has steps, and a change of it  put  or  remove"),
    )
    return _plan(read_file(file, report, form=form), report)


def _plan(documents: list[Node], report: ProblemReport) -> JsonValue:
    from teamwright.documents.nodes import plain

    if report.problems:
        raise ManifestError(report.problems)
    if not documents:
        raise UsageError("The plan is empty; nothing is changed.")
    return plain(documents[0])


def _text(plan: JsonValue) -> str:
    return to_json.dumps(plan, indent=2, ensure_ascii=False)


async def _is_confirmed() -> bool:
    """Ask the person whether the edited plan is sent; without a terminal, it is."""
    if not sys.stdin.isatty():
        return True
    from teamwright.cli.question_prompt import Keyboard

    sys.stderr.write("send this plan? [y/N] ")
    sys.stderr.flush()
    said = await Keyboard(sys.stdin.fileno()).read_line()
    return (said or "").lower() in {"y", "yes"}
