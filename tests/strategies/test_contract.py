"""The optional parts of a strategy, and its misspelt attributes."""

from __future__ import annotations

from typing import cast

import pytest

from teamwright import Context, FunctionAgent, Strategy, Team, run_sync
from teamwright.errors import UsageError
from teamwright.strategies import Members, NoOptions, Outcome, Settings, Talk, Task, find_strategy
from teamwright.strategies.contract import (
    OPTIONAL,
    lead_of,
    options_of,
    outlook_of,
    peers_of,
    problems_of,
    require_strategy,
    share_of,
    sketch_of,
    unused_of,
)
from teamwright.strategies.protocol import StrategyLike
from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from teamwright.values.specs.manifest import Share


class Bare:
    """A strategy that has nothing but what a team can't do without."""

    name, version = "bare", 1

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = Talk(task)
        talk.receive(await ctx.ask(members[0], talk.turn(1), key="only"))
        return talk.ended("done")


class Inheriting(Bare, Strategy):
    """A strategy that inherits the contract."""


def team(strategy: object) -> Team:
    return Team("t", members=[FunctionAgent("a", lambda turn: "fine")], strategy=cast("StrategyLike", strategy))


def with_attributes(**attributes: object) -> StrategyLike:
    strategy = Bare()
    vars(strategy).update(attributes)
    return strategy


@pytest.mark.parametrize("make", [Bare, Inheriting])
def test_what_a_strategy_leaves_out_has_the_default_of_the_contract(make: type[Bare]) -> None:
    strategy = make()
    one = team(strategy)
    members = Members(one.members)
    assert one.strategy is cast("object", strategy)
    assert (options_of(strategy), tuple(unused_of(strategy)), share_of(strategy)) == (None, (), "transcript")
    assert (peers_of(strategy), lead_of(strategy, one.settings, members)) == (False, None)
    assert (outlook_of(strategy, one.settings, members), problems_of(strategy, one.settings, members)) == ({}, ())
    assert [node.agent for node in sketch_of(strategy, one.settings, members).nodes] == ["a"]
    assert run_sync(one, "x", journal="memory").output == "fine"


@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
def test_our_own_strategies_inherit_the_contract(name: str) -> None:
    assert Strategy in type(find_strategy(name)).__mro__
    assert all(hasattr(find_strategy(name), one) for one in OPTIONAL)


def lead(settings: Settings, members: Members) -> str:
    return members[0].name


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("option", NoOptions, "options"),
        ("unusd", ("max_turns",), "unused"),
        ("shared", "a2a_lite", "share"),
        ("peer", True, "peers"),
        ("problem", lead, "problems"),
        ("leads", lead, "lead"),
        ("skech", lead, "sketch"),
        ("outlok", lead, "outlook"),
    ],
)
def test_a_misspelt_attribute_is_an_error_where_the_team_is_made(name: str, value: object, meant: str) -> None:
    with pytest.raises(UsageError, match=f"The strategy 'bare' has '{name}', .* did you mean '{meant}'"):
        team(with_attributes(**{name: value}))


def test_other_attributes_of_a_class_are_accepted() -> None:
    team(with_attributes(option="fast", shared={}, peer="a", problem=lambda step: step, leads=["a"], versions=(1,)))


def test_a_value_that_is_no_strategy_is_refused_with_what_it_lacks() -> None:
    class Unversioned:
        name = "x"

        async def runs(self, task: Task, members: Members, ctx: Context) -> Outcome: ...

    with pytest.raises(UsageError, match=r"is not a strategy.*'version' is missing, add it; 'run' is missing, did you"):
        team(Unversioned())
    with pytest.raises(UsageError, match=r"^An object of the class 'Unversioned' is not a strategy"):
        team(Unversioned())
    with pytest.raises(UsageError, match=r"is a class; pass an instance: {2}strategy=Bare\(\)"):
        team(Bare)


def test_a_class_that_inherits_the_contract_needs_its_own_run() -> None:
    class Misnamed(Strategy):
        name, version = "x", 1

        async def runs(self, task: Task, members: Members, ctx: Context) -> Outcome:
            return Talk(task).ended("done")

    with pytest.raises(UsageError, match=r"is not a strategy.*'run' is missing, did you mean 'runs'\?$"):
        team(Misnamed())  # pyright: ignore[reportAbstractUsage] - as without a type checker


@pytest.mark.parametrize(
    ("name", "value"),
    [("options", {}), ("unused", "max_turns"), ("share", "all"), ("peers", "yes"), ("lead", "f"), ("sketch", None)],
)
def test_an_attribute_of_the_wrong_type_is_an_error_where_the_team_is_made(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"The strategy 'bare' has {name}={value!r}; '{name}' of a strategy must be "):
        team(with_attributes(**{name: value}))


def test_attributes_of_the_right_type_and_properties_are_accepted() -> None:
    class Computed(Bare):
        @property
        def peers(self) -> bool:
            return True

        def lead(self, _: Settings, members: Members) -> str:
            return members[0].name

    team(Computed())
    team(with_attributes(options=None, unused=["max_turns"], share="output", peers=True))


def test_the_protocol_itself_cannot_be_instantiated() -> None:
    with pytest.raises(UsageError, match=r"Strategy is a protocol and can't be instantiated: .* inherits Strategy"):
        cast("type[Inheriting]", Strategy)()


@pytest.mark.parametrize("share", ["transcript", "a2a_lite"])
def test_a_run_that_returns_no_outcome_fails_with_the_name_of_the_strategy(share: Share) -> None:
    class Forgetful:
        name, version = "forgetful", 1

        async def run(self, task: Task, members: Members, ctx: Context) -> None: ...

    one = Team(
        "t", members=[FunctionAgent("a", lambda turn: "x")], strategy=cast("StrategyLike", Forgetful()), share=share
    )
    result = run_sync(one, "x", journal="memory")
    assert result.status == "failed"
    assert "strategy 'forgetful' returned a value of type 'NoneType'; it must return an Outcome" in str(result.failure)


def test_a_strategy_of_another_package_is_held_against_the_contract() -> None:
    assert require_strategy(find_strategy("sequential")).name == "sequential"
