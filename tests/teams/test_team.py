"""A team: members and a strategy, and an agent itself."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Limits, Message, Policy, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent, Context
from teamwright.errors import InvalidName, ManifestError, Refused, UnknownName, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.teams.team import require_team
from teamwright.values.events.agent import AgentFailed
from teamwright.values.events.team import TeamEnded, TeamStarted
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Failure
from teamwright.values.usage_and_prices import Usage
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome

NUMBER: JsonSchema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_team_is_an_agent() -> None:
    team = FakeMembers().chain(2)
    assert isinstance(team, Agent)
    assert team.kind == "team"


def test_a_team_needs_members_a_name_and_a_strategy() -> None:
    with pytest.raises(ManifestError, match="the team 'empty' has no members"):
        Team("empty", members=[])
    with pytest.raises(InvalidName):
        Team("two words", members=[FakeMembers().member("a")])
    with pytest.raises(UnknownName, match="no strategy 'sequental'; did you mean 'sequential'"):
        Team("t", members=[FakeMembers().member("a")], strategy="sequental")


def test_a_fallback_that_is_no_agent_is_refused_with_the_agent_that_has_it() -> None:
    class Foreign:
        name, kind = "second", "own"

        async def respond(self, turn: Turn, ctx: Context) -> Reply: ...

    def agent(name: str, fallback: object) -> FunctionAgent:
        return FunctionAgent(name, lambda turn: "x", fallback=cast("Agent", fallback))

    with pytest.raises(UsageError, match=r"fallback of the agent 'a' can't be used\. .*let its class inherit Agent"):
        Team("t", members=[agent("a", Foreign())])
    with pytest.raises(UsageError, match=r"fallback of the agent 'b' can't be used\. .*let its class inherit Agent"):
        Team("t", members=[agent("a", agent("b", Foreign()))])
    with pytest.raises(UsageError, match=r"fallback can't be used\. 'x' is neither a team nor"):
        Policy(fallback=cast("Agent", "x"))


def test_every_problem_of_a_team_is_reported_at_once() -> None:
    members = FakeMembers()
    with pytest.raises(ManifestError) as raised:
        Team("t", members=[members.member("a"), members.member("a")], strategy="round_robin")
    assert len(raised.value.problems) == 3


def test_two_different_agents_cannot_share_a_name_but_one_may_appear_twice() -> None:
    members = FakeMembers()
    inner = Team("inner", members=[members.member("a")])
    with pytest.raises(ManifestError, match="two different agents are called 'a'"):
        Team("outer", members=[inner, members.member("a")])
    same = members.member("same")
    assert Team("twice", members=[same, same]).members == (same, same)


async def test_the_same_member_may_take_several_turns() -> None:
    members = FakeMembers()
    same = members.member("same")
    async with Engine("memory") as engine:
        result = await engine.run(Team("twice", members=[same, same]), "go")
    assert result.output == "same is done"
    assert [(len(turn.history), turn.task) for turn in members.turns] == [(0, "go"), (1, "go")]


async def test_a_teams_start_and_end_are_recorded_in_its_scope() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(2), "go", run_id="r")
        facts = [e.fact for e in await engine.journal.read("r") if e.scope == "chain"]
    assert facts[0] == TeamStarted(strategy="sequential", strategy_version=1, members=("a1", "a2"))
    assert facts[-1] == TeamEnded(stop_reason="done", turns=2)


async def test_a_failing_member_fails_the_team_by_name_and_its_messages_are_kept() -> None:  # P-03, R-10
    async def broken(turn: Turn) -> str:
        raise ValueError("no idea")

    members = FakeMembers()
    team = Team("t", members=[members.member("a"), members.member("b", broken), members.member("c")], share="output")
    async with Engine("memory") as engine:
        result = await engine.run(team, "go")
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert result.failure.message == "'b' failed: ValueError: no idea"
    assert [message.name for message in result.messages] == ["a"]
    assert members.calls == ["a", "b"]


async def test_output_is_passed_along_a_pipeline() -> None:  # P-03
    async def louder(turn: Turn) -> str:
        return turn.prompt + "!"

    members = FakeMembers()
    agents = [members.member(name, louder) for name in "abc"]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=agents, share="output"), "go")
    assert result.output == "go!!!"


async def test_the_callers_history_is_not_touched_and_only_new_messages_return() -> None:
    history = [Message(name="user", content="before", role="user")]
    members = FakeMembers()
    async with Engine("memory") as engine:
        result = await engine.run(members.chain(2), "go", history=history)
    assert [message.content for message in result.messages] == ["a1 is done", "a2 is done"]
    assert [(len(turn.history), turn.task) for turn in members.turns] == [(1, "go"), (2, "go")]
    assert history == [Message(name="user", content="before", role="user")]


async def test_usage_of_a_nested_team_rolls_up() -> None:
    async def costly(turn: Turn) -> Reply:
        return Reply.of("a", "x", usage=Usage(requests=1, input_tokens=3, output_tokens=4))

    inner = Team("inner", members=[FunctionAgent("a", costly)])
    async with Engine("memory") as engine:
        result = await engine.run(Team("outer", members=[inner, FunctionAgent("b", costly)]), "go")
    assert result.usage == Usage(requests=2, input_tokens=6, output_tokens=8)


async def test_terminating_inside_a_nested_team_ends_only_that_team() -> None:
    async def stop(turn: Turn) -> Reply:
        return Reply.of("stopper", "enough", signal="terminate")

    members = FakeMembers()
    inner = Team("inner", members=[members.member("stopper", stop), members.member("unheard")])
    async with Engine("memory") as engine:
        result = await engine.run(Team("outer", members=[inner, members.member("after")]), "go")
    assert (result.status, result.stop_reason) == ("completed", "done")
    assert members.calls == ["stopper", "after"]


async def test_the_answer_of_a_team_must_fit_its_schema() -> None:
    async with Engine("memory") as engine:
        good = Team("t", members=[FakeMembers().member("a", '{"n": 1}')], output_schema=NUMBER)
        assert (await engine.run(good, "go")).data == {"n": 1}
        bad = Team("t", members=[FakeMembers().member("a", "one")], output_schema=NUMBER)
        result = await engine.run(bad, "go")
    assert result.failure is not None
    assert result.failure.error == "invalid_output"
    assert "The answer of the team 't'" in result.failure.message


async def test_a_teams_warnings_are_reported_with_its_name() -> None:
    async def careful(task: Task, members: Members, ctx: Context) -> Outcome:
        return Outcome(messages=outcome("x").messages, warnings=("look twice",))

    async with Engine("memory") as engine:
        team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(careful))
        result = await engine.run(team, "go")
    assert (result.status, result.exit_code) == ("degraded", 3)
    assert result.warnings == ("t: look twice",)


def test_everyone_is_found_and_all_strategies_are_known() -> None:
    members = FakeMembers()
    inner = Team("inner", members=[members.member("i")], strategy="round_robin", max_turns=1)
    outer = Team("outer", members=[inner, members.member("o")])
    assert [agent.name for agent in outer.everyone()] == ["outer", "inner", "i", "o"]
    assert outer.strategies() == {"sequential": 1, "round_robin": 1}


def test_a_team_declares_itself_and_all_its_members() -> None:
    members = FakeMembers()
    inner = Team("inner", members=[members.member("i")], strategy="round_robin", max_turns=2, on_max_turns="fail")
    outer = Team("outer", members=[inner, members.member("o")], share="output", limits=Limits(calls=5))
    source = outer.source
    assert source.team == "outer"
    assert set(source.manifest.agents) == {"i", "o"}
    assert source.manifest.teams["outer"].members == ("inner", "o")
    assert source.manifest.teams["outer"].limits == Limits(calls=5)
    assert source.manifest.teams["inner"].on_max_turns == "fail"


def test_a_lone_agent_runs_as_a_team_of_one() -> None:
    agent = FakeMembers().member("solo")
    team = require_team(agent)
    assert (team.name, team.members) == ("solo", (agent,))
    assert team.source.manifest.teams == {}
    assert require_team(team) is team


@pytest.mark.parametrize("thing", [None, "team", 5, object])
def test_a_value_that_is_no_agent_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError, match="neither a team nor an agent"):
        require_team(thing)


async def test_data_that_the_asker_would_like_is_read_from_a_teams_answer() -> None:
    inner = Team("inner", members=[FakeMembers().member("a", '{"n": 1}')])
    asked: list[Reply | Failure] = []

    async def ask(task: Task, members: Members, ctx: Context) -> Outcome:
        asked.append(await ctx.ask(members[0], Turn("go", output_schema=NUMBER), key="ask"))
        return outcome("done")

    async with Engine("memory") as engine:
        await engine.run(Team("outer", members=[inner], strategy=FunctionStrategy(ask)), "go")
    assert isinstance(asked[0], Reply)
    assert asked[0].data == {"n": 1}


def troubled(name: str, **more: Any) -> FunctionAgent:
    def respond(turn: Turn) -> str:
        raise Refused("no")

    return FunctionAgent(name, respond, **more)


async def run_in_memory(team: Team) -> RunResult:
    async with Engine("memory") as engine:
        return await engine.run(team, "go")


async def test_a_warning_of_a_lone_agent_has_its_name_once() -> None:
    async def warn(turn: Turn, ctx: Context) -> Reply:
        return Reply(messages=(Message(name="a", content="x"),), warnings=("a: look twice", "look again"))

    async with Engine("memory") as engine:
        result = await engine.run(FunctionAgent("a", warn), "x")
    assert result.warnings == ("a: look twice", "a: look again")


async def test_a_nested_team_at_its_limit_keeps_all_warnings_but_that_of_the_limit() -> None:  # M-01
    members = [troubled("w", optional=True), FakeMembers().member("a", "said")]
    inner = Team("inner", members=members, strategy="round_robin", max_turns=1)
    deeper = Team("deeper", members=[inner], strategy="round_robin", max_turns=1)
    result = await run_in_memory(Team("outer", members=[deeper]))
    assert (result.status, result.stop_reason) == ("degraded", "done")
    assert result.warnings == ("outer: deeper: inner: 'w' failed and was skipped (refused: no)",)


HELPED: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "selector": ("a", {"agent": "desk"}),
    "fan_out": ('{"chunks": ["x"]}', {"splitter": "desk"}),
    "hierarchical": ('{"action": "synthesize", "synthesis": "fine"}', {"lead": "desk"}),
    "star_team": ("fine", {"lead": "desk", "steps": [{"id": "one"}, {"id": "two"}]}),
}
"""Strategies whose helper may be a team: what that answers, and the options that name it."""


@pytest.mark.parametrize("strategy", HELPED)
async def test_the_warnings_of_a_team_that_helps_are_kept(strategy: str) -> None:  # M-01
    answer, options = HELPED[strategy]
    desk = Team("desk", members=[troubled("w", optional=True), FakeMembers().member("clerk", answer)])
    members = [FakeMembers().member("a", "said"), FakeMembers().member("b", "said")]
    turns = 2 if strategy == "selector" else None
    result = await run_in_memory(
        Team("outer", members=members, helpers=[desk], strategy=strategy, options=options, max_turns=turns)
    )
    assert result.failure is None
    assert "outer: desk: 'w' failed and was skipped (refused: no)" in result.warnings


async def test_a_nested_team_at_its_limit_keeps_the_warning_of_a_refused_write() -> None:  # M-01
    async def write(turn: Turn, ctx: Context) -> Reply:
        await ctx.ask(FunctionAgent("other", put), Turn("go"), key="other")
        return Reply.of("a", "said", context_updates={"shared": "mine"})

    async def put(turn: Turn, ctx: Context) -> str:
        await ctx.workspace.put("shared", "theirs")
        return "put"

    inner = Team("inner", members=[FunctionAgent("a", write)], strategy="round_robin", max_turns=1)
    result = await run_in_memory(Team("outer", members=[inner]))
    assert result.status == "degraded"
    (warning,) = result.warnings
    assert "changed 'shared' while 'a' was at work" in warning


@pytest.mark.parametrize("how", ["fails", "reaches its limit", "is out of budget"])
@pytest.mark.parametrize("strategy", ["sequential", "dag", "reactive"])
async def test_a_team_that_does_not_end_well_keeps_its_warnings(how: str, strategy: str) -> None:  # M-01
    members = [troubled("w", optional=True), troubled("x") if how == "fails" else FakeMembers().member("x")]
    bound: dict[str, Any] = {"strategy": "round_robin", "max_turns": 1, "on_max_turns": "fail"}
    limits = Limits(calls=1) if how == "is out of budget" else None
    more: dict[str, Any] = bound if how.startswith("reaches") else {}
    inner = Team("inner", members=members, limits=limits, optional=True, **more)
    options: dict[str, Any] = {
        "dag": {"steps": [{"id": "inner"}, {"id": "last"}]},
        "reactive": {"subscriptions": [{"agent": name, "on": "workflow.started"} for name in ("inner", "last")]},
    }
    outer = Team(
        "outer", members=[inner, FakeMembers().member("last")], strategy=strategy, options=options.get(strategy)
    )
    result = await run_in_memory(outer)
    assert result.status == "degraded"
    told = [text for text in result.warnings if "'w' failed and was skipped (refused: no)" in text]
    assert len(told) == 1
    assert "inner: " in told[0]


async def test_a_run_that_fails_keeps_the_warnings_of_its_teams_also_on_a_replay() -> None:  # M-01
    journal = MemoryJournal()
    inner = Team("inner", members=[troubled("w", optional=True), troubled("x")])
    async with Engine(journal) as engine:
        result = await engine.run(Team("outer", members=[inner]), "go", run_id="r")
        assert result.status == "failed"
        assert [text for text in result.warnings if text == "outer: inner: 'w' failed and was skipped (refused: no)"]
        assert (await engine.runs.result("r")).warnings == result.warnings


@pytest.mark.parametrize("strategy", ["round_robin", "reactive"])
async def test_only_its_limit_is_no_reason_to_call_a_nested_team_degraded(strategy: str) -> None:  # M-01
    rows: list[JsonValue] = [{"agent": "a", "on": kind, "emits": [{"type": "x"}]} for kind in ("workflow.started", "x")]
    options: dict[str, JsonValue] = {"subscriptions": rows, "max_events": 3} if strategy == "reactive" else {}
    turns = 1 if strategy == "round_robin" else None
    member = FakeMembers().member("a", "said")
    inner = Team("inner", members=[member], strategy=strategy, max_turns=turns, options=options)
    alone = await run_in_memory(inner)
    assert (alone.stop_reason, len(alone.warnings)) == ("max_turns", 1)
    result = await run_in_memory(Team("outer", members=[inner]))
    assert (result.status, result.warnings) == ("completed", ())


async def test_a_failure_names_who_failed_with_the_path() -> None:  # M-01
    inner = Team("inner", members=[FakeMembers().member("a", "said"), troubled("writer")])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(Team("outer", members=[inner]), "go", run_id="r")
        read = await engine.runs.result("r")
    assert result.failure is not None
    assert result.failure.member == "outer/inner/writer"
    assert result.failure.message == "'inner' failed: 'writer' failed: no"
    assert read.failure == result.failure.changed(messages=())
    recorded = [event.fact for event in await journal.read("r") if isinstance(event.fact, AgentFailed)]
    assert [(fact.member, fact.path) for fact in recorded] == [
        ("writer", ""), ("inner", "inner/writer"), ("outer", "outer/inner/writer"),
    ]  # fmt: skip


async def test_a_strategy_receives_who_failed_inside_a_member_also_on_a_replay() -> None:  # M-01
    seen: list[Failure] = []

    async def listen(task: Task, members: Members, ctx: Context) -> Outcome:
        reply = await ctx.ask(members[0], Turn(task.text), key="one")
        assert isinstance(reply, Failure)
        seen.append(reply)
        return Outcome(messages=(Message(name="t", content=reply.member),))

    team = Team("t", members=[Team("inner", members=[troubled("writer")])], strategy=FunctionStrategy(listen))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    for at in range(3, len(await journal.read("r"))):
        result, _ = await cut_and_resume(team, at, journal)
        assert result.output == "inner/writer"
    assert {failure.asked for failure in seen} == {"inner"}


@pytest.mark.parametrize(("given", "reason"), [("a.png", "expects a list"), ([b"x"], "an attachment is a path, not")])
def test_the_attachments_of_a_team_are_paths(given: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Team("t", members=[FunctionAgent("a", lambda turn: "x")], attachments=given)


async def test_options_in_python_may_contain_tuples_and_values() -> None:
    """They are recorded as JSON, so what is none is refused when the team is made."""
    options: Any = {"steps": (Step(id="one"), {"id": "two", "needs": ("one",)}), "pool": ("a", "b")}
    team = Team("t", members=FakeMembers().members("a b"), strategy="dag", options=options)
    assert team.settings.options == {"steps": [{"id": "one"}, {"id": "two", "needs": ["one"]}], "pool": ["a", "b"]}
    async with Engine("memory") as engine:
        assert (await engine.run(team, "go")).status == "completed"
    options["pool"] = {"a"}
    with pytest.raises(UsageError, match=r"has \{'a'\} in its options, which is no JSON"):
        Team("t", members=FakeMembers().members("a"), strategy="dag", options=options)
