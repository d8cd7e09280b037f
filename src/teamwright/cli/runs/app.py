"""`teamwright runs`: inspects, resumes, forks, cancels and deletes runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_engine, with_journal, with_run
from teamwright.cli.runs.conversations import conversation, conversations, undo
from teamwright.cli.runs.inspect import checkpoint, checkpoints, diff, logs
from teamwright.cli.runs.kpi import kpi
from teamwright.cli.runs.run_list import list_runs
from teamwright.cli.runs.steer import By, Expert, add_expert, edit_plan, raise_budget, remove_expert, say_to_run, steer
from teamwright.cli.terminal.options import (
    AllowRoot,
    Events,
    Full,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    MovedTo,
    NoInput,
    Quiet,
    Run,
    run_limits,
)
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.wings import hooks, required_hook

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.results import RunResult, RunSummary

app = typer.Typer(
    help="Inspect, resume, fork and cancel runs.\n\nRUN is a run's id, a unique prefix of it, or `last`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("list")(list_runs)


@app.command()
def show(
    run: Run,
    full: Full = False,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="KEY", help="Only what the turn with this key received.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Explain a run from its record.

    Shows the task, every reply with its time and cost, tool calls, its child runs, why the run ended, and what can be
    done next. With --prompt, shows exactly what one turn received: every message, tool and setting of its requests.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        if prompt is not None:
            from teamwright.cli.runs.prompt import show_prompt

            return await show_prompt(engine, found.id, prompt, out, json=json)
        from teamwright.cli.text.explain import explain, explanation_text
        from teamwright.cli.text.tool_calls import tool_texts

        history, answers = await engine.runs.history(found.id), await engine.runs.answers(found.id)
        tools = await tool_texts(engine.journal, history.events, full=full)
        children = (await engine.journal.children([found.id]))[::-1]
        explanation = explain(history, await engine.runs.result(found.id), answers, tools, children)
        if json:
            write_json(explanation.to_json(), out)
        else:
            write_result(explanation_text(explanation, full=full), out)
        return 0

    return with_run(run, work)


@app.command()
def tail(
    run: Run,
    after: Annotated[int, typer.Option("--after", min=0, metavar="N", help="Start after event N.")] = 0,
    events: Events = False,
    full: Full = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Follow a run until it stops.

    Another process may drive it. Each line starts with its event number, from which --after can continue.
    """
    from teamwright.cli.interactive.drive import ViewOptions

    shown = ViewOptions(json=json, events=events, out=out, full=full)
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.tail import follow

        await follow(engine, found.id, after, shown)
        return 0

    return with_run(run, work)


app.command()(conversations)
app.command()(conversation)
app.command()(undo)
app.command()(logs)
app.command()(diff)
app.command()(checkpoints)
app.command()(kpi)


@app.command()
def resume(
    run: Run,
    *,
    expert: Expert = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    allow_root: AllowRoot = None,
    code: MovedTo = None,
    team: Annotated[
        Path | None,
        typer.Option("--team", metavar="FILE", help="Resume with the team of this manifest in place of the recorded."),
    ] = None,
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Put a submitted run back into its queue; workers drive it, not this process."),
    ] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Resume an interrupted or paused run; with --expert, let this paused member take its turn.

    Recorded calls are not made or paid again. Code that the run's manifest names is loaded, as when it was started, and
    folders that were allowed then still are. --code is recorded: the next resume finds the folder by itself.
    """
    from teamwright.cli.interactive.drive import ViewOptions
    from teamwright.errors import UsageError

    shown = ViewOptions(json, events, quiet, out, no_input, full)
    check_out(out)
    if submit and (code or team):
        raise UsageError("--submit gives the run to workers, which have its code; leave out --code and --team.")
    if submit and expert is not None:
        raise UsageError("--submit gives the whole run to workers, and --expert resumes one member; use one of them.")

    async def work(engine: Engine, found: RunSummary) -> int:
        if submit:
            resubmit_run = required_hook("resubmit_run", "--submit")
            return await resubmit_run(engine, found.id, quiet=quiet, json=json, out=out)
        from teamwright.cli.interactive.drive import drive, report_end
        from teamwright.cli.interactive.sys_path import extend_sys_path
        from teamwright.cli.runs.fork import team_to_resume
        from teamwright.cli.runs.steer import report_receipt

        if expert is not None:
            receipt = await engine.runs.resume_member(found.id, expert)
            if receipt.status != "sent":
                return report_receipt(receipt, out, json=json)
        history = await engine.runs.history(found.id)
        extend_sys_path()
        past = list(history.events)
        made = await team_to_resume(engine, found.id, allow_root, code, team)
        handle = await engine.start_resume(found.id, team=made)
        return await report_end(engine, await drive(engine, handle, shown, past), shown)

    return with_run(run, work)


@app.command()
def fork(
    run: Run,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="Fork at a checkpoint, by its name or number, or at an event number.",
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Fork just before the failure.")] = False,
    task: Annotated[str | None, typer.Option("--task", help="Use another task.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Use this model for new calls.")] = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Id of the new run.")] = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    allow_root: AllowRoot = None,
    code: MovedTo = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Start a new run from the record of another one.

    Calls that are unchanged are not paid again. Code that the run's manifest names is loaded, as when it was started;
    folders that were allowed then still are.
    """
    from teamwright.cli.interactive.drive import ViewOptions
    from teamwright.cli.interactive.find_run import check_new_id
    from teamwright.cli.runs.fork import Fork
    from teamwright.errors import UsageError

    shown = ViewOptions(json, events, quiet, out, no_input, full)
    check_out(out)
    check_new_id(run_id)
    if at is not None and retry:
        raise UsageError("--at and --retry both say where to fork; use one of them.")
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    wanted = Fork(run, at, retry, task, run_id, model, limits, tuple(allow_root or ()), code)
    return with_engine(lambda engine: wanted.run(engine, shown))


app.command()(checkpoint)


@app.command()
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


@app.command()
def pause(run: Run, expert: Expert = None, by: By = "", json: Json = False, out: Out = None) -> int:
    """Pause a running run after its calls in flight have finished; `runs resume` continues it.

    With --expert, only this member waits, before its next turn.
    """
    if expert is not None:
        return steer(run, lambda runs, run_id: runs.pause_member(run_id, expert, by=by), out, json=json)
    return _intervene(run, lambda engine, run_id: engine.runs.pause(run_id), out, json=json)


app.command("say")(say_to_run)
app.command("raise-budget")(raise_budget)
app.command("edit-plan")(edit_plan)
app.command("add-expert")(add_expert)
app.command("remove-expert")(remove_expert)


@app.command()
def answer(
    run: Run,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The answer.")] = None,
    *,
    key: Annotated[str | None, typer.Option("--key", help="Which question, if several are open.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the draft as it is.")] = False,
    reject: Annotated[
        str | None, typer.Option("--reject", metavar="REASON", help="Reject the draft, with a reason.")
    ] = None,
    edit: Annotated[str | None, typer.Option("--edit", metavar="TEXT", help="Approve this text instead.")] = None,
    edit_file: Annotated[
        str | None, typer.Option("--edit-file", metavar="FILE", help="Like --edit, from a file; `-` is stdin.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Who answers, which is recorded.")] = "",
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="With `revise`: what the author is to change.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Answer a question of a run, or list its open questions.

    A running run receives the answer at once, a paused one when it is resumed.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.answer import AnswerOptions, OpenQuestions

        given = AnswerOptions(text, approve, reject, edit, edit_file, by, max_tokens, max_usd, note).to_answer()
        questions = await OpenQuestions.load(engine, found.id)
        if given is None:
            if json:
                write_json(questions.to_json(), out)
            else:
                write_result(questions.to_text(), out)
            return 0
        chosen = questions.choose(key)
        await engine.runs.answer(found.id, chosen, given)
        if json:
            write_json({"run_id": found.id, "key": chosen, "answer": given.text, "data": given.data}, out)
        else:
            write_result(f"answered {chosen}", out)
        if found.status != "running":
            say(questions.worker_hint or f"resume with: teamwright runs resume {found.id}")
        return 0

    return with_run(run, work)


@app.command()
def export(
    run: Run,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page that shows the run without a server.")
    ] = None,
    prompts: Annotated[
        bool, typer.Option("--prompts/--no-prompts", help="With --html: include the prompts of all turns.")
    ] = True,
    json: Json = False,  # noqa: ARG001 - an export is JSON unless it is a page
    out: Out = None,
) -> int:
    """Export a run as one JSON document, or as one HTML file.

    The document holds the result, the manifest, the events, and the bodies that events refer to. The HTML file shows
    the conversation, the plan, the money and the prompts, with everything masked that looks like a secret.
    """
    check_out(out)
    check_out(html, "--html")

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.export import export_page, export_run

        if html is not None:
            return await export_page(engine, found.id, html, prompts=prompts)
        write_json(await export_run(engine, found.id), out, private=True)
        return 0

    return with_run(run, work)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command()
def delete(run: Run, yes: Yes = False, json: Json = False, out: Out = None) -> int:
    """Delete one run for good: its record, its texts and files, its inbox, and its child runs.

    A run that is driven or queued is refused; cancel it first. Texts that other runs refer to stay.
    """
    from teamwright.cli.interactive.find_run import find_run
    from teamwright.cli.runs.prune import delete_run

    check_out(out)

    async def work(journal: Journal) -> int:
        deleted = await delete_run(journal, await find_run(journal, run), yes=yes)
        if json:
            write_json(deleted.to_json(), out)
        else:
            write_result(deleted.to_text(), out)
        return 0

    return with_journal(work)


@app.command()
def prune(
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Only runs started longer ago: 90s, 30m, 12h, 7d, 4w."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only this status, also interrupted or paused; may be repeated."),
    ] = None,
    keep: Annotated[int, typer.Option("--keep", min=0, metavar="N", help="Keep the newest N of them.")] = 0,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Delete runs that have ended, and free their disk space."""
    from teamwright.cli.runs.prune import Prune
    from teamwright.cli.terminal.duration import seconds_of

    check_out(out)
    wanted = Prune(
        seconds_of(older_than) if older_than is not None else None, tuple(status or ()), keep, yes=yes, dry_run=dry_run
    )

    async def work(journal: Journal) -> int:
        pruned = await wanted.run(journal)
        if json:
            write_json(pruned.to_json(), out)
        else:
            write_result(pruned.to_text(), out)
        return 0

    return with_journal(work)


def _intervene(
    run: str, intervention: Callable[[Engine, str], Awaitable[RunResult]], out: Path | None, *, json: bool
) -> int:
    """Pause or cancel a run, and print its status afterwards."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.interactive.drive import is_free, summary

        now = await intervention(engine, found.id)
        if json:
            write_json(now.to_json(), out)
        else:
            write_result(summary(now, free=await is_free(engine, now)), out)
        return 0

    return with_run(run, work)
