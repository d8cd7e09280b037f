"""The shape of a team is chosen for its plan, and the choice runs, is recorded and is not made again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from pydantic import JsonValue

from teamwright import Engine, load_team
from teamwright.errors import PlanError, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab import advise
from teamwright.lab.auto_topology import auto_source, auto_team, choose, orchestrate, plan_of, settings_for
from teamwright.lab.topology_decision import OwnRuns
from teamwright.lab.topology_model import TOPOLOGIES, EvaluationSettings, Topology, evaluate
from teamwright.strategies.plan.schedule import envelopes_tokens, validate_schedule
from teamwright.strategies.plan.schedule_maker import PlannerSettings, prepare
from teamwright.teams.team_loader import read_manifest, source_of, team_from_source
from teamwright.values.events.team import TeamPlanned
from teamwright.values.limits import Limits
from teamwright.values.specs.manifest import TeamSpec
from teamwright.values.specs.plan import Plan, Step
from tests.kit.members import FakeMembers
from tests.kit.records import cut
from tests.kit.runs import RUN_ID, TASK, run
from tests.paths import EXAMPLES
from tests.strategies.plan.plans import plan, plans

ONE_AGENT_WAS_BETTER: dict[Topology, OwnRuns] = {
    "single": OwnRuns(900, 900, TOPOLOGIES["single"]._replace(pass_rate=0.99)),
    "star_team": OwnRuns(900, 900, TOPOLOGIES["star_team"]._replace(pass_rate=0.1)),
    "lead_subagent": OwnRuns(900, 900, TOPOLOGIES["lead_subagent"]._replace(pass_rate=0.1)),
}
LARGE = Plan(steps=tuple(Step(id=f"s{number}", execution_tokens=1400) for number in range(24)))
NAMES = ("lead", "a", "b", "c", "d")


def test_the_usual_work_is_for_a_star_as_wide_as_the_model_says() -> None:  # Z-09
    chosen = choose(LARGE, NAMES)
    assert chosen.topology == "star_team"
    assert chosen.options["lead"] == "lead"
    assert chosen.options["max_parallel"] == 4
    assert chosen.options["run_budget"] == 24 * 1400 + 24 * 20
    assert chosen.options["coordination_floor"] == 10
    assert chosen.reason.startswith("the best balanced score (0.")
    assert "out of single, lead_subagent, star_team, mesh_team" in chosen.reason


@pytest.mark.parametrize(
    ("members", "named", "expected"),
    [
        (1, 0, ("single",)),
        (1, 1, ("single",)),
        (2, 0, ("single", "lead_subagent")),
        (2, 2, ("star_team",)),
        (3, 1, ("single", "lead_subagent", "star_team", "mesh_team")),
        (3, 2, ("star_team", "mesh_team")),
    ],
)
def test_only_shapes_that_can_be_made_of_the_members_are_considered(
    members: int, named: int, expected: tuple[str, ...]
) -> None:  # Z-09
    names = NAMES[:members]
    steps = (Step(id=f"s{number}", agent=names[number] if number < named else None) for number in range(3))
    assert choose(Plan(steps=tuple(steps)), names).bundle.evaluation.settings.topologies == expected


def test_a_shape_that_is_asked_for_and_cannot_be_made_is_refused_with_those_that_can() -> None:
    with pytest.raises(UsageError, match=r"mesh_team: not possible with 2 members, .* possible: single, lead_subagent"):
        choose(LARGE, NAMES[:2], EvaluationSettings(topologies=("mesh_team",)))


def test_the_unnamed_member_leads_and_settings_of_the_caller_hold() -> None:
    plan = Plan(steps=(Step(id="x", agent="lead"), Step(id="y", agent="a"), Step(id="z")))
    wanted = EvaluationSettings(topologies=("star_team",))
    assert choose(plan, NAMES, wanted).options["lead"] == "b"
    narrow = choose(plan, NAMES, wanted, planner=PlannerSettings(max_parallel=1, run_budget=77), lead="d").options
    assert (narrow["lead"], narrow["max_parallel"], narrow["run_budget"]) == ("d", 1, 77)


ALL_BY_B = Plan(steps=(Step(id="x", agent="b"), Step(id="y", agent="b"), Step(id="z")))


@pytest.mark.parametrize(
    ("topology", "who", "asked"),
    [("single", {"pool": ["b"]}, {"b"}), ("lead_subagent", {"lead": "lead", "pool": ["b"]}, {"lead", "b"})],
)
async def test_where_steps_name_one_member_that_member_works(
    topology: Topology, who: dict[str, str], asked: set[str]
) -> None:  # Z-09
    fakes = FakeMembers()
    team = auto_team(ALL_BY_B, fakes.members("lead a b"), EvaluationSettings(topologies=(topology,)))
    assert {name: value for name, value in team.settings.options.items() if name in ("pool", "lead")} == who
    result, _ = await run(team)
    assert (result.status, set(fakes.calls)) == ("completed", asked)
    assert {name for name, turn in fakes.received if turn.purpose == "work"} == {"b"}


def test_whom_steps_name_does_not_work_for_itself() -> None:  # Z-09
    chosen = choose(ALL_BY_B, NAMES, lead="b")
    assert chosen.bundle.evaluation.settings.topologies == ("single", "star_team", "mesh_team")
    with pytest.raises(UsageError, match=r"lead_subagent: not possible .* 'b' as the lead; possible: single, star"):
        choose(ALL_BY_B, NAMES, EvaluationSettings(topologies=("lead_subagent",)), lead="b")


async def test_a_chosen_team_runs_and_its_record_holds_the_choice() -> None:  # Z-09
    fakes = FakeMembers()
    team = auto_team(LARGE, fakes.members(" ".join(NAMES)))
    result, events = await run(team)
    assert result.status == "completed"
    planned = next(event.fact for event in events if isinstance(event.fact, TeamPlanned))
    assert (planned.topology, planned.width, planned.rounds) == ("star_team", 4, 6)
    assert planned.reason.startswith("the best balanced score")
    assert fakes.most_in_flight <= 4
    assert team.source.bundle is not None
    assert team.source.bundle["planner_settings"] == {
        "max_parallel": 4, "run_budget": 34080, "coordination_floor": 10,
    }  # fmt: skip


async def test_a_run_of_a_chosen_team_is_made_again_from_its_record() -> None:
    source, chosen = auto_source(source_of(read_manifest([EXAMPLES / "topologies"])))
    async with Engine("memory") as engine:
        result = await engine.run(team_from_source(source), TASK, run_id="auto")
        history = await engine.runs.history("auto")
        again = await engine.fork("auto", at=3, new_id="again")
    assert result.status == again.status == "completed"
    assert result.output == again.output
    recorded = history.manifest
    assert isinstance(recorded, dict)
    assert recorded["bundle"] == chosen.bundle.to_json()


def test_own_runs_are_considered_in_python_too() -> None:
    members = FakeMembers().members(" ".join(NAMES))
    assert auto_team(LARGE, members).strategy.name == "star_team"
    assert auto_team(LARGE, members, own_runs=ONE_AGENT_WAS_BETTER).strategy.name == "single"


@given(plans())
def test_advice_and_the_choice_for_a_plan_are_one_decision(plan: Plan) -> None:
    team = auto_team(plan, FakeMembers().members(" ".join(NAMES)), EvaluationSettings(topologies=("star_team",)))
    assert advise(team, "x").recommended == choose(plan, NAMES, lead="lead").topology


async def test_a_resumed_run_keeps_its_topology_though_another_would_be_chosen_now(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: done}]\n", encoding="utf-8")
    steps = ", ".join(f"{{id: s{number}, execution_tokens: 1400}}" for number in range(24))
    agents = ", ".join(f"{name}: {{model: scripted:replies.yaml}}" for name in NAMES)
    (tmp_path / "tasks.yaml").write_text(f"tasks: [{steps}]\nagents: {{{agents}}}\n", encoding="utf-8")
    plain = source_of(read_manifest([tmp_path / "tasks.yaml"]))
    source, chosen = auto_source(plain)
    _, now = auto_source(plain, own_runs=ONE_AGENT_WAS_BETTER)
    assert (chosen.topology, now.topology) == ("star_team", "single")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(team_from_source(source), TASK, run_id=RUN_ID)
    shorter = await cut(journal, 10)
    async with Engine(shorter) as engine:
        resumed = await engine.resume(RUN_ID)
    assert resumed.output == whole.output
    facts = [event.fact for event in await shorter.read(RUN_ID)]
    planned = {(fact.topology, fact.reason) for fact in facts if isinstance(fact, TeamPlanned)}
    assert planned == {("star_team", chosen.reason)}


def test_teams_without_steps_have_no_plan() -> None:
    assert plan_of(TeamSpec(members=("a",))) is None
    source = source_of(read_manifest([EXAMPLES / "sequential"]))
    with pytest.raises(UsageError, match="works by the strategy 'sequential', so its steps are not known beforehand"):
        auto_source(source)


@pytest.mark.parametrize("said", [{"on_failure": "collect"}, {"on_failure": "cancel"}])
def test_what_a_dag_team_says_about_failures_and_limits_stays(said: dict[str, JsonValue]) -> None:
    source = source_of(read_manifest([EXAMPLES / "dag"]))
    fair = source.manifest.teams["fair"]
    strict = fair.model_copy(update={"options": {**fair.options, **said}, "limits": Limits(tokens=9000)})
    manifest = source.manifest.model_copy(update={"teams": {"fair": strict}})
    made, chosen = auto_source(source.model_copy(update={"manifest": manifest}))
    team = made.manifest.teams["fair"]
    assert team.strategy == chosen.topology == "star_team"
    assert team.members == fair.members
    assert {name: team.options[name] for name in said} == said
    assert team.limits == Limits(tokens=9000)
    assert load_team(EXAMPLES / "dag").settings.share == "transcript"
    assert team.share is None


def test_tasks_without_agents_are_for_a_star_of_all_agents(tmp_path: Path) -> None:  # Z-13
    (tmp_path / "tasks.yaml").write_text("tasks: [{id: x}, {id: y, needs: [x]}]\n")
    for names, strategy in (("a", "single"), ("a b c", "star_team")):
        agents = "".join(f"  {name}: {{model: scripted:replies.yaml}}\n" for name in names.split())
        (tmp_path / "agents.yaml").write_text(f"agents:\n{agents}")
        (tmp_path / "replies.yaml").write_text("rules: [{reply: done}]\n")
        team = load_team(tmp_path / "tasks.yaml", tmp_path / "agents.yaml")
        assert team.strategy.name == strategy
        assert [member.name for member in team.members] == names.split()


FOUR = Plan(
    steps=(
        Step(id="A", owns=("core",), execution_tokens=1200, coordination_tokens=20),
        Step(id="B", needs=("A",), owns=("module-x",), execution_tokens=1000, coordination_tokens=20),
        Step(id="C", needs=("A",), owns=("module-y",), execution_tokens=900, coordination_tokens=20),
        Step(id="D", needs=("B", "C"), owns=("api",), execution_tokens=800, coordination_tokens=20),
    )
)


def test_a_bundle_holds_the_choice_and_all_that_follows_from_it() -> None:  # Z-09
    bundle = orchestrate(FOUR, EvaluationSettings(), run_id="run-e2e")
    assert bundle.evaluation == evaluate(EvaluationSettings())
    assert bundle.evaluation.chosen.topology == "star_team"
    prepared = bundle.prepared
    assert prepared.settings == PlannerSettings(max_parallel=4, run_budget=3980, coordination_floor=10)
    assert [batch.tasks for batch in prepared.schedule.batches] == [("A",), ("B", "C"), ("D",)]
    assert prepared.diagnostics.critical_path == ("A", "B", "D")
    assert {envelope.run_id for envelope in prepared.envelopes} == {"run-e2e"}
    assert prepared.envelope_tokens == envelopes_tokens(prepared.envelopes)


def test_the_data_of_a_bundle_is_that_of_the_schedule_with_two_parts_more() -> None:  # Z-09
    bundle = orchestrate(FOUR)
    own = ["order", "batches", "budgets", "total_tokens", "diagnostics", "envelopes", "envelope_tokens"]
    assert list(bundle.prepared.to_json()) == own
    assert list(bundle.to_json()) == [*own, "evaluation", "planner_settings"]


def test_without_settings_the_topologies_are_evaluated_for_this_plan() -> None:
    assert (settings_for(FOUR).tasks, settings_for(FOUR).average_tokens) == (4, 975)
    assert settings_for(plan(a="", b="")).average_tokens == EvaluationSettings().average_tokens
    assert orchestrate(FOUR).evaluation == evaluate(settings_for(FOUR))


def test_what_the_caller_sets_stands() -> None:
    narrow = orchestrate(FOUR, planner=PlannerSettings(max_parallel=1)).prepared
    assert narrow.settings.max_parallel == narrow.diagnostics.max_parallelism == 1
    assert narrow.settings.coordination_floor == 10


def test_a_plan_with_faults_is_refused() -> None:
    with pytest.raises(PlanError, match="circle"):
        orchestrate(plan(a="b", b="a"))


@given(plans())
def test_every_plan_can_be_orchestrated_and_always_the_same_way(plan: Plan) -> None:  # Z-09
    bundle = orchestrate(plan)
    assert validate_schedule(bundle.prepared.schedule, plan) == []
    assert bundle.to_json() == orchestrate(plan).to_json()
    assert prepare(plan, bundle.prepared.settings) == bundle.prepared
