"""The verdict of an evaluation on a piece of work, as it is recorded."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from teamwright.values.value import CheckedRecord

VerdictOutcome = Literal["pass", "revise", "review_exceeded", "auto_pass_with_warning", "not_reviewed", "accepted"]
"""What becomes of the work: it counts, its author is asked again, a person is needed, it counts although its review
broke off or because no criterion is declared, or a person accepted it."""
PASSED: frozenset[VerdictOutcome] = frozenset(("pass", "accepted"))
"""The outcomes of work that an evaluator or a person found good."""
JUDGED: frozenset[VerdictOutcome] = frozenset(("pass", "accepted", "revise"))
"""The outcomes of reviews that were completed."""


Score = Annotated[float, Meta(ge=0, le=1)]


class CriterionResult(CheckedRecord, frozen=True):
    """The result of one criterion. `score` lies between 0 and 1; `by` is the judge, empty for a check."""

    id: str
    passed: bool
    score: Score
    reason: str = ""
    by: str = ""


class JudgeRecord(CheckedRecord, frozen=True):
    """How a judge was asked: its model, the digest of each turn that it was shown, and the score of each answer.

    `spread` is the difference between its highest and its lowest score. `unusable` says why answers did not count, and
    `unpaid` that the budget did not cover one of them.
    """

    member: str
    model: str
    shown: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    spread: Score = 0.0
    unusable: tuple[str, ...] = ()
    unpaid: bool = False


class EvaluationVerdict(CheckedRecord, frozen=True):
    """A verdict. `score` is the weighted mean of its criteria, and `rubric` the digest of what they were.

    Work without a review has no score: all that is known of it is that it is not blank.
    `missing` are criteria that the evaluator left out, which are not passed; `unknown` are those that it invented,
    which do not count. `unpaid` says that the budget did not cover the review.
    """

    outcome: VerdictOutcome
    criteria: tuple[CriterionResult, ...] = ()
    score: Score | None = 0.0
    feedback: str = ""
    suggestions: tuple[str, ...] = ()
    rubric: str = ""
    judges: tuple[JudgeRecord, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unpaid: bool = False

    @property
    def passes(self) -> bool:
        """Whether the work counts."""
        return self.outcome not in ("revise", "review_exceeded")

    @property
    def broke_off_unpaid(self) -> bool:
        """Whether the review broke off because the budget did not cover it, or one of its judges."""
        return self.outcome == "review_exceeded" and (self.unpaid or any(one.unpaid for one in self.judges))

    def exceeded(self, reason: str) -> EvaluationVerdict:
        """Return the verdict that no review could be completed, for this reason."""
        return self.changed(outcome="review_exceeded", feedback=reason)
