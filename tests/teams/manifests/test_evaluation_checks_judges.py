"""Judges are checked against the authors that they judge when a manifest is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.teams.manifests.manifests import loaded, problems

MANIFEST = """
models: {{big: "openai:gpt-5", small: {{model: "openai:gpt-5-nano"}}, own: {{url: "http://localhost:1/v1", name: m}}}}
agents:
  writer: {{model: {author}}}
  critic: {{model: {judge}}}
teams:
  t: {{members: [writer], evaluate: {evaluate}}}
"""
STEPS = """
agents:
  writer: {{model: "openai:gpt-5"}}
  critic: {{model: "openai:gpt-5"}}
teams:
  t:
    strategy: dag
    members: [writer]
    dag: {{steps: [{{id: a, agent: writer, evaluate: {evaluate}}}]}}
"""
JUDGED = "{evaluator: 'x:Y', judge: critic, criteria: [{id: a, judge: Good?}, {id: b, length: {min: 1}}]%s}"

EVERY = (JUDGED % "").replace("{", "{{").replace("}", "}}")


@pytest.mark.parametrize(
    ("author", "judge", "model"),
    [
        ("big", "big", "openai:gpt-5"), ("big", "'openai:gpt-5'", "openai:gpt-5"),
        ("small", "{model: 'openai:gpt-5-nano'}", "openai:gpt-5-nano"), ("own", "own", "m at http://localhost:1/v1"),
    ],
)  # fmt: skip
def test_a_judge_with_the_model_of_a_member_is_a_warning(tmp_path: Path, author: str, judge: str, model: str) -> None:
    text = MANIFEST.format(author=author, judge=judge, evaluate=JUDGED % "")
    (warning,) = loaded(tmp_path, text).warnings
    assert f"the judge 'critic' has the model of 't', '{model}'" in warning.message
    assert (warning.line, warning.suggestion) == (7, "give the judge another model")


def test_another_model_is_no_warning(tmp_path: Path) -> None:
    text = MANIFEST.format(author="big", judge="small", evaluate=JUDGED % "")
    assert loaded(tmp_path, text).warnings == ()


def test_the_same_model_is_refused_where_another_is_required(tmp_path: Path) -> None:  # K-10
    text = MANIFEST.format(author="big", judge="big", evaluate=JUDGED % ", require_other_model: true")
    (problem,) = problems(tmp_path, text)
    assert "the judge 'critic' has the model of 't'" in problem.message
    assert "requires another model" in problem.suggestion


def test_judges_of_steps_are_checked_as_those_of_agents(tmp_path: Path) -> None:
    (warning,) = loaded(tmp_path, STEPS.format(evaluate=JUDGED % "")).warnings
    assert "the step 'a': the judge 'critic' has the model of 'writer'" in warning.message
    (problem,) = problems(tmp_path, STEPS.format(evaluate=JUDGED % ", require_other_model: true"))
    assert "the step 'a': the judge 'critic' has the model of 'writer'" in problem.message
    (problem,) = problems(tmp_path, STEPS.format(evaluate=(JUDGED % "").replace("critic", "critik")))
    assert "did you mean 'critic'?" in problem.suggestion
    (problem,) = problems(tmp_path, STEPS.format(evaluate=(JUDGED % "").replace("critic", "writer")))
    assert "the step 'a': 'writer' would judge its own work" in problem.message


def test_a_schema_of_a_step_is_checked(tmp_path: Path) -> None:
    evaluate = "{evaluator: 'x:Y', criteria: [{id: a, output_schema: {type: text}}]}"
    (problem,) = problems(tmp_path, STEPS.format(evaluate=evaluate))
    assert "is not a JSON Schema" in problem.message


def test_criteria_that_do_not_count_at_high_risk_are_a_warning_and_no_judge_is_compared(tmp_path: Path) -> None:
    text = MANIFEST.format(author="big", judge="big", evaluate=JUDGED % ", risk: high")
    (warning,) = loaded(tmp_path, text).warnings
    assert "these do not count: a" in warning.message


def test_risk_and_what_follows_from_it_are_checked_at_load(tmp_path: Path) -> None:
    text = MANIFEST.format(author="big", judge="small", evaluate=JUDGED % ", on_failure: pass")
    (problem,) = problems(tmp_path, text)
    assert "on_failure 'pass' is for low risk" in problem.message
    assert loaded(tmp_path, text.replace("on_failure: pass", "on_failure: pass, risk: low")).warnings == ()


@pytest.mark.experts
def test_the_evaluation_of_all_steps_is_checked_against_every_member(tmp_path: Path) -> None:
    text = STEPS.replace("strategy: dag", "strategy: expert").replace("dag: {{", f"expert: {{{{evaluate: {EVERY}, ")
    (warning,) = loaded(tmp_path, text.format(evaluate="{evaluator: 'x:Y'}").replace("agent:", "role:")).warnings
    assert "team 't': the judge 'critic' has the model of 'writer'" in warning.message


@pytest.mark.experts
def test_a_member_that_is_named_as_a_role_can_not_judge_its_own_work(tmp_path: Path) -> None:
    steps = STEPS.replace("strategy: dag", "strategy: expert").replace("dag:", "expert:").replace("agent:", "role:")
    (problem,) = problems(tmp_path, steps.format(evaluate=JUDGED % "").replace("judge: critic", "judge: writer"))
    assert "the step 'a': 'writer' would judge its own work" in problem.message
