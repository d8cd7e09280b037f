"""`teamwright runs show --prompt`: what exactly a turn received."""

from __future__ import annotations

import json as to_json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import clean, say, write_json, write_result
from teamwright.runtime.prompts import PromptMessage, PromptRequest, TurnPrompt, rebuild_prompt
from teamwright.values.key import join_key, root_key

if TYPE_CHECKING:
    from pathlib import Path

    from teamwright.runtime.engine import Engine


async def show_prompt(engine: Engine, run_id: str, key: str, out: Path | None, *, json: bool) -> int:
    """Print what the turn with a key received; the name of the run's team before the key may be left out."""
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
