"""Calls that leave a provider alone until it takes calls again, and runs that pause for that."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from itertools import pairwise

import pytest

from teamwright import Context, Engine, Limits, Reply, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import RateLimited, ServiceError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunPaused
from teamwright.values.limits import Pace
from teamwright.values.people import Question
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.results import seconds_until
from tests.kit.records import cut
from tests.runtime.virtual_time import Caller, Provider, in_virtual_time, now, run, side_by_side

HOURS = 3600.0
PATIENT = RetryPolicy(outlast=6 * HOURS)


def closed_until(provider_opens: float, *, named: bool = True) -> Provider:
    """A provider that takes no calls before this time, and says so if the time is `named`."""

    def answer(number: int) -> float | Exception:
        left = provider_opens - now()
        return 1.0 if left <= 0 else RateLimited("come back later", retry_after=left if named else None)

    return Provider(answer)


def team_of(*members: Agent) -> Team:
    return side_by_side("t", members)


class Asker(Agent):
    """A member that asks a person."""

    name, kind = "asker", "function"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return Reply.of(self.name, (await ctx.ask_person(Question(text="May I?"), key="may")).text)


def test_a_run_pauses_until_the_provider_takes_calls_again_and_goes_on_without_a_call_before() -> None:
    async def main() -> None:
        provider, journal = closed_until(2 * HOURS), MemoryJournal()
        team = team_of(Caller("a", provider, retry=PATIENT))
        paused, events = await run(team, journal)
        assert (paused.status, paused.stop_reason, paused.exit_code) == ("paused", "quota", 7)
        assert "1970-01-01T02:00:00" < paused.resume_at < "1970-01-01T02:00:01"  # some jitter is added
        assert now() < 1
        assert isinstance(events[-1].fact, RunPaused)
        assert json.dumps(paused.to_json()["resume_at"]) == f'"{paused.resume_at}"'
        async with Engine(journal, wall=now) as engine:
            early = await engine.resume("r", team=team)
            assert (early.status, early.resume_at) == ("paused", paused.resume_at)
            assert provider.began == [0.0]
            await asyncio.sleep(2 * HOURS + 1)
            ended = await engine.resume("r", team=team)
        assert (ended.status, provider.began) == ("completed", [0.0, now() - 1])
        assert ended.seconds == pytest.approx(1.0, abs=0.1)

    in_virtual_time(main)


def test_other_models_go_on_meanwhile_and_calls_of_the_closed_one_are_not_made() -> None:
    async def main() -> None:
        closed, other = closed_until(2 * HOURS), Provider(lambda number: 60.0)
        members = [Caller(name, closed, model="closed", retry=PATIENT) for name in ("a", "b", "c")]
        late = Caller("late", closed, model="closed", retry=PATIENT, own=lambda attempt: 1.0)
        team = team_of(*members, Caller("d", other, model="other", times=10), late)
        journal = MemoryJournal()
        paused, _ = await run(team, journal)
        assert (paused.stop_reason, now()) == ("quota", 600.0)
        assert len(other.began) == 10
        first = len(closed.began)
        assert first <= 4  # those that were in flight when the first was refused
        await asyncio.sleep(2 * HOURS)
        async with Engine(journal, wall=now) as engine:
            ended = await engine.resume("r", team=team)
        assert (ended.status, len(other.began)) == ("completed", 10)

    in_virtual_time(main)


def test_a_call_behind_others_in_the_queue_of_a_closed_model_is_not_sent() -> None:
    async def main() -> None:
        closed = closed_until(2 * HOURS)
        team = team_of(*(Caller(f"m{n}", closed, pace=Pace(max_parallel=1), retry=PATIENT) for n in range(20)))
        paused, _ = await run(team)
        assert (paused.stop_reason, len(closed.began)) == ("quota", 1)
        assert now() < 1

    in_virtual_time(main)


def test_the_run_does_not_pause_where_the_provider_opens_while_others_work() -> None:
    async def main() -> None:
        closed = closed_until(300.0)
        team = team_of(Caller("a", closed, retry=PATIENT), Caller("b", Provider(lambda n: 400.0), model="slow"))
        ended, events = await run(team)
        assert (ended.status, now()) == ("completed", 400.0)
        assert not any(isinstance(event.fact, RunPaused) for event in events)

    in_virtual_time(main)


def test_nothing_is_held_and_no_time_limit_runs_while_a_provider_is_left_alone() -> None:
    async def main() -> None:
        closed = closed_until(2 * HOURS)
        waiting = Caller("a", closed, retry=PATIENT, own_limits=Limits(seconds=10))
        budget = Limits(tokens=300, seconds=900)  # room for one call at a time
        team = team_of(waiting, Caller("b", Provider(lambda n: 60.0), model="other", times=5))
        journal = MemoryJournal()
        async with Engine(journal, wall=now) as engine:
            paused = await engine.run(team, "go", run_id="r", limits=budget)
            assert (paused.stop_reason, now()) == ("quota", 300.0)
            await asyncio.sleep(2 * HOURS)
            ended = await engine.resume("r", team=team)
        assert ended.status == "completed"

    in_virtual_time(main)


@pytest.mark.parametrize("error", [RateLimited, ServiceError])
def test_a_wait_beyond_what_may_be_outlasted_fails_as_before(error: type[RateLimited | ServiceError]) -> None:
    async def main() -> None:
        provider = Provider(lambda number: error("come back tomorrow", retry_after=24 * HOURS))
        ended, _ = await run(team_of(Caller("a", provider, retry=PATIENT)))
        assert (ended.status, len(provider.began)) == ("completed", 4)  # the team ends with the failure
        assert ended.output == "Failure"

    in_virtual_time(main)


def test_a_call_gives_up_once_all_its_waits_together_reach_the_limit() -> None:
    async def main() -> None:
        provider, journal = Provider(lambda number: ServiceError("later", retry_after=2.5 * HOURS)), MemoryJournal()
        team = team_of(Caller("a", provider, retry=RetryPolicy(times=0, outlast=6 * HOURS)))
        ended, _ = await run(team, journal)
        async with Engine(journal, wall=now) as engine:
            for _ in range(2):
                await asyncio.sleep(2.6 * HOURS)
                ended = await engine.resume("r", team=team)
        assert (ended.output, len(provider.began)) == ("Failure", 3)

    in_virtual_time(main)


def test_a_limit_without_a_time_is_outlasted_with_waits_that_double() -> None:
    async def main() -> None:
        provider, journal = closed_until(1 * HOURS, named=False), MemoryJournal()
        team = team_of(Caller("a", provider, retry=RetryPolicy(times=1, backoff=2, outlast=2 * HOURS)))
        ended, _ = await run(team, journal)
        async with Engine(journal, wall=now) as engine:
            while ended.status == "paused":
                await asyncio.sleep(seconds_until(ended.resume_at, now()))
                ended = await engine.resume("r", team=team)
        waits = [round(after - before) for before, after in pairwise(provider.began)]
        assert waits == [2, 60, 60, 120, 240, 480, 960, 1920]

    in_virtual_time(main)


def test_a_run_that_also_waits_for_a_person_goes_on_at_the_time_and_with_the_answer() -> None:
    async def main() -> None:
        closed = closed_until(2 * HOURS)
        team, journal = team_of(Caller("a", closed, retry=PATIENT), Asker()), MemoryJournal()
        paused, _ = await run(team, journal)
        assert (paused.stop_reason, paused.resume_at[:19]) == ("person", "1970-01-01T02:00:00")
        async with Engine(journal, wall=now) as engine:
            await engine.runs.answer("r", next(iter((await engine.runs.history("r")).questions())), "yes")
            paused = await engine.resume("r", team=team)
            assert (paused.stop_reason, len(closed.began)) == ("quota", 1)
            await asyncio.sleep(2.1 * HOURS)
            assert (await engine.resume("r", team=team)).status == "completed"

    in_virtual_time(main)


def test_a_run_that_a_person_pauses_meanwhile_does_not_go_on_by_itself() -> None:
    async def main() -> None:
        closed, journal = closed_until(2 * HOURS), MemoryJournal()
        slow = Caller("b", Provider(lambda n: 60.0), model="other", times=3)
        team = team_of(Caller("a", closed, retry=PATIENT), slow)
        async with Engine(journal, wall=now) as engine:
            handle = await engine.start(team, "go", run_id="r")
            await asyncio.sleep(90)
            await engine.runs.pause("r")
            paused = await handle.result()
        assert (paused.stop_reason, paused.resume_at) == ("pause", "")

    in_virtual_time(main)


def test_killed_at_any_event_the_run_makes_no_call_before_the_time_and_repeats_none_that_is_recorded() -> None:
    record, whole = MemoryJournal(), list[Event]()

    def team_with(closed: Provider, other: Provider) -> Team:
        return team_of(Caller("a", closed, retry=PATIENT), Caller("b", other, model="other", times=2))

    async def first_drive() -> None:
        _, events = await run(team_with(closed_until(2 * HOURS), Provider(lambda number: 0.2)), record)
        whole.extend(events)

    async def second_drive(at: int) -> None:
        closed, other = closed_until(2 * HOURS), Provider(lambda number: 0.2)
        facts = [event.fact for event in whole[:at]]
        is_closed = any(isinstance(fact, AgentCallFailed) for fact in facts)
        returned = sum(isinstance(fact, AgentReturned) for fact in facts)
        await asyncio.sleep(1.0)
        journal, team = await cut(record, at), team_with(closed, other)
        async with Engine(journal, wall=now) as engine:
            paused = await engine.resume("r", team=team)
            assert (paused.stop_reason, len(closed.began)) == ("quota", 0 if is_closed else 1)
            await asyncio.sleep(seconds_until(paused.resume_at, now()))
            ended = await engine.resume("r", team=team)
        assert (ended.status, ended.output) == ("completed", "Reply Reply")
        assert (len(closed.began), len(other.began)) == (1 if is_closed else 2, 2 - returned)

    in_virtual_time(first_drive)
    assert isinstance(whole[-1].fact, RunPaused)
    for at in range(1, len(whole) + 1):
        in_virtual_time(partial(second_drive, at))
