"""The tables on the page about expert teams are those of the code."""

from __future__ import annotations

from typing import get_args

import pytest

from teamwright.strategies.plan.steps.step_work import STATES
from teamwright.values.events.team import LifeState
from teamwright.values.specs.plan import PlanStatus, StepStatus
from tools.plan_tables import PAGE, presets, tables, with_tables

pytestmark = pytest.mark.experts


def test_the_page_has_the_tables_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page, tables()) == page, "write them again with  make tables"


def test_every_preset_is_in_the_table_and_every_setting_has_words() -> None:
    made = tables()
    head = made["presets"].splitlines()[0]
    assert all(f"`{name}`" in head for name in presets())
    assert "| None |" not in "".join(made.values())


def test_the_table_of_states_has_every_state_of_steps_plans_and_teams() -> None:  # K-01, A-03, A-10
    section = PAGE.read_text(encoding="utf-8").partition("\n## States\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    kinds = (STATES, get_args(StepStatus), get_args(PlanStatus), get_args(LifeState))
    for column, states in enumerate(kinds):
        cells = " ".join(row[column] for row in rows)
        assert not [state for state in states if f"`{state}`" not in cells]
