"""Members of the soak's teams. The processes under test load them, so they import little; each call is counted.

The environment holds the address of the counting server and the key of the run.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage

Respond = Callable[[Turn, Context], Awaitable[str]]


def _member(name: str, calls: int = 1) -> Respond:
    """A member whose every effect is one call of the counting server."""

    async def respond(turn: Turn, ctx: Context) -> str:
        text = turn.prompt
        for number in range(1, calls + 1):
            effect = Effect("model", "server", digest(text), partial(_call, name, text))
            text = str((await ctx.effect(f"call-{number}", effect)).value)
        return text

    return respond


async def _call(name: str, prompt: str, attempt: Attempt) -> Returned:
    text = await post(name, prompt, attempt.idempotency_key)
    return Returned(text, Usage(requests=1, input_tokens=10, output_tokens=5))


async def post(name: str, prompt: str, key: str) -> str:
    """Send one request to the counting server over a new connection."""
    address = urlsplit(os.environ["SOAK_URL"])
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        body = json.dumps({"name": name, "prompt": prompt}).encode()
        head = f"POST /call HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {os.environ['SOAK_KEY']}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["text"])


async def look_up(word: str, *, idempotency_key: str) -> str:
    """Look a word up."""
    return await post(f"tool-{word}", word, idempotency_key)


def blocking(task: str) -> str:
    """A synchronous member that nothing can interrupt, for the time of one request."""
    body = json.dumps({"name": "blocking", "prompt": task}).encode()
    headers = {"Authorization": f"Bearer {os.environ['SOAK_KEY']}"}
    with urlopen(Request(os.environ["SOAK_URL"], body, headers), timeout=30) as answer:
        return str(json.loads(answer.read())["text"])


async def swallowing(turn: Turn, ctx: Context) -> str:
    """A member that ignores a cancellation for a while."""
    try:
        return await _member("swallowing")(turn, ctx)
    except asyncio.CancelledError:
        await asyncio.sleep(1)
        raise


async def uncancelling(turn: Turn, ctx: Context) -> str:
    """A member that hides from its task that it was cancelled, as some libraries' task groups do."""
    try:
        return await _member("uncancelling")(turn, ctx)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        raise


a, b, c, d, z = (_member(name) for name in "abcdz")
lead, chair, boss = (_member(name) for name in ("lead", "chair", "boss"))
twice = _member("twice", 2)
