"""Files of tasks: a plan, or every mistake at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import InvalidName, ManifestError
from teamwright.teams.manifests.plans import read_plan
from teamwright.teams.team_loader import load_team
from teamwright.values.limits import Limits
from teamwright.values.specs.plan import Step
from tests.paths import EXAMPLES

KNOWN = (
    "known are agent, agents, coordination_tokens, enough, evaluate, execution_tokens, id, limits, merge, name, needs,"
    " nothing_found, owns, parallel, parts, priority, required, role, status, task, when"
)


def told(tmp_path: Path, text: str) -> list[str]:
    """The problems of a file, as `line:column: message`."""
    file = tmp_path / "tasks.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as error:
        read_plan(file)
    return [str(problem).removeprefix(f"{file}:") for problem in error.value.problems]


def test_every_field_of_a_task_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(
        "x-shared: &shared {agent: ann, execution_tokens: 40}\n"
        "tasks:\n"
        "  - {id: a, <<: *shared}\n"
        "  - {id: b, needs: [a], owns: [src/b], coordination_tokens: 12, task: Write b., agent: bob}\n"
    )
    plan = read_plan(file)
    assert plan is not None
    assert plan.steps == (
        Step(id="a", agent="ann", execution_tokens=40),
        Step(id="b", needs=("a",), owns=("src/b",), coordination_tokens=12, task="Write b.", agent="bob"),
    )


def test_every_mistake_is_reported_at_once_with_ids_and_lines(tmp_path: Path) -> None:  # Z-04
    text = """\
tasks:
  - id: a
    needs: [b, nowhere, a]
  - id: b
    needs: [a]
    execution_tokens: -3
  - {id: b, owns: key}
  - {needs: [a], colour: red}
  - {id: "", owns: [""]}
  - {id: "two words"}
  - {id: 7}
  - {id: c, owns: [""]}
  - just a text
task: 3
"""
    assert told(tmp_path, text) == [
        "2:9: steps need each other in a circle: 'a' needs 'b' needs 'a'; remove one of these needs",
        "3:16: the step 'a' needs 'nowhere', which is no step; known are a, b, c, two words.",
        "3:25: the step 'a' needs itself",
        "6:23: task 'b': 'execution_tokens' must be at least 0, and -3 is not",
        "7:10: two steps are called 'b'; give one of them another id",
        "7:19: task 'b': 'owns' expects a list, found the text 'key' (write [key])",
        "8:5: task 4: 'id' is missing",
        f"8:18: task 4: 'colour' is not a field here ({KNOWN})",
        "9:10: a task has no id (give it one)",
        f"10:10: {InvalidName('step', 'two words', 'two-words')}",
        "11:10: task 7: 'id' expects text, found the number 7 (put it in quotes: \"7\")",
        "12:10: the step 'c' owns a key without a name; take it away",
        "13:5: task 9: expected a mapping, found the text 'just a text'",
        "14:1: 'task' is not a field of a task file (did you mean 'tasks'?)",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tasks: []\n", "1:8: 'tasks' expects a list of tasks, found an empty list"),
        ("tasks: {a: 1}\n", "1:8: 'tasks' expects a list of tasks, found a mapping"),
        ("tasks: [{id: a}]\n---\nagents: {}\n", "3:1: A task file has one document, and this is another one"),
        ("steps: [{id: a}]\n", "1:1: This is neither a task file nor a manifest"),
        ("- 1\n", "1:1: This is neither a task file nor a manifest"),
        ("tasks: [{id: a, ]\n", "This is not YAML"),
    ],
)
def test_a_value_that_is_no_file_of_tasks_is_reported(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = told(tmp_path, text)
    assert expected in problem


AGENTS = "agents: {ann: {model: local}, bob: {model: local}}\n"


def test_tasks_and_agents_make_a_team_that_works_through_them(tmp_path: Path) -> None:  # Z-09
    tasks, agents = tmp_path / "my tasks.yaml", tmp_path / "agents.yaml"
    tasks.write_text("tasks: [{id: a, agent: ann, owns: [x]}, {id: bob, needs: [a]}, {id: c, agent: ann}]\n")
    agents.write_text(AGENTS)
    team = load_team(tasks, agents)
    assert (team.name, team.strategy.name, [one.name for one in team.members]) == ("my-tasks", "dag", ["ann", "bob"])
    assert team.settings.options["steps"] == [
        {"id": "a", "agent": "ann", "owns": ["x"]}, {"id": "bob", "needs": ["a"]}, {"id": "c", "agent": "ann"},
    ]  # fmt: skip
    assert load_team(tmp_path).spec == team.spec


def test_one_file_may_hold_tasks_and_agents(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(AGENTS + "tasks: [{id: ann}, {id: bob, limits: {tokens: 500}}]\n")
    assert load_team(file).name == "work"
    plan = read_plan(file)
    assert plan is not None
    assert plan.steps[1].limits == Limits(tokens=500)


def test_mistakes_in_tasks_are_reported_at_their_place_when_they_are_to_run(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(
        AGENTS + "tasks:\n  - {id: ann, needs: [nobody]}\n  - {id: x, agent: carl}\n  - {id: bob, own: [x]}\n"
    )
    with pytest.raises(ManifestError) as error:
        load_team(file)
    found = [(problem.line, problem.message) for problem in error.value.problems]
    assert any(line == 4 and "'carl'" in text for line, text in found)
    assert any(line == 5 and "own" in text for line, text in found)


def test_a_manifest_is_left_to_others() -> None:
    assert read_plan(EXAMPLES / "dag" / "team.yaml") is None


def test_a_file_of_ten_thousand_tasks_is_not_too_large(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    line = "- {{id: s{0}, owns: [some/folder/with/a/long/name/file-{0}.py], task: Rewrite what is in this file.}}\n"
    file.write_text("tasks:\n" + "".join(line.format(number) for number in range(11_000)))
    assert file.stat().st_size > 1 << 20
    plan = read_plan(file)
    assert plan is not None
    assert len(plan.steps) == 11_000
