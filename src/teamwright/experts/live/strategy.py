"""The strategy `live`: members work on the phases of a plan, talk to each other, and people may change everything.

A team is formed, plans, executes, synthesizes, is completed and dissolves. Its lead plans, decides what a discussion
does not settle, and writes the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agents.contract.agent import Context
from teamwright.experts.live.options import LiveOptions, live_flaws, live_lead
from teamwright.experts.live.run import LiveRun
from teamwright.strategies.protocol import (
    STEERABLE,
    Arrow,
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    places,
)
from teamwright.values.limits import ClosingAsk
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Turn
from teamwright.values.value import JsonValue


class Live(Strategy):
    """A team that people can change while it works: its plan, its members, its direction."""

    name = "live"
    version = 1
    options = LiveOptions
    unused = ("max_turns", "on_max_turns")
    peers = True
    interventions = (*STEERABLE, "edit_plan", "add_member", "remove_member")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check the lead and the plan."""
        return list(live_flaws(settings, members))

    def lead(self, settings: Settings, members: Members) -> str | None:
        """Return the member that leads when the team is formed."""
        return live_lead(settings, members) if members else None

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each phase, and the answer of the lead; unknown if the lead plans."""
        phases = settings.read(LiveOptions).steps
        return {f"turn-{number}": 0 for number in range(1, len(phases) + 2)} if phases else {}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the answer of the lead."""
        return [ClosingAsk(live_lead(settings, members))] if members else ()

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the lead and the members."""
        lead = live_lead(settings, members)
        nodes = [node for node in places(members) if node.agent != lead]
        top = Node(id="lead", agent=lead, about="plans, decides and answers")
        arrows = (Arrow(source=top.id, to=node.id) for node in nodes)
        return Diagram(nodes=(top, *nodes), arrows=tuple(arrows))

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a plan with one step."""
        found: JsonValue = dict(turn.output_schema or {})
        for field in ("properties", "steps", "items", "properties", "agent", "enum"):
            found = found.get(field) if isinstance(found, dict) else None
        if not isinstance(found, list) or not found:
            return None
        return {"steps": [{"id": "work", "agent": found[-1], "task": "Do the task."}]}

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Lead the team through its life."""
        return await LiveRun(task, members, ctx).outcome()
