"""A run that a person confirms before it spends anything: yes, a lower ceiling, or no, across processes and crashes."""

from __future__ import annotations

import pytest

from teamwright import Engine, FunctionAgent, Limits, Team
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.people.questions import forecast_text
from teamwright.values.events.budget import BudgetOpened
from teamwright.values.events.run import RunStarted
from teamwright.values.limits import Bounds, Quantiles, SpendForecast
from teamwright.values.people import Answer
from tests.kit.records import cut

pytestmark = pytest.mark.lab  # which makes the forecast
KEY = "t/confirm"
SMALLER = Answer(text="smaller", data={"tokens": 50})


class Calls:
    """A team of two that counts its calls."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.team = Team("t", members=[self._member("a"), self._member("b")])

    def _member(self, name: str) -> FunctionAgent:
        async def respond(task: str) -> str:
            self.made.append(name)
            return f"{name}: {task}"

        return FunctionAgent(name, respond)


async def confirmed(journal: MemoryJournal, answer: Answer | str, limits: Limits | None = None) -> Calls:
    """Pause a run for its confirmation, answer it, and resume it in another engine."""
    calls = Calls()
    async with Engine(journal) as engine:
        paused = await engine.run(calls.team, "go", run_id="r", confirm=True, limits=limits)
        assert (paused.status, paused.stop_reason, paused.exit_code) == ("paused", "approval", 7)
        assert calls.made == []
        await engine.runs.answer("r", KEY, answer)
    async with Engine(journal) as engine:
        await engine.resume("r", team=calls.team)
    return calls


async def test_nothing_is_called_before_a_person_says_yes() -> None:
    journal = MemoryJournal()
    calls = await confirmed(journal, "yes")
    assert calls.made == ["a", "b"]
    kinds = [event.kind for event in await journal.read("r")]
    assert kinds.index("person.answered") < kinds.index("agent.asked")
    assert kinds[-1] == "run.ended"


async def test_no_cancels_the_run_without_a_call() -> None:
    journal = MemoryJournal()
    calls = await confirmed(journal, Answer(text="no", data="too much", by="Ada"))
    async with Engine(journal) as engine:
        result = await engine.runs.result("r")
    assert (result.status, result.stop_reason, result.exit_code) == ("cancelled", "cancelled", 6)
    assert result.warnings == ("it was not to begin: Ada said no: too much",)
    assert calls.made == []
    assert "agent.asked" not in [event.kind for event in await journal.read("r")]


async def test_a_smaller_run_has_the_lower_ceiling() -> None:
    journal = MemoryJournal()
    await confirmed(journal, SMALLER, Limits(tokens=1000, calls=9))
    opened = [event.fact for event in await journal.read("r") if isinstance(event.fact, BudgetOpened)]
    assert [one.limits for one in opened] == [Bounds(tokens=50, calls=9)]


@pytest.mark.parametrize(
    ("answer", "status"), [(Answer(text="yes"), "completed"), (SMALLER, "completed"), (Answer(text="no"), "cancelled")]
)
async def test_a_crash_at_any_event_changes_neither_the_question_nor_the_result(answer: Answer, status: str) -> None:
    journal = MemoryJournal()
    await confirmed(journal, answer, Limits(tokens=1000))
    whole = await journal.read("r")
    for at in range(1, len(whole)):
        copy, calls = await cut(journal, at), Calls()
        async with Engine(copy) as engine:
            result = await engine.resume("r", team=calls.team)
        kinds = [event.kind for event in await copy.read("r")]
        returned = sum(event.kind == "agent.returned" for event in whole[:at])
        assert result.status == status, at
        assert kinds.count("person.asked") == kinds.count("person.answered") == 1, at
        assert len(calls.made) == (0 if status == "cancelled" else 2 - returned), at


async def test_a_question_that_an_earlier_version_asked_in_other_words_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal, calls = MemoryJournal(), Calls()
    async with Engine(journal) as engine:
        await engine.run(calls.team, "go", run_id="r", confirm=True)
        await engine.runs.answer("r", KEY, "yes")
    monkeypatch.setattr("teamwright.runtime.people.questions.forecast_text", lambda _: "It may cost something.")
    async with Engine(journal) as engine:
        assert (await engine.resume("r", team=calls.team)).status == "completed"


async def test_the_forecast_is_recorded_with_the_start_and_absent_elsewhere() -> None:
    journal, calls = MemoryJournal(), Calls()
    async with Engine(journal) as engine:
        await engine.run(calls.team, "go", run_id="asked", confirm=True, limits=Limits(tokens=70))
        await engine.run(calls.team, "go", run_id="plain")
    first, second = (await journal.read("asked"))[0].fact, (await journal.read("plain"))[0].fact
    assert isinstance(first, RunStarted)
    assert isinstance(second, RunStarted)
    assert first.confirm is not None
    assert (first.confirm.basis, first.confirm.asks, first.confirm.ceiling) == (
        "simulation",
        Quantiles(p50=2, p90=2),
        Bounds(tokens=70),
    )
    assert second.confirm is None


async def test_a_fork_of_a_confirmed_run_is_not_confirmed_again_and_keeps_its_ceiling() -> None:
    journal = MemoryJournal()
    calls = await confirmed(journal, SMALLER)
    async with Engine(journal) as engine:
        forked = await engine.fork("r", team=calls.team, new_id="f")
        raised = await engine.fork("r", team=calls.team, new_id="g", limits=Limits(tokens=500))
    assert (forked.status, raised.status) == ("completed", "completed")
    for run_id, tokens in (("f", 50), ("g", 500)):
        started = (await journal.read(run_id))[0].fact
        assert isinstance(started, RunStarted)
        assert (started.confirm, started.limits) == (None, Bounds(tokens=tokens))
        assert "person.asked" not in [event.kind for event in await journal.read(run_id)]


async def test_a_fork_of_a_run_that_was_not_to_begin_asks_again() -> None:
    journal = MemoryJournal()
    calls = await confirmed(journal, "no")
    async with Engine(journal) as engine:
        forked = await engine.fork("r", team=calls.team, new_id="f")
        assert (forked.status, forked.stop_reason) == ("paused", "approval")
        await engine.runs.answer("f", KEY, "yes")
        assert (await engine.resume("f", team=calls.team)).status == "completed"
    assert calls.made == ["a", "b"]


def test_the_question_says_plainly_that_there_is_no_ceiling() -> None:
    text = forecast_text(SpendForecast(basis="unknown", ceiling=Bounds(calls=9)))
    assert "ceiling   none: no limit on tokens or money is set (9 calls)" in text
    assert "cost      not known" in text


def test_the_question_shows_the_forecast_the_ceiling_and_what_it_is_based_on() -> None:
    forecast = SpendForecast(
        basis="runs",
        runs=12,
        tokens=Quantiles(p50=12400, p90=31000),
        usd=Quantiles(p50=0.0123, p90=0.25),
        asks=Quantiles(p50=8, p90=11),
        ceiling=Bounds(usd=2.0, tokens=100_000),
    )
    assert forecast_text(forecast).splitlines() == [
        "cost      $0.0123 (p50), $0.2500 (p90)",
        "tokens    12,400 (p50), 31,000 (p90)",
        "asks      8 (p50), 11 (p90)",
        "ceiling   $2.00, 100,000 tokens",
        "based on  12 past runs of this team",
    ]
