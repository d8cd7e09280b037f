"""A cluster whose teams place their branches on workers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import pytest

from teamwright.events import AgentCalled, RunStarted
from teamwright.runtime.placement import child_run_id
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.limits import Limits
from teamwright.values.turns.results import FINAL, RunResult
from tests.kit.queued_members import EFFECTS, TOKENS
from tests.kit.workers import PATIENCE, Cluster

KIT = "tests.kit.queued_members"
AGENTS = f"""
agents:
  worker: {{function: "{KIT}:work"}}
  curious: {{function: "{KIT}:ask_person"}}
  broken: {{function: "{KIT}:fail"}}
  keeper: {{function: "{KIT}:keep"}}
  opener: {{function: "{KIT}:open_named"}}
  reader: {{function: "{KIT}:open_all"}}
  hasty: {{function: "{KIT}:call_overloaded"}}
  owner: {{function: "{KIT}:say_owned"}}
"""


@dataclass
class PlacedCluster:
    """Submits runs of teams that place their branches on workers."""

    cluster: Cluster

    def load(self, teams: str) -> Team:
        """Return the team `outer` of the teams in a manifest."""
        path = self.cluster.folder / "placed.yaml"
        path.write_text(f"{AGENTS}teams:\n{teams}", encoding="utf-8")
        return load_team(path, team="outer")

    def team(self, width: int, member: str = "worker", more: str = "") -> Team:
        """Return a team whose branches are runs of their own; `more` are options of its strategy."""
        chunks = ", ".join(f"part-{number}" for number in range(width))
        return self.load(
            f"""
  inner:
    strategy: fan_out
    members: [worker]
    fan_out: {{chunks: [left, right], task: "{{{{ task }}}}.{{{{ chunk }}}}", placement: workers}}
  outer:
    strategy: fan_out
    members: [{member}]
    fan_out: {{chunks: [{chunks}], task: "{{{{ chunk }}}}", max_parallel: {width}, placement: workers{more}}}
"""
        )

    async def submit(
        self, run_id: str, *, width: int, member: str = "worker", more: str = "", limits: Limits | None = None
    ) -> None:
        """Submit a run of such a team."""
        await self.submit_team(run_id, self.team(width, member, more), limits)

    async def submit_team(self, run_id: str, team: Team, limits: Limits | None = None) -> None:
        """Submit a run of any team."""
        batch = await self.cluster.engine.enqueue(team, "the task", queue="default", run_id=run_id, limits=limits)
        assert await self.cluster.client.submit(batch)

    async def ended(self, run_id: str) -> RunResult:
        """Wait for the end of a run."""
        end = time.monotonic() + PATIENCE
        while True:
            found = await self.cluster.engine.runs.find(run_id)
            if found is not None and found.status in FINAL:
                return await self.cluster.engine.runs.result(run_id)
            assert time.monotonic() < end, (found, *(line for one in self.cluster.workers for line in one.lines[-5:]))
            await anyio.sleep(0.05)

    async def children(self, run_id: str) -> list[str]:
        """The ids of the children of a run, in the order of their calls."""
        history = await self.cluster.engine.runs.history(run_id)
        seed, found = history.started.seed, dict[str, None]()
        for event in history.events:
            if isinstance(event.fact, AgentCalled):
                found[child_run_id(run_id, seed, event.key)] = None
        return list(found)

    async def check(self, run_id: str, *, width: int, of: Sequence[str] = ()) -> None:
        """Check the result of a run, that each branch was one child, and that the spend agrees to the token."""
        engine = self.cluster.engine
        result = await engine.runs.result(run_id)
        assert result.data == [f"part-{number} is done" for number in range(width)]
        children = await self.children(run_id)
        assert len(children) == width
        for child in children:
            events = (await engine.runs.history(child)).events
            assert [one.kind for one in events].count("run.ended") == 1
            assert isinstance(events[0].fact, RunStarted)
            assert events[0].fact.origin is not None
            assert (events[0].fact.origin.how, events[0].fact.origin.run_id) == ("place", run_id)
            found = await engine.runs.find(child)
            assert found is not None
            assert (found.parent, found.total_tokens) == (run_id, EFFECTS * TOKENS)
            assert found.driver, "a worker drove it"
        assert result.usage.total_tokens == width * EFFECTS * TOKENS
        keys = [line.partition(" ")[0] for line in self.cluster.effects]
        assert len(set(keys)) == max(1, len(of)) * width * EFFECTS
        everyone = [child for parent in of or (run_id,) for child in await self.children(parent)]
        assert {one.id for one in await engine.runs.list()} == {*(of or (run_id,)), *everyone}


@pytest.fixture
def placed(cluster: Cluster) -> PlacedCluster:
    """A cluster without workers."""
    return PlacedCluster(cluster)
