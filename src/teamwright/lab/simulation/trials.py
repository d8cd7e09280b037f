"""Runs one team in one topology many times with simulated members on the real engine, each run independently."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import anyio

from teamwright.agents.functions.own_modules import modules_of
from teamwright.history.kpis import Kpis, TurnFigures, kpis_of, turns_of
from teamwright.journal.memory import MemoryJournal
from teamwright.lab.simulation.agents import RIGHT, Simulator
from teamwright.lab.simulation.critical_path import PathStep, critical_path
from teamwright.lab.simulation.run_bound import bounded_run
from teamwright.lab.simulation.virtual_loop import run_virtually, virtual_now
from teamwright.runtime.engine import Engine
from teamwright.teams.builder import Builder
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded
from teamwright.values.key import without_attempts
from teamwright.values.limits.limits import Limits
from teamwright.values.models import Record
from teamwright.values.specs.manifest import Source

OWN = "as declared"
"""The name of the team as declared, beside the names of topologies."""


def declared_team(source: Source) -> Team:
    """Build the team of a source. No model is called, so no provider key is needed."""
    with modules_of(source.module_folder):
        team = Builder(source.manifest, Path(source.base), roots=source.roots).team(source.team)
    team.declared = source
    return team


class SimulatedRun(Record, frozen=True):
    """The figures of one simulated run; `right` counts the steps that were completed and right.

    `problem` is the run's own message if it did not complete.
    """

    kpis: Kpis
    right: int
    messages: int
    path: tuple[PathStep, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A team in one topology with a task and a seed, which can be run many times."""

    team: Team
    task: str
    seed: int
    simulator: Simulator
    limits: Limits | None = None

    def runs(self, numbers: Iterable[int]) -> Iterable[SimulatedRun]:
        """Simulate the runs with these numbers; no run depends on another."""
        team = self.simulator.team(self.team)
        for number in numbers:
            yield measure_run(self.events(team, number))

    def events(self, team: Team, number: int) -> list[Event]:
        """Simulate one run of a team with simulated members, and return its record."""
        run_id, seed = f"simulated-{number}", seed_of(self.seed, number)

        async def main() -> list[Event]:
            journal = MemoryJournal()
            with bounded_run() as bound:
                async with Engine(journal, wall=virtual_now, seed=lambda: seed, placement="here") as engine:
                    with anyio.CancelScope() as scope:
                        bound.stop = scope.cancel
                        await engine.run(team, self.task, run_id=run_id, limits=self.limits)
            bound.check()
            return await journal.read(run_id)

        return run_virtually(main)


def seed_of(seed: int, number: int) -> int:
    """The seed of the run with this number."""
    return int.from_bytes(blake2b(f"{seed}/{number}".encode(), digest_size=6).digest())


def measure_run(events: Sequence[Event]) -> SimulatedRun:
    """Compute the figures of a simulated run from its record."""
    kpis, turns = kpis_of(events), turns_of(events)
    return SimulatedRun(
        kpis=kpis,
        right=_count_right(turns),
        messages=messages_in(kpis, turns),
        path=critical_path(turns),
        problem=next((fact.message or "" for one in reversed(events) if isinstance(fact := one.fact, RunEnded)), ""),
    )


def messages_in(kpis: Kpis, turns: Iterable[TurnFigures]) -> int:
    """The number of messages between members: as the topology's strategy counts them, else coordination turns."""
    return sum(turn.purpose == "coordinate" for turn in turns) if kpis.messages is None else kpis.messages


def _count_right(turns: Iterable[TurnFigures]) -> int:
    """Count the steps that were completed and right; only the last attempt of a step counts."""
    steps = {without_attempts(turn.key): turn for turn in turns if turn.purpose == "work"}
    return sum(turn.status == "passed" and RIGHT in turn.marks for turn in steps.values())
