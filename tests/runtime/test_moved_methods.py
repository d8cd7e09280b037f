"""Methods that have moved from the engine to `engine.runs`: they work for one version, with a warning."""

from __future__ import annotations

import inspect

import pytest

from teamwright import Engine
from teamwright.runtime.runs import Runs
from tests.kit.members import FakeMembers

MOVED = ("answer", "answers", "cancel", "checkpoint", "checkpoints", "follow", "history", "pause", "result")


@pytest.mark.parametrize("name", MOVED)
async def test_the_former_method_warns_and_is_the_new_one(name: str) -> None:
    async with Engine("memory") as engine:
        with pytest.warns(
            DeprecationWarning, match=rf"engine\.{name}\(\) has moved: use engine\.runs\.{name}\(\)"
        ) as seen:
            method = getattr(engine, name)
        assert seen[0].filename == __file__
        assert (method.func, method.args) == (getattr(Runs, name), (engine.runs,))
        assert getattr(Engine, name) is getattr(Runs, name)


async def test_the_former_methods_still_read_a_run() -> None:
    async with Engine("memory") as engine:
        result = await engine.run(FakeMembers().chain(1), "go", run_id="r")
        with pytest.warns(DeprecationWarning, match=r"engine\.result\(\) has moved"):
            assert await engine.result("r") == result
        with pytest.warns(DeprecationWarning, match=r"engine\.runs\(\) is now engine\.runs\.list\(\)") as seen:
            assert [run.run_id for run in await engine.runs()] == ["r"]
        assert seen[0].filename == __file__


def test_neither_class_has_more_than_fifteen_methods() -> None:
    for one in (Engine, Runs):
        methods = [name for name, value in vars(one).items() if inspect.isfunction(value) and not name.startswith("_")]
        assert len(methods) <= 15, methods
