"""Whatever people send to a run: each intervention is answered for, and a crash changes nothing.

Interventions are drawn at random and wait in the inbox when the run starts. The run is cut at the end of any of its
writes, and resumed.
"""

from __future__ import annotations

from collections import Counter

import anyio
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.limits import Limits
from teamwright.values.people import (
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    ResumeMember,
    Steer,
    StopStep,
    Tell,
)
from teamwright.values.turns.results import RunResult
from tests.kit.members import FakeMembers
from tests.kit.records import cut

NAMES = st.sampled_from(["a", "b", "c", "inner", "stranger"])
SENT = st.lists(
    st.builds(Tell, text=st.sampled_from(["Be brief.", "Hurry."]), to=st.one_of(st.just(""), NAMES))
    | st.builds(PauseMember, member=NAMES)
    | st.builds(ResumeMember, member=NAMES)
    | st.builds(RaiseBudget, calls=st.integers(1, 90))
    | st.builds(StopStep, step=NAMES)
    | st.builds(RestorePlan, plan_version=st.integers(1, 3))
    | st.builds(RemoveMember, member=NAMES),
    max_size=6,
)
STRATEGIES: dict[str, dict[str, JsonValue]] = {
    "sequential": {},
    "round_robin": {},
    "fan_out": {"chunks": ["one", "two", "three"], "max_parallel": 2},
}
MOST_PAUSES = 12


class BatchJournal(MemoryJournal):
    """A journal that knows where its writes end, which is where a crash can cut a record."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def append(self, batch: Batch, done: Committed) -> None:
        """Append a batch."""
        self.ends.append(batch.events[-1].number)
        super().append(batch, done)


def team(strategy: str, members: FakeMembers) -> Team:
    inner = Team("inner", members=members.members("b c"))
    limit = {"max_turns": 2} if strategy == "round_robin" else {}
    return Team(
        "t",
        members=[members.member("a"), inner],
        strategy=strategy,
        options=STRATEGIES[strategy],
        limits=Limits(calls=60),
        **limit,  # type: ignore[arg-type]
    )


async def finish(engine: Engine, made: Team, result: RunResult) -> RunResult:
    """Resume every member that is paused, until the run ends."""
    for _ in range(MOST_PAUSES):
        if result.status != "paused":
            break
        for key in (await engine.runs.history("r")).questions():
            await engine.runs.answer("r", key, "resume")
        result = await engine.resume("r", team=made)
    return result


def check(events: list[Event], sent: list[Steer]) -> None:
    """Check that each intervention was answered for, once."""
    assert check_answers(events) == set(range(1, len(sent) + 1))


def check_answers(events: list[Event]) -> set[int]:
    """Check that interventions were accepted or refused once, and what was accepted took effect or never will.

    Returns the letters of those that were answered for.
    """
    assert [event.kind for event in events].count("run.ended") == 1
    assert events[-1].kind == "run.ended"
    accepted = [event.fact.inbox_id for event in events if isinstance(event.fact, RunIntervened)]
    applied = {event.fact.inbox_id for event in events if isinstance(event.fact, RunApplied)}
    refused = [event.fact.inbox_id for event in events if isinstance(event.fact, RunRefused)]
    assert max(Counter(accepted).values(), default=1) == max(Counter(refused).values(), default=1) == 1
    assert set(accepted) <= applied | set(refused)
    assert not applied & set(refused)
    assert applied <= set(accepted)
    return set(accepted) | set(refused)


@given(st.sampled_from(sorted(STRATEGIES)), SENT, st.integers(0, 1000))
async def test_each_intervention_is_answered_for_wherever_the_run_is_cut(
    strategy: str, sent: list[Steer], where: int
) -> None:
    journal, made = BatchJournal(), team(strategy, FakeMembers())
    for one in sent:
        await journal.send("r", one)
    with anyio.fail_after(20):
        async with Engine(journal, seed=lambda: 1) as engine:
            result = await finish(engine, made, await engine.run(made, "go", run_id="r"))
        check(await journal.read("r"), sent)
        assert result.status == "completed"
        copy = await cut(journal, journal.ends[where % len(journal.ends)])
        async with Engine(copy) as engine:
            if (await copy.read("r"))[-1].kind != "run.ended":
                again = await finish(engine, made, await engine.resume("r", team=made))
                assert (again.output, again.messages) == (result.output, result.messages)
        check(await copy.read("r"), sent)
