"""Members whose answers cost a known number of tokens."""

from __future__ import annotations

import json

from teamwright import Context, Reply, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import Refused
from teamwright.values.usage_and_prices import Usage


def write(turn: Turn) -> Reply:
    """Write for 80 tokens."""
    return _paid("writer", "A B-tree keeps its keys sorted.", 60, 20)


def criticise(turn: Turn) -> Reply:
    """Judge for 100 tokens, or fail where that is asked for."""
    if "fail" in turn.task:
        raise Refused("it would rather not")
    return _paid("critic", "Right.", 90, 10)


def lead(turn: Turn) -> Reply:
    """Delegate once, and answer then, for 10 tokens each."""
    decision = {"action": "delegate", "delegations": [{"specialist": "writer", "task": "Write."}]}
    if turn.number > 1:
        decision = {"action": "synthesize", "synthesis": "Sorted."}
    return _paid("lead", json.dumps(decision), 8, 2)


async def unmetered(turn: Turn, ctx: Context) -> str:
    """Answer with a model whose server reports no usage."""

    async def call(attempt: Attempt) -> Returned:
        return Returned("Sorted.", Usage(requests=1))

    return str((await ctx.effect("request", Effect("model", "silent", "r", call))).value)


def _paid(name: str, text: str, told: int, said: int) -> Reply:
    return Reply.of(name, text, usage=Usage(requests=1, input_tokens=told, output_tokens=said))
