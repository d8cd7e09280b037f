"""The contract of strategies: its defaults, and what is refused."""

from __future__ import annotations

from re import escape
from typing import cast

import pytest

from teamwright import Context, FunctionAgent, Strategy, Team, run_sync
from teamwright.errors import UsageError
from teamwright.strategies import Members, Outcome, Settings, Task, TeamConversation
from teamwright.strategies.protocol import require_strategy
from teamwright.strategies.registry import BUILT_IN_STRATEGIES, find_strategy
from teamwright.values.specs.members import Share


class Bare(Strategy):
    """A strategy that has nothing but what a team can't do without."""

    name, version = "bare", 1

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        talk.receive(await ctx.ask(members[0], talk.turn(1), key="only"))
        return talk.ended("done")


def team(strategy: object) -> Team:
    return Team("t", members=[FunctionAgent("a", lambda turn: "fine")], strategy=cast("Strategy", strategy))


def with_attributes(**attributes: object) -> Strategy:
    strategy = Bare()
    vars(strategy).update(attributes)
    return strategy


def test_what_a_strategy_leaves_out_has_the_default_of_the_contract() -> None:
    strategy = Bare()
    one = team(strategy)
    members = Members(one.members)
    assert one.strategy is cast("object", strategy)
    assert (strategy.options, tuple(strategy.unused), strategy.share) == (None, (), "transcript")
    assert (strategy.peers, strategy.lead(one.settings, members)) == (False, None)
    assert (strategy.expected_asks(one.settings, members), strategy.problems(one.settings, members)) == ({}, ())
    assert [node.agent for node in strategy.diagram(one.settings, members).nodes] == ["a"]
    assert run_sync(one, "x", journal="memory").output == "fine"


@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
def test_our_own_strategies_inherit_the_contract(name: str) -> None:
    assert Strategy in type(find_strategy(name)).__mro__


def test_a_value_that_is_no_strategy_is_refused_with_what_it_lacks() -> None:
    class Foreign:
        name, version = "x", 1

        async def run(self, task: Task, members: Members, ctx: Context) -> Outcome: ...

    with pytest.raises(UsageError, match=r"^An object of the class 'Foreign' is not a strategy: .* inherits Strategy"):
        team(Foreign())
    with pytest.raises(UsageError, match=r"is a class; pass an instance: {2}strategy=Bare\(\)"):
        team(Bare)


def test_a_strategy_needs_its_own_run_a_name_and_a_version() -> None:
    class Misnamed(Strategy):
        name, version = "x", 1

        async def runs(self, task: Task, members: Members, ctx: Context) -> Outcome:
            return TeamConversation(task).ended("done")

    class Unversioned(Strategy):
        name = "x"

        async def run(self, task: Task, members: Members, ctx: Context) -> Outcome: ...

    with pytest.raises(TypeError, match="run"):
        Misnamed()  # pyright: ignore[reportAbstractUsage] - as without a type checker
    with pytest.raises(UsageError, match="An object of the class 'Unversioned' has no version; set it in the class"):
        team(Unversioned())


@pytest.mark.parametrize(
    ("name", "value"),
    [("options", {}), ("share", "all"), ("interventions", "say"), ("interventions", ("shout",))],
)
def test_an_attribute_of_the_wrong_type_is_an_error_where_the_team_is_made(name: str, value: object) -> None:
    with pytest.raises(
        UsageError, match=f"The strategy 'bare' has {name}={escape(repr(value))}; '{name}' of a strategy must be "
    ):
        team(with_attributes(**{name: value}))


def test_attributes_of_the_right_type_and_properties_are_accepted() -> None:
    class Computed(Bare):
        @property
        def peers(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
            return True

        def lead(self, settings: Settings, members: Members) -> str:
            return members[0].name

    team(Computed())
    team(with_attributes(options=None, unused=["max_turns"], share="output", peers=True))


def test_the_class_itself_cannot_be_instantiated() -> None:
    with pytest.raises(UsageError, match=r"Strategy is abstract and can't be instantiated: .* inherits Strategy"):
        cast("type[Bare]", Strategy)()


@pytest.mark.parametrize("share", ["transcript", "a2a_lite"])
def test_a_run_that_returns_no_outcome_fails_with_the_name_of_the_strategy(share: Share) -> None:
    class Forgetful(Strategy):
        name, version = "forgetful", 1

        async def run(self, task: Task, members: Members, ctx: Context) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    one = Team("t", members=[FunctionAgent("a", lambda turn: "x")], strategy=cast("Strategy", Forgetful()), share=share)
    result = run_sync(one, "x", journal="memory")
    assert result.status == "failed"
    assert "strategy 'forgetful' returned a value of type 'NoneType'; it must return an Outcome" in str(result.failure)


def test_a_strategy_of_another_package_is_held_against_the_contract() -> None:
    assert require_strategy(find_strategy("sequential")).name == "sequential"
