"""The conformance suite passes what is right and says, for each thing that is wrong, what it is and what to do."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import anyio
import pytest

from teamwright.agents.protocol import Context, Effect, Returned
from teamwright.strategies.protocol import Members, Settings, Strategy, Talk, Task
from teamwright.strategies.round_robin import RoundRobin
from teamwright.strategies.sequential import Sequential
from teamwright.testing.strategy import StrategyConformance, check_strategy
from teamwright.values.messages import Message
from teamwright.values.results import Outcome
from teamwright.values.turns import Failure, Reply, Turn
from tests.strategies.example.debate import Debate


class TestSequential(StrategyConformance):
    def make(self) -> Strategy:
        return Sequential()


class TestSequentialAsAPipeline(StrategyConformance):
    settings = Settings(share="output")

    def make(self) -> Strategy:
        return Sequential()


class TestRoundRobin(StrategyConformance):
    def make(self) -> Strategy:
        return RoundRobin()


class TestRoundRobinAsAPipeline(StrategyConformance):
    settings = Settings(max_turns=1, share="output")

    def make(self) -> Strategy:
        return RoundRobin()


class TestDebate(StrategyConformance):
    def make(self) -> Strategy:
        return Debate()


class Plain:
    """What the broken ones have in common: each member once."""

    name = "plain"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = Talk(task)
        for number, member in enumerate(members, start=1):
            reply = await self.ask(number, member, talk, ctx)
            if isinstance(reply, Failure):
                return talk.failed(reply)
            talk.add(reply)
            if reply.signal == "terminate":
                break
        return talk.ended("done")

    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        return await ctx.ask(member, talk.turn(number), key=f"step-{number}")  # pyright: ignore[reportArgumentType]


class Random(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        shuffled = sorted(members, key=lambda member: random.random())
        return await super().run(task, shuffled, ctx)


NUMBERS = count(1)


class CountsForEver(Plain):
    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        return await super().ask(next(NUMBERS), member, talk, ctx)


class TalksAboutFailures(Plain):
    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        reply = await super().ask(number, member, talk, ctx)
        return Reply.of("plain", reply.message) if isinstance(reply, Failure) else reply


class ChangesHistory(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        outcome = await super().run(task, members, ctx)
        task.history._messages.append(Message(name="x", content="y"))
        task.history._stop += 1
        return outcome


class ReturnsEverything(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        outcome = await super().run(task, members, ctx)
        return outcome.model_copy(update={"messages": (*task.history, *outcome.messages)})


class HidesTheTask(Plain):
    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        return await ctx.ask(member, Turn("Just go on."), key=f"step-{number}")  # pyright: ignore[reportArgumentType]


class OneKeyForAll(Plain):
    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        return await super().ask(1, member, talk, ctx)


class GoesOnAfterTheEnd(Plain):
    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        reply = await super().ask(number, member, talk, ctx)
        return reply if isinstance(reply, Failure) else reply.model_copy(update={"signal": None})


class SpeaksForOthers(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        outcome = await super().run(task, members, ctx)
        said = tuple(message.model_copy(update={"name": "plain"}) for message in outcome.messages)
        return outcome.model_copy(update={"messages": said})


class TouchesTheWorld(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        async def call(_: object) -> Returned:
            return Returned("x")

        await ctx.effect("call", Effect("function", "x", "x", call))
        return await super().run(task, members, ctx)


class SwallowsCancellation(Plain):
    async def ask(self, number: int, member: object, talk: Talk, ctx: Context) -> Reply | Failure:
        try:
            return await super().ask(number, member, talk, ctx)
        except anyio.get_cancelled_exc_class():
            return Reply.of("plain", "never mind")


class Crashes(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        raise KeyError("oops")


class WithoutANumber(Plain):
    version = "1.0"  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Random, r"uses 'random' of 'random': use ctx\.clock\.random\(\) instead"),
        (CountsForEver, r"replay: Cut after event .* does something else: the record says .* the strategy now"),
        (TalksAboutFailures, r"failures: .* was told the words of another member's failure"),
        (ChangesHistory, r"telling: The strategy changed the history"),
        (ReturnsEverything, r"telling: A run returns only what is new"),
        (HidesTheTask, r"telling: The task must stand last"),
        (OneKeyForAll, r"uses a key twice"),
        (GoesOnAfterTheEnd, r"terminate: A member terminated, and .* was asked after that"),
        (SpeaksForOthers, r"names: What 'member-1' said stands under the name 'plain'"),
        (TouchesTheWorld, r"touches the world itself"),
        (SwallowsCancellation, r"cancellation: "),
        (Crashes, r"The strategy runs, and crashes: KeyError: 'oops'"),
        (WithoutANumber, r"declaration: `version` must be an int"),
    ],
)
def test_each_mistake_is_told_in_words(broken: Callable[[], Strategy], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_strategy(broken)


def test_chance_is_found_by_the_replay_alone() -> None:
    """Where the source can't be read, the replay still finds it."""
    hidden = type("Hidden", (Random,), {"__module__": "nowhere"})
    with pytest.raises(AssertionError, match=r"replay: Cut after event"):
        check_strategy(hidden, members=6)


def test_what_is_right_passes_in_one_call() -> None:
    check_strategy(Plain)
    check_strategy(Debate, Settings(max_turns=1), members=4)
