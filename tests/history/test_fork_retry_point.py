"""A run that failed over a review is retried where it failed, and nothing else is paid for again."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.turns.turn import Turn
from tests.kit.evaluators import AnyEvaluator, WordEvaluator, evaluated, words
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK


def drafts(made: FakeMembers, *texts: str, **options: Any) -> FunctionAgent:
    rest = list(texts)
    return made.member("writer", lambda _: rest.pop(0), **options)


async def failed_and_retried(team: Team) -> tuple[list[str], str | None, list[str]]:
    """Return the outcomes of the failed run, and the output and outcomes of its retry."""
    async with Engine("memory") as engine:
        failed = await engine.run(team, TASK, run_id="r")
        assert (failed.status, failed.stop_reason) == ("failed", "review_exceeded")
        retried = await engine.fork("r", retry=True, team=team, new_id="again")
        return await outcomes(engine, "r"), retried.output, await outcomes(engine, "again")


async def outcomes(engine: Engine, run_id: str) -> list[str]:
    events = await engine.journal.read(run_id)
    return [event.fact.verdict.outcome for event in events if isinstance(event.fact, TeamEvaluationResult)]


@pytest.mark.parametrize("place", ["member", "team", "step"])
async def test_work_that_did_not_pass_is_asked_for_again_with_the_earlier_verdicts(place: str) -> None:
    made, evaluator = FakeMembers(), WordEvaluator(words(revisions=1))
    planner, texts = made.member("planner"), ("first", "second", "a good third")
    match place:
        case "member":
            team = Team("t", members=[planner, drafts(made, *texts, evaluate=evaluator)])
        case "team":
            team = Team("t", members=[drafts(made, *texts)], evaluate=evaluator)
        case _:
            declared = words(revisions=1).model_dump(mode="json", exclude_unset=True)
            steps: list[Any] = [{"id": "planner"}, {"id": "writer", "needs": ["planner"], "evaluate": declared}]
            team = Team("t", members=[planner, drafts(made, *texts)], strategy="dag", options={"steps": steps})
    assert await failed_and_retried(team) == (["revise", "revise"], "a good third", ["revise", "pass"])
    assert made.calls.count("planner") == (place != "team")
    assert made.calls.count("writer") == 3
    last: Turn = made.last_turn("writer")
    assert "Review 1" in last.task
    assert "Review 2" not in last.task


async def test_where_the_review_broke_off_the_work_stays_and_is_reviewed_again() -> None:
    made, answers = FakeMembers(), iter((RuntimeError("gone"), None))
    passing = WordEvaluator(words())

    def first_breaks() -> object:
        if (error := next(answers)) is not None:
            raise error
        return {"outcome": "pass", "criteria": [{"id": "word", "passed": True, "score": 1.0}]}

    evaluator = AnyEvaluator(passing.declaration, first_breaks)
    team = Team("t", members=[made.member("writer", "a good text", evaluate=evaluator)])
    assert await failed_and_retried(team) == (["review_exceeded"], "a good text", ["pass"])
    assert made.calls == ["writer"]


async def test_a_retry_of_one_step_keeps_what_was_reviewed_beside_it() -> None:
    made = FakeMembers()
    evaluated.clear()
    declared = words().model_dump(mode="json", exclude_unset=True)
    steps: list[Any] = [{"id": "a", "evaluate": declared}, {"id": "writer", "needs": ["a"], "evaluate": declared}]
    members = [made.member("a", "a good text"), drafts(made, "first", "a good second")]
    team = Team("t", members=members, strategy="dag", options={"steps": steps})
    assert await failed_and_retried(team) == (["pass", "revise"], "a good second", ["pass", "pass"])
    assert made.calls == ["a", "writer", "writer"]
    assert evaluated == ["a good text", "first", "a good second"]


async def test_a_retry_that_fails_again_can_be_retried() -> None:
    made = FakeMembers()
    team = Team("t", members=[drafts(made, "1", "2", "good 3", evaluate=WordEvaluator(words()))])
    async with Engine("memory") as engine:
        await engine.run(team, TASK, run_id="r")
        second = await engine.fork("r", retry=True, team=team, new_id="s")
        third = await engine.fork("s", retry=True, team=team)
    assert (second.status, third.output, made.calls) == ("failed", "good 3", ["writer"] * 3)
