"""An agent or a team as a tool: asked in the same run, under the budget of its caller; a failure is a result."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.agent import Agent, Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.agents.tools.built_in import AgentSource, as_tool
from teamwright.agents.tools.registry import ToolLike
from teamwright.errors import DuplicateName, InvalidRequest, ToolError, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAsked
from teamwright.values.limits import Limits
from teamwright.values.names import as_tool_name
from teamwright.values.people import Answer, Confirm, Question
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, Turn


def writer(
    *calls: ToolCallPart, tools: list[ToolLike], limits: Limits | None = None, confirm: Confirm | None = None
) -> ModelAgent:
    """A model agent that makes these calls at once, and then answers with their results."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if not results:
            return ModelResponse(parts=list(calls))
        return ModelResponse(parts=[TextPart(" | ".join(str(one.content) for one in results))])

    return ModelAgent("writer", model=FunctionModel(answer), tools=tools, limits=limits, confirm=confirm)


def ask(name: str, task: str = "go", call_id: str = "") -> ToolCallPart:
    return ToolCallPart(name, {"task": task}, call_id or name)


async def result_of(agent: Agent) -> RunResult:
    async with Engine("memory") as engine:
        return await engine.run(agent, "write")


def echo(name: str) -> FunctionAgent:
    return FunctionAgent(name, lambda turn: f"{name} did {turn.task}", description=f"Does what {name} does.")


async def test_a_model_asks_an_agent_and_gets_its_answer() -> None:  # L-D-1
    agent = writer(ask("researcher", "find facts"), tools=[echo("researcher")])
    async with Engine("memory") as engine:
        result = await engine.run(agent, "write")
        events = (await engine.runs.history(result.run_id)).events
    assert result.output == "researcher did find facts"
    asked = [event.key for event in events if isinstance(event.fact, AgentAsked)]
    assert [key.rpartition("/")[2] for key in asked] == ["writer", "step-1", "researcher"]
    assert asked[2].startswith("writer/step-1/tool-")


async def test_a_team_is_a_tool_under_a_name_of_its_own() -> None:  # L-D-1
    team = Team("desk", members=[echo("a"), echo("b")], share="output")
    result = await result_of(writer(ask("research"), tools=[as_tool(team, name="research", description="Asks two.")]))
    assert result.output == "b did a did go"


def test_a_tool_has_the_name_and_description_of_its_agent_unless_others_are_given() -> None:
    source, named = AgentSource(echo("dr.who")), as_tool(echo("b"), name="other", description="Other.")
    assert (source.definition.name, source.definition.description) == ("dr_who", "Does what dr.who does.")
    assert isinstance(named, AgentSource)
    assert (named.definition.name, named.definition.description) == ("other", "Other.")
    assert (
        AgentSource(FunctionAgent("plain", lambda turn: "")).definition.description
        == "Ask 'plain' to do a part of the work."
    )


def test_a_tool_name_is_one_that_every_provider_takes() -> None:
    assert as_tool_name("a.b-c_d") == "a_b-c_d"
    assert len(as_tool_name("x" * 80)) == 64


def test_two_tools_can_not_ask_under_the_same_name() -> None:
    with pytest.raises(DuplicateName, match="agent 'a'"):
        ModelAgent("writer", model="local", tools=[echo("a"), as_tool(echo("b"), name="a")])


def test_an_agent_that_is_no_instance_is_refused() -> None:
    with pytest.raises(UsageError, match="is a class; create an instance"):
        as_tool(FunctionAgent)  # pyright: ignore[reportArgumentType]


class Order(BaseModel):
    number: int
    note: str = ""


async def test_the_input_schema_of_the_agent_is_what_the_model_fills_in() -> None:  # L-D-2
    agent = FunctionAgent("clerk", lambda turn: f"got {turn.task}", input_schema=Order)
    assert AgentSource(agent).definition.parameters["required"] == ["number"]
    result = await result_of(writer(ToolCallPart("clerk", {"number": 7}, "c"), tools=[agent]))
    assert result.output == 'got {"number": 7}'


@pytest.mark.parametrize("arguments", [{}, {"task": ""}, {"task": 1}, {"task": "x", "more": 1}, {"job": "x"}])
def test_arguments_that_do_not_fit_are_a_correction(arguments: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="takes one argument, 'task'"):
        AgentSource(echo("a")).validate("a", arguments)  # pyright: ignore[reportArgumentType]


def test_arguments_that_break_the_input_schema_are_a_correction() -> None:  # L-D-2
    with pytest.raises(ToolError, match="'number' is a required property"):
        AgentSource(FunctionAgent("clerk", lambda turn: "", input_schema=Order)).validate("clerk", {"note": "x"})


async def test_data_of_the_agent_is_the_result() -> None:
    agent = FunctionAgent("clerk", lambda turn: {"total": 3}, output_schema={"type": "object"})
    assert (await result_of(writer(ask("clerk"), tools=[agent]))).output == "{'total': 3}"


async def test_a_failure_is_a_result_that_tells_the_kind_and_not_the_text() -> None:  # L-D-3
    def fail(task: str) -> str:
        raise ValueError("the password is swordfish")

    result = await result_of(writer(ask("broken"), tools=[FunctionAgent("broken", fail)]))
    assert result.output == "'broken' gave no answer (error)."
    assert result.status == "completed"


async def test_terminate_inside_ends_only_the_inner_agent() -> None:  # L-D-4
    rule = Rule(tool=ToolRule(name="terminate", args={"response": "enough"}))
    inner = ScriptedAgent("inner", [rule], tools=["terminate"])
    team = Team("pair", members=[writer(ask("inner"), tools=[inner]), echo("last")], share="output")
    result = await result_of(team)
    assert (result.output, result.stop_reason) == ("last did enough", "done")


async def test_agents_are_asked_side_by_side_and_their_results_are_in_order() -> None:  # L-D-5
    both = asyncio.Barrier(2)

    def waiting(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            async with asyncio.timeout(10):
                await both.wait()
            return name

        return FunctionAgent(name, respond)

    def plain() -> str:
        """Be plain."""
        return "plain"

    calls = (ask("a"), ToolCallPart("plain", {}, "p"), ask("b"))
    result = await result_of(writer(*calls, tools=[waiting("a"), waiting("b"), plain]))
    assert result.output == "a | plain | b"


async def test_the_same_agent_may_be_asked_twice_at_once() -> None:  # L-D-5
    result = await result_of(writer(ask("a", "x", "1"), ask("a", "y", "2"), tools=[echo("a")]))
    assert result.output == "a did x | a did y"


async def test_usage_of_the_inner_agent_counts_for_its_caller_and_its_budget() -> None:  # L-D-6
    inner = ScriptedAgent("inner", [Rule(reply="word " * 400)])
    team = writer(ask("inner", "one", "1"), tools=[inner], limits=Limits(calls=2))
    result = await result_of(team)
    assert (result.status, result.stop_reason) == ("degraded", "budget") or result.status == "failed"
    assert result.usage.requests == 2
    assert (await result_of(writer(ask("inner"), tools=[inner]))).usage.requests == 3


async def test_the_time_limit_of_the_inner_agent_is_its_own() -> None:  # L-D-7
    async def sleep(turn: Turn) -> str:
        await asyncio.sleep(30)
        return "late"

    slow = FunctionAgent("slow", sleep, limits=Limits(seconds=0.1))
    assert (await result_of(writer(ask("slow"), tools=[slow]))).output == "'slow' gave no answer (timeout)."


async def test_a_question_inside_pauses_the_run_and_the_answer_continues_it() -> None:  # L-D-7
    async def respond(turn: Turn, ctx: Context) -> str:
        return (await ctx.ask_person(Question(text="Which?"), key="which")).text

    agent = writer(ask("asks", "x", "1"), ask("b", "y", "2"), tools=[FunctionAgent("asks", respond), echo("b")])
    async with Engine("memory") as engine:
        paused = await engine.run(agent, "write")
        assert (paused.status, paused.stop_reason) == ("paused", "person")
        (question,) = (await engine.runs.history(paused.run_id)).questions()
        await engine.runs.answer(paused.run_id, question, Answer(text="this one"))
        result = await engine.resume(paused.run_id, team=agent)
    assert result.output == "this one | b did y"


async def test_a_person_may_have_to_approve_the_ask() -> None:
    agent = writer(ask("a"), tools=[echo("a")], confirm=Confirm(tools=("a",)))
    result = await result_of(agent)
    assert (result.status, result.stop_reason) == ("paused", "approval")


async def test_the_warnings_of_the_inner_agent_reach_the_result() -> None:
    async def respond(turn: Turn) -> Reply:
        return Reply.of("a", "fine", warnings=("a: take care",))

    result = await result_of(writer(ask("a"), tools=[FunctionAgent("a", respond)]))
    assert [one for one in result.warnings if "take care" in one]


async def test_an_inner_agent_with_wrong_settings_is_a_warning_that_its_asker_does_not_read() -> None:
    def refuse(turn: Turn) -> str:
        raise InvalidRequest("The model 'gpt-6' refused the request, HTTP 404")

    rules = [
        Rule(match="gpt-6", reply="told"),
        Rule(match="failed", reply="done"),
        Rule(tool=ToolRule(name="helper", args={"task": "x"})),
    ]
    result = await result_of(ScriptedAgent("boss", rules, tools=[FunctionAgent("helper", refuse)]))
    assert (result.status, result.output) == ("degraded", "done")
    assert [one for one in result.warnings if "The model 'gpt-6' refused the request, HTTP 404" in one]


async def test_a_scripted_agent_asks_agents_too() -> None:  # L-D-8
    rules = [Rule(match="# tool helper:", reply="done"), Rule(tool=ToolRule(name="helper", args={"task": "x"}))]
    result = await result_of(ScriptedAgent("boss", rules, tools=[echo("helper")]))
    assert result.output == "done"


async def test_what_an_agent_tool_says_is_no_answer_of_a_run_that_fails() -> None:
    def lookup(turn: Turn) -> str:
        return "An internal note."

    def ask_then_fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            raise ModelHTTPError(400, "m", "no more")
        return ModelResponse(parts=[ToolCallPart("lookup", {"task": "Look."})])

    agent = ModelAgent("a", model=FunctionModel(ask_then_fail), tools=[FunctionAgent("lookup", lookup)])
    async with Engine(MemoryJournal()) as engine:
        result = await engine.run(Team("t", members=[agent]), "Go.")
    assert (result.status, result.output, result.messages) == ("failed", None, ())
