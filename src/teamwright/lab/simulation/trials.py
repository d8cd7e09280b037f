"""One team in one shape, run again and again by the real engine with simulated members, each run by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import anyio

from teamwright.history.kpis import Kpis, TurnFigures, kpis_of, turns_of
from teamwright.journal.memory import MemoryJournal
from teamwright.lab.simulation.agents import RIGHT, Cast
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
"""The name of the team's own shape beside the topologies."""


def declared_team(source: Source) -> Team:
    """The team of a source as it is written: nobody is called, so no key has to be there."""
    team = Builder(source.manifest, Path(source.base), roots=source.roots).team(source.team)
    team.declared = source
    return team


class SimulatedRun(Record, frozen=True):
    """What one simulated run came to; `right` is how many of its steps are done and right.

    `problem` is why it did not complete, as the run tells it.
    """

    kpis: Kpis
    right: int
    messages: int
    path: tuple[PathStep, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Play:
    """A team in one shape that is run again and again."""

    team: Team
    task: str
    seed: int
    cast: Cast
    limits: Limits | None = None

    def runs(self, numbers: Iterable[int]) -> Iterable[SimulatedRun]:
        """The runs of these numbers, each by itself: what one does never depends on another."""
        team = self.cast.team(self.team)
        for number in numbers:
            yield measured(self.events(team, number))

    def events(self, team: Team, number: int) -> list[Event]:
        """The record of one run of a team with simulated members."""
        run_id, seed = f"simulated-{number}", seed_of(self.seed, number)

        async def main() -> list[Event]:
            journal = MemoryJournal()
            with bounded_run() as bound:
                async with Engine(journal, wall=virtual_now, seed=lambda: seed) as engine:
                    with anyio.CancelScope() as scope:
                        bound.stop = scope.cancel
                        await engine.run(team, self.task, run_id=run_id, limits=self.limits)
            bound.check()
            return await journal.read(run_id)

        return run_virtually(main)


def seed_of(seed: int, number: int) -> int:
    """The seed of one of many runs."""
    return int.from_bytes(blake2b(f"{seed}/{number}".encode(), digest_size=6).digest())


def measured(events: Sequence[Event]) -> SimulatedRun:
    """What a simulated run came to, by its record."""
    kpis, turns = kpis_of(events), turns_of(events)
    return SimulatedRun(
        kpis=kpis,
        right=_right(turns),
        messages=messages_in(kpis, turns),
        path=critical_path(turns),
        problem=next((fact.message or "" for one in reversed(events) if isinstance(fact := one.fact, RunEnded)), ""),
    )


def messages_in(kpis: Kpis, turns: Iterable[TurnFigures]) -> int:
    """What members told each other: as the strategies of topologies count it, else the turns in which they did."""
    return sum(turn.purpose == "coordinate" for turn in turns) if kpis.messages is None else kpis.messages


def _right(turns: Iterable[TurnFigures]) -> int:
    """How many places of work ended well and right; of several attempts at a place the last one counts."""
    places = {without_attempts(turn.key): turn for turn in turns if turn.purpose == "work"}
    return sum(turn.status == "passed" and RIGHT in turn.marks for turn in places.values())
