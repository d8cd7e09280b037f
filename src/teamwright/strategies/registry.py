"""Finds strategies: built-in ones and those that other packages register by name, any other by its import path.

The entry point group is `teamwright.strategies`; an import path is `module:Class`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module

from teamwright.agents.contract.context import Context
from teamwright.errors import MissingExtra, UnknownName, UsageError
from teamwright.strategies.protocol import Members, Strategy, Task, require_strategy
from teamwright.values.names import plain_strategy_name
from teamwright.values.turns.results import Outcome
from teamwright.wings import Registered, entry_points_of

GROUP = "teamwright.strategies"
OWN_PACKAGE = "teamwright."
BUILT_IN_STRATEGIES = {
    "sequential": "teamwright.strategies.sequential:Sequential",
    "round_robin": "teamwright.strategies.round_robin:RoundRobin",
    "selector": "teamwright.strategies.selector:Selector",
    "graph": "teamwright.strategies.graph:Graph",
    "fan_out": "teamwright.strategies.fan_out:FanOut",
    "dag": "teamwright.strategies.plan.dag:Dag",
    "hierarchical": "teamwright.strategies.hierarchical:Hierarchical",
    "reactive": "teamwright.strategies.reactive:Reactive",
    "single": "teamwright.strategies.plan.single:Single",
    "lead_subagent": "teamwright.strategies.plan.lead_subagent:LeadSubagent",
    "star_team": "teamwright.strategies.plan.star_team:StarTeam",
    "mesh_team": "teamwright.strategies.plan.mesh_team:MeshTeam",
}


@dataclass(frozen=True)
class UnloadedStrategy(Strategy):
    """Placeholder for a strategy that was not imported: it accepts any options and cannot run."""

    name: str
    path: str
    version: int = 0

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Raise `UsageError`: the code of the strategy is not loaded."""
        raise UsageError(f"The strategy {self.name!r} ({self.path}) was not loaded, so it can't run.")


@cache
def _third_party() -> Registered:
    points = (one for one in entry_points_of(GROUP) if plain_strategy_name(one.name) not in BUILT_IN_STRATEGIES)
    return Registered(points, plain_strategy_name)


def strategy_names() -> list[str]:
    """Return the names of all strategies, sorted."""
    return sorted({*BUILT_IN_STRATEGIES, *_third_party().here})


def missing_strategy(name: str) -> MissingExtra | None:
    """Return the error for a strategy that a wing would bring which is not there; `None` for any other name."""
    return _third_party().missing("strategy", name)


def is_own(name: str) -> bool:
    """Return whether a strategy is of this distribution, so that using it runs no code of others."""
    if name in BUILT_IN_STRATEGIES:
        return True
    point = _third_party().here.get(name)
    return point is not None and point.value.startswith(OWN_PACKAGE)


def find_strategy(name: str) -> Strategy:
    """Return the strategy with this name, spelt with `-` or `_`, or of this import path.

    Where loading code is off, a third-party strategy is returned as an `UnloadedStrategy`.
    """
    plain = plain_strategy_name(name)
    if ":" in plain:
        return _import_strategy(plain)
    if plain in BUILT_IN_STRATEGIES:
        module, _, attribute = BUILT_IN_STRATEGIES[plain].partition(":")
        return getattr(import_module(module), attribute)()
    point = _third_party().here.get(plain)
    if point is None:
        raise missing_strategy(plain) or UnknownName("strategy", name, strategy_names())
    from teamwright.agents.functions.imports import can_load_code  # needed for such a strategy alone

    if not can_load_code() and not is_own(plain):
        return UnloadedStrategy(plain, point.value)
    try:
        strategy = require_strategy(point.load()())
    except Exception as error:  # third-party code may raise anything; the message names its package
        raise UsageError(f"The strategy {name!r} ({point.value}) can't be loaded: {error}") from error
    return strategy


def _import_strategy(path: str) -> Strategy:
    """Create the strategy of a class that is given by its import path."""
    from teamwright.agents.functions.imports import can_load_code, load_function  # needed for such a strategy alone

    made = load_function(path, "the strategy", "module:Class")
    if not can_load_code():
        return UnloadedStrategy(path, path)
    if not isinstance(made, type):
        raise UsageError(f"The strategy {path!r} is not a class; name the class, of which the team makes an instance.")
    try:
        strategy = made()
    except Exception as error:  # a class of the user may raise anything
        raise UsageError(
            f"The strategy {path!r} can't be created without arguments: {error}. Give it defaults, and read the team's"
            " options from task.settings."
        ) from error
    return require_strategy(strategy)
