"""One run of a live team: its life, its members, its plan, and its conversation, changed turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

from teamwright.agents.contract.agent import Agent, AppliedChange, Context
from teamwright.agents.review import pass_gate
from teamwright.errors import ExpressionFailed
from teamwright.experts.collaboration.state import phase_variables
from teamwright.experts.live.discussion import Discussion
from teamwright.experts.live.options import LiveOptions, live_lead, live_roster
from teamwright.experts.live.plan import (
    edited_by_person,
    next_phase,
    one_phase_each,
    plan_schema,
    read_lead_plan,
    reassigned,
)
from teamwright.experts.live.prompts import phase_prompt, planning_prompt, synthesis_prompt, with_files
from teamwright.strategies.expressions.conditions_and_templates import Template
from teamwright.strategies.plan.change import affected_experts
from teamwright.strategies.plan.difference import plan_difference
from teamwright.strategies.plan.present_members import LiveMembers
from teamwright.strategies.plan.step_options import step_evaluators
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.team_conversation import TeamConversation, is_unaffordable
from teamwright.values.events.team import LifeState, TeamLife, TeamPhase, TeamPlanChanged, TeamReplyRejected
from teamwright.values.people import AddMember, EditPlan, RemoveMember, Tell
from teamwright.values.specs.plan import Plan, Roster, Step, StepStatus
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

NEXT: dict[LifeState, tuple[LifeState, ...]] = {
    "forming": ("planning", "completed"),
    "planning": ("executing", "completed"),
    "executing": ("executing", "synthesizing", "completed"),
    "synthesizing": ("executing", "completed"),
    "completed": ("dissolved",),
    "dissolved": (),
}
"""The states that may follow each. A team that fails or is short of budget is completed from wherever it is."""


class TeamLifeCycle:
    """The state of one team."""

    def __init__(self) -> None:
        self.state: LifeState = "forming"

    def enter(self, state: LifeState) -> None:
        """Enter a state; raises `ValueError` if it can't follow the present one, which is a mistake of the caller."""
        if state not in NEXT[self.state]:
            raise ValueError(f"a team that is {self.state} can't become {state}")
        self.state = state


OUTPUTS = "outputs/"
"""The beginning of the names of results in the workspace, where they stay when the team is dissolved."""


class LiveRun:
    """The state of a live team, and what happens to it."""

    def __init__(self, task: Task, members: Members, ctx: Context) -> None:
        self._task, self._ctx = task, ctx
        self._options = task.settings.read(LiveOptions)
        self._lead, self._known = live_lead(task.settings, members), members
        self._results: dict[str, Reply] = {}
        self._members, self._life, self._talk = LiveMembers(members), TeamLifeCycle(), TeamConversation(task)
        self._plan: Plan | None = None
        self._versions: dict[int, Plan] = {}
        if self._options.steps:
            self._adopt(Plan(steps=self._options.steps))
        self._discussion = Discussion(task, ctx, self._members, self._talk, self._options.rounds)

    async def outcome(self) -> Outcome:
        """Lead the team from its forming to its dissolution; what it made stays in the workspace."""
        await self._announce("forming")
        ended = await self._live()
        await self._enter("completed")
        await self._enter("dissolved")
        return ended

    async def _live(self) -> Outcome:
        await self._enter("planning")
        if self._plan is not None:
            await self._record_plan(None, self._plan, by=self._lead)
        elif (failed := await self._make_plan("plan", None)) is not None:
            return failed
        await self._enter("executing")
        for number in count(1):
            key = f"turn-{number}"
            if (failed := await self._take_changes(key)) is not None:
                return failed
            phase = None if self._talk.short_of_budget else next_phase(self._planned)
            if phase is None:
                return await self._synthesize(key, number)
            if (ended := await self._work(phase, key, number)) is not None:
                return ended
        raise AssertionError("counting never ends")

    @property
    def _planned(self) -> Plan:
        assert self._plan is not None
        return self._plan

    @property
    def _roster(self) -> Roster:
        return live_roster(self._members.names, self._lead, self._known)

    async def _work(self, phase: Step, key: str, number: int) -> Outcome | None:
        """Let the expert of a phase work on it, and settle its discussion; returns the outcome if the team ends."""
        expert = self._members.named(phase.experts[0])
        await self._set_status(phase, "in_progress", (expert.name,), key)
        try:
            reply = await self._result(self._with_task(phase), expert, key, number)
        except ExpressionFailed as error:
            reply = Failure(member=expert.name, error=error.kind, message=str(error))
        if isinstance(reply, Reply):
            self._results[phase.id] = reply
            await self._set_status(phase, "completed", (expert.name,), key)
            await self._ctx.workspace.put(OUTPUTS + phase.id, reply.full.text, key=f"{key}/output")
            return self._talk.receive(reply)
        await self._set_status(phase, "skipped" if reply.optional else "failed", (expert.name,), key)
        if not is_unaffordable(reply):
            return self._talk.receive(reply)
        self._talk.cut_short(reply)
        return None

    async def _result(self, phase: Step, expert: Agent, key: str, number: int) -> Reply | Failure:
        """Ask the expert of a phase, settle the discussion, and let its milestone decide whether the result counts."""
        prompt = phase_prompt(self._task.text, phase, expert, self._members, self._lead)
        turn = Turn(prompt, self._talk.history, number)
        reply = await self._ask(expert, turn, key)
        author, reply = await self._discussion.settle(phase, expert, reply, self._lead, key, number)
        evaluator = step_evaluators((phase,), self._known).get(phase.id)
        if evaluator is None or (isinstance(reply, Reply) and reply.signal == "terminate"):
            return reply
        return await pass_gate(self._ctx, author, evaluator, turn, key, reply, partial(self._ask, author))

    def _with_task(self, phase: Step) -> Step:
        """Return a phase with its task rendered; raises `ExpressionFailed` if that is impossible."""
        if phase.task is None:
            return phase
        found = {need: self._results[need] for need in phase.needs if need in self._results}
        variables = phase_variables(self._task.text, found, self._planned.variables)
        return phase.model_copy(update={"task": Template(phase.task).render(variables)})

    async def _synthesize(self, key: str, number: int) -> Outcome:
        await self._enter("synthesizing")
        lead = self._members.named(self._lead)
        turn = Turn(synthesis_prompt(self._task.text), self._talk.history, number, closing=True)
        return self._talk.receive(await self._ask(lead, turn, key)) or self._talk.ended("done")

    async def _take_changes(self, key: str) -> Outcome | None:
        """Carry out what people want changed before a turn; the lead plans again if they changed the direction."""
        before, lead, members = self._plan, self._lead, self._members.names
        changes = await self._ctx.changes(before=key, apply=self._apply, messages=True)
        if self._members.names != members:
            reason = f"{self._lead} leads now" if self._lead != lead else "the members changed"
            await self._announce("executing", reason)
        if self._planned is not before:
            await self._record_plan(before, self._planned, by="")
        said = [one.change.text for one in changes if isinstance(one.change, Tell)]
        return await self._make_plan(f"{key}/plan", self._planned) if said and not self._options.steps else None

    def _apply(self, applied: AppliedChange) -> str | None:
        match applied.change:
            case EditPlan(plan=data):
                after = edited_by_person(self._planned, data, self._roster, self._versions)
                if isinstance(after, str):
                    return after
                self._adopt(after)
            case RemoveMember(member=name):
                if (problem := self._members.apply(applied)) is not None:
                    return problem
                if name == self._lead:  # the first of those who remain succeeds
                    self._lead = self._members.names[0]
                if any(one.is_open and name in one.experts for one in self._planned.steps):
                    self._adopt(reassigned(self._planned, name, self._lead))
            case AddMember():
                return self._members.apply(applied)
            case Tell():
                pass
        return None

    async def _make_plan(self, key: str, before: Plan | None) -> Outcome | None:
        """Let the lead plan, and once more if its plan can't be used; returns the outcome if the lead fails.

        Without a usable plan, each expert works on the task in turn; a plan that exists stays as it is.
        """
        lead, problem, most = self._members.named(self._lead), "", self._options.max_phases
        for place in (key, f"{key}-again"):
            prompt = planning_prompt(self._task.text, self._members, before, problem, most)
            schema = plan_schema(self._members.names)
            turn = Turn(prompt, self._talk.history, purpose="coordinate", output_schema=schema)
            reply = await self._ask(lead, turn, place)
            if isinstance(reply, Failure):
                if before is None:
                    return self._talk.failed(reply)
                self._warn_of_plan("it keeps its plan", reply.message)
                return None
            if reply.signal == "terminate":
                return self._talk.receive(reply)
            self._talk.warn(reply)
            made = read_lead_plan(reply, before, self._roster, most)
            if not isinstance(made, str):
                await self._record_plan(before, made, by=self._lead)
                self._adopt(made)
                return None
            problem = made
            if place == key:
                await self._ctx.emit(TeamReplyRejected(member=self._lead, problem=problem))
        if before is not None:
            self._warn_of_plan("it keeps its plan", problem)
        else:
            self._warn_of_plan("each member works on the task in turn", problem)
            self._adopt(one_phase_each(self._roster, self._task.text))
            await self._record_plan(None, self._planned, by="")
        return None

    def _warn_of_plan(self, instead: str, problem: str) -> None:
        self._talk.warnings.append(f"{self._lead!r} gave no plan that can be used, so {instead}: {problem}")

    def _adopt(self, plan: Plan) -> None:
        """Work by this plan from now on; people may have seen an earlier version when they edit it."""
        self._plan = self._versions[plan.version] = plan

    async def _record_plan(self, before: Plan | None, after: Plan, *, by: str) -> None:
        lines: Sequence[str] = plan_difference(before, after).lines
        to = () if before is None else affected_experts(before, after, self._roster)
        await self._ctx.emit(
            TeamPlanChanged(
                plan_version=after.version, plan=after.to_json(), lead=self._lead, by=by, difference=tuple(lines), to=to
            )
        )

    async def _set_status(self, phase: Step, status: StepStatus, members: tuple[str, ...], key: str) -> None:
        self._plan = self._planned.with_status(phase.id, status)
        await self._ctx.emit(TeamPhase(phase=phase.id, status=status, members=members), key=f"{key}/{status}")

    async def _enter(self, state: LifeState) -> None:
        self._life.enter(state)
        await self._announce(state)

    async def _announce(self, state: LifeState, reason: str = "") -> None:
        """Record the state of the team, its lead and its members."""
        fact = TeamLife(
            state=state,
            lead=self._lead,
            members=tuple(self._members.names),
            left=tuple(self._members.left),
            reason=reason,
        )
        await self._ctx.emit(fact)

    async def _ask(self, member: Agent, turn: Turn, key: str) -> Reply | Failure:
        return await self._ctx.ask(member, with_files(turn, self._task), key=key)
