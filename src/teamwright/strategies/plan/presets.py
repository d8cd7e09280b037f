"""The topologies and other known plans: names with defaults. Every setting can be changed in each of them."""

from __future__ import annotations

from teamwright.strategies.plan.engine import PlanStrategy
from teamwright.strategies.plan.options import LEAD, options_with


class Dag(PlanStrategy):
    """Each step starts as soon as its needs are settled; a skipped step emits an event.

    With `share: transcript` a step gets the results of the steps it needs, under their ids, and then the task. With
    `share: output` it gets only those results; a step without needs gets the task.
    """

    name = "dag"


class Single(PlanStrategy):
    """Runs the steps in topological order in one conversation: earlier steps and their results precede each step.

    The one member does all steps, whichever agents they name: the first of the pool, or of the team.
    """

    name = "single"
    options = options_with("SingleOptions", sees="all", pool="first", max_parallel=1)


class LeadSubagent(PlanStrategy):
    """Each step is a round: a briefing to the worker, and the result back. One worker does all steps."""

    name = "lead_subagent"
    options = options_with(
        "LeadSubagentOptions", answer=LEAD, pool="first", talk="lead", handout="step", max_parallel=1
    )
    share = "a2a_lite"


class StarTeam(PlanStrategy):
    """Rounds are the batches of the schedule, without barriers: a step waits only for its own inputs.

    In a round each worker gets the envelope of its batch and the briefing of the lead, and its result goes to the lead.
    """

    name = "star_team"
    options = options_with("StarOptions", answer=LEAD, pool=True, talk="lead", handout="batch", max_parallel=None)
    share = "a2a_lite"
    peers = True


class MeshTeam(PlanStrategy):
    """Rounds are the batches of the schedule. The lead hands them out and gives the answer."""

    name = "mesh_team"
    options = options_with("MeshOptions", answer=LEAD, pool=True, talk="all", handout="batch", max_parallel=None)
    share = "a2a_lite"
    peers = True
