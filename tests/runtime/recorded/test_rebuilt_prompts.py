"""What a turn received, rebuilt from the journal."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, ModelAgent, Team, Turn, load_team
from teamwright.agents import TurnContext
from teamwright.agents.functions.imports import OwnModules
from teamwright.errors import RunNotFound, UnknownName
from teamwright.runtime.recorded.rebuilt_prompts import PromptReplay, TurnPrompt, rebuild_prompt
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentCalled
from teamwright.values.specs.models import ServerModel
from tests.paths import EXAMPLES

CALLS: list[tuple[int, int]] = []
CHECKED = """\
agents: {{a: {{model: {{url: "{url}", name: tiny}}}}}}
teams:
  t:
    members: [a]
    strategy: dag
    dag:
      steps:
        - {{id: draft, agent: a, task: Write., evaluate: {{criteria: [{{id: text, function: "checks:has_text"}}]}}}}
        - {{id: final, agent: a, task: Finish., needs: [draft]}}
"""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    CALLS.append((a, b))
    return a + b


def numbered(ctx: TurnContext) -> str:
    """Instructions that differ with each call."""
    CALLS.append((0, 0))
    return f"You are number {len(CALLS)}."


def nod(text: str, ctx: TurnContext) -> None:
    """Check nothing."""
    CALLS.append((9, 9))


def answers(*given: ChatAnswer) -> Callable[[ChatRequest], ChatAnswer]:
    left: Iterator[ChatAnswer] = iter(given)
    return lambda _: next(left)


async def every_prompt(engine: Engine, run_id: str = "r") -> list[TurnPrompt]:
    replay = await PromptReplay.load(engine, run_id)
    return [await replay.prompt(key) for key in replay.keys]


@pytest.mark.parametrize(
    "name",
    [
        *("a2a_lite", "dag", "mesh_team", "selector"),
        *(pytest.param(name, marks=pytest.mark.experts) for name in ("rubric", "expert_team", "code_review")),
    ],
)
async def test_every_request_of_a_run_is_rebuilt_exactly(name: str) -> None:
    folder = EXAMPLES / name
    async with Engine("memory") as engine:
        await engine.run(load_team(folder), (folder / "task.txt").read_text(encoding="utf-8"), run_id="r")
        events = await engine.journal.read("r")
        prompts = await every_prompt(engine)
    assert [one.problem for one in prompts if one.problem] == []
    sent = [event.key for event in events if isinstance(event.fact, AgentCalled) and event.fact.effect == "model"]
    rebuilt = [request for one in prompts for request in one.requests]
    assert sorted(one.key for one in rebuilt) == sorted(sent)
    assert all(one.is_exact for one in rebuilt)


@pytest.mark.experts
async def test_prompts_of_a_team_with_checks_in_python_are_rebuilt_after_its_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "checks.py").write_text("def has_text(text): return bool(text)")
    with ModelServer(answers(Say(text="Draft."), Say(text="Final."))) as server:
        (folder / "team.yaml").write_text(CHECKED.format(url=server.url))
        async with Engine("memory") as engine:
            await engine.run(load_team(folder), "Go", run_id="r")
            shutil.rmtree(folder)
            del sys.modules[f"{OwnModules.of(str(folder.resolve())).package}.checks"]  # as in another process
            first, second = [await rebuild_prompt(engine, "r", f"t/{step}/work") for step in ("draft", "final")]
    assert (first.problem, second.problem) == ("", "")
    assert [one.is_exact for one in (*first.requests, *second.requests)] == [True, True]
    assert any("Draft." in str(one.content) for one in second.requests[0].messages)


async def test_the_messages_tools_and_settings_are_those_that_the_model_got() -> None:
    CALLS.clear()
    call = CallTools(calls=(ToolCall(name="add", args={"a": 1, "b": 2}),))
    with ModelServer(answers(call, Say(text="It is 3."), Say(text="Fine."))) as server:
        model = ServerModel.model_validate({"url": server.url, "name": "tiny"})
        adder = ModelAgent("adder", model=model, instructions="Add.", tools=[add], settings={"temperature": 0.5})
        team = Team("t", members=[adder, ModelAgent("critic", model=model)])
        async with Engine("memory") as engine:
            await engine.run(team, "What is 1 + 2?", run_id="r")
            received = server.count
            first = await rebuild_prompt(engine, "r", "t/step-1")
            second = await rebuild_prompt(engine, "r", "t/step-2")
            assert server.count == received, "a rebuilt request was sent"
        assert CALLS == [(1, 2)], "a tool was called again"
        wire = server.requests[1]
    assert [one.is_exact for one in first.requests] == [True, True]
    assert first.requests[1].instructions == "Add."
    assert [one.role for one in first.requests[1].messages] == ["user", "user", "tool_call", "tool_result"]
    assert [str(one.content) for one in first.requests[1].messages if one.role == "user"] == [
        one.content for one in wire.messages if one.role == "user"
    ]
    assert first.requests[1].messages[3].content == 3
    assert [one.name for one in first.requests[0].tools] == list(wire.tools) == ["add"]
    assert first.requests[0].settings == {"temperature": 0.5}
    assert [one.content for one in second.history] == ["It is 3."]


async def test_instructions_and_checks_that_are_code_are_not_called_again() -> None:
    CALLS.clear()
    with ModelServer(answers(Say(text="Fine."))) as server:
        model = ServerModel.model_validate({"url": server.url, "name": "tiny"})
        agent = ModelAgent("a", model=model, instructions=numbered, check={"input": nod, "output": nod})
        async with Engine("memory") as engine:
            await engine.run(Team("t", members=[agent]), "Go", run_id="r")
            called = len(CALLS)
            prompt = await rebuild_prompt(engine, "r", "t/step-1")
    assert [(one.is_exact, one.instructions) for one in prompt.requests] == [(True, "You are number 2.")]
    assert len(CALLS) == called == 3


async def test_a_function_is_shown_the_turn_that_it_got_and_not_called_again() -> None:
    asked: list[str] = []

    def answer(turn: Turn) -> str:
        asked.append(turn.task)
        return f"said {len(asked)}"

    team = Team("t", members=[FunctionAgent(name, answer) for name in "ab"])
    async with Engine("memory") as engine:
        await engine.run(team, "Go", run_id="r")
        prompt = await rebuild_prompt(engine, "r", "t/step-2")
    assert (prompt.task, [one.content for one in prompt.history]) == ("Go", ["said 1"])
    assert len(asked) == 2


async def test_a_live_run_shows_what_its_open_turn_was_told() -> None:
    reached, release = asyncio.Event(), asyncio.Event()

    async def wait(turn: Turn) -> str:
        reached.set()
        await release.wait()
        return "late"

    team = Team(
        "t", members=[FunctionAgent("a", lambda turn: "early"), FunctionAgent("b", wait)], strategy="sequential"
    )
    async with Engine("memory") as engine:
        handle = await engine.start(team, "Go", run_id="r")
        await reached.wait()
        prompt = await rebuild_prompt(engine, "r", "t/step-2")
        release.set()
        assert (await handle.result()).output == "late"
    assert [one.content for one in prompt.history] == ["early"]


async def test_what_a_person_said_to_the_team_is_in_the_prompt() -> None:
    async with Engine("memory") as engine:

        async def first(turn: Turn) -> str:
            await engine.runs.say("r", "Be brief.", by="ann")
            return "one"

        team = Team(
            "t", members=[FunctionAgent("a", first), FunctionAgent("b", lambda turn: "two")], strategy="sequential"
        )
        await engine.run(team, "Go", run_id="r")
        prompt = await rebuild_prompt(engine, "r", "t/step-2")
    assert any("Be brief." in str(one.content) for one in prompt.history)


async def test_secrets_are_masked() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[FunctionAgent("a", lambda turn: "x")]), f"use {secret}", run_id="r")
        prompt = await rebuild_prompt(engine, "r", "t/step-1")
    assert secret not in str(prompt)
    assert prompt.task.startswith("use ")


async def test_a_turn_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[FunctionAgent("a", lambda turn: "x")]), "Go", run_id="r")
        with pytest.raises(UnknownName, match="t/step-1"):
            await rebuild_prompt(engine, "r", "t/step-3")
        with pytest.raises(RunNotFound):
            await rebuild_prompt(engine, "nothing", "t")
