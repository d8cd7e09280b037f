"""Replans after failures: the planner sees which steps are done and which failed, and plans the remaining work again.

What is done stays done. Another plan needs a reason that was not given before, so that a planner can't repeat itself
until its bounds end it. The text of a failure never reaches the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import cast

from pydantic import Field, JsonValue, TypeAdapter

from teamwright.agents.contract.agent import Context
from teamwright.experts.coordination.bound_plan import BoundPlan, bind_plan
from teamwright.experts.coordination.next_steps import plain_reason
from teamwright.experts.coordination.options import ExpertOptions
from teamwright.experts.coordination.plan_preview import KEY as CONFIRM, confirm_plan
from teamwright.experts.coordination.planned_steps import (
    PlannedSteps,
    ReadSteps,
    checked_steps,
    plan_schema,
    roles_in,
)
from teamwright.experts.coordination.planner import NEW_ROLES, PLAN, PLAN_AGAIN, MadePlan, role_line
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.events.team import TeamPlanChanged, TeamReplyRejected
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Role, Step
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.value import JsonValue as RecordedJson

FORM = """\
{"reason": TEXT, "steps": [{"id": NAME, "role": ROLE, "task": TEXT, "needs": [ID, …]}, …]}"""
PLAN_ON = "You plan the work of a team. A step of its plan has failed: plan again."
RULES = """\
What is done stays done. "steps" are all that is still to do: steps that have not started, as they are or changed, and \
others in place of those that failed, under new ids. At most {most} of them. They may need steps that are done. The \
last of them gives the team's answer. "reason" says why this plan works where the last one did not; one that was given \
before is refused."""
LONGEST_TASK = 200


class ReplannedSteps(PlannedSteps):
    """Another plan of a planner: why, and what is still to do."""

    reason: str = Field(default="")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a plan came before it is replaced: steps that ended, that failed, and that have not started.

    `results` are the results of ended steps, under their ids.
    """

    ended: tuple[Step, ...]
    lost: tuple[Step, ...]
    open: tuple[Step, ...]
    results: tuple[Message, ...]

    @property
    def lines(self) -> list[str]:
        """Each step and what became of it."""
        done = {message.name for message in self.results}
        return [
            *(f"- {step_line(one)}: {'done' if one.id in done else 'skipped, without a result'}" for one in self.ended),
            *(f"- {step_line(one)}: failed" for one in self.lost),
            *(f"- {step_line(one)}: not started" for one in self.open),
        ]


class Replanner:
    """The planner of a team that works, with the reasons that it has given."""

    def __init__(
        self, task: Task, options: ExpertOptions, roles: Mapping[str, Role], members: Members, bound: BoundPlan
    ) -> None:
        assert options.planner is not None
        self._task, self._options, self._members = task, options, members
        self._planner = members.named(options.planner)
        self._roles, self._bound = dict(roles), bound
        self._number = 0
        self._reasons: dict[str, str] = {}
        self._lost: set[str] = set()
        self._facts = set(bound.binding.facts())

    @property
    def can_plan_again(self) -> bool:
        """Whether the planner may plan again."""
        return self._number < self._options.max_replans

    async def announce(self, ctx: Context) -> None:
        """Record the plan that may change."""
        await ctx.emit(self._fact((), self._bound.plan))

    async def plan_again(self, progress: Progress, ctx: Context) -> BoundPlan | Reply | None:
        """Return another plan; the reply of a planner that terminates the team, or None if there is no usable plan."""
        self._number += 1
        self._lost.update(step.id for step in progress.lost)
        made = await self._ask(progress, ctx)
        if not isinstance(made, MadePlan):
            return made
        planned = made
        if self._options.confirm:
            made = await self._confirmed(planned, progress, ctx)
            if made is None:
                return None
        before = (*progress.ended, *progress.lost, *progress.open)
        plan = replace(made, steps=(*progress.ended, *made.steps))
        bound = bind_plan(plan, {**self._roles, **made.new_roles}, self._options, self._members)
        assert isinstance(bound, BoundPlan), bound  # it was checked when it was read
        self._roles |= made.new_roles
        self._reasons[plain_reason(made.reason)] = made.reason
        self._bound = bound
        fact = self._fact(before, plan)
        await ctx.emit(fact if made is planned else fact.changed(by=""))
        for fact in bound.binding.facts():
            if fact not in self._facts:
                self._facts.add(fact)
                await ctx.emit(fact)
        return bound

    async def _ask(self, progress: Progress, ctx: Context) -> MadePlan | Reply | None:
        """Ask the planner; what can't be used is sent back once, with every mistake."""
        history, problem = [*self._task.history, *progress.results], ""
        warnings = self._bound.plan.warnings
        for place in (PLAN, PLAN_AGAIN):
            turn = self._turn(progress, history, problem)
            reply = await ctx.ask(self._planner, turn, key=f"replan-{self._number}/{place}")
            if isinstance(reply, Failure):
                return None
            if reply.signal == "terminate":
                return reply
            warnings = (*warnings, *reply.lasting_warnings)
            read = self._read(reply.full, progress)
            if not isinstance(read, ParseFailure):
                return replace(read, warnings=warnings)
            problem = read.problem
            if place == PLAN:
                await ctx.emit(TeamReplyRejected(member=self._planner.name, problem=problem))
                history.append(Message(name=self._planner.name, content=reply.text))
        return None

    def _read(self, reply: Reply, progress: Progress) -> MadePlan | ParseFailure:
        """Return the plan in a reply, or every mistake in it, worded for the planner."""
        plan = read_answer(reply, _replanned())
        if isinstance(plan, ParseFailure):
            return plan
        problems = [*self._reason_problems(plan.reason), *self._id_problems([one.id for one in plan.steps], progress)]
        if len(plan.steps) > self._options.max_steps:
            problems.append(f"it has {len(plan.steps)} steps, and at most {self._options.max_steps} are allowed")
        if problems:
            return ParseFailure("; ".join(problems))
        create = self._options.create_roles
        read = checked_steps(plan.steps, list(self._roles), progress.ended, create_roles=create)
        if not isinstance(read, ReadSteps):
            return ParseFailure(read)
        if unbound := self._step_problems(progress, self._roles | read.new_roles, read.steps):
            return ParseFailure("; ".join(unbound))
        return MadePlan(read.steps, literal=True, new_roles=read.new_roles, reason=plan.reason)

    def _reason_problems(self, reason: str) -> list[str]:
        if not reason.strip():
            return ["it gives no reason"]
        if plain_reason(reason) in self._reasons:
            return [f"its reason was given before: {reason.strip()!r}; another plan needs a new one"]
        return []

    def _id_problems(self, ids: Sequence[str], progress: Progress) -> list[str]:
        ended = {step.id for step in progress.ended}
        done = [f"the step {id_!r} has ended, and what is done stays done; leave it out" for id_ in ids if id_ in ended]
        return done + [f"the step {id_!r} failed; give what replaces it another id" for id_ in ids if id_ in self._lost]

    def _step_problems(self, progress: Progress, roles: Mapping[str, Role], steps: Sequence[Step]) -> list[str]:
        """Return why steps can't follow those that ended."""
        if problems := self._id_problems([step.id for step in steps], progress):
            return problems
        bound = bind_plan(MadePlan((*progress.ended, *steps)), roles, self._options, self._members)
        return bound if isinstance(bound, list) else []

    async def _confirmed(self, made: MadePlan, progress: Progress, ctx: Context) -> MadePlan | None:
        """Let a person decide on the difference; None if it is rejected."""
        problems = partial(self._step_problems, progress, {**self._roles, **made.new_roles})
        lines = plan_lines((*progress.lost, *progress.open), made.steps)
        key = f"replan-{self._number}/{CONFIRM}"
        plan = await confirm_plan(made, problems, ctx, key=key, difference=lines, earlier=progress.ended)
        return plan if isinstance(plan, MadePlan) else None

    def _fact(self, before: Sequence[Step], plan: MadePlan) -> TeamPlanChanged:
        return plan_fact(plan, self._planner.name, before=before, version=len(self._reasons) + 1)

    def _turn(self, progress: Progress, history: Sequence[Message], problem: str) -> Turn:
        create, most = self._options.create_roles, self._options.max_steps
        given = "".join(f"\n- {reason}" for reason in self._reasons.values())
        parts = [
            f"{PLAN_ON} Answer with one JSON object:\n{FORM}",
            "The roles:\n" + "\n".join(f"- {role_line(name, role)}" for name, role in self._roles.items()),
            NEW_ROLES if create else "",
            "The plan so far, and what became of it:\n" + "\n".join(progress.lines),
            RULES.format(most=most),
            f"Reasons that were given before:{given}" if given else "",
            f"Your last answer could not be used: {problem}. Plan again." if problem else "",
            f"The task:\n{self._task.text}",
        ]
        return Turn(
            "\n\n".join(filter(None, parts)),
            History.of(history),
            self._number + 1,
            purpose="coordinate",
            output_schema=replan_schema(list(self._roles), create_roles=create),
            attachments=self._task.attachments,
        )


def replan_schema(roles: Sequence[str], *, create_roles: bool = False) -> JsonSchema:
    """Return the JSON Schema of another plan."""
    schema = dict(plan_schema(roles, create_roles=create_roles))
    reason: JsonValue = {"type": "string", "description": "why this plan works where the last one did not"}
    schema["properties"] = {"reason": reason, **cast("dict[str, JsonValue]", schema["properties"])}
    return {**schema, "required": ["reason", "steps"]}


def example_replan(schema: Mapping[str, JsonValue], number: int) -> JsonValue:
    """Return another plan that matches `replan_schema`: one step of the first role; None for another schema."""
    roles = roles_in(dict(schema))
    if not roles or not any(schema == replan_schema(roles, create_roles=create) for create in (False, True)):
        return None
    step: JsonValue = {"id": f"replan-{number}", "role": roles[0], "task": "The rest."}
    return {"reason": f"Another way, the {number}th.", "steps": [step]}


def plan_fact(plan: MadePlan, by: str, *, before: Sequence[Step] = (), version: int = 1) -> TeamPlanChanged:
    """Return the record of a planner's plan, by which the team works from then on."""
    steps = [one.model_dump(mode="json", exclude_defaults=True) for one in plan.steps]
    return TeamPlanChanged(
        plan_version=version,
        plan=cast("RecordedJson", {"status": "executing", "steps": steps}),
        lead=by,
        by=by,
        difference=plan_lines(before, plan.steps),
        reason=plan.reason,
    )


def plan_lines(before: Sequence[Step], after: Sequence[Step]) -> tuple[str, ...]:
    """Return the difference between two plans in lines: `+` is added, `-` removed, `~` changed."""
    old, new = {one.id: one for one in before}, {one.id: one for one in after}
    return (
        *(f"+ {step_line(one)}" for id_, one in new.items() if id_ not in old),
        *(f"- {step_line(one)}" for id_, one in old.items() if id_ not in new),
        *(f"~ {step_line(one)}" for id_, one in new.items() if id_ in old and one != old[id_]),
    )


def step_line(step: Step) -> str:
    """Return a step in one line: its id, its role, what it needs, and its task."""
    after = f", after {', '.join(step.needs)}" if step.needs else ""
    task = f": {cut(' '.join(step.task.split()), LONGEST_TASK)}" if step.task else ""
    return f"{step.id} ({step.role or step.agent or step.id}{after}){task}"


@cache
def _replanned() -> TypeAdapter[ReplannedSteps]:
    return TypeAdapter(ReplannedSteps)
