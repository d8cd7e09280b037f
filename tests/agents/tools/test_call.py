"""Calls of tools through the engine: their context, questions to people, timeouts, retries and dependencies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest
from pydantic import JsonValue

from teamwright import Answer, Context, Engine, FunctionAgent, RunResult, ScriptedAgent, Turn
from teamwright.agents.attachments import ToolValue
from teamwright.agents.scripted import Rule, ToolRule
from teamwright.agents.tools.protocol import Arguments, InputNeeded, PausingSource, ToolContext, ToolDefinition
from teamwright.agents.tools.python import tool
from teamwright.agents.tools.registry import ToolLike
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import AgentError, MissingDependency, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentCalled, AgentProgressed
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunLogged
from teamwright.values.people import Question
from tests.kit.records import cut


def clerk(function: ToolLike) -> FunctionAgent:
    """An agent that calls the tool `act` once and replies with what came back."""
    toolbox = Toolbox([function], owner="clerk")

    async def work(turn: Turn, ctx: Context) -> str:
        async with toolbox.open(ctx) as tools:
            try:
                return str(await tools.call_recorded("act", {}, key="tool-1"))
            except AgentError as error:
                return str(error)

    return FunctionAgent("clerk", work)


async def through(
    agent: FunctionAgent, *answers: str, journal: MemoryJournal | None = None, deps: Sequence[object] = ()
) -> tuple[RunResult, list[Event]]:
    """Run the agent, and answer each question in an engine of its own."""
    kept, left = journal or MemoryJournal(), list(answers)
    async with Engine(kept, deps=deps) as engine:
        result = await engine.run(agent, "Go.", run_id="r")
    while result.status == "paused":
        async with Engine(kept, deps=deps) as engine:
            key = next(iter((await engine.runs.history("r")).questions()))
            await engine.runs.answer("r", key, Answer(text=left.pop(0)))
            result = await engine.resume("r", team=agent)
    assert not left
    return result, await kept.read("r")


async def test_a_tool_knows_its_run_its_member_and_its_key() -> None:
    seen: list[ToolContext] = []

    def act(ctx: ToolContext) -> str:
        """Act."""
        seen.append(ctx)
        return "done"

    agent = clerk(tool(act, name="act"))
    result, _ = await through(agent)
    assert (result.output, seen[0].run_id, seen[0].member) == ("done", "r", "clerk")
    assert seen[0].key
    assert seen[0].idempotency_key


@pytest.mark.parametrize("in_thread", [True, False])
async def test_log_lines_and_progress_are_events_from_any_thread(in_thread: bool) -> None:
    def report(ctx: ToolContext) -> str:
        ctx.log("half way", level="warning")
        ctx.progress("copying", 0.5)
        return "done"

    async def report_async(ctx: ToolContext) -> str:
        return report(ctx)

    _, events = await through(clerk(tool(report if in_thread else report_async, name="act")))
    assert [event.fact for event in events if isinstance(event.fact, RunLogged | AgentProgressed)] == [
        RunLogged(text="half way", level="warning"),
        AgentProgressed(name="act", text="copying", done=0.5),
    ]


def test_progress_is_a_share() -> None:
    with pytest.raises(UsageError, match="a share from 0 to 1, not 50"):
        ToolContext("k", "k").progress("copying", 50)


class Choice:
    """A tool that asks a person twice, and counts what it did."""

    def __init__(self) -> None:
        self.started = 0
        self.acted: list[str] = []

    async def act(self, ctx: ToolContext) -> str:
        """Act as a person says."""
        self.started += 1
        colour = await ctx.ask_person("Which colour?", choices=["red", "blue"])
        size = await ctx.ask_person("Which size?")
        self.acted.append(f"{colour.text} {size.text} {ctx.idempotency_key}")
        return f"{colour.text}, {size.text}"


async def test_a_tool_asks_a_person_and_is_executed_again_with_the_recorded_answers() -> None:
    choice = Choice()
    result, events = await through(clerk(choice.act), "red", "large")
    assert (result.output, choice.started, len(choice.acted)) == ("red, large", 3, 1)
    assert result.usage.tool_calls == 1
    assert [event.fact.kind for event in events if event.fact.kind.startswith("person")] == [
        "person.asked",
        "person.answered",
    ] * 2


async def test_a_run_that_is_cut_anywhere_around_a_question_acts_once_with_the_same_key() -> None:
    journal, first = MemoryJournal(), Choice()
    _, events = await through(clerk(first.act), "red", "large", journal=journal)
    for at in range(2, len(events)):
        choice = Choice()
        copy = await cut(journal, at)
        if (await copy.read("r"))[-1].kind in ("run.paused", "run.ended"):
            continue
        async with Engine(copy) as engine:
            handle = await engine.start_resume("r", team=clerk(choice.act))
            result = await handle.result()
        assert (result.status, result.output) == ("completed", "red, large"), at
        assert choice.acted in ([], first.acted), at


class Order(PausingSource):
    """A tool that asks two questions at once and then one more, goes on where it was, and counts what it did."""

    kind, name, tool_names = "order", "order", ("act",)

    def __init__(self) -> None:
        self.started = 0
        self.acted: list[str] = []

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        return [ToolDefinition("act", "Order.", {"type": "object", "properties": {}})]

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        self.started += 1
        raise InputNeeded((Question(text="Which colour?"), Question(text="Which size?")), {"round": 1})

    async def resume(
        self, name: str, arguments: Arguments, state: JsonValue, answers: Sequence[Answer], context: ToolContext
    ) -> ToolValue:
        assert isinstance(state, dict)
        said = ", ".join(one.text for one in answers)
        if state["round"] == 1:
            raise InputNeeded([Question(text="For whom?")], {"round": 2, "said": said})
        self.acted.append(context.idempotency_key)
        return f"{state['said']}, {said}"


async def test_a_source_that_asks_goes_on_with_its_state_wherever_the_run_is_cut() -> None:
    journal, first = MemoryJournal(), Order()
    result, events = await through(clerk(first), "red", "large", "Ada", journal=journal)
    assert (result.output, result.usage.tool_calls, first.started) == ("red, large, Ada", 1, 1)
    for at in range(2, len(events)):
        order = Order()
        copy = await cut(journal, at)
        if (await copy.read("r"))[-1].kind in ("run.paused", "run.ended"):
            continue
        async with Engine(copy) as engine:
            result = await engine.resume("r", team=clerk(order))
        assert (result.status, result.output) == ("completed", "red, large, Ada"), at
        assert order.acted in ([], first.acted), at


async def test_a_question_is_not_swallowed_by_a_tool_that_catches_everything() -> None:
    async def act(ctx: ToolContext) -> str:
        """Act."""
        try:
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(ctx.ask_person("May I?"))
        except BaseException:  # noqa: BLE001
            return "never mind"
        return asked.result().text

    result, _ = await through(clerk(tool(act)), "yes")
    assert result.output == "yes"


async def test_a_tool_that_asks_something_else_the_second_time_fails() -> None:
    texts = iter(["May I?", "Should I?"])

    async def act(ctx: ToolContext) -> str:
        """Act."""
        return (await ctx.ask_person(next(texts))).text

    result, _ = await through(clerk(tool(act)), "yes")
    assert "asked something else when it was executed again: 'Should I?'" in str(result.output)


async def test_writes_of_an_execution_that_is_repeated_are_made_once() -> None:
    async def act(ctx: ToolContext) -> str:
        """Act."""
        version = await ctx.workspace.put("draft", "text", version=0)
        return f"{(await ctx.ask_person('May I?')).text} {version}"

    result, events = await through(clerk(tool(act)), "yes")
    assert result.output == "yes 1"
    assert [event.kind for event in events].count("workspace.written") == 1


class Database:
    name = "db"


class SpecialDatabase(Database):
    name = "special"


def look_up(ctx: ToolContext[Database]) -> str:
    """Look it up."""
    return ctx.dep(Database).name


def look_up_late(ctx: ToolContext) -> str:
    """Look it up."""
    return ctx.dep(Database).name


@pytest.mark.parametrize("given", [Database(), SpecialDatabase()])
@pytest.mark.parametrize("function", [look_up, look_up_late])
async def test_a_tool_finds_the_engines_dependency_by_its_type(
    function: Callable[..., object], given: Database
) -> None:
    result, _ = await through(clerk(tool(function, name="act")), deps=[given, "text"])
    assert result.output == given.name


async def test_a_run_whose_tool_declares_a_dependency_does_not_start_without_it() -> None:
    rules = [Rule(tool=ToolRule(name="act", args={}), times=1), Rule(reply="Done.")]
    agent = ScriptedAgent("clerk", rules, tools=[tool(look_up, name="act")])
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match=r"'clerk': .*no dependency of the type 'Database' \(it has none\)"):
            await engine.run(agent, "Go.", run_id="r")
        assert not await engine.journal.runs()


async def test_a_run_that_misses_a_dependency_is_resumed_with_an_engine_that_has_it() -> None:
    journal, agent = MemoryJournal(), clerk(tool(look_up_late, name="act"))
    async with Engine(journal, deps=["text"]) as engine:
        with pytest.raises(MissingDependency, match=r"no dependency of the type 'Database' \(it has str\)"):
            await engine.run(agent, "Go.", run_id="r")
    async with Engine(journal, deps=[Database()]) as engine:
        assert (await engine.resume("r", team=agent)).output == "db"


async def test_each_tool_has_its_own_timeout() -> None:
    def act() -> str:
        """Act."""
        time.sleep(2)
        return "too late"

    async def quick() -> str:
        """Act."""
        await asyncio.sleep(2)
        return "too late"

    for function in (act, quick):
        result, _ = await through(clerk(tool(function, name="act", timeout=0.05)))
        assert "'act' did not answer within 0.05 s" in str(result.output)


async def test_a_failed_call_is_repeated_as_often_as_the_tool_allows() -> None:
    failures = [OSError("no route"), ValueError("bad")]

    def act() -> str:
        """Act."""
        if failures:
            raise failures.pop(0)
        return "done"

    result, events = await through(clerk(tool(act, retry=2)))
    assert result.output == "done"
    assert [
        event.fact.attempt for event in events if isinstance(event.fact, AgentCalled) and event.fact.effect == "tool"
    ] == [1, 2, 3]


async def test_without_retries_the_first_failure_goes_to_the_model() -> None:
    def act() -> str:
        """Act."""
        raise OSError("no route")

    result, _ = await through(clerk(act))
    assert "The tool 'act' failed: OSError: no route" in str(result.output)


async def test_a_context_outside_a_run_logs_nothing_and_has_no_people() -> None:
    context = ToolContext("k", "k")
    context.log("nothing")
    context.progress("nothing")
    with pytest.raises(Exception, match="belongs to no run"):
        await context.ask_person("May I?")
