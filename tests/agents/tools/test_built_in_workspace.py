"""The built-in tools `workspace`, as scripts and models call them, and that a crash never writes twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, ModelAgent, RunResult, ScriptedAgent, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.agents.scripted import Rule, ToolRule
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, ModelServer, Say, ToolCall
from teamwright.values.events.agent import AgentCallFailed, WorkspaceConflicted, WorkspaceWritten
from teamwright.values.events.event import Event
from teamwright.values.specs.models import ServerModel
from teamwright.values.turns.messages import digest
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome


def clerk(name: str, *calls: tuple[str, dict[str, JsonValue]]) -> ScriptedAgent:
    """A script that makes these calls and then returns all their results."""
    rules = [Rule(tool=ToolRule(name=tool, args=args), times=1) for tool, args in calls]
    return ScriptedAgent(name, [*rules, Rule(reply="done")], tools=["workspace"])


async def run(
    *members: Agent, strategy: FunctionStrategy | None = None, journal: MemoryJournal | None = None
) -> tuple[RunResult, list[Event], MemoryJournal]:
    kept = journal or MemoryJournal()
    async with Engine(kept) as engine:
        team = Team("t", members=members, strategy=strategy or "sequential")
        result = await engine.run(team, "the task", run_id="r")
    return result, await kept.read("r"), kept


def returned(events: Sequence[Event], journal: MemoryJournal, tool: str) -> list[JsonValue]:
    """The results of each call of a tool."""
    called = {event.key for event in events if event.kind == "agent.called" and getattr(event.fact, "name", "") == tool}
    return [
        json.loads(journal._bodies[getattr(event.fact, "body")])  # noqa: B009 - of one kind of fact
        for event in events
        if event.kind == "agent.returned" and event.key in called
    ]


def failures(events: Sequence[Event]) -> list[str]:
    """The errors that members received for failed calls."""
    return [event.fact.message for event in events if isinstance(event.fact, AgentCallFailed)]


async def test_what_one_member_writes_with_a_tool_the_next_one_reads() -> None:  # P-08
    first = clerk("a", ("write_value", {"name": "plan", "value": ["one", {"two": 2}]}), ("list_values", {}))
    second = clerk("b", ("read_value", {"name": "plan"}), ("read_value", {"name": "none"}))
    result, events, journal = await run(first, second)
    assert result.status == "completed"
    assert returned(events, journal, "write_value") == [{"written": True, "name": "plan", "version": 1}]
    assert returned(events, journal, "list_values") == [[{"name": "plan", "version": 1, "by": "a"}]]
    assert returned(events, journal, "read_value") == [
        {"name": "plan", "version": 1, "by": "a", "value": ["one", {"two": 2}]},
        {"name": "none", "version": 0, "value": None},
    ]
    assert result.usage.tool_calls == 4


async def test_a_stale_write_is_reported_with_the_current_value() -> None:  # P-08
    first = clerk("a", ("write_value", {"name": "n", "value": 1}), ("write_value", {"name": "n", "value": 2}))
    second = clerk(
        "b", ("write_value", {"name": "n", "value": 9, "version": 1}), ("write_value", {"name": "n", "value": 3})
    )
    _, events, journal = await run(first, second)
    assert returned(events, journal, "write_value")[2:] == [
        {"written": False, "name": "n", "version": 2, "by": "a", "value": 2},
        {"written": True, "name": "n", "version": 3},
    ]
    assert [event.fact.revision for event in events if isinstance(event.fact, WorkspaceWritten)] == [1, 2, 3]
    assert len([event for event in events if isinstance(event.fact, WorkspaceConflicted)]) == 1


async def test_a_write_that_others_overtook_is_not_lost_silently() -> None:  # P-08
    """Without a version the one counts that the turn has seen."""
    written = anyio.Event()

    async def meanwhile(turn: Turn, ctx: Context) -> str:
        await ctx.workspace.put("n", "theirs")
        written.set()
        return "ok"

    slow = ScriptedAgent(
        "slow",
        [
            Rule(tool=ToolRule(name="pause_here"), times=1),
            Rule(tool=ToolRule(name="write_value", args={"name": "n", "value": "mine"}), times=1),
            Rule(reply="done"),
        ],
        tools=["workspace", ("pause_here", pause(written))],
    )

    async def together(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            for one in members:
                branches.start(one.name, lambda inner, one=one: inner.ask(one, Turn("x"), key="k"))
        held = ctx.workspace.get("n")
        return outcome(str(held.value if held else None))

    result, events, journal = await run(slow, FunctionAgent("other", meanwhile), strategy=FunctionStrategy(together))
    assert result.output == "theirs"
    assert returned(events, journal, "write_value") == [
        {"written": False, "name": "n", "version": 1, "by": "other", "value": "theirs"}
    ]


def pause(until: anyio.Event) -> Callable[[], object]:
    async def pause_here() -> str:
        """Wait."""
        await until.wait()
        return "on"

    return pause_here


async def test_artifacts_are_kept_and_opened_by_their_hash() -> None:
    long = "page " * 1000
    book, binary = digest(json.dumps(long)), ""

    async def first(turn: Turn, ctx: Context) -> str:
        nonlocal binary
        binary = (await ctx.workspace.keep(b"\x00\x01", name="bytes")).hash
        return "kept"

    def reader() -> ScriptedAgent:
        return ScriptedAgent(
            "reader",
            [
                Rule(tool=ToolRule(name="open_artifact", args={"hash": book}), times=1),
                Rule(tool=ToolRule(name="open_artifact", args={"hash": "0" * 40}), times=1),
                Rule(tool=ToolRule(name="open_artifact", args={"hash": binary}), times=1),
                Rule(match="(?s)page page.*Nothing is kept under.*is no text", reply="read all of it"),
            ],
            tools=["workspace"],
        )

    keepers = clerk("a", ("keep_artifact", {"text": long, "name": "book"})), FunctionAgent("b", first)
    _, events, journal = await run(*keepers)
    (kept,) = returned(events, journal, "keep_artifact")
    assert kept == {"hash": book, "name": "book", "size": 5000}
    result, _, _ = await run(*keepers, reader())
    assert result.output == "read all of it"


POINTERS = (
    "task://step-1",
    "file:///etc/passwd",
    "https://example.com/x",
    "artifact://",
    "../journal.db",
    "",
    "\x1b]0;x",
)


@pytest.mark.parametrize("pointer", POINTERS)
async def test_opening_what_is_no_artifact_says_what_can_be_opened(pointer: str) -> None:  # M-07 S-03
    _, events, _ = await run(clerk("a", ("open_artifact", {"hash": pointer})))
    (told,) = failures(events)
    other = "://" in pointer and not pointer.startswith("artifact")
    assert ("only pointers 'artifact://HASH'" if other else "take the hash that keep_artifact gave") in told
    assert "\x1b" not in told


async def test_what_another_run_kept_is_not_found_by_its_hash() -> None:  # M-07 S-03
    _, _, journal = await run(clerk("a", ("keep_artifact", {"text": "their secret", "name": "book"})))
    theirs = digest(json.dumps("their secret"))
    for hash in (theirs, f"artifact://{theirs}"):
        async with Engine(journal) as engine:
            thief = clerk("a", ("open_artifact", {"hash": hash}))
            stolen = await engine.run(Team("t", members=[thief]), "x")
            events = await journal.read(stolen.run_id)
        (told,) = failures(events)
        assert "Nothing is kept under" in told
        assert returned(events, journal, "open_artifact") == []


async def test_only_what_is_allowed_can_be_used() -> None:
    names: dict[str, list[str]] = {}

    def agent(allow: tuple[str, ...] | None) -> FunctionAgent:
        from teamwright.agents.tools.toolbox import Toolbox

        async def respond(turn: Turn, ctx: Context) -> str:
            async with Toolbox(["workspace", "terminate"]).open(ctx, allow=allow) as tools:
                names[str(allow)] = [offer.name for offer in tools.definitions]
            return "x"

        return FunctionAgent("a", respond)

    for allow in (None, ("workspace",), ("read_value",), ()):
        await run(agent(allow))
    every = ["list_values", "read_value", "write_value", "keep_artifact", "open_artifact"]
    assert list(names.values()) == [[*every, "terminate"], every, ["read_value"], []]


def wants(request: ChatRequest) -> ChatAnswer:
    told = [message.content for message in request.messages if message.role == "tool"]
    if len(told) >= 3:
        return Say(text="; ".join(told))
    calls = (
        ToolCall(name="write_value", args={"name": "n", "value": 1}, id="w1"),
        ToolCall(name="keep_artifact", args={"text": "long", "name": "l"}, id="k1"),
    )
    if told:
        return CallTools(calls=(ToolCall(name="write_value", args={"name": "n", "value": 2}, id="w2"),))
    return CallTools(calls=calls)


async def test_a_crash_anywhere_writes_once() -> None:  # law 2, P-08
    with ModelServer(wants) as server:
        model = ServerModel(url=server.url, name="m")
        agent = ModelAgent("a", model=model, tools=["workspace"])
        last = clerk("b", ("read_value", {"name": "n"}))
        result, events, journal = await run(agent, last)
        team = Team("t", members=[agent, last])
        assert result.status == "completed"
        for at in range(1, len(events)):
            again, kinds = await cut_and_resume(team, at, journal)
            assert again.messages == result.messages, f"cut after {at}"
            assert kinds.count("workspace.written") == 2
            assert kinds.count("workspace.kept") == 1
            assert "workspace.conflicted" not in kinds


async def test_a_fork_in_the_middle_of_a_turn_writes_once_too() -> None:
    member = clerk("a", ("write_value", {"name": "n", "value": 1}), ("write_value", {"name": "n", "value": 2}))
    _, events, journal = await run(member)
    team = Team("t", members=[member])
    async with Engine(journal) as engine:
        for at in range(2, len(events)):
            forked = await engine.fork("r", at=at, team=team)
            written = [e for e in await journal.read(forked.run_id) if isinstance(e.fact, WorkspaceWritten)]
            assert [e.fact.revision for e in written if isinstance(e.fact, WorkspaceWritten)] == [1, 2]
