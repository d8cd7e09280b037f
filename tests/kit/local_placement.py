"""A placement without workers: child runs are driven one by one in the process of their parent, on any journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from teamwright import Engine
from teamwright.history.run_record import RunRecord
from teamwright.journal.protocol import Batch, Journal, commit
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.placement import CancelRun, PackedTeam
from teamwright.runtime.recorded.reader import read_record
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.specs.manifest import Source

MANIFEST = """\
agents:
  alone: {{model: scripted:replies.yaml}}
  left: {{model: scripted:replies.yaml}}
  right: {{model: scripted:replies.yaml}}
teams:
  inner: {{strategy: sequential, members: [left, right]}}
  outer:
    strategy: dag
    members: [alone, inner]
    dag:
      placement: {placement}
      steps:
        - {{id: one, agent: alone, task: one}}
        - {{id: two, agent: inner, task: two}}
"""


class LocalPlacement:
    """Drives children with the engine that it is given."""

    queue = "branches"
    engine: Engine

    async def open(self, journal: Journal, bus: Bus, cancel: CancelRun) -> None:
        """Need nothing."""

    async def close(self) -> None:
        """Have nothing."""

    async def pack(self, source: Source, team: Team) -> PackedTeam:
        """Leave the files where they are."""
        return PackedTeam(source, {})

    async def finished(self, batch: Batch, *, parent: str, depth: int) -> RunRecord:
        """Drive a child to its end."""
        await commit(self.engine.journal, batch)
        await self.engine.resume(batch.run_id)
        return await read_record(self.engine.journal, batch.run_id)

    def cancel(self, run_ids: Sequence[str]) -> None:
        """No child outlives the call of its parent."""


@asynccontextmanager
async def placing_engine() -> AsyncGenerator[Engine]:
    """An engine in memory whose branches are child runs."""
    placement = LocalPlacement()
    async with Engine("memory", placement=placement) as engine:
        placement.engine = engine
        yield engine


def placed_team(folder: Path, placement: str = "workers") -> Team:
    """A team with two branches: an agent, and a team of two agents."""
    (folder / "replies.yaml").write_text("rules: [{reply: several words of a reply}]\n", encoding="utf-8")
    path = folder / f"{placement}.yaml"
    path.write_text(MANIFEST.format(placement=placement), encoding="utf-8")
    return load_team(path)
