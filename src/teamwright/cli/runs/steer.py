"""`teamwright runs steer` and `runs cancel`: interventions in a run that any process drives, and its checkpoints."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import (
    STDIN,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Run,
    complete_members,
    read_task,
    run_limits,
)
from teamwright.cli.terminal.output import Json, Out, check_out, columns, say, write_json, write_result
from teamwright.errors import ManifestError, UnknownName, UsageError
from teamwright.values.text.display import NOTHING, number_text, price_text
from teamwright.wings import hooks

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.documents.nodes import Node, ProblemReport
    from teamwright.history.run_history import Checkpoint, RunHistory
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.people.interventions import Receipt
    from teamwright.runtime.recorded.runs import Runs
    from teamwright.values.limits import Limits
    from teamwright.values.turns.results import RunResult, RunSummary


def _complete_verbs(incomplete: str) -> list[str]:
    return [name for name in VERBS if name.startswith(incomplete)]


VerbName = Annotated[
    str,
    typer.Argument(
        metavar="VERB",
        help="say, budget, plan, restore, stop, add, remove, pause, resume or checkpoint.",
        autocompletion=_complete_verbs,
    ),
]
What = Annotated[
    str | None,
    typer.Argument(
        metavar="[WHAT]",
        help="The text to say, where `-` reads it from stdin; else a member, step, version or checkpoint.",
        autocompletion=complete_members,
    ),
]
Reason = Annotated[str, typer.Argument(metavar="[REASON]", help="stop: the reason, which is recorded.")]
ToMember = Annotated[
    str,
    typer.Option("--member", metavar="NAME", help="say: only to this member.", autocompletion=complete_members),
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="plan: read the new plan, or a change of it, from a file."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="plan: send it without asking.")]
FromManifest = Annotated[
    Path | None, typer.Option("--from", metavar="MANIFEST", help="add: the manifest that declares the agent.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has taken effect.")]
By = Annotated[str, typer.Option("--by", help="Who intervenes, which is recorded.")]
NAME = "plan.json"
"""The name of the file in which a person edits a plan."""
CHECKPOINT_HEADS = ("EVENT", "NAME", "AT", "TOKENS", "PRICE", "AFTER")
EDIT_FIELDS = ("steps", "version", "put", "remove", "variables")


def steer(
    run: Run,
    verb: VerbName,
    what: What = None,
    reason: Reason = "",
    *,
    member: ToMember = "",
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    file: PlanFile = None,
    yes: Yes = False,
    source: FromManifest = None,
    wait: Wait = False,
    by: By = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Steer a run while it works: its members, its plan, its budget.

    `say` tells the members something, which each reads with its next turn. `budget` raises limits of the run and of its
    team, at once. `plan` opens the plan in $EDITOR, shows the difference, and sends it; what is done stays done.
    `restore` makes the plan as it was in an earlier version. `stop` stops one step, and the others go on without its
    result. `add` adds a member, whose paths are relative to the
    folder of the run's team; `remove` removes one, and keeps what it has done. `pause` lets one member wait before its
    next turn, and `resume` lets it go on; `pause` alone pauses the run once its calls in flight have finished. A run
    without a driver takes all of it with `runs resume`. `checkpoint` lists the points at which `runs fork RUN --at`
    can begin, or names the current one.

    Examples:
      teamwright runs steer last say "Shorter, please." --member writer
      teamwright runs steer last budget --max-usd 2
      teamwright runs steer last plan
      teamwright runs steer last restore 2
      teamwright runs steer last stop research "It looks in the wrong place."
      teamwright runs steer last add painter --from team.yaml
      teamwright runs steer last pause writer
      teamwright runs steer last pause
      teamwright runs steer last checkpoint before-the-vote
    """
    check_out(out)
    if verb not in VERBS:
        raise UnknownName("verb", verb, VERBS)
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    given = Steering(what, member, limits, file, source, reason, ask=not (yes or json), wait=wait, by=by)
    given.check(verb, yes=yes)
    if verb == "pause" and what is None:
        return _intervene(run, lambda engine, run_id: engine.runs.pause(run_id, by=by), out, json=json)
    if verb == "checkpoint":
        return _checkpoint(run, what, by, out, json=json)

    async def work(engine: Engine, found: RunSummary) -> int:
        receipt = await VERBS[verb].send(engine.runs, found.id, given)
        if receipt is None:
            say("nothing was sent")
            return 0
        return _report_receipt(receipt, out, json=json)

    return with_run(run, work)


@dataclass(frozen=True, slots=True)
class Steering:
    """What the arguments of `runs steer` say besides the run and the verb."""

    what: str | None = None
    member: str = ""
    limits: Limits | None = None
    file: Path | None = None
    source: Path | None = None
    reason: str = ""
    ask: bool = True
    wait: bool = False
    by: str = ""

    def check(self, verb: str, *, yes: bool) -> None:
        """Raise `UsageError` for an argument that is missing, or that the verb has no use for."""
        wanted = VERBS[verb]
        if wanted.what and not wanted.what.startswith("[") and self.what is None:
            raise UsageError(f"Write what to {verb}: teamwright runs steer RUN {verb} {wanted.what}")
        if self.what is not None and not wanted.what:
            raise UsageError(f"`{verb}` takes no text and no name: leave out {self.what!r}.")
        given = {
            "--member": bool(self.member), "--max-…": self.limits is not None, "--file": self.file is not None,
            "--yes": yes, "--from": self.source is not None, "REASON": bool(self.reason), "--wait": self.wait,
        }  # fmt: skip
        for option in (option for option, is_given in given.items() if is_given and option not in wanted.options):
            others = " and ".join(f"`{name}`" for name, one in VERBS.items() if option in one.options)
            raise UsageError(f"{option} belongs to {others}, not to `{verb}`; leave it out.")
        option, message = wanted.required
        if option and not given[option]:
            raise UsageError(message)

    @property
    def name(self) -> str:
        """The member that a verb names; `check` has seen that there is one."""
        return self.what or ""


@dataclass(frozen=True, slots=True)
class Verb:
    """One way to steer: what it sends, what follows it, its options, and the required one with what is said without.

    What follows stands in brackets where it may be left out.
    """

    send: Callable[[Runs, str, Steering], Awaitable[Receipt | None]]
    what: str = ""
    options: tuple[str, ...] = ()
    required: tuple[str, str] = ("", "")


async def _say(runs: Runs, run_id: str, given: Steering) -> Receipt:
    read = read_task(given.what, what="message") or ""
    message = read.strip() if given.what == STDIN else read
    return await runs.say(run_id, message, to=given.member, by=given.by, wait=given.wait)


async def _raise_budget(runs: Runs, run_id: str, given: Steering) -> Receipt:
    assert given.limits is not None
    return await runs.raise_budget(run_id, given.limits, by=given.by)


async def _edit_plan(runs: Runs, run_id: str, given: Steering) -> Receipt | None:
    plan = await edited_plan(await runs.history(run_id), given.file, ask=given.ask)
    return None if plan is None else await runs.edit_plan(run_id, plan, by=given.by, wait=given.wait)


async def _restore_plan(runs: Runs, run_id: str, given: Steering) -> Receipt:
    if not given.name.isdecimal():
        raise UsageError(f"{given.name!r} is no version of a plan; `teamwright runs show RUN` numbers them from 1.")
    return await runs.restore_plan(run_id, int(given.name), by=given.by, wait=given.wait)


async def _stop_step(runs: Runs, run_id: str, given: Steering) -> Receipt:
    return await runs.stop_step(run_id, given.name, reason=given.reason, by=given.by, wait=given.wait)


async def _add(runs: Runs, run_id: str, given: Steering) -> Receipt:
    from teamwright.teams.team_loader import read_manifest

    assert given.source is not None
    agents = read_manifest([given.source]).manifest.agents
    if given.name not in agents:
        raise UnknownName("agent", given.name, agents)
    return await runs.add_member(run_id, given.name, agents[given.name], by=given.by, wait=given.wait)


async def _remove(runs: Runs, run_id: str, given: Steering) -> Receipt:
    return await runs.remove_member(run_id, given.name, by=given.by, wait=given.wait)


async def _pause_member(runs: Runs, run_id: str, given: Steering) -> Receipt:
    return await runs.pause_member(run_id, given.name, by=given.by)


async def _resume_member(runs: Runs, run_id: str, given: Steering) -> Receipt:
    return await runs.resume_member(run_id, given.name, by=given.by)


async def _no_receipt(*_: object) -> None:
    """A checkpoint is set or listed, and nothing is sent to the members."""


RAISE = "Say what to raise: --max-tokens N, --max-usd X, --max-calls N or --max-seconds S."
VERBS: Mapping[str, Verb] = {
    "say": Verb(_say, "TEXT", ("--member", "--wait")),
    "budget": Verb(_raise_budget, "", ("--max-…",), ("--max-…", RAISE)),
    "plan": Verb(_edit_plan, "", ("--file", "--yes", "--wait")),
    "restore": Verb(_restore_plan, "VERSION", ("--wait",)),
    "stop": Verb(_stop_step, "STEP", ("REASON", "--wait")),
    "add": Verb(_add, "NAME", ("--from", "--wait"), ("--from", "Name the manifest that declares it: --from MANIFEST.")),
    "remove": Verb(_remove, "NAME", ("--wait",)),
    "pause": Verb(_pause_member, "[NAME]"),
    "resume": Verb(_resume_member, "NAME"),
    "checkpoint": Verb(_no_receipt, "[NAME]"),
}


def _report_receipt(receipt: Receipt, out: Path | None, *, json: bool) -> int:
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
    reason: Annotated[str, typer.Argument(metavar="[REASON]", help="The reason, which is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Cancel a run for good, in whichever process it runs.

    Example:
      teamwright runs cancel last "The question has changed."
    """

    async def work(engine: Engine, run_id: str) -> RunResult:
        before = await engine.runs.find(run_id)
        now = await engine.runs.cancel(run_id, reason)
        if before is not None and before.status == "queued":
            for leave_queue in hooks("leave_queue"):
                await leave_queue()
        return now

    return _intervene(run, work, out, json=json)


def _checkpoint(run: str, name: str | None, by: str, out: Path | None, *, json: bool) -> int:
    """Set a checkpoint of this name at the current point, or list those of the run."""

    async def work(engine: Engine, found: RunSummary) -> int:
        if name is None:
            points = await engine.runs.checkpoints(found.id)
            if json:
                write_json([point.to_json() for point in points], out)
            else:
                write_result(columns([CHECKPOINT_HEADS, *map(_cells, points)]), out)
            return 0
        made = await engine.runs.checkpoint(found.id, name, by=by)
        if json:
            write_json(made.to_json(), out)
        else:
            write_result(f"checkpoint {made.name} (event {made.number})", out)
        say(f"fork there with: teamwright runs fork {found.id} --at {made.name}")
        return 0

    return with_run(run, work)


def _cells(point: Checkpoint) -> tuple[str, ...]:
    clock = datetime.fromisoformat(point.at).astimezone().strftime("%H:%M:%S")
    price = NOTHING if point.usd is None else price_text(point.usd)
    return (str(point.number), point.name, clock, number_text(point.total_tokens), price, point.after)


def _intervene(
    run: str, intervention: Callable[[Engine, str], Awaitable[RunResult]], out: Path | None, *, json: bool
) -> int:
    """Pause or cancel a run, and print its status afterwards."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.foreground_run import is_free
        from teamwright.cli.terminal.result_wording import summary

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
    from teamwright.strategies.plan.plan_change import plan_after, plan_text

    before = history.plan()
    if before is None and file is None:
        run_id = history.events[0].run_id
        raise UsageError(f"The run {run_id!r} records no plan to edit; write the change into a file: --file FILE.")
    shown = plan_text(before)
    plan = _read(file) if file is not None else await _edit(shown)
    after = plan_text(plan_after(before, plan))
    lines = list(difflib.unified_diff(shown.splitlines(), after.splitlines(), "plan", "edited", lineterm="", n=1))
    if not lines:
        return None
    say("\n".join(lines))
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


async def _is_confirmed() -> bool:
    """Ask the person whether the edited plan is sent; without a terminal, it is."""
    if not sys.stdin.isatty():
        return True
    from teamwright.cli.question_prompt import Keyboard

    sys.stderr.write("send this plan? [y/N] ")
    sys.stderr.flush()
    said = await Keyboard(sys.stdin.fileno()).read_line()
    return (said or "").lower() in {"y", "yes"}
