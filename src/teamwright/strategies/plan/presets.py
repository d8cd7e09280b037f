"""The topologies and other known plans: names with defaults. Every setting can be changed in each of them."""

from __future__ import annotations

from typing import ClassVar

from teamwright.strategies.plan.engine import PlanStrategy
from teamwright.strategies.plan.options import Handout, MemberName, PlanOptions, Sight, Talk


class Dag(PlanStrategy):
    """Each step starts as soon as its needs are settled; a skipped step emits an event.

    With `share: transcript` a step gets the results of the steps it needs, under their ids, and then the task. With
    `share: output` it gets only those results; a step without needs gets the task.
    """

    name = "dag"
    version = 2


class SingleOptions(PlanOptions):
    """One member, and one conversation."""

    sees: Sight = "all"
    max_parallel: int | None = 1


class Single(PlanStrategy):
    """Runs the steps in topological order in one conversation: earlier steps and their results precede each step.

    The one member does all steps, whichever agents they name: the first of the pool, or of the team.
    """

    name = "single"
    options = SingleOptions


class LeadSubagentOptions(PlanOptions):
    """A lead that hands each step to one worker."""

    LED: ClassVar[bool] = True

    talk: Talk = "lead"
    handout: Handout = "step"
    max_parallel: int | None = 1


class LeadSubagent(PlanStrategy):
    """Each step is a round: a briefing to the worker, and the result back. One worker does all steps."""

    name = "lead_subagent"
    options = LeadSubagentOptions
    share = "a2a_lite"


class StarOptions(PlanOptions):
    """A lead that hands out the batches of the schedule to all others."""

    LED: ClassVar[bool] = True

    pool: bool | tuple[MemberName, ...] = True
    talk: Talk = "lead"
    handout: Handout = "batch"
    max_parallel: int | None = None


class StarTeam(PlanStrategy):
    """Rounds are the batches of the schedule, without barriers: a step waits only for its own inputs.

    In a round each worker gets the envelope of its batch and the briefing of the lead, and its result goes to the lead.
    """

    name = "star_team"
    options = StarOptions
    share = "a2a_lite"
    peers = True


class MeshOptions(StarOptions):
    """As in a star, and all talk to each other."""

    talk: Talk = "all"


class MeshTeam(PlanStrategy):
    """Rounds are the batches of the schedule. The lead hands them out and gives the answer."""

    name = "mesh_team"
    options = MeshOptions
    share = "a2a_lite"
    peers = True
