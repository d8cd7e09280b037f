"""Forks: which events of a run a fork copies, and with which limits.

A fork keeps what was recorded before its point, except drivers, limits, the end of the run and asks that a cancel
stopped. It reads the record and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf

from msgspec.structs import replace
from pydantic_core import to_json

from teamwright.history.checkpoints import checkpoint_name
from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Batch
from teamwright.teams.team import Team
from teamwright.values.events import agent, run
from teamwright.values.events.budget import BudgetOpened, BudgetRaised
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEnded, TeamReopened
from teamwright.values.limits import Bounds, Limits, lowered
from teamwright.values.people import SMALLER, YES, Answer, confirmation_key, lower_ceiling
from teamwright.values.text.secret_names import without_secrets
from teamwright.values.turns.messages import digest

NOT_COPIED = (
    run.RunStarted, run.RunResumed, run.RunPaused, run.RunInterrupted, run.RunQueued, run.RunEnded,
    run.RunIntervened, run.RunRefused, run.RunAborted, run.RunNotified, run.ScopeWaited, BudgetRaised, TeamEnded,
    BudgetOpened,
)  # fmt: skip
"""Facts about one run alone: its drivers, its limits and its end."""


def fork_batch(
    history: RunHistory,
    team: Team,
    *,
    run_id: str,
    now: float,
    at: int | None = None,
    without: Collection[str] = (),
    task: str | None = None,
    limits: Limits | None = None,
    driver: str = "",
) -> Batch:
    """Return the first events of a fork: those of the run up to number `at`, except the calls in `without`.

    The fork keeps the run's limits; `limits` overrides single ones. It is no turn of the run's conversation, and
    `driver` drives it.
    """
    last = at if at is not None else history.number
    bodies: dict[str, str] = {}

    def keep(text: str) -> str:
        body = digest(text)
        bodies[body] = text
        return body

    started = history.started
    begun = started.changed(
        origin=_origin(history, last),
        task=started.task if task is None else keep(to_json(task).decode()),
        manifest=keep(to_json(without_secrets(team.declaration())).decode()),
        strategies=team.strategies(),
        team=team.name,
        limits=fork_limits(history, limits, last),
        conversation="",
        confirm=started.confirm if _confirmation(history, last) is None else None,
        driver=driver,
    )
    events = [Event(run_id, 1, now, "", "", begun)]
    for number, event in enumerate(copied_events(history, last, without), start=2):
        fact = TeamReopened() if _ends_a_team(history, event) else event.fact
        events.append(replace(event, run_id=run_id, number=number, fact=fact))
    return Batch(events, bodies, source=history.events[0].run_id)


def copied_events(history: RunHistory, last: int, without: Collection[str] = ()) -> Iterator[Event]:
    """Yield the events that a fork at event `last` copies; the keys of `without` are asked or called again."""
    cancelled_at, under_way = _cancelled_at(history), calls_returned_after(history.events, last)
    for event in history.events:
        if event.number > last:
            return
        if event.number in under_way or event.key in without:
            continue
        if not _is_left_out(history, event, cancelled_at):
            yield event


def _is_left_out(history: RunHistory, event: Event, cancelled_at: float) -> bool:
    """Whether an event is of this run alone, or the ending of the run or of an ask that a cancel stopped.

    So is the confirmation of the run, which a fork takes from its first event.
    """
    if history.started.confirm is not None and event.key == confirmation_key(history.started.team):
        return True
    if isinstance(event.fact, agent.AgentReplied | agent.AgentFailed):
        ask = history.record.asks[event.key]
        return not event.scope or (ask.is_cancelled and (ask.is_team or event.number > cancelled_at))
    return isinstance(event.fact, NOT_COPIED)


def _ends_a_team(history: RunHistory, event: Event) -> bool:
    return isinstance(event.fact, agent.AgentReplied | agent.AgentFailed) and history.record.asks[event.key].is_team


def _cancelled_at(history: RunHistory) -> float:
    """The number of the event that cancelled or aborted the run; asks that it stopped are open on a fork."""
    ends = (
        event.number
        for event in history.events
        if isinstance(event.fact, run.RunAborted)
        or (isinstance(event.fact, run.RunIntervened) and event.fact.intervention.kind == "cancel")
    )
    return next(ends, inf)


def calls_returned_after(events: Sequence[Event], last: int) -> set[int]:
    """Return the numbers of calls up to event `last` that returned only after it; a fork at `last` leaves them out."""
    open_: dict[str, int] = {}
    found: set[int] = set()
    for event in events:
        match event.fact:
            case agent.AgentCalled() if event.number <= last:
                open_[event.key] = event.number
            case agent.AgentReturned() | agent.AgentCallFailed() if event.key in open_:
                number = open_.pop(event.key)
                if event.number > last:
                    found.add(number)
            case _:
                pass
    return found


def _origin(history: RunHistory, number: int) -> run.Origin:
    """Return the origin of a fork at an event."""
    before = history.started.origin
    root = before.root_run if before is not None and before.how == "fork" else ""
    checkpoint = checkpoint_name(number, history.checkpoints())
    return run.Origin(run_id=history.events[0].run_id, number=number, how="fork", checkpoint=checkpoint, root=root)


def fork_limits(history: RunHistory, given: Limits | None, last: int) -> Bounds | None:
    """The limits of the run as of an event, with those that a person lowered before it began.

    The given ones replace those of the same kind.
    """
    known = history.started.limits
    if (confirmed := _confirmation(history, last)) is not None and confirmed.text == SMALLER:
        before = Limits.from_bounds(known) if known is not None else None
        ceiling = lower_ceiling(confirmation_key(history.started.team), confirmed.data)
        known = lowered(before, ceiling).bounds
    if given is None or known is None:
        return known if given is None else given.bounds
    return known.changed(**given.bounds.given)


def _confirmation(history: RunHistory, last: int) -> Answer | None:
    """The answer by which a person let the run begin, if it was given up to this event.

    A fork of a confirmed run is not confirmed again; one of a run that was not to begin is.
    """
    event = history.record.answers.get(confirmation_key(history.started.team))
    if event is None or event.number > last or not isinstance(event.fact, run.PersonAnswered):
        return None
    return event.fact.answer if event.fact.answer.text in {YES, SMALLER} else None
