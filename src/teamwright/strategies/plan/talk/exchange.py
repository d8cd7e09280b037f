"""Workers that all exchange messages: after every round each sees the results of the others and may respond.

Only in this strategy does a round wait for the previous one: its messages are the input of the exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_runner import StepRunner
from teamwright.strategies.plan.talk.lead import Lead, forwarded_limits
from teamwright.strategies.plan.talk.rounds import Round, rounds_of
from teamwright.strategies.plan.workers import Floor, WorkerPool
from teamwright.values.events.team import TeamMessageSent
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Reply, Turn

HEAR = """\
You and others work side by side through a plan. Above stands what came of this round, yours among it. Tell the \
others, in a few sentences, what of it they have to know or to change before they go on, or that there is nothing.

The task of the team:
{task}"""


class Exchange(Floor):
    """Workers exchange messages after each round, which the next one waits for."""

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context, lead: Lead, workers: WorkerPool) -> None:
        super().__init__(state, runner, ctx)
        self._policy, self._lead, self._workers = state.options.policy, lead, workers
        self._rounds: list[Round] = []
        self._next = 0
        self._round = Round(0, ())
        self._peer_messages: dict[str, Message] = {}

    async def run(self, width: int, ctx: Context) -> None:
        """Run the rounds, each with an exchange after it."""
        while self._next < len(self._rounds):
            round_ = self._rounds[self._next]
            await self.run_round(round_, ctx)
            queue = self._runner.queue
            left = queue.open & {step.id for step in round_.steps}
            if self._state.results.is_over or (left and self._runner.is_held):
                break
            self._next += 1
            if left:  # since the plan has changed, they need steps of later rounds
                waiting = tuple(step for step in queue.steps.values() if step.id in queue.open)
                self._rounds[self._next :] = rounds_of(waiting, self._state, self._ctx, self._next)
            for number in range(1, self._state.options.rounds_of_talk + 1):
                await self.exchange(round_, number, ctx)
            if self._state.ended_by is not None:
                self._state.results.is_over = True
                break
            if self._runner.is_held:
                break

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Put steps that have not begun into rounds, unless they are in one that is not over."""
        known = {step.id for round_ in self._rounds[self._next :] for step in round_.steps}
        new = tuple(step for step in steps if step.is_open and step.id not in known)
        self._rounds += rounds_of(new, self._state, self._ctx, len(self._rounds))

    async def run_round(self, round_: Round, ctx: Context) -> None:
        """Run the steps of a round concurrently."""
        self._round = round_
        await self._runner.run(self._workers.size, ctx, {step.id for step in round_.steps})
        self._peer_messages = {}  # these were for this round
        known, collects = self._state.results, self._policy.on_failure == "collect"
        ids = (step.id for step in round_.steps if step.id in known.replies or (collects and step.id in known.failures))
        self._lead.add_messages(map(self._state.outputs.message_of, ids))

    async def exchange(self, round_: Round, number: int, ctx: Context) -> None:
        """Send each worker the results of the others or, after the first exchange, their responses."""
        results = list(self._results(round_))
        sent = _by_worker(results) if number == 1 else {name: [one] for name, one in self._peer_messages.items()}
        workers = (*self._workers.active(ctx), *(worker for worker, _ in results))
        recipients = {worker.name: worker for worker in workers}
        if not ctx.cutback.peers or not sent or len(recipients) < 2 or self._state.ended_by is not None:
            return
        for name in sent:
            others = tuple(other for other in recipients if other != name)
            await ctx.emit(TeamMessageSent(by=name, to=others, round=round_.number))
        replies: dict[str, Reply] = {}
        async with ctx.branches(len(recipients), until=lambda: self._state.ended_by is not None) as branches:
            for name, worker in recipients.items():
                branches.start(f"round-{round_.number}/{number}-{name}", partial(self._ask_peer, worker, sent, replies))
        self._peer_messages = {
            name: replies[name].messages[-1] for name in recipients if name in replies and replies[name].messages
        }
        self._lead.add_messages(self._peer_messages.values())

    def context(self, step: Step, member: str) -> Sequence[Message]:
        """Return the envelope of the batch, and the responses after the previous round."""
        own = self._round.envelopes.get(step.id)
        return [*([own] if own else ()), *self._peer_messages.values()]

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Record that the lead handed out the step and gets its result."""
        if worker.name == (lead := self._lead.agent.name):
            return
        await ctx.emit(TeamMessageSent(by=lead, to=(worker.name,), round=self._round.number))
        if step.id in self._state.results.replies:
            await ctx.emit(TeamMessageSent(by=worker.name, to=(lead,), round=self._round.number))

    def _results(self, round_: Round) -> Iterator[tuple[Agent, Message]]:
        """Yield the workers of a round, without the lead, each with its result."""
        for step in round_.steps:
            worker = self._runner.workers.get(step.id)
            if worker is not None and worker.name != self._lead.agent.name and step.id in self._state.results.replies:
                yield worker, self._state.outputs.message_of(step.id)

    async def _ask_peer(
        self, worker: Agent, sent: Mapping[str, Sequence[Message]], replies: dict[str, Reply], ctx: Context
    ) -> None:
        history = History.of(message for messages in sent.values() for message in messages)
        limits = forwarded_limits(self._task)
        text, files = HEAR.format(task=self._task.text), self._task.attachments
        turn = Turn(text, history, self._round.number, "coordinate", envelope_limits=limits, attachments=files)
        reply = await ctx.ask(worker, turn, key="hear")
        if (said := self._state.heard(reply)) is not None:
            replies[worker.name] = said


def _by_worker(results: Sequence[tuple[Agent, Message]]) -> Mapping[str, Sequence[Message]]:
    found: dict[str, list[Message]] = {}
    for worker, message in results:
        found.setdefault(worker.name, []).append(message)
    return found
