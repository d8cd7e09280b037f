"""How a plan is answered: by a step, by the lead, or by one agent that finishes what the team could not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, cast

from msgspec.structs import replace
from pydantic import JsonValue

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.plan.bound_plan import evaluator_of_step, ladder_of
from teamwright.strategies.plan.bound_roles import NO_ROLE
from teamwright.strategies.plan.discussion import Discussion
from teamwright.strategies.plan.options import ANSWER, PlanOptions, own_key
from teamwright.strategies.plan.planned_steps import TEXT, Lenient, read_form
from teamwright.strategies.plan.rounds import Floor, Lead
from teamwright.strategies.plan.schedule import StepGraph
from teamwright.strategies.plan.schedule_maker import nodes_of
from teamwright.strategies.plan.state import NOTICE, PlanState
from teamwright.strategies.plan.steps.step_board import StepBoard
from teamwright.strategies.plan.steps.step_runner import StepRunner
from teamwright.strategies.plan.steps.step_work import StepAssignment
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.team_conversation import BUDGET, OWN_REASONS, TeamConversation, is_unaffordable
from teamwright.values.events.team import TeamPlanStatus
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.results import Outcome, StopReason
from teamwright.values.turns.turn import Failure, Reply, Turn

DECIDE_TASK = (
    'Your team has debated; what was said stands above. Decide. Answer with one JSON object: "options" are the ways'
    ' that were considered, each in a few words; "chosen" is one of them, word for word; "reasons" say why;'
    ' "dissent" has each member who is against it, with what it says. Leave out no objection that was made.'
)


class Dissent(Lenient):
    """What a member says against a decision."""

    member: str
    says: str


class DebateDecision(Lenient):
    """What was decided, and how."""

    options: tuple[str, ...]
    chosen: str
    reasons: tuple[str, ...]
    dissent: tuple[Dissent, ...] = ()


def decision_schema(members: Collection[str]) -> JsonSchema:
    """Return the schema of a decision of these members."""
    texts: JsonValue = {"type": "array", "minItems": 1, "items": TEXT}
    names = cast("list[JsonValue]", list(members))
    against: JsonValue = {
        "type": "object",
        "properties": {"member": {"type": "string", "enum": names}, "says": TEXT},
        "required": ["member", "says"],
    }
    return {
        "type": "object",
        "properties": {
            "options": texts,
            "chosen": TEXT,
            "reasons": texts,
            "dissent": {"type": "array", "items": against},
        },
        "required": ["options", "chosen", "reasons", "dissent"],
    }


def decision_of(reply: Reply, members: Collection[str]) -> JsonValue | ParseFailure:
    """Return the decision in a reply as data, or why it is invalid."""
    found = read_form(reply.full, DebateDecision)
    if isinstance(found, ParseFailure):
        return found
    problems = [] if any(map(str.strip, found.reasons)) else ["it gives no reasons"]
    if not found.chosen.strip():
        problems.append("it chooses nothing")
    elif found.chosen not in found.options:
        problems.append(f"it chooses {found.chosen!r:.100}, which is none of its options")
    strangers = dict.fromkeys(one.member for one in found.dissent if one.member not in members)
    problems += [f"{name!r:.100}, who is against it, is not of the team" for name in strangers]
    return ParseFailure("; ".join(problems)) if problems else cast("JsonValue", found.model_dump(mode="json"))


ANSWER_KEY = own_key("answer")
ANSWER_TASK = "Your team has worked through its plan; what came of the steps stands above. Put the answer together."
FINISH = (
    "The team could not finish its plan, and you finish the task alone. What it has learnt is above; check it before"
    " you use it."
)


def closer_of(steps: Sequence[Step], options: PlanOptions) -> str | None:
    """Return the step that closes the work of several where no lead does: the one that gives the answer.

    That is the one that is declared, or else the only one that no other needs; in one conversation it is the last one.
    """
    if options.lead_answers or len(steps) < 2:
        return None
    if options.sees == "all":
        return StepGraph.from_nodes(nodes_of(steps)).order[-1]
    needed = {need for step in steps for need in step.needs}
    ends = [step.id for step in steps if step.id not in needed]
    closer = options.answer_step or (ends[0] if len(ends) == 1 else None)
    return closer if closer in ends else None


class PlanAnswer:
    """The answer of a team, and its outcome."""

    def __init__(
        self, state: PlanState, board: StepBoard | None, floor: Floor, lead: Lead | None, runner: StepRunner
    ) -> None:
        self._state, self._board, self._floor, self._runner = state, board, floor, runner
        self._lead = lead
        """The lead that hands out steps, with what it has heard."""
        self._ended: Outcome | None = None
        self._finished: Reply | Failure | None = None
        self._undecided: Failure | None = None
        self._abandoned: str | None = None
        self._reason = ""
        self.earlier: set[str] = set()
        """Steps that had ended when the lead planned again; the answer is among those after them."""
        self.shown: set[str] = set()
        """The steps whose results a lead that decides stepwise has seen."""

    @property
    def is_abandoned(self) -> bool:
        """Whether the plan is left to one agent."""
        return self._abandoned is not None

    def abandon(self, step: str, reason: str) -> None:
        """Leave the plan to one agent, because of a step."""
        self._abandoned = step
        self._reason = reason

    def undecided(self, failure: Failure) -> None:
        """Note that a lead gave no usable decision: the answer is from what there is, if there is something."""
        self._undecided = failure
        self._state.is_short_of_budget |= failure.error == BUDGET
        self._note_undecided()

    def _note_undecided(self) -> None:
        """Warn that the answer is from what there is; people may have added steps after the lead decided on none."""
        if self._undecided is not None and not self._is_without_answer:
            text = f"there was no usable decision ({self._undecided.message}), so the answer is from what there is"
            self._state.warn([text])

    @property
    def _is_without_answer(self) -> bool:
        """Whether the lead gave no usable decision, and there is nothing else to answer from."""
        if self._undecided is None or self._undecided.error == BUDGET:
            return False
        return not (self._state.results.replies or self.is_abandoned)

    @property
    def follows(self) -> bool:
        """Whether someone still has to answer."""
        state = self._state
        if state.ended_by is not None or self._is_without_answer or state.results.is_over:
            return False
        return self.is_abandoned or (state.options.lead_answers and not self._has_failed)

    @property
    def _has_failed(self) -> bool:
        """Whether a step has failed the team; what the budget did not cover does not, where an answer follows."""
        results = self._state.results
        return any(results.is_fatal(step) and failure.error != BUDGET for step, failure in results.failures.items())

    async def give(self, ctx: Context, place: str) -> None:
        """Let the lead answer, or one agent finish, where one has to; `place` is where the steps have ended."""
        state = self._state
        if self._board is None and state.options.lead_answers and not self.is_abandoned:
            self._ended = await self._answer_at_once(place or ANSWER_KEY, ctx)
            return
        self._note_undecided()
        if not self.follows:
            return
        if not self.is_abandoned and self._board is not None and self._history():
            await self._answer_as_step(self._board, ctx)
        if self.is_abandoned:
            if self._abandoned in ("", ANSWER):  # before there were steps, or after them
                version = 1 if state.versions is None else state.plan.version
                await ctx.emit(TeamPlanStatus(status="fallback", plan_version=version, reason=self._reason))
            note = Message(name=NOTICE, content=FINISH, role="user")
            learnt = [*state.learnt(self._order, unreviewed=True), *self._messages_to(state.team.finisher)]
            turn = Turn(
                state.task.text,
                History.of((*state.task.history, *learnt, note)),
                1,
                attachments=state.task.attachments,
                closing=True,
            )
            self._finished = await ctx.ask(state.team.finisher, turn, key=own_key("finish"))

    async def close_plan(self, outcome: Outcome) -> None:
        """Record how the plan ended, if its status is recorded; one that was left to one agent has its last already."""
        versions = self._state.versions
        if versions is None or self.is_abandoned:
            return
        if self._board is None and versions.status != "confirmed":
            return
        unpaid = any(map(is_unaffordable, self._state.results.failures.values()))
        reason = "the budget did not cover it" if unpaid else ""
        await versions.set_status("failed" if unpaid or outcome.failure is not None else "completed", reason)

    async def _answer_at_once(self, key: str, ctx: Context) -> Outcome:
        """Let the lead answer in one ask, in a team that keeps no states of steps; return the outcome."""
        state, talk, by = self._state, TeamConversation(self._state.task), self._state.ended_by
        self._note_cut_off()
        ended = state.results.finish(talk, self._order, closes=True)
        talk.warnings += state.warnings
        talk.short_of_budget |= state.is_short_of_budget
        if ended is not None:
            return _degraded(ended.changed(warnings=tuple(talk.warnings)))
        if is_unaffordable(by):
            talk.cut_short(by)
        elif isinstance(by, Failure):
            return talk.failed(by)
        if isinstance(by, Reply):
            talk.add(by)
            return _degraded(talk.ended("terminated"))
        if not state.results.replies:
            return talk.ended("done", "every step was skipped")
        if self._lead is None:
            turn = state.lead_turn(ANSWER_TASK, self._history(), closing=True)
        else:
            turn = self._lead.answer_turn(ANSWER_TASK)
        if state.task.settings.share == "output":
            turn = replace(turn, history=History.of(map(state.outputs.message_of, state.outputs.final_steps)))
        return talk.receive(await ctx.ask(state.team.lead, turn, key=key)) or talk.ended("done")

    async def _answer_as_step(self, board: StepBoard, ctx: Context) -> None:
        """Let the lead answer in a step of its own, which is reviewed and recovered like the others."""
        state, step = self._state, Step(id=ANSWER, required=True)
        board.keep([*self._runner.queue.steps.values(), step])
        text, schema, lead = ANSWER_TASK, None, state.team.lead.name
        if state.options.decides:
            text, schema = DECIDE_TASK, decision_schema(state.members.names)
            if any(lead in (one.members or (one.agent.name,)) for one in board.executions.values()):
                problem = f"{lead!r} would decide on its own proposal; name a lead that works on no step"
                state.results.failures[ANSWER] = Failure(member=lead, error="planning", message=problem)
                return
        turn = replace(state.lead_turn(text, self._history(), schema, closing=True), purpose="work")
        evaluator = evaluator_of_step(step, state.options, state.members)
        ladder = ladder_of(state.options).without_adjustments()
        assignment = StepAssignment(step, "", NO_ROLE, evaluator, ladder)
        async with ctx.scope(ANSWER) as inner:
            ending = await board.work(assignment, inner, state.team.lead, turn)
        if isinstance(ending, Reply):
            state.results.replies[ANSWER] = ending
        else:
            state.results.failures[ANSWER] = ending
            if board.executions[ANSWER].abandons_plan:
                state.warn([f"the answer of {state.team.lead.name!r} failed ({ending.error}: {ending.message})"])
                self.abandon(ANSWER, "the answer failed")

    def _history(self) -> Sequence[Message]:
        """Return what the lead sees when it answers."""
        state = self._state
        given = len(state.task.history)
        if isinstance(self._floor, Discussion) and state.options.sees == "all":
            return list(self._floor.conversation.history())[given:]
        if state.options.decide == "stepwise":
            unseen = [step for step in self._order if step not in self.shown]  # of people, after the last decision
            known = [*list(state.view.history())[given:], *state.learnt(unseen)]
        else:
            known = state.learnt(self._order)
        return known and [*known, *self._messages_to(state.team.lead)]

    def _messages_to(self, member: Agent) -> list[Message]:
        """Return what members have told one who closes the work."""
        return self._floor.messages_to(member.name) if isinstance(self._floor, Discussion) else []

    @property
    def _order(self) -> list[str]:
        """The steps as they come in the conversation: by their needs, or as they were decided on."""
        stepwise = self._state.options.decide == "stepwise"
        return sorted(self._runner.queue.steps if stepwise else self._state.outputs.graph.order, key=self._is_late)

    def _is_late(self, step: str) -> bool:
        return step not in self.earlier

    async def outcome(self, ctx: Context, *, timed_out: bool) -> Outcome:
        """Settle steps that did not end, and return the outcome of the team."""
        state, board = self._state, self._board
        if self._ended is not None:
            return self._ended
        if not timed_out:
            self._note_cut_off()
        if board is not None:
            await board.settle(ctx, timed_out=timed_out)
        talk = TeamConversation(state.task)
        talk.warnings += (*state.warnings, *(board.warnings if board is not None else ()))
        talk.short_of_budget = state.is_short_of_budget
        has_answered = ANSWER in state.results.failures or (board is not None and ANSWER in board.executions)
        own = has_answered and ANSWER not in self._order  # no step has the name
        order = [*self._order, ANSWER] if own else self._order
        answer, done = state.options.answer_step, [step for step in order if step in state.results.replies]
        if done:  # work without a result, which no review has let pass, is never the last word
            last = answer if answer in state.results.replies else done[-1]
            order = [*(step for step in order if step != last), last]
        if self.is_abandoned and (timed_out or self._finished is not None):
            return self._finish_alone(talk, order)
        stopped = self._runner.queue.skipped  # by a person, where there is work
        before = {step: state.work_on(step) for step in order if step in state.said and step not in stopped}
        for step, said in before.items():
            before[step] = [reply for reply in said if reply is not state.results.replies.get(step)]
        closes = self._state.outputs.has_closed or ANSWER in state.results.replies
        ended = state.results.finish(talk, order, closes=closes, before=before)
        if isinstance(state.ended_by, Failure) and ended is None:
            ended = talk.failed(state.ended_by)
        if isinstance(state.ended_by, Reply) and state.results.failures.keys().isdisjoint(state.results.required):
            talk.add(state.ended_by)
            ended = _degraded(talk.ended("terminated"))
            return ended if board is None else ended.changed(status="degraded" if talk.warnings else "completed")
        if timed_out and board is not None:
            if state.versions is None:
                text = state.options.out_of_time(" before it had a plan")
                return planning_outcome(Failure(member="", error="deadline", message=text))
            ended = talk.failed(board.timeout_failure())
        elif self._undecided is not None and self._is_without_answer:
            message = f"there is no usable decision: {self._undecided.message}"
            return talk.failed(Failure(member="", error="planning", message=message)).changed(status="failed")
        elif ended is None:
            ended = self._ended_well(talk, answer)
        ended = _degraded(ended)
        return ended if board is None else board.with_status(ended)

    def _note_cut_off(self) -> None:
        """Fail required steps that a reply left without a result when it ended the team, and warn of cut off reviews.

        `terminate` ends a turn, and never what has to be done or reviewed.
        """
        state, queue = self._state, self._runner.queue
        by = state.results.terminated_by
        reply = state.results.replies[by] if by is not None else state.ended_by
        if not isinstance(reply, Reply):
            return
        author = reply.full.messages[-1].name if reply.full.messages else ""
        for step in queue.steps.values():
            if step.id in queue.ended:
                continue
            if step.required:
                text = f"it is required, and {author!r} ended the team before it had a result"
                member = step.agent or step.id
                state.results.failures[step.id] = Failure(member=member, error="needs", message=text)
            elif step.id in queue.running and state.is_reviewed(step.id):
                state.warn([f"the step {step.id!r} was cut off before its review was over: {author!r} ended the team"])

    def _ended_well(self, talk: TeamConversation, answer: str | None) -> Outcome:
        replies, options = self._state.results.replies, self._state.options
        if not replies:
            talk.warnings.append("every step was skipped")
        elif answer is not None and answer not in replies:
            talk.warnings.append(f"the step {answer!r}, which gives the answer, was skipped")
        ended = talk.ended("done")
        if options.decides and ANSWER in replies:
            return ended.changed(data=replies[ANSWER].data)
        if options.lead_answers or options.sees == "all":
            return ended
        return ended.changed(data=self._state.outputs.answer_data(answer))

    def _finish_alone(self, talk: TeamConversation, order: Sequence[str]) -> Outcome:
        """Return the outcome of a team whose task one agent finished; what failed before is a warning."""
        state = self._state
        for step in order:
            found = (*state.work_on(step), *filter(None, (state.results.replies.get(step),)))
            for reply in {id(one): one for one in found}.values():
                talk.add(reply)
        ending = self._finished
        if ending is None:  # the time was used up
            ended = talk.failed(self._board.timeout_failure()) if self._board is not None else talk.ended("done")
        else:
            ended = talk.receive(ending)
            if ended is None or isinstance(ending, Reply):  # a signal of the last one ends nothing more
                ended = talk.ended("done")
        return ended if self._board is None else self._board.with_status(ended)


def _degraded(outcome: Outcome) -> Outcome:
    """Return the outcome of a team that a member has ended: with warnings, it is done and no more."""
    is_short = outcome.stop_reason == "terminated" and bool(outcome.warnings)
    return outcome.changed(stop_reason="done") if is_short else outcome


def planning_outcome(failure: Failure, warnings: Sequence[str] = ()) -> Outcome:
    """Return the outcome of a team that ended before it had a plan."""
    reason = cast("StopReason", failure.error if failure.error in OWN_REASONS else "error")
    status: Literal["timeout", "degraded", "failed"] = "failed"
    if reason in ("deadline", BUDGET):
        status = "timeout" if reason == "deadline" else "degraded"
    return Outcome(stop_reason=reason, failure=failure, warnings=tuple(warnings), status=status)
