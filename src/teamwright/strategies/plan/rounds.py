"""Plans that run in rounds: the batches of a schedule, and the envelope that announces each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pydantic import Field

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import Context
from teamwright.strategies.envelopes import limits_of
from teamwright.strategies.plan.briefed_rounds import Round
from teamwright.strategies.plan.lead import LeadOptions, WorkerPool
from teamwright.strategies.plan.schedule.envelopes import batch_envelopes
from teamwright.strategies.plan.schedule.planner import PlannerSettings, make_schedule
from teamwright.strategies.plan.schedule.schedule import Schedule
from teamwright.strategies.protocol import Members, Task
from teamwright.values.events.team import TeamPlanned
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import Envelope, EnvelopeMessage

TASK = "task://"


class RoundOptions(LeadOptions):
    """The steps, who leads, how many run at once, and the limits of the schedule."""

    max_parallel: int | None = Field(
        default=None, ge=1, description="how many steps run at once; by default as many as there are workers"
    )
    run_budget: int | None = Field(
        default=None, ge=0, description="tokens that the envelopes of batches allot in total"
    )
    coordination_floor: int = Field(
        default=8, ge=0, description="of these, the tokens for the coordination of each step"
    )

    def width_for(self, members: Members) -> int:
        """Return how many steps run at once."""
        return self.max_parallel or max(1, len(self.workers_of(members)))

    def schedule_for(self, members: Members) -> Schedule:
        """Return the schedule of the steps for these members."""
        settings = PlannerSettings(
            max_parallel=self.width_for(members),
            run_budget=self.run_budget,
            coordination_floor=self.coordination_floor,
        )
        return make_schedule(Plan(steps=self.steps), settings)

    def notes_for(self, members: Members) -> tuple[str, ...]:
        """Return the notes of the diagram about the rounds."""
        rounds = len(self.schedule_for(members).batches)
        return f"{len(self.steps)} steps in {rounds} rounds", f"{self.width_for(members)} at once"

    def workers_for(self, members: Members) -> WorkerPool:
        """Return the pool of workers."""
        return WorkerPool(self.workers_of(members), self.width_for(members), members)

    def planned_event(self, topology: str, members: Members, schedule: Schedule) -> TeamPlanned:
        """Return the event that describes the plan."""
        return TeamPlanned(
            topology=topology,
            steps=len(self.steps),
            rounds=len(schedule.batches),
            width=self.width_for(members),
            lead=self.lead_of(members).name,
            workers=tuple(worker.name for worker in self.workers_of(members)),
            tokens=schedule.total_tokens,
            reason=self.reason,
        )


def rounds_of(schedule: Schedule, options: RoundOptions, lead: Agent, task: Task, ctx: Context) -> Sequence[Round]:
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
