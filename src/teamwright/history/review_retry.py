"""Finds where a run that failed over a review is retried: at the work that did not pass, or at the review itself."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.history.record.run_record import RunRecord
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.key import in_scope, join_key, parent_key, without_attempts


def before_review(events: Sequence[Event], record: RunRecord) -> tuple[int, frozenset[str]] | None:
    """Return the number of the last event to keep, and the keys before it to leave out; None without such a review.

    Work that did not pass is asked for again, with the verdicts on earlier attempts. Where the review broke off, the
    work stays and the evaluator is asked again. Other members keep their replies in both cases.
    """
    for event in reversed(events):
        fact = event.fact
        if not isinstance(fact, TeamEvaluationResult) or fact.verdict.passes or record.is_superseded(event.key):
            continue
        again = [parent_key(event.key)]
        if fact.verdict.outcome == "revise":
            again.append(join_key(event.scope, fact.work))
        before = {one.key: without_attempts(one.key) for one in events[: event.number]}
        places = [without_attempts(key) for key in again]
        return event.number - 1, frozenset(
            key for key, place in before.items() if any(in_scope(place, one) for one in places)
        )
    return None
