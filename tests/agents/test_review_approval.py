"""A person's decision before a tool is called: approved, edited or refused, by scripts and models, several at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import permutations

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, ModelAgent, RunResult, ScriptedAgent, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.agents.review import ask_for_decision
from teamwright.agents.scripted import Rule, ToolRule
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import AgentError, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, PersonAsked
from teamwright.values.people import Answer, Confirm, Question, approval_question
from teamwright.values.specs.models import ServerModel
from teamwright.values.specs.tools import McpSpec, McpTool
from teamwright.values.turns.messages import digest
from tests.kit.records import cut, wait_for_question

ALL = Confirm(tools=True)


class Deployments:
    """Tools that remember how they were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def tools(self) -> Sequence[Callable[..., object]]:
        def deploy(version: str) -> str:
            """Deploy a version."""
            self.called.append(f"deploy {version}")
            return f"{version} is out"

        async def look(what: str) -> str:
            """Look at something."""
            self.called.append(f"look {what}")
            return f"{what} is fine"

        return deploy, look


def deployer(deployments: Deployments, confirm: Confirm | None = ALL) -> ScriptedAgent:
    rules = [
        Rule(match="is out", reply="Done."),
        Rule(match="was refused", reply="Then not."),
        Rule(tool=ToolRule(name="deploy", args={"version": "1.2"})),
    ]
    return ScriptedAgent("deployer", rules, tools=deployments.tools(), confirm=confirm)


async def through(
    agent: Agent, *answers: Answer, journal: MemoryJournal | None = None
) -> tuple[RunResult, list[Event]]:
    """Run the agent, answering open questions one by one, each in a new engine."""
    kept, left = journal or MemoryJournal(), list(answers)
    async with Engine(kept) as engine:
        result = await engine.run(agent, "Deploy it.", run_id="r")
    while result.status == "paused":
        async with Engine(kept) as engine:
            key = next(iter((await engine.runs.history("r")).questions()))
            await engine.runs.answer("r", key, left.pop(0))
            result = await engine.resume("r", team=agent)
    assert not left
    return result, await kept.read("r")


async def test_a_tool_waits_until_a_person_agrees() -> None:  # P-12
    deployments = Deployments()
    async with Engine("memory") as engine:
        paused = await engine.run(deployer(deployments), "Deploy it.", run_id="r")
        assert (paused.status, paused.stop_reason) == ("paused", "approval")
        assert deployments.called == []
        ((key, question),) = (await engine.runs.history("r")).questions().items()
        assert key == "deployer/step-1/tool-1/confirm"
        assert question.text == "May 'deployer' call the tool 'deploy' with these arguments?"
        assert json.loads(question.draft or "") == {"version": "1.2"}
        await engine.runs.answer("r", key, "approve")
        result = await engine.resume("r", team=deployer(deployments))
    assert (result.output, deployments.called) == ("Done.", ["deploy 1.2"])


@pytest.mark.parametrize("edited", ['{"version": "1.3"}', {"version": "1.3"}])
async def test_edited_arguments_take_the_place_of_the_models(edited: object) -> None:  # P-12
    deployments = Deployments()
    await through(deployer(deployments), Answer(text="edit", data=edited))  # pyright: ignore[reportArgumentType]
    assert deployments.called == ["deploy 1.3"]


async def test_a_script_sees_what_was_called_and_that_a_person_changed_it() -> None:
    deployments = Deployments()
    rules = [
        Rule(match=r"# tool deploy, which a person changed to \{\"version\":\"1.3\"\}:\n1.3 is out", reply="Changed."),
        Rule(tool=ToolRule(name="deploy", args={"version": "1.2"})),
    ]
    agent = ScriptedAgent("deployer", rules, tools=deployments.tools(), confirm=ALL)
    result, events = await through(agent, Answer.edit({"version": "1.3"}))
    assert result.output == "Changed."
    assert sum(isinstance(event.fact, PersonAsked) for event in events) == 1


async def test_a_refused_call_is_sent_to_the_model_which_continues() -> None:  # P-12
    deployments = Deployments()
    result, _ = await through(deployer(deployments), Answer.reject("not on a Friday", by="Ada"))
    assert (result.status, result.output, deployments.called) == ("completed", "Then not.", [])
    assert result.usage.tool_calls == 0


async def test_arguments_that_do_not_fit_are_reported_and_asked_again() -> None:
    deployments = Deployments()
    result, events = await through(
        deployer(deployments), Answer.edit({"verison": "1.3"}), Answer.edit({"version": "1.3"})
    )
    assert (result.output, deployments.called) == ("Done.", ["deploy 1.3"])
    texts = [event.fact.question.text for event in events if isinstance(event.fact, PersonAsked)]
    assert "do not fit the tool 'deploy'" in texts[1]


async def test_arguments_that_are_no_json_object_are_refused_at_once() -> None:
    async with Engine("memory") as engine:
        await engine.run(deployer(Deployments()), "Deploy it.", run_id="r")
        for edit in ("version 1.3", "[1]", None):
            with pytest.raises(UsageError, match="must be a JSON object"):
                await engine.runs.answer("r", "deployer/step-1/tool-1/confirm", Answer.edit(edit))


@pytest.mark.parametrize(
    ("confirm", "asks"),
    [(None, False), (Confirm(tools=["look"]), False), (Confirm(tools=["deploy"]), True), (Confirm(after=False), False)],  # pyright: ignore[reportArgumentType]
)
async def test_only_the_tools_that_are_named_need_a_person(confirm: Confirm | None, asks: bool) -> None:
    async with Engine("memory") as engine:
        result = await engine.run(deployer(Deployments(), confirm), "Deploy it.")
    assert (result.status == "paused") == asks


def test_names_that_are_no_tools_are_refused() -> None:
    deployments = Deployments()
    with pytest.raises(UsageError, match="did you mean 'deploy'"):
        Toolbox(deployments.tools(), Confirm(tools=("deplyo",)), "a")
    with pytest.raises(UsageError, match="approve the reply instead"):
        Toolbox(["terminate"], Confirm(tools=("terminate",)), "a")
    server = McpSpec(mcp=McpTool(command=("x",)))
    Toolbox([("files", server)], Confirm(tools=("files", "only-the-server-knows")), "a")
    Toolbox(["workspace"], Confirm(tools=("workspace", "write_value")), "a")


def two_tools(request: ChatRequest) -> ChatAnswer:
    told = [message.content for message in request.messages if message.role == "tool"]
    if told:
        return Say(text="; ".join(told))
    return CallTools(
        calls=(
            ToolCall(name="deploy", args={"version": "1"}, id="one"),
            ToolCall(name="look", args={"what": "2"}, id="two"),
            ToolCall(name="deploy", args={"version": "3"}, id="three"),
        )
    )


@pytest.mark.parametrize("order", list(permutations(["one", "two", "three"])))
async def test_calls_that_a_model_makes_at_once_are_answered_in_any_order(order: Sequence[str]) -> None:
    """One at a time and each in another engine; the others keep waiting, and nothing is called twice."""
    answers = {"one": Answer.approve(), "two": Answer.edit({"what": "22"}), "three": Answer.reject("no")}
    deployments, journal = Deployments(), MemoryJournal()
    with ModelServer(two_tools) as server:
        model = ServerModel(url=server.url, name="m")

        def agent() -> ModelAgent:
            return ModelAgent("a", model=model, tools=deployments.tools(), confirm=ALL)

        async with Engine(journal) as engine:
            result = await engine.run(agent(), "Go.", run_id="r")
            assert len((await engine.runs.history("r")).questions()) == 3
        for name in order:
            async with Engine(journal) as engine:
                assert (result.status, result.stop_reason) == ("paused", "approval")
                await engine.runs.answer("r", f"a/step-1/tool-{digest(name)[:12]}/confirm", answers[name])
                result = await engine.resume("r", team=agent())
        assert server.count == 2
    assert result.output is not None
    assert result.output.startswith("1 is out; A person changed your call ")
    assert "\n22 is fine; " in result.output
    assert "The call of the tool 'deploy' was refused: a person said no: no" in result.output
    assert sorted(deployments.called) == ["deploy 1", "look 22"]


async def test_calls_at_once_resume_to_the_same_result_from_every_point() -> None:  # law 2
    journal, answers = MemoryJournal(), (Answer.approve(), Answer.edit({"what": "22"}), Answer.reject("no"))
    with ModelServer(two_tools) as server:
        model, deployments = ServerModel(url=server.url, name="m"), Deployments()
        agent = ModelAgent("a", model=model, tools=deployments.tools(), confirm=ALL)
        expected, events = await through(agent, *answers, journal=journal)
        for at in range(1, len(events)):
            copy = await cut(journal, at)
            async with Engine(copy) as engine:
                with anyio.fail_after(10):
                    result = await engine.resume("r", team=agent)
                log = await copy.read("r")
            assert result.output == expected.output, f"cut after {at}"
            for kind in (PersonAsked, PersonAnswered):
                keys = [event.key for event in log if isinstance(event.fact, kind)]
                assert len(keys) == len(set(keys)) == 3


async def test_a_call_beside_a_question_comes_back_before_the_run_is_paused() -> None:
    released, deployments = anyio.Event(), Deployments()

    async def slow(what: str) -> str:
        """Take a while."""
        await released.wait()
        deployments.called.append("slow")
        return "slowly done"

    def both(request: ChatRequest) -> ChatAnswer:
        if any(message.role == "tool" for message in request.messages):
            return Say(text="done")
        return CallTools(
            calls=(ToolCall(name="slow", args={"what": "x"}), ToolCall(name="deploy", args={"version": "1"}))
        )

    with ModelServer(both) as server:
        tools = [slow, deployments.tools()[0]]
        model = ServerModel(url=server.url, name="m")
        agent = ModelAgent("a", model=model, tools=tools, confirm=Confirm(tools=("deploy",)))
        async with Engine("memory") as engine:
            handle = await engine.start(agent, "Go.", run_id="r")
            await wait_for_question(engine)
            await anyio.sleep(0.05)
            assert (await engine.runs.result("r")).status == "running"
            released.set()
            with anyio.fail_after(10):
                result = await handle.result()
    assert (result.status, deployments.called) == ("paused", ["slow"])


async def test_the_seconds_of_an_agent_stand_still_while_it_waits_for_a_person() -> None:
    deployments = Deployments()
    rules = deployer(deployments).script
    agent = ScriptedAgent("a", rules, tools=deployments.tools(), confirm=ALL, limits=Limits(seconds=0.3))
    async with Engine("memory") as engine:
        handle = await engine.start(agent, "Deploy it.", run_id="r")
        handle.set_interactive(True)
        await anyio.sleep(0.6)
        await engine.runs.answer("r", "a/step-1/tool-1/confirm", "approve")
        with anyio.fail_after(10):
            result = await handle.result()
    assert (result.status, result.output) == ("completed", "Done.")
    assert result.seconds < 0.5


async def test_a_custom_agent_asks_several_people_at_once() -> None:
    async def respond(turn: Turn, ctx: Context) -> str:
        said: dict[str, str] = {}

        async def ask(name: str) -> None:
            said[name] = (await ctx.ask_person(Question(text=f"And {name}?"), key=name)).text

        async with anyio.create_task_group() as group:
            for name in ("x", "y"):
                group.start_soon(ask, name)
        return " ".join(said[name] for name in ("x", "y"))

    team = Team("t", members=[FunctionAgent("a", respond)])
    for order in permutations(["x", "y"]):
        async with Engine("memory") as engine:
            result = await engine.run(team, "go", run_id="r")
            for name in order:
                assert result.status == "paused"
                await engine.runs.answer("r", f"t/step-1/{name}", name.upper())
                result = await engine.resume("r", team=team)
        assert result.output == "X Y"


async def test_whatever_is_neither_a_yes_nor_an_edit_is_a_no() -> None:
    async def ask(question: Question, place: str) -> Answer:
        return Answer(text="whatever")

    def fit(data: object) -> str:
        raise AgentError("never asked")

    decision = await ask_for_decision(ask, approval_question("May it?", "x"), "p", fit)
    assert (decision.approved, decision.reason) == (False, "a person said no")
