"""Teams of every kind, with members whose costs are known: what budgets are measured with.

A simulated member has a token for four characters of its prompt, and a reply whose length its name and turn determine.
A served one asks the models of a provider. What a rung cuts back changes the cost: a shorter history is a shorter
prompt, and the economy model has a fifth of the price. Output has eight times the price of input, as is usual.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise

from pydantic import JsonValue

from bench.budget_provider import ECONOMY, INPUT, OUTPUT
from teamwright import Context, Limits, Reply, Team, Turn
from teamwright.agents.agent import Agent, Policy
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.strategies.protocol import Strategy
from teamwright.values.limits import CHARACTERS_PER_TOKEN, Degradation
from teamwright.values.usage_and_prices import Price, Rate, Usage, picodollars

INSTRUCTIONS = 300
"""Tokens of instructions in each prompt."""
LENGTHS = (120, 480)
"""Tokens of a reply, at least and at most."""
CAP = 720
"""The output cap of a member: half more than its longest reply."""


@dataclass
class Replies:
    """The last reply that a member of a run gave: whether it was whole, and whether it closed the run."""

    last_is_whole: bool = False
    last_closes: bool = False

    def add(self, turn: Turn, *, whole: bool) -> None:
        """Note a reply."""
        self.last_is_whole, self.last_closes = whole, turn.closing


@dataclass
class Member(Agent):
    """A member whose one request costs its prompt and a reply of a certain length."""

    name: str
    seed: int
    replies: Replies
    strategy: Callable[[], Strategy] | None = None
    kind: str = "model"
    policy: Policy = field(default_factory=lambda: Policy(economy="local:small"))

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Reply as long as the budget allows."""
        share = ECONOMY if turn.tier == "economy" else 1.0
        price = Price(input=share * INPUT, output=share * OUTPUT)
        prompt, length = INSTRUCTIONS + len(turn.prompt) // CHARACTERS_PER_TOKEN, self._length(turn)

        async def call(attempt: Attempt) -> Returned:
            given = length if attempt.max_output is None else min(length, attempt.max_output)
            usage = Usage(requests=1, input_tokens=prompt, output_tokens=given)
            return Returned(given, usage.changed(usd=price.cost(usage)), truncated=given < length)

        def rate(tokens: int) -> Rate:
            return Rate(picodollars(price.input / 1e6), picodollars(price.output / 1e6))

        effect = Effect(
            "model",
            self.name,
            f"request {turn.tier}",
            call,
            0,
            0,
            CAP,
            rate=rate,
            model=turn.tier,
            prompt_tokens=prompt,
        )
        returned = await ctx.effect("request", effect)
        self.replies.add(turn, whole=not returned.truncated)
        data = self.strategy().example_reply(turn) if self.strategy else None
        text = json.dumps(data) if data is not None else "word" * int(str(returned.value))
        return Reply.of(self.name, text, data=data, truncated=returned.truncated)

    def _length(self, turn: Turn) -> int:
        seed = sha256(f"{self.seed} {self.name} {turn.number} {turn.purpose}".encode()).digest()
        return random.Random(seed).randint(*LENGTHS)


def team_of(strategy: str, seed: int, replies: Replies, limit: float | None, degradation: Degradation) -> Team:
    """Return a team of this strategy; its size depends on the seed."""
    chance = random.Random(seed)
    names = [f"m{number}" for number in range(1, chance.randint(3, 5) + 1)]
    options, max_turns = OPTIONS[strategy](names, chance)
    made: list[Team] = []
    members = [Member(name, seed, replies, lambda: made[0].strategy) for name in names]
    limits = None if limit is None else Limits(usd=limit)
    team = Team(
        "team",
        members=members,
        strategy=strategy,
        max_turns=max_turns,
        options=options,
        limits=limits,
        degradation=degradation,
    )
    made.append(team)
    return team


Options = tuple[dict[str, JsonValue], int | None]
"""The options of a strategy, and `max_turns`."""


def _steps(names: list[str], chance: random.Random, *, agents: bool) -> list[JsonValue]:
    """Return a plan of five to nine steps: each needs up to two earlier ones, and the last needs all ends."""
    count = chance.randint(5, 9)
    steps: list[dict[str, JsonValue]] = []
    for number in range(1, count + 1):
        earlier = [f"s{one}" for one in range(1, number)]
        needs = sorted(chance.sample(earlier, min(len(earlier), chance.randint(0, 2))))
        steps.append({"id": f"s{number}", "needs": list(needs)})
        if agents:
            steps[-1]["agent"] = names[number % len(names)]
    needed = {need for step in steps[:-1] for need in step["needs"]}  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
    steps[-1]["needs"] = [step["id"] for step in steps[:-1] if step["id"] not in needed] or steps[-1]["needs"]
    return list(steps)


def _plan(names: list[str], chance: random.Random) -> Options:
    return {"steps": _steps(names, chance, agents=False)}, None


def _agents_plan(names: list[str], chance: random.Random) -> Options:
    return {"steps": _steps(names, chance, agents=True)}, None


def _edges(names: list[str], chance: random.Random) -> Options:
    edges: list[JsonValue] = [{"from": one, "to": other} for one, other in pairwise(names)]
    return {"edges": edges}, 20


def _chunks(names: list[str], chance: random.Random) -> Options:
    chunks: list[JsonValue] = [f"chunk {number}" for number in range(chance.randint(6, 12))]
    return {"chunks": chunks, "answer": names[0], "max_parallel": 4}, None


def _reactions(names: list[str], chance: random.Random) -> Options:
    pairs = pairwise(names)
    more: list[JsonValue] = [{"agent": to, "on": f"by_{one}", "emits": [{"type": f"by_{to}"}]} for one, to in pairs]
    first: JsonValue = {"agent": names[0], "on": "workflow.started", "emits": [{"type": f"by_{names[0]}"}]}
    return {"subscriptions": [first, *more]}, None


OPTIONS: Mapping[str, Callable[[list[str], random.Random], Options]] = {
    "sequential": lambda names, chance: ({}, None),
    "round_robin": lambda names, chance: ({}, chance.randint(2, 4)),
    "selector": lambda names, chance: ({"agent": names[0]}, chance.randint(5, 9)),
    "graph": _edges,
    "fan_out": _chunks,
    "dag": _agents_plan,
    "single": _plan,
    "lead_subagent": _plan,
    "star_team": _plan,
    "mesh_team": _plan,
    "hierarchical": lambda names, chance: ({"lead": names[0]}, None),
    "reactive": _reactions,
}
"""The options and settings of a team, for each strategy."""
