"""The teams whose histories are recorded. A strategy that does something else needs a new version, so these stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from pydantic import JsonValue

from teamwright.agents.function import FunctionAgent
from teamwright.agents.protocol import Agent, Attempt, Context, Effect, Returned
from teamwright.errors import Refused
from teamwright.teams.team import Team
from teamwright.values.messages import digest
from teamwright.values.turns import Reply, Turn
from teamwright.values.usage import Usage
from tests.laws.orchestra import hops
from tests.laws.program import program_team
from tests.strategies.example.debate import Debate

TASK = "Compare the two and say which is better."

Answer = Callable[[str, Attempt], Returned]


def speak(name: str, attempt: Attempt) -> Returned:
    """What members say when a history is recorded."""
    return Returned(f"{name} has an opinion", Usage(requests=1, input_tokens=7, output_tokens=4))


def member(name: str, answer: Answer, effects: int = 1, *, patience: int = 0) -> Agent:
    """A member that asks the world so many times; one called `trouble` fails, one called `done` terminates.

    Its answers take as many turns of the event loop as it has patience.
    """

    async def call(attempt: Attempt) -> Returned:
        await hops(patience)
        return answer(name, attempt)

    async def respond(turn: Turn, ctx: Context) -> Reply:
        said = ""
        for number in range(1, effects + 1):
            request = Effect("model", "m", digest(turn.prompt, str(number)), call)
            said = str((await ctx.effect(f"request-{number}", request)).value)
        if name == "trouble":
            raise Refused("it would rather not")
        return Reply.of(name, said, signal="terminate" if name == "done" else None)

    return FunctionAgent(name, respond)


def _sequential(answer: Answer) -> Team:
    return Team("chain", members=[member(name, answer) for name in "abc"])


def _pipeline(answer: Answer) -> Team:
    members = [member("a", answer, 2), member("done", answer), member("never", answer)]
    return Team("pipeline", members=members, share="output")


def _round_robin(answer: Answer) -> Team:
    members = [member(name, answer) for name in "ab"]
    return Team("rounds", members=members, strategy="round_robin", max_turns=2)


def _nested(answer: Answer) -> Team:
    inner = Team("inner", members=[member("b", answer), member("c", answer)], strategy="round_robin", max_turns=1)
    return Team("outer", members=[member("a", answer), inner, member("d", answer)])


def _failing(answer: Answer) -> Team:
    return Team("failing", members=[member("a", answer), member("trouble", answer), member("c", answer)])


def _debate(answer: Answer) -> Team:
    return Team("debate", members=[member(name, answer) for name in "abj"], strategy=Debate(), max_turns=2)


def _program(answer: Answer) -> Team:
    """Locks, a race, chance and a timer. Wherever `a` and `b` begin again, `b` is the last to answer."""
    locked = ["all", 2, ["lock", ["ask", "a"]], ["seq", ["ask", "b"], ["lock", ["claim", "it"]]]]
    program = ["seq", ["draw"], locked, ["race", 1, ["ask", "c"], ["sleep", 60]], ["sleep", 0.001], ["ask", "d"]]
    return program_team(
        "program", program, [member(name, answer, patience=200 if name == "b" else 0) for name in "abcd"]
    )


def _selector(answer: Answer) -> Team:
    """A choice that is read in prose, one that is not understood, and edges that leave one, two or nobody."""
    ways = ["a>b", "a>c", "b>a", "b>done", "c>b"]
    options: dict[str, JsonValue] = {
        "agent": "chair",
        "edges": [dict(zip(("from", "to"), way.split(">"), strict=True)) for way in ways],
    }

    async def choose(turn: Turn, ctx: Context) -> str:
        await ctx.effect("request", Effect("model", "m", digest(turn.prompt), partial(_answered, answer, "chair")))
        return {1: "I would take a first", 2: "b or c", 4: "C", 6: "done"}.get(turn.number, "nobody")

    members = [member(name, answer) for name in ("a", "b", "c", "done")]
    helpers = [FunctionAgent("chair", choose)]
    return Team("chosen", members=members, helpers=helpers, strategy="selector", max_turns=9, options=options)


def _graph(answer: Answer) -> Team:
    """A loop that a condition ends, a transform, and a failure that an edge handles."""
    edges: list[JsonValue] = [
        {"from": "a", "to": "b", "when": "state.turns.a < 3", "transform": "Object to: {{ text }}"},
        {"from": "a", "to": "trouble"},
        {"from": "b", "to": "a"},
        {"from": "trouble", "to": "c", "when": "error == 'refused'"},
    ]
    members = [member(name, answer) for name in ("a", "b", "c", "trouble")]
    return Team("ways", members=members, strategy="graph", max_turns=9, options={"edges": edges})


def _fan_out(answer: Answer) -> Team:
    """Chunks for two workers and one that fails; the second takes its time."""
    members = [member("a", answer), member("b", answer, patience=200), member("trouble", answer)]
    options: dict[str, JsonValue] = {"chunks": ["one", {"two": 2}, "three", "four"], "limit": 2, "aggregator": "z"}
    options["on_failure"] = "collect"
    return Team("fan-out", members=members, helpers=[member("z", answer)], strategy="fan_out", options=options)


def _dag(answer: Answer) -> Team:
    """A branch that is taken, one that is skipped, and a slow step beside them."""
    steps: list[JsonValue] = [
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "needs": ["a"], "when": "'opinion' in outputs.a", "task": "Object to: {{ outputs.a }}"},
        {"id": "never", "agent": "c", "needs": ["a"], "when": "'fact' in outputs.a"},
        {"id": "d", "needs": ["c", "never", "b"]},
    ]
    members = [member(name, answer, patience=200 if name == "b" else 0) for name in "abcd"]
    return Team("dag", members=members, strategy="dag", options={"steps": steps, "max_parallel": 3})


def _hierarchical(answer: Answer) -> Team:
    """A decision that is told back, a specialist that fails, and one that is slower than who comes after it."""
    work = [{"specialist": name, "task": f"look at {name}"} for name in ("a", "trouble", "b")]
    decisions = ["let me think", {"action": "delegate", "delegations": work}, {"action": "delegate", **work[2]}]
    decisions.append({"action": "synthesize", "synthesis": "both are good"})

    async def decide(turn: Turn, ctx: Context) -> str:
        call = partial(_answered, answer, "lead")
        await ctx.effect("request", Effect("model", "m", digest(turn.prompt), call))
        again = turn.number > 1 or "could not be used" in turn.task
        return json.dumps(decisions[turn.number - 1 + again])

    members = [member("a", answer, patience=200), member("b", answer), member("trouble", answer)]
    options: dict[str, JsonValue] = {"orchestrator": "lead", "on_failure": "collect"}
    return Team(
        "office", members=members, helpers=[FunctionAgent("lead", decide)], strategy="hierarchical", options=options
    )


async def _answered(answer: Answer, name: str, attempt: Attempt) -> Returned:
    return answer(name, attempt)


def _reactive(answer: Answer) -> Team:
    """Two who react at once, a failure that somebody handles, and a loop that a limit ends."""

    def row(name: str, on: str, *emits: str, when: str | None = None) -> JsonValue:
        return {"member": name, "on": on, "emits": [{"type": kind} for kind in emits], "when": when}

    rows = [row("a", "workflow.started", "x"), row("b", "x", "y", when="depth < 2"), row("c", "x", "z")]
    rows += [row("trouble", "z"), row("a", "agent.error", "x"), row("c", "y")]
    members = [member(name, answer, patience=500 if name == "b" else 0) for name in ("a", "b", "c", "trouble")]
    options: dict[str, JsonValue] = {"subscriptions": rows, "max_depth": 6, "state": {"n": 0}}
    return Team("network", members=members, strategy="reactive", options=options)


TEAMS: dict[str, Callable[[Answer], Team]] = {
    "sequential": _sequential,
    "pipeline": _pipeline,
    "round_robin": _round_robin,
    "nested": _nested,
    "failing": _failing,
    "debate": _debate,
    "program": _program,
    "selector": _selector,
    "graph": _graph,
    "hierarchical": _hierarchical,
    "reactive": _reactive,
    "fan_out": _fan_out,
    "dag": _dag,
}
