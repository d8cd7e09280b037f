"""Decides whether one agent or a team takes a task, and says why with the numbers that decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from teamwright.experts.routing.request import AskRequest
from teamwright.experts.routing.signals import ENOUGH_FOR_ONE, TEAM_ABOVE, Complexity

DecidedBy = Literal["request", "signals", "model", "default"]


@dataclass(frozen=True, slots=True)
class Route:
    """One agent or a team, and why. `suggests_team` is only a suggestion: a team costs more, so the user decides."""

    mode: Literal["agent", "team"]
    decided_by: DecidedBy
    reason: str
    complexity: Complexity | None = None
    """The complexity by cheap signals, if it was estimated."""
    judged: float | None = None
    """The complexity that a model judged, if it was asked."""
    suggests_team: bool = False

    def to_json(self) -> dict[str, JsonValue]:
        """The route as JSON data."""
        known = self.complexity
        estimated = None if known is None else known.score
        return {
            "mode": self.mode,
            "decided_by": self.decided_by,
            "reason": self.reason,
            "complexity": estimated if self.judged is None else self.judged,
            "threshold": TEAM_ABOVE,
            "suggests_team": self.suggests_team,
            "signals": [{"name": one.name, "count": one.count, "adds": one.adds} for one in known.signals]
            if known
            else [],
        }


def route_by_signals(request: AskRequest, complexity: Complexity) -> Route | None:
    """Return the route that the request or cheap signals decide; `None` if a model has to be asked."""
    if request.wants_team:
        named = f" of {', '.join(request.names)}" if request.names else ""
        return Route("team", "request", f"a team{named} was asked for")
    if complexity.suggests_team:
        reason = f"a team is suggested: complexity {complexity} is above {TEAM_ABOVE:g}"
        return Route("agent", "signals", reason, complexity, suggests_team=True)
    if complexity.is_enough_for_one:
        reason = f"one agent is enough: complexity {complexity} is at most {ENOUGH_FOR_ONE:g}"
        return Route("agent", "signals", reason, complexity)
    return None


def route_by_score(score: float, why: str, signals: Complexity) -> Route:
    """Return the route for the complexity that a model has judged, where signals did not decide."""
    suggests = score > TEAM_ABOVE
    verdict, compared = ("a team is suggested", "above") if suggests else ("one agent is enough", "not above")
    reason = f"{verdict}: signals give {signals}, and a model judged {score:.2f}, which is {compared} {TEAM_ABOVE:g}"
    reason = f"{reason}; {why}" if why else reason
    return Route("agent", "model", reason, signals, judged=score, suggests_team=suggests)


def route_by_default(complexity: Complexity, problem: str) -> Route:
    """Return the route of a task that neither signals nor a model have decided: the cheaper one."""
    reason = f"one agent tries it: complexity {complexity} decides nothing, and {problem}"
    return Route("agent", "default", reason, complexity)
