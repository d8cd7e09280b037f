"""Forks: where one or a retry starts, which events of a run a fork copies, and with which limits.

A fork keeps what was recorded before its point, except drivers, limits, the end of the run and asks that a cancel
stopped. It reads the record and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import inf

from msgspec.structs import replace
from pydantic_core import to_json

from teamwright.agents.review import REJECTED, REVIEW_EXCEEDED
from teamwright.errors import UsageError
from teamwright.history.run_history import Checkpoint, RunHistory
from teamwright.history.run_record import EFFECTS
from teamwright.journal.protocol import Batch
from teamwright.teams.team import Team
from teamwright.values.events import agent, run
from teamwright.values.events.agent import AgentCallFailed, AgentFailed, AgentReplied
from teamwright.values.events.budget import BudgetOpened, BudgetRaised, BudgetRefused
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import RunIntervened, ScopeExpired
from teamwright.values.events.team import TeamEnded, TeamEvaluationResult, TeamReopened
from teamwright.values.limits import Bounds, Limits, lowered
from teamwright.values.people import SMALLER, YES, Answer, confirmation_key, lower_ceiling
from teamwright.values.run_keys import in_scope, join_key, parent_key, without_attempts
from teamwright.values.text.secrets import without_secrets
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import STOPPED, StopReason

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

    The fork keeps the run's limits; `limits` overrides single ones. It is not a turn of the run's conversation, and
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
    checkpoint = next((one.name for one in reversed(history.checkpoints()) if one.number == number), "")
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


ENDINGS = ("agent.replied", "agent.failed")


def point_of_fork(
    history: RunHistory, at: int | str | Checkpoint | None, *, retry: bool
) -> tuple[int | None, frozenset[str]]:
    """Return where a fork starts: the number of the last event to keep, and the calls before it to make again.

    Without a place, it starts before what stopped the run.
    """
    if retry:
        return point_of_retry(history)
    return history.point(at) if at is not None else point_before_stop(history), frozenset()


def point_of_retry(history: RunHistory) -> tuple[int, frozenset[str]]:
    """Return where a retry starts: the number of the last event to keep, and the calls before it to make again.

    Other members keep their replies, and the member that failed last keeps its successful calls. Where the team
    failed for another reason, the last reply is asked for again.
    """
    if history.record.ended is not None and history.record.ended.stop_reason == REVIEW_EXCEEDED:
        review = _before_review(history)
        if review is not None:
            return review
    last = _ending_to_retry(history)
    if last is None:
        raise UsageError(f"Run {history.events[0].run_id!r} has no failed member to retry; fork it with --at NUMBER.")
    if (rejection := _rejection(history, last)) is not None:
        return rejection - 1, frozenset()
    calls = [e for e in history.events if e.kind in EFFECTS and history.record.turn_of(e.scope) == last.key]
    lost = {e.key for e in calls if isinstance(e.fact, AgentCallFailed | BudgetRefused)}
    return last.number - 1, frozenset(lost or {e.key for e in calls})


def _before_review(history: RunHistory) -> tuple[int, frozenset[str]] | None:
    """Return the number of the last event to keep, and the keys before it to leave out; None without such a review.

    Work that did not pass is asked for again, with the verdicts on earlier attempts. Where the review broke off, the
    work stays and the evaluator is asked again. Other members keep their replies in both cases.
    """
    for event in reversed(history.events):
        fact = event.fact
        if not isinstance(fact, TeamEvaluationResult) or fact.verdict.passes or history.record.is_superseded(event.key):
            continue
        again = [parent_key(event.key)]
        if fact.verdict.outcome == "revise":
            again.append(join_key(event.scope, fact.work))
        before = {one.key: without_attempts(one.key) for one in history.events[: event.number]}
        places = [without_attempts(key) for key in again]
        return event.number - 1, frozenset(
            key for key, place in before.items() if any(in_scope(place, one) for one in places)
        )
    return None


def _ending_to_retry(history: RunHistory) -> Event | None:
    """The ending of the turn to retry: the last failure, or the reply over which the team failed."""
    ending = history.ending()
    counts = [e for e in history.events if e.kind in ENDINGS and not history.record.is_superseded(e.key)]
    failed = [e for e in counts if isinstance(e.fact, AgentFailed) and _is_own_failure(history, e)]
    last = failed[-1] if failed else None
    if not isinstance(ending, AgentFailed) or ending.error in STOPPED:
        return last
    if last is not None and isinstance(last.fact, AgentFailed) and last.fact.error == ending.error:
        return last
    answers = (e for e in reversed(counts) if isinstance(e.fact, AgentReplied))
    return next((e for e in answers if not history.record.asks[e.key].is_team), last)


def _rejection(history: RunHistory, ended: Event) -> int | None:
    """The number of the answer in which a person rejected the member's task or reply, if it failed for that."""
    asked = join_key(ended.key, "confirm-")
    answers = [e.number for e in history.record.answers.values() if e.key.startswith(asked)]
    rejected = isinstance(ended.fact, AgentFailed) and ended.fact.error == REJECTED
    return max(answers, default=None) if rejected else None


def _is_own_failure(history: RunHistory, event: Event) -> bool:
    """Whether a member that is no team failed, or a team whose reply a person rejected."""
    ask = history.record.asks[event.key]
    if ask.is_team:
        return isinstance(event.fact, AgentFailed) and _rejection(history, event) is not None
    return not ask.is_cancelled


def point_before_stop(history: RunHistory) -> int | None:
    """The number of the last event before a budget, a deadline or a cancel stopped the run; None otherwise."""
    reason = history.record.ended.stop_reason if history.record.ended else None
    stops = [event for event in history.events if _stops(event.fact, reason)]
    if not stops:
        return None
    last = stops[-1]
    if isinstance(last.fact, BudgetRefused):
        level = last.fact.level
        last = next(e for e in stops if isinstance(e.fact, BudgetRefused) and e.fact.level == level)
    return last.number - 1


def _stops(fact: Fact, reason: StopReason | None) -> bool:
    match fact:
        case BudgetRefused():
            return reason == "budget"
        case ScopeExpired():
            return reason == "deadline"
        case RunIntervened():
            return reason == "cancelled" and fact.intervention.kind == "cancel"
        case _:
            return False
