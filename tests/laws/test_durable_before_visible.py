"""Law 1: nothing is published and no call leaves before everything recorded up to there is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, strategies as st

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.limits import Limits
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage
from tests.kit.effects import ReturnSchedule, effect_member, yield_to_loop
from tests.laws.random_programs import RUN_ID, TASK, RandomProgram, log_of, random_programs


class SlowJournal(MemoryJournal):
    """A journal with slow commits that records which events were durable when."""

    instant = False

    def __init__(self, delays: Sequence[int]) -> None:
        super().__init__()
        self._delays = delays
        self._queue: list[tuple[Batch, Committed]] = []
        self._task: asyncio.Task[None] | None = None
        self.durable = 0
        self.batches: list[Batch] = []

    def append(self, batch: Batch, done: Committed) -> None:
        self._queue.append((batch, done))
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._queue:
            batch, done = self._queue.pop(0)
            await yield_to_loop(self._delays[len(self.batches) % len(self._delays)])
            self.batches.append(batch)
            self.durable = batch.events[-1].number
            super().append(batch, done)
        self._task = None


class DispatchLog(ReturnSchedule):
    """Records each dispatched call, and how much is durable at that moment."""

    def __init__(self, delays: Sequence[int], journal: SlowJournal) -> None:
        super().__init__(delays)
        self._journal = journal
        self.dispatched: list[tuple[str, int]] = []

    async def call(self, value: str, usage: Usage, attempt: Attempt) -> Returned:
        self.dispatched.append((attempt.idempotency_key, self._journal.durable))
        return await super().call(value, usage, attempt)


@given(
    random_program=random_programs(failures=True),
    delays=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    commits=st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
async def test_a_call_leaves_only_when_its_intent_and_all_before_it_are_durable(
    random_program: RandomProgram, delays: list[int], commits: list[int]
) -> None:
    journal = SlowJournal(commits)
    dispatch_log = DispatchLog(delays, journal)
    seen: list[tuple[int, int]] = []

    def listen(item: Event | AnyDelta) -> None:
        assert isinstance(item, Event)
        seen.append((item.number, journal.durable))

    async with Engine(journal) as engine:
        with engine.bus.listening(listen):
            await engine.run(random_program.team(dispatch_log), TASK, run_id=RUN_ID)
    events = log_of(journal)
    assert [number for number, _ in seen] == [event.number for event in events]
    assert all(number <= durable for number, durable in seen)
    intents = {digest(RUN_ID, event.key): event.number for event in events if event.kind == "agent.called"}
    assert all(intents[effect] <= durable for effect, durable in dispatch_log.dispatched)


async def test_the_result_of_one_call_and_the_intent_of_the_next_share_one_commit() -> None:
    journal, schedule = SlowJournal([3]), ReturnSchedule()
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[effect_member("a", schedule, 4), effect_member("b", schedule, 4)]), TASK)
    together = [{event.kind for event in batch.events} for batch in journal.batches]
    assert sum("agent.called" in kinds for kinds in together) == 8
    assert len(together) == 9
    for kinds in together[1:-1]:
        assert {"agent.returned", "agent.called"} <= kinds
    assert {"agent.returned", "agent.replied", "run.ended"} <= together[-1]


async def test_a_result_and_what_it_cost_too_much_are_one_transaction() -> None:
    journal = SlowJournal([2])

    async def greedy(attempt: Attempt) -> Returned:
        return Returned("x", Usage(requests=1, input_tokens=10, output_tokens=5000))

    async def respond(turn: Turn, ctx: Context) -> str:
        await ctx.effect("e", Effect("model", "m", "r", greedy, prompt_bytes=10, messages=1, max_output=20))
        return "done"

    team = Team("t", members=[FunctionAgent("a", respond)], limits=Limits(tokens=9000))
    async with Engine(journal) as engine:
        await engine.run(team, TASK)
    batch = next(one for one in journal.batches if any(event.kind == "agent.returned" for event in one.events))
    assert "budget.exceeded" in [event.kind for event in batch.events]
