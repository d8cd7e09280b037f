"""A lead in the middle: it hands out round after round to workers who hear of nobody else.

A round is handed out when the first of its steps could begin, and a step waits for that and for what it needs. No
round waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import anyio

from teamwright.agents.protocol import Agent, Context
from teamwright.strategies.flow import Flow, Part
from teamwright.strategies.leading import Lead, LeadOptions, Workers, told_turn
from teamwright.strategies.protocol import Task
from teamwright.values.events import TeamTold
from teamwright.values.messages import Message
from teamwright.values.plan import Step
from teamwright.values.turns import Turn

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
    begun: bool = False
    word: Message | None = None
    open: anyio.Event = field(default_factory=anyio.Event)


class Hub:
    """The crew of a lead and its workers."""

    def __init__(self, task: Task, options: LeadOptions, lead: Lead, workers: Workers, rounds: Sequence[Round]) -> None:
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

    def turn(self, part: Part) -> Turn:
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

    async def before(self, step: Step, worker: Agent, ctx: Context) -> bool:
        """Wait until the round of a step is handed out; whoever comes first has it handed out."""
        if worker.name == self.lead.agent.name:
            return True
        one = self._rounds[step.id]
        if not one.begun:
            one.begun = True
            try:
                await self._hand_out(one, ctx)
            finally:
                one.open.set()
        await one.open.wait()
        if self._over:
            return False
        count = (one.word is not None) + (step.id in one.told)
        await ctx.emit(TeamTold(by=self.lead.agent.name, to=(worker.name,), round=one.number, count=count))
        return True

    async def after(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Take in what came of a step, for the lead."""
        self._workers.done(worker)
        if step.id in self.flow.parts.replies:
            if worker.name != self.lead.agent.name:
                fact = TeamTold(by=worker.name, to=(self.lead.agent.name,), round=self.round_of(step.id))
                await ctx.emit(fact)
            if self.settle is not None and not self._over:
                await self.settle(step, worker, ctx)
        elif self._policy.on_failure != "collect":
            return
        self._news.append(step.id)

    def round_of(self, step: str) -> int:
        """The number of the round of a step."""
        return self._rounds[step].number

    def tell_the_lead(self) -> None:
        """Let the lead hear what has come since it was told last, in the order of the plan."""
        self.lead.hear(map(self.flow.message, sorted(self._news, key=self.flow.number)))
        self._news.clear()

    @property
    def _over(self) -> bool:
        """Whether nothing more is to be begun."""
        if self.lead.ended is not None:
            self.flow.parts.over = True
        return self.flow.parts.over

    async def _hand_out(self, one: Round, ctx: Context) -> None:
        if self._over:
            return
        self.tell_the_lead()
        text = HAND_OUT.format(steps="\n".join(map(_listed, one.steps)))
        one.word = await self.lead.say(text, ctx, key=f"round-{one.number}")


def _listed(step: Step) -> str:
    who = f" (for {step.agent})" if step.agent else ""
    task = " ".join((step.task or "").split())
    shown = task if len(task) <= LONGEST_TASK else task[: LONGEST_TASK - 1] + "…"
    return f"- {step.id}{who}{f': {shown}' if shown else ''}"
