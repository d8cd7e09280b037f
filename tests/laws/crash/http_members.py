"""Members of the crash matrix: each effect is one request to the `/call` endpoint of the counting server."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import StaleWrite
from teamwright.values.retries import RetryPolicy, recorded_error
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Usage

FAILED = "!"
"""The prefix of an answer that is a failure; the kind of error follows."""
ONCE_MORE = RetryPolicy(times=1, backoff=0.02)


def http_member(url: str, name: str, calls: int = 1, to: str | None = None, **more: Any) -> FunctionAgent:
    """Make a member whose effects are requests to the counting server; it hands its turn to the member `to`, if any."""

    async def respond(turn: Turn, ctx: Context) -> Reply:
        text = turn.prompt
        for number in range(1, calls + 1):
            text = await _effect(url, name, text, ctx, f"call-{number}")
        return Reply.of(name, text, transfer_to=to)

    return FunctionAgent(name, respond, handoffs=(to,) if to else (), **more)


def workspace_member(url: str, name: str, board: str) -> FunctionAgent:
    """Make a member that reads a shared value, calls the server, and writes unless another write came first."""

    async def respond(turn: Turn, ctx: Context) -> str:
        held = ctx.workspace.get(board)
        text = await _effect(url, name, turn.prompt, ctx, "call-1")
        try:
            version = await ctx.workspace.put(board, text, version=held.version if held else 0)
        except StaleWrite as stale:
            return await _effect(url, name, f"{stale.by} has written version {stale.version}", ctx, "call-2")
        return f"{text} is version {version}"

    return FunctionAgent(name, respond)


def talking_member(url: str, name: str, *requests: dict[str, JsonValue]) -> FunctionAgent:
    """Make a member of a live team that asks something of the others in each of its turns, until it has asked all."""

    async def respond(turn: Turn, ctx: Context) -> str:
        text = await _effect(url, name, turn.prompt, ctx, "call-1")
        asked = sum(one.startswith(f"requests/{name}/") for one in ctx.workspace.names())
        if asked < len(requests):
            said = {"to": "", **requests[asked]}
            if said["type"] == "message":
                await ctx.message(str(said["text"]), key="say")
            else:
                await ctx.ask_member(
                    str(said["to"]), str(said["text"]), key="say", hand_over=said["type"] == "hand_over"
                )
        return text

    return FunctionAgent(name, respond)


async def _effect(url: str, name: str, text: str, ctx: Context, place: str) -> str:
    effect = Effect("model", "server", digest(text), partial(_call, url, name, text), retry=ONCE_MORE)
    return str((await ctx.effect(place, effect)).value)


async def _call(url: str, name: str, prompt: str, attempt: Attempt) -> Returned:
    text = await post(url, name, prompt, attempt.idempotency_key)
    if text.startswith(FAILED):
        raise recorded_error(text.removeprefix(FAILED), f"{name} has failed")
    usage = Usage(requests=1, input_tokens=len(prompt) // 4, output_tokens=len(text) // 4)
    return Returned(text, usage)


async def post(url: str, name: str, prompt: str, key: str) -> str:
    """Send one request to `/call` over a new connection."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        body = json.dumps({"name": name, "prompt": prompt}).encode()
        head = f"POST /call HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["text"])


def http_members(url: str, names: str) -> list[Agent]:
    return [http_member(url, name) for name in names.split()]
