"""`teamwright runs show`: explains a run from its record, or shows what exactly one turn of it received."""

from __future__ import annotations

import json as to_json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import Full, Run
from teamwright.cli.terminal.output import Json, Out, check_out, clean, say, write_json, write_result
from teamwright.values.key import join_key, root_key

if TYPE_CHECKING:
    from pathlib import Path

    from teamwright.runtime.engine import Engine
    from teamwright.runtime.rebuilt_prompts import PromptMessage, PromptRequest, TurnPrompt
    from teamwright.values.turns.results import RunSummary


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
            return await show_prompt(engine, found.id, prompt, out, json=json)
        from teamwright.cli.views.explanation import explain, explanation_text
        from teamwright.cli.views.tool_calls import tool_texts

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
    from teamwright.runtime.rebuilt_prompts import rebuild_prompt

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
