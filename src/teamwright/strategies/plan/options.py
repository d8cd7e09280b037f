"""The settings of teams that work through a plan. Each answers one question, and any goes with any other.

A preset changes defaults and nothing else: what a team can do does not depend on the name of its strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, cast

from pydantic import ConfigDict, Field, JsonValue, create_model, model_validator
from pydantic.json_schema import SkipJsonSchema

from teamwright.agents.agent import Agent
from teamwright.errors import UsageError, nearest
from teamwright.strategies.part_results import FailurePolicy, OnFailure, PlacedParts
from teamwright.strategies.plan.schedule import Schedule
from teamwright.strategies.plan.schedule_maker import PlannerSettings, make_schedule
from teamwright.strategies.protocol import Members
from teamwright.values.specs.evaluation import Evaluate, Risk
from teamwright.values.specs.manifest import AgentName
from teamwright.values.specs.plan import Plan, Role, RoleName, Roster, Step
from teamwright.values.specs.tools import MemberName
from teamwright.values.value import Value

Talk = Literal["none", "lead", "all"]
Handout = Literal["none", "step", "batch"]
Sight = Literal["needs", "all"]
Decision = Literal["ahead", "stepwise"]
Pool = bool | Literal["first"] | tuple[MemberName, ...]

LEAD, DECISION = "lead", "decision"
"""The values of `answer` that let the lead give the answer, or decide between what was proposed."""
ANSWER = "answer"
"""The id of the last step, in which the lead gives the answer."""
INSTEAD = {
    "planner": "write  lead",
    "manager": "write  lead",
    "plan": "write  steps",
    "tasks": "write  steps",
    "phases": "write  steps",
    "confirm_plan": "write  confirm",
    "judge": "write  evaluate: {judge: …}",
    "criteria": "write  evaluate: {criteria: […]}",
    "retry": "write  on_failure: [retry]",
    "fallback": "write  on_failure: [finish]",
    "on_error": "write  on_failure",
    "replans": "write  on_failure: [replan]",
    "max_replans": "write  on_failure: [replan]",
    "max_phases": "write  max_steps",
    "max_revisions": "write  revisions",
}
"""What to write for words that users may expect."""
RungName = Literal[
    "retry", "other_member", "adjust", "upgrade_model", "downgrade_model", "replan", "skip_step", "finish"
]
RUNGS: dict[RungName, str] = {
    "retry": "the step is tried again",
    "other_member": "another member tries it, if one can",
    "adjust": "the lead may change the step, and it is tried again",
    "upgrade_model": "it is tried with the member's `stronger` model, if it has one",
    "downgrade_model": "it is tried with the member's `economy` model, if it has one",
    "replan": "the lead plans again, as often in a run as the word is there",
    "skip_step": "the team continues without the step, with a warning",
    "finish": "the lead finishes the task alone, with everything that was learnt; `{finish: NAME}`: another agent does",
}
"""What each rung of a failure ladder does, in their order. The first three can be mixed, and repeated."""
ATTEMPTS = ("retry", "other_member", "adjust")
REPEATED = (*ATTEMPTS, "replan")
MOST_RUNGS = 50


class FinishedBy(Value):
    """The last rung of a ladder, with the agent that finishes the task."""

    finish: AgentName = Field(description="the agent that finishes the task alone, with everything that was learnt")


Rung = RungName | FinishedBy


def _rung_name(rung: Rung) -> RungName:
    return "finish" if isinstance(rung, FinishedBy) else rung


def _check_rungs(rungs: tuple[Rung, ...]) -> None:
    """Refuse rungs in another order than they can be tried, and some that are there twice."""
    names = [_rung_name(one) for one in rungs]
    for name in RUNGS:
        if names.count(name) > 1 and name not in REPEATED:
            raise ValueError(f"on_failure has {name!r} twice, and it is tried once")
    known = list[str](RUNGS)
    places = [max(known.index(name), len(ATTEMPTS) - 1) for name in names]
    if places != sorted(places):
        order = [name for _, name in sorted(zip(places, names, strict=True), key=lambda pair: pair[0])]
        raise ValueError(f"on_failure is tried in this order: write  [{', '.join(order)}]")


Rungs = Annotated[tuple[Rung, ...], Field(min_length=1, max_length=MOST_RUNGS)]


@dataclass(frozen=True, slots=True)
class FailureLadder:
    """What happens, rung by rung, when a member fails; what no rung settles fails the team."""

    attempts: tuple[RungName, ...] = ()
    upgrade_model: bool = False
    downgrade_model: bool = False
    replans: int = 0
    skip_step: bool = False
    finish: bool | str = False

    @classmethod
    def of(cls, rungs: Sequence[Rung]) -> FailureLadder:
        """Return the ladder of these rungs."""
        names = [_rung_name(one) for one in rungs]
        finishers = [one.finish for one in rungs if isinstance(one, FinishedBy)]
        return cls(
            attempts=tuple(name for name in names if name in ATTEMPTS),
            upgrade_model="upgrade_model" in names,
            downgrade_model="downgrade_model" in names,
            replans=names.count("replan"),
            skip_step="skip_step" in names,
            finish=finishers[0] if finishers else "finish" in names,
        )

    def without_adjustments(self) -> FailureLadder:
        """Return the ladder of work that the lead can't change: it is tried again as it is."""
        return replace(self, attempts=tuple("retry" if one == "adjust" else one for one in self.attempts))


class PlanOptions(PlacedParts):
    """The steps of a plan, who works on them, how they are reviewed, what they see of each other, and who answers."""

    model_config = ConfigDict(json_schema_extra={"instead": cast("JsonValue", INSTEAD)})

    steps: tuple[Step, ...] = Field(
        default=(), description="the steps, in any order; without them the lead plans, or else there is one for a role"
    )
    lead: AgentName | None = Field(
        default=None,
        description="who leads: a member, or another agent or team; by default the one with `is_lead`, else the first",
    )
    roles: dict[RoleName, Role] = Field(default={}, description="the roles of steps; by default each member is one")
    create_roles: bool = Field(default=False, description="whether the lead may plan roles that are not declared")
    shared_steps: bool = Field(
        default=False, description="whether the lead may give a step to several members, in parts or in competition"
    )
    max_steps: int = Field(default=20, ge=1, le=200, description="how many steps the lead may plan")
    on_planner_failure: Literal["fail_fast", "single_step_fallback", "step_each", "finish"] = Field(
        default="fail_fast",
        description="where the lead gives no usable plan: the team fails, the task is one step, there is one for each"
        " member, or one agent finishes alone",
    )
    confirm: bool = Field(
        default=False, description="whether a person approves, edits or rejects the plan, and later each difference"
    )
    proposals: int = Field(default=0, ge=0, description="how many changes of the plan members may propose to the lead")
    variables: dict[str, JsonValue] = Field(default={}, description="values that tasks use, as `variables.NAME`")
    decide: Decision = Field(
        default="ahead", description="whether the lead plans `ahead`, or `stepwise` from what it has seen so far"
    )
    pool: Pool = Field(
        default=False,
        description="whether steps that name no member go to the least busy member besides the lead, or to these; the"
        " `first` of them works on all steps",
    )
    max_parallel: int | None = Field(
        default=10, ge=1, description="how many steps run at once; null for as many as there are workers"
    )
    evaluate: Evaluate | None = Field(
        default=None, description="how the results of steps are reviewed that don't say it themselves"
    )
    risk: Risk = Field(
        default="medium",
        description="what bad work would cost: work that did not pass fails the team, with `low` it counts with a"
        " warning; with `high`, checks alone decide",
    )
    revisions: int = Field(
        default=2, ge=0, le=19, description="how often a member may revise work that did not pass its review"
    )
    on_failure: OnFailure | Rungs = Field(
        default="fail",
        description="`fail`: the team fails once the others are done; `cancel`: it fails at once, and stops the others;"
        " `skip`: it continues without the failed step; `collect`: it continues, and dependents see that the step"
        " failed, but not why; or the rungs of a ladder, in order: `[retry, upgrade_model, skip_step]`",
    )
    answer: str | None = Field(
        default=None,
        description="who answers: a step, the `lead`, or the lead with a `decision` between what was proposed; by"
        " default the last step",
    )
    timeout: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="seconds of work, without waits for people and providers; then the team ends with what it has",
    )
    sees: Sight = Field(
        default="needs",
        description="what a step gets besides its task: the results that it `needs`, or the conversation so far, `all`"
        " of it, one step at a time",
    )
    talk: Talk = Field(
        default="none",
        description="with whom members talk besides: `none`, the `lead`, which also settles conflicts, or `all`",
    )
    rounds_of_talk: int = Field(
        default=1, ge=0, description="how often each may speak before the lead decides, or the work goes on; 0 is never"
    )
    handout: Handout = Field(
        default="none",
        description="what the lead hands out before work starts: nothing, each `step`, or the steps of a `batch`",
    )
    run_budget: int | None = Field(
        default=None, ge=0, description="tokens that the envelopes of batches allot in total"
    )
    coordination_floor: int = Field(
        default=8, ge=0, description="of these, the tokens for the coordination of each step"
    )
    reason: SkipJsonSchema[str] = Field(default="", description="why this topology was chosen, for the record")

    @model_validator(mode="before")
    @classmethod
    def _attempts_as_revisions(cls, data: object) -> object:
        """Read `max_feedback_rounds`, which counts the first attempt too."""
        if not isinstance(data, dict) or "max_feedback_rounds" not in data:
            return cast("object", data)
        fields = dict(cast("dict[str, object]", data))
        rounds = fields.pop("max_feedback_rounds")
        if "revisions" in fields:
            raise ValueError("max_feedback_rounds says the same as revisions, with the first attempt; keep one of them")
        if rounds == 0:
            raise ValueError("max_feedback_rounds counts the first attempt, so it is at least 1")
        fields["revisions"] = rounds - 1 if isinstance(rounds, int) and not isinstance(rounds, bool) else rounds
        return fields

    @model_validator(mode="after")
    def _rungs_in_order(self) -> Self:
        if isinstance(self.on_failure, tuple):
            _check_rungs(self.on_failure)
        return self

    @property
    def policy(self) -> FailurePolicy:
        """What a failed step does to the others, once the ladder is through with it."""
        if isinstance(self.on_failure, tuple):
            return KEEP_GOING
        return FailurePolicy(on_failure=self.on_failure)

    @property
    def ladder(self) -> FailureLadder | None:
        """The rungs after a failure; None where a failed step is not tried again."""
        return FailureLadder.of(self.on_failure) if isinstance(self.on_failure, tuple) else None

    @property
    def replans(self) -> int:
        """How often the lead plans again after a step has failed for good."""
        return 0 if self.ladder is None else self.ladder.replans

    @property
    def lead_answers(self) -> bool:
        """Whether the lead gives the answer."""
        return self.answer in (LEAD, DECISION)

    @property
    def decides(self) -> bool:
        """Whether the answer of the lead is a decision with options, reasons and dissent, as data."""
        return self.answer == DECISION

    @property
    def answer_step(self) -> str | None:
        """The step that gives the answer, if one is named."""
        return None if self.lead_answers else self.answer

    @property
    def is_led(self) -> bool:
        """Whether someone leads."""
        return self.lead is not None or self.lead_answers or self.handout != "none" or self.decide == "stepwise"

    @property
    def is_planned_by_lead(self) -> bool:
        """Whether the lead makes the plan."""
        return self.is_led and not self.steps

    @property
    def has_roles(self) -> bool:
        """Whether steps have roles: those that are declared, or else the members, unless they are a pool."""
        return bool(self.roles) or not self.pool

    @property
    def has_one_worker(self) -> bool:
        """Whether one member works on all steps, whichever agents they name."""
        return self.pool == "first" or (isinstance(self.pool, tuple) and len(self.pool) == 1)

    @property
    def keeps_states(self) -> bool:
        """Whether the state of each step is recorded: where a step is more than one ask, or the plan may change."""
        return (
            isinstance(self.on_failure, tuple)
            or self.decides
            or self.evaluate is not None
            or self.is_planned_by_lead
            or (self.is_led and self.proposals > 0)
            or not self.steps
            or self.timeout is not None
            or self.talks
            or any(map(has_states, self.steps))
        )

    @property
    def talks(self) -> bool:
        """Whether members ask each other while they work on a step."""
        return self.talk != "none" and self.handout == "none"

    @property
    def time_note(self) -> str:
        """How long the team works at most, as a reader of the plan learns it before the start."""
        return "" if self.timeout is None else f"at most {self.timeout:g} s of work"

    def out_of_time(self, when: str) -> str:
        """Why a team ended without more time, and which setting gives it more."""
        setting = (
            "raise  timeout  under its strategy; --max-seconds  raises that of a run's own team, not of teams within it"
        )
        return f"the team used up its {self.timeout or 0:g} seconds of work{when}; {setting}"

    def lead_name(self, members: Members) -> str:
        """Return the name of the agent that leads."""
        return self.lead or self.lead_of(members).name

    def lead_of(self, members: Members) -> Agent:
        """Return the agent that leads: the one that is named, else the expert that is a lead, else the first."""
        if self.lead is not None:
            return members.named(self.lead)
        leads = (one for one in members if one.policy.expert is not None and one.policy.expert.is_lead)
        return next(leads, members[0])

    def finisher_name(self, members: Members) -> str | None:
        """Return the name of the agent that finishes the task where the plan fails, if one does."""
        by = self.ladder.finish if self.ladder is not None else self.on_planner_failure == "finish"
        return None if by is False else by if isinstance(by, str) else self.lead_name(members)

    def workers_of(self, members: Members) -> list[Agent]:
        """Return who works on steps that name no agent."""
        if not self.is_led and isinstance(self.pool, bool):
            return list(members)
        return [members.named(name) for name in self.worker_names(self.roster(members))]

    def worker_names(self, team: Roster) -> tuple[str, ...]:
        """Return the names of those who work on steps that name no agent."""
        found = tuple(name for name in team.members if not self.is_led or name != team.lead) or team.members
        if isinstance(self.pool, tuple):
            found = tuple(name for name in self.pool if name in team.members or name in team.helpers) or found
        return found[:1] if self.has_one_worker else found

    def authors_of(self, step: Step, team: Roster) -> tuple[str, ...]:
        """Return who may be the author of a step's result, as far as names alone tell: roles are bound later."""
        if step.is_shared:
            return step.authors(team)
        is_free = bool(self.pool) and step.agent is None and step.role is None and step.id not in team.members
        return self.worker_names(team) if is_free or self.has_one_worker else step.experts

    def roster(self, members: Members) -> Roster:
        """Return the names of the team."""
        names = tuple(member.name for member in members)
        known = frozenset(names)
        helpers = tuple(name for name in members.names if name not in known)
        return Roster(names, self.lead_name(members) if members else "", helpers)

    def width_for(self, members: Members) -> int:
        """Return how many steps run at once."""
        return 1 if self.sees == "all" else self.max_parallel or max(1, len(self.workers_of(members)))

    def schedule_for(self, members: Members, steps: tuple[Step, ...] | None = None) -> Schedule:
        """Return the schedule of the steps for these members."""
        settings = PlannerSettings(
            max_parallel=self.width_for(members),
            run_budget=self.run_budget,
            coordination_floor=self.coordination_floor,
        )
        return make_schedule(Plan(steps=self.steps if steps is None else steps), settings)


def own_key(place: str) -> str:
    """Return the key of something that is no step, below a name that no part of a step has: ids of steps are free."""
    return f"{LEAD}/{place}"


def has_states(step: Step) -> bool:
    """Return whether a step is more than one ask of the agent that it names, so that its state is recorded."""
    return step.is_shared or step.role is not None


KEEP_GOING = FailurePolicy.model_construct()
"""A failed step that is not optional fails the team once it has ended; the ladder says when that is at once."""


def options_with(name: str, **defaults: object) -> type[PlanOptions]:
    """Return the settings of a preset: those of all plans, with these defaults, which may be data as in a manifest.

    A default that does not fit its setting is refused when a team with the preset is made.
    """
    fields: dict[str, Any] = {}
    for field, default in defaults.items():
        if field not in PlanOptions.model_fields:
            raise UsageError(f"A plan has no setting {field!r}; {nearest(field, PlanOptions.model_fields)}")
        info = copy(PlanOptions.model_fields[field])
        info.default, info.validate_default = default, True
        fields[field] = (info.annotation, info)
    return create_model(name, __base__=PlanOptions, __doc__=PlanOptions.__doc__, **fields)
