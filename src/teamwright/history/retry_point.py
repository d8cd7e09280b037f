"""Where a fork or a retry of a run starts: before the failure, review or stop that ended it; and what is called again.

It reads the record and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.agents.approval import REJECTED
from teamwright.agents.review import REVIEW_EXCEEDED
from teamwright.errors import UsageError
from teamwright.history.record.run_record import EFFECTS
from teamwright.history.run_history import RunHistory
from teamwright.values.events.agent import AgentCallFailed, AgentFailed, AgentReplied
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import RunIntervened, ScopeExpired
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.key import in_scope, join_key, parent_key, without_attempts
from teamwright.values.turns.results import STOPPED, StopReason

if TYPE_CHECKING:
    from teamwright.history.checkpoints import Checkpoint

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
