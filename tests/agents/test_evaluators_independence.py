from __future__ import annotations

import pytest

from teamwright.agents.evaluators import check_evaluations, dependence_of
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import ManifestError
from teamwright.teams.team import Team
from tests.kit.evaluators import WordEvaluator, words

ONE, OTHER = "openai:gpt-5-mini", "openai:gpt-5-nano"


def evaluated_team(author: str, judge: str, *, require: bool) -> Team:
    critic = ModelAgent("critic", model=judge)
    evaluator = WordEvaluator(words(require_other_model=require, judge="critic"), judge=[critic])
    return Team("t", members=[ModelAgent("writer", model=author, evaluate=evaluator)])


def test_a_judge_of_the_same_model_is_refused_where_another_is_required() -> None:  # K-10
    team = evaluated_team(ONE, ONE, require=True)
    with pytest.raises(ManifestError, match="the judge 'critic' has the model of 'writer', openai:gpt-5-mini"):
        check_evaluations(team.everyone())


def test_a_judge_is_refused_that_has_the_stronger_model_of_the_author_where_another_is_required() -> None:
    critic, writer = ModelAgent("critic", model=OTHER), ModelAgent("writer", model=ONE, stronger=OTHER)
    assert "'critic' has the model of 'writer'" in dependence_of(critic, writer, words(require_other_model=True))
    assert dependence_of(critic, writer, words(require_other_model=False)) == ""


@pytest.mark.parametrize(("judge", "require"), [(OTHER, True), (ONE, False)])
def test_any_other_judge_may_judge(judge: str, require: bool) -> None:
    check_evaluations(evaluated_team(ONE, judge, require=require).everyone())


def test_a_judge_that_is_evaluated_itself_is_refused() -> None:
    critic = FunctionAgent("critic", lambda text: text, evaluate=WordEvaluator(words()))
    evaluator = WordEvaluator(words(judge="panel"), judge=[Team("panel", members=[critic])])
    team = Team("t", members=[FunctionAgent("writer", lambda text: text, evaluate=evaluator)])
    with pytest.raises(ManifestError, match="the judge 'panel' of 'writer' is evaluated itself"):
        check_evaluations(team.everyone())


def test_judges_are_among_the_agents_of_a_team() -> None:
    assert [one.name for one in evaluated_team(ONE, OTHER, require=False).everyone()] == ["t", "writer", "critic"]


def test_an_author_does_not_judge_its_own_work() -> None:
    evaluator = WordEvaluator(words(judge="writer"))
    writer = FunctionAgent("writer", lambda text: text, evaluate=evaluator)
    evaluator.judges = (writer,)
    with pytest.raises(ManifestError, match="'writer' can't judge its own work"):
        check_evaluations([writer])


def test_an_author_does_not_judge_its_own_work_in_a_panel() -> None:  # K-10
    writer, other = (FunctionAgent(name, lambda text: text) for name in ("writer", "other"))
    panel = Team("panel", members=[other, writer])
    assert "'panel' of 'writer' can't judge its own work" in dependence_of(panel, writer, words())
    assert dependence_of(panel, FunctionAgent("third", lambda text: text), words()) == ""
