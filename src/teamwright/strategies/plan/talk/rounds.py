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
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.schedule.schedule import batch_envelopes
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_runner import Prelude, StepRunner
from teamwright.strategies.plan.talk.lead import Lead
from teamwright.strategies.plan.workers import Floor
from teamwright.values.events.team import TeamMessageSent
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.text.display import cut
from teamwright.values.turns.envelope import Envelope, EnvelopeMessage
from teamwright.values.turns.messages import Message

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
