"""A lead in the middle: it hands out round after round to workers who hear of nobody else.

A round is handed out when the first of its steps is about to begin, and a step waits for that and for what it needs. No
round waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.strategies.plan.lead import Lead, LeadOptions, WorkerPool, told_turn
from teamwright.strategies.plan.step_runner import Flow, Opening, StepInput
from teamwright.strategies.protocol import Task
from teamwright.values.events.team import TeamTold
from teamwright.values.specs.plan import Step
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn

HAND_OUT = """\
You lead a team that works through a plan. Next come these steps:
{steps}

Tell those who work on them, in a few sentences, what they must know of what was done so far and what to look out for. \
They are told your words and the results that their steps need, and nothing else."""

LONGEST_TASK = 200

Settle = Callable[[Step, Agent, Context], Awaitable[None]]
"""What is to be done about a result before anybody builds on it."""


@dataclass(slots=True)
class Round:
    """Steps that are handed out together; `told` is what each is told beside the lead's word, by its id."""

    number: int
    steps: Sequence[Step]
    told: dict[str, Message] = field(default_factory=dict[str, Message])
    word: Message | None = None


class Hub:
    """The crew of a lead and its workers."""

    def __init__(
        self, task: Task, options: LeadOptions, lead: Lead, workers: WorkerPool, rounds: Sequence[Round]
    ) -> None:
        self.lead = lead
        self.flow = Flow(task, options.steps, options, self)
        self.settle: Settle | None = None
        self.notes: dict[str, list[Message]] = {}
        """What else is to be known about a step: by whoever works on it, and by those who build on it."""
        self._task, self._policy, self._workers = task, options, workers
        self._rounds = {step.id: one for one in rounds for step in one.steps}
        self._news: list[str] = []

    def worker(self, step: Step, ctx: Context) -> Agent:
        """Whom it names, or who has least to do."""
        return self._workers.take(step, ctx)

    def turn(self, part: StepInput) -> Turn:
        """What the lead says, what is to be known about the steps it builds on, and what they came to."""
        return told_turn(self._task, part, list(self._told(part.step)))

    def _told(self, step: Step) -> Iterator[Message]:
        if self.flow.workers[step.id].name != self.lead.agent.name:
            one = self._rounds[step.id]
            if step.id in one.told:
                yield one.told[step.id]
            if one.word is not None:
                yield one.word
        for id_ in (*step.needs, step.id):
            yield from self.notes.get(id_, ())

    def opening(self, step: Step, worker: Agent) -> Opening | None:
        """The round of a step has to be handed out to whoever is not the lead."""
        if worker.name == self.lead.agent.name:
            return None
        one = self._rounds[step.id]
        return Opening(f"lead/round-{one.number}", partial(self._hand_out, one))

    async def _hand_out(self, one: Round, ctx: Context) -> None:
        """Let the lead hear what is new, and say what its workers must know."""
        parts = self.flow.parts
        needed = dict.fromkeys(need for step in one.steps for need in step.needs)
        known = [self.flow.message(need) for need in needed if need in parts.replies and need not in self._news]
        self.tell_the_lead()
        text = HAND_OUT.format(steps="\n".join(map(_listed, one.steps)))
        one.word = await self.lead.say(text, ctx, "hand-out", known)
        self._see_whether_it_is_over()

    async def after(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Take in what came of a step, for the lead."""
        self._workers.done(worker)
        lead, replied = self.lead.agent.name, step.id in self.flow.parts.replies
        if worker.name != lead:
            one = self._rounds[step.id]
            count = (one.word is not None) + (step.id in one.told)
            await ctx.emit(TeamTold(by=lead, to=(worker.name,), round=one.number, count=count))
            if replied:
                await ctx.emit(TeamTold(by=worker.name, to=(lead,), round=one.number))
        if replied and self.settle is not None and not self.flow.parts.over:
            await self.settle(step, worker, ctx)
            self._see_whether_it_is_over()
        if replied or self._policy.on_failure == "collect":
            self._news.append(step.id)

    def round_of(self, step: str) -> int:
        """The number of the round of a step."""
        return self._rounds[step].number

    def tell_the_lead(self) -> None:
        """Let the lead hear what has come since it was told last, in the order of the plan."""
        self.lead.hear(map(self.flow.message, sorted(self._news, key=self.flow.number)))
        self._news.clear()

    def _see_whether_it_is_over(self) -> None:
        if self.lead.ended is not None:
            self.flow.parts.over = True


def _listed(step: Step) -> str:
    who = f" (for {step.agent})" if step.agent else ""
    shown = cut(" ".join((step.task or "").split()), LONGEST_TASK)
    return f"- {step.id}{who}{f': {shown}' if shown else ''}"
