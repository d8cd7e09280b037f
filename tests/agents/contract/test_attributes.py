"""The optional parts of an agent, its misspelt attributes, and the settings of earlier versions."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import pytest

import teamwright
from teamwright import (
    Agent,
    Context,
    Engine,
    FunctionAgent,
    Limits,
    ModelAgent,
    Policy,
    Reply,
    RetryPolicy,
    ScriptedAgent,
    Team,
    Turn,
    run_sync,
)
from teamwright.agents import AgentRegistry, Approve, Effect, Recovery, Returned
from teamwright.agents.contract.attributes import (
    capabilities_of,
    description_of,
    policy_of,
    require_agent,
    spec_of,
)
from teamwright.agents.contract.policy import UNSET
from teamwright.errors import ServiceError, UsageError

SOURCE = Path(teamwright.__file__).parent


class Bare:
    """An agent that has nothing but what a team can't do without."""

    name, kind = "bare", "own"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return Reply.of(self.name, "fine")


class Calling(Agent):
    """An agent that inherits the contract and makes three calls a turn."""

    name, kind = "calling", "own"

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        for number in range(3):
            await ctx.effect(f"call-{number}", Effect("function", self.name, "request", _answer))
        return Reply.of(self.name, "fine")


async def _answer(attempt: object) -> Returned:
    return Returned("x")


def with_attributes(**attributes: object) -> Bare:
    agent = Bare()
    vars(agent).update(attributes)
    return agent


def test_what_an_agent_leaves_out_has_the_default_of_the_contract() -> None:
    bare = Bare()
    assert require_agent(bare) is cast("object", bare)
    assert policy_of(bare) == UNSET == Policy()
    assert (description_of(bare), tuple(capabilities_of(bare)), spec_of(bare)) == ("", (), None)
    assert run_sync(bare, "x", journal="memory").output == "fine"


def test_an_agent_that_inherits_has_the_defaults_as_attributes() -> None:
    agent = Calling()
    assert (agent.policy, agent.description, agent.capabilities, agent.spec) == (Policy(), "", (), None)
    assert isinstance(agent, Agent)
    assert run_sync(agent, "x", journal="memory").output == "fine"


def test_a_policy_bounds_the_agent_that_has_it() -> None:
    agent = Calling()
    agent.policy = Policy(limits=Limits(calls=2))
    result = run_sync(agent, "x", journal="memory")
    assert (result.status, result.stop_reason) == ("degraded", "budget")


def test_calls_without_their_own_retry_keep_to_that_of_the_policy() -> None:
    tried: list[int] = []

    class Flaky(Agent):
        name, kind = "flaky", "own"
        policy = Policy(retry=RetryPolicy(attempts=2, backoff=0))

        async def respond(self, turn: Turn, ctx: Context) -> Reply:
            await ctx.effect("call", Effect("function", self.name, "request", self._call))
            return Reply.of(self.name, "fine")

        async def _call(self, attempt: object) -> Returned:
            tried.append(1)
            if len(tried) < 3:
                raise ServiceError("not yet")
            return Returned("x")

    assert run_sync(Flaky(), "x", journal="memory").output == "fine"
    assert len(tried) == 3


def test_limits_that_an_agent_has_in_the_old_way_still_bound_it_and_warn() -> None:  # law 3
    agent = Calling()
    vars(agent)["limits"] = Limits(calls=2)
    with pytest.warns(DeprecationWarning, match=r"'calling' sets limits as attributes .* Policy\(limits=…\)") as seen:
        team = Team("t", members=[agent])
    assert seen[0].filename == __file__
    result = run_sync(team, "x", journal="memory")
    assert (result.status, result.stop_reason) == ("degraded", "budget")


async def _run_in_engine(agent: Agent) -> None:
    async with Engine("memory") as engine:
        await engine.run(agent, "x")


@pytest.mark.parametrize(
    "use",
    [
        lambda agent: run_sync(agent, "x", journal="memory"),
        lambda agent: anyio.run(_run_in_engine, agent),
        lambda agent: AgentRegistry([agent]),
        lambda agent: Team("t", members=[FunctionAgent("f", lambda turn: "x", fallback=agent)]),
    ],
    ids=["run_sync", "engine", "registry", "fallback"],
)
def test_the_warning_about_old_attributes_points_once_to_the_code_of_the_user(use: Callable[[Agent], object]) -> None:
    agent = Calling()
    vars(agent)["priority"] = 1
    with pytest.warns(DeprecationWarning, match="'calling' sets priority") as seen:
        use(agent)
    assert [one.filename for one in seen] == [__file__]


def test_limits_in_the_old_way_bound_a_class_that_inherits_nothing() -> None:  # law 3
    class Old:
        name, kind = "old", "own"
        limits = Limits(calls=1)
        priority = 1
        respond = Calling.respond

    with pytest.warns(DeprecationWarning, match="limits, priority"):
        team = Team("t", members=[Old()])
    assert policy_of(team.members[0]) == Policy(limits=Limits(calls=1), priority=1)
    assert run_sync(team, "x", journal="memory").stop_reason == "budget"


def test_an_agent_in_the_old_way_cannot_be_both_optional_and_critical() -> None:
    with pytest.raises(UsageError, match="'bare' is optional and critical"):
        Team("t", members=[with_attributes(optional=True, policy=Policy(critical=True))])


def test_a_retry_in_the_old_way_counts_and_warns() -> None:
    agent = with_attributes(retry=RetryPolicy(attempts=7))
    with pytest.warns(DeprecationWarning, match=r"'bare' sets retry as attributes .* Policy\(retry=…\)"):
        Team("t", members=[agent])
    assert policy_of(agent).retry == RetryPolicy(attempts=7)


def test_old_attributes_at_their_defaults_do_not_warn() -> None:
    agent = with_attributes(limits=None, optional=False, critical=False, fallback=None, can_terminate=False)
    assert policy_of(require_agent(agent)) == Policy()


def test_the_same_limits_in_the_old_and_the_new_way_do_not_warn() -> None:
    limits = Limits(calls=1)
    require_agent(with_attributes(limits=limits, policy=Policy(limits=limits)))


def test_different_limits_in_the_old_and_the_new_way_are_refused() -> None:
    agent = with_attributes(limits=Limits(calls=1), policy=Policy(limits=Limits(calls=2)))
    with pytest.raises(UsageError, match=r"'bare' sets limits twice: .* keep the policy"):
        Team("t", members=[agent])


@pytest.mark.parametrize("name", ["limits", "approve", "recovery"])
def test_what_would_set_an_agent_free_if_it_were_ignored_has_to_fit(name: str) -> None:
    with pytest.raises(UsageError, match=f"'bare' has {name}=.*Policy"):
        Team("t", members=[with_attributes(**{name: {"calls": 1}})])


@pytest.mark.parametrize(
    ("name", "value"),
    [("optional", "yes"), ("critical", 1), ("fallback", "other"), ("retry", 3), ("priority", "high")],
)
def test_an_old_attribute_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"'bare' has {name}={value!r}; set it as {{2}}policy=Policy\({name}=…\)"):
        Team("t", members=[with_attributes(**{name: value})])


def test_a_method_may_have_the_name_of_an_old_attribute() -> None:
    class Retrying(Bare):
        def retry(self) -> int:
            return 3

    Team("t", members=[Retrying()])


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (Limits(calls=1), "policy=Policy(limits=…)"),
        (Approve(before=True), "policy=Policy(approve=…)"),
        (Recovery(), "policy=Policy(recovery=…)"),
        (Policy(optional=True), "policy"),
    ],
)
def test_a_setting_under_any_other_name_is_refused(value: object, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        Team("t", members=[with_attributes(bounds=value)])
    assert "has an attribute 'bounds', which has no effect" in str(refused.value)
    assert f"did you mean {meant!r}?" in str(refused.value)


def test_a_setting_that_the_policy_has_too_may_have_another_name() -> None:
    limits = Limits(calls=1)
    Team("t", members=[with_attributes(bounds=limits, policy=Policy(limits=limits))])
    Team("t", members=[with_attributes(usual=Policy(optional=True), policy=Policy(critical=True))])


def test_a_policy_is_a_policy() -> None:
    with pytest.raises(UsageError, match="The policy of the agent 'bare' must be a Policy, not "):
        Team("t", members=[with_attributes(policy=Limits(calls=1))])


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("limit", Limits(calls=1), "policy=Policy(limits=…)"),
        ("limts", Limits(calls=1), "policy=Policy(limits=…)"),
        ("retries", RetryPolicy(), "policy=Policy(retry=…)"),
        ("aprove", Approve(before=True), "policy=Policy(approve=…)"),
        ("recovry", Recovery(), "policy=Policy(recovery=…)"),
        ("optionl", True, "policy=Policy(optional=…)"),
        ("critcal", True, "policy=Policy(critical=…)"),
        ("priorty", 3, "policy=Policy(priority=…)"),
        ("fallbacks", Bare(), "policy=Policy(fallback=…)"),
        ("polcy", Policy(), "policy"),
        ("policies", Policy(), "policy"),
        ("descripton", "Writes.", "description"),
        ("capabilites", ("writing",), "capabilities"),
    ],
)
def test_a_misspelt_attribute_is_an_error_where_the_team_is_made(name: str, value: object, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        Team("t", members=[with_attributes(**{name: value})])
    assert f"has an attribute {name!r}" in str(refused.value)
    assert f"did you mean {meant!r}?" in str(refused.value)


def test_a_misspelt_attribute_of_a_class_and_of_slots_is_found_too() -> None:
    class Misspelt(Calling):
        name, kind = "misspelt", "own"
        limit = Limits(calls=1)

    @dataclass(slots=True)
    class Slotted:
        name: str = "slotted"
        kind: str = "own"
        limts: Limits = field(default_factory=lambda: Limits(calls=1))

        async def respond(self, turn: Turn, ctx: Context) -> Reply:
            return Reply.of(self.name, "fine")

    for agent in (Misspelt(), Slotted()):
        with pytest.raises(UsageError, match="did you mean"):
            AgentRegistry([agent])


def test_other_attributes_of_a_class_are_accepted() -> None:
    agent = with_attributes(
        limit=10,
        retries=3,
        critic=FunctionAgent("critic", lambda turn: "no"),
        options={"a": 1},
        models=["a"],
        names=["a"],
        specs={},
        policies=["a"],
        prescription="rest",
        fallbacks=[Bare()],
        budget={"calls": 1},
        _budget=Limits(calls=1),
        response="",
        priorities={"a": 1},
        model="openai:x",
        timeout=3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Team("t", members=[agent])


def test_what_computes_a_value_is_not_computed_by_the_check() -> None:
    class Lazy(Bare):
        @property
        def limit(self) -> Limits:
            raise AssertionError("asked too early")

    Team("t", members=[Lazy()])


def test_a_value_that_is_no_agent_is_refused_with_what_it_lacks() -> None:
    class Misnamed:
        name, kind = "x", "own"

        async def respnd(self, turn: Turn, ctx: Context) -> Reply: ...

    with pytest.raises(UsageError, match=r"is not an agent.*'respond' is missing, did you mean 'respnd'\?$"):
        Team("t", members=[cast("Agent", Misnamed())])
    with pytest.raises(UsageError, match="5 is neither a team nor an agent"):
        Team("t", members=[cast("Agent", 5)])
    with pytest.raises(UsageError, match=r"is a class; create an instance, for example {2}Bare\(…\)"):
        Team("t", members=[cast("Agent", Bare)])


def test_a_class_that_inherits_the_contract_needs_its_own_respond() -> None:
    class Misnamed(Agent):
        name, kind = "x", "own"

        async def repond(self, turn: Turn, ctx: Context) -> Reply:
            return Reply.of(self.name, "fine")

    class Silent(Agent):
        name, kind = "x", "own"

    with pytest.raises(UsageError, match=r"is not an agent.*'respond' is missing, did you mean 'repond'\?$"):
        Team("t", members=[Misnamed()])  # pyright: ignore[reportAbstractUsage] - as without a type checker
    with pytest.raises(UsageError, match=r"is not an agent.*'respond' is missing, add it\.$"):
        run_sync(Silent(), "x", journal="memory")  # pyright: ignore[reportAbstractUsage] - as without a type checker
    set_later = Silent()  # pyright: ignore[reportAbstractUsage] - as without a type checker
    vars(set_later)["respond"] = Bare().respond
    assert require_agent(set_later) is set_later


def test_the_protocol_itself_cannot_be_instantiated() -> None:
    make = cast("type[FunctionAgent]", Agent)
    with pytest.raises(UsageError, match=r"can't be instantiated: create a ModelAgent\("):
        make("openai:gpt-5-mini", lambda turn: "x")


def test_our_own_agents_inherit_the_defaults_of_the_contract() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and "respond" in {getattr(one, "name", "") for one in node.body}:
                bases = {ast.unparse(one) for one in node.bases}
                assert bases & {"Agent", "PolicyAttributes", "Protocol"}, f"{path.name}: {node.name} must inherit Agent"


def test_our_own_agents_have_the_whole_contract() -> None:
    function, script = FunctionAgent("f", lambda turn: "x"), ScriptedAgent("s", [])
    model = ModelAgent("m", model="openai:gpt-5-mini")
    for agent in (function, script, model, Team("t", members=[function])):
        assert isinstance(agent, Agent)
