from teamwright.experts.collaboration.change import (
    PlanChange as PlanChange,
    affected_experts as affected_experts,
    apply_change as apply_change,
    change_between as change_between,
    change_problems as change_problems,
    pin_conflicts as pin_conflicts,
    route_change as route_change,
)
from teamwright.experts.collaboration.difference import (
    PlanDifference as PlanDifference,
    plan_difference as plan_difference,
)
from teamwright.experts.collaboration.options import CollaborateOptions as CollaborateOptions
from teamwright.experts.collaboration.plan import (
    CollaborationPlan as CollaborationPlan,
    Part as Part,
    Phase as Phase,
    Roster as Roster,
)
from teamwright.experts.coordination.options import (
    DispatchOptions as DispatchOptions,
    ExpertOptions as ExpertOptions,
    ExpertStep as ExpertStep,
    FailureLadder as FailureLadder,
    ReactOptions as ReactOptions,
    Role as Role,
)
from teamwright.experts.expert_agent import (
    introduce as introduce,
    make_expert as make_expert,
)
from teamwright.experts.formation import (
    RoleDraft as RoleDraft,
    TeamDraft as TeamDraft,
    draft_named as draft_named,
    form_team as form_team,
)
from teamwright.experts.judge import (
    PairComparison as PairComparison,
    compare_works as compare_works,
)
from teamwright.experts.live.feed import feed_transport as feed_transport
from teamwright.experts.ratings import (
    Rating as Rating,
    Ratings as Ratings,
    rate_runs as rate_runs,
)
from teamwright.experts.router import (
    Router as Router,
    parse_request as parse_request,
)
from teamwright.experts.rubric import (
    CheckContext as CheckContext,
    CheckFile as CheckFile,
    Rubric as Rubric,
)
from teamwright.experts.skills import read_skills as read_skills
from teamwright.experts.templates import (
    ExpertTemplate as ExpertTemplate,
    ExpertTemplates as ExpertTemplates,
)
from teamwright.values.specs.evaluation import (
    Criterion as Criterion,
    CriterionResult as CriterionResult,
    Evaluate as Evaluate,
    EvaluationVerdict as EvaluationVerdict,
    JudgeRecord as JudgeRecord,
    Length as Length,
)
from teamwright.values.specs.expert import ExpertProfile as ExpertProfile
