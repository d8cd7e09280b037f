"""The policy of an agent: limits, approvals, retries, fallback and the other optional settings.

The engine reads a policy and never changes it. It reads no other optional attribute of an agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Self, TypedDict

from pydantic import ConfigDict, Field, SkipValidation, ValidationError, model_validator

from teamwright.agents.contract.arguments import Mistakes
from teamwright.errors import InvalidValue, UsageError
from teamwright.values.call_limits import DEFAULT_RETRY, MAX_BYTES, Recovery, RetryPolicy, TooLong
from teamwright.values.limits import Limits
from teamwright.values.models import conversions
from teamwright.values.people import Approve
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.expert import ExpertProfile
from teamwright.values.specs.manifest import AgentSettings, AgentSpec, FallbackModel
from teamwright.values.text.validation_messages import reasons_of

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent
else:
    Agent = object  # an agent has a policy, so its module needs this one


class Policy(AgentSettings):
    """How the engine treats an agent: limits, approvals, retries, fallback and more. Every field has a default."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    fallback: SkipValidation[Agent | None] = Field(default=None, description="the agent that is asked instead")
    evaluate: SkipValidation[Agent | None] = Field(
        default=None, description="the evaluator whose verdict decides whether its work counts"
    )
    expert: ExpertProfile | None = Field(default=None, description="who it is in a team of experts")
    recovery: Recovery | None = Field(default=None, description="of a team: how failures of its members are handled")
    can_terminate: bool = Field(default=False, description="whether it may end its team")
    one_call: bool = Field(default=False, description="whether each of its turns is one effect and nothing else")

    @property
    def reply_bytes(self) -> int:
        """The size cap of a reply."""
        return self.max_bytes or MAX_BYTES

    @model_validator(mode="after")
    def _fallback_is_an_agent(self) -> Self:
        _check_fallback("The fallback", self.fallback)
        return self

    @model_validator(mode="after")
    def _evaluate_is_an_evaluator(self) -> Self:
        if self.evaluate is not None:
            declaration_of(self.evaluate)
        return self

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        check_not_both("The policy", optional=self.optional, critical=self.critical)
        return self

    def changed(self, **settings: object) -> Self:
        """Return a copy with these fields replaced, validated; raises `UsageError`."""
        return type(self)(**{**dict(self), **settings})  # pyright: ignore[reportArgumentType]

    def declared(self, name: str) -> dict[str, object]:
        """Return the fields of an `AgentSpec` that differ from their defaults, for the agent of this name."""
        if self is UNSET or self is ONE_CALL:
            return {}
        given = {
            field: value
            for field, value in self
            if field in _declared_fields() and value and value is not DEFAULT_RETRY
        }
        if self.fallback is not None and (fallback := fallback_spec(name, self.fallback)) is not None:
            given["fallback"] = fallback
        if self.evaluate is not None:
            given["evaluate"] = declaration_of(self.evaluate)
        if self.expert is not None:
            given["expert"] = self.expert
        return given


@cache
def _declared_fields() -> frozenset[str]:
    """The fields that a policy has in common with the declaration of an agent."""
    return frozenset(AgentSettings.model_fields)


UNSET = Policy.model_construct(retry=DEFAULT_RETRY)
"""The policy of an agent that sets nothing."""
ONE_CALL = UNSET.model_copy(update={"one_call": True})
"""The policy of a function that sets nothing, shared by all of them: a team may have thousands."""


class PolicySettings(TypedDict, total=False):
    """The settings of a policy that every agent takes by keyword: `FunctionAgent(…, optional=True)`."""

    limits: Limits | None
    approve: Approve | None
    retry: RetryPolicy | None
    fallback: Agent | None
    evaluate: Agent | None
    expert: ExpertProfile | None
    too_long: TooLong | None
    max_bytes: int | None
    handoffs: Sequence[str] | bool
    optional: bool
    critical: bool


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
    mistakes.collect(_check_fallback, f"The fallback of {owner[0].lower()}{owner[1:]}", settings["fallback"])
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
    given = {field: value for field, value in spec if field in _declared_fields()}
    if isinstance(spec.expert, ExpertProfile):
        given["expert"] = spec.expert
    return _combined(f"The agent {name!r}", {**given, **changes})


def check_not_both(who: str, *, optional: object, critical: object) -> None:
    """Reject a member that is both optional and critical."""
    if optional and critical:
        raise UsageError(
            f"{who} is optional and critical: a failure can't be both skipped and a reason to pause; keep one."
        )


def _check_fallback(who: str, fallback: object) -> None:
    """Reject a fallback that is not an agent."""
    if fallback is None:
        return
    from teamwright.agents.contract.agent import require_agent  # which needs this module

    try:
        require_agent(fallback)
    except UsageError as error:
        raise UsageError(f"{who} can't be used. {error}") from error


def fallback_spec(name: str, fallback: Agent) -> str | FallbackModel | None:
    """Return a fallback as a declaration: the name of another agent, or the other model of the same agent."""
    from teamwright.agents.contract.agent import agent_spec_of

    if fallback.name != name:
        return fallback.name
    model = agent_spec_of(fallback).model
    return FallbackModel(model=model) if model is not None else None


def declaration_of(evaluator: Agent) -> Evaluate:
    """Return the declaration of an evaluator; raises `UsageError` if it has none."""
    declared: object = getattr(evaluator, "declaration", None)
    if not isinstance(declared, Evaluate):
        raise UsageError(f"evaluate must be an evaluator such as Rubric(Evaluate(…)), not {evaluator!r:.100}.")
    return declared
