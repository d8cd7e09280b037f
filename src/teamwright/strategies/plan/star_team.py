"""A lead and workers that talk only to the lead, and to each other only about a conflict."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from teamwright.agents.contract.context import Context
from teamwright.strategies.diagram import Arrow, Diagram, Node, places
from teamwright.strategies.plan.briefed_rounds import BriefedRounds
from teamwright.strategies.plan.conflicts import ConflictResolver
from teamwright.strategies.plan.lead import ANSWER_KEY, Lead
from teamwright.strategies.plan.rounds import RoundOptions, rounds_of
from teamwright.strategies.plan.step_options import turn_per_step
from teamwright.strategies.protocol import ExpectedAsks, Issue, Members, Settings, Strategy, Task
from teamwright.values.limits.closing_ask import ClosingAsk
from teamwright.values.results import Outcome


class StarOptions(RoundOptions):
    """The steps, who leads, and how long two workers may talk about a conflict."""

    peer_rounds: int = Field(
        default=1,
        ge=0,
        description="how often each of two workers may speak in a conflict before the lead rules; 0 is never",
    )


class StarTeam(Strategy):
    """Rounds are the batches of the schedule, without barriers: a step waits only for its own inputs.

    In a round each worker gets the envelope of its batch and the briefing of the lead, and its result goes to the lead.
    """

    name = "star_team"
    version = 1
    options = StarOptions
    share = "a2a_lite"
    peers = True
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that there is a member besides the lead."""
        return settings.read(StarOptions).flaws(self.name, members, 1)

    def lead(self, settings: Settings, members: Members) -> str:
        """Return the lead."""
        return settings.read(StarOptions).lead_of(members).name

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step, and the answer of the lead."""
        return turn_per_step(self, settings, ANSWER_KEY)

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead."""
        return settings.read(StarOptions).closing(members)

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the lead and its workers."""
        options = settings.read(StarOptions)
        lead = Node(id="lead", agent=options.lead_of(members).name, about="hands out rounds, rules, and answers")
        nodes = places(options.workers_of(members))
        down = (Arrow(source=lead.id, to=node.id, label="hands out to") for node in nodes)
        up = (Arrow(source=node.id, to=lead.id) for node in nodes)
        return Diagram(nodes=(lead, *nodes), arrows=(*down, *up), notes=options.notes_for(members))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Run the rounds, resolve conflicts, and let the lead answer."""
        options = task.settings.read(StarOptions)
        schedule = options.schedule_for(members)
        await ctx.emit(options.planned_event(self.name, members, schedule))
        lead, workers = Lead(options.lead_of(members), task), options.workers_for(members)
        briefed = BriefedRounds(task, options, lead, workers, rounds_of(schedule, options, lead.agent, task, ctx))
        briefed.on_result = ConflictResolver(task, briefed, options.steps, options.peer_rounds).resolve
        briefed.runner.evaluate_steps(members)
        await briefed.runner.run(workers.size, ctx)
        briefed.report_to_lead()
        return await lead.finish(briefed.runner, ctx)
