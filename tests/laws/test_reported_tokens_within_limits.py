"""Law 3 with real token counts: what a provider reports for all calls of a run never exceeds the limit of the run.

The server counts with OpenAI's tokenizer, in OpenAI's chat format, whatever the prompts are made of. A reservation is
close to that, or small budgets would refuse what they can pay for. `HYPOTHESIS_PROFILE=thorough` makes 10 000 calls.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cache, partial
from random import Random
from typing import Any

import anyio
import pytest

from teamwright.agents.contract.context import AgentLike, Context
from teamwright.agents.model.agent import ModelAgent
from teamwright.journal.memory import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import Members, Task
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentCalled, AgentReturned
from teamwright.values.events.budget import BudgetExceeded, BudgetMisreported
from teamwright.values.events.event import Event
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.retry import RetryPolicy
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import ServerModel
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn
from tests.kit.prompt_corpus import KINDS, draw_text
from tests.kit.strategies import FunctionStrategy
from tests.kit.wire_formats import WireCall, WireError, WireReply
from tests.kit.wire_server import WireRequest, WireServer

CALLS = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 150
CLOSE = 1.3
"""The most that prompts in English and code reserve, over what they cost."""


@cache
def encoding() -> Any:
    return pytest.importorskip("bpe_openai").get_encoding("o200k_base")


def count(text: str) -> int:
    return len(encoding().encode_ordinary(text))


class CountingProvider:
    """Answers with text of some kind, a tool call or an error, and counts what it would bill."""

    def __init__(self, kind: str, seed: int) -> None:
        self._kind, self._random, self._lock = kind, Random(seed), threading.Lock()
        self.billed = self.calls = 0

    def answer(self, request: WireRequest) -> WireReply | WireError:
        with self._lock:
            self.calls += 1
            if self._random.random() < 0.05:
                return WireError(500)
            cap, read = request.max_tokens, prompt_tokens(request.body)
            assert cap is not None, "a limit on tokens applies"
            if request.tools and cap > 60 and self._random.random() < 0.3:
                text = draw_text(self._kind, self._random, 20)
                written = count(json.dumps({"text": text}, indent=4)) + 8
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
            retry=RetryPolicy(attempts=2, backoff=0),
        )
        for number in range(random.randrange(1, 7))
    ]
    rounds, width, text = random.randrange(1, 4), random.randrange(1, 7), draw_text(kind, random, 1500)

    async def ask(member: AgentLike, turn: Turn, ctx: Context) -> Reply | Failure:
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


async def run_with_interruptions(team: Team, stops: Sequence[float] = ()) -> list[Event]:
    """Run a team; leave the engine after so many seconds, in the middle of calls, and resume, until it ends."""
    journal = MemoryJournal()
    for index, seconds in enumerate([*stops, 50.0]):
        async with Engine(journal) as engine:
            start = engine.start_resume("r", team=team) if index else engine.start(team, "Talk.", run_id="r")
            handle = await start
            with anyio.move_on_after(seconds):
                await handle.result()
            handle.interrupt()
            result = await handle.result()
        if result.status != "interrupted":
            assert result.stop_reason in ("done", "budget"), result.failure
            return await journal.read("r")
    raise AssertionError("the run does not end")


async def test_what_a_provider_reports_never_exceeds_the_limit() -> None:  # Z-10
    made = 0
    for seed in range(1_000_000):
        random = Random(seed)
        kind, limit = random.choice(KINDS), random.randrange(1500, 40_000)
        provider = CountingProvider(kind, seed)
        stops = [random.uniform(0.01, 0.2) for _ in range(random.randrange(3))]
        with WireServer(provider.answer) as server:
            team = team_of(server.url, kind, seed, Limits(tokens=limit))
            events = await run_with_interruptions(team, stops)
        assert provider.billed <= limit, f"seed {seed}"
        assert not [event for event in events if isinstance(event.fact, BudgetExceeded | BudgetMisreported)]
        made += provider.calls
        if made >= CALLS:
            break


@pytest.mark.parametrize("kind", ["english", "code"])
async def test_prompts_in_english_and_code_reserve_little_more_than_they_cost(kind: str) -> None:  # Z-10
    provider = CountingProvider(kind, 3)
    with WireServer(provider.answer) as server:
        events = await run_with_interruptions(team_of(server.url, kind, 3, Limits(tokens=200_000)))
    called = {(event.key, event.fact.attempt): event.fact for event in events if isinstance(event.fact, AgentCalled)}
    reserved = used = 0
    for event in events:
        if isinstance(event.fact, AgentReturned) and event.fact.usage.requests:
            before = called[event.key, event.fact.attempt]
            reserved += before.reserved - (before.max_output or 0)
            used += event.fact.usage.input_tokens
    assert 0 < used <= reserved <= CLOSE * used


async def test_work_that_fits_a_budget_a_third_above_its_need_is_done() -> None:  # Z-10
    """The need is what the same run spends without a limit that matters."""
    ample, tight = CountingProvider("english", 5), CountingProvider("english", 5)
    with WireServer(ample.answer) as server:
        await run_with_interruptions(team_of(server.url, "english", 8, Limits(tokens=1_000_000)))
    with WireServer(tight.answer) as server:
        limits = Limits(tokens=int(1.3 * ample.billed) + 1024)
        events = await run_with_interruptions(team_of(server.url, "english", 8, limits))
    assert tight.calls == ample.calls > 0
    assert not [event for event in events if event.kind == "budget.refused"]
