"""Policies: settings of an agent, given one by one or together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from teamwright.agents.agent import UNSET, Policy
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import ScriptedAgent
from teamwright.agents.settings import policy_from_spec
from teamwright.errors import UsageError
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.people import Confirm
from teamwright.values.retries import DEFAULT_RETRY, RetryPolicy
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
    assert (plain.policy.optional, plain.policy.critical) == (False, False)
    assert getattr(marked.policy, standing)
    assert getattr(marked.spec, standing)
    assert marked.spec != plain.spec


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_cannot_be_both_optional_and_critical(kind: str) -> None:
    with pytest.raises(UsageError, match=r"'a' is optional and critical: .* keep one"):
        KINDS[kind](optional=True, critical=True)


@pytest.mark.parametrize("kind", ["model", "function", "scripted"])
def test_the_settings_of_an_agent_are_its_policy(kind: str) -> None:
    settings: dict[str, Any] = {
        "limits": Limits(calls=3),
        "confirm": Confirm(after=True),
        "retry": RetryPolicy(times=1),
        "too_long": "fail",
        "max_bytes": 5000,
        "critical": True,
        "fallback": FunctionAgent("b", shout),
    }
    agent = KINDS[kind](**settings)
    assert agent.policy == Policy(**settings, one_call=kind == "function")


@pytest.mark.parametrize("kind", ["model", "function", "scripted"])
def test_a_misspelt_setting_is_an_error_that_names_the_right_one(kind: str) -> None:
    with pytest.raises(UsageError, match=r"'a' takes no 'limit': did you mean 'limits'\?"):
        KINDS[kind](limit=Limits(calls=3))
    with pytest.raises(UsageError, match="'a' takes no 'colour': agents have no such setting"):
        KINDS[kind](colour="red")


@pytest.mark.parametrize("kind", ["model", "function", "scripted"])
def test_a_policy_comes_back_from_the_declaration(kind: str) -> None:
    agent = KINDS[kind](limits=Limits(calls=3), optional=True, max_bytes=5000, retry=RetryPolicy(times=1))
    again = policy_from_spec("a", agent.spec, one_call=kind == "function")
    assert again == agent.policy


@pytest.mark.parametrize("kind", ["model", "function", "scripted"])
def test_a_setting_that_is_false_or_none_is_the_default(kind: str) -> None:
    agent = KINDS[kind](optional=False, limits=None, retry=None, fallback=None)
    assert (agent.policy.optional, agent.policy.retry) == (False, DEFAULT_RETRY)
    assert agent.policy is KINDS[kind]().policy


def test_a_priority_and_can_terminate_are_part_of_the_policy() -> None:
    assert ModelAgent("a", model="local", priority=3).policy.priority == 3
    assert ModelAgent("a", model="local", priority=0).policy is UNSET
    assert ModelAgent("a", model="local", priority=None).policy is UNSET
    assert FunctionAgent("a", shout, can_terminate=True).policy.can_terminate
    assert not FunctionAgent("a", shout, can_terminate=False).policy.can_terminate


def test_a_policy_is_changed_only_to_what_fits() -> None:
    with pytest.raises(UsageError, match=r"limts.*did you mean 'limits'"):
        Policy().changed(limts=Limits(calls=1))
    with pytest.raises(UsageError, match="limits"):
        Policy().changed(limits=3)
    assert Policy(critical=True).changed(priority=2) == Policy(critical=True, priority=2)


def test_a_policy_cannot_be_both_optional_and_critical() -> None:
    with pytest.raises(UsageError, match=r"The policy is optional and critical: .* keep one"):
        Policy(optional=True, critical=True)
    with pytest.raises(UsageError, match=r"The policy is optional and critical: .* keep one"):
        Policy(optional=True).changed(critical=True)


@pytest.mark.parametrize("kind", ["model", "function", "scripted"])
def test_settings_are_given_one_by_one(kind: str) -> None:
    with pytest.raises(UsageError, match="'a' takes no 'policy'"):
        KINDS[kind](policy=Policy(optional=True))


def test_a_changed_policy_leaves_the_one_before_it_alone() -> None:
    agent = FunctionAgent("a", shout)
    before = agent.policy
    agent.policy = before.changed(limits=Limits(calls=1))
    assert (before.limits, agent.policy.limits) == (None, Limits(calls=1))


def test_agents_that_set_nothing_share_their_policy() -> None:
    assert FunctionAgent("a", shout).policy is FunctionAgent("b", shout).policy
    assert ModelAgent("a", model="local").policy is UNSET


def test_what_does_not_fit_a_policy_is_reported_with_the_name_of_the_agent() -> None:
    with pytest.raises(UsageError, match="The agent 'a': limits: expects a mapping"):
        FunctionAgent("a", shout, limits=cast("Limits", 5))
