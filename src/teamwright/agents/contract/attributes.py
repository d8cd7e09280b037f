"""Reads the optional attributes of an agent, and rejects objects that are not agents.

An agent that inherits `Agent` has every attribute of the contract. Other agents are never wrapped, so that a strategy
sees the user's own object: their missing attributes are read here, with the defaults of `Agent`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args
from weakref import WeakKeyDictionary

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import AgentLike
from teamwright.agents.contract.policy import ONE_CALL, UNSET, Policy, check_not_both
from teamwright.agents.contract.user_attributes import (
    Accepts,
    has_own_method,
    is_name_list,
    is_package_class,
    misspelt_attributes,
    static_value,
    user_attributes,
)
from teamwright.errors import UsageError, as_sentence, nearest
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.retry import Recovery, RetryPolicy, TooLong
from teamwright.values.people.approvals import Approve
from teamwright.values.specs.manifest import AgentSpec, NamedModel, ServerModel, TeamSpec

REQUIRED = ("name", "kind", "respond")


def _instance_of(*types: type) -> Accepts:
    return lambda value: isinstance(value, types)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


DEPRECATED: Mapping[str, Accepts] = {
    "limits": _instance_of(Limits),
    "approve": _instance_of(Approve),
    "recovery": _instance_of(Recovery),
    "retry": _instance_of(RetryPolicy),
    "fallback": _instance_of(AgentLike),
    "too_long": lambda value: value in get_args(TooLong),
    "optional": _instance_of(bool),
    "critical": _instance_of(bool),
    "can_terminate": _instance_of(bool),
    "one_call": _instance_of(bool),
    "priority": _is_number,
    "max_bytes": _is_number,
    "economy": _instance_of(str, NamedModel, ServerModel),
}
"""Deprecated attributes of agents that are now fields of the policy, with a check of their values."""
NEVER_IGNORED = ("limits", "approve", "recovery")
"""Deprecated attributes that can't be methods either: ignoring them would drop limits, approvals or recovery."""

SETTING_TYPES: Mapping[type, str] = {
    Limits: "limits",
    Approve: "approve",
    Recovery: "recovery",
    Policy: "policy",
}
"""Types that are made for a policy: a value under any other name has no effect. Retries may be those of an effect."""

KNOWN: Mapping[str, Accepts] = {
    **DEPRECATED,
    "policy": _instance_of(Policy),
    "description": _instance_of(str),
    "capabilities": is_name_list,
    "spec": _instance_of(AgentSpec, TeamSpec),
}

NOT_CALLERS = ("teamwright", "anyio", "asyncio")
"""The packages between the code of a user and a check: `run_sync` starts an event loop."""

_PACKAGE_CLASSES: set[type] = set()
"""Cache of the classes of this package: `policy_of` is called at every turn."""
_DEPRECATED_NAMES: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def policy_of(agent: AgentLike) -> Policy:
    """Return the policy of an agent, including settings in deprecated attributes."""
    if type(agent) in _PACKAGE_CLASSES:
        return agent.policy  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    policy: Policy = getattr(agent, "policy", UNSET)
    if is_package_class(type(agent)):
        _PACKAGE_CLASSES.add(type(agent))
        return policy
    old = deprecated_settings(agent)
    return policy.model_copy(update=old) if old else policy  # each value was checked when it was found


def has_policy(agent: AgentLike) -> bool:
    """Whether an agent has a policy of its own, and so perhaps a fallback or an evaluator."""
    policy = policy_of(agent)
    return policy is not ONE_CALL and policy is not UNSET


def fallback_of(agent: AgentLike) -> AgentLike | None:
    """Return the agent that is asked if this one fails."""
    policy = policy_of(agent)
    return None if policy is ONE_CALL or policy is UNSET else policy.fallback


def same_name_fallbacks(agent: AgentLike) -> Sequence[AgentLike]:
    """Return the fallbacks under an agent's own name, which are other models of it and no agents of their team."""
    found = [agent]
    while (other := fallback_of(found[-1])) is not None and other.name == agent.name:
        if any(other is one for one in found):  # a cycle, which a start refuses
            break
        found.append(other)
    return found[1:]


def tool_agents_of(agent: AgentLike) -> tuple[AgentLike, ...]:
    """Return the agents among the tools of an agent."""
    return getattr(agent, "tool_agents", ())


def evaluator_of(agent: AgentLike) -> AgentLike | None:
    """Return the evaluator of an agent's work, if it has one."""
    policy = policy_of(agent)
    return None if policy is ONE_CALL or policy is UNSET else policy.evaluate


def judges_of(agent: AgentLike) -> tuple[AgentLike, ...]:
    """Return the agents that judge the work of an agent."""
    evaluator = evaluator_of(agent)
    return () if evaluator is None else getattr(evaluator, "judges", ())


def description_of(agent: AgentLike) -> str:
    """Return the description of an agent."""
    description: object = getattr(agent, "description", Agent.description)
    return str(description)


def capabilities_of(agent: AgentLike) -> Iterable[str]:
    """Return the capabilities of an agent."""
    return getattr(agent, "capabilities", Agent.capabilities)


def spec_of(agent: AgentLike) -> AgentSpec | TeamSpec | None:
    """Return the declaration from which a resume rebuilds an agent, if it has one."""
    return getattr(agent, "spec", None)


def agent_spec_of(agent: AgentLike) -> AgentSpec:
    """Return the declaration of an agent, empty if it has none."""
    spec = spec_of(agent)
    return spec if isinstance(spec, AgentSpec) else AgentSpec()


def deprecated_settings(agent: object) -> dict[str, object]:
    """Return the settings that an agent from outside this package has in deprecated attributes, not in its policy."""
    own = getattr(agent, "__dict__", {}).keys() & DEPRECATED.keys()
    found: dict[str, object] = {}
    for name in own | _deprecated_names(type(agent)):
        value = getattr(agent, name, None)
        if value is not None and value is not False and DEPRECATED[name](value):
            found[name] = value
    return found


def _deprecated_names(cls: type) -> frozenset[str]:
    """The deprecated attributes that a class or its bases outside this package define."""
    if cls not in _DEPRECATED_NAMES:
        outside = [one for one in cls.__mro__ if not is_package_class(one)]
        _DEPRECATED_NAMES[cls] = frozenset(name for name in DEPRECATED if any(name in vars(one) for one in outside))
    return _DEPRECATED_NAMES[cls]


def require_agent(agent: object) -> Agent:
    """Return the object if it fulfils the agent contract; raises `UsageError` with the reason if not.

    Called once, when an agent is added to a team or a registry. For agents of this package, the type checker suffices.
    """
    if type(agent) in _PACKAGE_CLASSES:  # checked before; a check against a protocol is slow
        return cast("Agent", agent)
    one = require_agent_like(agent)
    if not is_package_class(type(one)):
        _check_outside(one)
    return cast("Agent", one)


def require_agent_like(agent: object) -> AgentLike:
    """Return the object if it has the required attributes of an agent; does not check the optional ones."""
    if isinstance(agent, type) or not isinstance(agent, AgentLike):
        missing = [name for name in REQUIRED if not hasattr(agent, name)]
        raise UsageError(_not_an_agent(agent, missing))
    if not is_package_class(type(agent)) and not has_own_method(agent, "respond"):
        raise UsageError(_not_an_agent(agent, ("respond",)))
    if not isinstance(agent.kind, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without types
        raise UsageError(f"The kind of the agent {agent.name!r} must be a text, and is {agent.kind!r:.100}.")
    return agent


def _check_outside(agent: AgentLike) -> None:
    policy: object = getattr(agent, "policy", UNSET)
    if not isinstance(policy, Policy):
        raise UsageError(f"The policy of the agent {agent.name!r} must be a Policy, not {policy!r}.")
    for name, meant in misspelt_attributes(agent, KNOWN):
        instead = meant if meant in ("policy", "description", "capabilities", "spec") else f"policy=Policy({meant}=…)"
        raise UsageError(
            f"The agent {agent.name!r} has an attribute {name!r}, which has no effect; did you mean {instead!r}?"
            " If it is something else, rename it."
        )
    _check_values(agent)
    _warn_of_deprecated_settings(agent, policy)


def _check_values(agent: AgentLike) -> None:
    """Raise `UsageError` for a deprecated attribute of the wrong type, and for a setting under another name."""
    policy = policy_of(agent)
    for name in sorted(user_attributes(agent) - {"policy"}):
        value = static_value(agent, name)
        if name in DEPRECATED:
            is_method = inspect.isroutine(value) and name not in NEVER_IGNORED
            if value is not None and not is_method and not DEPRECATED[name](value):
                raise UsageError(f"The agent {agent.name!r} has {name}={value!r}; set it as  policy=Policy({name}=…).")
        elif (field := SETTING_TYPES.get(type(value))) and not _sets(policy, field):
            instead = "policy" if field == "policy" else f"policy=Policy({field}=…)"
            raise UsageError(
                f"The agent {agent.name!r} has an attribute {name!r}, which has no effect; did you mean {instead!r}?"
                " If only your own code reads it, begin its name with an underscore."
            )


def _sets(policy: Policy, field: str) -> bool:
    """Whether a policy sets this field, or for the field `policy`, anything."""
    return policy != UNSET if field == "policy" else getattr(policy, field) != getattr(UNSET, field)


def _warn_of_deprecated_settings(agent: AgentLike, policy: Policy) -> None:
    """Warn about settings in deprecated attributes; raises `UsageError` if the policy has another value."""
    together = policy_of(agent)
    check_not_both(repr(agent.name), optional=together.optional, critical=together.critical)
    old = {name: value for name, value in deprecated_settings(agent).items() if value != dict(policy)[name]}
    for name, value in old.items():
        if dict(policy)[name] != dict(UNSET)[name]:
            raise UsageError(
                f"The agent {agent.name!r} sets {name} twice: {value!r} as an attribute, and another value in its"
                " policy; keep the policy."
            )
    if old:
        settings = ", ".join(f"{name}=…" for name in sorted(old))
        text = (
            f"The agent {agent.name!r} sets {', '.join(sorted(old))} as attributes of its own; the next version reads"
            f" only its policy: policy = Policy({settings})"
        )
        warnings.warn(text, DeprecationWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the `stacklevel` of the code that uses this package: Python shows deprecations only where they are due."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in NOT_CALLERS:
        frame, level = frame.f_back, level + 1
    return level


def _not_an_agent(agent: object, missing: Sequence[str]) -> str:
    if len(missing) == len(REQUIRED):
        return f"{agent!r} is neither a team nor an agent."
    if isinstance(agent, type):
        return f"{agent!r} is a class; create an instance, for example  {agent.__name__}(…)."
    known = user_attributes(agent)
    hints = "; ".join(f"{name!r} is missing, {nearest(name, known, 'add it').rstrip('.')}" for name in missing)
    return as_sentence(f"{agent!r} is not an agent, which needs a name, a kind and respond(turn, ctx): {hints}")
