"""The options of live teams, and the mistakes in them."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from teamwright.experts.collaboration.plan import Phase, Roster
from teamwright.experts.collaboration.plan_check import phase_flaws
from teamwright.experts.profiles.lead import default_lead
from teamwright.strategies.protocol import Flaw, Members, Settings
from teamwright.values.models import Value
from teamwright.values.specs.manifest import MemberName


class LiveOptions(Value):
    """Who leads, what the plan is, and how long members may talk about one phase."""

    lead: MemberName | None = Field(
        default=None, description="the member that leads; by default the one with `is_lead`, else the first"
    )
    steps: tuple[Phase, ...] = Field(
        default=(), description="the phases of the plan, one expert each; without them, the lead plans"
    )
    rounds: int = Field(
        default=3, ge=1, le=20, description="how often members may ask each other within a phase; then the lead decides"
    )
    max_phases: int = Field(default=20, ge=1, le=200, description="the most phases that a plan of the lead may have")


def live_lead(settings: Settings, members: Members) -> str:
    """Return the name of the member that leads when the team is formed."""
    return settings.read(LiveOptions).lead or default_lead(members).name


def live_flaws(settings: Settings, members: Members) -> Iterator[Flaw]:
    """Yield every mistake in the options of a live team."""
    options, names = settings.read(LiveOptions), tuple(member.name for member in members)
    if settings.share == "output":
        yield Flaw("'live' members talk to each other, so it needs  share: transcript  or  share: a2a_lite")
    if len(set(names)) < len(names):
        yield Flaw("'live' takes each member once, but one is listed twice")
    if members and options.steps:
        yield from phase_flaws(options.steps, Roster(names, live_lead(settings, members)))
        yield from not_serial(options.steps)


def not_serial(phases: tuple[Phase, ...]) -> Iterator[Flaw]:
    """Yield the phases that a live team can't run, since its members take turns."""
    for index, phase in enumerate(phases):
        if phase.parallel != "serial":
            text = f"the phase {phase.id!r} is {phase.parallel}; a live team works on one phase at a time"
            yield Flaw(text, ("steps", index, "parallel"))
