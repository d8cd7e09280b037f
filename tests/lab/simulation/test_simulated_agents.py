"""Simulated members: their replies, usage and failures, and that the settings of the real members are kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright import Agent, Context, Engine, FunctionAgent, Limits, ModelAgent, Reply, Team, Turn, load_team
from teamwright.agents.json_schema import check
from teamwright.history.kpis import turns_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab.simulation.simulated_agents import (
    RIGHT,
    USUAL_FUNCTION,
    USUAL_MEMBER,
    WRONG,
    FakeData,
    Learnt,
    SimulatedAgent,
    Simulator,
    declared_behaviour,
    pad_text,
)
from teamwright.strategies import Outcome, Task
from teamwright.strategies.fan_out import CHUNKS_SCHEMA as CHUNKS
from teamwright.strategies.hierarchical import Delegate, Hierarchical, Synthesize, decision_schema, read_decision
from teamwright.strategies.protocol import Members
from teamwright.strategies.reactive import REACTION_SCHEMA as REACTION, Reactive
from teamwright.strategies.selector import selection_schema
from teamwright.testing import AgentConformance
from teamwright.testing.virtual_loop import run_virtually, virtual_now
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.specs.manifest import AgentSpec, JsonSchema
from teamwright.values.specs.simulation import Simulation
from teamwright.values.turns.turn import Tier
from tests.kit.evaluators import WordEvaluator, words
from tests.kit.strategies import FunctionStrategy
from tests.lab.simulated_teams import constant, team_of
from tests.paths import EXAMPLES

Work = Callable[[Task, Members, Context], Awaitable[Outcome]]


def played(team: Team, behaviour: Simulation | None = None, seed: int = 1) -> list[Event]:
    """The record of one run in which all members behave so."""
    names = [agent.name for agent in team.everyone() if not isinstance(agent, Team)]
    made = Simulator(dict.fromkeys(names, behaviour) if behaviour else {}).team(team)

    async def main() -> list[Event]:
        journal = MemoryJournal()
        async with Engine(journal, wall=virtual_now, seed=lambda: seed) as engine:
            await engine.run(made, "go", run_id="r")
        return await journal.read("r")

    return run_virtually(main)


def member(name: str = "a", **more: object) -> ModelAgent:
    return ModelAgent(name, model="openai:x", **more)  # pyright: ignore[reportArgumentType]


def test_a_stand_in_keeps_all_that_the_engine_looks_at() -> None:
    real = member(
        description="Knows it.", capabilities=("law",), limits=Limits(tokens=5000), optional=True, too_long="fail",
        tools=["terminate"], timeout=7.0, max_tokens=99,
    )  # fmt: skip
    team = Simulator({}).team(Team("t", members=[real]))
    stand_in = team.members[0]
    assert isinstance(stand_in, SimulatedAgent)
    for field in ("name", "kind", "description", "capabilities"):
        assert getattr(stand_in, field) == getattr(real, field)
    for field in ("limits", "optional", "critical", "too_long"):
        assert getattr(stand_in.policy, field) == getattr(real.policy, field)
    assert stand_in.policy.can_terminate
    assert (stand_in.spec.timeout, stand_in.spec.max_tokens, stand_in.spec.model) == (7.0, 99, "openai:x")


def test_a_tight_budget_makes_simulated_members_fall_to_their_cheaper_model() -> None:
    best, dear, cheap = ({"model": "openai:x", "price": {"input": n, "output": n}} for n in (1000, 100, 1))
    spec = AgentSpec.model_validate({"model": dear, "economy": cheap, "stronger": best, "priority": -1})
    stand_in = SimulatedAgent("a", spec, constant(1000, 1.0))
    assert (stand_in.policy.economy, stand_in.policy.priority) == (spec.economy, -1)
    costs: list[float | None] = []
    for tier in ("primary", "economy", "stronger"):

        async def run(task: Task, members: Members, ctx: Context, tier: Tier = tier) -> Outcome:
            reply = await ctx.ask(stand_in, Turn(task.text, tier=tier), key="a")
            assert isinstance(reply, Reply)
            costs.append(reply.usage.usd)
            return Outcome()

        async def main(run: Work = run) -> None:
            async with Engine("memory", wall=virtual_now) as engine:
                await engine.run(Team("t", members=[stand_in], strategy=FunctionStrategy(run)), "go")

        run_virtually(main)
    assert costs == [0.1, 0.001, 1.0]


def test_the_real_team_is_left_as_it_is() -> None:
    inner = Team("inner", members=[member("b")])
    team = Team("t", members=[member("a"), inner])
    made = Simulator({}).team(team)
    assert [type(one).__name__ for one in team.members] == ["ModelAgent", "Team"]
    assert inner.members[0].kind == "model"
    assert isinstance(made.members[1], Team)
    assert isinstance(made.members[1].members[0], SimulatedAgent)


def test_one_agent_in_two_places_has_one_stand_in_and_fallbacks_have_theirs() -> None:
    other = member("other")
    first = member("first", fallback=other)
    made = Simulator({}).team(Team("t", members=[first, other]))
    assert isinstance(made.members[0], SimulatedAgent)
    assert made.members[0].policy.fallback is made.members[1]


def test_what_runs_taught_comes_before_what_is_declared_and_that_before_what_is_usual(tmp_path: Path) -> None:
    team = team_of(tmp_path)
    cast = Simulator(declared_behaviour(team), Learnt(members={"worker": Simulation(skill=0.33)}))
    lead, worker = cast.team(team).members
    assert isinstance(lead, SimulatedAgent)
    assert isinstance(worker, SimulatedAgent)
    assert (lead.simulation.skill, lead.simulation.output) == (0.9, 300.0)
    assert (worker.simulation.skill, worker.simulation.output, worker.simulation.error) == (
        0.33,
        300.0,
        {"rate_limit": 0.02},
    )
    assert worker.simulation.coordinate == USUAL_MEMBER.coordinate


def test_members_of_whom_nothing_is_known_behave_like_all_that_were_seen() -> None:
    made = Simulator({}, Learnt(everybody=Simulation(latency=1.5))).team(Team("t", members=[member()]))
    assert isinstance(made.members[0], SimulatedAgent)
    assert (made.members[0].simulation.latency, made.members[0].simulation.skill) == (1.5, USUAL_MEMBER.skill)


def test_functions_are_not_called_and_cost_nothing() -> None:
    def never(text: str) -> str:
        raise AssertionError("a simulation calls nobody")

    events = played(Team("t", members=[FunctionAgent("f", never)]))
    [turn] = turns_of(events)
    assert (turn.status, turn.usage.total_tokens, turn.ended, turn.marks) == ("passed", 0, 0.05, (RIGHT,))
    assert USUAL_FUNCTION.skill == 1.0


def test_tokens_are_counted_from_the_real_prompts() -> None:
    team = Team("t", members=[member("a"), member("b", instructions="x" * 400)])
    first, second = turns_of(played(team, Simulation(output=50.0, latency=1.0)))
    assert first.usage.output_tokens == second.usage.output_tokens == 50
    assert first.usage.input_tokens == 1
    assert second.usage.input_tokens == pytest.approx(100 + 50, abs=5)


def test_an_output_cap_cuts_what_a_member_says() -> None:
    [turn] = turns_of(played(Team("t", members=[member(max_tokens=20)]), Simulation(output=500.0)))
    assert turn.usage.output_tokens == 20


@pytest.mark.parametrize(("error", "seconds"), [("rate_limit", 0.2), ("timeout", 60.0), ("server", 0.2)])
def test_calls_fail_as_often_as_they_should_and_in_their_way(error: str, seconds: float) -> None:
    behaviour = constant(10, 1.0, error={error: 0.5})
    failed, back = 0, 0
    for seed in range(60):
        for event in played(Team("t", members=[member()]), behaviour, seed):
            failed += isinstance(event.fact, AgentCallFailed)
            back += isinstance(event.fact, AgentReturned)
            if isinstance(event.fact, AgentCallFailed):
                assert (event.fact.error, event.time >= seconds) == (error, True)
    assert failed / (failed + back) == pytest.approx(0.5, abs=0.15)


def test_a_member_that_may_ends_its_team_as_often_as_it_says() -> None:
    team = Team("t", members=[member("a", tools=["terminate"]), member("b")], strategy="round_robin", max_turns=10)
    assert len(turns_of(played(team, constant(10, 1.0, terminate=1.0)))) == 1
    assert len(turns_of(played(team, constant(10, 1.0)))) == 2 * 10


@given(st.integers(0, 2000), st.text(max_size=80))
def test_a_text_is_as_long_as_its_tokens_and_keeps_its_beginning(tokens: int, beginning: str) -> None:
    text = pad_text(beginning, tokens)
    assert text.startswith(beginning)
    assert len(text) == max(len(beginning), 4 * tokens)


def test_an_orchestrator_delegates_to_all_members_and_then_answers() -> None:
    schema = decision_schema(["a", "b"])
    turns = [Turn("Go.", number=number, output_schema=schema) for number in (1, 2)]
    made = [Hierarchical().example_reply(turn) for turn in turns]
    first, second = (read_decision(Reply.of("x", "", data=data), ["a", "b"], 20) for data in made)
    assert isinstance(first, Delegate)
    assert [one.specialist for one in first.delegations] == ["a", "b"]
    assert isinstance(second, Synthesize)


def test_a_strategy_makes_up_no_reply_in_a_form_that_is_not_its_own() -> None:
    forms: list[JsonSchema | None] = [None, {"type": "object"}, selection_schema(["a"]), {"properties": {"items": []}}]
    for schema in forms:
        turn = Turn("Go.", output_schema=schema)
        assert Hierarchical().example_reply(turn) is None
        assert Reactive().example_reply(turn) is None
    assert Reactive().example_reply(Turn("Go.", output_schema=REACTION)) == {"events": []}


VERDICT = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["PASS", "REVISE"]},
        "score": {"type": "number", "minimum": 0, "maximum": 10},
        "good": {"type": "boolean"},
        "notes": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "same": {"const": 3},
        "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["verdict", "score", "good", "notes", "same", "either"],
}


@pytest.mark.parametrize(
    "schema", [selection_schema(["a", "b"]), CHUNKS, VERDICT], ids=["selection", "chunks", "verdict"]
)
@pytest.mark.parametrize("right", [True, False])
def test_made_up_data_fits_its_schema(schema: dict[str, object], right: bool) -> None:
    made = FakeData(USUAL_MEMBER, right, Random(3)).matching(schema)  # pyright: ignore[reportArgumentType]
    check(schema, made, "it")


def test_a_verdict_is_what_being_right_or_wrong_means() -> None:
    good = FakeData(USUAL_MEMBER, True, Random(1)).matching(VERDICT)  # pyright: ignore[reportArgumentType]
    bad = FakeData(USUAL_MEMBER, False, Random(1)).matching(VERDICT)  # pyright: ignore[reportArgumentType]
    assert isinstance(good, dict)
    assert isinstance(bad, dict)
    assert (good["verdict"], good["score"], good["good"]) == ("PASS", 10, True)
    assert (bad["verdict"], bad["score"], bad["good"]) == ("REVISE", 0, False)


def test_every_strategy_of_the_examples_can_be_simulated() -> None:
    folder = EXAMPLES
    for name in (
        "sequential",
        "round_robin",
        "selector",
        "graph",
        "fan_out",
        "dag",
        "hierarchical",
        "reactive",
        "simulation",
    ):
        events = played(load_team(folder / name / "team.yaml"))
        assert events[-1].kind in {"run.ended", "run.paused"}, name
        assert {mark for turn in turns_of(events) for mark in turn.marks} <= {RIGHT, WRONG}


def test_a_simulation_evaluates_nothing() -> None:  # its checks are programs and functions of the user
    steps: list[JsonValue] = [{"id": "a", "evaluate": words().model_dump(mode="json", exclude_unset=True)}]
    member = FunctionAgent("a", lambda text: text, evaluate=WordEvaluator(words()))
    team = Team("t", members=[member], strategy="dag", options={"steps": steps}, evaluate=WordEvaluator(words()))
    simulated = Simulator({}).team(team)
    assert simulated.policy.evaluate is None
    assert simulated.members[0].policy.evaluate is None
    assert "evaluate" not in str(simulated.settings.options)
    assert team.policy.evaluate is not None


class TestSimulatedAgent(AgentConformance):
    def make(self) -> Agent:
        behaviour = USUAL_MEMBER.model_copy(update={"latency": 0.0, "skill": 1.0})
        return SimulatedAgent("sim", AgentSpec(description="Simulated."), behaviour)
