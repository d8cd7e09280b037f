"""The options of live teams, and the mistakes in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from teamwright.experts.expert_agent import default_lead
from teamwright.strategies.plan.plan_check import phase_flaws
from teamwright.strategies.protocol import Issue, Members, Settings
from teamwright.values.specs.plan import Roster, Step
from teamwright.values.specs.tools import MemberName
from teamwright.values.value import Value

UNUSED = ("when", "limits", "owns", "priority")
"""Fields of phases that a live team does not use."""


class LiveOptions(Value):
    """Who leads, what the plan is, and how long members may talk about one phase."""

    lead: MemberName | None = Field(
        default=None, description="the member that leads; by default the one with `is_lead`, else the first"
    )
    steps: tuple[Step, ...] = Field(
        default=(), description="the phases of the plan, one expert each; without them, the lead plans"
    )
    rounds: int = Field(
        default=3, ge=1, le=20, description="how often members may ask each other within a phase; then the lead decides"
    )
    max_phases: int = Field(default=20, ge=1, le=200, description="the most phases that a plan of the lead may have")


def live_lead(settings: Settings, members: Members) -> str:
    """Return the name of the member that leads when the team is formed."""
    return settings.read(LiveOptions).lead or default_lead(members).name


def live_roster(present: Sequence[str], lead: str, members: Members) -> Roster:
    """Return the names of the team: the present members, the lead, and those who may judge."""
    return Roster(tuple(present), lead, tuple(name for name in members.names if name not in present))


def live_flaws(settings: Settings, members: Members) -> Iterator[Issue]:
    """Yield every mistake in the options of a live team."""
    options, names = settings.read(LiveOptions), tuple(member.name for member in members)
    if settings.share == "output":
        yield Issue("'live' members talk to each other, so it needs  share: transcript  or  share: a2a_lite")
    if len(set(names)) < len(names):
        yield Issue("'live' takes each member once, but one is listed twice")
    if members and options.steps:
        yield from phase_flaws(options.steps, live_roster(names, live_lead(settings, members), members))
        yield from not_carried_out(options.steps)


def not_carried_out(phases: tuple[Step, ...]) -> Iterator[Issue]:
    """Yield what a live team can't carry out: its members take turns, and all of them under the limits of the team."""
    for index, phase in enumerate(phases):
        if phase.parallel != "serial":
            text = f"the phase {phase.id!r} is {phase.parallel}; a live team works on one phase at a time"
            yield Issue(text, ("steps", index, "parallel"))
        for field in UNUSED:
            if field in phase.model_fields_set:
                text = f"the phase {phase.id!r} has {field!r}, which a live team does not use"
                yield Issue(text, ("steps", index, field))
