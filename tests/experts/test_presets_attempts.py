"""Steps whose model can't be reached or refuses, over loopback: how often it is asked, and how the team ends."""

from __future__ import annotations

import socket
from collections import Counter
from typing import Any

import pytest

from teamwright import Engine
from teamwright.agents.model.agent import ModelAgent
from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatAnswer, ChatRequest, Fail, ModelServer, Say
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.results import RunResult
from tests.kit.ladders import ladder

TEAMS: dict[str, dict[str, Any]] = {
    "expert": {"steps": [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b"}]},
    "dispatch": {"steps": [{"id": "x"}]},
    "collaborate": {"lead": "b", "steps": [{"id": "x", "agent": "a"}]},
    "react": {"lead": "a"},
}
QUICK = RetryPolicy(times=3, backoff=0.001)


def answers(failure: ChatAnswer) -> Any:
    def answer(request: ChatRequest) -> ChatAnswer:
        return failure if request.model == "wrong" else Say(text=f"{request.model} answers")

    return answer


def team(url: str, strategy: str, options: dict[str, Any]) -> Team:
    def member(name: str, model: str) -> ModelAgent:
        own, cheap = ServerModel(url=url, name=model), ServerModel(url=url, name="cheap")
        return ModelAgent(name, model=own, economy=cheap, retry=QUICK)

    return Team("t", members=[member("a", "wrong"), member("b", "right")], strategy=strategy, options=options)


async def outcome(strategy: str, failure: Fail, **options: Any) -> tuple[RunResult, Counter[str]]:
    with ModelServer(answers(failure)) as server:
        async with Engine("memory") as engine:
            result = await engine.run(team(server.url, strategy, {**TEAMS[strategy], **options}), "Go.")
        return result, Counter(request.model for request in server.requests)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
@pytest.mark.parametrize("strategy", TEAMS)
async def test_a_request_that_the_provider_rejects_is_made_once_and_never_by_a_cheaper_model(
    strategy: str, status: int
) -> None:
    result, asked = await outcome(strategy, Fail(status=status, message="no such model"))
    modes = 4 if strategy == "react" and status == 400 else 1  # a 400 may refuse one way to ask for JSON
    assert asked["wrong"] == modes
    assert not asked["cheap"]
    assert result.status == ("failed" if strategy == "react" else "degraded")
    said = " ".join((*result.warnings, result.failure.message if result.failure else ""))
    assert f"The model 'wrong' refused the request, HTTP {status}: no such model" in said or status == 402


async def test_a_conversation_that_is_too_long_is_no_wrong_setting() -> None:
    failure = Fail(status=400, message="too long", code="context_length_exceeded")
    result, asked = await outcome("expert", failure)
    assert asked == {"wrong": 2, "cheap": 1, "right": 1}
    assert result.status == "degraded"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_retries_of_the_agent_and_of_the_ladder_add_up(status: int) -> None:
    result, asked = await outcome("expert", Fail(status=status))
    assert asked == {"wrong": 4 + 1, "cheap": 1, "right": 1}
    assert result.status == "degraded"


@pytest.mark.parametrize(("retry", "most"), [(0, 5), (1, 6), (3, 8)])
async def test_a_step_has_one_bound_of_attempts_while_nothing_answers(retry: int, most: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    options = {"steps": [{"id": "x", "agent": "a"}], "on_failure": ladder(retry)}
    async with Engine("memory") as engine:
        result = await engine.run(team(url, "expert", options), "Go.", run_id="down")
        events = [event.kind async for event in engine.runs.follow("down")]
    assert result.status == "failed"
    assert events.count("agent.call_failed") == most


async def test_the_second_attempt_at_a_phase_does_not_multiply_the_retries() -> None:
    _, asked = await outcome("collaborate", Fail(status=500))
    assert asked["wrong"] == 4 + 1


async def test_another_member_of_a_pool_takes_over_with_a_warning() -> None:
    result, asked = await outcome("dispatch", Fail(status=404))
    assert (result.output, asked) == ("right answers", {"wrong": 1, "right": 1})
    assert "'b' took over" in result.warnings[0]
