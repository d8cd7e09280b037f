"""`teamwright plan`: its JSON, table and diagram, and mistakes that are reported first."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from teamwright.strategies.plan.schedule_maker import PlannerSettings, make_schedule
from teamwright.teams.manifests.plans import read_plan
from tests.kit.terminal import Call
from tests.paths import EXAMPLES

TASKS = EXAMPLES / "plan" / "tasks.yaml"
PARTS = ["order", "batches", "budgets", "total_tokens", "diagnostics", "envelopes", "envelope_tokens"]


def test_the_json_has_the_agreed_fields(call: Call) -> None:  # Z-05, Z-06, Z-07, Z-08
    done = call("plan", TASKS, "--at-once", 3, "--max-tokens", 400, "--json")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == PARTS
    assert [list(batch) for batch in done.json["batches"]] == [["index", "tasks", "locks", "tokens"]] * 5
    assert [list(budget) for budget in done.json["budgets"]] == [["task", "execution", "coordination"]] * 7
    assert done.json["total_tokens"] == 400
    assert done.json["diagnostics"]["critical_path"] == ["graph", "order", "batches", "check"]
    read = read_plan(TASKS)
    assert read is not None
    schedule = make_schedule(read, PlannerSettings(max_parallel=3, run_budget=400))
    assert {name: done.json[name] for name in PARTS[:4]} == schedule.to_json()


def test_two_tasks_that_own_one_file_are_never_side_by_side(call: Call) -> None:  # Z-05
    batches = [batch["tasks"] for batch in call("plan", TASKS, "--json").json["batches"]]
    assert batches == [["graph"], ["order", "budgets"], ["batches"], ["check", "handoffs"], ["figures"]]


@pytest.mark.lab
def test_a_bundle_adds_the_evaluation_and_the_planners_settings(call: Call) -> None:  # Z-09
    done = call("plan", TASKS, "--topology", "auto", "--json").json
    assert list(done) == [*PARTS, "evaluation", "planner_settings"]
    assert done["planner_settings"] == {"max_parallel": 4, "run_budget": 330 + 7 * 20, "coordination_floor": 10}
    assert done["evaluation"]["recommendation"]["topology"] == "star_team"
    assert [one["topology"] for one in done["evaluation"]["evaluations"]] == [
        "single", "lead_subagent", "star_team", "mesh_team",
    ]  # fmt: skip
    named = call("plan", TASKS, "--topology", "mesh", "--json").json["evaluation"]
    assert named["recommendation"]["topology"] == "mesh_team"
    assert call("plan", TASKS, "--topology", "ring").code == 2
    own = call("plan", TASKS, "--topology", "auto", "--json", "--at-once", 1, "--max-tokens", 350).json
    assert own["planner_settings"] == {"max_parallel": 1, "run_budget": 350, "coordination_floor": 10}
    assert own["diagnostics"]["max_parallelism"] == 1


def test_without_json_there_is_a_table_and_a_drawing(call: Call) -> None:
    lines = call("plan", TASKS, "--at-once", 3, "--max-tokens", 400).out.splitlines()
    assert lines[0].startswith("7 tasks in 5 batches, at most 2 at once and 1.4 on average · 400 of 400 tokens")
    assert lines[2].split() == ["BATCH", "TASK", "AGENT", "NEEDS", "OWNS", "WORK", "TALK", "WHAT"]
    assert lines[6].split()[:8] == ["2", "batches", "coder", "order,", "budgets", "planner/batch*.py", "70", "12"]
    drawn = [line for line in lines if "◆" in line or "●" in line]
    assert [line.split("  ")[1].strip() for line in drawn[:2]] == ["◆ graph", "◆ order"]
    assert lines[-2] == "◆ critical path, 4 steps: graph → order → batches → check"
    assert lines[-1].startswith("5 envelopes to the workers, about")


@pytest.mark.lab
def test_a_bundle_says_why_its_topology_was_taken(call: Call) -> None:
    lines = call("plan", TASKS, "--topology", "auto").out.splitlines()
    assert lines[0] == "7 tasks of about 47 tokens, mixed work, medium budget, a2a_lite"
    assert [line.split()[0] for line in lines[2:6]] == ["single", "lead_subagent", "star_team", "mesh_team"]
    assert lines[6] == "star_team: the best by balanced score, of all, because none passes its gates"
    assert max(map(cell_len, lines[:7])) <= 80


def test_the_result_may_go_to_a_file(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    done = call("plan", TASKS, "--json", "--out", file)
    assert (done.code, done.out) == (0, "")
    assert file.read_text() == call("plan", TASKS, "--json").out


def test_a_dag_team_brings_its_steps_and_its_width(call: Call) -> None:
    done = call("plan", EXAMPLES / "dag", "Shall we hold the fair?")
    assert done.code == 0
    assert "Shall we hold the fair?" in done.out
    planned = call("plan", EXAMPLES / "dag", "--json").json
    assert [batch["tasks"] for batch in planned["batches"]] == [
        ["forecast", "ground"],
        ["tents", "shade"],
        ["decision"],
    ]


def test_a_dag_team_brings_all_that_its_steps_say(call: Call, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(
        "agents: {ann: {model: local}}\n"
        "teams:\n"
        "  one: {strategy: dag, members: [ann], dag: {steps: [\n"
        "    {id: a, agent: ann, owns: [src], execution_tokens: 7}, {id: b, agent: ann, owns: [src/x.py]}]}}\n"
    )
    planned = call("plan", tmp_path / "team.yaml", "--json").json
    assert [batch["locks"] for batch in planned["batches"]] == [["src"], ["src/x.py"]]
    assert planned["budgets"][0]["execution"] == 7


def test_a_file_of_tasks_and_agents_can_be_planned(call: Call) -> None:
    alone = call("plan", TASKS, "--json").json
    assert call("plan", EXAMPLES / "plan", "--json").json == alone
    assert call("plan", TASKS, "--with", EXAMPLES / "plan" / "agents.yaml", "--json").json == alone


ONE_AT_A_TIME = """\
agents: {ann: {model: local}, bob: {model: local}}
teams:
  pair: {strategy: dag, members: [ann, bob], dag: {max_parallel: 1, steps: [{id: ann}, {id: bob}]}}
"""


def test_the_width_of_a_dag_team_holds_unless_another_is_given(call: Call, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(ONE_AT_A_TIME)
    assert call("plan", tmp_path / "team.yaml", "--json").json["diagnostics"]["max_parallelism"] == 1
    wider = call("plan", tmp_path / "team.yaml", "--at-once", 2, "--json")
    assert wider.json["diagnostics"]["max_parallelism"] == 2


@pytest.mark.lab
def test_a_bundle_has_the_width_of_its_dag_team_or_of_the_topology_that_it_recommends(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "team.yaml").write_text(ONE_AT_A_TIME)
    own = call("plan", tmp_path / "team.yaml", "--topology", "auto", "--json").json
    assert own["planner_settings"]["max_parallel"] == 1
    unsaid = call("plan", EXAMPLES / "dag", "--topology", "auto", "--json").json
    widths = {one["topology"]: one["parallelism"] for one in unsaid["evaluation"]["evaluations"]}
    assert unsaid["planner_settings"]["max_parallel"] == widths[unsaid["evaluation"]["recommendation"]["topology"]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([EXAMPLES / "sequential"], "uses the strategy 'sequential', so its steps are not known in advance"),
        ([EXAMPLES / "dag", "--team", "mayor"], "'mayor' is an agent, so its steps are not known in advance"),
        ([TASKS, "Do it."], "is a task file, whose tasks need no task or team besides"),
        ([TASKS, "--at-once", "0"], "--at-once"),
        ([TASKS, "--max-tokens", "-1"], "--max-tokens"),
        ([EXAMPLES / "nowhere.yaml"], "There is no such file"),
    ],
)
def test_what_cannot_be_planned_is_reported_and_exits_2(call: Call, arguments: list[object], expected: str) -> None:
    done = call("plan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err


EXPERTS = """
agents: {ann: {function: "none:ann"}, bob: {function: "none:bob"}}
teams:
  t:
    strategy: %s
    members: [ann, bob]
    %s: {steps: [%s]}
"""


@pytest.mark.experts
@pytest.mark.parametrize(
    ("strategy", "steps", "batches", "who"),
    [
        ("expert", "{id: one, agent: ann}, {id: two, agent: bob}", [["one", "two"]], "ann"),
        ("dispatch", "{id: one}, {id: two, needs: [one], agent: bob}", [["one"], ["two"]], "bob"),
        (
            "collaborate",
            "{id: one, parallel: competitive_parallel, agents: [ann, bob]}, {id: bob, needs: [one]}",
            [["one"], ["bob"]],
            "ann, bob",
        ),
        ("live", "{id: a, agent: ann}, {id: bob}", [["a"], ["bob"]], "ann"),
    ],
)
def test_the_fixed_plan_of_an_expert_team_is_shown_before_it_runs(
    call: Call, tmp_path: Path, strategy: str, steps: str, batches: list[list[str]], who: str
) -> None:  # K-15
    (tmp_path / "team.yaml").write_text(EXPERTS % (strategy, strategy, steps))
    done = call("plan", tmp_path / "team.yaml", "--json")
    assert done.code == 0, done.err
    assert [sorted(batch["tasks"]) for batch in done.json["batches"]] == [sorted(batch) for batch in batches]
    assert who in call("plan", tmp_path / "team.yaml").out


@pytest.mark.experts
def test_a_plan_that_is_made_while_the_team_runs_is_said_to_be_so_in_one_line(call: Call, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(EXPERTS.replace("{steps: [%s]}", "{lead: bob}") % ("expert", "expert"))
    done = call("plan", tmp_path / "team.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == (
        "teamwright: 't' declares no `steps`, so its steps are not known in advance: its members plan when it runs;"
        " `teamwright show` draws the team."
    )


def test_every_mistake_of_a_file_is_reported_with_its_line(call: Call, tmp_path: Path) -> None:  # Z-04
    file = tmp_path / "tasks.yaml"
    file.write_text("tasks:\n  - {id: a, needs: [b]}\n  - {id: b, needs: [a]}\n  - {id: c, needs: [d]}\n")
    done = call("plan", file, "--json")
    assert done.code == 2
    assert [(one["line"], one["message"][:28]) for one in done.json["error"]["problems"]] == [
        (2, "steps need each other in a c"),
        (4, "the step 'c' needs 'd', whic"),
    ]


@pytest.mark.parametrize("budget", [100, 330])
def test_work_that_reaches_the_budget_is_a_warning(call: Call, budget: int) -> None:  # Z-06
    done = call("plan", TASKS, "--max-tokens", budget, "--json")
    assert done.code == 0
    assert f"the work alone is estimated at 330 tokens, and the run budget is {budget}" in done.err
    assert {budget["coordination"] for budget in done.json["budgets"]} == {0}


def test_a_large_plan_is_cut_short_on_the_screen_and_whole_in_json(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text("tasks:\n" + "".join(f"- {{id: s{n:03}, owns: [key]}}\n" for n in range(200)))
    lines = call("plan", file).out.splitlines()
    assert "… and 140 tasks more; --json has them all" in lines
    assert "… and 170 more batches" in lines
    assert len(lines) < 140
    assert len(call("plan", file, "--json").json["batches"]) == 200


def test_a_wide_batch_is_wrapped(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text("tasks:\n" + "".join(f"- {{id: a-rather-long-name-{n:03}}}\n" for n in range(20)))
    lines = call("plan", file, "--at-once", 20).out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert sum(line.count("●") + line.count("◆") for line in lines) == 20 + 1


def test_the_schema_of_envelopes_is_printed_and_that_of_manifests_stays_the_usual_one(call: Call) -> None:  # Z-01
    assert call("schema", "envelope").json["title"] == "Teamwright envelope"
    assert call("schema").json == call("schema", "manifest").json
    assert call("schema").json["title"] == "Teamwright manifest"
    wrong = call("schema", "envelop")
    assert wrong.code == 2
    assert "did you mean 'envelope'?" in wrong.err
