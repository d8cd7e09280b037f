from __future__ import annotations

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.experts.expert_agent import default_lead
from teamwright.experts.presets import Collaborate, Live
from teamwright.strategies.protocol import Members, Settings, Strategy
from teamwright.values.specs.members import ExpertProfile


def member(name: str, profile: ExpertProfile | None = None) -> FunctionAgent:
    return FunctionAgent(name, lambda text: text, expert=profile)


EXPERTS = Members((member("a", ExpertProfile()), member("b", ExpertProfile(is_lead=True))))


def test_the_expert_that_is_a_lead_leads_and_else_the_first_member() -> None:
    assert default_lead(EXPERTS).name == "b"
    assert default_lead(Members((member("x"), member("y")))).name == "x"


@pytest.mark.parametrize("strategy", [Collaborate(), Live()], ids=lambda strategy: strategy.name)
def test_strategies_with_a_lead_agree_and_options_take_precedence(strategy: Strategy) -> None:  # A-01 A-07
    assert strategy.lead(Settings(), EXPERTS) == "b"
    assert strategy.lead(Settings(options={"lead": "a"}), EXPERTS) == "a"
