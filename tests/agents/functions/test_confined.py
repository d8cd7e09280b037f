"""Functions in a sandbox: what they return, what they can't reach, and what can't be run in one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.confined import ANSWER
from teamwright.agents.sandbox_back_ends import Bubblewrap, Sandlock
from teamwright.errors import UsageError
from teamwright.runtime.engine import Engine
from teamwright.teams.builder import Builder, programs_without_sandbox
from teamwright.teams.team import Team
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.tools import SandboxSettings
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn

PLAIN = SandboxSettings(seconds=50.0)


def count(text: str) -> dict[str, int]:
    return {"words": len(text.split())}


def read(text: str) -> str:
    return Path(text).read_text()


def answer_with_a_link(text: str) -> str:
    Path(ANSWER).symlink_to(text)
    os._exit(0)


def of_a_turn(turn: Turn) -> str:
    return turn.task


async def answer(agent: FunctionAgent, task: str) -> RunResult:
    if Bubblewrap().problem(PLAIN) and Sandlock().problem(PLAIN):
        pytest.skip("this machine has no sandbox")
    async with Engine() as engine:
        return await engine.run(Team("t", members=[agent]), task)


async def test_a_function_answers_from_its_sandbox() -> None:
    result = await answer(FunctionAgent("a", count, isolate="process", sandbox=PLAIN), "one two")
    assert result.output == '{"words":2}', result


@pytest.mark.parametrize("function", [read, answer_with_a_link])
async def test_a_function_reaches_no_file_outside_itself_nor_by_the_file_of_its_answer(
    function: object, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text('{"value": "the secret"}')
    agent = FunctionAgent("a", function, isolate="process", sandbox=PLAIN)  # pyright: ignore[reportArgumentType]
    result = await answer(agent, str(tmp_path / "secret"))
    assert result.status == "failed"
    assert "the secret" not in str(result)


def test_what_cannot_run_in_a_sandbox_is_refused() -> None:
    with pytest.raises(UsageError, match="isolate='process'"):
        FunctionAgent("a", count, sandbox="auto")
    with pytest.raises(UsageError, match="takes the text of the turn"):
        FunctionAgent("a", of_a_turn, isolate="process", sandbox="auto")
    with pytest.raises(UsageError, match="importable"):
        FunctionAgent("a", lambda text: text, isolate="process", sandbox="auto")


def test_an_isolated_function_gets_the_sandbox_of_its_team() -> None:
    agent = {"function": f"{__name__}:count", "isolate": "process"}
    declared = {"agents": {"a": agent}, "teams": {"t": {"members": ["a"], "sandbox": {"megabytes": 64}}}}
    built = Builder(Manifest.model_validate(declared)).agent("a")
    assert isinstance(built, FunctionAgent)
    assert built.sandbox == SandboxSettings(megabytes=64)
    assert built.spec.sandbox == built.sandbox
    alone = Manifest.model_validate({"agents": {"a": agent}})
    assert list(programs_without_sandbox(alone)) == ["the function of the agent 'a'"]
