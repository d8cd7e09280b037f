"""What a recorded run would have been with another model, limit, width or topology: no call, and nothing is written.

A figure is exact as long as every member is asked what it was asked in the record; otherwise it is an estimate.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import anyio

from teamwright.agents.files.attachment import Attachment
from teamwright.errors import UsageError
from teamwright.history.history import RunHistory
from teamwright.history.kpis import kpis_of
from teamwright.journal.codec import decode_body
from teamwright.journal.memory import MemoryJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.lab.calibration.behaviour import learn
from teamwright.lab.replay.changes import RunChanges, with_changes
from teamwright.lab.replay.recorded_turns import RecordedTurn, recorded_turns
from teamwright.lab.replay.replayed_agents import Replay, replayed_team
from teamwright.lab.replay.report import OtherRun, WhatIfReport, make_report
from teamwright.lab.simulation.agents import Simulator, declared_behaviour
from teamwright.lab.simulation.topologies import in_topology
from teamwright.lab.simulation.trials import Trial, declared_team
from teamwright.lab.simulation.virtual_loop import run_virtually, virtual_now
from teamwright.lab.topology.profiles import topology_named
from teamwright.runtime.engine import Engine
from teamwright.runtime.team_source import read_source
from teamwright.teams.codeless import STAND_IN
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentCalled
from teamwright.values.events.event import Event
from teamwright.values.events.person import PersonAnswered
from teamwright.values.events.run import RunApplied, RunIntervened
from teamwright.values.events.workspace import WorkspaceKept
from teamwright.values.limits.limits import Limits
from teamwright.values.people.interventions import (
    AddMember,
    Answered,
    EditPlan,
    Intervention,
    RaiseBudget,
    RemoveMember,
    Tell,
)
from teamwright.values.turns.artifacts import BYTES, Artifact

RUN_ID = "what-if"
SIMULATED_RUNS = 25


async def what_if(journal: Journal, history: RunHistory, changes: RunChanges) -> WhatIfReport:
    """Compute what a recorded run would have been with these changes."""
    source = with_changes((await read_source(journal, history.record)).source, changes)
    bounds = history.limits_with(changes.limits, history.number)
    limits = Limits.from_bounds(bounds) if bounds is not None else None
    turns = await recorded_turns(journal, history)
    if changes.topology is not None:
        team = in_topology(declared_team(source), topology_named(changes.topology))
        other = await anyio.to_thread.run_sync(partial(_simulate, team, history, limits))
    else:
        _check_unchanged(history)
        kept = await _kept_bodies(journal, history)
        replay = Replay(turns, {name: source.manifest.agents[name].model or STAND_IN for name in changes.models})
        other = await anyio.to_thread.run_sync(partial(_replay, declared_team(source), history, replay, limits, kept))
        other = other.with_notes(_notes(history, turns, changes))
    return make_report(history, changes, turns, other)


def _check_unchanged(history: RunHistory) -> None:
    """Raise `UsageError` if people changed the team of the run: it is no longer the one that the record declares."""
    if any(isinstance(one, EditPlan | AddMember | RemoveMember) for one in _applied(history)):
        raise UsageError(
            f"People changed the plan or the members of the run {history.events[0].run_id!r} while it worked, so there"
            " is no other run to compute: fork it instead (teamwright runs fork)."
        )


def _applied(history: RunHistory) -> list[Intervention]:
    """The interventions that took effect."""
    return [event.fact.intervention for event in history.events if isinstance(event.fact, RunApplied)]


def _notes(history: RunHistory, turns: Sequence[RecordedTurn], changes: RunChanges) -> Iterable[str]:
    """Reasons why figures are estimates that are known in advance."""
    for name in changes.models:
        yield f"another model would write other words than {name!r} did: its recorded tokens are counted"
    if any(
        isinstance(event.fact, RunApplied) and isinstance(event.fact.intervention, Tell) for event in history.events
    ):
        yield "people said something to the recorded run; here they say it before the run starts"
    reserved = any(isinstance(event.fact, AgentCalled) and event.fact.reserved for event in history.events)
    asked = any(call.kind == "model" for turn in turns for call in turn.calls)
    if changes.limits is not None and changes.limits.bounds_spend and asked and not reserved:
        yield "no limit applied to the recorded run, so what a request may need is taken from what it used"


def _replay(
    team: Team, history: RunHistory, replay: Replay, limits: Limits | None, kept: Mapping[str, str]
) -> OtherRun:
    journal = MemoryJournal()
    started, begun = history.started, history.record.started_at
    files = [_attachment(one, kept) for one in started.attachments]

    async def main() -> list[Event]:
        journal.append(Batch(history.events, kept), lambda _error: None)
        for event in history.events:
            if isinstance(event.fact, PersonAnswered):
                await journal.send(RUN_ID, Answered(key=event.key, answer=event.fact.answer))
            elif isinstance(event.fact, RunIntervened) and isinstance(event.fact.intervention, Tell | RaiseBudget):
                await journal.send(RUN_ID, event.fact.intervention)
        engine = Engine(journal, wall=lambda: begun + virtual_now(), seed=lambda: started.seed, placement="here")
        async with engine:
            with anyio.CancelScope() as scope:
                replay.stop = scope.cancel
                await engine.run(
                    replayed_team(team, replay),
                    history.task,
                    run_id=RUN_ID,
                    history=history.record.bodies.messages(started.history),
                    limits=limits,
                    attachments=files,
                )
        return await journal.read(RUN_ID)

    events = run_virtually(main)
    return OtherRun(events, replay.estimated, replay.left_record, tuple(replay.notes))


def _simulate(team: Team, history: RunHistory, limits: Limits | None) -> OtherRun:
    """Simulate the team with the behaviour that its members had in the record; the median run stands for all."""
    simulator = Simulator(declared_behaviour(team), learn([history.events]))
    trial = Trial(team, history.task, history.started.seed, simulator, limits)
    simulated = trial.simulator.team(team)
    runs = sorted((trial.events(simulated, number) for number in range(SIMULATED_RUNS)), key=_tokens)
    note = f"another topology asks other things: the median of {SIMULATED_RUNS} runs, simulated with recorded figures"
    return OtherRun(runs[len(runs) // 2], estimated=True, notes=(note,))


def _tokens(events: Sequence[Event]) -> int:
    return kpis_of(events).total_tokens


async def _kept_bodies(journal: Journal, history: RunHistory) -> dict[str, str]:
    """The contents of artifacts, which members may open again."""
    kept = {event.fact.artifact.hash for event in history.events if isinstance(event.fact, WorkspaceKept)}
    return await journal.bodies(kept | {one.hash for one in history.started.attachments})


def _attachment(artifact: Artifact, kept: Mapping[str, str]) -> Attachment:
    value = decode_body(kept[artifact.hash])
    content = b64decode(str(value[BYTES])) if isinstance(value, dict) else str(value).encode()
    return Attachment(content, artifact.name, artifact.media_type)
