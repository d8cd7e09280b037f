from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from teamwright.agents.function import FunctionAgent
from teamwright.agents.model import ModelAgent
from teamwright.agents.scripted import Rule, Script, ScriptedAgent
from teamwright.runtime.engine import Engine
from teamwright.runtime.script_of import script_of
from teamwright.teams.team import Team
from teamwright.testing.chat import CallTools, ChatAnswer, ChatRequest, Fail, Say, SayJson, ToolCall
from teamwright.testing.model_server import ModelServer
from teamwright.values.limits import RetryPolicy
from teamwright.values.specs import JsonSchema, ServerModel

NUMBER: JsonSchema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def shout(text: str) -> str:
    return text.upper()


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def told(rules: tuple[Rule, ...]) -> list[tuple[str, object]]:
    return [(rule.agent, rule.reply or rule.data or rule.tool or rule.error) for rule in rules]


async def test_a_run_with_a_real_client_replays_as_a_script(tmp_path: Path) -> None:
    tools = CallTools(calls=(ToolCall(name="double", args={"n": 2}), ToolCall(name="double", args={"n": 3})))
    answers: list[ChatAnswer] = [tools, Say(text="It is 4 and 6."), Fail(status=500), SayJson(data={"n": 7})]
    turn = count()

    def answer(_: ChatRequest) -> ChatAnswer:
        return answers[next(turn)]

    with ModelServer(answer) as server:
        model = ServerModel(url=server.url, name="tiny")
        retry = RetryPolicy(backoff=0.0)
        real = Team(
            "sums",
            members=[
                ModelAgent("doubler", model=model, tools=[double], retry=retry),
                FunctionAgent("shouter", shout),
                ModelAgent("counter", model=model, output_schema=NUMBER, retry=retry),
            ],
        )
        async with Engine("memory") as engine:
            first = await engine.run(real, "Double two and three.")
            script = await script_of(engine.journal, await engine.history(first.run_id))
            assert first.status == "completed", first.failure
            (tmp_path / "script.yaml").write_text(script.to_yaml())
            again = Script.load(tmp_path / "script.yaml")
            replayed = Team(
                "sums",
                members=[
                    ScriptedAgent("doubler", again, tools=[double]),
                    FunctionAgent("shouter", shout),
                    ScriptedAgent("counter", again, output_schema=NUMBER),
                ],
            )
            second = await engine.run(replayed, "Double two and three.")
    assert again == script
    assert [rule.agent for rule in script.rules] == ["doubler", "doubler", "doubler", "counter"]
    assert all(rule.times == 1 for rule in script.rules)
    assert script.rules[-1].data == {"n": 7}
    assert [(one.name, one.content.replace(" ", "")) for one in second.messages] == [
        (one.name, one.content.replace(" ", "")) for one in first.messages
    ]


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines\n", "  led by blanks\nand more", "tab\tand \x1b[31m", "größe: 漢字"]
)
async def test_any_text_survives_the_way_through_a_file(tmp_path: Path, text: str) -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=[ScriptedAgent("a", [Rule(reply=text)])])
        result = await engine.run(team, "Go")
        script = await script_of(engine.journal, await engine.history(result.run_id))
    (tmp_path / "script.yaml").write_text(script.to_yaml(), encoding="utf-8")
    assert told(Script.load(tmp_path / "script.yaml").rules) == [("a", text)]


async def test_a_turn_that_failed_fails_again() -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=[ScriptedAgent("a", [Rule(error="refused")])])
        result = await engine.run(team, "Go")
        script = await script_of(engine.journal, await engine.history(result.run_id))
    assert told(script.rules) == [("a", "refused")]
