"""The settings that constructors of agents take by keyword, declared and checked once for all kinds of agents.

Each of them is a field of `AgentSpec`: what Python passes and what a manifest declares are checked by the same model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    TypedDict,
    cast,
)

from msgspec import Struct
from pydantic import JsonValue, ValidationError

from teamwright.agents.agent import (
    ONE_CALL,
    UNSET,
    Agent,
    Policy,
    check_fallback,
    check_not_both,
    declared_fields,
)
from teamwright.agents.constructor_arguments import Mistakes, check_arguments
from teamwright.agents.json_schema import Schema, as_schema
from teamwright.errors import InvalidValue, UsageError
from teamwright.values.call_limits import Compact
from teamwright.values.limits import Limits
from teamwright.values.people import Confirm
from teamwright.values.retries import DEFAULT_RETRY, RetryPolicy, TooLong
from teamwright.values.specs.members import ExpertProfile
from teamwright.values.specs.models import AnyModel, CacheMode, OutputChoice
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.value import conversions

if TYPE_CHECKING:
    from teamwright.values.specs.manifest import AgentSpec


class PolicySettings(TypedDict, total=False):
    """The settings of a policy that every agent takes by keyword: `FunctionAgent(…, optional=True)`."""

    limits: Limits | None
    confirm: Confirm | None
    retry: RetryPolicy | None
    fallback: Agent | None
    evaluate: Agent | None
    expert: ExpertProfile | None
    too_long: TooLong | None
    max_bytes: int | None
    handoffs: Sequence[str] | bool
    optional: bool
    critical: bool


class AgentKeywords(PolicySettings, total=False):
    """The settings of every agent: its policy, and what selectors, registries and schemas say of it."""

    description: str
    capabilities: Sequence[str]
    input_schema: Schema | type[object] | None
    output_schema: Schema | type[object] | None
    timeout: float | None


class ModelKeywords(AgentKeywords, total=False):
    """The settings of an agent with a model besides those of every agent."""

    output_mode: OutputChoice | None
    max_requests: int | None
    cache: CacheMode
    economy: AnyModel | None
    stronger: AnyModel | None
    priority: int | None
    compact: Compact | None


SCHEMAS = frozenset(("input_schema", "output_schema"))
POLICY = PolicySettings.__optional_keys__ | {"economy", "stronger", "priority", "compact"}
"""The keywords that become fields of the policy."""


class SharedSettings(Struct, frozen=True):
    """The checked settings that agents of every kind have."""

    description: str
    capabilities: tuple[str, ...]
    input_schema: dict[str, JsonValue] | None
    output_schema: dict[str, JsonValue] | None
    timeout: float | None
    policy: Policy


def shared_settings(
    name: str,
    keywords: AgentKeywords,
    mistakes: Mistakes,
    checked: Mapping[str, object] | None = None,
    **policy: object,
) -> SharedSettings:
    """Return the settings of the agent of this name, and add every mistake to `mistakes`.

    `checked` are settings that the agent keeps itself, and that are checked with the others. `policy` are fields of the
    policy that it sets itself, `None` if it does not.
    """
    owner, collect, given = f"The agent {name!r}", mistakes.collect, cast("dict[str, object]", keywords)
    plain = {field: value for field, value in given.items() if field not in POLICY and field not in SCHEMAS}
    if plain or checked:
        from teamwright.values.specs.manifest import AgentSpec

        collect(check_arguments, owner, AgentSpec, **plain, **(checked or {}))
    before, after = keywords.get("input_schema"), keywords.get("output_schema")
    settings = {field: value for field, value in given.items() if field in POLICY and field != "priority"}
    own = collect(policy_for, owner, cast("PolicySettings", settings), priority=given.get("priority"), **policy)
    collect(_check_no_amount, owner, own or UNSET)
    return SharedSettings(
        description=keywords.get("description", ""),
        capabilities=() if mistakes else tuple(keywords.get("capabilities", ())),
        input_schema=None if before is None else collect(as_schema, before, f"the input of {name!r}"),
        output_schema=None if after is None else collect(as_schema, after, f"the output of {name!r}"),
        timeout=keywords.get("timeout"),
        policy=own or UNSET,
    )


def _check_no_amount(owner: str, policy: Policy) -> None:
    if policy.confirm is not None and policy.confirm.above is not None:
        raise UsageError(f"{owner} is not run by itself; set  above  of  confirm  on the team that is run.")


def policy_for(owner: str, settings: PolicySettings, **others: object) -> Policy:
    """Return the policy of an agent with these settings; raises `UsageError` with every mistake.

    `others` are fields of the policy that the agent sets itself, `None` if it does not.
    """
    own = {field: value for field, value in others.items() if value is not None}
    return _combined(owner, {**settings, **own})


def _combined(owner: str, settings: dict[str, object]) -> Policy:
    """Return the policy with these settings, validated; the shared one if they change nothing."""
    if "retry" in settings and settings["retry"] is None:
        settings["retry"] = DEFAULT_RETRY
    changed = {field: value for field, value in settings.items() if value is not getattr(UNSET, field)}
    if not changed:
        return UNSET
    if changed == {"one_call": True}:
        return ONE_CALL
    return _validated(owner, {**dict(UNSET), **changed})


def _validated(owner: str, settings: dict[str, object]) -> Policy:
    """Return the policy with these settings; raises `UsageError` with the owner and each invalid setting."""
    mistakes = Mistakes()
    mistakes.collect(check_fallback, f"The fallback of {owner[0].lower()}{owner[1:]}", settings["fallback"])
    mistakes.collect(check_not_both, owner, optional=settings["optional"], critical=settings["critical"])
    reported = {"fallback": None, "optional": False, "critical": False} if mistakes else {}
    made = mistakes.collect(_validated_fields, owner, {**settings, **reported})
    mistakes.raise_all()
    return made


def _validated_fields(owner: str, settings: dict[str, object]) -> Policy:
    try:
        made = Policy.model_validate(settings)
        wrong = list(conversions(made, settings))
    except ValidationError as error:
        made, wrong = UNSET, reasons_of(error, settings, Policy)
    if wrong:
        raise InvalidValue(owner, wrong)
    return made


def policy_from_spec(name: str, spec: AgentSpec, **changes: object) -> Policy:
    """Build the policy of a declaration with these changes; the caller has to build its fallback, which is an agent."""
    given = {field: value for field, value in spec if field in declared_fields()}
    if isinstance(spec.expert, ExpertProfile):
        given["expert"] = spec.expert
    return _combined(f"The agent {name!r}", {**given, **changes})
