"""What a recorded run would have been with another model, limit, width or topology. No call; nothing is written.

The report has the recorded figures beside those that the run would have had. A figure is exact as long as every member
is asked what it was asked in the record; otherwise it is an estimate.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
from pydantic import JsonValue

from teamwright.agents.attachments import Attachment
from teamwright.agents.prices import known_models, rate_of
from teamwright.errors import UnknownName, UsageError, nearest
from teamwright.history.fork import fork_limits
from teamwright.history.kpis import kpis_of, turns_of
from teamwright.history.run_history import RunHistory
from teamwright.journal.codec import decode_body
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Journal
from teamwright.lab.observations import learn
from teamwright.lab.simulation.replay import (
    RecordedTurn,
    Replay,
    evaluators_of,
    recorded_evaluators,
    recorded_turns,
    replayed_team,
)
from teamwright.lab.simulation.simulated_agents import Simulator, declared_behaviour
from teamwright.lab.simulation.trials import Trial, declared_team, in_topology
from teamwright.lab.topology_model import topology_named
from teamwright.runtime.engine import Engine
from teamwright.runtime.recorded.reader import read_source
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.registry import find_strategy
from teamwright.teams.team import Team
from teamwright.teams.team_loader import STAND_IN, resolve_model, source_with_limits, without_code
from teamwright.testing.virtual_loop import run_virtually, virtual_now
from teamwright.values.events.agent import AgentCalled, AgentReplied, AgentReturned, WorkspaceKept
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, RunApplied, RunEnded, RunIntervened, ScopeExpired
from teamwright.values.limits import Limits, refusal_text
from teamwright.values.people import Answered, Intervention, RaiseBudget, TeamChange, Tell
from teamwright.values.run_keys import next_attempt
from teamwright.values.specs.manifest import Manifest, Source, TeamSpec
from teamwright.values.specs.models import AnyModel
from teamwright.values.turns.artifacts import BYTES, Artifact
from teamwright.values.turns.results import Status, StopReason
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import Record

WIDTH = "max_parallel"
"""The option that says how many members work at once."""
OTHERS = ("fan_out",)
"""The strategies besides those with a plan of which a replay can say what another width changes."""


@dataclass(frozen=True, slots=True)
class RunChanges:
    """What is different from the recorded run: models by member, limits of the run, members at once, the topology."""

    models: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Limits | None = None
    at_once: int | None = None
    topology: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        limits = self.limits.bounds.given if self.limits is not None else {}
        given = {"models": dict(self.models), "limits": limits, "at_once": self.at_once, "topology": self.topology}
        return {name: value for name, value in given.items() if value}  # pyright: ignore[reportReturnType]


def with_changes(source: Source, changes: RunChanges) -> Source:
    """The declaration of the team with other models, limits and widths, and without code: nothing is called."""
    manifest = source.manifest
    for name, model in changes.models.items():
        if name not in manifest.agents:
            raise UnknownName("member with a model", name, manifest.agents)
        agent = manifest.agents[name].model_copy(update={"model": _priced_model(manifest, model)})
        manifest = manifest.model_copy(update={"agents": {**manifest.agents, name: agent}})
    if changes.at_once is not None:
        manifest = _with_width(source.team, manifest, changes.at_once)
    source = without_code(source.model_copy(update={"manifest": manifest}))
    return source if changes.limits is None else source_with_limits(source, changes.limits)


def _priced_model(manifest: Manifest, name: str) -> AnyModel:
    """A model by its name in the manifest, or a provider's; raises if its price is not known."""
    model = manifest.models.get(name) or resolve_model(name)
    if rate_of(model, 1) is None:
        known = [*manifest.models, *known_models(name.partition(":")[0])]
        raise UsageError(f"No price is known for the model {name!r}; {nearest(name, known)}")
    return model


def _with_width(team: str, manifest: Manifest, at_once: int) -> Manifest:
    teams = {name: _team_with_width(spec, at_once) for name, spec in manifest.teams.items()}
    if teams == manifest.teams and not any(_has_width(spec) for spec in manifest.teams.values()):
        raise UsageError(
            f"The members of {team!r} work one after another, so --at-once changes nothing; it is for strategies with"
            f" {WIDTH}, such as dag, expert and {', '.join(OTHERS)}."
        )
    return manifest.model_copy(update={"teams": teams})


def _team_with_width(spec: TeamSpec, at_once: int) -> TeamSpec:
    return spec.model_copy(update={"options": {**spec.options, WIDTH: at_once}}) if _has_width(spec) else spec


def _has_width(spec: TeamSpec) -> bool:
    strategy = find_strategy(spec.strategy)
    known = strategy.options
    if known is None or WIDTH not in known.model_fields:
        return False
    return strategy.name in OTHERS or (issubclass(known, PlanOptions) and known.model_fields[WIDTH].default != 1)


class RunFigures(Record, frozen=True):
    """What a run or one of its members took; `usd` is `None` where no price is known."""

    asks: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0


class Compared(Record, frozen=True):
    """The figures of the recorded run, or of a member in it, beside those that it would have had."""

    recorded: RunFigures
    what_if: RunFigures
    exact: bool


class WhatIfStop(Record, frozen=True):
    """Where a limit would have stopped the run: the turn, its member, and the reason."""

    key: str
    member: str
    why: str
    exact: bool


class WhatIfReport(Record, frozen=True):
    """A recorded run and what it would have been. An estimate has `exact` false, and `notes` say why.

    `status` is `None` if the run would have gone on beyond its record.
    """

    run_id: str
    team: str
    changes: dict[str, JsonValue]
    recorded_status: Status
    recorded_stop_reason: StopReason | None
    status: Status | None
    stop_reason: StopReason | None
    stopped: WhatIfStop | None
    total: Compared
    members: dict[str, Compared]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OtherRun:
    """The events of the other run, and how sure its figures are."""

    events: list[Event]
    estimated: bool
    left_record: bool = False
    notes: tuple[str, ...] = ()

    def with_notes(self, notes: Iterable[str]) -> OtherRun:
        """The other run as an estimate for further reasons, if there are any."""
        more = tuple(notes)
        return OtherRun(self.events, self.estimated or bool(more), self.left_record, (*more, *self.notes))


def make_report(
    history: RunHistory, changes: RunChanges, turns: Sequence[RecordedTurn], other_run: OtherRun
) -> WhatIfReport:
    """Compare the figures of a recorded run with those of another one."""
    before, after = kpis_of(history.events), kpis_of(other_run.events)
    exact = not other_run.estimated and not other_run.left_record
    untouched = _untouched(turns, changes) if changes.topology is None else frozenset[str]()
    recorded, other = _member_figures(history.events), _member_figures(other_run.events)
    members = {
        name: Compared(
            recorded=recorded.get(name, RunFigures()),
            what_if=other.get(name, RunFigures()),
            exact=exact or (name in untouched and _is_same_work(recorded.get(name), other.get(name))),
        )
        for name in dict.fromkeys((*recorded, *other))
    }
    total = Compared(
        recorded=_total(history.events, before.asks, before.seconds),
        what_if=_total(other_run.events, after.asks, _seconds(other_run, after.seconds)),
        exact=exact,
    )
    return WhatIfReport(
        run_id=history.events[0].run_id,
        team=history.started.team,
        changes=changes.to_json(),
        recorded_status=before.status,
        recorded_stop_reason=before.stop_reason,
        status=None if other_run.left_record else after.status,
        stop_reason=None if other_run.left_record else after.stop_reason,
        stopped=_stop(other_run.events, exact=exact),
        total=total,
        members=members,
        notes=other_run.notes,
    )


def _is_same_work(one: RunFigures | None, other: RunFigures | None) -> bool:
    """Whether a member did the same in both runs; in the recorded one it may have taken longer by its overhead."""
    return one is not None and other is not None and one.changed(seconds=0.0) == other.changed(seconds=0.0)


def _untouched(turns: Sequence[RecordedTurn], changes: RunChanges) -> frozenset[str]:
    """The members whose turns all began before the first one of a member with another model."""
    names = [turn.member for turn in turns]
    made = [{turn.member, *(call.member for call in turn.calls)} for turn in turns]
    first = next((place for place, members in enumerate(made) if members & changes.models.keys()), len(names))
    return frozenset(names[:first]).difference(names[first:])


def _member_figures(events: Sequence[Event]) -> dict[str, RunFigures]:
    usage: dict[str, Usage] = {}
    asks: dict[str, int] = {}
    seconds: dict[str, float] = {}
    for turn in turns_of(events):
        name = turn.member
        usage[name] = usage.get(name, NOTHING) + turn.usage
        asks[name] = asks.get(name, 0) + 1
        if turn.ended is not None:
            seconds[name] = seconds.get(name, 0.0) + turn.ended - turn.began
    return {name: _figures(usage[name], asks[name], seconds.get(name, 0.0)) for name in usage}


def _figures(usage: Usage, asks: int, seconds: float) -> RunFigures:
    return RunFigures(
        asks=asks,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        usd=usage.usd,
        seconds=round(seconds, 3),
    )


def _total(events: Sequence[Event], asks: int, seconds: float) -> RunFigures:
    """The figures of a whole run: its usage as its end records it, else that of its calls so far."""
    calls = {event.key: event.fact.usage for event in events if isinstance(event.fact, AgentReturned)}
    ended = next((event.fact.usage for event in reversed(events) if isinstance(event.fact, RunEnded)), None)
    return _figures(sum(calls.values(), NOTHING) if ended is None else ended, asks, seconds)


def _seconds(other_run: OtherRun, seconds: float) -> float:
    """The time of the other run; of one that waits for what was never recorded, until its last event before that."""
    if not other_run.left_record:
        return seconds
    first, *_ = other_run.events
    return (
        max((turn.ended or turn.began) - first.time for turn in turns_of(other_run.events))
        if len(other_run.events) > 1
        else 0.0
    )


def _stop(events: Sequence[Event], *, exact: bool) -> WhatIfStop | None:
    """Where the first limit stopped the run; a refused turn that was made again with less stopped nothing."""
    members = {turn.key: turn.member for turn in turns_of(events)}
    for event in events:
        match event.fact:
            case BudgetRefused() if next_attempt(event.scope) in members:
                pass
            case BudgetRefused(level=level, what=what, needed=needed, left=left, limit=limit, kept=kept, why=counted):
                member = members.get(event.scope, "")
                why = refusal_text(level, what, needed, left, limit, kept, counted)
                return WhatIfStop(key=event.scope, member=member, why=why, exact=exact)
            case ScopeExpired(seconds=seconds):
                return WhatIfStop(
                    key=event.key, member=members.get(event.key, ""), why=f"{seconds:g} seconds passed", exact=exact
                )
            case _:
                pass
    return None


RUN_ID = "what-if"
SIMULATED_RUNS = 25


async def what_if(journal: Journal, history: RunHistory, changes: RunChanges) -> WhatIfReport:
    """Compute what a recorded run would have been with these changes."""
    source = with_changes((await read_source(journal, history.record)).source, changes)
    bounds = fork_limits(history, changes.limits, history.number)
    limits = Limits.from_bounds(bounds) if bounds is not None else None
    turns = await recorded_turns(journal, history)
    if changes.topology is not None:
        team = in_topology(declared_team(source), topology_named(changes.topology))
        other = await anyio.to_thread.run_sync(partial(_simulate, team, history, limits))
    else:
        _check_unchanged(history)
        kept = await _kept_bodies(journal, history)
        agents = source.manifest.agents
        models = {name: agents[name].model or STAND_IN for name in changes.models}
        replay = Replay(turns, models, agents, recorded_evaluators(history))
        other = await anyio.to_thread.run_sync(partial(_replay, source, history, replay, limits, kept))
        other = other.with_notes(_notes(history, turns, changes))
    return make_report(history, changes, turns, other)


def _check_unchanged(history: RunHistory) -> None:
    """Raise `UsageError` if people changed the team of the run: it is no longer the one that the record declares."""
    if any(isinstance(one, TeamChange) for one in _applied(history)):
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
    if history.started.commit:
        yield "the team works on files: here no change is merged, and so none refused and resolved"
    reserved = any(isinstance(event.fact, AgentCalled) and event.fact.reserved for event in history.events)
    asked = any(call.kind == "model" for turn in turns for call in turn.calls)
    if changes.limits is not None and changes.limits.bounds_spend and asked and not reserved:
        yield "no limit applied to the recorded run, so what a request may need is taken from what it used"


def _replay(
    source: Source, history: RunHistory, replay: Replay, limits: Limits | None, kept: Mapping[str, str]
) -> OtherRun:
    journal = MemoryJournal()
    started, begun = history.started, history.record.started_at
    files = [_attachment(one, kept) for one in started.attachments]
    with evaluators_of(replay):
        team = replayed_team(declared_team(source), replay)

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
                    team,
                    history.task,
                    run_id=RUN_ID,
                    history=history.record.bodies.messages(started.history),
                    limits=limits,
                    attachments=files,
                )
        return await journal.read(RUN_ID)

    with evaluators_of(replay):  # those of steps are made when the plan is known
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
    """The contents of artifacts, which members may open again, and of files that calls have returned."""
    facts = [event.fact for event in history.events]
    kept = [one.artifact for one in facts if isinstance(one, WorkspaceKept)]
    returned = [file for one in facts if isinstance(one, AgentReturned | AgentReplied) for file in one.artifacts]
    return await journal.bodies({one.hash for one in (*kept, *returned, *history.started.attachments)})


def _attachment(artifact: Artifact, kept: Mapping[str, str]) -> Attachment:
    value = decode_body(kept[artifact.hash])
    content = b64decode(str(value[BYTES])) if isinstance(value, dict) else str(value).encode()
    return Attachment(content, artifact.name, artifact.media_type)
