"""Whether a run has to be confirmed, and functions that confirm it for a person."""

from __future__ import annotations

import pytest

from teamwright import Answer, Confirm, Engine, FunctionAgent, Team, run_sync
from teamwright.errors import UsageError
from teamwright.people import Spend, SpendForecast

pytestmark = pytest.mark.lab  # which makes the forecast


def writer(task: str) -> str:
    return f"done: {task}"


def team(above: Spend | None = None) -> Team:
    confirm = None if above is None else Confirm(above=above)
    return Team("t", members=[FunctionAgent("writer", writer)], confirm=confirm)


async def test_a_run_below_the_amount_is_not_asked_about_and_records_nothing_of_it() -> None:
    async with Engine("memory") as engine:
        result = await engine.run(team(Spend(usd=1)), "go", run_id="r")
        assert result.status == "completed"
        assert "person.asked" not in [event.kind for event in await engine.journal.read("r")]


async def test_the_amount_of_the_call_replaces_that_of_the_team(monkeypatch: pytest.MonkeyPatch) -> None:
    expensive = SpendForecast(basis="unknown")

    async def forecast(*_: object) -> SpendForecast:
        return expensive

    monkeypatch.setattr("teamwright.lab.simulation.simulate.forecast_run", forecast)
    async with Engine("memory") as engine:
        assert (await engine.run(team(Spend(usd=1)), "go")).status == "paused"
        expensive = SpendForecast(basis="runs", runs=5)
        assert (await engine.run(team(), "go", confirm=Spend(tokens=1))).status == "paused"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (True, "completed"),
        ("yes", "completed"),
        (Answer(text="smaller", data={"usd": 1}), "completed"),
        (False, "cancelled"),
    ],
)
def test_a_function_confirms_in_place_of_a_person(given: Answer | str | bool, status: str) -> None:
    seen: list[SpendForecast] = []

    def confirm(forecast: SpendForecast) -> Answer | str | bool:
        seen.append(forecast)
        return given

    assert run_sync(team(), "go", journal="memory", confirm=confirm).status == status
    assert [one.basis for one in seen] == ["simulation"]


async def test_the_function_may_be_async_and_is_not_asked_below_the_amount() -> None:
    asked: list[SpendForecast] = []

    async def confirm(forecast: SpendForecast) -> bool:
        asked.append(forecast)
        return True

    async with Engine("memory") as engine:
        assert (await engine.run(team(Spend(usd=1)), "go", confirm=confirm)).status == "completed"
        assert asked == []
        result = await engine.run(team(), "go", confirm=confirm)
        assert [event.kind for event in await engine.journal.read(result.run_id)][1:3] == [
            "person.asked",
            "person.answered",
        ]
    assert len(asked) == 1


async def test_wrong_arguments_are_refused_before_anything_starts() -> None:
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match="confirm must be True, an amount, or a function"):
            await engine.run(team(), "go", confirm="yes")  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="euro"):
            await engine.run(team(), "go", confirm={"euro": 1})  # pyright: ignore[reportArgumentType]
        with pytest.raises(UsageError, match="returned 'perhaps'"):
            await engine.run(team(), "go", confirm=lambda _: "perhaps")
        assert await engine.runs.list() == []


def test_a_team_refuses_an_amount_of_the_wrong_type() -> None:
    with pytest.raises(UsageError, match=r"confirm\.above\.euro"):
        Team("t", members=[FunctionAgent("writer", writer)], confirm={"above": {"euro": 1}})  # pyright: ignore[reportArgumentType]


def test_the_amount_is_recorded_with_the_team_and_left_out_where_there_is_none() -> None:
    assert team(Spend(usd=1)).source.manifest.teams["t"].confirm == Confirm(above=Spend(usd=1))
    assert "above" not in str(team().source.to_json())
