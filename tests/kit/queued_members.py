"""Members of queued runs. Each effect adds a line to a ledger file before it answers, so that tests can count effects.

A worker's environment names the folder of the ledger. While it holds a file `hold`, effects wait.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import AgentError, RateLimited, ServiceError
from teamwright.values.people import Question
from teamwright.values.retries import DEFAULT_RETRY
from teamwright.values.turns.artifacts import POINTER
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage

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


async def send_and_wonder(turn: Turn, ctx: Context) -> str:
    """Make a call, which sends something else while the folder has a file `changed`, and ask a person."""
    sent = "other" if (Path(os.environ[FOLDER]) / "changed").exists() else "request"
    await ctx.effect("call", Effect("model", "ledger", sent, _add_line))
    return await wonder(turn, ctx)


async def fail(turn: Turn, ctx: Context) -> str:
    """Fail."""
    raise AgentError(f"can't do {turn.task}")


async def keep(turn: Turn, ctx: Context) -> str:
    """Keep a text, share its pointer under the name of the task, and answer with the pointer."""
    pointer = (await ctx.workspace.keep(f"the text of {turn.task}")).pointer
    await ctx.workspace.put(turn.task, pointer)
    return pointer


async def open_named(turn: Turn, ctx: Context) -> str:
    """Answer with the text behind a pointer that is shared under the name of the task."""
    held = ctx.workspace.get(turn.task)
    return "nothing" if held is None else str(await ctx.workspace.open(str(held.value)))


async def open_all(turn: Turn, ctx: Context) -> str:
    """Answer with the texts behind all pointers in the conversation."""
    pointers = [word for one in turn.history for word in one.content.split() if word.startswith(POINTER)]
    return ", ".join([str(await ctx.workspace.open(pointer)) for pointer in pointers])


async def say_owned(turn: Turn, ctx: Context) -> str:
    """Answer what may be written."""
    return ", ".join(path for path in ("docs/a", "src/a") if ctx.owned.may_write(path))


async def call_overloaded(turn: Turn, ctx: Context) -> str:
    """Make a call that a provider refuses; its team may say how often."""
    return str((await ctx.effect("call", Effect("model", "ledger", "request", _refuse, retry=DEFAULT_RETRY))).value)


async def call_later(turn: Turn, ctx: Context) -> str:
    """Make a call whose provider takes none for the first two seconds, and says so."""
    return str((await ctx.effect("call", Effect("model", "ledger", "request", _take_later))).value)


async def _take_later(attempt: Attempt) -> Returned:
    _note(attempt)
    if attempt.number == 1:
        raise RateLimited("come back later", retry_after=2.0)
    return Returned("taken")


async def _refuse(attempt: Attempt) -> Returned:
    _note(attempt)
    raise ServiceError("overloaded")


async def _add_line(attempt: Attempt) -> Returned:
    line = _note(attempt)
    while (Path(os.environ[FOLDER]) / "hold").exists():  # noqa: ASYNC110 - another process removes the file
        await asyncio.sleep(0.02)
    return Returned(line, Usage(requests=1, input_tokens=10, output_tokens=5))


async def ask_person(turn: Turn, ctx: Context) -> str:
    """Answer what a person says."""
    answer = await ctx.ask_person(Question(text=f"What about {turn.task}?"), key="question")
    return f"{turn.task}: {answer.text}"


def _note(attempt: Attempt) -> str:
    line = f"{attempt.idempotency_key} {os.getpid()}"
    with (Path(os.environ[FOLDER]) / "ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")
    return line
