"""Teams for simulations: members of constant or random behaviour, and a strategy that works as the model assumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from teamwright import Context, Message, Team, Turn, load_team
from teamwright.agents.agent import Agent
from teamwright.lab.simulation.simulated_agents import SimulatedAgent
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members, Settings, Strategy
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.simulation import Behaviour, Simulation
from teamwright.values.turns.turn import Failure, Reply

PLAN = """\
agents:
  lead: {model: {model: openai:gpt-5-mini, price: {input: 1, output: 4}}, simulation: {skill: 0.9}}
  worker: {model: openai:gpt-5-mini}
teams:
  build:
    strategy: dag
    members: [lead, worker]
    simulation: {latency: {p50: 4, p90: 9}, output: 300, skill: 0.7, error: {rate_limit: 0.02}}
    dag:
      steps:
        - {id: a, agent: lead}
        - {id: b, agent: worker, needs: [a]}
        - {id: c, agent: worker, needs: [a]}
        - {id: d, agent: worker, needs: [a]}
        - {id: e, agent: worker, needs: [b]}
        - {id: f, agent: worker, needs: [c]}
        - {id: g, agent: worker, needs: [d]}
        - {id: h, agent: worker, needs: [e, f]}
        - {id: i, agent: worker, needs: [g]}
        - {id: j, agent: lead, needs: [h, i]}
"""
"""A plan of ten steps."""


def team_of(folder: Path, text: str = PLAN) -> Team:
    """The team of a manifest."""
    file = folder / "team.yaml"
    file.write_text(text, encoding="utf-8")
    return load_team(file)


def constant(tokens: int = 1400, seconds: float = 6.0, **more: object) -> Simulation:
    """Always right, with the same tokens and the same time."""
    given = {"input": tokens - tokens // 4, "output": tokens // 4, "latency": seconds, "skill": 1.0, **more}
    return Simulation.model_validate(given)


def messages(tokens: int, seconds: float) -> Behaviour:
    """The cost of a message."""
    return Behaviour(input=float(tokens - 1), output=1.0, latency=seconds)


def simulated_agents(names: Sequence[str], simulation: Simulation) -> list[Agent]:
    """Make simulated agents of this behaviour."""
    return [SimulatedAgent(name, AgentSpec(), simulation) for name in names]


class ModelledWork(Strategy):
    """Works as the topology model assumes: first all messages in sequence, and then tasks concurrently."""

    name, version = "by_the_model", 1

    def __init__(self, tasks: int, sent: int, width: int) -> None:
        self._tasks, self._sent, self._width = tasks, sent, width

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        for number in range(self._sent):
            turn = Turn("What is there to know?", purpose="coordinate")
            await ctx.ask(members[number % len(members)], turn, key=f"message-{number}")
        async with ctx.branches(self._width) as branches:
            for number in range(self._tasks):
                ask = partial(_ask, members[number % len(members)], Turn(f"part {number}"))
                branches.start(f"task-{number}", ask)
        return Outcome(messages=(Message(name="lead", content="done"),))


async def _ask(member: Agent, turn: Turn, ctx: Context) -> Reply | Failure:
    return await ctx.ask(member, turn, key="work")


def behaviours(names: Sequence[str], simulation: Simulation) -> Mapping[str, Simulation]:
    """The same behaviour for all members."""
    return dict.fromkeys(names, simulation)
