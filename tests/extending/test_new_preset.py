"""A preset of plans, made from the facades alone: it conforms, has its defaults, and each can be changed."""

from __future__ import annotations

import json

import pytest

from teamwright import FunctionAgent, Team, Turn, run_sync
from teamwright.strategies import Settings
from teamwright.testing import StrategyConformance
from tests.docs.pages import blocks
from tests.extending.second_opinion import SecondOpinion
from tests.paths import ROOT

pytestmark = pytest.mark.experts
SOURCE = ROOT / "tests" / "extending" / "second_opinion.py"


class TestSecondOpinion(StrategyConformance):
    settings = Settings(options={"steps": [{"id": "member-2"}, {"id": "member-3", "needs": ["member-2"]}]})

    def make(self) -> SecondOpinion:
        return SecondOpinion()


def lead(turn: Turn) -> str:
    if turn.output_schema is None:
        return "Both agree: repair it."
    return json.dumps({"steps": [{"id": "look", "agent": "ana", "task": "Look at it."}]})


def practice(**options: object) -> Team:
    members = [FunctionAgent("chief", lead), *(FunctionAgent(name, lambda _: "Repair it.") for name in ("ana", "ben"))]
    return Team("practice", members=members, strategy=SecondOpinion(), options=options)  # type: ignore[arg-type]


def test_its_defaults_apply_so_the_lead_plans_and_answers() -> None:
    result = run_sync(practice(), "Is it broken?", journal="memory")
    assert (result.status, result.output) == ("completed", "Both agree: repair it.")


def test_each_default_can_be_changed() -> None:
    result = run_sync(practice(answer="ben", steps=[{"id": "ben"}]), "Is it broken?", journal="memory")
    assert (result.status, result.output) == ("completed", "Repair it.")


def test_it_is_twenty_lines() -> None:
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) <= 20


def test_the_page_shows_this_very_preset() -> None:
    page = ROOT / "docs" / "extending" / "strategies.md"
    [shown] = [block.text for block in blocks(page) if block.about == "second_opinion.py"]
    assert shown == SOURCE.read_text(encoding="utf-8")
