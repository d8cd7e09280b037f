"""Verdicts as text: what did not pass and why, and everything about the review that a reader has to know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.text.display import cut
from teamwright.values.verdicts import EvaluationVerdict, JudgeRecord

LONGEST_REASON = 160
MOST_NAMED = 8


def evaluation_text(result: TeamEvaluationResult) -> str:
    """The verdict on the work of a member, as one line."""
    verdict = result.verdict
    again = f" (attempt {result.attempt})" if result.attempt > 1 else ""
    if verdict.outcome in ("not_reviewed", "auto_pass_with_warning"):
        why = ", and counts at low risk" if verdict.outcome == "auto_pass_with_warning" else ""
        head = f"the work of {result.member} is not reviewed{again}{why}"
    elif verdict.outcome == "accepted":
        return f"the work of {result.member} is accepted by a person{again}, although it did not pass"
    else:
        score = "" if verdict.score is None else f", score {verdict.score:.2f}"
        head = f"the work of {result.member} is evaluated{again}: {verdict.outcome}{score}"
    return "; ".join((head, *_parts(verdict)))


def is_plain_pass(verdict: EvaluationVerdict) -> bool:
    """Whether work passed, or was not to be reviewed, and there is nothing more to say about it."""
    return verdict.outcome in ("pass", "not_reviewed") and not (verdict.missing or verdict.unknown or verdict.warnings)


def _parts(verdict: EvaluationVerdict) -> Iterator[str]:
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for one in verdict.criteria:
        if not one.passed:
            reasons[cut(one.reason, LONGEST_REASON) or "not passed"].append(one.id)
    yield from (f"{_names(ids)}: {reason}" for reason, ids in list(reasons.items())[:MOST_NAMED])
    if len(reasons) > MOST_NAMED:
        yield f"and {len(reasons) - MOST_NAMED} more"
    if verdict.missing:
        yield f"{len(verdict.missing)} of {len(verdict.criteria)} criteria left out: {_names(verdict.missing)}"
    if verdict.unknown:
        yield f"invented, and not counted: {_names(verdict.unknown)}"
    if verdict.outcome in ("review_exceeded", "auto_pass_with_warning") and verdict.feedback:
        yield cut(verdict.feedback, LONGEST_REASON)
    for judge in verdict.judges:
        yield from _judge_parts(judge)
    yield from (f"warning: {text}" for text in verdict.warnings)


def _judge_parts(judge: JudgeRecord) -> Iterator[str]:
    if len(judge.scores) > 1:
        scores = ", ".join(f"{score:.2f}" for score in judge.scores)
        yield f"{judge.member} gave {scores}: a spread of {judge.spread:.2f}"
    if judge.unusable and judge.scores:
        answers = len(judge.scores) + len(judge.unusable)
        yield f"{len(judge.unusable)} of {answers} answers of {judge.member} can't be used: {judge.unusable[0]}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
