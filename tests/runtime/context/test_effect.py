"""One effect: reserved, announced, called, retried and recorded; and what a crash in between leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import AgentError, RateLimited, Refused, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.handle import Handle
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import RUN_KIND, AgentCalled, AgentCallFailed
from teamwright.values.events.budget import BudgetExceeded, BudgetRefused
from teamwright.values.events.event import Delta, Event
from teamwright.values.events.run import ScopeExpired
from teamwright.values.retries import RetryPolicy, RetryWaits
from teamwright.values.usage_and_prices import Usage
from tests.kit.records import cut, cut_and_resume
from tests.kit.strategies import FunctionStrategy

Call = Callable[[Attempt], Awaitable[Returned]]
AT_ONCE = RetryPolicy(times=2, backoff=0.0)
USAGE = Usage(requests=1, input_tokens=5, output_tokens=5)


class Model(Agent):
    """An agent of one model request that reserves 84 bytes, a message and 100 tokens of output: 200."""

    kind = "model"

    def __init__(self, name: str, call: Call, *, cap: int | None = 100, retry: RetryPolicy | None = None) -> None:
        self.name, self._call, self._cap, self._retry = name, call, cap, retry

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        effect = Effect("model", "m", "request", self._call, 84, 1, self._cap, self._retry)
        returned = await ctx.effect("request", effect)
        return Reply.of(self.name, str(returned.value))


async def fine(attempt: Attempt) -> Returned:
    return Returned("fine", USAGE)


F = TypeVar("F")


def facts(events: list[Event], kind: type[F]) -> list[F]:
    return [event.fact for event in events if isinstance(event.fact, kind)]


async def run(team: Team) -> tuple[RunResult, list[Event], MemoryJournal]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "go", run_id="r")
    return result, await journal.read("r"), journal


def team_of(*members: Model, tokens: int | None = None, calls: int | None = None) -> Team:
    return Team("t", members=members, limits=Limits(tokens=tokens, calls=calls))


async def test_a_reservation_is_recorded_with_the_call() -> None:
    result, events, _ = await run(team_of(Model("m", fine), tokens=1000))
    assert facts(events, AgentCalled) == [
        AgentCalled(effect="model", name="m", request="request", reserved=200, max_output=100)
    ]
    assert result.usage == USAGE


async def test_the_call_receives_the_cap() -> None:
    caps: list[int | None] = []

    async def look(attempt: Attempt) -> Returned:
        caps.append(attempt.max_output)
        return Returned("x", USAGE)

    await run(team_of(Model("a", look, cap=None), Model("b", look, cap=7), tokens=100_000))
    assert caps == [(100_000 - 100) // 2, 7]


async def test_what_does_not_fit_is_refused_with_a_clear_message_and_ends_the_run_with_what_there_is() -> None:
    members = [Model(name, fine) for name in "abc"]
    result, events, journal = await run(team_of(*members, tokens=215))
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert [m.name for m in result.messages] == ["a", "c"], "the last member closes the team"
    (refused,) = facts(events, BudgetRefused)
    assert (refused.level, refused.needed, refused.left, refused.limit, refused.kept) == ("t", 200, 205, 215, 193)
    for at in range(2, len(events)):
        again, _ = await cut_and_resume(team_of(*members, tokens=215), at, journal)
        assert again.status == "degraded"


async def test_a_reply_without_usage_settles_at_its_reservation() -> None:
    async def silent(attempt: Attempt) -> Returned:
        return Returned("x")

    result, events, _ = await run(team_of(Model("a", silent), Model("b", silent), tokens=399))
    assert result.stop_reason == "budget"
    assert facts(events, BudgetRefused) == [BudgetRefused(level="t", what="tokens", needed=200, left=199, limit=399)]


async def test_more_than_was_reserved_is_an_event_and_the_next_call_sees_it() -> None:
    async def greedy(attempt: Attempt) -> Returned:
        return Returned("x", Usage(requests=1, input_tokens=900))

    result, events, _ = await run(team_of(Model("a", greedy), Model("b", fine), tokens=1000))
    assert facts(events, BudgetExceeded) == [BudgetExceeded(level="t", reserved=200, spent=900, over=700)]
    assert facts(events, BudgetRefused) == [BudgetRefused(level="t", what="tokens", needed=200, left=100, limit=1000)]
    assert result.stop_reason == "budget"


@pytest.mark.parametrize(("tokens", "status"), [(399, "degraded"), (400, "completed")])
async def test_a_call_in_doubt_stays_charged_in_full_after_a_resume(tokens: int, status: str) -> None:
    team = team_of(Model("m", fine), tokens=tokens)
    _, events, journal = await run(team)
    called = next(event.number for event in events if event.kind == "agent.called")
    copy = await cut(journal, called)
    async with Engine(copy) as engine:
        assert (await engine.resume("r", team=team)).status == status
    marks = [(e.fact.attempt, e.fact.in_doubt) for e in await copy.read("r") if isinstance(e.fact, AgentCalled)]
    assert marks == ([(1, False), (2, True)] if status == "completed" else [(1, False)])


async def test_nested_limits_hold_at_every_level() -> None:
    inner = Team("inner", members=[Model(name, fine) for name in "ab"], limits=Limits(calls=5))
    outer = Team("outer", members=[inner, Model("c", fine)], limits=Limits(calls=2))
    result, events, _ = await run(outer)
    assert result.stop_reason == "budget"
    assert facts(events, BudgetRefused) == [BudgetRefused(level="outer", what="calls", needed=1, left=0, limit=2)]


async def test_branches_never_hold_more_than_the_limit_and_all_get_their_turn() -> None:
    held = most = 0

    async def busy(attempt: Attempt) -> Returned:
        nonlocal held, most
        assert attempt.max_output is not None
        held += 100 + attempt.max_output
        most = max(most, held)
        await anyio.sleep(0.001)
        held -= 100 + attempt.max_output
        return Returned("x", USAGE)

    async def everybody(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(20) as branches:
            for member in members:
                branches.start(member.name, lambda inner, member=member: inner.ask(member, Turn(task.text), key="k"))
        return Outcome()

    members = [Model(f"m{number}", busy, cap=None) for number in range(20)]
    team = Team("t", members=members, strategy=FunctionStrategy(everybody), limits=Limits(tokens=5000))
    result, _, _ = await run(team)
    assert result.status == "completed"
    assert result.usage.requests == 20
    assert most <= 5000


async def test_an_effect_is_retried_and_each_attempt_is_recorded() -> None:
    async def flaky(attempt: Attempt) -> Returned:
        if attempt.number < 3:
            raise ServiceError("down")
        return Returned("up", USAGE)

    result, events, _ = await run(team_of(Model("m", flaky, retry=AT_ONCE), tokens=1000))
    assert result.output == "up"
    assert [fact.retry_in for fact in facts(events, AgentCallFailed)] == [0.0, 0.0]


async def test_what_is_not_retryable_is_not_retried() -> None:
    async def refused(attempt: Attempt) -> Returned:
        raise Refused("no")

    _, events, _ = await run(team_of(Model("m", refused, retry=AT_ONCE)))
    assert len(facts(events, AgentCalled)) == 1


async def test_attempts_are_counted_across_a_crash() -> None:
    made: list[int] = []

    async def down(attempt: Attempt) -> Returned:
        made.append(attempt.number)
        raise ServiceError("down")

    team = team_of(Model("m", down, retry=AT_ONCE))
    whole, events, journal = await run(team)
    assert made == [1, 2, 3]
    for failed in [event.number for event in events if event.kind == "agent.call_failed"]:
        made.clear()
        again, kinds = await cut_and_resume(team, failed, journal)
        assert again.status == whole.status
        assert kinds.count("agent.call_failed") == 3


async def test_the_wait_before_a_retry_is_kept_across_a_crash() -> None:
    now = 1000.0
    failed = anyio.Event()

    async def limited(attempt: Attempt) -> Returned:
        if attempt.number == 1:
            failed.set()
            raise RateLimited("slow down", retry_after=30.0)
        return Returned("fine", USAGE)

    team = team_of(Model("m", limited, retry=RetryPolicy(times=1, backoff=0.0)))
    async with Engine("memory", wall=lambda: now) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await failed.wait()
        await anyio.sleep(0.01)
        handle.interrupt()
        await handle.result()
        now = 1029.9
        with anyio.fail_after(5):
            result = await engine.resume("r", team=team)
    assert result.output == "fine"


async def test_the_idempotency_key_is_the_same_for_all_attempts_and_another_in_a_fork() -> None:
    keys: list[str] = []

    async def look(attempt: Attempt) -> Returned:
        keys.append(attempt.idempotency_key)
        if len(keys) == 1:
            raise ServiceError("down")
        return Returned("x", USAGE)

    team = team_of(Model("m", look, retry=AT_ONCE))
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="r")
        await (await engine.start_fork("r", team=team, task="another", new_id="f")).result()
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(1), AgentError("bad"), TimeoutError()])
async def test_whatever_a_call_does_wrong_is_a_recorded_failure(error: BaseException) -> None:
    async def wrong(attempt: Attempt) -> Returned:
        raise error

    result, events, _ = await run(team_of(Model("m", wrong, retry=RetryPolicy(times=0))))
    assert result.status == "failed"
    assert len(facts(events, AgentCallFailed)) == 1


async def test_a_call_that_is_cancelled_from_inside_fails_and_does_not_end_the_run() -> None:
    async def odd(attempt: Attempt) -> Returned:
        raise anyio.get_cancelled_exc_class()

    result, events, _ = await run(team_of(Model("m", odd)))
    assert result.status == "failed"
    assert events[-1].kind == "run.ended"


async def test_pieces_are_shown_as_they_come_but_for_what_may_be_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hush-7f3a-very-secret")

    async def speak(attempt: Attempt) -> Returned:
        for piece in ("hel", "", "lo hu", "gs, hush-7f3a", "-very-secret", "!"):
            attempt.delta(piece)
        return Returned("hello hugs", USAGE)

    shown: list[Delta] = []
    async with Engine("memory") as engine:
        with engine.bus.listening(lambda item: shown.append(item) if isinstance(item, Delta) else None):
            await engine.run(team_of(Model("m", speak)), "go", run_id="r")
    assert [(one.key, one.member, one.attempt, one.offset, one.text) for one in shown] == [
        ("t/step-1", "m", 1, 0, "hel"),
        ("t/step-1", "m", 1, 3, "lo "),
        ("t/step-1", "m", 1, 6, "hugs, "),
        ("t/step-1", "m", 1, 12, "[redacted]"),
        ("t/step-1", "m", 1, 33, "!"),
    ]


async def test_a_pause_lets_the_call_under_way_finish_and_keeps_its_result() -> None:
    reached, made = anyio.Event(), list[str]()

    def slow(name: str) -> FunctionAgent:
        async def respond(turn: Turn) -> str:
            made.append(name)
            reached.set()
            await anyio.sleep(0.1)
            return name

        return FunctionAgent(name, respond)

    team = Team("t", members=[slow("a"), slow("b")])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await engine.runs.pause("r")
        paused = await handle.result()
        kinds = [event.kind for event in await engine.journal.read("r")]
        assert (paused.status, paused.stop_reason) == ("paused", "pause")
        assert "team.ended" not in kinds
        result = await engine.resume("r", team=team)
    assert result.status == "completed"
    assert made == ["a", "b"]


async def test_the_ask_of_a_plain_function_is_its_call_and_the_ending_its_return() -> None:
    """Two events a turn: without its ending, the call is in doubt."""
    calls: list[str] = []

    async def respond(turn: Turn) -> str:
        calls.append(turn.task)
        return "said"

    team = Team("t", members=[FunctionAgent("a", respond)])
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    events = await journal.read("r")
    assert [event.kind for event in events if event.scope.startswith("t")] == [
        "team.started", "agent.asked", "agent.replied", "team.ended",
    ]  # fmt: skip
    asked = next(event.number for event in events if event.kind == "agent.asked" and event.scope == "t")
    copy = await cut(journal, asked)
    async with Engine(copy) as engine:
        result = await engine.resume("r", team=team)
    assert (result.output, len(calls)) == ("said", 2)
    (again,) = facts(await copy.read("r"), AgentCalled)
    assert (again.attempt, again.in_doubt) == (2, True)


async def test_a_plain_function_under_a_limit_announces_each_call() -> None:
    team = Team("t", members=[FunctionAgent("a", lambda turn: "said")], limits=Limits(calls=2))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    assert len(facts(await journal.read("r"), AgentCalled)) == 1


async def test_a_call_in_doubt_stays_charged_over_several_resumes() -> None:  # law 3
    """The driver dies repeatedly with a call in flight; once the limit is reached, no further call is dispatched."""
    left, reached = 0, anyio.Event()

    async def respond(turn: Turn, ctx: Context) -> str:
        async def call(attempt: Attempt) -> Returned:
            nonlocal left
            left += 1
            reached.set()
            await anyio.sleep(60)
            return Returned("never")

        await ctx.effect("e", Effect("function", "f", "request", call))
        return "never"

    def pausing(turn: Turn) -> str:
        return "said"

    members = [FunctionAgent("a", respond, optional=True), FunctionAgent("b", pausing)]
    team = Team("t", members=members, limits=Limits(calls=2))
    journal = MemoryJournal()
    results: list[str] = []
    for number in range(5):
        reached = anyio.Event()
        async with Engine(journal) as engine, anyio.create_task_group() as tasks:
            if results and results[-1] != "interrupted":
                break
            started = engine.start(team, "go", run_id="r") if number == 0 else engine.start_resume("r", team=team)
            handle = await started

            async def finished(handle: Handle = handle, reached: anyio.Event = reached) -> None:
                results.append((await handle.result()).status)
                reached.set()

            tasks.start_soon(finished)
            await reached.wait()
            handle.interrupt()
    assert (left, results) == (2, ["interrupted", "interrupted", "degraded"])


async def test_what_is_said_of_a_wait_is_what_is_waited(monkeypatch: pytest.MonkeyPatch) -> None:  # M-10
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("teamwright.runtime.context.effect.anyio.sleep", sleep)
    answers = iter([RateLimited("slow", retry_after=3600), ServiceError("broken"), None])

    async def call(attempt: Attempt) -> Returned:
        if (error := next(answers)) is not None:
            raise error
        return Returned("fine", USAGE)

    class Named(Model):
        async def respond(self, turn: Turn, ctx: Context) -> Reply:
            policy = RetryPolicy(times=2, backoff=RetryWaits(min=0.01, max=0.1))
            effect = Effect("model", "m", "request", call, 84, 1, 100, policy, model="m")
            return Reply.of(self.name, str((await ctx.effect("request", effect)).value))

    result, events, _ = await run(team_of(Named("m", call), tokens=10_000))
    assert result.output == "fine"
    told = [failed.retry_in for failed in facts(events, AgentCallFailed)]
    assert told == slept
    assert told[0] == pytest.approx(0.1, abs=0.01)
    assert sum(one.waited for one in facts(events, AgentCalled)) < 30  # and not the hour that the provider asks for


class Starter(Agent):
    """An agent whose call starts a run that does not end."""

    kind = RUN_KIND
    name = "starter"

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        effect = Effect("function", "run", "request", self._wait, cancel_run=lambda run: self.cancelled.append(run.key))
        return Reply.of(self.name, str((await ctx.effect("run", effect)).value))

    async def _wait(self, attempt: Attempt) -> Returned:
        await anyio.sleep_forever()
        raise AssertionError(attempt)


async def test_a_run_that_a_stopped_call_has_started_is_cancelled_and_charged_by_whichever_driver_stops_it() -> None:
    starter = Starter()
    team = Team("t", members=[starter], limits=Limits(seconds=0.05, calls=10))
    result, events, journal = await run(team)
    assert result.status == "timeout"
    assert len(starter.cancelled) == 1
    expired = next(event.number for event in events if isinstance(event.fact, ScopeExpired))
    async with Engine(await cut(journal, expired)) as engine:
        assert (await engine.resume("r", team=team)).status == "timeout"
        again = (await engine.runs.history("r")).record.charges.by_scope[""].cost
    assert len(starter.cancelled) == 2
    async with Engine(journal) as engine:
        assert again == (await engine.runs.history("r")).record.charges.by_scope[""].cost
