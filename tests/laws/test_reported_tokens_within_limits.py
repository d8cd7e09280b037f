"""Law 3 with real token counts: what a provider reports for all calls of a run never exceeds the limit of the run.

The provider bills what OpenAI's tokenizer counts, whatever the prompts are made of. A reservation is close to that, or
small budgets would refuse what they can pay for. `HYPOTHESIS_PROFILE=thorough` makes 10 000 calls and kills 300 runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import anyio
import pytest

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentCalled, AgentReturned
from teamwright.values.events.budget import BudgetExceeded, BudgetMisreported
from teamwright.values.events.event import Event
from teamwright.values.limits import Limits
from tests.kit.prompt_corpus import KINDS
from tests.kit.wire_server import WireServer
from tests.laws.billed_runs import RUN_ID, CountingProvider, encoding, team_of
from tests.laws.crash.fork_server import ForkServer
from tests.profiles import is_thorough, sampled

THOROUGH = is_thorough()
CALLS, KILLED_RUNS = (10_000, 300) if THOROUGH else (sampled(60, 150), sampled(4, 8))
CLOSE = 1.3
"""The most that prompts in English and code reserve, over what they cost."""


@pytest.fixture(autouse=True)
def tokenizer() -> None:
    """Skip where the tokenizer is not installed."""
    encoding()


async def run_with_interruptions(team: Team, stops: Sequence[float] = ()) -> list[Event]:
    """Run a team; leave the engine after so many seconds, in the middle of calls, and resume, until it ends."""
    journal = MemoryJournal()
    for index, seconds in enumerate([*stops, 50.0]):
        async with Engine(journal) as engine:
            start = engine.start_resume(RUN_ID, team=team) if index else engine.start(team, "Talk.", run_id=RUN_ID)
            handle = await start
            with anyio.move_on_after(seconds):
                await handle.result()
            handle.interrupt()
            result = await handle.result()
        if result.status != "interrupted":
            assert result.stop_reason in ("done", "budget"), result.failure
            return await journal.read(RUN_ID)
    raise AssertionError("the run does not end")


async def test_what_a_provider_reports_never_exceeds_the_limit() -> None:  # Z-10
    made = 0
    for seed in range(1_000_000):
        random = Random(seed)
        kind, limit = random.choice(KINDS), random.randrange(1500, 40_000)
        provider = CountingProvider(kind, seed)
        stops = [random.uniform(0.01, 0.2) for _ in range(random.randrange(3))]
        with WireServer(provider.answer) as server:
            team = team_of(server.url, kind, seed, Limits(tokens=limit))
            events = await run_with_interruptions(team, stops)
        assert provider.billed <= limit, f"seed {seed}"
        assert not [event for event in events if isinstance(event.fact, BudgetExceeded | BudgetMisreported)]
        made += provider.calls
        if made >= CALLS:
            break


async def test_of_runs_that_are_killed_no_more_is_reported_than_their_limits(
    fork_server: ForkServer, tmp_path: Path
) -> None:  # Z-10
    """A call in flight may have been billed, whatever its driver knew when it died."""
    killed = 0
    for seed in range(KILLED_RUNS):
        random = Random(seed)
        kind, limit = random.choice(KINDS), random.randrange(2000, 9000)
        provider, path = CountingProvider(kind, seed, latency=0.05), str(tmp_path / f"{seed}.db")
        stops = [*(random.uniform(0.05, 0.2) for _ in range(random.randrange(1, 6))), None]
        with WireServer(provider.answer) as server:
            arguments = {"url": server.url, "kind": kind, "seed": seed, "limit": limit, "journal": path}
            ends = [fork_server.run("tests.laws.billed_runs:drive", **arguments, seconds=one) for one in stops]
        killed += sum(end.killed for end in ends)
        assert provider.billed <= limit, f"seed {seed}"
        async with Engine(SqliteJournal(path)) as engine:
            events = await engine.journal.read(RUN_ID)
        assert not [event for event in events if isinstance(event.fact, BudgetExceeded | BudgetMisreported)]
    assert killed >= KILLED_RUNS // 2, "many runs are in the middle of their calls then"


@pytest.mark.parametrize("kind", ["english", "code"])
async def test_prompts_in_english_and_code_reserve_little_more_than_they_cost(kind: str) -> None:  # Z-10
    provider = CountingProvider(kind, 3)
    with WireServer(provider.answer) as server:
        events = await run_with_interruptions(team_of(server.url, kind, 3, Limits(tokens=200_000)))
    called = {(event.key, event.fact.attempt): event.fact for event in events if isinstance(event.fact, AgentCalled)}
    reserved = used = 0
    for event in events:
        if isinstance(event.fact, AgentReturned) and event.fact.usage.requests:
            before = called[event.key, event.fact.attempt]
            reserved += before.reserved - (before.max_output or 0)
            used += event.fact.usage.input_tokens
    assert 0 < used <= reserved <= CLOSE * used


async def test_work_that_fits_a_budget_a_third_above_its_need_is_done() -> None:  # Z-10
    """The need is what the same run spends without a limit that matters."""
    ample, tight = CountingProvider("english", 5), CountingProvider("english", 5)
    with WireServer(ample.answer) as server:
        await run_with_interruptions(team_of(server.url, "english", 8, Limits(tokens=1_000_000)))
    with WireServer(tight.answer) as server:
        limits = Limits(tokens=int(1.3 * ample.billed) + 1024)
        events = await run_with_interruptions(team_of(server.url, "english", 8, limits))
    assert tight.calls == ample.calls > 0
    assert not [event for event in events if event.kind == "budget.refused"]
