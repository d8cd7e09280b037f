"""The teams of the crash matrix, and the order in which the server answers their members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from teamwright.agents.attachments import Attachment
from teamwright.agents.model.agent import ModelAgent
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, Say, ToolCall
from teamwright.values.limits import Limits
from teamwright.values.people import Intervention
from teamwright.values.specs.models import ServerModel
from tests.laws.crash import (
    approvals,
    collaborations,
    delegates,
    evaluations,
    expert_teams,
    images,
    interventions,
    mcp_team,
    mixed_teams,
)
from tests.laws.crash.http_members import http_member, http_members, post
from tests.laws.program import program_team

TASK = "Say who was first."
MODEL_TURN = "with-tools/step-2"
"""The turn of the scenario `model` that calls the model."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """A team, and which members are answered only after the reply of another is recorded.

    Members in `hanging` are never answered. `says` computes answers from the request and how often it was received.
    """

    make: Callable[[str], Team]
    after: Mapping[str, str] = field(default_factory=dict[str, str])
    hanging: Sequence[str] = ()
    says: Mapping[str, mixed_teams.Says] = field(default_factory=dict[str, mixed_teams.Says])
    attachments: Sequence[Attachment] = ()
    inbox: Sequence[Intervention] = ()
    """What people have sent before the run starts."""

    def team(self, url: str) -> Team:
        return self.make(url)

    def answer(self, request: ChatRequest, times: int) -> ChatAnswer:
        """The answer of the server; `times` counts the requests with this idempotency key."""
        says = self.says.get(request.model)
        return Say(text=says(request, times)) if says else answer(request)


def answer(request: ChatRequest) -> ChatAnswer:
    """The same answer to the same request. A model first calls two tools at once, then one, then answers."""
    if request.path == "/call":
        return Say(text=f"{request.model} says {request.digest}")
    if request.model == delegates.ASKS:
        return delegates.call_agents(request)
    if request.model == images.SEES:
        return images.draw_and_say(request)
    if request.model == delegates.HANDS_OFF:
        return delegates.hand_off(request)
    if request.model == mcp_team.WEIGHS:
        return mcp_team.weigh_and_say(request)
    match request_number(request):
        case 1:
            return CallTools(calls=(_look_up("one"), _look_up("two")))
        case 2:
            return CallTools(calls=(_look_up("three"),))
        case _:
            return Say(text=f"the model says {request.digest}")


def request_number(request: ChatRequest) -> int:
    """The number of a model request within its turn."""
    return 1 + sum(bool(one.tool_calls) for one in request.messages)


def _look_up(word: str) -> ToolCall:
    return ToolCall(name="look_up", args={"word": word})


def _sequential(url: str) -> Team:
    return Team("chain", members=http_members(url, "a b c"))


def _round_robin(url: str) -> Team:
    return Team("rounds", members=http_members(url, "a b"), strategy="round_robin", max_turns=2)


def _nested(url: str) -> Team:
    inner = Team("inner", members=[http_member(url, "b", calls=2), http_member(url, "c")], share="output")
    return Team("outer", members=[http_member(url, "a"), inner, http_member(url, "d")])


def _late(url: str) -> Team:
    """A nested team that its deadline stops, and that the others do without."""
    inner = Team("inner", members=http_members(url, "hanging"), limits=Limits(seconds=0.05), optional=True)
    return Team("outer", members=[http_member(url, "a"), inner, http_member(url, "d")])


def _branches(url: str) -> Team:
    """Three branches, two at a time; the last member receives the order in which they arrived."""
    program = ["seq", ["all", 2, ["ask", "a"], ["ask", "b"], ["seq", ["ask", "c"], ["claim", "it"]]], ["ask", "z"]]
    return program_team("branches", program, http_members(url, "a b c z"))


def _locks(url: str) -> Team:
    """The first arrival gets the lock first, and asks under it receive the earlier owners."""
    one = ["seq", ["ask", "a"], ["lock", ["seq", ["ask", "a2"], ["claim", "it"]]]]
    other = ["seq", ["ask", "b"], ["lock", ["seq", ["ask", "b2"], ["claim", "it"]]]]
    program = ["seq", ["all", 2, one, other], ["ask", "z"]]
    return program_team("locks", program, http_members(url, "a b a2 b2 z"))


def _first_wins(url: str) -> Team:
    """The first of three wins; one of the others is cancelled during its call, the other after its first."""
    program = [
        "seq",
        ["race", 1, ["ask", "slow"], ["seq", ["ask", "a"], ["ask", "slower"]], ["ask", "b"]],
        ["ask", "z"],
    ]
    return program_team("first-wins", program, http_members(url, "slow a slower b z"))


def _clock(url: str) -> Team:
    """Timers, random numbers, ids, and a deadline that a member misses."""
    late = ["seq", ["ask", "a"], ["hurry", 0.05, ["ask", "hanging"]]]
    program = ["seq", ["draw"], ["all", 2, ["seq", ["sleep", 0.02], ["draw"], ["ask", "b"]], late], ["ask", "z"]]
    return program_team("clock", program, http_members(url, "a b hanging z"))


def _model(url: str) -> Team:
    """A model agent that calls tools, two at once, between two plain members."""

    async def look_up(word: str, *, idempotency_key: str) -> str:
        """Look a word up."""
        return await post(url, f"tool-{word}", word, idempotency_key)

    agent = ModelAgent("modeller", model=ServerModel(url=f"{url.removesuffix('/call')}/v1", name="m"), tools=[look_up])
    return Team("with-tools", members=[http_member(url, "a"), agent, http_member(url, "z")])


def _selector(url: str) -> Team:
    """The selector's answers name no single member, so the choice falls back; edges leave one successor of b."""
    ways = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")]
    edges: list[JsonValue] = [{"from": one, "to": other} for one, other in ways]
    options: dict[str, JsonValue] = {"agent": "chair", "edges": edges}
    members, helpers = http_members(url, "a b c"), http_members(url, "chair")
    return Team("chosen", members=members, helpers=helpers, strategy="selector", max_turns=4, options=options)


def _graph(url: str) -> Team:
    """A loop of two iterations with a transformed task, and then the exit."""
    edges: list[JsonValue] = [
        {"from": "a", "to": "b", "when": "state.turns.a < 3", "task": "Go on from {{ text }}"},
        {"from": "a", "to": "z"},
        {"from": "b", "to": "a"},
    ]
    return Team("ways", members=http_members(url, "a b z"), strategy="graph", max_turns=9, options={"edges": edges})


def _fan_out(url: str) -> Team:
    """Three chunks for three workers, two at a time, and an aggregator."""
    options: dict[str, JsonValue] = {"chunks": ["one", {"two": 2}, "three"], "max_parallel": 2, "answer": "z"}
    return Team("chunks", members=http_members(url, "a b c z"), strategy="fan_out", options=options)


def _dag(url: str) -> Team:
    """A slow step, a branch that is taken, one that is skipped, and a step that needs them."""
    steps: list[JsonValue] = [
        {"id": "a"},
        {"id": "b"},
        {"id": "c", "needs": ["b"], "when": "outputs.b != ''"},
        {"id": "never", "agent": "c", "needs": ["b"], "when": "outputs.b == ''"},
        {"id": "z", "needs": ["a", "c", "never"]},
    ]
    return Team("steps", members=http_members(url, "a b c z"), strategy="dag", options={"steps": steps})


def _star_team(url: str) -> Team:
    """Two rounds; a step of the first is slow, so that the second begins before it has ended."""
    steps: list[JsonValue] = [
        {"id": "one", "owns": ["it"]},
        {"id": "two"},
        {"id": "three", "needs": ["two"], "owns": ["it"]},
        {"id": "four", "needs": ["one", "three"]},
    ]
    return Team("star", members=http_members(url, "lead a b"), strategy="star_team", options={"steps": steps})


def _mesh_team(url: str) -> Team:
    """Two rounds, after each of which both members receive each other's results."""
    steps: list[JsonValue] = [{"id": "one"}, {"id": "two"}, {"id": "three", "needs": ["two"]}]
    return Team("mesh", members=http_members(url, "lead a b"), strategy="mesh_team", options={"steps": steps})


def _degraded(url: str) -> Team:
    """A plan that is degraded at its first step, because its estimates are too high, and restored at the next."""
    ids = "abc"
    steps: list[JsonValue] = [{"id": one, "execution_tokens": 500_000} for one in ids]
    for before, step in zip(ids, steps[1:], strict=False):
        cast("dict[str, JsonValue]", step)["needs"] = [before]
    return Team(
        "savers",
        members=http_members(url, "a b c"),
        strategy="dag",
        options={"steps": steps},
        limits=Limits(tokens=1_000_000),
        degradation="aggressive",
    )


SCENARIOS: dict[str, Scenario] = {
    "sequential": Scenario(_sequential),
    "round_robin": Scenario(_round_robin),
    "nested": Scenario(_nested),
    "late": Scenario(_late, hanging=("hanging",)),
    "branches": Scenario(_branches, after={"a": "b", "c": "a"}),
    "locks": Scenario(_locks, after={"a": "b", "b2": "a"}),
    "first_wins": Scenario(_first_wins, after={"b": "a"}, hanging=("slow", "slower")),
    "clock": Scenario(_clock, after={"a": "b"}, hanging=("hanging",)),
    "model": Scenario(_model),
    "agent_tools": Scenario(delegates.agent_tools, after={"b": "c"}),
    "image": Scenario(images.image_team, attachments=(images.PHOTO,)),
    "handoffs": Scenario(delegates.handoffs),
    "mcp": Scenario(mcp_team.mcp_team),
    "selector": Scenario(_selector),
    "graph": Scenario(_graph),
    "fan_out": Scenario(_fan_out, after={"a": "b", "c": "a"}),
    "dag": Scenario(_dag, after={"c": "b", "a": "c"}),
    "owners": Scenario(mixed_teams.owners, after={"e": "a"}),
    "hierarchical": Scenario(mixed_teams.hierarchical, after={"a": "b"}, says={"boss": mixed_teams.decision}),
    "reactive": Scenario(mixed_teams.reactive, after={"b": "d"}, says={"bad": mixed_teams.refusal}),
    "recovery": Scenario(mixed_teams.recovery, says=mixed_teams.TROUBLES),
    "workspace": Scenario(mixed_teams.workspace, after={"a": "b", "x": "y"}),
    "mixed": Scenario(mixed_teams.mixed, after={"a": "b", "c": "a"}),
    "steered": Scenario(interventions.steered, inbox=interventions.SENT),
    "approvals": Scenario(approvals.approvals),
    "evaluated": Scenario(evaluations.evaluated, after={"a": "b"}, says=evaluations.SAYS),
    "degraded": Scenario(_degraded),
    "star_team": Scenario(_star_team, after={"a": "b"}),
    "mesh_team": Scenario(_mesh_team, after={"a": "b"}),
    "a2a_lite": Scenario(mixed_teams.a2a_lite, after={"a": "b"}, says=mixed_teams.HANDING),
}

if collaborations.ARE_INSTALLED:
    SCENARIOS["competition"] = Scenario(
        collaborations.competition, after={"b": "a", "slow": "z"}, says=collaborations.COMPETITION
    )
    SCENARIOS["fallback"] = Scenario(collaborations.fallback, after={"a": "c"}, says=collaborations.FALLBACK)
    SCENARIOS["live"] = Scenario(interventions.live, inbox=interventions.CHANGES)
    SCENARIOS["talking"] = Scenario(interventions.talking, inbox=interventions.SAID)
    SCENARIOS["collaborating"] = Scenario(interventions.collaborating, inbox=interventions.EDITS)
    SCENARIOS["crew"] = Scenario(interventions.crew, inbox=interventions.CHANGES)
    SCENARIOS["staff"] = Scenario(expert_teams.react, says=expert_teams.SAYS, inbox=interventions.STAFF)
    SCENARIOS["expert"] = Scenario(expert_teams.expert, says=expert_teams.SAYS, inbox=interventions.SAID)
    SCENARIOS["replan"] = Scenario(expert_teams.replanned, after={"bad": "a"}, says=expert_teams.REPLANS)
    SCENARIOS["react"] = Scenario(expert_teams.react, says=expert_teams.SAYS, inbox=interventions.SAID)
    SCENARIOS["dispatch"] = Scenario(
        expert_teams.dispatch, after={"a": "b"}, says={"bad": mixed_teams.refusal}, inbox=interventions.SAID
    )
