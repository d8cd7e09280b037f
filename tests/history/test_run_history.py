"""A run as its readers see it, and forks of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Limits, Message, Reply, RunResult, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import AgentError, AgentTimeout, ContextTooLong, Refused, UsageError
from teamwright.history.fork import point_before_stop
from teamwright.history.kpis import read_kpis
from teamwright.history.run_history import RunHistory
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import AgentCalled
from teamwright.values.people import Question
from teamwright.values.specs.members import Share
from teamwright.values.turns.turn import Failure
from teamwright.values.usage_and_prices import Usage
from tests.kit.members import FakeMembers
from tests.kit.records import cut
from tests.kit.strategies import FunctionStrategy, outcome


def comparable(result: RunResult) -> RunResult:
    """A result without what differs between driver and reader: when it was looked at, and a failure's messages."""
    failure = result.failure.changed(messages=()) if result.failure else None
    return result.changed(seconds=0.0, failure=failure)


async def hang(turn: Turn) -> str:
    await anyio.sleep(60)
    return "never"


async def costly(turn: Turn) -> Reply:
    return Reply.of("a", "said", usage=Usage(requests=1, input_tokens=3))


async def asking(task: Task, members: Members, ctx: Context) -> Outcome:
    async with ctx.branches(2) as branches:
        for member in members:
            branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn(task.text), key="k"))
    await ctx.ask_person(Question(text="?"), key="q")
    return outcome("end")


@pytest.mark.parametrize("how", ["completed", "failed", "degraded", "timeout", "cancelled", "paused", "interrupted"])
async def test_what_the_journal_says_equals_what_the_driver_returned(how: str) -> None:
    async def last(turn: Turn) -> str:
        if how == "failed":
            raise ValueError("broken")
        if how in {"timeout", "cancelled", "interrupted"}:
            await anyio.sleep(60)
        return "last"

    members = [FunctionAgent("a", costly), FunctionAgent("b", last)]
    limits = Limits(seconds=0.1 if how == "timeout" else None, calls=1 if how == "degraded" else None)
    inner = Team("inner", members=members)
    team = Team(
        "t", members=[inner], strategy=FunctionStrategy(asking) if how == "paused" else "sequential", limits=limits
    )
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        if how in {"cancelled", "interrupted"}:
            await anyio.sleep(0.05)
            if how == "cancelled":
                await engine.runs.cancel("r")
            else:
                handle.interrupt()
        returned = await handle.result()
        read = await engine.runs.result("r")
    assert returned.status == how
    assert comparable(read) == comparable(returned)
    assert returned.usage == Usage(requests=1, input_tokens=3)


async def test_a_reader_sees_open_questions() -> None:
    team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(asking))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        history = await engine.runs.history("r")
        assert list(history.questions()) == ["t/q"]
        assert history.require_question("t/q").text == "?"
        with pytest.raises(UsageError, match="Nothing is asked at 't/p'; did you mean 't/q'"):
            history.require_question("t/p")
        with pytest.raises(UsageError, match="Nothing is asked at 'elsewhere'; known are t/q"):
            history.require_question("elsewhere")
        await engine.runs.answer("r", "t/q", "yes")
        await engine.resume("r", team=team)
        assert (await engine.runs.history("r")).questions() == {}


async def test_a_follow_up_receives_the_history_the_task_and_the_replies() -> None:
    async with Engine("memory") as engine:
        before = [Message(name="user", content="earlier", role="user")]
        await engine.run(FakeMembers().chain(1), "first", run_id="r", history=before)
        history = await engine.runs.history("r")
    assert [(m.name, m.content) for m in history.conversation()] == [
        ("user", "earlier"), ("user", "first"), ("a1", "a1 is done")
    ]  # fmt: skip
    assert history.task == "first"


@pytest.mark.parametrize("at", [0, 10_000, -1])
async def test_an_event_that_does_not_exist_is_no_place_to_fork(at: int) -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        with pytest.raises(UsageError, match="has events 1 to"):
            await engine.fork("r", at=at, team=FakeMembers().chain(1))


async def test_a_fork_from_any_event_in_the_middle_of_branches_pays_only_for_what_is_missing() -> None:
    members = FakeMembers()

    async def slow(turn: Turn) -> str:
        await anyio.sleep(0.001 * (len(members.calls) % 3))
        return "x"

    async def everybody(task: Task, given: Members, ctx: Context) -> Outcome:
        async with ctx.branches(3) as branches:
            for member in given:
                branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn("x"), key="k"))
        return outcome("end")

    team = Team("t", members=[members.member(name, slow) for name in "abc"], strategy=FunctionStrategy(everybody))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
        events = await journal.read("r")
        for at in range(1, len(events) + 1):
            members.received.clear()
            with anyio.fail_after(5):
                result = await engine.fork("r", at=at, team=team)
            known = len([e for e in events[:at] if e.kind == "agent.replied" and e.scope])
            assert (result.status, len(members.calls)) == ("completed", 3 - known)


async def test_a_fork_says_where_it_came_from_and_has_its_own_time() -> None:
    now = 1000.0

    async def slow(turn: Turn) -> str:
        nonlocal now
        now += 7
        return "x"

    team = Team("t", members=[FunctionAgent("a", slow), FunctionAgent("b", slow)])
    async with Engine("memory", wall=lambda: now, monotonic=lambda: now) as engine:
        first = await engine.run(team, "go", run_id="r")
        assert first.seconds == 14
        now += 5000
        forked = await engine.fork("r", team=team, task="another", new_id="f")
        started = (await engine.runs.history("f")).started
        read = await engine.runs.result("f")
    assert started.origin is not None
    assert (started.origin.run_id, started.origin.how) == ("r", "fork")
    assert forked.seconds == read.seconds == 14


async def test_a_retry_goes_back_to_the_member_that_failed_and_not_to_a_failure_that_was_borne() -> None:
    members = FakeMembers()
    broken = True

    async def sometimes(turn: Turn) -> str:
        if broken:
            raise ValueError("broken")
        return "mended"

    async def tolerant(task: Task, given: Members, ctx: Context) -> Outcome:
        first = await ctx.ask(given[0], Turn("x"), key="optional")
        assert isinstance(first, Failure)
        await ctx.ask(given[1], Turn("x"), key="fine")
        last = await ctx.ask(given[2], Turn("x"), key="needed")
        return Outcome(failure=last) if isinstance(last, Failure) else outcome(last.text)

    async def always(turn: Turn) -> str:
        raise ValueError("as ever")

    agents = [members.member("a", always), members.member("b"), members.member("c", sometimes)]
    team = Team("t", members=agents, strategy=FunctionStrategy(tolerant))
    async with Engine("memory") as engine:
        assert (await engine.run(team, "go", run_id="r")).status == "failed"
        broken = False
        members.received.clear()
        assert (await engine.fork("r", retry=True, team=team)).output == "mended"
    assert members.calls == ["c"]


async def test_a_reply_that_did_not_fit_its_schema_can_be_retried() -> None:
    answers = ["nonsense", '{"n": 1}']
    agent = FunctionAgent("a", lambda turn: answers.pop(0), output_schema={"type": "object", "required": ["n"]})
    async with Engine("memory") as engine:
        assert (await engine.run(agent, "go", run_id="r")).status == "failed"
        assert (await engine.fork("r", retry=True, team=agent)).data == {"n": 1}


async def test_a_run_that_did_not_fail_cannot_be_retried() -> None:
    async with Engine("memory") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="r")
        with pytest.raises(UsageError, match="fork it with --at"):
            await engine.fork("r", retry=True, team=FakeMembers().chain(1))


async def stop_of(team: Team) -> tuple[RunHistory, int | None]:
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        history = await engine.runs.history("r")
    return history, point_before_stop(history)


async def test_a_run_that_ran_out_of_budget_is_forked_from_before_the_refusal() -> None:
    team = FakeMembers().chain(3)
    team.policy = team.policy.changed(limits=Limits(calls=2))
    history, stop = await stop_of(team)
    assert stop is not None
    assert history.events[stop].kind == "budget.refused"


async def test_the_deadline_that_ended_the_run_counts_and_not_one_that_was_borne() -> None:
    async def patient(task: Task, members: Members, ctx: Context) -> Outcome:
        try:
            async with ctx.scope("part", Limits(seconds=0.02)) as part:
                await part.ask(members[0], Turn("x"), key="k")
        except AgentTimeout:
            await ctx.ask(members[0], Turn("y"), key="again")
        return outcome("never")

    team = Team("t", members=[FunctionAgent("a", hang)], strategy=FunctionStrategy(patient), limits=Limits(seconds=0.1))
    history, stop = await stop_of(team)
    assert stop is not None
    assert history.events[stop].key == "t"


async def test_a_run_that_ended_by_itself_has_no_stop() -> None:
    assert (await stop_of(FakeMembers().chain(1)))[1] is None


async def test_a_forked_run_with_more_budget_continues_where_it_was_stopped() -> None:
    members = FakeMembers()
    team = members.chain(3)
    team.policy = team.policy.changed(limits=Limits(calls=2))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        members.received.clear()
        richer = members.chain(3)
        richer.policy = richer.policy.changed(limits=Limits(calls=5))
        result = await engine.fork("r", team=richer)
    assert (result.status, members.calls) == ("completed", ["a2", "a3"])


async def test_a_fork_does_not_count_the_rules_of_turns_that_it_asks_again() -> None:
    team = Team("t", members=[ScriptedAgent("a", [Rule(reply="once", times=1)])])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        result = await engine.fork("r", team=team, task="something else")
    assert result.output == "once", result.failure


async def test_a_fork_of_a_cancelled_run_continues_from_any_of_its_events() -> None:
    reached = anyio.Event()

    async def hang(turn: Turn) -> str:
        if reached.is_set():
            return "said at last"
        reached.set()
        await anyio.sleep(60)
        return "never"

    team = Team("t", members=[FunctionAgent("a", lambda turn: "said"), FunctionAgent("b", hang)])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await engine.runs.cancel("r")
        assert (await handle.result()).status == "cancelled"
        last = len(await engine.journal.read("r"))
        for at in range(1, last + 1):
            with anyio.fail_after(5):
                forked = await engine.fork("r", at=at, team=team)
            assert [message.content for message in forked.messages] == ["said", "said at last"]


async def test_a_fork_of_nested_teams_pays_only_for_what_is_missing_from_any_event() -> None:
    members = FakeMembers()

    def made() -> Team:
        inner = Team("m", members=[members.member("d")])
        return Team(
            "t",
            members=[
                Team("i", members=[members.member("a")]),
                Team("j", members=[members.member("b")]),
                Team("k", members=[members.member("c"), inner]),
            ],
        )

    async with Engine("memory") as engine:
        whole = await engine.run(made(), "go", run_id="r")
        events = await engine.journal.read("r")
        for at in range(1, len(events) + 1):
            members.received.clear()
            with anyio.fail_after(5):
                forked = await engine.fork("r", at=at, team=made(), new_id=f"fork-{at}")
            known = {e.key for e in events[:at] if e.kind == "agent.replied" and e.key.count("/") >= 2}
            leaves = len(known - {"t/step-3/step-2"})
            assert (forked.messages, len(members.calls)) == (whole.messages, 4 - leaves)
        members.received.clear()
        with anyio.fail_after(5):
            again = await engine.fork("fork-20", team=made())
        assert (again.messages, members.calls) == (whole.messages, [])


async def test_a_retry_of_a_parallel_team_keeps_what_the_others_said() -> None:
    calls: list[str] = []

    def agent(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            calls.append(name)
            await anyio.sleep(0.02 if name == "b" else 0)
            if name == "b" and calls.count("b") == 1:
                raise Refused("not yet")
            return name

        return FunctionAgent(name, respond)

    steps: dict[str, JsonValue] = {"steps": [{"id": name} for name in "abc"]}
    team = Team("t", members=[agent(name) for name in "abc"], strategy="dag", options=steps)
    async with Engine("memory") as engine:
        assert (await engine.run(team, "go", run_id="r")).status == "failed"
        calls.append("|")
        forked = await engine.fork("r", retry=True, team=team)
        events = await engine.journal.read(forked.run_id)
    assert (forked.status, calls[calls.index("|") + 1 :]) == ("completed", ["b"])
    assert not any(isinstance(event.fact, AgentCalled) and event.fact.in_doubt for event in events)


async def test_another_try_asks_again_for_the_answer_that_a_team_failed_over() -> None:
    said: list[str] = []

    async def first(turn: Turn) -> str:
        said.append("first")
        raise Refused("not today")

    async def second(turn: Turn) -> Reply:
        said.append("second")
        return Reply.of("b", "here", data={"marks": 9} if said.count("second") > 1 else {})

    members = [FunctionAgent("a", first, optional=True), FunctionAgent("b", second), FakeMembers().member("c", "read")]
    edges: list[JsonValue] = [{"from": "a", "to": "b"}, {"from": "b", "to": "c", "when": "data.marks > 8"}]
    team = Team("t", members=members, strategy="graph", options={"edges": edges})
    async with Engine("memory") as engine:
        failed = await engine.run(team, "go", run_id="r")
        assert failed.failure is not None
        assert failed.failure.error == "expression"
        mended = await engine.fork("r", retry=True, team=team)
    assert (mended.status, mended.output) == ("degraded", "read")
    assert said == ["first", "second", "second"]


async def test_there_is_no_other_try_where_the_turns_were_used_up() -> None:
    members = [FakeMembers().member("a"), FakeMembers().member("b")]
    team = Team("t", members=members, strategy="round_robin", max_turns=1, on_max_turns="fail")
    async with Engine("memory") as engine:
        assert (await engine.run(team, "go", run_id="r")).status == "failed"
        with pytest.raises(UsageError, match="no failed member to retry"):
            await engine.fork("r", retry=True, team=team)


@pytest.mark.parametrize("how", ["paused", "interrupted", "cancelled"])
async def test_a_superseded_ask_no_longer_counts_before_the_new_one_ends(how: str) -> None:
    async def heard(turn: Turn) -> Reply:
        return Reply.of("a", f"heard {turn.task}", usage=Usage(requests=1, input_tokens=3))

    async def ask(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask(members[0], Turn(task.text), key="k")
        await ctx.ask_person(Question(text=f"{task.text}?"), key="q")
        return outcome("end")

    team, journal = Team("t", members=[FunctionAgent("a", heard)], strategy=FunctionStrategy(ask)), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "one", run_id="r")
        await engine.fork("r", task="two", team=team, new_id="f")
        if how == "cancelled":
            await engine.runs.cancel("f")
    events = await journal.read("f")
    if how == "interrupted":
        events = events[: [event.kind for event in events].index("run.paused")]
    async with Engine(await cut(journal, len(events), "f")) as engine:
        result, asked = await engine.runs.result("f"), (await engine.runs.history("f")).questions()
    assert (result.status, result.usage.requests) == (how, 1)
    assert [message.content for message in result.messages] == ["heard two"]
    assert list(asked) == ([] if how == "cancelled" else ["t#2/q"])


def paying(name: str, tokens: int, error: AgentError | None = None, **more: Any) -> FunctionAgent:
    """A member that makes a call and answers, or fails after it."""

    async def call(attempt: Attempt) -> Returned:
        return Returned("paid", Usage(requests=1, input_tokens=tokens))

    async def respond(turn: Turn, ctx: Context) -> str:
        await ctx.effect("call", Effect("model", "m", f"{tokens} {turn.prompt}", call))
        if error is not None:
            raise error
        return f"{name} is done"

    return FunctionAgent(name, respond, **more)


async def counted(engine: Engine, result: RunResult) -> tuple[int, int, int]:
    """What a run used as its result, its figures and its history have it."""
    history = await engine.runs.history(result.run_id)
    measured = await read_kpis(engine.journal, result.run_id)
    return result.usage.total_tokens, measured.total_tokens, history.usage().total_tokens


async def test_all_readers_count_a_fork_the_same_where_it_asked_a_failed_member_again() -> None:
    def made(share: Share) -> Team:
        failing = paying("c", 17, AgentError("no"), optional=True)
        return Team("t", members=[paying("a", 1), paying("b", 10), failing, paying("d", 3)], share=share)

    async with Engine("memory") as engine:
        await engine.run(made("transcript"), "go", run_id="r")
        fork = await engine.fork("r", team=made("output"), new_id="f")
        assert await counted(engine, fork) == (31, 31, 31)
        again = await engine.fork("f", team=made("output"))  # where what gave way was taken over, too
        assert await counted(engine, again) == (31, 31, 31)


async def test_all_readers_count_a_fork_the_same_where_a_failure_was_recovered_from() -> None:
    def made(share: Share) -> Team:
        failing = paying("b", 10, ContextTooLong("no"), fallback=paying("other", 5))
        return Team("t", members=[paying("a", 1), failing, paying("c", 2), paying("d", 3)], share=share)

    async with Engine("memory") as engine:
        await engine.run(made("transcript"), "go", run_id="r")
        last, shares = (await engine.runs.history("r")).number, list[Share](("transcript", "output"))
        for at in range(2, last + 1):
            for share in shares:
                fork = await engine.fork("r", at=at, team=made(share))
                assert await counted(engine, fork) == (21, 21, 21)


async def test_a_call_that_a_fork_made_again_within_a_turn_counts_once() -> None:
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[paying("a", 10)]), "go", run_id="r")
        events = await engine.journal.read("r")
        back = next(event.number for event in events if event.kind == "agent.returned")
        fork = await engine.fork("r", at=back, team=Team("t", members=[paying("a", 3)]))
        assert await counted(engine, fork) == (3, 3, 3)
