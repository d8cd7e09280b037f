"""Plans that run in rounds: the batches of a schedule, of which a lead briefs the workers one after the other.

A round is briefed when the first of its steps is about to start, and its steps wait for that and for what they need. No
round waits for the previous one. Workers exchange messages only with the lead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.envelopes import limits_of
from teamwright.strategies.plan.lead import Lead, turn_with_context
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import Schedule, batch_envelopes
from teamwright.strategies.plan.step_runner import Prelude, StepInput, StepRunner
from teamwright.strategies.plan.workers import WorkerPool
from teamwright.strategies.protocol import Task
from teamwright.values.events.team import TeamMessageSent
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import cut
from teamwright.values.turns.envelope import Envelope, EnvelopeMessage
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn

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


class BriefedRounds:
    """The hooks of a lead and its workers."""

    def __init__(
        self, task: Task, options: PlanOptions, lead: Lead, workers: WorkerPool, rounds: Sequence[Round]
    ) -> None:
        self.lead = lead
        self.runner = StepRunner(task, options.steps, options, self)
        self.on_result: ResultHandler | None = None
        self.notes: dict[str, list[Message]] = {}
        """Messages about a step, for its worker and for the steps that depend on it."""
        self._task, self._policy, self._workers = task, options, workers
        self._rounds = {step.id: round_ for round_ in rounds for step in round_.steps}
        self._unreported: list[str] = []

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent that the step names, or else the least busy worker."""
        return self._workers.acquire(step, ctx)

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return a turn with the briefing, notes about the needed steps, and their results."""
        return turn_with_context(self._task, step_input, list(self._context(step_input.step)))

    def _context(self, step: Step) -> Iterator[Message]:
        if self.runner.workers[step.id].name != self.lead.agent.name:
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
        return Prelude(f"lead/round-{round_.number}", partial(self._hand_out, round_))

    async def _hand_out(self, round_: Round, ctx: Context) -> None:
        """Report new results to the lead and get its briefing for the workers."""
        results = self.runner.results
        needed = dict.fromkeys(need for step in round_.steps for need in step.needs)
        unreported = set(self._unreported)
        known = [
            self.runner.outputs.message_of(need)
            for need in needed
            if need in results.replies and need not in unreported
        ]
        self.report_to_lead()
        text = HAND_OUT.format(steps="\n".join(map(_listed, round_.steps)))
        round_.briefing = await self.lead.brief(text, ctx, "hand-out", known)
        self._stop_if_ended()

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Record who told whom, resolve conflicts, and keep the result for the lead."""
        self._workers.release(worker)
        lead, replied = self.lead.agent.name, step.id in self.runner.results.replies
        if worker.name != lead:
            round_ = self._rounds[step.id]
            count = (round_.briefing is not None) + (step.id in round_.envelopes)
            await ctx.emit(TeamMessageSent(by=lead, to=(worker.name,), round=round_.number, count=count))
            if replied:
                await ctx.emit(TeamMessageSent(by=worker.name, to=(lead,), round=round_.number))
        if replied and self.on_result is not None and not self.runner.results.is_over:
            await self.on_result(step, worker, ctx)
            self._stop_if_ended()
        if replied or self._policy.on_failure == "collect":
            self._unreported.append(step.id)

    def round_number(self, step: str) -> int:
        """Return the number of the round of a step."""
        return self._rounds[step].number

    def report_to_lead(self) -> None:
        """Give the lead the results since the last report, in plan order."""
        self.lead.add_messages(map(self.runner.outputs.message_of, sorted(self._unreported, key=self.runner.position)))
        self._unreported.clear()

    def _stop_if_ended(self) -> None:
        if self.lead.ended is not None:
            self.runner.results.is_over = True


def _listed(step: Step) -> str:
    who = f" (for {step.agent})" if step.agent else ""
    shown = cut(" ".join((step.task or "").split()), LONGEST_TASK)
    return f"- {step.id}{who}{f': {shown}' if shown else ''}"


def rounds_of(schedule: Schedule, options: PlanOptions, lead: Agent, task: Task, ctx: Context) -> Sequence[Round]:
    """Return a round for each batch, in which each step gets the envelope that points at it."""
    plan = Plan(steps=options.steps)
    envelopes = batch_envelopes(ctx.workspace.run_id, schedule, plan, limits_of(task.settings.envelope))
    messages = dict(chain.from_iterable(_pointers(envelope, lead) for envelope in envelopes))
    steps = {step.id: step for step in plan.steps}
    return [
        Round(
            batch.index + 1,
            [steps[id_] for id_ in batch.tasks],
            {id_: messages[id_] for id_ in batch.tasks},
        )
        for batch in schedule.batches
    ]


def _pointers(envelope: Envelope, lead: Agent) -> Sequence[tuple[str, EnvelopeMessage]]:
    message = EnvelopeMessage.of(envelope, lead.name, ())
    return [(pointer.removeprefix(TASK), message) for pointer in envelope.artifacts]
