"""What the lab computes for clients of the server, in a process of the server's pool."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from teamwright.lab.advice import advise
from teamwright.lab.simulation.simulate import simulate
from teamwright.lab.simulation.trials import spec_of
from teamwright.lab.topology_sweep import sweep
from teamwright.server.team_catalogue import Catalogue
from teamwright.strategies.plan.schedule_maker import prepare
from teamwright.teams.manifests.plans import preview_plan

Options = dict[str, Any]


def sweep_parameters(_: Catalogue, options: Options) -> JsonValue:
    """Evaluate every combination of some parameters."""
    return sweep(**options).to_json()


def simulate_team(catalogue: Catalogue, options: Options) -> JsonValue:
    """Simulate a team many times."""
    team, task = catalogue.load(options.pop("team")), options.pop("task")
    return simulate(team, task, **options).to_json()


def schedule_plan(catalogue: Catalogue, options: Options) -> JsonValue:
    """Schedule the plan of a team."""
    team = catalogue.load(options["team"])
    plan, settings = preview_plan(options["team"], spec_of(team), options["task"] or None)
    return prepare(plan, settings).to_json()


def advise_team(catalogue: Catalogue, options: Options) -> JsonValue:
    """Advise on the topology of a team."""
    team, task = catalogue.load(options.pop("team")), options.pop("task")
    return advise(team, task, **options).to_json()
