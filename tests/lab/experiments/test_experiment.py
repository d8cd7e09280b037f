from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from typing_extensions import override

from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.lab.experiments.dataset import Case, DataSet
from teamwright.lab.experiments.experiment import UNLIMITED, CaseAttempt, Experiment, Variant
from teamwright.lab.experiments.grades import Judges
from teamwright.lab.experiments.report import report_of, text_of
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAsked, AgentReturned
from teamwright.values.people import Question
from teamwright.values.specs.evaluation import Criterion, Evaluate, Length
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.usage_and_prices import Rate, Usage

pytestmark = pytest.mark.experts  # whose rubric grades answers
PRICE = 0.01
RATE = Rate(input=0, output=10**9)
DATA = DataSet(
    evaluate=Evaluate(criteria=(Criterion(id="short", length=Length(max=40)),)),
    cases=tuple(Case(id=f"case-{n}", task=f"Add {n}", expected="good") for n in range(4)),
)


@dataclass
class Gambler(Agent):
    """Answers by a chance that follows from its run; each call is counted and costs a cent."""

    name: str
    calls: list[str] = field(default_factory=list[str])
    delay: float = 0.0
    kind: str = "model"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        async def call(attempt: Attempt) -> Returned:
            await anyio.sleep(self.delay)
            self.calls.append(attempt.idempotency_key)
            lucky = int(digest(attempt.idempotency_key, self.name), 16) % 3
            return Returned("good" if lucky else "bad", Usage(requests=1, output_tokens=10, usd=PRICE))

        effect = Effect("model", self.name, turn.digest, call, max_output=10, rate=lambda _: RATE)
        returned = await ctx.effect("call", effect)
        return Reply.of(self.name, f"That is {returned.value}.")


class KeptJournal(MemoryJournal):
    """Keeps its batches, so that a journal of the first of them is what a crash would leave."""

    def __init__(self, batches: Sequence[Batch] = ()) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        for batch in batches:
            self.append(batch, lambda _: None)

    @override
    def append(self, batch: Batch, done: Committed) -> None:
        self.batches.append(batch)
        super().append(batch, done)


def experiment(engine: Engine, members: Sequence[Gambler], attempts: int, usd: float | None) -> Experiment:
    teams = [Team(one.name, members=[one]) for one in members]
    variants = [Variant(team.name, lambda team=team: team, digest(team.name)) for team in teams]
    grader = Judges(teams[0].source).team
    return Experiment(engine, DATA, variants, grader, attempts=attempts, limit=3, most_usd=usd)


async def carried_out(
    journal: MemoryJournal | Path, members: Sequence[Gambler], attempts: int = 2, usd: float | None = None
) -> list[CaseAttempt]:
    async with Engine(journal) as engine:
        return await experiment(engine, members, attempts, usd).run()


def table(trials: Sequence[CaseAttempt]) -> str:
    return text_of(report_of([one.changed(seconds=0.0) for one in trials], DATA.cases))


async def test_an_experiment_that_is_killed_at_every_tenth_write_ends_with_the_same_table() -> None:
    journal, members = KeptJournal(), [Gambler("first"), Gambler("second")]
    whole = await carried_out(journal, members)
    assert {one.passed for one in whole} == {True, False}
    for cut in range(0, len(journal.batches), 10):
        left = KeptJournal(journal.batches[:cut])
        paid = {
            digest(event.run_id, event.key)
            for batch in journal.batches[:cut]
            for event in batch.events
            if isinstance(event.fact, AgentReturned)
        }
        again = [Gambler("first"), Gambler("second")]
        assert table(await carried_out(left, again)) == table(whole), cut
        made = [call for member in again for call in member.calls]
        assert not paid & set(made)
        assert len(made) == len(set(made))


async def test_carried_out_again_it_calls_nobody_and_more_attempts_pay_for_themselves_alone() -> None:
    journal, member = KeptJournal(), Gambler("first")
    before = await carried_out(journal, [member])
    assert await carried_out(journal, [member]) == before
    assert len(member.calls) == 8
    await carried_out(journal, [member], attempts=3)
    assert len(member.calls) == 12


async def test_a_team_or_a_task_that_was_changed_is_measured_again() -> None:
    case, other = DATA.cases[0], DATA.cases[0].model_copy(update={"task": "Subtract"})
    one, two = (Variant("team", lambda: Team("x", members=[Gambler("g")]), digest(text)) for text in "ab")
    assert len({one.run_id(case, 1), one.run_id(case, 2), two.run_id(case, 1), one.run_id(other, 1)}) == 4


async def test_two_processes_that_carry_out_one_experiment_pay_once_and_find_the_same(tmp_path: Path) -> None:
    members = [Gambler("first", delay=0.01), Gambler("first", delay=0.01)]
    tables: list[str] = []

    async def process(member: Gambler) -> None:
        tables.append(table(await carried_out(tmp_path / "runs.db", [member])))

    async with anyio.create_task_group() as processes:
        for one in members:
            processes.start_soon(process, one)
    assert tables[0] == tables[1]
    calls = [call for one in members for call in one.calls]
    assert len(calls) == len(set(calls)) == 8


@pytest.mark.parametrize("usd", [None, 1.0])
async def test_what_another_process_drives_goes_on_here_if_that_one_ends_but_not_beside_a_budget(
    tmp_path: Path, usd: float | None
) -> None:
    async with Engine(tmp_path / "runs.db") as other, Engine(tmp_path / "runs.db") as own:
        first, slow = experiment(own, [Gambler("first")], 1, usd), Team("first", members=[Gambler("first", delay=9)])
        variant, case, found = first.variants[0], DATA.cases[0], list[CaseAttempt]()
        handle = await other.start(slow, case.task, run_id=first.run_id(variant, case, 1))
        if usd is not None:
            with pytest.raises(UsageError, match="Another process carries out this experiment"):
                await first.run()
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_run_into, first, found)
            await anyio.sleep(0.2)
            handle.interrupt()
        assert [one.status for one in found] == ["completed"] * 4


async def _run_into(one: Experiment, found: list[CaseAttempt]) -> None:
    found += await one.run()


async def test_an_answer_that_is_there_twice_is_judged_once() -> None:
    judge = Gambler("judge", delay=0.01)
    cases = tuple(Case(id=str(n), task="Add", output="good", label="pass") for n in range(6))

    def grader(declared: Evaluate, task: str, data: object) -> Team:
        return Team("grading", members=[judge])

    async with Engine("memory") as engine:
        data = DataSet(evaluate=DATA.evaluate, cases=cases)
        assert len(await Experiment(engine, data, [], grader).labels()) == 6
    assert len(judge.calls) == 1


@pytest.mark.parametrize("usd", [0.015, 0.035, 0.3])
async def test_the_budget_of_the_whole_is_never_exceeded_and_what_it_cut_off_counts_for_nothing(usd: float) -> None:
    journal, member = KeptJournal(), Gambler("first")
    trials = await carried_out(journal, [member], usd=usd)
    assert PRICE * len(member.calls) <= usd
    found = report_of(trials, DATA.cases).variants[0]
    assert found.trials + found.unmeasured == 8
    assert found.trials == min(8, int(usd / PRICE))
    await carried_out(journal, [member], usd=usd)
    assert PRICE * len(member.calls) <= usd
    more = await carried_out(journal, [member], usd=1.0)
    assert all(one.passed is not None for one in more)
    assert len(member.calls) == 8


async def test_what_a_budget_cut_off_goes_on_where_there_is_none_any_more() -> None:
    journal, member = KeptJournal(), Gambler("first")
    cut = await carried_out(journal, [member], usd=PRICE / 10)
    assert {one.passed for one in cut} == {None}
    whole = await carried_out(journal, [member])
    assert None not in {one.passed for one in whole}
    assert {one.passed for one in whole} == {True, False}
    assert (len(member.calls), await carried_out(journal, [member])) == (8, whole)
    asked = [event.fact for event in await journal.read(whole[0].run_id) if isinstance(event.fact, AgentAsked)]
    assert asked[-1].left is not None
    assert asked[-1].left.usd == UNLIMITED, "the turn that was refused is asked again, and is not told of too little"


@dataclass
class Asker(Agent):
    """Asks a person, and passes on the answer."""

    name: str
    kind: str = "model"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        answer = await ctx.ask_person(Question(text="May I?"), key="question")
        return Reply.of(self.name, f"The answer is {answer.text}.")


async def test_a_run_that_waits_for_a_person_does_not_pass_and_goes_on_once_it_was_answered() -> None:
    team = Team("desk", members=[Asker("clerk")])
    data = DataSet(cases=(Case(id="one", task="Ask", expected="yes"),))
    variant, found = Variant("desk", lambda: team, digest("desk")), list[CaseAttempt]()
    async with Engine("memory") as engine:
        for _ in range(2):
            trials = await Experiment(engine, data, [variant], Judges(team.source).team).run()
            found += trials
            for key in (await engine.runs.history(trials[0].run_id)).questions():
                if trials[0].status == "paused":
                    await engine.runs.answer(trials[0].run_id, key, "yes")
    assert [(one.status, one.passed) for one in found] == [("paused", False), ("completed", True)]
    assert report_of(found[:1], data.cases).variants[0].waiting == 1


@pytest.mark.parametrize("usd", [0.0, 0.05])
async def test_labels_are_judged_within_the_same_budget(usd: float) -> None:
    judge = Gambler("judge")
    case = Case(id="one", task="Add", output="good", label="pass")

    def grader(declared: Evaluate, task: str, data: object) -> Team:
        return Team("grading", members=[judge])

    async with Engine("memory") as engine:
        declared = DATA.evaluate
        found = Experiment(engine, DataSet(evaluate=declared, cases=(case,)), [], grader, most_usd=usd)
        assert len(await found.labels()) == (1 if usd else 0)
    assert PRICE * len(judge.calls) <= usd


async def test_a_mistake_of_one_run_is_that_of_the_experiment() -> None:
    async with Engine("memory") as engine:
        variant = Variant("desk", lambda: Team("desk", members=[Gambler("clerk")]), digest("desk"))
        data = DataSet(cases=tuple(Case(id=str(n), task=f"Add {n}", files=("none.txt",)) for n in range(5)))
        with pytest.raises(UsageError, match=r"none\.txt"):
            await Experiment(engine, data, [variant], Judges(variant.make().source).team).run()
