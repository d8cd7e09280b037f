"""A person who aborts after a failure ends the run, whatever the team would do about the failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from tests.kit.records import cut, wait_for_question


def says(name: str, **more: Any) -> FunctionAgent:
    return FunctionAgent(name, lambda turn: f"{name} spoke", **more)


def fails(name: str = "x", **more: Any) -> FunctionAgent:
    def respond(turn: Turn) -> str:
        raise Refused("no")

    return FunctionAgent(name, respond, **more)


def broken(**more: Any) -> FunctionAgent:
    """The critical member whose failure leads to a question."""
    return fails(critical=True, **more)


def _fan_out(on_failure: str) -> Team:
    options: dict[str, JsonValue] = {"on_failure": on_failure, "answer": "z", "chunks": ["one", "two"]}
    members = [says("a"), broken()]
    return Team("t", members=members, helpers=[says("z")], strategy="fan_out", options=options)


def _dag(on_failure: str) -> Team:
    steps: list[JsonValue] = [{"id": "x"}, {"id": "a"}, {"id": "z", "needs": ["x", "a"]}]
    options: dict[str, JsonValue] = {"steps": steps, "on_failure": on_failure}
    return Team("t", members=[broken(), says("a"), says("z")], strategy="dag", options=options)


def _graph() -> Team:
    edges: list[JsonValue] = [{"from": "x", "to": "z", "when": "error == 'refused'"}]
    return Team("t", members=[broken(), says("z")], strategy="graph", options={"edges": edges})


def _reactive() -> Team:
    rows: list[JsonValue] = [{"agent": "x", "on": "workflow.started"}, {"agent": "z", "on": "agent.error"}]
    options: dict[str, JsonValue] = {"subscriptions": rows, "on_failure": "collect"}
    return Team("t", members=[broken(), says("z")], strategy="reactive", options=options)


def _hierarchical() -> Team:
    decision: JsonValue = {"action": "delegate", "delegations": [{"specialist": "x", "task": "go"}]}

    def decide(turn: Turn) -> JsonValue:
        return decision if turn.number == 1 else {"action": "synthesize", "synthesis": "z went on"}

    options: dict[str, JsonValue] = {"lead": "lead", "on_failure": "collect"}
    helpers = [FunctionAgent("lead", decide)]
    return Team("t", members=[broken(), says("a")], helpers=helpers, strategy="hierarchical", options=options)


def _led(strategy: str) -> Callable[[], Team]:
    def team() -> Team:
        steps: list[JsonValue] = [{"id": "one", "agent": "x"}, {"id": "two", "agent": "a"}]
        options: dict[str, JsonValue] = {"steps": steps, "lead": "z", "on_failure": "collect"}
        return Team("t", members=[broken(), says("a")], helpers=[says("z")], strategy=strategy, options=options)

    return team


def _optional_team() -> Team:
    return Team("t", members=[Team("inner", members=[broken()], optional=True), says("z")])


def _critical_team() -> Team:
    """After an abort, no outer level asks a person again."""
    return Team("t", members=[Team("inner", members=[broken()], critical=True), says("z")])


def _fallback_of_the_team() -> Team:
    inner = Team("inner", members=[broken(), says("a")])
    return Team("t", members=[inner, says("z")], fallback=fails("y"))


def _fallback_that_fails_too() -> Team:
    return Team("t", members=[Team("inner", members=[broken(fallback=fails("y"))], optional=True), says("z")])


def _program() -> Team:
    """An agent that continues whatever the result of its asks."""

    async def respond(turn: Turn, ctx: Context) -> Reply:
        await ctx.ask(broken(), Turn("go"), key="one")
        return Reply.of("p", "z went on")

    return Team("t", members=[FunctionAgent("p", respond)])


TEAMS: dict[str, tuple[Callable[[], Team], str]] = {
    "sequential": (lambda: Team("t", members=[broken(), says("z")]), "t/x"),
    "round_robin": (lambda: Team("t", members=[broken(), says("z")], strategy="round_robin", max_turns=2), "t/x"),
    "fan_out collect": (lambda: _fan_out("collect"), "t/x"),
    "fan_out skip": (lambda: _fan_out("skip"), "t/x"),
    "dag collect": (lambda: _dag("collect"), "t/x"),
    "dag skip": (lambda: _dag("skip"), "t/x"),
    "an error edge": (_graph, "t/x"),
    "agent.error": (_reactive, "t/x"),
    "hierarchical": (_hierarchical, "t/x"),
    "lead_subagent": (_led("lead_subagent"), "t/x"),
    "star_team": (_led("star_team"), "t/x"),
    "mesh_team": (_led("mesh_team"), "t/x"),
    "an optional team": (_optional_team, "t/inner/x"),
    "a critical team": (_critical_team, "t/inner/x"),
    "a fallback": (_fallback_of_the_team, "t/inner/y"),
    "a fallback that fails": (_fallback_that_fails_too, "t/inner/y"),
    "a program": (_program, "t/p/x"),
}


async def aborted(team: Team, journal: MemoryJournal) -> RunResult:
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            handle = await engine.start(team, "go", run_id="r")
            key = await wait_for_question(engine)
            known = 0
            # Until those who work beside it have answered.
            while known < (known := len(await journal.read("r"))):  # noqa: ASYNC110 - nothing says that a run is quiet
                await anyio.sleep(0.03)
            await engine.runs.answer("r", key, "abort")
            result = await handle.result()
            return result if result.status != "paused" else await engine.resume("r", team=team)


def told(result: RunResult) -> tuple[object, ...]:
    failure = result.failure
    assert failure is not None
    messages = [(one.name, one.content) for one in result.messages]
    return result.status, result.stop_reason, failure.error, failure.member, failure.message, messages, result.output


@pytest.mark.parametrize("name", TEAMS)
async def test_an_abort_ends_the_run_whatever_the_policy(name: str) -> None:  # M-02
    make, path = TEAMS[name]
    journal = MemoryJournal()
    result = await aborted(make(), journal)
    assert result.failure is not None
    assert (result.status, result.stop_reason, result.exit_code) == ("failed", "error", 1)
    assert (result.failure.error, result.failure.member) == ("refused", path)
    assert result.failure.message.endswith("failed: no (a person chose to abort)")
    assert "z" not in str(result.messages)
    events = await journal.read("r")
    assert [event.kind for event in events].count("person.asked") == 1
    assert events[-1].kind == "run.ended"
    async with Engine(journal) as engine:
        assert told(await engine.runs.result("r")) == told(result)
    answered = next(event.number for event in events if event.kind == "person.answered")
    for at in range(answered, len(events)):
        async with Engine(await cut(journal, at)) as engine:
            with anyio.fail_after(20):
                assert told(await engine.resume("r", team=make())) == told(result), f"from event {at}"


@pytest.mark.parametrize("name", ["sequential", "fan_out collect", "an optional team"])
async def test_a_run_that_was_aborted_can_be_tried_again_from_the_failure(name: str) -> None:  # M-02
    journal = MemoryJournal()
    await aborted(TEAMS[name][0](), journal)
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            paused = await engine.fork("r", retry=True, team=TEAMS[name][0]())
            assert paused.status == "paused"
            (key,) = (await engine.runs.history(paused.run_id)).questions()
            await engine.runs.answer(paused.run_id, key, "skip")
            result = await engine.resume(paused.run_id, team=TEAMS[name][0]())
    assert result.status == "degraded"
    assert result.output == "z spoke"


async def test_what_others_do_meanwhile_is_stopped() -> None:  # M-02
    began = anyio.Event()

    async def hang(turn: Turn) -> str:
        began.set()
        await anyio.sleep_forever()
        return "never"

    async def fail_late(turn: Turn) -> str:
        await began.wait()
        raise Refused("no")

    members: list[Agent] = [FunctionAgent("slow", hang), FunctionAgent("x", fail_late, critical=True)]
    team = Team("t", members=members, strategy="fan_out", options={"on_failure": "collect", "chunks": ["1", "2"]})
    result = await aborted(team, MemoryJournal())
    assert (result.status, result.failure and result.failure.member) == ("failed", "t/x")
