"""The conformance suite of agents: ours pass it, and each kind of broken agent is caught with the right words."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Generator
from typing import cast

import pytest

from teamwright import Agent, Context, FunctionAgent, Limits, ModelAgent, Policy, Reply, Rule, ScriptedAgent, Team, Turn
from teamwright.agents import Effect, Returned, ServerModel
from teamwright.errors import AgentError
from teamwright.testing import AgentConformance, ModelServer, Say, check_agent
from teamwright.values.specs.manifest import AgentSpec
from tests.agents.sample_functions import shout


class TestFunctionAgent(AgentConformance):
    def make(self) -> Agent:
        return FunctionAgent("f", shout, limits=Limits(calls=9), capabilities=("shouting",))


class TestFunctionWithContext(AgentConformance):
    def make(self) -> Agent:
        async def work(turn: Turn, ctx: Context) -> str:
            first = await ctx.ask(FunctionAgent("inner", shout), turn, key="first")
            return first.text if isinstance(first, Reply) else "alone"

        return FunctionAgent("f", work)


class TestScriptedAgent(AgentConformance):
    def make(self) -> Agent:
        return ScriptedAgent("s", [Rule(reply="Scripted.")], tools=[shout], optional=True)


class TestModelAgent(AgentConformance):
    @pytest.fixture(autouse=True)
    def _server(self) -> Generator[None]:
        with ModelServer(lambda request: Say(text="From a model.")) as server:
            self.url = server.url
            yield

    def make(self) -> Agent:
        model = ServerModel(url=self.url, name="m", api_key="none")
        return ModelAgent("m", model=model, instructions="Be brief.", max_tokens=100)


class TestTeam(AgentConformance):
    def make(self) -> Agent:
        return Team("inner", members=[FunctionAgent("a", shout), FunctionAgent("b", shout)], limits=Limits(calls=9))


async def answer(attempt: object) -> Returned:
    return Returned("said")


class Sound(Agent):
    """An agent that does nothing wrong; each broken one below changes one thing."""

    name, kind = "sound", "own"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        returned = await ctx.effect("call", Effect("function", self.name, "request", answer))
        return Reply.of(self.name, str(returned.value))


def test_a_sound_agent_passes() -> None:
    check_agent(Sound)


class Nameless(Sound):
    name = "two words"


class Kindless(Sound):
    kind = ""


class Unbound(Sound):
    limits = Limits(calls=3)


class Textual(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return cast("Reply", "just text")


class Borrowed(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return Reply.of("somebody", "text")


class Crashing(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        raise KeyError("x")


class Undatable(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return Reply.of(self.name, "text").changed(data=cast("str", object()))


class Confusing(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        try:
            return await super().respond(turn, ctx)
        except AgentError as error:
            raise RuntimeError("what now?") from error


class Telling(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        try:
            return await super().respond(turn, ctx)
        except AgentError as error:
            return Reply.of(self.name, f"Sorry: {error}")


class Deaf(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        try:
            return await super().respond(turn, ctx)
        except asyncio.CancelledError:
            return Reply.of(self.name, "I go on.")


class Messy(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        self.task = asyncio.create_task(asyncio.sleep(3), name="left-over")
        return await super().respond(turn, ctx)


class Random(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        await super().respond(turn, ctx)
        return Reply.of(self.name, f"{random.random()}")


class Keyless(Sound):
    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        await ctx.effect(f"call-{random.random()}", Effect("function", self.name, "request", answer))
        return Reply.of(self.name, "said")


class Greedy(Sound):
    policy = Policy(limits=Limits(calls=1))

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        self.policy = Policy()
        return await super().respond(turn, ctx)


class Undeclared(Sound):
    @property
    def spec(self) -> AgentSpec:
        return cast("AgentSpec", {"model": "x"})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Nameless, r"declaration: The name can't be used in a team"),
        (Kindless, r"declaration: `kind` must say"),
        (Unbound, r"declaration: The agent 'sound' has an attribute 'limits', which has no effect"),
        (Textual, r"reply: `respond` must return a Reply, not 'just text'"),
        (Borrowed, r"reply: A reply must carry the agent's own name, 'sound', not somebody"),
        (Crashing, r"reply: `respond` raised KeyError\('x'\)"),
        (Undatable, r"data: The reply holds .*: `data` must be JSON"),
        (Confusing, r"failure: When a call fails, `respond` raises RuntimeError"),
        (Telling, r"failure: When a call fails, the agent returns the text of the error as its answer"),
        (Deaf, r"cancellation: Cancelled during a call, the agent answers or fails in another way"),
        (Messy, r"tasks: The agent has answered, and these tasks still run: left-over"),
        (Random, r"replay: Cut after event \d+ .* the agent answers"),
        (Keyless, r"replay: Cut after event \d+ .* the agent"),
        (Greedy, r"policy: A turn changes the policy"),
        (Undeclared, r"spec: `spec` must be a declaration"),
    ],
)
def test_a_broken_agent_is_caught(make: Callable[[], Agent], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_agent(make)
