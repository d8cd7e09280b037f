"""Expert teams: an optional package. Nothing outside imports it; it registers itself by entry points."""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.experts.evaluation.comparison import PairComparison, compare_works
    from teamwright.experts.evaluation.rubric import Rubric
    from teamwright.values.specs.evaluation import Criterion, Evaluate, Length
    from teamwright.values.verdicts import CriterionResult, EvaluationVerdict, JudgeRecord

__all__ = [
    "Criterion",
    "CriterionResult",
    "Evaluate",
    "EvaluationVerdict",
    "JudgeRecord",
    "Length",
    "PairComparison",
    "Rubric",
    "compare_works",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.experts.evaluation.comparison": "PairComparison compare_works",
        "teamwright.experts.evaluation.rubric": "Rubric",
        "teamwright.values.specs.evaluation": "Criterion Evaluate Length",
        "teamwright.values.verdicts": "CriterionResult EvaluationVerdict JudgeRecord",
    },
)
