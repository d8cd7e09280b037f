"""The deterministic criteria, each on work that passes and on work that does not."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from teamwright.agents import Criterion
from teamwright.agents.agent import Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.experts.rubric import CheckFailed, run_check
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.turns.turn import CriterionResult, Turn
from tests.kit.runs import run

HERE = "tests.experts.test_rubric_checks"


async def checked(work: str, **criterion: Any) -> CriterionResult | str:
    """Run one check inside an agent; returns its result, or the text of its failure."""
    found: list[CriterionResult | str] = []

    async def respond(turn: Turn, ctx: Context) -> str:
        try:
            found.append(await run_check(Criterion(id="it", **criterion), work, ctx))
        except CheckFailed as error:
            found.append(str(error))
        return "done"

    await run(Team("t", members=[FunctionAgent("checker", respond)]))
    return found[0]


def is_short(text: str) -> bool:
    return len(text) < 10


async def is_short_async(text: str) -> bool:
    return is_short(text)


def share_of_letters(text: str) -> float:
    return sum(map(str.isalpha, text)) / len(text)


def with_reason(text: str) -> tuple[bool, str]:
    return text.endswith("."), "it has no full stop"


def no_answer(text: str) -> None:
    return None


def too_high(text: str) -> float:
    return 1.01


def broken(text: str) -> bool:
    raise RuntimeError("the check is broken")


SCHEMA = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize(
    ("criterion", "good", "bad", "reason"),
    [
        ({"length": {"min": 1}}, "x", " \n\t", "it is blank"),
        ({"length": {"min": 1}}, "é", "\u200b\u2060\ufeff\u3164\u2800", "it is blank"),
        ({"length": {"min": 2, "max": 3}}, "abc", "abcd", "it has 4 characters, and 2 to 3 are wanted"),
        ({"length": {"min": 2}}, "abc", "a", "it has 1 characters, and at least 2 are wanted"),
        ({"contains": "[1]"}, "see [1]", "see [2]", "it does not contain '[1]'"),
        ({"regex": r"\[\d+\]"}, "see [7]", "see 7", r"nothing matches '\[\d+\]'"),
        ({"output_schema": SCHEMA}, '{"title": "A"}', '{"title": 1}', "title"),
        ({"output_schema": SCHEMA}, ' {"title": "A"} ', "no JSON", "it is not JSON"),
        ({"function": f"{HERE}:is_short"}, "short", "rather long", "the check says no"),
        ({"function": f"{HERE}:is_short_async"}, "short", "rather long", "the check says no"),
        ({"function": f"{HERE}:with_reason"}, "An end.", "No end", "it has no full stop"),
        ({"function": f"{HERE}:share_of_letters", "threshold": 0.8}, "abcde", "ab123", "the check says no"),
        ({"command": ["grep", "-q", "word"]}, "a word", "nothing", "it exited with 1"),
        (
            {"command": [sys.executable, "-c", "import sys; sys.exit('x' in sys.stdin.read() and 'bad')"]},
            "a",
            "x",
            "bad",
        ),
    ],
)
async def test_a_check_passes_good_work_and_says_why_other_work_does_not(
    criterion: dict[str, Any], good: str, bad: str, reason: str
) -> None:  # K-10
    passes, fails = await checked(good, **criterion), await checked(bad, **criterion)
    assert isinstance(passes, CriterionResult)
    assert isinstance(fails, CriterionResult)
    assert (passes.id, passes.passed, passes.reason) == ("it", True, "")
    assert not fails.passed
    assert reason in fails.reason


async def test_the_score_of_a_function_is_kept() -> None:
    found = await checked("ab123", function=f"{HERE}:share_of_letters")
    assert found == CriterionResult(id="it", passed=False, score=0.4, reason="the check says no")


@pytest.mark.parametrize(
    ("criterion", "reason"),
    [
        ({"function": f"{HERE}:broken"}, "RuntimeError"),
        ({"function": f"{HERE}:no_answer"}, "it must return True, False"),
        ({"function": f"{HERE}:too_high"}, "it must return True, False"),
        ({"function": f"{HERE}:nobody"}, "nobody"),
        ({"command": ["no-such-program"]}, "can't be started"),
        ({"command": [sys.executable, "-c", "import time; time.sleep(60)"], "timeout": 0.2}, "the check 'it' failed"),
        ({"regex": "(a|aa)+$"}, "takes too long"),
    ],
)
async def test_a_check_that_can_not_be_completed_is_a_failure_and_no_result(
    criterion: dict[str, Any], reason: str
) -> None:  # K-08
    found = await checked("a" * 60 + "!", **criterion)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    "check", [{"regex": "o"}, {"function": f"{HERE}:is_short"}, {"command": [sys.executable, "-V"]}]
)
async def test_a_check_that_is_a_call_and_does_not_fit_the_limit_says_so(check: dict[str, Any]) -> None:
    options: Any = {"steps": [{"id": "a", "evaluate": {"criteria": [{"id": "it", **check}]}}]}
    team = Team("t", members=[FunctionAgent("a", lambda turn: "done")], strategy="plan", options=options)
    for calls, status in ((1, "failed"), (2, "completed")):
        async with Engine("memory") as engine:
            result = await engine.run(team, "Go.", limits=Limits(calls=calls))
        assert result.status == status
        assert ("the evaluator failed (budget: the run has 0 of 1 calls left" in str(result.warnings)) == (calls == 1)
