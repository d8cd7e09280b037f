"""A lead in the middle and workers around it, who talk with the lead alone; with each other only about a conflict."""

from __future__ import annotations

from pydantic import Field

from teamwright.agents.context import Context
from teamwright.strategies.diagram import Arrow, Node, Sketch, places
from teamwright.strategies.plan.conflicts import Channels
from teamwright.strategies.plan.hub import Hub
from teamwright.strategies.plan.lead import Lead
from teamwright.strategies.plan.rounds import RoundOptions, rounds_of
from teamwright.strategies.plan.step_options import turn_per_step
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, Task
from teamwright.values.results import Outcome


class StarOptions(RoundOptions):
    """The steps, who leads, and how long two may talk about a conflict."""

    peer_rounds: int = Field(
        default=1, ge=0, description="how often each of two may speak in a conflict before the lead rules; 0 is never"
    )


class StarTeam(Strategy):
    """Rounds are the batches of the plan's schedule, and no barrier: a step waits for its own inputs alone.

    In a round each worker is told the batch by its envelope and the lead's word, and its result goes to the lead.
    """

    name = "star_team"
    version = 1
    options = StarOptions
    share = "a2a_lite"
    peers = True
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Somebody must be there to work besides the lead."""
        return settings.read(StarOptions).flaws(self.name, members, 1)

    def lead(self, settings: Settings, members: Members) -> str:
        """The one in the middle."""
        return settings.read(StarOptions).lead_of(members).name

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """An ask for each step."""
        return turn_per_step(self, settings)

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The lead over the workers, who answer to it."""
        options = settings.read(StarOptions)
        lead = Node(id="lead", agent=options.lead_of(members).name, about="hands out rounds, rules, and answers")
        nodes = places(options.workers_of(members))
        down = (Arrow(source=lead.id, to=node.id, label="hands out to") for node in nodes)
        up = (Arrow(source=node.id, to=lead.id) for node in nodes)
        return Sketch(nodes=(lead, *nodes), arrows=(*down, *up), notes=options.notes_for(members))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Hand out round after round, settle conflicts, and put the answer together."""
        options = task.settings.read(StarOptions)
        schedule = options.schedule_for(members)
        await ctx.emit(options.planned(self.name, members, schedule))
        lead, workers = Lead(options.lead_of(members), task), options.workers_for(members)
        hub = Hub(task, options, lead, workers, rounds_of(schedule, options, lead.agent, task, ctx))
        hub.settle = Channels(task, hub, options.steps, options.peer_rounds).settle
        await hub.flow.run(workers.most, ctx)
        hub.tell_the_lead()
        return await lead.finish(hub.flow, ctx)
