"""The one place that reads what an agent may leave out, and that refuses what is no agent.

An agent that inherits `Agent` has every attribute of the contract. One that does not is never wrapped, so that a
strategy sees the object that its user made: what it lacks is read here, with the default of `Agent`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import cast, get_args
from weakref import WeakKeyDictionary

from teamwright.agents.context import AgentLike
from teamwright.agents.misspelling import Takes, is_ours, misspelt, names_outside, value_of
from teamwright.agents.policy import UNSET, Policy
from teamwright.agents.protocol import Agent
from teamwright.errors import UsageError, nearest
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.retry import Recovery, RetryPolicy, TooLong
from teamwright.values.people.approvals import Approve
from teamwright.values.specs.manifest import AgentSpec, NamedModel, ServerModel, TeamSpec

REQUIRED = ("name", "kind", "respond")


def _is(*types: type) -> Takes:
    return lambda value: isinstance(value, types)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_names(value: object) -> bool:
    return isinstance(value, tuple | list | set | frozenset) and all(isinstance(one, str) for one in value)  # pyright: ignore[reportUnknownVariableType]


OLD: Mapping[str, Takes] = {
    "limits": _is(Limits),
    "approve": _is(Approve),
    "recovery": _is(Recovery),
    "fallback": _is(AgentLike),
    "too_long": lambda value: value in get_args(TooLong),
    "optional": _is(bool),
    "critical": _is(bool),
    "can_terminate": _is(bool),
    "one_call": _is(bool),
    "priority": _is_number,
    "max_bytes": _is_number,
    "economy": _is(str, NamedModel, ServerModel),
}
"""Settings that an agent of an earlier version has as attributes of its own, and what each takes."""
NEVER_IGNORED = ("limits", "approve", "recovery")
"""Old attributes that have to fit: without them an agent would have no limits, approvals or recovery."""

KNOWN: Mapping[str, Takes] = {
    **OLD,
    "policy": _is(Policy),
    "retry": _is(RetryPolicy),
    "description": _is(str),
    "capabilities": _is_names,
    "spec": _is(AgentSpec, TeamSpec),
}

_OURS: set[type] = set()
"""Classes of this package, found by their module once: this is asked at every turn."""
_OLD_NAMES: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def policy_of(agent: AgentLike) -> Policy:
    """The policy of an agent. Attributes of its own by which an earlier version read a setting count too."""
    if type(agent) in _OURS:
        return agent.policy  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    policy: Policy = getattr(agent, "policy", UNSET)
    if is_ours(type(agent)):
        _OURS.add(type(agent))
        return policy
    old = old_settings(agent)
    return policy.changed(**old) if old else policy


def description_of(agent: AgentLike) -> str:
    """What an agent is for."""
    description: object = getattr(agent, "description", Agent.description)
    return str(description)


def capabilities_of(agent: AgentLike) -> Iterable[str]:
    """What an agent can be found by."""
    return getattr(agent, "capabilities", Agent.capabilities)


def spec_of(agent: AgentLike) -> AgentSpec | TeamSpec | None:
    """The declaration from which an agent is made again on a resume, if it has one."""
    return getattr(agent, "spec", None)


def old_settings(agent: object) -> dict[str, object]:
    """The settings that classes outside this package set on an agent itself, in place of its policy."""
    own = getattr(agent, "__dict__", {}).keys() & OLD.keys()
    found: dict[str, object] = {}
    for name in own | _old_names(type(agent)):
        value = getattr(agent, name, None)
        if value is not None and value is not False and OLD[name](value):
            found[name] = value
    return found


def _old_names(cls: type) -> frozenset[str]:
    """The old settings that a class declares outside this package."""
    if cls not in _OLD_NAMES:
        outside = [one for one in cls.__mro__ if not is_ours(one)]
        _OLD_NAMES[cls] = frozenset(name for name in OLD if any(name in vars(one) for one in outside))
    return _OLD_NAMES[cls]


def require_agent(agent: object) -> Agent:
    """The same object, if it keeps the contract; else a `UsageError` that says what is wrong.

    Checked once, where a team or a registry takes the agent. An agent of this package keeps it by its types.
    """
    if isinstance(agent, type) or not isinstance(agent, AgentLike):
        raise UsageError(_why_no_agent(agent))
    if not is_ours(type(agent)):
        _check_outside(agent)
    return cast("Agent", agent)


def _check_outside(agent: AgentLike) -> None:
    policy: object = getattr(agent, "policy", UNSET)
    if not isinstance(policy, Policy):
        raise UsageError(f"The policy of the agent {agent.name!r} must be a Policy, and is {policy!r}.")
    for name, meant in misspelt(agent, KNOWN):
        instead = meant if meant in ("policy", "description", "capabilities", "spec") else f"policy=Policy({meant}=…)"
        raise UsageError(
            f"The agent {agent.name!r} has an attribute {name!r}, which means nothing to a team; did you mean"
            f" {instead!r}? If it is something else, call it otherwise."
        )
    for name in names_outside(agent).intersection(NEVER_IGNORED):
        value = value_of(agent, name)
        if value is not None and not OLD[name](value):
            raise UsageError(f"The agent {agent.name!r} has {name}={value!r}; give it as  policy=Policy({name}=…).")
    _warn_of_old_settings(agent, policy)


def _warn_of_old_settings(agent: AgentLike, policy: Policy) -> None:
    """Say that settings belong into the policy; refuse those that are said twice and differ."""
    old = {name: value for name, value in old_settings(agent).items() if value != dict(policy)[name]}
    for name, value in old.items():
        if dict(policy)[name] != dict(UNSET)[name]:
            raise UsageError(
                f"The agent {agent.name!r} says its {name} twice: {value!r} as an attribute, and another in its policy;"
                " keep the policy."
            )
    if old:
        settings = ", ".join(f"{name}=…" for name in sorted(old))
        text = (
            f"The agent {agent.name!r} sets {', '.join(sorted(old))} as attributes of its own; the next version reads"
            f" its policy alone: policy = Policy({settings})"
        )
        warnings.warn(text, DeprecationWarning, stacklevel=5)


def _why_no_agent(agent: object) -> str:
    missing = [name for name in REQUIRED if not hasattr(agent, name)]
    if len(missing) == len(REQUIRED):
        return f"{agent!r} is neither a team nor an agent."
    if isinstance(agent, type):
        return f"{agent!r} is a class; make an agent of it, for example  {agent.__name__}(…)."
    known = [name for name in dir(agent) if not name.startswith("_")]
    hints = "; ".join(f"{name!r} is missing, {nearest(name, known, 'add it').rstrip('.')}" for name in missing)
    return f"{agent!r} is no agent, which has a name, a kind and respond(turn, ctx): {hints}."
