"""The contract of agents: its defaults, and what is refused."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import cast

import pytest

import teamwright
from teamwright import (
    Agent,
    Context,
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
from teamwright.agents import Effect, Returned
from teamwright.agents.agent import UNSET, require_agent
from teamwright.errors import ServiceError, UsageError

SOURCE = Path(teamwright.__file__).parent


class Bare(Agent):
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
    assert bare.policy == UNSET == Policy()
    assert (bare.description, tuple(bare.capabilities), bare.spec) == ("", (), None)
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
        policy = Policy(retry=RetryPolicy(times=2, backoff=0))

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


@pytest.mark.parametrize("name", ["limits", "confirm", "recovery"])
def test_what_would_set_an_agent_free_if_it_were_ignored_is_refused(name: str) -> None:  # law 3
    with pytest.raises(UsageError, match=rf"'bare' has an attribute '{name}', .* set {{2}}policy=Policy\({name}=…\)"):
        Team("t", members=[with_attributes(**{name: {"calls": 1}})])


def test_a_policy_is_a_policy() -> None:
    with pytest.raises(UsageError, match="The policy of the agent 'bare' must be a Policy, not "):
        Team("t", members=[with_attributes(policy=Limits(calls=1))])


def test_a_value_that_is_no_agent_is_refused_with_what_it_lacks() -> None:
    class Foreign:
        name, kind = "x", "own"

        async def respond(self, turn: Turn, ctx: Context) -> Reply: ...

    with pytest.raises(UsageError, match=r"is not an agent: let its class inherit Agent from teamwright.agents"):
        Team("t", members=[cast("Agent", Foreign())])
    with pytest.raises(UsageError, match="5 is neither a team nor an agent"):
        Team("t", members=[cast("Agent", 5)])
    with pytest.raises(UsageError, match=r"is a class; create an instance, for example {2}Bare\(…\)"):
        Team("t", members=[cast("Agent", Bare)])


def test_an_agent_needs_its_own_respond_a_name_and_a_kind() -> None:
    class Silent(Agent):
        name, kind = "x", "own"

    class Nameless(Agent):
        async def respond(self, turn: Turn, ctx: Context) -> Reply: ...

    with pytest.raises(TypeError, match="respond"):
        Silent()  # pyright: ignore[reportAbstractUsage] - as without a type checker
    with pytest.raises(UsageError, match="has no name and no kind; set it in the class"):
        Team("t", members=[Nameless()])
    with pytest.raises(UsageError, match="The kind of the agent 'bare' must be a text, and is 3"):
        Team("t", members=[with_attributes(kind=3)])


def test_the_class_itself_cannot_be_instantiated() -> None:
    make = cast("type[FunctionAgent]", Agent)
    with pytest.raises(UsageError, match=r"can't be instantiated: create a ModelAgent\("):
        make("openai:gpt-5-mini", lambda turn: "x")


def test_our_own_agents_inherit_the_defaults_of_the_contract() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and "respond" in {getattr(one, "name", "") for one in node.body}:
                bases = {ast.unparse(one) for one in node.bases}
                assert bases & {"Agent", "Evaluator", "ABC"}, f"{path.name}: {node.name} must inherit Agent"


def test_our_own_agents_have_the_whole_contract() -> None:
    function, script = FunctionAgent("f", lambda turn: "x"), ScriptedAgent("s", [])
    model = ModelAgent("m", model="openai:gpt-5-mini")
    for agent in (function, script, model, Team("t", members=[function])):
        assert isinstance(agent, Agent)
