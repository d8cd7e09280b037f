"""The conformance suite passes what is right and says, for each thing that is wrong, what it is and what to do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import count

import anyio
import pytest
from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.effect import Effect, Returned
from teamwright.strategies.fan_out import FanOut
from teamwright.strategies.graph import Graph
from teamwright.strategies.hierarchical import Hierarchical
from teamwright.strategies.plan.engine import Dag, LeadSubagent, MeshTeam, Single, StarTeam
from teamwright.strategies.protocol import Members, Settings, Strategy, Task
from teamwright.strategies.reactive import Reactive
from teamwright.strategies.round_robin import RoundRobin
from teamwright.strategies.selector import Selector
from teamwright.strategies.sequential import Sequential
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.testing.strategy import StrategyConformance, check_strategy
from teamwright.testing.trial import TASK
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn
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


class TestSelector(StrategyConformance):
    """A helper chooses the last candidate by name."""

    settings = Settings(max_turns=3, options={"agent": "moderator"})

    def make(self) -> Strategy:
        return Selector()

    def lines(self, member: str, turn: Turn) -> str | None:
        return turn.task.split(", ")[-1] if turn.purpose == "coordinate" else None


class TestSelectorAsAPipeline(TestSelector):
    settings = Settings(share="output", max_turns=3, options={"agent": "moderator", "prompt": "{{ participants }}"})


class TestSelectorWithEdges(TestSelector):
    """The first member chooses among the edges; no member may follow the last."""

    settings = Settings(
        max_turns=4,
        options={
            "agent": "member-1",
            "prompt": "{{.History}} {{.Participants}}",
            "edges": [
                {"from": "member-1", "to": "member-2"},
                {"from": "member-1", "to": "member-3", "when": "state.turn < 3"},
                {"from": "member-2", "to": "member-1"},
            ],
        },
    )

    def lines(self, member: str, turn: Turn) -> str | None:
        return "nonsense" if turn.purpose == "coordinate" else None


EDGES: list[JsonValue] = [
    {"from": "member-1", "to": "member-2", "when": "state.turns['member-1'] == 1"},
    {"from": "member-1", "to": "member-3", "when": "'answers' in text"},
    {"from": "member-2", "to": "member-1"},
]


class TestGraph(StrategyConformance):
    settings = Settings(max_turns=9, options={"edges": EDGES})

    def make(self) -> Strategy:
        return Graph()


class TestGraphAsAPipeline(TestGraph):
    settings = Settings(share="output", max_turns=9, options={"edges": EDGES})


class TestGraphThatHandlesFailures(TestGraph):
    settings = Settings(
        max_turns=9,
        options={
            "edges": [*EDGES, *({"from": f"member-{n}", "to": "member-3", "when": "error is string"} for n in (1, 2))]
        },
    )


class TestFanOut(StrategyConformance):
    settings = Settings(options={"chunks": ["x", {"y": 1}, "x", "z"], "max_parallel": 2, "answer": "member-3"})

    def make(self) -> Strategy:
        return FanOut()


class TestFanOutAsAPipeline(TestFanOut):
    settings = Settings(share="output", options={"chunks": ["x", "y", "z"], "on_failure": "collect"})


class TestFanOutThatStopsAtAFailure(TestFanOut):
    settings = Settings(options={"chunks": ["x", "y", "z"], "max_parallel": 2, "on_failure": "cancel"})


class TestFanOutWithASplitter(TestFanOut):
    settings = Settings(options={"splitter": "member-2", "answer": "member-3", "on_failure": "skip"})

    def lines(self, member: str, turn: Turn) -> str | None:
        return '{"chunks": ["x", "y", "z"]}' if member == "member-2" else None


STEPS: list[JsonValue] = [
    {"id": "first", "agent": "member-1"},
    {"id": "second", "agent": "member-2"},
    {"id": "never", "agent": "member-2", "when": "task == ''"},
    {"id": "third", "agent": "member-3", "needs": ["first", "never"]},
    {"id": "last", "agent": "member-3", "needs": ["third", "second"]},
]

ANYBODYS: list[JsonValue] = [
    {"id": "first"},
    {"id": "second"},
    {"id": "third", "needs": ["first"]},
    {"id": "last", "needs": ["third", "second"]},
]


class TestDag(StrategyConformance):
    settings = Settings(options={"steps": STEPS})

    def make(self) -> Strategy:
        return Dag()


class TestDagAsAPipeline(TestDag):
    settings = Settings(share="output", options={"steps": STEPS, "max_parallel": 2, "on_failure": "collect"})


class TestDagThatStopsAtAFailure(TestDag):
    settings = Settings(options={"steps": STEPS, "on_failure": "cancel"})


class TestDagThatSkipsFailures(TestDag):
    settings = Settings(options={"steps": STEPS, "max_parallel": 1, "on_failure": "skip"})


class TestDebate(StrategyConformance):
    def make(self) -> Strategy:
        return Debate()


class TestHierarchical(StrategyConformance):
    """The last member leads: it delegates to both others at once, and then sums up."""

    settings = Settings(options={"lead": "member-3"})

    def make(self) -> Strategy:
        return Hierarchical()

    def lines(self, member: str, turn: Turn) -> str | None:
        if turn.purpose != "coordinate":
            return None
        if "answers" in turn.prompt:
            return json.dumps({"action": "synthesize", "synthesis": f"summed up at {turn.digest[:8]}"})
        work = [{"specialist": name, "task": TASK} for name in ("member-1", "member-2")]
        return json.dumps({"action": "delegate", "delegations": work})


class TestHierarchicalAsAPipeline(TestHierarchical):
    settings = Settings(share="output", options={"lead": "member-3", "max_parallel": 1})


class TestReactive(StrategyConformance):
    """The first triggers the others, which work concurrently; the last also reacts to the second."""

    settings = Settings(
        options={
            "subscriptions": [
                {"agent": "member-1", "on": "workflow.started", "emits": [{"type": "begun"}]},
                {"agent": "member-2", "on": "begun", "emits": [{"type": "half"}, {"type": "unheard"}]},
                {"agent": "member-3", "on": "begun"},
                {"agent": "member-3", "on": "half"},
            ]
        }
    )

    def make(self) -> Strategy:
        return Reactive()


class TestReactiveAsAPipeline(TestReactive):
    settings = Settings(share="output", options={**TestReactive.settings.options, "max_parallel": 1})


class TestSingle(StrategyConformance):
    """All steps are the work of one, in one conversation."""

    settings = Settings(options={"steps": STEPS, "pool": ["member-2"]})

    def make(self) -> Strategy:
        return Single()


class TestSingleAsAPipeline(TestSingle):
    settings = Settings(share="output", options=TestSingle.settings.options)


class TestLeadSubagent(StrategyConformance):
    settings = Settings(options={"steps": STEPS})

    def make(self) -> Strategy:
        return LeadSubagent()


class TestLeadSubagentAsAPipeline(TestLeadSubagent):
    settings = Settings(share="output", options={"steps": STEPS, "lead": "boss", "pool": ["member-3"]})


class TestStarTeam(StrategyConformance):
    """The steps name the lead too, which works on its own."""

    settings = Settings(options={"steps": STEPS})

    def make(self) -> Strategy:
        return StarTeam()


class TestStarTeamAsAPipeline(TestStarTeam):
    settings = Settings(share="output", options={"steps": STEPS, "lead": "boss", "max_parallel": 1})


class TestStarTeamThatGoesOn(TestStarTeam):
    settings = Settings(options={"steps": ANYBODYS, "lead": "boss", "on_failure": "collect"})


class TestMeshTeam(StrategyConformance):
    settings = Settings(options={"steps": ANYBODYS, "lead": "boss"})

    def make(self) -> Strategy:
        return MeshTeam()


class TestMeshTeamAsAPipeline(TestMeshTeam):
    settings = Settings(share="output", options={"steps": STEPS, "rounds_of_talk": 2, "on_failure": "skip"})


class ByEnvelopes:
    """Members whose replies are longer than an envelope, unless the strategy parses them."""

    def lines(self, member: str, turn: Turn) -> str | None:
        said = super().lines(member, turn)  # pyright: ignore[reportAttributeAccessIssue]
        if said is not None or turn.purpose != "work":
            return said
        return f"{member} answers {turn.digest[:12]}{' at length' * 40}"


class TestSequentialByEnvelopes(ByEnvelopes, TestSequential):
    settings = Settings(share="a2a_lite")


class TestRoundRobinByEnvelopes(ByEnvelopes, TestRoundRobin):
    settings = Settings(max_turns=2, share="a2a_lite")


class TestSelectorByEnvelopes(ByEnvelopes, TestSelector):
    settings = Settings(
        share="a2a_lite", max_turns=3, options={"agent": "moderator", "prompt": "{{.History}} {{.Participants}}"}
    )


class TestGraphByEnvelopes(ByEnvelopes, TestGraph):
    settings = Settings(
        share="a2a_lite",
        max_turns=9,
        options={"edges": [EDGES[0], EDGES[1], {"from": "member-2", "to": "member-1", "task": "{{ text }} " + TASK}]},
    )


class TestFanOutByEnvelopes(ByEnvelopes, TestFanOut):
    settings = Settings(share="a2a_lite", options=TestFanOut.settings.options)


class TestDagByEnvelopes(ByEnvelopes, TestDag):
    settings = Settings(
        share="a2a_lite",
        options={
            "steps": [
                *STEPS[:4],
                {
                    "id": "last",
                    "agent": "member-3",
                    "needs": ["third", "second"],
                    "task": "{{ outputs.third }} " + TASK,
                },
            ]
        },
    )


class TestHierarchicalByEnvelopes(ByEnvelopes, TestHierarchical):
    settings = Settings(share="a2a_lite", options={"lead": "member-3"})


class TestReactiveByEnvelopes(ByEnvelopes, TestReactive):
    settings = Settings(share="a2a_lite", options=TestReactive.settings.options)


class TestSingleByEnvelopes(ByEnvelopes, TestSingle):
    settings = Settings(share="a2a_lite", options=TestSingle.settings.options)


class TestLeadSubagentByEnvelopes(ByEnvelopes, TestLeadSubagent):
    settings = Settings(share="a2a_lite", options={"steps": STEPS, "lead": "boss"})


class TestStarTeamByEnvelopes(ByEnvelopes, TestStarTeam):
    settings = Settings(share="a2a_lite", options={"steps": ANYBODYS, "lead": "boss"})


class TestMeshTeamByEnvelopes(ByEnvelopes, TestMeshTeam):
    settings = Settings(share="a2a_lite", options={"steps": ANYBODYS, "lead": "boss"})


class TestDebateByEnvelopes(ByEnvelopes, TestDebate):
    """A strategy of a third party, which knows nothing of envelopes."""

    settings = Settings(max_turns=2, share="a2a_lite")


class Plain(Strategy):
    """The common part of the broken strategies: each member once."""

    name = "plain"
    version = 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        for number, member in enumerate(members, start=1):
            reply = await self.ask(number, member, talk, ctx)
            if isinstance(reply, Failure):
                return talk.failed(reply)
            talk.add(reply)
            if reply.signal == "terminate":
                break
        return talk.ended("done")

    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
        return await ctx.ask(member, talk.turn(number), key=f"step-{number}")  # pyright: ignore[reportArgumentType]


class Random(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        shuffled = sorted(members, key=lambda member: random.random())
        return await super().run(task, Members(shuffled), ctx)


NUMBERS = count(1)


class CountsForEver(Plain):
    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
        return await super().ask(next(NUMBERS), member, talk, ctx)


class TalksAboutFailures(Plain):
    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
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
        return outcome.changed(messages=(*task.history, *outcome.messages))


class HidesTheTask(Plain):
    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
        return await ctx.ask(member, Turn("Just go on."), key=f"step-{number}")  # pyright: ignore[reportArgumentType]


class OneKeyForAll(Plain):
    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
        return await super().ask(1, member, talk, ctx)


class GoesOnAfterTheEnd(Plain):
    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
        reply = await super().ask(number, member, talk, ctx)
        return reply if isinstance(reply, Failure) else reply.changed(signal=None)


class SpeaksForOthers(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        outcome = await super().run(task, members, ctx)
        said = tuple(message.changed(name="plain") for message in outcome.messages)
        return outcome.changed(messages=said)


class TouchesTheWorld(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        async def call(_: object) -> Returned:
            return Returned("x")

        await ctx.effect("call", Effect("function", "x", "x", call))
        return await super().run(task, members, ctx)


class SwallowsCancellation(Plain):
    async def ask(self, number: int, member: object, talk: TeamConversation, ctx: Context) -> Reply | Failure:
        try:
            return await super().ask(number, member, talk, ctx)
        except anyio.get_cancelled_exc_class():
            return Reply.of("plain", "never mind")


class TellsInFull(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        for number, member in enumerate(members, start=1):
            turn = Turn(f"{talk.history[-1].content if number > 1 else ''} {TASK}", number=number)
            reply = await ctx.ask(member, turn, key=f"step-{number}")
            if isinstance(reply, Failure):
                return talk.failed(reply)
            talk.add(reply.full)
            if reply.signal == "terminate":
                break
        return talk.ended("done")


class Crashes(Plain):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        raise KeyError("oops")


class WithoutANumber(Plain):
    version = "1.0"  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Random, r"uses 'random' of 'random': use ctx\.clock\.random\(\) instead"),
        (CountsForEver, r"replay: Cut after event .* does something else: the record has .* the strategy now"),
        (TalksAboutFailures, r"failures: The prompt of .* contains the error text of another member"),
        (ChangesHistory, r"prompts: The strategy changed the history"),
        (ReturnsEverything, r"prompts: A run returns only new messages"),
        (HidesTheTask, r"prompts: A member's prompt must end with the task"),
        (OneKeyForAll, r"uses a key twice"),
        (GoesOnAfterTheEnd, r"terminate: A member terminated, and .* was asked after that"),
        (SpeaksForOthers, r"names: A message of 'member-1' carries the name 'plain'"),
        (TouchesTheWorld, r"makes an effect of its own"),
        (SwallowsCancellation, r"cancellation: "),
        (TellsInFull, r"envelopes: .* the prompt of 'member-2' contains the full reply of another member"),
        (Crashes, r"The strategy runs, and crashes: KeyError: 'oops'"),
        (WithoutANumber, r"declaration: `version` must be an int"),
    ],
)
def test_each_mistake_is_reported_clearly(broken: Callable[[], Strategy], words: str) -> None:
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
