"""Strategies by name: ours and those that other packages register under the entry point `teamwright.strategies`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from teamwright.errors import UnknownName, UsageError
from teamwright.strategies.protocol import Strategy
from teamwright.values.names import plain_strategy_name

GROUP = "teamwright.strategies"
OWN = {
    "sequential": "teamwright.strategies.sequential:Sequential",
    "round_robin": "teamwright.strategies.round_robin:RoundRobin",
    "selector": "teamwright.strategies.selector:Selector",
    "graph": "teamwright.strategies.graph:Graph",
    "fan_out": "teamwright.strategies.fan_out:FanOut",
    "dag": "teamwright.strategies.dag:Dag",
    "hierarchical": "teamwright.strategies.hierarchical:Hierarchical",
    "reactive": "teamwright.strategies.reactive:Reactive",
    "single": "teamwright.strategies.single:Single",
    "lead_subagent": "teamwright.strategies.lead_subagent:LeadSubagent",
    "star_team": "teamwright.strategies.star_team:StarTeam",
    "mesh_team": "teamwright.strategies.mesh_team:MeshTeam",
}


@cache
def _points() -> dict[str, EntryPoint]:
    found = {plain_strategy_name(point.name): point for point in entry_points(group=GROUP)}
    return found | {name: EntryPoint(name, path, GROUP) for name, path in OWN.items()}


def strategy_names() -> list[str]:
    """Every strategy that a team can name."""
    return sorted(_points())


def find_strategy(name: str) -> Strategy:
    """The strategy of this name, spelt with `-` or `_`."""
    plain = plain_strategy_name(name)
    point = _points().get(plain)
    if point is None:
        raise UnknownName("strategy", name, _points())
    try:
        made: Strategy = point.load()()
    except Exception as error:  # third-party code: whatever it does, say whose it is
        raise UsageError(f"The strategy {name!r} ({point.value}) can't be loaded: {error}") from error
    return made
