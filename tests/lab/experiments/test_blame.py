from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab.experiments.blame import Blame, Fixed
from teamwright.lab.experiments.dataset import Case, DataSet
from teamwright.lab.experiments.experiment import Experiment
from teamwright.lab.experiments.grades import Judges
from teamwright.runtime.engine import Engine
from tests.lab.experiments.planted_faults import Planted, planted

T = TypeVar("T")


async def blamed(case: Planted, journal: MemoryJournal, work: Callable[[Blame], Awaitable[T]], tries: int = 5) -> T:
    """Run the team until it goes wrong, and work on that run."""
    async with Engine(journal) as engine:
        result, number = await engine.run(case.team, case.task, run_id="bad-0"), 0
        while case.expected in (result.output or ""):
            number += 1
            result = await engine.run(case.team, case.task, run_id=f"bad-{number}")
        wanted = Case(id="planted", task=case.task, expected=case.expected)
        experiment = Experiment(engine, DataSet(cases=(wanted,)), (), Judges(case.team.source).team)
        return await work(
            Blame(experiment, await engine.runs.history(result.run_id), wanted, lambda _: case.team, tries)
        )


@pytest.mark.parametrize("number", [0, 1, 2, 5, 6])
async def test_forks_find_the_step_whose_change_fixes_the_run(number: int) -> None:
    case = planted(number)

    async def work(blame: Blame) -> list[Fixed]:
        await blame.check()
        return await blame.tried(blame.named())

    found = await blamed(case, MemoryJournal(), work)
    assert found[0].suspect.member == case.guilty
    assert found[0].fixed >= 2
    after = [one for one in found if one.suspect.number > found[0].suspect.number]
    assert all(one.fixed == 0 and one.tried == 5 for one in after)


async def test_a_fork_asks_nobody_again_who_came_before_the_suspect_and_the_hint_is_for_the_suspect_alone() -> None:
    case, journal = planted(0), MemoryJournal()

    async def work(blame: Blame) -> str:
        tried = await blame.tried([one for one in blame.named() if one.member == case.guilty])
        return tried[0].run_ids[0]

    events = await journal.read(await blamed(case, journal, work, tries=1))
    resumed = next(one.number for one in events if one.kind == "run.resumed")
    asked = [one.key for one in events if one.kind == "agent.asked" and one.number > resumed]
    assert asked[0] == f"{case.team.name}/step-{case.place + 1}"
    assert [one.kind for one in events].count("run.intervened") == 1


async def test_carried_out_again_it_forks_nothing_and_says_the_same() -> None:
    case, journal = planted(5), MemoryJournal()

    async def work(blame: Blame) -> list[Fixed]:
        return await blame.tried(blame.named()[:2])

    first = await blamed(case, journal, work)
    runs = len(await journal.runs())
    assert await blamed(case, journal, work) == first
    assert len(await journal.runs()) == runs


async def test_a_run_that_ended_well_blames_nobody() -> None:
    case = planted(0)
    async with Engine("memory") as engine:
        result = await engine.run(case.team, case.task)
        while case.expected not in (result.output or ""):
            result = await engine.run(case.team, case.task)
        wanted = Case(id="planted", task=case.task, expected=case.expected)
        experiment = Experiment(engine, DataSet(cases=(wanted,)), (), Judges(case.team.source).team)
        history = await engine.runs.history(result.run_id)
        with pytest.raises(UsageError, match="ended well, as far as it knows"):
            await Blame(experiment, history, wanted, lambda _: case.team, 1).check()
