"""Members of queued runs. Each effect adds a line to a ledger file before it answers, so that tests can count effects.

A worker's environment names the folder of the ledger. While it holds a file `hold`, effects wait.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from teamwright.agents.contract.context import Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.values.limits.usage import Usage
from teamwright.values.people.questions import Question
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn

FOLDER = "TEAMWRIGHT_TEST_LEDGER"
EFFECTS = 2
TOKENS = 15


async def work(turn: Turn, ctx: Context) -> str:
    """Answer after two effects."""
    for number in range(1, EFFECTS + 1):
        effect = Effect("model", "ledger", digest(turn.prompt), _add_line)
        await ctx.effect(f"call-{number}", effect)
    return f"{turn.task} is done"


async def wonder(turn: Turn, ctx: Context) -> str:
    """Ask a person, and answer with the answer."""
    return (await ctx.ask_person(Question(text="May I?"), key="may-i")).text


async def _add_line(attempt: Attempt) -> Returned:
    folder = Path(os.environ[FOLDER])
    line = f"{attempt.idempotency_key} {os.getpid()}"
    with (folder / "ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")
    while (folder / "hold").exists():  # noqa: ASYNC110 - another process removes the file
        await asyncio.sleep(0.02)
    return Returned(line, Usage(requests=1, input_tokens=10, output_tokens=5))


async def ask_person(turn: Turn, ctx: Context) -> str:
    """Answer what a person says."""
    answer = await ctx.ask_person(Question(text=f"What about {turn.task}?"), key="question")
    return f"{turn.task}: {answer.text}"
