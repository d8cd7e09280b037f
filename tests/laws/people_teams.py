"""Random teams that ask people: questions, approvals of steps and tools, critical members, concurrent and nested.

No result depends on the order of arrival, so a run has one result however it is cut, forked or answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio
from hypothesis import strategies as st

from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import Refused, ToolError
from teamwright.strategies.protocol import Members, Settings, Strategy, Task
from teamwright.teams.team import Team
from teamwright.values.people import Answer, Confirm, Question
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Turn
from teamwright.values.usage_and_prices import Usage

TASK = "decide"
MOST_RETRIES = 2


@dataclass
class CallLog:
    """The effects that one process called, by their keys without the run id."""

    called: list[str] = field(default_factory=list[str])

    async def call(self, value: str, attempt: Attempt) -> Returned:
        self.called.append(attempt.key)
        await anyio.lowlevel.checkpoint()
        return Returned(value, Usage(requests=1, input_tokens=1, output_tokens=1))


@dataclass(frozen=True)
class PeopleMember:
    """One member: what it does in a turn, and which parts need approval."""

    name: str
    effects: int = 0
    question: bool = False
    tools: int = 0
    at_once: bool = False
    fails: bool = False
    policy: str = ""
    confirm: Confirm | None = None
    team: tuple[PeopleMember, ...] = ()

    def agent(self, log: CallLog) -> Agent:
        policy: dict[str, Any] = {self.policy: True} if self.policy else {}
        if self.team:
            members = [member.agent(log) for member in self.team]
            return Team(self.name, members=members, share="output", confirm=self.confirm, **policy)
        return FunctionAgent(self.name, partial(self._respond, log), confirm=self.confirm, **policy)

    async def _respond(self, log: CallLog, turn: Turn, ctx: Context) -> str:
        said = [f"{self.name} heard {turn.digest[:6]}"]
        for number in range(self.effects):
            call = partial(log.call, f"effect {number}")
            effect = Effect("model", "member", digest(turn.digest, str(number)), call)
            said.append(str((await ctx.effect(f"e{number}", effect)).value))
        if self.question:
            said.append((await ctx.ask_person(Question(text=f"{self.name} asks"), key="question")).text)
        said += await self._use_tools(log, ctx)
        if self.fails:
            raise Refused(f"the trouble with {self.name}")
        return "; ".join(said)

    async def _use_tools(self, log: CallLog, ctx: Context) -> list[str]:
        """Call tools that need approval, one by one or concurrently."""
        results: dict[int, str] = {}
        if not self.tools:
            return []

        async def tool(x: str, *, idempotency_key: str) -> str:
            """Do something."""
            log.called.append(f"tool {idempotency_key}")
            return f"did {x}"

        async with Toolbox([tool], Confirm(tools=True), self.name).open(ctx) as tools:

            async def use(number: int) -> None:
                try:
                    results[number] = str(await tools.call_recorded("tool", {"x": str(number)}, key=f"tool-{number}"))
                except ToolError as error:
                    results[number] = str(error)

            if self.at_once:
                async with anyio.create_task_group() as group:
                    for number in range(self.tools):
                        group.start_soon(use, number)
            else:
                for number in range(self.tools):
                    await use(number)
        return [results[number] for number in sorted(results)]


class AskTree(Strategy):
    """Runs a tree of asks and questions, in sequence (`seq`) or concurrently (`all`)."""

    name, version = "ask_tree", 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        by_name = {member.name: member for member in members}
        asks = cast("Sequence[Any]", task.settings.options["asks"])
        decided = await self._do(asks, ctx, "p", "", by_name)
        text = json.dumps(decided)
        return Outcome(messages=(Message(name="asks", content=text),))

    async def _do(self, node: Sequence[Any], ctx: Context, path: str, told: str, members: Mapping[str, Agent]) -> Any:
        match list(node):
            case ["ask", str(name)]:
                reply = await ctx.ask(members[name], Turn(f"{TASK} after {told}"), key=path)
                return f"{name}: {reply.error}" if isinstance(reply, Failure) else reply.text
            case ["person"]:
                return (await ctx.ask_person(Question(text=f"after {told}?", choices=("yes", "no")), key=path)).text
            case ["seq", *nodes]:
                results: list[Any] = []
                for index, one in enumerate(nodes):
                    before = digest(told, json.dumps(results))[:6]
                    results.append(await self._do(one, ctx, f"{path}{index}", before, members))
                return results
            case ["all", *nodes]:
                async with ctx.branches(len(nodes)) as branches:
                    started = [
                        branches.start(
                            f"{path}b{index}", lambda inner, one=one: self._do(one, inner, "p", told, members)
                        )
                        for index, one in enumerate(nodes)
                    ]
                return [branch.result() for branch in started]
            case other:
                raise AssertionError(other)


@dataclass(frozen=True)
class PeopleTeam:
    """A team, and the people who answer it: the same question always gets the same answer."""

    asks: Sequence[Any]
    members: tuple[PeopleMember, ...]
    answer_seed: int = 0

    def team(self, log: CallLog) -> Team:
        members = [member.agent(log) for member in self.members]
        return Team("people", members=members, strategy=AskTree(), options={"asks": cast("Any", self.asks)})

    def answer(self, key: str, question: Question) -> Answer:
        """The answer of a person, derived from the question alone."""
        drawn = digest(str(self.answer_seed), key, question.text, question.draft or "")
        chance = int(drawn[:8], 16)
        match question.reason:
            case "approval" if chance % 3 == 0:
                return Answer.edit({"x": drawn[:4]} if question.form == "json" else f"edited {drawn[:4]}")
            case "approval":
                return Answer.reject(f"secret {drawn[:4]}") if chance % 3 == 1 else Answer.approve()
            case "failure":
                tried = int(re.findall(r"failure-(\d+)", key)[-1])
                # No abort: it ends the run at once, so the messages until then would depend on the order of answers.
                return Answer(text="retry" if chance % 3 == 2 and tried <= MOST_RETRIES else "skip")
            case "question" | "pause":
                return Answer(text=question.choices[chance % 2] if question.choices else f"word {drawn[:4]}")


@st.composite
def people_members(draw: st.DrawFn, name: str, *, nested: bool = True) -> PeopleMember:
    """Draw a member of any kind."""
    confirm = draw(st.none() | st.builds(Confirm, before=st.booleans(), after=st.booleans()))
    policy = draw(st.sampled_from(["", "", "optional", "critical"]))
    if nested and draw(st.integers(0, 4)) == 0:
        inner = tuple(
            draw(people_members(f"{name}-{number}", nested=False)) for number in range(draw(st.integers(1, 2)))
        )
        return PeopleMember(name, team=inner, confirm=confirm, policy=policy)
    return PeopleMember(
        name,
        effects=draw(st.integers(0, 2)),
        question=draw(st.booleans()),
        tools=draw(st.sampled_from([0, 0, 1, 2])),
        at_once=draw(st.booleans()),
        fails=draw(st.integers(0, 3)) == 0,
        policy=policy,
        confirm=confirm,
    )


@st.composite
def people_teams(draw: st.DrawFn) -> PeopleTeam:
    """Draw a team of at most five members, whose asks have branches in any nesting."""
    leaves = st.sampled_from([["ask"], ["ask"], ["ask"], ["person"]])
    shape = draw(
        st.recursive(
            leaves,
            lambda inner: st.tuples(
                st.sampled_from(["seq", "all", "all"]), st.lists(inner, min_size=2, max_size=3)
            ).map(lambda made: [made[0], *made[1]]),
            max_leaves=5,
        )
    )
    made: list[PeopleMember] = []

    def filled(node: Sequence[Any]) -> list[Any]:
        if node[0] == "ask":
            made.append(draw(people_members(f"m{len(made)}")))
            return ["ask", made[-1].name]
        return [node[0], *(filled(one) for one in node[1:])]

    asks = ["seq", filled(shape), filled(["ask"])]
    return PeopleTeam(asks, tuple(made), draw(st.integers(0, 7)))
