"""A run that places branches: what its children inherit, and their first batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Final

from teamwright.agents.contract.agent import Agent, Context, Workspace
from teamwright.agents.contract.effect import Attempt
from teamwright.errors import UsageError
from teamwright.journal.protocol import Batch
from teamwright.runtime.driver.run_input import PlacedInput, RunInput
from teamwright.runtime.placement.placed_turn import notes_team_of, pointed_artifacts
from teamwright.runtime.placement.protocol import PackedTeam, Placement
from teamwright.runtime.run_state import RunState
from teamwright.teams.team import Team
from teamwright.values.call_limits import Recovery
from teamwright.values.events.agent import RUN_KIND, AgentReplied
from teamwright.values.events.run import Origin
from teamwright.values.key import join_key
from teamwright.values.people import Approve
from teamwright.values.specs.manifest import Source
from teamwright.values.text.secret_names import without_secrets
from teamwright.values.turns.artifacts import SharedValue
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.wings import hint

CALL: Final = "run"
"""The key of the effect that starts a child, within the turn of the member."""

MakeBatch = Callable[[str, Team, RunInput], Batch]
"""Returns the first batch of a child run."""


def child_run_id(parent: str, seed: int, key: str) -> str:
    """Return the id of the run that the effect of a parent with this key starts."""
    return f"{parent[:40]}-{digest(parent, str(seed), key)[:16]}"


@dataclass(slots=True)
class ParentRun:
    """One run whose branches are placed; its children get the source, files and code of its own start."""

    state: RunState
    team: Team
    placement: Placement
    make_batch: MakeBatch
    _packed: PackedTeam | None = None
    _packing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def place(self, member: Agent, recovery: Recovery | None) -> Agent:
        """Return the member that answers for another one, by child runs, which recover as the teams around it say."""
        from teamwright.runtime.placement.placed_member import PlacedMember  # most runs place nothing

        return PlacedMember(member, self, recovery)

    @property
    def depth(self) -> int:
        """The number of runs around this one."""
        placed = self.state.record.start.placed
        return 0 if placed is None else placed.depth

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.state.run_id

    def child_id(self, key: str) -> str:
        """Return the id of the child that the effect with this key starts."""
        return child_run_id(self.run_id, self.state.seed, key)

    async def new_child(
        self, member: Agent, turn: Turn, ctx: Context, recovery: Recovery | None, attempt: Attempt
    ) -> Batch:
        """Return the first batch of the run in which a member answers a turn. Equal calls give the same run."""
        packed, run_id, start = await self._pack(), self.child_id(attempt.key), self.state.record.start
        values = _shared_values(ctx.workspace)
        artifacts = tuple(sorted(pointed_artifacts(turn, values) & self.state.record.workspace.artifacts))
        given = RunInput(
            turn.task,
            seed=int(digest(run_id)[:12], 16),
            history=turn.history,
            origin=Origin(run_id=self.run_id, number=self.state.recorder.number, how="place", key=attempt.key),
            limits=attempt.limits,
            files=packed.files,
            placed=PlacedInput(
                turn,
                self.depth + 1,
                artifacts,
                values,
                recovery=recovery,
                owned=ctx.owned,
                notes_team=notes_team_of(self.state.record) or self.team.name,
            ),
        )
        team = copy(member) if isinstance(member, Team) else Team(member.name, members=[member], checked=True)
        team.declared, team.secrets = _child_source(packed.source, member.name), self.team.secrets
        team.stored_files, team.code = start.files, start.code
        return self.make_batch(run_id, team, given)

    async def _pack(self) -> PackedTeam:
        """Return the source for the children, and the files that travel with them; read once.

        The journal has the files of a parent that was submitted itself.
        """
        async with self._packing:
            if self._packed is None:
                record = self.state.record
                recorded = record.source() if record.number else None
                source = recorded or Source.model_validate(without_secrets(self.team.declaration()))
                packs = not record.start.files
                self._packed = await self.placement.pack(source, self.team) if packs else PackedTeam(source, {})
            return self._packed

    def cancel_stopped(self) -> None:
        """Cancel the children of asks that ended without them: the parent may have died before it could say so."""
        stopped = [
            self.child_id(join_key(key, CALL))
            for key, ask in self.state.record.asks.items()
            if ask.asked.member_kind == RUN_KIND and ask.ending is not None and not isinstance(ask.ending, AgentReplied)
        ]
        if stopped:
            self.placement.cancel(stopped)


def require_no_placement(teams: Iterable[Team]) -> None:
    """Raise `UsageError` if a team places branches on workers."""
    for team in teams:
        if team.places_branches:
            passed = hint("place_branches") or "Engine(url, placement=…)"
            raise UsageError(
                f"The team {team.name!r} has  placement: workers , which needs workers and a journal in Postgres:"
                f" set TEAMWRIGHT_JOURNAL=postgresql://…, or use  placement: here . In Python, pass  {passed}"
            )


def _shared_values(workspace: Workspace) -> dict[str, SharedValue]:
    return {name: value for name in workspace.names() if (value := workspace.get(name)) is not None}


def _child_source(source: Source, member: str) -> Source:
    """The source of the parent with the member as its team, without what the parent does for the member."""
    teams, agents = source.manifest.teams, source.manifest.agents
    if (team := teams.get(member)) is not None:
        spec = team.model_copy(update={"approve": None, "evaluate": None, "optional": False, "critical": False})
        manifest = source.manifest.model_copy(update={"teams": {**teams, member: spec}})
    else:
        agent = agents[member]
        approve = None if agent.approve is None else Approve(tools=agent.approve.tools)
        bare = agent.model_copy(update={"approve": approve, "evaluate": None, "optional": False, "critical": False})
        manifest = source.manifest.model_copy(update={"agents": {**agents, member: bare}})
    return source.model_copy(update={"manifest": manifest, "team": member})
