"""Expert teams: an optional package. Nothing outside imports it; it registers itself by entry points."""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.experts.checks import CheckContext, CheckFile
    from teamwright.experts.collaboration.change import (
        PlanChange,
        affected_experts,
        apply_change,
        change_between,
        change_problems,
        pin_conflicts,
        route_change,
    )
    from teamwright.experts.collaboration.difference import PlanDifference, plan_difference
    from teamwright.experts.collaboration.options import CollaborateOptions
    from teamwright.experts.collaboration.plan import CollaborationPlan, Part, Phase, Roster
    from teamwright.experts.coordination.options import (
        DispatchOptions,
        ExpertOptions,
        ExpertStep,
        FailureLadder,
        ReactOptions,
        Role,
    )
    from teamwright.experts.expert_agent import introduce, make_expert
    from teamwright.experts.formation import RoleDraft, TeamDraft, draft_named, form_team
    from teamwright.experts.judge import PairComparison, compare_works
    from teamwright.experts.live.feed import feed_transport
    from teamwright.experts.ratings import Rating, Ratings, rate_runs
    from teamwright.experts.router import Router, parse_request
    from teamwright.experts.rubric import Rubric
    from teamwright.experts.skills import read_skills
    from teamwright.experts.templates import ExpertTemplate, ExpertTemplates
    from teamwright.values.specs.evaluation import (
        Criterion,
        CriterionResult,
        Evaluate,
        EvaluationVerdict,
        JudgeRecord,
        Length,
    )
    from teamwright.values.specs.expert import ExpertProfile

__all__ = [
    "CheckContext",
    "CheckFile",
    "CollaborateOptions",
    "CollaborationPlan",
    "Criterion",
    "CriterionResult",
    "DispatchOptions",
    "Evaluate",
    "EvaluationVerdict",
    "ExpertOptions",
    "ExpertProfile",
    "ExpertStep",
    "ExpertTemplate",
    "ExpertTemplates",
    "FailureLadder",
    "JudgeRecord",
    "Length",
    "PairComparison",
    "Part",
    "Phase",
    "PlanChange",
    "PlanDifference",
    "Rating",
    "Ratings",
    "ReactOptions",
    "Role",
    "RoleDraft",
    "Roster",
    "Router",
    "Rubric",
    "TeamDraft",
    "affected_experts",
    "apply_change",
    "change_between",
    "change_problems",
    "compare_works",
    "draft_named",
    "feed_transport",
    "form_team",
    "introduce",
    "make_expert",
    "parse_request",
    "pin_conflicts",
    "plan_difference",
    "rate_runs",
    "read_skills",
    "route_change",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.experts.collaboration.change": (
            "PlanChange affected_experts apply_change change_between change_problems pin_conflicts route_change"
        ),
        "teamwright.experts.collaboration.difference": "PlanDifference plan_difference",
        "teamwright.experts.collaboration.options": "CollaborateOptions",
        "teamwright.experts.collaboration.plan": "CollaborationPlan Part Phase Roster",
        "teamwright.experts.coordination.options": (
            "DispatchOptions ExpertOptions ExpertStep FailureLadder ReactOptions Role"
        ),
        "teamwright.experts.checks": "CheckContext CheckFile",
        "teamwright.experts.judge": "PairComparison compare_works",
        "teamwright.experts.rubric": "Rubric",
        "teamwright.experts.expert_agent": "introduce make_expert",
        "teamwright.experts.formation": "RoleDraft TeamDraft draft_named form_team",
        "teamwright.experts.templates": "ExpertTemplate ExpertTemplates",
        "teamwright.experts.skills": "read_skills",
        "teamwright.experts.live.feed": "feed_transport",
        "teamwright.experts.router": "Router parse_request",
        "teamwright.experts.ratings": "Rating Ratings rate_runs",
        "teamwright.values.specs.evaluation": "Criterion CriterionResult Evaluate EvaluationVerdict JudgeRecord Length",
        "teamwright.values.specs.expert": "ExpertProfile",
    },
)
