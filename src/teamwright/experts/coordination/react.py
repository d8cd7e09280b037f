"""The react strategy: a lead decides on the next steps from what it has seen, and gives the answer at the end.

Steps are bound, evaluated and recovered as in every expert team. The lead is bounded: by the number of steps, by the
time of the team, and by the rule that a step which was done needs a new reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pydantic import JsonValue

from teamwright.agents.contract.agent import Agent, Context
from teamwright.experts.coordination.bound_plan import evaluation_of, evaluator_of_step, risk_flaws
from teamwright.experts.coordination.bound_roles import NO_ROLE, BoundRole, RoleBinding, possible_members
from teamwright.experts.coordination.next_steps import (
    FORM,
    StepsSoFar,
    decision_schema,
    example_decision,
    read_decision,
)
from teamwright.experts.coordination.options import ReactOptions
from teamwright.experts.coordination.plan_run import KEEP_GOING, run_within
from teamwright.experts.coordination.planner import NEW_ROLES, effective_roles, role_line
from teamwright.experts.coordination.react_team import ReactTeam
from teamwright.experts.coordination.step_board import StepBoard, with_role
from teamwright.experts.coordination.step_work import StepAssignment
from teamwright.strategies.parts import PartResults, part_turn
from teamwright.strategies.plan.step_options import EVALUATE
from teamwright.strategies.protocol import (
    STEERABLE,
    Arrow,
    ClosingAsk,
    Diagram,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
)
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.strategies.team_conversation import BUDGET, TeamConversation
from teamwright.values.events.team import TeamDecided, TeamReplyRejected
from teamwright.values.specs.plan import Role, Step
from teamwright.values.turns.messages import Conversation, Message
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

DECIDE = "decide"
ANSWER = "answer"
"""The id of the last step, in which the lead gives the answer."""
NO_RESULT = "There is no result of this step."
ANSWER_PREFACE = "Your team has worked on the task; the results of its steps stand above. Give the answer."


class React(Strategy):
    """Decisions of one lead, each on steps that run at once, until it has enough for the answer."""

    name = "react"
    version = 1
    options = ReactOptions
    unused = ("max_turns", "on_max_turns")
    interventions = (*STEERABLE, "add_member", "remove_member")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that there is someone to work besides the lead, and the evaluation at the risk of the team."""
        options = settings.read(ReactOptions)
        found = [*risk_flaws(options, ()), *_own_judge_flaws(options, members)]
        if members and not any(one.name != options.lead for one in members):
            found.append(Issue(f"'react' needs a member besides {options.lead!r}, who leads", ("lead",)))
        return found

    def lead(self, settings: Settings, members: Members) -> str:
        """Return the lead."""
        return settings.read(ReactOptions).lead

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead."""
        return [ClosingAsk(settings.read(ReactOptions).lead)]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the lead and the roles that it can use."""
        options = settings.read(ReactOptions)
        lead = Node(id="lead", agent=options.lead, label="decide")
        roles = effective_roles(options.roles, members, options.lead)
        nodes = [Node(id=name, agent=role.agent or "", label=name) for name, role in roles.items()]
        arrows = [Arrow(source=lead.id, to=node.id) for node in nodes]
        notes = (f"{options.risk} risk", f"at most {options.max_steps} steps", options.time_note)
        return Diagram(nodes=(lead, *nodes), arrows=tuple(arrows), notes=notes)

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a decision, if the turn asks for one."""
        return None if turn.output_schema is None else example_decision(turn.output_schema, turn.number)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Decide and work in turns, then answer, all within the timeout."""
        options = task.settings.read(ReactOptions)
        return await run_within(options.timeout, ReactRun(task, options, members, ctx), ctx)


def _own_judge_flaws(options: ReactOptions, members: Members) -> Iterator[Issue]:
    """Yield each judge that may work on a step, or gives the answer."""
    declared, workers = evaluation_of(Step(id=ANSWER), options), Members(_workers(options, members))
    roles = effective_roles({} if options.create_roles else options.roles, workers)
    authors = {options.lead, *possible_members(roles, workers)}
    for name in declared.judges if declared.asks_judges else ():
        if name in authors:
            yield Issue(f"{name!r} would judge its own work; name another judge", (EVALUATE,))


def _workers(options: ReactOptions, members: Members) -> list[Agent]:
    return [one for one in members if one.name != options.lead] or list(members)


class ReactRun:
    """One run of the strategy."""

    def __init__(self, task: Task, options: ReactOptions, members: Members, ctx: Context) -> None:
        self._task, self._options, self._members = task, options, members
        self._lead = members.named(options.lead)
        self._team = ReactTeam(options, Members(_workers(options, members)), ctx)
        self._results = PartResults(KEEP_GOING)
        self._board = StepBoard(self._results, options)
        self._so_far, self._view = StepsSoFar(), Conversation()
        self._view.extend(task.history)
        self._warnings: list[str] = []
        self._bound: dict[str, BoundRole] = {}
        self._announced: set[str] = set()
        self._is_short_of_budget = False
        self._failure: Failure | None = None
        self._terminated: Reply | None = None

    async def run(self, ctx: Context) -> None:
        """Let the lead decide and the others work, until the lead has enough, may not go on, or the team ends."""
        number = 0
        while self._left and not self._results.is_over:
            number += 1
            steps = await self._decide(number, ctx)
            if self._failure is not None or self._terminated is not None:
                return
            if not steps:
                break
            await self._work(steps, ctx)
        if not self._results.is_over:
            await self._answer(ctx)

    @property
    def _left(self) -> int:
        """How many steps the lead may still decide on."""
        return self._options.max_steps - len(self._so_far.steps)

    async def finish(self, ctx: Context, *, timed_out: bool) -> Outcome:
        """Return the outcome: the answer, or what there is without one."""
        await self._board.settle(ctx, timed_out=timed_out)
        talk, results = TeamConversation(self._task), self._results
        talk.warnings += self._warnings
        talk.short_of_budget = self._is_short_of_budget
        order = [*(step.id for step in self._so_far.steps), ANSWER]
        ended = results.finish(talk, order, closes=ANSWER in results.replies)
        if self._terminated is not None:
            talk.add(self._terminated)
            return talk.ended("terminated").changed(status="completed")
        if timed_out:
            ended = talk.failed(self._board.timeout_failure())
        elif self._failure is not None:
            return talk.failed(self._failure).changed(stop_reason="planning", status="failed")
        return self._board.with_status(ended or talk.ended("done"))

    async def _decide(self, number: int, ctx: Context) -> Sequence[Step]:
        """Return the next steps, none for the answer. A decision that can't be used is sent back once.

        A lead that still can't decide answers from what there is; without any result, the team fails in planning.
        """
        await self._team.take_changes(f"decision-{number}/{DECIDE}", ctx)
        problem = ""
        for place in (DECIDE, "decide-again"):
            reply = await ctx.ask(self._lead, self._decision_turn(number, problem), key=f"decision-{number}/{place}")
            if isinstance(reply, Failure):
                problem = f"{self._lead.name!r} failed ({reply.error}: {reply.message})"
                self._is_short_of_budget = reply.error == BUDGET
                break
            if reply.signal == "terminate":
                self._terminated = reply
                return ()
            self._warnings += reply.lasting_warnings
            read = self._read(reply.full)
            if not isinstance(read, ParseFailure):
                self._view.append(Message(name=self._lead.name, content=reply.text))
                await self._announce(read, number, ctx)
                return read
            problem = read.problem
            if place == DECIDE:
                await ctx.emit(TeamReplyRejected(member=self._lead.name, problem=problem))
                self._view.append(Message(name=self._lead.name, content=reply.text))
        self._give_up_deciding(problem)
        return ()

    def _give_up_deciding(self, problem: str) -> None:
        if self._results.replies or self._is_short_of_budget:
            self._warnings.append(f"there was no usable decision ({problem}), so the answer is from what there is")
        else:
            self._failure = Failure(member="", error="planning", message=f"there is no usable decision: {problem}")

    def _read(self, reply: Reply) -> Sequence[Step] | ParseFailure:
        """Return the steps of a decision, bound to members; or its mistakes."""
        create = self._options.create_roles
        read = read_decision(reply, list(self._team.roles), self._so_far, self._left, create_roles=create)
        if isinstance(read, ParseFailure):
            return read
        (steps, new_roles), planned = read
        if any(step.id == ANSWER for step in steps):
            return ParseFailure(f"{ANSWER!r} is the step in which you answer; name yours otherwise")
        binding = self._team.bind(self._so_far.steps, steps, new_roles)
        if binding.problems:
            return ParseFailure("; ".join(binding.problems))
        self._bound |= binding.by_step
        self._so_far.add(steps, planned)
        return steps

    async def _announce(self, steps: Sequence[Step], number: int, ctx: Context) -> None:
        """Record the decision, and each role that gets a member for the first time."""
        to = tuple(self._bound[step.id].agent.name for step in steps)
        action = "delegate" if steps else "synthesize"
        await ctx.emit(TeamDecided(by=self._lead.name, action=action, iteration=number, to=to))
        for fact in RoleBinding(self._bound, considered=self._team.names).facts():
            if fact.role not in self._announced:
                self._announced.add(fact.role)
                await ctx.emit(fact)

    async def _work(self, steps: Sequence[Step], ctx: Context) -> None:
        """Run steps side by side, and show their results to the lead."""
        for step in steps:
            self._board.add(step)
        async with ctx.branches(self._options.max_parallel, until=lambda: self._results.is_over) as branches:
            for step in steps:
                branches.start(step.id, partial(self._run_step, step, self._bound[step.id]))
        for step in steps:
            if step.id in self._results.replies:
                self._so_far.with_results.add(step.id)
            self._view.append(self._message_of(step.id))

    async def _run_step(self, step: Step, bound: BoundRole, ctx: Context) -> None:
        number = 1 + [one.id for one in self._so_far.steps].index(step.id)
        inputs = [self._message_of(need) for need in step.needs]
        turn = part_turn(self._task, number, inputs, None, own_task=step.task)
        await self._execute(step, bound.name, bound.role, bound.agent, turn, ctx)

    async def _answer(self, ctx: Context) -> None:
        """Let the lead give the answer, as a step that is evaluated like the others."""
        step, task = Step(id=ANSWER), self._task
        self._board.add(step)
        text, number = f"{ANSWER_PREFACE}\n\n{task.text}", len(self._so_far.steps) + 1
        turn = Turn(text, self._view.history(), number, attachments=task.attachments, closing=True)
        async with ctx.scope(ANSWER) as inner:
            await self._execute(step, "", NO_ROLE, self._lead, turn, inner)

    async def _execute(self, step: Step, role_name: str, role: Role, agent: Agent, turn: Turn, ctx: Context) -> None:
        """Work on a step and keep its result."""
        evaluator = evaluator_of_step(step, self._options, self._members)
        assignment = StepAssignment(step, role_name, role, evaluator, self._options.on_failure)

        async def work(ctx: Context, agent: Agent, turn: Turn) -> Reply | Failure:
            return await self._board.work(assignment, agent, turn, ctx)

        await self._results.run(step.id, agent, lambda: with_role(turn, assignment), ctx, work)

    def _message_of(self, step: str) -> Message:
        """Return the result of a step as a message under its id; for a failed step, that there is none."""
        reply = self._results.replies.get(step)
        if reply is None:
            return Message(name=step, content=NO_RESULT, role="user")
        return Message(name=step, content=reply.text) if reply.whole is None else reply.messages[-1].changed(name=step)

    def _decision_turn(self, number: int, problem: str) -> Turn:
        """Return the turn of the lead: what happened so far, its choices, and the task."""
        create = self._options.create_roles
        parts = [
            f"You lead a team. Decide what comes next. Answer with one JSON object:\n{FORM}",
            "The roles:\n" + "\n".join(f"- {role_line(name, role)}" for name, role in self._team.roles.items()),
            NEW_ROLES if create else "",
            f"At most {self._left} more steps. What stands above came of the steps so far, under their ids.",
            f"Your last answer could not be used: {problem}. Decide again." if problem else "",
            f"The task:\n{self._task.text}",
        ]
        return Turn(
            "\n\n".join(filter(None, parts)),
            self._view.history(),
            number,
            purpose="coordinate",
            output_schema=decision_schema(list(self._team.roles), create_roles=create),
            attachments=self._task.attachments,
        )
