"""Everything in `evaluate` is checked at load, with its place and a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.teams.manifests.manifests import loaded, problems

RULES = """
agents:
  writer:
    model: local
    evaluate: {EVALUATE}
  critic: {model: local}
teams:
  t: {members: [writer]}
"""


def manifest(evaluate: str) -> str:
    return RULES.replace("{EVALUATE}", evaluate)


@pytest.mark.parametrize(
    ("evaluate", "message", "suggestion"),
    [
        ("{evaluator: 'x:Y', revison: 2}", "'revison' is not a field here", "did you mean 'revisions'?"),
        ("{evaluator: 'x:Y', revisions: -1}", "'revisions' must be at least 0", ""),
        ("{evaluator: 'x:Y', threshold: 1.01}", "'threshold' must be at most 1", ""),
        ("{evaluator: 'x:Y', judge: critc}", "there is no agent or team 'critc'", "did you mean 'critic'?"),
        ("{evaluator: 'x:Y', judge: writer}", "agent 'writer' can't judge its own work", "name another agent"),
        ("{evaluator: 'x:Y', criteria: [{id: a}]}", "needs exactly one of length, contains", ""),
        ("{evaluator: 'x:Y', criteria: [{id: a, contains: x, regex: y}]}", "it has contains and regex", ""),
        ("{evaluator: 'x:Y', criteria: [{id: a, regex: '('}]}", "the regular expression of 'a' can't be used", ""),
        ("{evaluator: 'x:Y', criteria: [{id: a, function: checks}]}", "write  module:function", ""),
        ("{evaluator: 'x:Y', criteria: [{id: a, output_schema: {type: x}}]}", "is not a JSON Schema", ""),
        ("{evaluator: 'x:Y', criteria: [{id: a, length: {min: 3, max: 2}}]}", "no text has such a length", ""),
        (
            "{evaluator: 'x:Y', criteria: [{id: a, length: {min: 1}}, {id: a, contains: x}]}",
            "several criteria are called 'a'",
            "",
        ),
        ("{evaluator: 'x:Y', criteria: [{id: a, judge: Good?}]}", "the criterion 'a' needs a judge", ""),
        ("{evaluator: rubrik}", "there is no evaluator 'rubrik'", ""),
    ],
)
def test_each_mistake_is_reported_once_where_it_stands(
    tmp_path: Path, evaluate: str, message: str, suggestion: str
) -> None:
    (problem,) = problems(tmp_path, manifest(evaluate))
    assert message in problem.message
    assert suggestion in problem.suggestion
    assert problem.line == 5


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    criteria = "[{id: a, contains: x, regex: y}, {id: b, regex: '('}, {id: c, kontains: z}]"
    found = problems(tmp_path, manifest(f"{{evaluator: 'x:Y', judge: nobody, criteria: {criteria}}}"))
    texts = "\n".join(map(str, found))
    for part in ("contains and regex", "can't be used", "did you mean 'contains'", "nobody"):
        assert part in texts


def test_a_team_is_checked_as_an_agent_is(tmp_path: Path) -> None:
    text = "agents: {a: {model: local}}\nteams: {t: {members: [a], evaluate: {evaluator: 'x:Y', judge: t}}}\n"
    (problem,) = problems(tmp_path, text)
    assert "team 't' can't judge its own work" in problem.message


def test_a_declared_evaluation_is_a_part_of_the_manifest(tmp_path: Path) -> None:
    made = loaded(tmp_path, manifest("{evaluator: 'x:Y', revisions: 1, criteria: [{id: a, contains: x}]}")).manifest
    declared = made.agents["writer"].evaluate
    assert declared is not None
    assert (declared.revisions, declared.criteria[0].contains) == (1, "x")
