"""People in the loop, in every combination: however a run is cut, resumed, forked and answered, its result is the same.

Each question is asked once and answered once, and no recorded effect is repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import anyio
import pytest
from hypothesis import example, given, strategies as st

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.runtime.engine import Engine
from teamwright.runtime.handle import Handle
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, PersonAsked
from teamwright.values.people import Confirm
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import RunResult
from tests.laws.people_teams import CallLog, PeopleMember, PeopleTeam, people_teams
from tests.profiles import examples

RUN = "r"
PATIENCE = 20
MOST_PROCESSES = 60


@dataclass(frozen=True)
class Life:
    """One process in the life of a run.

    Before it, the record may be cut to a share of its events, and `given` open questions are answered in an order drawn
    from `order`. With `attended`, up to `patience` more are answered while the process lives.
    """

    cut: float | None
    given: int
    order: int
    attended: bool = False
    patience: int = 0


LIVES = st.lists(
    st.builds(
        Life,
        cut=st.none() | st.floats(0, 1, width=16),
        given=st.integers(0, 3),
        order=st.integers(0, 5),
        attended=st.booleans(),
        patience=st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)


def log_of(journal: MemoryJournal, run_id: str = RUN) -> list[Event]:
    return list(journal._logs.get(run_id, ()))


def said(result: RunResult) -> tuple[object, ...]:
    return result.status, result.stop_reason, result.output, result.messages, result.warnings


async def drive(
    people_team: PeopleTeam, journal: MemoryJournal, life: Life, run_id: str = RUN, task: str | None = None
) -> tuple[RunResult, CallLog]:
    """One process: it starts or resumes the run, answers some questions, and ends with the run paused or final."""
    log = CallLog()
    team = people_team.team(log)
    async with Engine(journal) as engine:
        if task is None:
            await give(people_team, engine, run_id, life)
            handle = await engine.start_resume(run_id, team=team)
        else:
            handle = await engine.start(team, task, run_id=run_id)
        with anyio.fail_after(PATIENCE):
            if not life.attended:
                return await handle.result(), log
            handle.set_interactive(True)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(attend, people_team, engine, handle, life.patience)
                await handle.result()
                tasks.cancel_scope.cancel()
        return await engine.runs.result(run_id), log


async def attend(people_team: PeopleTeam, engine: Engine, handle: Handle, patience: int) -> None:
    """Answer questions while the run is live, at most `patience` of them."""
    async for item in engine.runs.follow(handle.run_id):
        if not isinstance(item, Event) or not isinstance(item.fact, PersonAsked):
            continue
        if patience <= 0:
            break
        open_ = (await engine.runs.history(handle.run_id)).questions()
        if item.key in open_:
            patience -= 1
            await engine.runs.answer(handle.run_id, item.key, people_team.answer(item.key, open_[item.key]))
    handle.set_interactive(False)


async def give(people_team: PeopleTeam, engine: Engine, run_id: str, life: Life) -> None:
    """Answer some of the open questions."""
    open_ = (await engine.runs.history(run_id)).questions()
    keys = sorted(open_)
    Random(life.order).shuffle(keys)
    for key in keys[: life.given]:
        await engine.runs.answer(run_id, key, people_team.answer(key, open_[key]))


def cut(journal: MemoryJournal, share: float, *, with_letters: bool) -> MemoryJournal:
    """What a crash leaves: the first events, and an inbox that may already hold later answers."""
    events = log_of(journal)
    made = MemoryJournal()
    made.append(Batch(events[: max(1, int(share * len(events)))], dict(journal._bodies)), lambda _: None)
    made._inbox = list(journal._inbox) if with_letters else []
    made._sent = journal._sent
    return made


def check_once(events: Sequence[Event]) -> None:
    """Check that no question is asked or answered twice."""
    for kind in (PersonAsked, PersonAnswered):
        keys = Counter(event.key for event in events if isinstance(event.fact, kind))
        assert not [key for key, count in keys.items() if count > 1], kind.__name__


def recorded(events: Sequence[Event], run_id: str = RUN) -> set[str]:
    """The returned effects, named as in the call log of a process."""
    keys = [event.key for event in events if event.kind == "agent.returned"]
    return {*keys, *(f"tool {digest(run_id, key)}" for key in keys)}


async def uninterrupted(people_team: PeopleTeam) -> tuple[RunResult, MemoryJournal]:
    """Run in one process that answers every question immediately."""
    journal = MemoryJournal()
    result, _ = await drive(people_team, journal, Life(None, 0, 0, attended=True, patience=10_000), task="meet")
    assert result.status in {"completed", "degraded"}
    check_once(log_of(journal))
    return result, journal


async def to_the_end(
    people_team: PeopleTeam, journal: MemoryJournal, lives: Sequence[Life], expected: RunResult
) -> MemoryJournal:
    """Drive the run with a sequence of processes until it ends; it must end with the expected result."""
    left = list(lives)
    for _ in range(MOST_PROCESSES):
        life = left.pop(0) if left else Life(None, 9, 0)
        if life.cut is not None:
            journal = cut(journal, life.cut, with_letters=life.order % 2 == 0)
        before = log_of(journal)
        if before[-1].kind == "run.ended":
            journal = cut(journal, 0.99, with_letters=True)
            before = log_of(journal)
        result, log = await drive(people_team, journal, life)
        again = set(log.called) & recorded(before)
        assert not again, f"made again: {again}"
        assert log_of(journal)[: len(before)] == before
        check_once(log_of(journal))
        if result.status != "paused" and not left:
            assert said(result) == said(expected)
            return journal
    raise AssertionError("the run never came to an end")


PARALLEL = PeopleTeam(
    ["all", ["ask", "a"], ["seq", ["ask", "b"], ["person"]], ["ask", "c"]],
    (
        PeopleMember("a", effects=1, tools=2, at_once=True, confirm=Confirm(before=True, after=True)),
        PeopleMember("b", effects=1, fails=True, policy="critical", confirm=Confirm(after=True)),
        PeopleMember("c", question=True, team=(PeopleMember("c-0", question=True, confirm=Confirm(after=True)),)),
    ),
)


@examples(12)
@given(people_team=people_teams(), lives=LIVES)
@example(people_team=PARALLEL, lives=[Life(0.5, 1, 1), Life(None, 2, 2), Life(0.75, 0, 0, attended=True, patience=2)])
async def test_however_a_run_is_cut_and_answered_it_has_one_result(
    people_team: PeopleTeam, lives: list[Life]
) -> None:  # P-12, law 2
    expected, whole = await uninterrupted(people_team)
    journal = MemoryJournal()
    await drive(people_team, journal, Life(None, 0, 0), task="meet")
    await to_the_end(people_team, journal, lives, expected)
    await to_the_end(people_team, whole, [Life(0.5, 0, 0), *lives], expected)


@examples(12)
@given(people_team=people_teams(), at=st.floats(0, 1, width=16), order=st.integers(0, 5), few=st.booleans())
@example(people_team=PARALLEL, at=0.5, order=1, few=True)
async def test_a_fork_at_any_point_has_the_same_result(
    people_team: PeopleTeam, at: float, order: int, few: bool
) -> None:  # P-09, P-12
    expected, whole = await uninterrupted(people_team)
    events = log_of(whole)
    point = max(2, int(at * len(events)))
    async with Engine(whole) as engine:
        log = CallLog()
        forked = await engine.fork(RUN, at=point, team=people_team.team(log), new_id="f")
    kept = {event.key for event in events[:point] if event.kind == "agent.returned"}
    assert not set(log.called) & kept
    for _ in range(MOST_PROCESSES):
        if forked.status != "paused":
            break
        before = recorded(log_of(whole, "f"), "f")
        forked, log = await drive(people_team, whole, Life(None, 1 if few else 9, order), "f")
        assert not set(log.called) & before
    assert said(forked) == said(expected)
    check_once(log_of(whole, "f"))
    assert log_of(whole) == events


@pytest.mark.parametrize("order", range(6))
async def test_two_branches_are_answered_in_any_order_one_process_each(order: int) -> None:  # P-12
    expected, _ = await uninterrupted(PARALLEL)
    journal = MemoryJournal()
    await drive(PARALLEL, journal, Life(None, 0, 0), task="meet")
    await to_the_end(PARALLEL, journal, [Life(None, 1, order)] * 12, expected)


async def test_a_run_with_people_may_be_cut_after_every_single_event() -> None:  # law 2
    expected, whole = await uninterrupted(PARALLEL)
    events = log_of(whole)
    for number in range(1, len(events)):
        for letters in (True, False):
            journal = cut(whole, number / len(events) + 1e-9, with_letters=letters)
            assert len(log_of(journal)) == number
            await to_the_end(PARALLEL, journal, [], expected)
