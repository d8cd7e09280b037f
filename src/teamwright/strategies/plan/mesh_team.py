"""Workers who all tell each other: after every round each hears what the others came to, and may answer.

Here, and in no other strategy, a round waits for the one before it: else there would be nothing to hear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pydantic import Field

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.strategies.diagram import Arrow, Node, Sketch, places
from teamwright.strategies.plan.hub import Round
from teamwright.strategies.plan.lead import Lead, WorkerPool, to_be_told_on, told_turn
from teamwright.strategies.plan.rounds import RoundOptions, rounds_of
from teamwright.strategies.plan.step_options import turn_per_step
from teamwright.strategies.plan.step_runner import Flow, Opening, StepInput
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, Task
from teamwright.values.events.team import TeamTold
from teamwright.values.results import Outcome
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

HEAR = """\
You and others work side by side through a plan. Above stands what came of this round, yours among it. Tell the \
others, in a few sentences, what of it they have to know or to change before they go on, or that there is nothing.

The task of the team:
{task}"""


class MeshOptions(RoundOptions):
    """The steps, who leads, and how often all hear each other after a round."""

    peer_rounds: int = Field(
        default=1, ge=0, description="how often all hear each other and answer after a round; 0 is never"
    )


class MeshTeam(Strategy):
    """Rounds are the batches of the plan's schedule. The lead hands them out and puts the answer together."""

    name = "mesh_team"
    version = 1
    options = MeshOptions
    share = "a2a_lite"
    peers = True
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """There must be two who can hear each other, besides the lead."""
        return settings.read(MeshOptions).flaws(self.name, members, 2)

    def lead(self, settings: Settings, members: Members) -> str:
        """The one who puts the answer together."""
        return settings.read(MeshOptions).lead_of(members).name

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """An ask for each step."""
        return turn_per_step(self, settings)

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The workers among each other, and the lead who hears of all."""
        options = settings.read(MeshOptions)
        nodes = places(options.workers_of(members))
        lead = Node(id="lead", agent=options.lead_of(members).name, about="puts the answer together")
        among = (Arrow(source=one.id, to=other.id) for one in nodes for other in nodes if one is not other)
        up = (Arrow(source=node.id, to=lead.id) for node in nodes)
        return Sketch(nodes=(*nodes, lead), arrows=(*among, *up), notes=options.notes_for(members))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Work through the rounds, let all hear each other after each, and put the answer together."""
        options = task.settings.read(MeshOptions)
        schedule = options.schedule_for(members)
        await ctx.emit(options.planned(self.name, members, schedule))
        lead, workers = Lead(options.lead_of(members), task), options.workers_for(members)
        mesh = Mesh(task, options, lead, workers)
        for one in rounds_of(schedule, options, lead.agent, task, ctx):
            await mesh.work(one, ctx)
            if mesh.flow.parts.over:
                break
            for number in range(1, options.peer_rounds + 1):
                await mesh.exchange(one, number, ctx)
            if lead.ended is not None:
                break
        return await lead.finish(mesh.flow, ctx)


class Mesh:
    """The crew of workers who hear each other."""

    def __init__(self, task: Task, options: MeshOptions, lead: Lead, workers: WorkerPool) -> None:
        self.flow = Flow(task, options.steps, options, self)
        self._task, self._policy, self._lead, self._workers = task, options, lead, workers
        self._round = Round(0, ())
        self._words: dict[str, Message] = {}

    async def work(self, one: Round, ctx: Context) -> None:
        """Let the steps of a round be worked on, side by side."""
        self._round = one
        await self.flow.run(self._workers.most, ctx, {step.id for step in one.steps})
        self._words = {}  # they were for this round
        known, collects = self.flow.parts, self._policy.on_failure == "collect"
        told = (step.id for step in one.steps if step.id in known.replies or (collects and step.id in known.failures))
        self._lead.hear(map(self.flow.message, told))

    async def exchange(self, one: Round, number: int, ctx: Context) -> None:
        """Let everybody hear what the others came to or, the next time, what they said to it, and answer."""
        done = list(self._done(one))
        said = _by_worker(done) if number == 1 else {name: [word] for name, word in self._words.items()}
        who = {worker.name: worker for worker in (*self._workers.active(ctx), *(worker for worker, _ in done))}
        if not ctx.posture.peers or not said or len(who) < 2 or self._lead.ended is not None:
            return
        for name in said:
            others = tuple(other for other in who if other != name)
            await ctx.emit(TeamTold(by=name, to=others, round=one.number))
        words: dict[str, Reply] = {}
        async with ctx.branches(len(who), until=lambda: self._lead.ended is not None) as branches:
            for name, worker in who.items():
                branches.start(f"round-{one.number}/{number}-{name}", partial(self._answer, worker, said, words))
        self._words = {name: words[name].messages[-1] for name in who if name in words and words[name].messages}
        self._lead.hear(self._words.values())

    def worker(self, step: Step, ctx: Context) -> Agent:
        """Whom it names, or who has least to do."""
        return self._workers.take(step, ctx)

    def turn(self, part: StepInput) -> Turn:
        """The batch, what the others said after the round before, and what the steps it needs came to."""
        told = [self._round.told[part.step.id], *self._words.values()]
        return told_turn(self._task, part, told)

    def opening(self, step: Step, worker: Agent) -> Opening | None:
        """Nothing."""

    async def after(self, step: Step, worker: Agent, ctx: Context) -> None:
        """The lead has handed it out, and hears of it."""
        self._workers.done(worker)
        if worker.name == (lead := self._lead.agent.name):
            return
        await ctx.emit(TeamTold(by=lead, to=(worker.name,), round=self._round.number))
        if step.id in self.flow.parts.replies:
            await ctx.emit(TeamTold(by=worker.name, to=(lead,), round=self._round.number))

    def _done(self, one: Round) -> Iterator[tuple[Agent, Message]]:
        """Who has worked in a round, without the lead, and what came of it."""
        for step in one.steps:
            worker = self.flow.workers.get(step.id)
            if worker is not None and worker.name != self._lead.agent.name and step.id in self.flow.parts.replies:
                yield worker, self.flow.message(step.id)

    async def _answer(
        self, worker: Agent, said: Mapping[str, Sequence[Message]], words: dict[str, Reply], ctx: Context
    ) -> None:
        heard = History.of(message for messages in said.values() for message in messages)
        handoff = to_be_told_on(self._task)
        turn = Turn(HEAR.format(task=self._task.text), heard, self._round.number, "coordinate", handoff=handoff)
        reply = await ctx.ask(worker, turn, key="hear")
        if isinstance(reply, Failure):
            self._lead.miss(reply)
            return
        self._lead.note_warnings(reply)
        if not self._lead.ends(reply):
            words[worker.name] = reply


def _by_worker(done: Sequence[tuple[Agent, Message]]) -> Mapping[str, Sequence[Message]]:
    found: dict[str, list[Message]] = {}
    for worker, message in done:
        found.setdefault(worker.name, []).append(message)
    return found
