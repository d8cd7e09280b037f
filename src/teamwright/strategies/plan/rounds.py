"""Rounds that the lead hands out: what it has heard, and what it is asked while the steps run.

The message of a failure is never forwarded; other members only learn that there is no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from msgspec.structs import replace

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.envelopes import limits_of
from teamwright.strategies.part_results import part_turn
from teamwright.strategies.plan.bound_roles import has_capability
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.schedule import batch_envelopes
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_board import StepInput
from teamwright.strategies.plan.steps.step_runner import Prelude, StepRunner
from teamwright.strategies.plan.steps.step_work import StepAssignment, Work
from teamwright.strategies.protocol import Task
from teamwright.values.events.team import TeamMessageSent
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import Conversation, Envelope, EnvelopeLimits, EnvelopeMessage, History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn


class WorkerPool:
    """The workers, `size` of them active: a step goes to the agent that it is bound to, or to the least busy worker."""

    def __init__(self, workers: Sequence[Agent], size: int) -> None:
        self.size = size
        self._running: Counter[str] = Counter()
        self._assigned: Counter[str] = Counter()
        self.set_workers(workers)

    def set_workers(self, workers: Sequence[Agent]) -> None:
        """Continue with these workers."""
        self._workers = workers
        self._order = {worker.name: place for place, worker in enumerate(workers)}

    def active(self, ctx: Context) -> Sequence[Agent]:
        """Return the workers that currently take steps without a named agent."""
        return self._workers[: ctx.cutback.width(self.size)]

    def acquire(self, ctx: Context, bound: Agent | None = None) -> Agent:
        """Assign a worker to a step that starts now: the one that it is bound to, if any."""
        return self._count(min(self.active(ctx), key=self._load) if bound is None else bound)

    def exchange(self, failed: Agent, assignment: StepAssignment) -> Agent:
        """Return the least busy other worker that can have the role of a step; the same one if there is no other.

        None of its judges takes it over.
        """
        able = (one for one in self._workers if one.name != failed.name and has_capability(one, assignment.role))
        others = [one for one in able if assignment.may_write(one)]
        if not others:
            return failed
        self.release(failed)
        return self._count(min(others, key=self._load))

    def release(self, worker: Agent) -> None:
        """Mark the step of a worker as finished."""
        self._running[worker.name] -= 1

    def _count(self, worker: Agent) -> Agent:
        self._running[worker.name] += 1
        self._assigned[worker.name] += 1
        return worker

    def _load(self, worker: Agent) -> tuple[int, int, int]:
        return self._running[worker.name], self._assigned[worker.name], self._order.get(worker.name, 0)


class Floor:
    """What the steps of a plan see, and what happens around them. This one: the results that they need, and notices.

    Others let the lead hand steps out, or all read one conversation.
    """

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context) -> None:
        self._state, self._task, self._runner, self._ctx = state, state.task, runner, ctx

    async def run(self, width: int, ctx: Context) -> None:
        """Run the steps that can run."""
        await self._runner.run(width, ctx)

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Continue with these steps."""

    def place_of(self, step: Step) -> str:
        """Return the branch that a step starts first."""
        return step.id

    def context(self, step: Step, member: str) -> Iterable[Message]:
        """Return what a member reads before the results that its step needs, besides notices about the plan."""
        return ()

    def make_turn(self, step_input: StepInput, member: str) -> Turn:
        """Return the turn of a member for a step."""
        step, number, own_task, inputs, output = step_input
        context = (*self._state.notices_for(member), *self.context(step, member))
        if not context:
            return part_turn(self._task, number, inputs, output, own_task=own_task)
        if output is not None and own_task is None and self._task.settings.share == "output":
            return Turn(output(), History.of(context), number)
        return part_turn(self._task, number, (*context, *inputs), output, own_task=own_task)

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def work(
        self, assignment: StepAssignment, member: Agent, turn: Turn, key: str, ctx: Context, task: str | None = None
    ) -> Work | Failure:
        """Ask a member for work on a step, or on a part of it with a `task` of its own."""
        reply = await ctx.ask(member, turn, key=key)
        return reply if isinstance(reply, Failure) else Work(member, turn, key, reply)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Do nothing."""


class OneConversation(Floor):
    """All steps are one conversation: earlier steps and their results precede each step."""

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context) -> None:
        super().__init__(state, runner, ctx)
        task = state.task
        self._conversation = Conversation()
        self._conversation.extend(task.history)
        self._has_team_task = False
        self._last_task = task.text
        self._unsent_files = self._last_files = task.attachments
        """The files of the task until they are in the conversation, and those of the last turn."""

    def make_turn(self, step_input: StepInput, member: str) -> Turn:
        """Return a turn with the earlier steps and results, then the task of the step or else of the team."""
        if self._task.settings.share == "output":
            return super().make_turn(step_input, member)
        if step_input.own_task is not None and not self._has_team_task:
            self._conversation.append(self._task.message)
            self._unsent_files = ()
        self._has_team_task = True
        self._last_task = self._task.text if step_input.own_task is None else step_input.own_task
        self._last_files = self._unsent_files if step_input.own_task is None else ()
        history = self._conversation.history()
        if notices := self._state.notices_for(member):
            history = History.of((*history, *notices))
        return Turn(self._last_task, history, step_input.number, attachments=self._last_files)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Add the step to the conversation, unless it failed."""
        if reply := self._state.results.replies.get(step.id):
            said = Message(name="user", content=self._last_task, role="user", attachments=self._last_files)
            self._conversation.append(said)
            self._conversation.extend(reply.messages)
            if self._last_files:
                self._unsent_files = ()


DEFAULT_LIMITS = EnvelopeLimits.model_construct()


class Lead:
    """The lead of a team with handouts.

    A failed coordination turn does not fail the team: it becomes a warning, and the work continues.
    """

    def __init__(self, state: PlanState) -> None:
        self._state, self._task = state, state.task
        self._turn_count = 0
        self._transcript = Conversation()
        self._transcript.extend(state.task.history)
        self._unseen: list[Message] = []
        self._last_briefing: tuple[Message, ...] = ()

    @property
    def agent(self) -> Agent:
        """Who leads now."""
        return self._state.team.lead

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Add messages of other members for its next turn."""
        for message in messages:
            self._transcript.append(message)
            self._unseen.append(message)

    async def brief(self, text: str, ctx: Context, key: str, besides: Iterable[Message] = ()) -> Message | None:
        """Return what the lead tells its workers; None if it said nothing or ended the team."""
        reply = await self.ask(text, ctx, key, besides=besides, envelope_limits=forwarded_limits(self._task))
        if reply is None or not reply.messages:
            return None
        self._last_briefing = reply.messages[-1:]
        self._transcript.extend(self._last_briefing)
        return reply.messages[-1]

    async def ask(
        self,
        text: str,
        ctx: Context,
        key: str,
        *,
        besides: Iterable[Message] = (),
        envelope_limits: EnvelopeLimits | None = None,
        output_schema: JsonSchema | None = None,
    ) -> Reply | None:
        """Ask the lead; return None if it failed or ended the team.

        With `share: transcript` it gets everything it has heard. Otherwise it gets only what is new and, with
        `share: a2a_lite`, its own last briefing and `besides`, so that its prompt does not grow with the work.
        """
        turn = replace(self._turn(text, self._history(besides), output_schema), envelope_limits=envelope_limits)
        self._unseen.clear()
        reply = await ctx.ask(self.agent, turn, key=key)
        if isinstance(reply, Failure) and not reply.optional:
            self._state.ended_by = reply
            return None
        return self._state.heard(reply)

    def answer_turn(self, text: str) -> Turn:
        """Return the turn in which the lead answers from everything that it has heard."""
        return replace(self._turn(text, self._transcript.history()), closing=True)

    def _history(self, besides: Iterable[Message]) -> History:
        match self._task.settings.share:
            case "transcript":
                return self._transcript.history()
            case "output":
                return History.of(self._unseen)
            case "a2a_lite":
                return History.of((*self._task.history, *self._last_briefing, *besides, *self._unseen))

    def _turn(self, text: str, history: History, schema: JsonSchema | None = None) -> Turn:
        self._turn_count += 1
        return replace(self._state.lead_turn(text, (), schema), history=history, number=self._turn_count)


def forwarded_limits(task: Task) -> EnvelopeLimits | None:
    """Return the envelope limits for replies that are forwarded to other members; None unless `share: a2a_lite`."""
    return DEFAULT_LIMITS if task.settings.share == "a2a_lite" else None


HAND_OUT = """\
You lead a team that works through a plan. Next come these steps:
{steps}

Tell those who work on them, in a few sentences, what they must know of what was done so far and what to look out for. \
They are told your words and the results that their steps need, and nothing else."""

LONGEST_TASK = 200

TASK = "task://"

ResultHandler = Callable[[Step, Agent, Context], Awaitable[None]]
"""Called with each result, before any dependent step starts."""


@dataclass(slots=True)
class Round:
    """Steps that are briefed together; `envelopes` are the messages for each step besides the briefing, by id."""

    number: int
    steps: Sequence[Step]
    envelopes: dict[str, Message] = field(default_factory=dict[str, Message])
    briefing: Message | None = None


class BriefedRounds(Floor):
    """The lead hands out rounds to the workers, and hears what came of them."""

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context, lead: Lead) -> None:
        super().__init__(state, runner, ctx)
        self.lead, self.runner = lead, runner
        self.on_result: ResultHandler | None = None
        self.notes: dict[str, list[Message]] = {}
        """Messages about a step, for its worker and for the steps that depend on it."""
        self._policy = state.options.policy
        self._rounds: dict[str, Round] = {}
        self._briefed: set[int] = set()
        self._unreported: list[str] = []

    async def run(self, width: int, ctx: Context) -> None:
        """Run the rounds, none of which waits for another, and tell the lead what came of them."""
        await super().run(width, ctx)
        self.report_to_lead()

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Put steps into rounds that are in none yet."""
        new = tuple(step for step in steps if step.id not in self._rounds)
        first = len(set(map(id, self._rounds.values())))
        for round_ in rounds_of(new, self._state, self._ctx, first):
            self._rounds |= {step.id: round_ for step in round_.steps}

    def place_of(self, step: Step) -> str:
        """Return the briefing of the round, unless it was given."""
        round_ = self._rounds[step.id]
        return step.id if round_.number in self._briefed else own_key(f"round-{round_.number}")

    def context(self, step: Step, member: str) -> Iterator[Message]:
        """Yield the envelope and the briefing of the round, and notes about the step and those that it needs."""
        if member != self.lead.agent.name:
            round_ = self._rounds[step.id]
            if step.id in round_.envelopes:
                yield round_.envelopes[step.id]
            if round_.briefing is not None:
                yield round_.briefing
        for id_ in (*step.needs, step.id):
            yield from self.notes.get(id_, ())

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return the briefing of the round, unless the lead itself works on the step."""
        if worker.name == self.lead.agent.name:
            return None
        round_ = self._rounds[step.id]
        return Prelude(own_key(f"round-{round_.number}"), partial(self._hand_out, round_))

    async def _hand_out(self, round_: Round, ctx: Context) -> None:
        """Report new results to the lead and get its briefing for the workers."""
        self._briefed.add(round_.number)
        needed = dict.fromkeys(need for step in round_.steps for need in step.needs)
        unreported = set(self._unreported)
        known = [
            self._state.outputs.message_of(need)
            for need in needed
            if need in self._state.results.replies and need not in unreported
        ]
        self.report_to_lead()
        text = HAND_OUT.format(steps="\n".join(map(_listed, round_.steps)))
        round_.briefing = await self.lead.brief(text, ctx, "hand-out", known)
        self._stop_if_ended()

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Record who told whom, resolve conflicts, and keep the result for the lead."""
        lead, replied = self.lead.agent.name, step.id in self._state.results.replies
        if worker.name != lead:
            round_ = self._rounds[step.id]
            count = (round_.briefing is not None) + (step.id in round_.envelopes)
            await ctx.emit(TeamMessageSent(by=lead, to=(worker.name,), round=round_.number, count=count))
            if replied:
                await ctx.emit(TeamMessageSent(by=worker.name, to=(lead,), round=round_.number))
        if replied and self.on_result is not None and not self._state.results.is_over:
            await self.on_result(step, worker, ctx)
            self._stop_if_ended()
        if replied or self._policy.on_failure == "collect":
            self._unreported.append(step.id)

    def round_number(self, step: str) -> int:
        """Return the number of the round of a step."""
        return self._rounds[step].number

    def report_to_lead(self) -> None:
        """Give the lead the results since the last report, in plan order."""
        self.lead.add_messages(
            map(self._state.outputs.message_of, sorted(self._unreported, key=self.runner.queue.numbers.__getitem__))
        )
        self._unreported.clear()

    def _stop_if_ended(self) -> None:
        if self._state.ended_by is not None:
            self._state.results.is_over = True


def _listed(step: Step) -> str:
    who = f" (for {step.agent})" if step.agent else ""
    shown = cut(" ".join((step.task or "").split()), LONGEST_TASK)
    return f"- {step.id}{who}{f': {shown}' if shown else ''}"


def rounds_of(steps: tuple[Step, ...], state: PlanState, ctx: Context, first: int) -> Sequence[Round]:
    """Return a round for each batch, in which each step gets the envelope that points at it; or one for each step."""
    if not steps:
        return []
    ids = {step.id: step for step in steps}
    plan = Plan(
        steps=tuple(step.model_copy(update={"needs": tuple(filter(ids.__contains__, step.needs))}) for step in steps)
    )
    schedule = state.options.schedule_for(state.members, plan.steps)
    if state.options.handout == "step":
        return [Round(first + at, [ids[id_]]) for at, id_ in enumerate(schedule.order, start=1)]
    task = state.task
    envelopes = batch_envelopes(ctx.workspace.run_id, schedule, plan, limits_of(task.settings.envelope))
    messages = dict(chain.from_iterable(_pointers(envelope, state.team.lead) for envelope in envelopes))
    return [
        Round(
            first + batch.index + 1,
            [ids[id_] for id_ in batch.tasks],
            {id_: messages[id_] for id_ in batch.tasks},
        )
        for batch in schedule.batches
    ]


def _pointers(envelope: Envelope, lead: Agent) -> Sequence[tuple[str, EnvelopeMessage]]:
    message = EnvelopeMessage.of(envelope, lead.name, ())
    return [(pointer.removeprefix(TASK), message) for pointer in envelope.artifacts]
