"""What a running team knows: its plan, what the steps gave, and what the lead and the members are asked from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace as dataclass_replace
from typing import TypeVar

from msgspec.structs import replace

from teamwright.agents.agent import Context
from teamwright.strategies.part_results import PartResults
from teamwright.strategies.plan.bound_roles import effective_roles
from teamwright.strategies.plan.options import ANSWER, PlanOptions
from teamwright.strategies.plan.planned_steps import StepForm
from teamwright.strategies.plan.steps.step_board import StepOutputs, as_message
from teamwright.strategies.plan.versions import PlanVersions, PresentMembers
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.team_conversation import BUDGET
from teamwright.values.events.team import TeamReplyRejected
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Plan, Role, Step
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

T = TypeVar("T")

NOTICE = "plan"
"""The name under which members read about the plan."""
PROPOSE = (
    "If the plan of your team should change, end your answer with a JSON object in a fenced block:"
    ' {"plan_change": {"put": [steps that are new or replaced], "remove": [ids], "reason": "…"}}. The lead decides.'
)
PLAN_TOKENS, STEP_TOKENS, SHARED_STEP_TOKENS = 400, 150, 300
"""What bounds the output of a lead that plans: tokens of the answer, and of each step that it may have."""
LAST = 1 << 20
"""The place of what the lead made of a step, after the work of its members."""


class PlanState:
    """The team, its plan and its results. `ended_by` is what ended the team: a reply that terminates it, or a failure
    of the lead.
    """

    def __init__(self, task: Task, options: PlanOptions, members: Members) -> None:
        self.task, self.options = task, options
        self.team = PresentMembers(members, options)
        self.results = PartResults(options.policy)
        self.outputs = StepOutputs(task, options.policy, self.results, options.variables)
        self.versions: PlanVersions | None = None
        self.new_roles: dict[str, Role] = {}
        self.said: dict[str, dict[tuple[int, int], Reply]] = {}
        """The work on steps besides their results, by attempt and place."""
        self._hears_proposals = options.is_led and options.proposals > 0
        self.warnings: list[str] = []
        self.ended_by: Reply | Failure | None = None
        self.is_short_of_budget = False
        self.view = Conversation()
        """What a lead sees that decides stepwise: its decisions, and what came of the steps."""
        self.view.extend(task.history)

    @property
    def plan(self) -> Plan:
        """The present plan."""
        assert self.versions is not None
        return self.versions.plan

    @property
    def members(self) -> Members:
        """The present members, with the helpers of the team and those who left."""
        return self.team.everyone

    @property
    def roles(self) -> dict[str, Role]:
        """The roles: those that are declared, or else one for each member besides the lead, and those it made."""
        return self.roles_of(self.team)

    def roles_of(self, team: PresentMembers) -> dict[str, Role]:
        """Return the roles in a team of these members.

        A member that judges all work has no role of its own, if there is another one.
        """
        options, lead = self.options, team.lead.name if self.options.is_led else None
        found = effective_roles(options.roles, Members(team), lead)
        judges = () if options.evaluate is None or options.roles else options.evaluate.at_risk(options.risk).asked
        others = {name: role for name, role in found.items() if name not in judges}
        return {**(others or found), **self.new_roles}

    @property
    def form(self) -> StepForm:
        """What a plan of this team may consist of."""
        team = self.team.roster
        return StepForm(
            roles=list(self.roles),
            team=team._replace(members=team.workers) if self.options.decides else team,
            declared={*self.options.roles, *self.new_roles},
            create_roles=self.options.create_roles,
            shared=self.options.shared_steps,
            pool=bool(self.options.pool) and not self.options.has_one_worker,
            taken=(ANSWER,) if self.options.lead_answers else (),
        )

    @property
    def change_form(self) -> StepForm:
        """What a change of the plan may consist of: roles are made with a plan, not with a change of one."""
        return dataclass_replace(self.form, create_roles=False)

    def warn(self, texts: Iterable[str]) -> None:
        """Add warnings, each once."""
        self.warnings += (text for text in texts if text not in self.warnings)

    def go_on_without(self, failure: Failure) -> None:
        """Warn that the work goes on without one who failed, and note where the budget did not cover it."""
        self.warn(failure.skipped)
        self.is_short_of_budget |= failure.error == BUDGET

    def heard(self, ending: Reply | Failure) -> Reply | None:
        """Note how an ask ended that gives no result of a step; return the reply, unless it failed or ends the team."""
        if isinstance(ending, Failure):
            self.go_on_without(ending)
            return None
        self.warn(ending.lasting_warnings)
        if ending.signal != "terminate" or self._escapes_review(ending):
            return ending
        self.ended_by = self.ended_by or ending
        return None

    def add(self, step: str, attempt: int, place: int, reply: Reply) -> None:
        """Keep a piece of work on a step."""
        self.said.setdefault(step, {})[attempt, place] = reply

    def work_on(self, step: str) -> list[Reply]:
        """Return the work on a step besides its result, in order."""
        return [reply for _, reply in sorted(self.said.get(step, {}).items(), key=lambda one: one[0])]

    def notices_for(self, member: str) -> list[Message]:
        """Return what a member reads about the plan: its changes, and that it may propose one."""
        proposes = self._hears_proposals and member != self.team.lead.name
        if not proposes and (self.versions is None or not self.versions.notices):
            return []
        told = self.versions.notices.get(member, []) if self.versions is not None else []
        texts = [*told, *((PROPOSE,) if proposes else ())]
        return [Message(name=NOTICE, content=text, role="user") for text in texts]

    def unfinished(self, step: str) -> list[Message]:
        """Return the work that a step without a result has so far."""
        if step in self.results.replies:
            return []
        found = {place: reply for (_, place), reply in sorted(self.said.get(step, {}).items(), key=lambda one: one[0])}
        return [as_message(f"{step}-{place}", reply) for place, reply in found.items() if place != LAST]

    def learnt(self, order: Sequence[str], *, unreviewed: bool = False) -> list[Message]:
        """Return the results of these steps and, where there is none, the work on a step so far.

        With `unreviewed` also work that no review has let pass, for an agent that checks it first.
        """
        found: list[Message] = []
        for step in order:
            reply = self.results.replies.get(step)
            if reply is not None:
                found.append(as_message(step, reply))
            elif step in self.said and (unreviewed or not self.is_reviewed(step)):
                found += self.unfinished(step)
        return found

    def is_reviewed(self, id_: str) -> bool:
        """Return whether the work on a step has to pass a review."""
        step = self.plan.by_id.get(id_)
        declared = (step.evaluate if step is not None else None) or self.options.evaluate
        return declared is not None and declared.reviews

    def inputs_of(self, step: Step) -> list[Message]:
        """Return the results that a step needs, under the ids of their steps."""
        return [as_message(need, self.results.replies[need]) for need in step.needs if need in self.results.replies]

    def about(self, step: Step) -> str:
        """Return a step as the lead reads it."""
        task = self.outputs.task_text(step)
        return f"The step: {step.title}" + (f"\nIts task: {task}" if task else "")

    def lead_turn(
        self, text: str, history: Sequence[Message], schema: JsonSchema | None = None, *, closing: bool = False
    ) -> Turn:
        """Return a turn of the lead about the work of the team."""
        task = f"{text}\n\nThe task of the team:\n{self.task.text}"
        said = History.of((*self.task.history, *history))
        files = self.task.attachments
        return Turn(task, said, 1, "coordinate", output_schema=schema, attachments=files, closing=closing)

    @property
    def plan_tokens(self) -> int:
        """The most tokens of a plan that the lead writes, or of a change of it."""
        options = self.options
        return PLAN_TOKENS + options.max_steps * (SHARED_STEP_TOKENS if options.shared_steps else STEP_TOKENS)

    def _escapes_review(self, reply: Reply) -> bool:
        """Return whether the team would end with a reply that was not reviewed, where work has to be."""
        review = self.options.evaluate
        return review is not None and (review.reviews or not reply.text.strip())

    def _end(self, reply: Reply) -> ParseFailure | None:
        """End the team with a reply of its lead, or return why that would escape the review."""
        if self._escapes_review(reply):
            return ParseFailure("work is reviewed here, so the team ends with an answer that passed, and not before")
        self.ended_by, self.results.is_over = reply, True
        return None

    async def consult(
        self,
        text: str,
        history: Sequence[Message],
        ctx: Context,
        key: str,
        schema: JsonSchema,
        read: Callable[[Reply], T | ParseFailure],
        number: int = 1,
    ) -> T | Failure | None:
        """Return what the lead decides; it is asked once more, with the reason, if its answer can't be used.

        A failure if it failed; None if it ended the team, or gave no usable answer.
        """
        problem, said = "", list(history)
        for place in () if self.results.is_over else (key, f"{key}-again"):
            asked = f"{text}\n\nYour last answer could not be used: {problem}. Answer again." if problem else text
            turn = replace(self.lead_turn(asked, said, schema), number=number, max_output=self.plan_tokens)
            reply = await ctx.ask(self.team.lead, turn, key=place)
            if isinstance(reply, Failure):
                if reply.error == BUDGET:  # which is said wherever it ends less than what was wanted
                    self.go_on_without(reply)
                return reply
            self.warn(reply.lasting_warnings)
            found = read(reply.full) if reply.signal != "terminate" else self._end(reply)
            if found is None:
                return None
            if not isinstance(found, ParseFailure):
                return found
            problem = found.problem
            said.append(Message(name=self.team.lead.name, content=reply.text))
            if place == key:
                fact = TeamReplyRejected(member=self.team.lead.name, problem=problem)
                await ctx.emit(fact, key=f"{key}-problem")
        if problem:
            text = f"the answer of {self.team.lead.name!r} could not be used, also when asked again: {problem}"
            return Failure(member=self.team.lead.name, error="planning", message=text)
        return None
