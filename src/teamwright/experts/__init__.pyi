from teamwright.experts.expert_agent import (
    introduce as introduce,
    make_expert as make_expert,
)
from teamwright.experts.formation import (
    draft_named as draft_named,
    form_team as form_team,
)
from teamwright.experts.rubric import (
    CheckContext as CheckContext,
    Rubric as Rubric,
)
from teamwright.experts.skills import read_skills as read_skills
from teamwright.experts.team_or_agent import parse_request as parse_request
from teamwright.experts.templates import (
    ExpertTemplate as ExpertTemplate,
    ExpertTemplates as ExpertTemplates,
)
from teamwright.strategies.plan.options import PlanOptions as PlanOptions
from teamwright.strategies.plan.plan_change import (
    PlanChange as PlanChange,
    apply_change as apply_change,
    change_problems as change_problems,
    pin_conflicts as pin_conflicts,
    plan_difference as plan_difference,
)
from teamwright.values.specs.members import ExpertProfile as ExpertProfile
from teamwright.values.specs.plan import Role as Role, Roster as Roster
