"""A lead and one worker: the lead briefs each step, receives the result and gives the answer."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.plan.graph import StepGraph
from teamwright.strategies.plan.lead import ANSWER_KEY, Lead, LeadOptions, WorkerPool
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.rounds import BriefedRounds, Round
from teamwright.strategies.plan.step_options import turn_per_step
from teamwright.strategies.protocol import Arrow, Diagram, ExpectedAsks, Issue, Members, Node, Settings, Strategy, Task
from teamwright.values.events.team import TeamPlanned
from teamwright.values.limits import ClosingAsk
from teamwright.values.specs.tools import MemberName
from teamwright.values.turns.results import Outcome


class LeadSubagentOptions(LeadOptions):
    """The steps, who leads, and who works."""

    worker: MemberName | None = Field(
        default=None, description="who works on all steps; by default the first member that does not lead"
    )

    def worker_of(self, members: Members) -> Agent:
        """Return the worker."""
        return self.workers_of(members)[0] if self.worker is None else members.named(self.worker)


class LeadSubagent(Strategy):
    """Each step is a round: a briefing to the worker, and the result back. One worker does all steps."""

    name = "lead_subagent"
    version = 1
    options = LeadSubagentOptions
    share = "a2a_lite"
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that there are a lead and another member that works."""
        options = settings.read(LeadSubagentOptions)
        found = options.flaws(self.name, members, 1)
        if members and options.worker is not None and options.worker == options.lead_of(members).name:
            found.append(Issue(f"{options.worker!r} leads, so another member has to work", ("worker",)))
        return found

    def lead(self, settings: Settings, members: Members) -> str:
        """Return the lead."""
        return settings.read(LeadSubagentOptions).lead_of(members).name

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step, and the answer of the lead."""
        return turn_per_step(self, settings, ANSWER_KEY)

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead."""
        return settings.read(LeadSubagentOptions).closing(members)

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the lead and the worker."""
        options = settings.read(LeadSubagentOptions)
        lead = Node(id="lead", agent=options.lead_of(members).name, about="hands over each step, and answers")
        worker = Node(id="worker", agent=options.worker_of(members).name)
        arrows = (Arrow(source="lead", to="worker", label="hands over"), Arrow(source="worker", to="lead"))
        return Diagram(nodes=(lead, worker), arrows=arrows, notes=(f"{len(options.steps)} steps, one at a time",))

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Brief and run one step after the other, then let the lead answer."""
        options = task.settings.read(LeadSubagentOptions)
        lead, worker = Lead(options.lead_of(members), task), options.worker_of(members)
        steps = {step.id: step for step in options.steps}
        order = StepGraph.from_nodes(nodes_of(options.steps)).order
        rounds = [Round(number, [steps[id_]]) for number, id_ in enumerate(order, start=1)]
        await ctx.emit(
            TeamPlanned(
                topology=self.name,
                steps=len(order),
                rounds=len(order),
                width=1,
                lead=lead.agent.name,
                workers=(worker.name,),
                reason=options.reason,
            )
        )
        briefed = BriefedRounds(task, options, lead, WorkerPool([worker], 1), rounds)
        briefed.runner.evaluate_steps(members)
        await briefed.runner.run(1, ctx)
        briefed.report_to_lead()
        return await lead.finish(briefed.runner, ctx)
