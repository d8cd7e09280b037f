"""`teamwright runs show`: explains a run, follows it, or shows what exactly one turn of it received."""

from __future__ import annotations

import json as to_json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import Events, Full, Run
from teamwright.cli.terminal.output import Json, Out, check_out, clean, say, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.run_keys import join_key, root_key

if TYPE_CHECKING:
    from pathlib import Path

    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.cli.terminal.line_views import View
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.recorded.rebuilt_prompts import PromptMessage, PromptRequest, TurnPrompt
    from teamwright.values.turns.results import RunSummary


def show(
    run: Run,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only what the turn with this key received.")
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show each event until the run stops.")] = False,
    after: Annotated[int, typer.Option("--after", min=0, metavar="N", help="With --follow: begin after event N.")] = 0,
    events: Events = False,
    full: Full = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Explain a run from its record, or follow it while it runs.

    Shows the task, every reply with its time and cost, tool calls, its child runs, why the run ended, and what can be
    done next. With KEY, shows exactly what one turn received: every message, tool and setting of its requests. With
    --follow, shows the run as it goes on, whichever process drives it; each line begins with the number of its event,
    from which --after continues.

    Examples:
      teamwright runs show last
      teamwright runs show last round-1/writer
      teamwright runs show last --follow
    """
    from teamwright.cli.foreground_run import ViewOptions

    check_out(out)
    if key is not None and follow:
        raise UsageError("KEY shows what one turn received, and --follow the whole run; use one of them.")
    if (after or events) and not follow:
        raise UsageError("--after and --events are for a run that is followed; add --follow.")

    async def work(engine: Engine, found: RunSummary) -> int:
        if follow:
            await follow_run(engine, found.id, after, ViewOptions(json=json, events=events, out=out, full=full))
            return 0
        if key is not None:
            return await show_prompt(engine, found.id, key, out, json=json)
        from teamwright.cli.terminal.explanation import explain, explanation_text
        from teamwright.cli.terminal.tool_calls import tool_texts

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


async def show_prompt(engine: Engine, run_id: str, key: str, out: Path | None, *, json: bool) -> int:
    """Print what the turn with a key received; the name of the run's team before the key may be left out."""
    from teamwright.runtime.recorded.rebuilt_prompts import rebuild_prompt

    first = (await engine.runs.history(run_id)).started.team
    prompt = await rebuild_prompt(engine, run_id, key if root_key(key) == first else join_key(first, key))
    if prompt.problem:
        say(prompt.problem)
    if json:
        write_json(prompt.to_json(), out)
    else:
        write_result("\n".join(_lines(prompt)), out)
    return 0


def _lines(prompt: TurnPrompt) -> Iterator[str]:
    yield f"{prompt.member} ({prompt.member_kind}, {prompt.purpose}) at {prompt.key}"
    if not prompt.requests:
        for message in prompt.history:
            yield from _message(message)
        yield from ("", "== task", clean(prompt.task))
    for number, request in enumerate(prompt.requests, start=1):
        exact = "exactly as it was sent" if request.is_exact else "NOT as it was sent: the team has changed since"
        yield from ("", f"== request {number} to {request.model}, {exact}")
        yield from _request(request)


def _request(request: PromptRequest) -> Iterator[str]:
    if request.instructions:
        yield from ("", "-- instructions", clean(request.instructions))
    for message in request.messages:
        yield from _message(message)
    if request.tools:
        yield from ("", "-- tools offered")
        yield from (f"{one.name}: {clean(one.description)}  {_text(one.parameters)}" for one in request.tools)
    if request.settings:
        yield from ("", "-- settings", _text(request.settings))


def _message(message: PromptMessage) -> Iterator[str]:
    yield from ("", f"-- {' '.join(filter(None, (message.role, message.name, message.tool)))}", _text(message.content))


def _text(value: object) -> str:
    return clean(value if isinstance(value, str) else to_json.dumps(value, ensure_ascii=False))


async def follow_run(engine: Engine, run_id: str, after: int, shown: ViewOptions) -> None:
    """Show the events after a number as they arrive, then the run's status."""
    from teamwright.cli.terminal.line_views import EventLines, PlainLines, Silent
    from teamwright.cli.terminal.result_wording import status_text, why_text

    lines: list[str] = []
    write = write_result if shown.out is None else lines.append
    view: View = PlainLines(engine.journal, write, numbered=True, full=shown.full)
    if shown.events or shown.json:
        view = EventLines(engine.journal, full=shown.full) if shown.events else Silent()
    known = await engine.journal.read(run_id, 0, after) if after else []
    if after and len(known) < after:
        last = known[-1].number if known else 0
        raise UsageError(f"Run {run_id!r} has events 1 to {last}; --after {after} is past the last one.")
    for event in known:
        view.catch_up(event)
    if known or shown.json:  # otherwise the first lines say so
        found = await engine.runs.find(run_id)
        if found is not None and found.status == "queued":
            say(f"run {run_id} waits in its queue for a worker")
    async for item in engine.runs.follow(run_id, after, parts=True):
        await view.show(item)
    ended = await engine.runs.result(run_id)
    if shown.json:
        write_json(ended.to_json(), shown.out)
    elif not shown.events:
        lines.append(f"{status_text(ended)}: {why_text(ended.status, ended.stop_reason, ended.resume_at)}")
        write_result("\n".join(lines), shown.out)
