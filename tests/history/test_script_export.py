from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, Script, ScriptedAgent
from teamwright.history.script_export import to_script
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.testing.chat import CallTools, ChatAnswer, ChatRequest, Fail, Say, SayJson, ToolCall
from teamwright.testing.model_server import ModelServer
from teamwright.values.call_limits import RetryPolicy
from teamwright.values.events.agent import AgentReplied
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.models import ServerModel

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
            script = await to_script(engine.journal, await engine.runs.history(first.run_id))
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


async def test_own_tools_that_are_named_like_the_tool_for_answers_are_called_again() -> None:
    made: list[int] = []

    def final_result(n: int) -> str:
        """Note a number."""
        made.append(n)
        return "noted"

    answers: list[ChatAnswer] = [
        CallTools(calls=(ToolCall(name="final_result", args={"n": 1}),)),
        CallTools(calls=(ToolCall(name="final_result_2", args={"n": 7}),)),
    ]
    with ModelServer(lambda _: answers.pop(0)) as server:
        model = ServerModel(url=server.url, name="tiny")
        agent = ModelAgent("a", model=model, tools=[final_result], output_schema=NUMBER, output_mode="tool")
        async with Engine("memory") as engine:
            first = await engine.run(Team("t", members=[agent]), "Go")
            script = await to_script(engine.journal, await engine.runs.history(first.run_id))
            scripted = ScriptedAgent("a", script, tools=[final_result], output_schema=NUMBER)
            second = await engine.run(Team("t", members=[scripted]), "Go")
    assert first.data == second.data == {"n": 7}
    assert made == [1, 1]


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines\n", "  led by blanks\nand more", "tab\tand \x1b[31m", "größe: 漢字"]
)
async def test_any_text_survives_the_way_through_a_file(tmp_path: Path, text: str) -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=[ScriptedAgent("a", [Rule(reply=text)])])
        result = await engine.run(team, "Go")
        script = await to_script(engine.journal, await engine.runs.history(result.run_id))
    (tmp_path / "script.yaml").write_text(script.to_yaml(), encoding="utf-8")
    assert told(Script.load(tmp_path / "script.yaml").rules) == [("a", text)]


async def test_a_turn_that_failed_fails_again() -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=[ScriptedAgent("a", [Rule(error="refused")])])
        result = await engine.run(team, "Go")
        script = await to_script(engine.journal, await engine.runs.history(result.run_id))
    assert told(script.rules) == [("a", "refused")]


async def test_what_was_handed_over_is_part_of_the_script(tmp_path: Path) -> None:  # Z-03
    block = '```envelope\n{"status": "blocked", "summary": "The long and the short of it.", "needs": ["rope"]}\n```'
    fields = {"status": "failed", "summary": "It came to three in the end."}
    rules = [
        Rule(agent="a", reply=f"{'A long story. ' * 30}\n{block}"),
        Rule.model_validate({"agent": "b", "json": {"n": 3, "story": "long " * 99, "envelope": fields}}),
        Rule(agent="c", reply="Done."),
    ]

    def team(script: Script) -> Team:
        return Team("t", members=[ScriptedAgent(name, script) for name in "abc"], share="a2a_lite")

    async with Engine("memory") as engine:
        first = await engine.run(team(Script(rules=tuple(rules))), "Go.", run_id="first")
        script = await to_script(engine.journal, await engine.runs.history("first"))
        (tmp_path / "script.yaml").write_text(script.to_yaml())
        again = await engine.run(team(Script.load(tmp_path / "script.yaml")), "Go.", run_id="again")
        told = [
            [
                event.fact.envelope_note
                for event in (await engine.runs.history(run)).events
                if isinstance(event.fact, AgentReplied)
            ]
            for run in ("first", "again")
        ]
    assert [message.content for message in again.messages] == [message.content for message in first.messages]
    assert [one and (one.status, one.summary, one.needs) for one in told[0]] == [
        one and (one.status, one.summary, one.needs) for one in told[1]
    ]
    assert told[0][0] is not None
    assert told[0][0].needs == ("rope",)
