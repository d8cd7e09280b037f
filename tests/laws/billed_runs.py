"""A provider that bills what a real tokenizer counts, a team that talks to it, and a child process that runs the team.

The provider counts with OpenAI's tokenizer, in OpenAI's chat format, whatever the prompts are made of.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from teamwright.agents.agent import Agent, Context
from teamwright.agents.model.agent import ModelAgent
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import Members, Task
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.results import FINAL, Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn
from tests.kit.prompt_corpus import draw_text
from tests.kit.strategies import FunctionStrategy
from tests.kit.wire_formats import WireCall, WireError, WireReply
from tests.kit.wire_server import WireRequest, WireServer

RUN_ID = "r"


@cache
def encoding() -> Any:
    return pytest.importorskip("bpe_openai").get_encoding("o200k_base")


@lru_cache(maxsize=4096)
def count(text: str) -> int:
    """The tokens of a text; each prompt repeats the texts of the one before."""
    return len(encoding().encode_ordinary(text))


class CountingProvider:
    """Answers with text of some kind, a tool call or an error, and counts what it would bill."""

    def __init__(self, kind: str, seed: int, *, latency: float = 0.0) -> None:
        self._kind, self._random, self._lock, self._latency = kind, Random(seed), threading.Lock(), latency
        self.billed = self.calls = 0

    def answer(self, request: WireRequest) -> WireReply | WireError:
        """Bill a request, and answer it after the latency; by then the client may have died."""
        answer = self._bill(request)
        time.sleep(self._latency)
        return answer

    def _bill(self, request: WireRequest) -> WireReply | WireError:
        with self._lock:
            self.calls += 1
            if self._random.random() < 0.05:
                return WireError(500)
            cap, read = request.max_tokens, prompt_tokens(request.body)
            assert cap is not None, "a limit on tokens applies"
            text = draw_text(self._kind, self._random, 20)
            written = count(json.dumps({"text": text}, indent=4)) + 8
            if request.tools and written <= cap and self._random.random() < 0.3:
                self.billed += read + written
                return WireReply(calls=(WireCall("note", {"text": text}),), input_tokens=read, output_tokens=written)
            tokens = encoding().encode_ordinary(draw_text(self._kind, self._random, self._random.randrange(1, 3000)))
            text = encoding().decode(tokens[:cap])
            stop = "length" if len(tokens) > cap else "stop"
            self.billed += read + len(tokens[:cap])
            return WireReply(text=text or ".", stop=stop, input_tokens=read, output_tokens=max(1, len(tokens[:cap])))


def prompt_tokens(body: dict[str, Any]) -> int:
    """The tokens of a chat request: four around each message, three for the answer, and all texts and tools."""
    total = 3 + (count(json.dumps(body["tools"])) if body.get("tools") else 0)
    for message in body["messages"]:
        total += 4 + sum(map(count, contents(message)))
        total += sum(3 + count(str(one["function"])) for one in message.get("tool_calls") or ())
    return total


def contents(message: dict[str, Any]) -> Iterator[str]:
    content = message.get("content") or ""
    yield from (content,) if isinstance(content, str) else (part["text"] for part in content)


def note(text: str, urgent: bool = False) -> str:
    """Write a note down.

    Args:
        text: what to write
        urgent: whether it is urgent
    """
    return f"noted: {text}"


def team_of(url: str, kind: str, seed: int, limits: Limits) -> Team:
    """Members that speak concurrently for some rounds, each reading everything that was said before."""
    random = Random(seed)
    model = ServerModel(url=f"{url}/v1", name="gpt-5-mini")
    members = [
        ModelAgent(
            f"m{number}",
            model=model,
            instructions=draw_text(kind, random, 400),
            tools=[note] if random.random() < 0.5 else [],
            max_tokens=random.choice((None, None, 300)),
            retry=RetryPolicy(times=2, backoff=0),
        )
        for number in range(random.randrange(1, 7))
    ]
    rounds, width, text = random.randrange(1, 4), random.randrange(1, 7), draw_text(kind, random, 1500)

    async def ask(member: Agent, turn: Turn, ctx: Context) -> Reply | Failure:
        return await ctx.ask(member, turn, key="k")

    async def run(task: Task, members: Members, ctx: Context) -> Outcome:
        said: list[Message] = []
        for number in range(rounds):
            turn = Turn(text, history=History.of(said))
            async with ctx.branches(width) as branches:
                for member in members:
                    branches.start(f"{member.name}-{number}", partial(ask, member, turn))
                found = [branch.result() async for branch in branches.finished()]
            said += [message for reply in found if isinstance(reply, Reply) for message in reply.messages]
        return Outcome(messages=tuple(said))

    return Team("t", members=members, strategy=FunctionStrategy(run), limits=limits)


def warm_up(**_: Any) -> None:
    """Run a team once before the fork, so that children repeat no imports."""
    _run_once()


@cache
def _run_once() -> None:
    with WireServer(CountingProvider("english", 1).answer) as server, TemporaryDirectory() as folder:
        drive(server.url, "english", 1, 5000, f"{folder}/journal.db")


def drive(url: str, kind: str, seed: int, limit: int, journal: str, seconds: float | None = None) -> str:
    """Start or resume the run in the journal, and return its stop reason; killed by SIGKILL after so many seconds."""
    return asyncio.run(_drive(team_of(url, kind, seed, Limits(tokens=limit)), journal, seconds))


async def _drive(team: Team, journal: str, seconds: float | None) -> str:
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, os.kill, os.getpid(), signal.SIGKILL)
    async with Engine(journal) as engine:
        if await engine.journal.find(RUN_ID) is None:
            result = await engine.run(team, "Talk.", run_id=RUN_ID)
        elif (result := await engine.runs.result(RUN_ID)).status not in FINAL:
            result = await engine.resume(RUN_ID, team=team)
    assert result.stop_reason in ("done", "budget"), result.failure
    return result.stop_reason
