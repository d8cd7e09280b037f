"""Presets are names with defaults: they have no code, and the engine never asks for the name of one."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.errors import UsageError
from teamwright.strategies.plan.engine import PlanStrategy
from teamwright.strategies.plan.options import PlanOptions, options_with
from teamwright.strategies.registry import find_strategy, strategy_names
from tests.kit.evaluators import words
from tests.paths import ROOT

ENGINE = ROOT / "src" / "teamwright" / "strategies" / "plan"
PRESETS = [
    name
    for name in strategy_names()
    if isinstance(one := find_strategy(name), PlanStrategy) and type(one) is not PlanStrategy
]
AHEAD = [
    name for name in PRESETS if isinstance(one := find_strategy(name), PlanStrategy) and one.options().decide == "ahead"
]
ALLOWED = {"name", "options", "share", "peers", "_abc_impl"}
LONGEST = 40
WORDS = {"expert"}
"""Names of presets that the code also uses as words: an expert may propose a change of the plan."""


def test_the_known_teams_are_presets() -> None:
    assert {"dag", "single", "lead_subagent", "star_team", "mesh_team"} <= {*PRESETS}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_defaults_and_has_no_code(name: str) -> None:
    preset = find_strategy(name)
    assert isinstance(preset, PlanStrategy)
    kind = type(preset)
    assert {one for one in vars(kind) if not one.startswith("__")} <= ALLOWED
    assert len(inspect.getsource(kind).splitlines()) <= LONGEST
    assert preset.options.model_fields.keys() == PlanOptions.model_fields.keys()


@pytest.mark.parametrize("file", sorted(ENGINE.glob("*.py")), ids=lambda file: file.name)
def test_the_engine_never_reads_the_name_of_a_preset(file: Path) -> None:
    if file.name == "presets.py":
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    compared = [one for node in ast.walk(tree) if isinstance(node, ast.Compare) for one in ast.walk(node)]
    compared += [one for node in ast.walk(tree) if isinstance(node, ast.match_case) for one in ast.walk(node.pattern)]
    texts = {one.value for one in compared if isinstance(one, ast.Constant)}
    assert not texts & ({*PRESETS} - WORDS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_does_the_same_under_another_name(name: str) -> None:
    preset = find_strategy(name)
    assert isinstance(preset, PlanStrategy)
    renamed = type("Renamed", (type(preset),), {"name": "renamed"})()
    assert worked(preset) == worked(renamed)


def worked(preset: PlanStrategy) -> list[tuple[str, str, str]]:
    """What happens in a team of a preset: its facts and their places, in no order, since members work side by side."""

    async def recorded() -> list[tuple[str, str, str]]:
        members = [FunctionAgent(name, answer) for name in ("ada", "ben", "cem")]
        steps = {} if preset.options().decide == "stepwise" else {"steps": [{"id": "ben"}, {"id": "cem"}]}
        team = Team("t", members=members, strategy=preset, options=steps)  # type: ignore[arg-type]
        async with Engine("memory") as engine:
            await engine.run(team, "Go.", run_id="r")
            events = (await engine.runs.history("r")).events
            return sorted((one.key, one.fact.kind, one.scope) for one in events)

    return anyio.run(recorded)


def answer(turn: Turn) -> object:
    """Answer as a worker, or decide as a lead."""
    if turn.output_schema is None:
        return f"done {turn.number}"
    return {"action": "answer" if "done" in str(turn.history) else "work", "steps": [{"id": "x", "role": "ben"}]}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_takes_the_same_changes_by_people(name: str) -> None:
    assert {"edit_plan", "add_member", "remove_member"} <= {*find_strategy(name).interventions}


class Patient(PlanStrategy):
    """Tries each step again as a manifest would say it."""

    name = "patient"
    options = options_with("PatientOptions", on_failure=["retry"] * 3)


class Confused(PlanStrategy):
    """Has a default that does not fit."""

    name = "confused"
    options = options_with("ConfusedOptions", timeout=-1)


def test_the_defaults_of_a_preset_are_checked_as_settings_are() -> None:
    members = [FunctionAgent("a", lambda turn: "done")]
    team = Team("t", members=members, strategy=Patient())
    ladder = team.settings.read(Patient.options).ladder
    assert ladder is not None
    assert ladder.attempts == ("retry",) * 3
    with pytest.raises(UsageError, match="must be more than 0"):
        Team("t", members=members, strategy=Confused())
    with pytest.raises(UsageError, match="A plan has no setting 'retries'"):
        options_with("OtherOptions", retries=3)


def test_a_lead_that_answers_does_not_judge_all_work() -> None:
    review: JsonValue = {"judge": "a", "criteria": [{"id": "good", "judge": "Is it good?"}]}
    members = [FunctionAgent(name, lambda turn: "done") for name in ("a", "b")]
    options: dict[str, JsonValue] = {"lead": "a", "answer": "lead", "steps": [{"id": "b"}], "evaluate": review}
    with pytest.raises(UsageError, match="'a' would judge its own work"):
        Team("t", members=members, strategy="plan", options=options)


REVIEW: JsonValue = words(judge="a").model_dump(mode="json", exclude_unset=True)
POOLS: list[dict[str, JsonValue]] = [
    {"pool": True, "lead": "c"},
    {"pool": ["a", "b"], "lead": "c"},
    {"pool": "first", "lead": "c"},
]


@pytest.mark.parametrize("pool", POOLS, ids=str)
@pytest.mark.parametrize("name", AHEAD)
def test_no_preset_lets_one_who_may_work_on_a_step_judge_it(name: str, pool: dict[str, JsonValue]) -> None:
    step: JsonValue = {"id": "x", "evaluate": REVIEW}
    members = [FunctionAgent(one, lambda turn: "done") for one in ("a", "b", "c")]
    with pytest.raises(UsageError, match="the step 'x': 'a' would judge its own work; name another judge"):
        Team("t", members=members, strategy=name, options={**pool, "steps": [step]})
    fine: dict[str, JsonValue] = {**pool, "pool": ["b"], "steps": [step]}
    assert Team("t", members=members, strategy=name, options=fine)


def test_a_judge_of_a_pool_may_have_the_name_of_a_step_and_does_not_work_on_it() -> None:
    asked: list[str] = []

    async def recorded() -> None:
        members = [FunctionAgent(one, lambda turn, one=one: asked.append(one) or "good") for one in ("b", "c")]
        judge = FunctionAgent("a", lambda turn: asked.append("a") or "good")
        step: JsonValue = {"id": "a", "evaluate": REVIEW}
        team = Team("t", members=members, helpers=[judge], strategy="dag", options={"pool": True, "steps": [step]})
        async with Engine("memory") as engine:
            await engine.run(team, "Go.")

    anyio.run(recorded)
    assert asked == ["b"]


def test_a_lead_plans_no_work_for_a_member_that_judges_all_of_it() -> None:
    schemas: list[str] = []

    async def recorded() -> None:
        def lead(turn: Turn) -> object:
            schemas.append(str(turn.output_schema or ""))
            return {"steps": [{"id": "x", "role": "b", "task": "Do it."}]} if turn.output_schema else "Done."

        members = [FunctionAgent("boss", lead), *(FunctionAgent(one, lambda turn: "good") for one in "ab")]
        team = Team("t", members=members, strategy="plan", options={"lead": "boss", "evaluate": REVIEW})
        async with Engine("memory") as engine:
            assert (await engine.run(team, "Go.")).status == "completed"

    anyio.run(recorded)
    assert "'enum': ['b']" in schemas[0]


def test_a_judge_of_all_work_that_a_lead_gives_to_a_pool_is_not_of_the_pool() -> None:
    members = [FunctionAgent(name, lambda turn: "done") for name in ("a", "b", "boss")]
    options: dict[str, JsonValue] = {"lead": "boss", "pool": True, "evaluate": REVIEW}
    with pytest.raises(UsageError, match="'a' would judge its own work; name another judge, or list those who work"):
        Team("t", members=members, strategy="plan", options=options)
    assert Team("t", members=members, strategy="plan", options={**options, "pool": ["b"]})


async def test_no_judge_of_a_step_takes_it_over_from_a_member_that_failed() -> None:
    asked: list[str] = []

    def fail(turn: Turn) -> str:
        asked.append("b")
        raise ValueError("no")

    members = [FunctionAgent("a", lambda turn: asked.append("a") or "good"), FunctionAgent("b", fail)]
    options: dict[str, JsonValue] = {
        "pool": True,
        "on_failure": ["other_member", "upgrade_model", "downgrade_model", "skip_step"],
        "steps": [{"id": "b", "evaluate": REVIEW}],
    }
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=members, strategy="plan", options=options), "Go.")
    assert "a" not in asked


MISTAKES: list[tuple[dict[str, JsonValue], str]] = [
    ({"pool": []}, "pool: is empty; list members, write  true"),
    ({"pool": ["z"]}, "pool.0: 'z' is not a member; known are a, b"),
    ({"lead": "z"}, "lead: 'z' is neither a member nor a helper; known are a, b"),
    ({"answer": "z"}, "answer: there is no step 'z'; known are a"),
    ({"replans": 2}, "replans: is not a field here (write  on_failure: [replan])"),
    ({"decide": "stepwise"}, "decide: the plan is either fixed in  steps  or decided  stepwise; remove one"),
    ({"lead": "a", "pool": ["a"]}, "pool: 'a' leads, so others have to work: list them, or name another  lead"),
    ({"on_failure": [{"finish": "z"}]}, "on_failure.0.finish: 'z' is neither a member nor a helper"),
    ({"planner": "a"}, "planner: is not a field here (write  lead)"),
    ({"confirm_plan": True}, "confirm_plan: is not a field here (write  confirm)"),
    ({"polo": True}, "polo: is not a field here (did you mean 'pool'?)"),
    ({"steps": [{"id": "a", "after": ["b"]}]}, "steps.0.after: is not a field here (write  needs)"),
    ({"steps": [{"id": "a", "task": "{{ variables.x }}"}]}, "the step 'a' reads variables.x, which is not set; add it"),
    (
        {"variables": {"city": 1}, "steps": [{"id": "a", "when": "variables.ctiy == 1"}]},
        "the step 'a' reads variables.ctiy, which is not set; did you mean 'city'?",
    ),
]


@pytest.mark.parametrize(("wrong", "said"), MISTAKES, ids=lambda one: str(one)[:40])
def test_a_mistake_in_the_settings_names_the_setting_and_the_remedy(wrong: dict[str, JsonValue], said: str) -> None:
    members = [FunctionAgent(name, lambda turn: "done") for name in ("a", "b")]
    with pytest.raises(UsageError) as caught:
        Team("t", members=members, strategy="plan", options={"steps": [{"id": "a"}], **wrong})
    assert said in str(caught.value)


def test_a_variable_that_is_missing_may_have_a_default() -> None:
    step: JsonValue = {"id": "a", "task": "{{ variables.x | default('none') }}"}
    assert Team("t", members=[FunctionAgent("a", lambda turn: "done")], strategy="plan", options={"steps": [step]})
