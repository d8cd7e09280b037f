from __future__ import annotations

import pytest

from teamwright.agents.evaluators import (
    model_of,
    models_within,
    read_verdict,
    require_evaluator,
    verdict_reply,
)
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import InvalidOutput, UsageError
from teamwright.teams.team import Team
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.turns.turn import CriterionResult, EvaluationVerdict, JudgeRecord, Reply
from tests.kit.evaluators import WordEvaluator, words


def test_a_verdict_survives_its_reply() -> None:
    verdict = EvaluationVerdict(
        outcome="revise",
        criteria=(CriterionResult(id="a", passed=False, score=0.5, reason="half"),),
        score=0.5,
        judges=(JudgeRecord(member="critic", model="m", shown=("d",), scores=(0.5,)),),
    )
    assert read_verdict(verdict_reply("rubric", verdict)) == verdict


@pytest.mark.parametrize("data", [None, "pass", {"outcome": "fine"}, {"outcome": "pass", "more": 1}, ["pass"]])
def test_anything_else_is_no_verdict(data: object) -> None:
    with pytest.raises(InvalidOutput, match="no verdict"):
        read_verdict(Reply.of("rubric", "pass", data=data))


@pytest.mark.parametrize("wrong", [Evaluate(), "rubric", FunctionAgent("critic", lambda text: text)])
def test_what_is_no_evaluator_is_refused_where_an_agent_is_made(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"Rubric\(Evaluate\(…\)"):
        FunctionAgent("writer", lambda text: text, evaluate=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match=r"Rubric\(Evaluate\(…\)"):
        require_evaluator("The writer", wrong)


def test_an_evaluator_is_known_by_its_declaration() -> None:
    evaluator = WordEvaluator(words())
    assert require_evaluator("The writer", evaluator) is evaluator


def test_the_models_of_a_team_are_those_of_its_members() -> None:
    one, two = ModelAgent("a", model="openai:gpt-5-mini"), ModelAgent("b", model="openai:gpt-5-nano")
    team = Team("outer", members=[Team("inner", members=[one]), two, FunctionAgent("c", lambda text: text)])
    assert models_within(team) == {"openai:gpt-5-mini", "openai:gpt-5-nano"}
    assert (model_of(one), model_of(team)) == ("openai:gpt-5-mini", "team")
