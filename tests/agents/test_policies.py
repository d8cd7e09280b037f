"""Whether a team can do without a member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted.agent import ScriptedAgent
from teamwright.errors import UsageError
from teamwright.teams.team import Team
from tests.agents.sample_functions import shout

KINDS: dict[str, Callable[..., Any]] = {
    "model": lambda **more: ModelAgent("a", model="local", **more),
    "function": lambda **more: FunctionAgent("a", shout, **more),
    "scripted": lambda **more: ScriptedAgent("a", [], **more),
    "team": lambda **more: Team("a", members=[FunctionAgent("b", shout)], **more),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("standing", ["optional", "critical"])
def test_every_agent_knows_and_declares_it(kind: str, standing: str) -> None:
    plain, marked = KINDS[kind](), KINDS[kind](**{standing: True})
    assert (plain.optional, plain.critical) == (False, False)
    assert getattr(marked, standing)
    assert getattr(marked.spec, standing)
    assert marked.spec != plain.spec


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_is_both(kind: str) -> None:
    with pytest.raises(UsageError, match=r"'a' is optional and critical: .* keep one"):
        KINDS[kind](optional=True, critical=True)
