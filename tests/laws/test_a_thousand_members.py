"""A thousand concurrent members with 5 % rate-limit errors and 2 % timeouts: all have an ending, limits hold.

In virtual time, so that minutes of rate limiting pass at once; and a smaller run over real sockets.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import anyio

from teamwright import Engine, Limits, ModelAgent, RunResult, Team
from teamwright.errors import RateLimited
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.testing.model_server import ChatAnswer, ChatRequest, Fail, ModelServer, Say
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentFailed, AgentReturned
from teamwright.values.events.budget import BudgetThrottled
from teamwright.values.events.event import Event
from teamwright.values.limits import Pace, PerMinute
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import ServerModel
from teamwright.values.usage_and_prices import Usage
from tests.laws.program import program_team
from tests.laws.random_programs import RUN_ID, TASK, cut, log_of
from tests.laws.test_every_task_has_a_parent import check_endings
from tests.runtime.virtual_time import Answering, Caller, Provider, in_virtual_time, most_in_a_minute, now

MEMBERS = 1000
PACE = Pace(per_minute=PerMinute(calls=120, tokens=6000), max_parallel=40)
LIMITS = Limits(tokens=65_000, calls=1200)
RETRY = RetryPolicy(times=2, backoff=1)
SPENT = Usage(requests=1, input_tokens=20, output_tokens=30)
FOREVER = 1e6


def fate(member: int) -> Answering:
    """The attempts of a member: of a hundred members, five are rate-limited and two time out.

    Of a thousand, five are rate-limited each time and five time out each time, so these ten fail.
    """
    often = 99 if member % 200 in (7, 11) else 1
    if member % 20 == 7:
        return lambda attempt: RateLimited("slow down", retry_after=2) if attempt <= often else 1.0
    if member % 50 == 11:
        return lambda attempt: FOREVER if attempt <= often else 1.0
    return lambda attempt: 1.0 + member % 7


def thousand(provider: Provider) -> Team:
    members = [
        Caller(f"m{number}", provider, PACE, cap=50, retry=RETRY, timeout=20.0, own=fate(number))
        for number in range(MEMBERS)
    ]
    program = ["all", MEMBERS, *(["ask", member.name] for member in members)]
    return program_team("thousand", program, members, limits=LIMITS)


def doomed() -> dict[str, str]:
    """The members that fail, with the kind of error."""
    slow = {f"m{number}": "rate_limit" for number in range(7, MEMBERS, 200)}
    return slow | {f"m{number}": "timeout" for number in range(11, MEMBERS, 200)}


def test_a_thousand_members_are_all_accounted_for_and_the_limits_hold() -> None:  # P-13
    provider, journal = Provider(usage=SPENT, fails_after=0.5), MemoryJournal()

    async def main() -> RunResult:
        async with Engine(journal, wall=now) as engine:
            with anyio.fail_after(3600):
                return await engine.run(thousand(provider), TASK, run_id=RUN_ID)

    result, events = in_virtual_time(main), log_of(journal)
    check_accounts(result, events)
    check_pace(provider)
    check_rests(events)
    called = [event for event in events if isinstance(event.fact, AgentCalled)]
    assert len(called) == len(provider.began) == MEMBERS + 45 + 2 * 5 + 15 + 2 * 5
    assert provider.peak == PACE.max_parallel


def test_a_thousand_members_survive_a_crash_in_the_middle() -> None:  # P-13
    provider, whole = Provider(usage=SPENT, fails_after=0.5), MemoryJournal()

    async def begin() -> None:
        async with Engine(whole, wall=now) as engine:
            await engine.start(thousand(provider), TASK, run_id=RUN_ID)
            await asyncio.sleep(120)

    in_virtual_time(begin)
    journal = cut(whole, len(log_of(whole)) * 9 // 10)
    recorded = {event.key for event in log_of(journal) if isinstance(event.fact, AgentReturned)}
    again = Provider(usage=SPENT, fails_after=0.5)

    async def resume() -> RunResult:
        await asyncio.sleep(log_of(journal)[-1].time)
        async with Engine(journal, wall=now) as engine:
            return await engine.resume(RUN_ID, team=thousand(again))

    check_accounts(in_virtual_time(resume), log_of(journal))
    check_pace(again)
    assert 100 < len(recorded) < MEMBERS
    assert not {who.partition(":")[2] for who in again.who} & recorded


def check_accounts(result: RunResult, events: Sequence[Event]) -> None:
    """Check that every member has its one expected ending, every attempt at most one outcome, and the budget held."""
    check_endings(events)
    assert result.status == "completed"
    failed = {event.fact.member: event.fact.error for event in events if isinstance(event.fact, AgentFailed)}
    assert failed == doomed()
    said = Counter(message.name for message in result.messages if message.name != "program")
    assert said == dict.fromkeys({f"m{number}" for number in range(MEMBERS)} - failed.keys(), 1)
    assert result.usage.total_tokens <= (LIMITS.tokens or 0)
    assert sum(isinstance(event.fact, AgentCalled) for event in events) <= (LIMITS.calls or 0)


def check_pace(provider: Provider) -> None:
    """The most calls in flight, and within any minute."""
    assert provider.out == 0
    assert provider.peak <= (PACE.max_parallel or 0)
    assert most_in_a_minute(provider.began) <= (PACE.per_minute.calls or 0)
    assert most_in_a_minute(provider.began, provider.cost) <= (PACE.per_minute.tokens or 0)


def check_rests(events: Sequence[Event]) -> None:
    """Check that no call began while the model was resting, and that each rest is recorded once."""
    throttled = [event for event in events if isinstance(event.fact, BudgetThrottled)]
    refused = [
        event for event in events if isinstance(event.fact, AgentCallFailed) and event.fact.error == "rate_limit"
    ]
    assert 0 < len(throttled) <= len(refused)
    left = [event.time for event in events if isinstance(event.fact, AgentCalled)]
    for event in throttled:
        seconds = event.fact.seconds if isinstance(event.fact, BudgetThrottled) else 0.0
        assert not [time for time in left if event.time < time < event.time + seconds]


class Busy:
    """The answers of a server: of a hundred requests, five are rate-limited at first and two are never answered."""

    def __init__(self) -> None:
        self.at_work = self.peak = 0
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()

    def __call__(self, request: ChatRequest) -> ChatAnswer:
        name = request.messages[0].content
        number = int(name.removeprefix("member "))
        with self._lock:
            self._seen[name] += 1
            first = self._seen[name] == 1
            self.at_work += 1
            self.peak = max(self.peak, self.at_work)
        time.sleep(0.01)
        with self._lock:
            self.at_work -= 1
        if first and number % 20 == 7:
            return Fail(status=429, retry_after=0.1)
        return Say(text=f"{name} is fine", delay=60.0 if first and number % 50 == 11 else 0.0)


async def test_a_hundred_members_over_real_sockets(tmp_path: Path) -> None:  # P-13
    retry = RetryPolicy(times=5, backoff=0.01)
    with ModelServer(busy := Busy()) as server:
        model = ServerModel(url=server.url, name="test", max_parallel=6)
        members = [
            ModelAgent(f"m{number}", model=model, instructions=f"member {number}", timeout=1.5, retry=retry)
            for number in range(100)
        ]
        program = ["all", 100, *(["ask", member.name] for member in members)]
        async with Engine(tmp_path / "journal.db") as engine:
            result = await engine.run(program_team("hundred", program, members), TASK, run_id=RUN_ID)
            events = await engine.journal.read(RUN_ID)
        assert server.count >= 100 + 5 + 2
    check_endings(events)
    said = {message.content for message in result.messages if message.name != "program"}
    assert said == {f"member {number} is fine" for number in range(100)}
    assert 1 < busy.peak <= 6
    assert {event.fact.model for event in events if isinstance(event.fact, BudgetThrottled)} == {"test"}
