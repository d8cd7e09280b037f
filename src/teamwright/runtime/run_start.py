"""How a run starts or is resumed: what its first event says, and what its driver takes from the record."""

from __future__ import annotations

from teamwright.errors import NotResumable
from teamwright.runtime.context.workspace import store_file
from teamwright.runtime.people.applied_interventions import apply_pending
from teamwright.runtime.placement import placed_fact, recorded_turn
from teamwright.runtime.run_request import RunInput, process_name
from teamwright.runtime.run_state import RunState
from teamwright.teams.team import Team
from teamwright.values.events.run import RUN_FORMAT, RunResumed, RunStarted
from teamwright.values.people import confirmation_key
from teamwright.values.text.secret_names import without_secrets
from teamwright.values.turns.artifacts import stored_content
from teamwright.values.turns.messages import History
from teamwright.values.turns.turn import Turn


def begin(state: RunState, team: Team, given: RunInput, driver: str) -> Turn:
    """Record the start of a new run; returns the turn of its team."""
    recorder, redactor, record = state.recorder, state.redactor, state.record
    task = redactor.text(given.task)
    history = [one.changed(content=redactor.text(one.content)) for one in given.history]
    attachments = tuple(store_file(state, one) for one in given.attachments)
    new = {path: recorder.store(stored_content(content)) for path, content in given.files.items()}
    placed, turn = None, Turn(task, History.of(history), attachments=attachments)
    if given.placed is not None:
        placed, turn = placed_fact(recorder, given.placed), given.placed.turn
        attachments = turn.attachments
    started = RunStarted(
        team=team.name,
        task=recorder.store(task),
        manifest=recorder.store(without_secrets(team.declaration())),
        seed=given.seed,
        strategies=team.strategies(),
        origin=given.origin,
        history=recorder.store_messages(history),
        limits=given.limits.bounds if given.limits else None,
        format=RUN_FORMAT,
        conversation=given.conversation,
        attachments=attachments,
        confirm=given.confirm,
        files=new or dict(team.stored_files),
        code=given.code or team.code,
        budget=given.claim.budget if given.claim else "",
        placed=placed,
        driver=driver,
    )
    recorder.claim = given.claim
    if given.confirmation is not None:
        state.answers[confirmation_key(team.name)] = given.confirmation
    event = recorder.add("", "", started)
    record.started = started
    record.workspace.add_attachments(started)
    record.started_at = state.now = event.time  # as recorded, so that a resumed run starts at the same instant
    record.driver_time.apply_change(event)
    state.seed, state.limits, state.task, state.history = given.seed, given.limits, task, turn.history
    return turn


def resume(state: RunState, team: Team, driver: str) -> Turn:
    """Record that a run is resumed; returns the turn of its team. Raises `NotResumable` if it can't be."""
    started, record = require_resumable(state, team), state.record
    state.seed, state.now = started.seed, record.started_at
    state.limits = record.limits()
    record.charge_open_turns()
    state.recorder.held = state.delivery.is_replaying
    state.recorder.add("", "", RunResumed(driver=driver or process_name(), folder=team.moved_to))
    if record.interventions:
        apply_pending(state, team)
    state.task = str(record.bodies.value(started.task))
    state.history = History.of(record.bodies.messages(started.history))
    return recorded_turn(record, state.task, state.history)


def require_resumable(state: RunState, team: Team) -> RunStarted:
    """Return the start of a run; raises `NotResumable` if this program or its strategies can't go on with it."""
    started, run_id = state.record.started, state.run_id
    if started is None:
        raise NotResumable(f"Run {run_id!r} has no start event in the journal.")
    if started.format > RUN_FORMAT:
        raise NotResumable(
            f"Run {run_id!r} was begun by a newer version of Teamwright (run format {started.format}; this"
            f" version knows {RUN_FORMAT}); update Teamwright to resume it."
        )
    now = team.strategies()
    for name, version in started.strategies.items():
        if now.get(name, version) != version:
            raise NotResumable(
                f"Run {run_id!r} began with version {version} of the strategy {name!r}, and this is version"
                f" {now[name]}; install the older one, or go on with  teamwright runs fork {run_id}"
            )
    return started
