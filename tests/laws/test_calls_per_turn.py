"""What a turn takes besides the member's own work is counted in calls of Python functions, not measured by the clock.

A feature costs those who use it. A change that needs another call in every turn raises the number here, and says why.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import pytest

import teamwright
from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.runtime import recorder

PACKAGE = str(Path(teamwright.__file__).parent)
MOST_CALLS = 86
"""Calls inside the package for one turn of a function in a chain, and its share of starting the run."""


def _says(text: str) -> Callable[[Turn], Awaitable[str]]:
    async def answer(turn: Turn) -> str:
        return text

    return answer


async def _calls(engine: Engine, members: int) -> int:
    """Run a chain of members; returns how often functions of the package were called or resumed."""
    team = Team("chain", members=[FunctionAgent(f"m-{number}", _says(f"text {number}")) for number in range(members)])
    found = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    earlier = sys.getprofile()
    sys.setprofile(count)
    try:
        await engine.run(team, "task")
    finally:
        sys.setprofile(earlier)
    return found


async def test_a_turn_makes_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "YIELD_EVERY", math.inf)  # how often a run yields depends on the machine
    async with Engine(journal="memory") as engine:
        await engine.run(FunctionAgent("first", _says("loads what every run needs")), "task")
        few, many = await _calls(engine, 50), await _calls(engine, 250)
    assert (many - few) / 200 <= MOST_CALLS
