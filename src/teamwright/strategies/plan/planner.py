"""What the lead plans: the steps, parts of a step, other steps after a failure, what people want, and what comes next.

An answer that can't be used goes back once, with the reason (`PlanState.consult`). The text of a failure never reaches
the lead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from teamwright.agents.agent import Agent, Context
from teamwright.agents.review import REVIEW_EXCEEDED
from teamwright.strategies.plan.bound_plan import bind_steps, plan_problems_of
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.plan_change import PlanChange, apply_change, plan_difference, step_line
from teamwright.strategies.plan.plan_check import crowd_problems, size_problems
from teamwright.strategies.plan.planned_steps import (
    STEP,
    NextSteps,
    PlannedStep,
    PlannedSteps,
    ReadSteps,
    StepForm,
    cut_notes,
    plain_reason,
    read_change,
    read_form,
    read_plan,
    within,
)
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.protocol import description_line
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.specs.plan import Plan, Role, Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply

PLAN = """\
You plan the work of a team. Divide the task into steps. Answer with one JSON object:
{{"steps": [{step}, …]}}
{who}
At most {most} steps. A step reads the results of the steps that it needs, and no others; steps that need nothing of \
each other run side by side. The last step gives the result of the work."""
AGAIN = """\
You plan the work of a team. A step of its plan has failed: plan again. Answer with one JSON object:
{{"reason": TEXT, "steps": [{step}, …]}}
{who}
The plan so far, and what became of it:
{progress}
What is done stays done. "steps" are all that is still to do: steps that have not started, as they are or changed, and \
others in place of those that failed, under new ids. At most {most} of them. They may need steps that are done. The \
last of them gives the result of the work. "reason" says why this plan works where the last one did not; one that was \
given before is refused.{reasons}"""
SPLIT = """\
The step {step!r} of the plan is next, and its task has no parts yet. Split it among {members}: answer with one JSON \
object, {{"put": [the step with its parts], "reason": "…"}}.
{form}"""
ADJUST = """\
The step {step!r} of the plan {how} and is tried once more; what is done of it is above. If another split, or other \
members, would help, answer with one JSON object, {{"put": [the step, changed], "reason": "…"}}; answer {{}} to try it \
as it is.
{form}"""
REDIRECT = """\
A person says to your team: {said}
Its plan is now as follows; what has started stays as it is:
{plan}
If the plan should change for that, answer with one JSON object, {{"put": [steps that are new or replaced], "remove": \
[ids], "reason": "…"}}; answer {{}} to keep it.
{form}"""
DECIDE = """\
You lead a team. Decide what comes next. Answer with one JSON object:
{{"action": "work", "steps": [{{"id": NAME, "role": ROLE, "task": TEXT, "needs": [ID, …], "reason": TEXT}}, …]}}
for steps that run side by side; "needs" are earlier steps whose results they read
{{"action": "answer"}}
when the results are enough for the answer, which you give next
{who}
At most {most} more steps. What stands above came of the steps so far, under their ids."""

AskChange = Callable[[Context], Awaitable[PlanChange]]
"""Returns a change of the plan that the lead, or a member, wants."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a plan came before it is replaced: steps that ended, that failed, and that have not started."""

    ended: tuple[Step, ...]
    lost: tuple[Step, ...]
    open: tuple[Step, ...]
    with_results: frozenset[str]

    @property
    def lines(self) -> list[str]:
        """Each step and what became of it."""
        done, none = "done", "skipped, without a result"
        return [
            *(f"- {step_line(one)}: {done if one.id in self.with_results else none}" for one in self.ended),
            *(f"- {step_line(one)}: failed" for one in self.lost),
            *(f"- {step_line(one)}: not started" for one in self.open),
        ]


class Planner:
    """The lead of a team as the one who plans."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self._reasons: dict[str, str] = {}
        """The reasons that were given for other plans, as compared and as written."""
        self._work_reasons: dict[tuple[str, str], set[str]] = {}
        """The reasons that were given for steps, by what they do."""
        self.replans = 0

    @property
    def can_plan_again(self) -> bool:
        """Whether the lead may plan again after a failure."""
        return self._state.options.is_led and self.replans < self._state.options.replans

    async def write_plan(self, ctx: Context) -> ReadSteps | Failure | None:
        """Return the plan that the lead writes, or its failure; None if it ended the team."""
        state, most = self._state, self._state.options.max_steps
        text = PLAN.format(step=STEP, who=self._introduced(), most=most)
        read = partial(self._read_plan, state.form)
        return await state.consult(text, (), ctx, own_key("plan"), state.form.plan_schema(most), read)

    @property
    def next_replan(self) -> str:
        """The place at which the lead plans again."""
        return own_key(f"replan-{self.replans + 1}")

    async def plan_again(self, progress: Progress, ctx: Context) -> tuple[ReadSteps, str] | Failure | None:
        """Return what is still to do after a failure, and the reason; None or a failure if there is no other plan."""
        state, most = self._state, self._state.options.max_steps
        key = self.next_replan
        self.replans += 1
        given = "".join(f"\n- {reason}" for reason in self._reasons.values())
        text = AGAIN.format(
            step=STEP,
            who=self._introduced(),
            progress="\n".join(progress.lines),
            most=most,
            reasons=f"\n\nReasons that were given before:{given}" if given else "",
        )
        history = [message for step in progress.ended for message in state.learnt([step.id])]
        read = partial(self._read_again, state.form, progress)
        schema = state.form.plan_schema(most, reason=True)
        return await state.consult(text, history, ctx, key, schema, read, self.replans + 1)

    def split(self, step: Step) -> AskChange:
        """Let the lead split the task of a step; without a usable split each member gets the whole task."""
        names = step.workers(self._state.team.roster)
        text = SPLIT.format(step=step.id, members=", ".join(names), form=self._introduced(self._state.change_form))
        return self._change(text, step, "split")

    def adjust(self, step: Step, failure: Failure) -> AskChange:
        """Let the lead change a step that failed, before it is tried once more; an empty change keeps it."""
        how = "did not pass its review" if failure.error == REVIEW_EXCEEDED else f"failed at {failure.asked!r}"
        text = ADJUST.format(step=step.id, how=how, form=self._introduced(self._state.change_form))
        return self._change(text, step, "adjust")

    def redirect(self, said: str) -> AskChange:
        """Let the lead change the plan for what a person said; without a usable answer it stays as it is."""
        state = self._state
        lines = "\n".join(plan_difference(None, state.plan).lines)
        text = REDIRECT.format(said=said, plan=lines, form=self._introduced(state.change_form))
        return partial(self._ask_change, text, state.learnt(state.outputs.graph.order), state.plan, "redirect")

    async def decide(self, number: int, most: int, ctx: Context) -> tuple[ReadSteps, str] | Failure | None:
        """Return the next steps, none for the answer; a failure, or None if the lead ended the team."""
        state = self._state
        text = DECIDE.format(who=self._introduced(), most=most)
        said: list[str] = []
        read = partial(self._read_decision, most, said)
        key, first = own_key(f"decide-{number}"), not state.versions or not state.plan.steps
        schema = state.form.decision_schema(most, first=first)
        history = state.view.history()
        found = await state.consult(text, list(history)[len(state.task.history) :], ctx, key, schema, read, number)
        return (found, said[-1]) if isinstance(found, ReadSteps) else found

    def _change(self, text: str, step: Step, key: str) -> AskChange:
        state = self._state
        history = [*state.inputs_of(step), *state.unfinished(step.id)]
        return partial(self._ask_change, f"{text}\n\n{state.about(step)}", history, state.plan, key)

    async def _ask_change(
        self, text: str, history: Sequence[Message], plan: Plan, key: str, ctx: Context
    ) -> PlanChange:
        """Ask for a change of the plan as it was when the ask was due: it may be made after other changes."""
        read = partial(self._read_change, plan)
        schema = self._state.change_form.change_schema(self._state.options.max_steps)
        return self._usable(await self._state.consult(text, history, ctx, key, schema, read))

    def _usable(self, found: PlanChange | Failure | None) -> PlanChange:
        if isinstance(found, Failure):
            self._state.warn(found.skipped if found.error != "planning" else (found.message,))
        return found if isinstance(found, PlanChange) else PlanChange()

    def _read_plan(self, form: StepForm, reply: Reply) -> ReadSteps | ParseFailure:
        read = read_plan(reply, form, self._state.options.max_steps)
        return read if isinstance(read, ParseFailure) else self._checked(read, ())

    def _read_again(self, form: StepForm, progress: Progress, reply: Reply) -> tuple[ReadSteps, str] | ParseFailure:
        plan = read_form(reply, PlannedSteps)
        if isinstance(plan, ParseFailure):
            return plan
        ended, lost = {step.id for step in progress.ended}, {step.id for step in progress.lost}
        if self._state.versions is not None:
            lost |= self._state.versions.retired
        problems = self._reason_problems(plan.reason)
        problems += [
            f"the step {one.id!r} has ended, and what is done stays done; leave it out"
            for one in plan.steps
            if one.id in ended
        ]
        problems += [
            f"the step {one.id!r} failed; give what replaces it another id" for one in plan.steps if one.id in lost
        ]
        if problems:
            return ParseFailure("; ".join(problems))
        repaired = cut_notes(reply, plan.steps)
        steps = within(plan.steps, self._state.options.max_steps, repaired)
        read = form.read_steps(steps, progress.ended, self._state.plan.by_id)
        if isinstance(read, ParseFailure):
            return read
        checked = self._checked(read._replace(repaired=(*repaired, *read.repaired)), progress.ended)
        if isinstance(checked, ParseFailure):
            return checked
        self._reasons[plain_reason(plan.reason)] = plan.reason
        return checked, plan.reason

    def _reason_problems(self, reason: str) -> list[str]:
        if not reason.strip():
            return ["it gives no reason"]
        if plain_reason(reason) in self._reasons:
            return [f"its reason was given before: {reason.strip()!r}; another plan needs a new one"]
        return []

    def _read_change(self, plan: Plan, reply: Reply) -> PlanChange | ParseFailure:
        change = read_change(reply, self._state.change_form, plan)
        if isinstance(change, ParseFailure) or not change:
            return change
        problems = change_problems_of_model(self._state, plan, change)
        return ParseFailure("; ".join(problems)) if problems else change

    def _read_decision(self, most: int, said: list[str], reply: Reply) -> ReadSteps | ParseFailure:
        said.append(reply.text)
        found = read_form(reply, NextSteps)
        if isinstance(found, ParseFailure):
            return found
        earlier, state = self._state.plan.steps if self._state.versions else (), self._state
        if found.action == "answer" and (earlier or not found.steps):
            return ReadSteps(()) if earlier else ParseFailure("no step was done yet; decide on one")
        if not found.steps:
            return ParseFailure("it has no steps")
        repaired = cut_notes(reply, found.steps)
        if found.action == "answer":
            repaired.append("no step was done yet, so its steps come before the answer")
        planned = within(found.steps, most, repaired)
        read = state.form.read_steps(planned, earlier)
        if isinstance(read, ParseFailure):
            return read
        problems = [
            f"the step {step.id!r} needs {need!r}, which has no result"
            for step in read.steps
            for need in step.needs
            if need not in state.results.replies and need not in {one.id for one in read.steps}
        ]
        problems += self._repeated(read.steps, planned)
        if problems:
            return ParseFailure("; ".join(problems))
        checked = self._checked(read._replace(repaired=(*repaired, *read.repaired)), earlier)
        if isinstance(checked, ReadSteps):
            for step, one in zip(checked.steps, planned, strict=True):
                self._work_reasons.setdefault(_work(step), set()).add(plain_reason(one.reason))
        return checked

    def _repeated(self, steps: Sequence[Step], planned: Sequence[PlannedStep]) -> list[str]:
        """Return a problem for each step that was done before and has no new reason."""
        found: list[str] = []
        for step, one in zip(steps, planned, strict=True):
            known, reason = self._work_reasons.get(_work(step)), plain_reason(one.reason)
            if known is not None and (not reason or reason in known):
                found.append(f"the step {step.id!r} repeats an earlier one, which needs a new reason")
        return found

    def _checked(self, read: ReadSteps, earlier: Sequence[Step]) -> ReadSteps | ParseFailure:
        """Return steps that can be executed by the members of the team; or why not."""
        state, most = self._state, self._state.options.max_steps
        plan = Plan(steps=(*earlier, *read.steps), variables=state.options.variables)
        problems = plan_problems_of(state, plan, new_roles=read.new_roles) or crowd_problems(read.steps, most)
        return ParseFailure("; ".join(problems)) if problems else read

    def _introduced(self, form: StepForm | None = None) -> str:
        state = self._state
        lines = [f"- {role_line(name, role, self._member_of(name, role))}" for name, role in state.roles.items()]
        members = "The roles:" if state.options.roles else "The members of your team:"
        return "\n".join(filter(None, (members, *lines, (form or state.form).text)))

    def _member_of(self, name: str, role: Role) -> Agent | None:
        state, step = self._state, Step(id=name, role=name)
        bound = bind_steps(state.options, {name: role}, (step,), state.members, state.team.lead.name).by_step.get(name)
        return None if bound is None else bound.agent


def change_problems_of_model(state: PlanState, plan: Plan, change: PlanChange) -> list[str]:
    """Return every reason why a change that a model wants can't be made, its size among them."""
    assert state.versions is not None
    found = state.versions.problems(change)
    return found or size_problems(plan, apply_change(plan, change), state.options.max_steps)


def role_line(name: str, role: Role, member: Agent | None = None) -> str:
    """Return the name of a role, what it is for, and what its member can do, as planners read it."""
    about = [role.description or ", ".join(role.wanted)]
    if member is not None:
        if not role.description:
            about.append(description_line(member))
        if member.capabilities:
            about.append(f"can: {', '.join(member.capabilities)}")
        profile = member.policy.expert
        if profile is not None and profile.persona:
            about.append(" ".join(profile.persona.split()))
        tools = role.tools if role.tools is not None else tool_names(member)
        if tools:
            about.append(f"tools: {', '.join(tools)}")
    text = "; ".join(dict.fromkeys(filter(None, about)))
    return f"{name}: {text}" if text else name


def tool_names(member: Agent) -> tuple[str, ...]:
    """Return the names of a member's tools, as far as its declaration says them."""
    declared = getattr(member.spec, "tools", ())
    return tuple(one for one in declared if isinstance(one, str))


def _work(step: Step) -> tuple[str, str]:
    """Return what a step does: who works on it, and its task."""
    return step.assignee, plain_reason(step.task or "")
