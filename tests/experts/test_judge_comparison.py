from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from teamwright.agents.contract.agent import Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import InvalidRequest
from teamwright.experts import compare_works
from teamwright.experts.judge import PairComparison
from teamwright.teams.team import Team
from teamwright.values.turns.turn import Turn
from tests.kit.runs import run

WORKS = ("short", "a long text")


async def compared(answer: Callable[[str, str], str]) -> PairComparison:
    """Compare the works by a judge that sees the first and the second that it is shown."""
    found: list[PairComparison] = []

    def judge(turn: Turn) -> str:
        first, _, rest = turn.task.partition("# work a:\n")[2].partition("\n\n# work b:\n")
        return answer(first, rest.partition("\n\n")[0])

    async def respond(turn: Turn, ctx: Context) -> str:
        found.append(await compare_works(FunctionAgent("critic", judge), "Write.", WORKS, ctx, "pair"))
        return "done"

    await run(Team("t", members=[FunctionAgent("lead", respond)]))
    return found[0]


def better(which: str) -> str:
    return json.dumps({"better": which, "reason": "it is"})


async def test_a_judge_that_prefers_the_work_names_the_same_winner_in_both_orders() -> None:
    found = await compared(lambda first, second: better("a" if len(first) > len(second) else "b"))
    assert (found.winner, found.answers, found.problem) == ("second", ("second", "second"), "")
    assert len(set(found.shown)) == 2


@pytest.mark.parametrize("place", ["a", "b"])
async def test_a_judge_that_prefers_a_place_finds_a_tie(place: str) -> None:
    found = await compared(lambda *_: better(place))
    assert (found.winner, set(found.answers)) == ("tie", {"first", "second"})


async def test_a_judge_without_a_usable_answer_decides_nothing() -> None:
    found = await compared(lambda first, second: better("a") if first == "short" else "both are fine")
    assert found.winner == "tie"
    assert "no usable answer" in found.problem


async def test_a_judge_that_fails_is_not_asked_about_the_other_order() -> None:
    calls: list[str] = []

    def fail(first: str, second: str) -> str:
        calls.append(first)
        raise InvalidRequest("The model 'gpt-6' refused the request, HTTP 404")

    found = await compared(fail)
    assert (found.winner, found.answers, len(calls)) == ("tie", (), 1)
    assert "The model 'gpt-6' refused the request, HTTP 404" in found.problem
