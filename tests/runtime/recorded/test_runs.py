"""`engine.runs` with ids and arguments that do not fit: the same errors on every journal."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from teamwright import Engine
from teamwright.errors import RunIsLive, RunNotFound, UsageError
from teamwright.runtime.recorded.runs import Runs
from tests.kit.members import FakeMembers


@pytest.fixture(params=["memory", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Engine]:
    async with Engine("memory" if request.param == "memory" else tmp_path / "j.db") as engine:
        await engine.run(FakeMembers().chain(1), "go", run_id="first")
        yield engine


@pytest.mark.parametrize("after", [0, 5])
async def test_following_an_unknown_run_says_that_it_is_not_there(engine: Engine, after: int) -> None:
    with pytest.raises(RunNotFound, match="There is no run 'frist'; did you mean 'first'"):
        _ = [item async for item in engine.runs.follow("frist", after)]


async def test_following_a_run_from_its_last_event_yields_nothing(engine: Engine) -> None:
    last = (await engine.runs.history("first")).number
    assert [item async for item in engine.runs.follow("first", last)] == []


async def test_what_is_no_id_is_refused_in_our_words(engine: Engine) -> None:
    result: Any = await engine.runs.result("first")
    runs = engine.runs
    calls = [
        runs.find, runs.history, runs.result, runs.wait, runs.checkpoints, runs.answers, runs.pause, runs.cancel,
        runs.delete, engine.fork, engine.resume, engine.conversations.turn, engine.conversations.before,
    ]  # fmt: skip
    for call in calls:
        for wrong in (result, None, 3, ["first"]):
            with pytest.raises(UsageError, match="A run is given by its id, a text, not by a value of type"):
                await cast("Any", call)(wrong)
    with pytest.raises(UsageError, match="of type 'RunResult'; pass its run_id"):
        runs.follow(result)
    with pytest.raises(UsageError, match="A question is given by its key, a text, not by 3"):
        await runs.answer("first", cast("Any", 3), "yes")
    with pytest.raises(UsageError, match=r"not at 3\.5"):
        await engine.fork("first", at=cast("Any", 3.5))
    with pytest.raises(UsageError, match="The limit of a list of runs can't be 'x'"):
        await runs.list(cast("Any", "x"))


async def test_deleting_an_unknown_run_deletes_nothing(engine: Engine) -> None:
    with pytest.raises(RunNotFound, match="There is no run 'frist'; did you mean 'first'"):
        await engine.runs.delete("first", "frist")
    assert [run.id for run in await engine.runs.list()] == ["first"]
    assert await engine.runs.delete("first") >= 0
    with pytest.raises(RunNotFound):
        await engine.runs.delete("first")


async def test_deleting_a_run_that_is_driven_deletes_nothing(engine: Engine) -> None:
    await engine.run(FakeMembers().chain(1), "go", run_id="second")
    async with engine.journal.drive("second"):
        with pytest.raises(RunIsLive):
            await engine.runs.delete("first", "second")
    assert [run.id for run in await engine.runs.list()] == ["second", "first"]


async def test_a_negative_limit_is_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="can't be -1; pass 0 or more, or None for all runs"):
        await engine.runs.list(-1)
    assert await engine.runs.list(0) == []
    assert [run.id for run in await engine.runs.list(2)] == ["first"]


async def test_an_answer_of_another_type_is_refused_with_its_type(engine: Engine) -> None:
    with pytest.raises(UsageError, match="An answer is a text or an Answer, not a value of type 'int'"):
        await engine.runs.answer("first", "a", 5)  # type: ignore[arg-type]


def test_neither_class_has_more_than_fifteen_methods() -> None:
    for one in (Engine, Runs):
        methods = [name for name, value in vars(one).items() if inspect.isfunction(value) and not name.startswith("_")]
        assert len(methods) <= 15, methods
