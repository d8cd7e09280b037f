from teamwright.strategies.plan.planner import (
    PlannerSettings as PlannerSettings,
    make_schedule as make_schedule,
)
from teamwright.strategies.plan.schedule import (
    Schedule as Schedule,
    batch_envelopes as batch_envelopes,
    diagnose as diagnose,
    envelopes_tokens as envelopes_tokens,
    validate_schedule as validate_schedule,
)
from teamwright.values.specs.plan import (
    Plan as Plan,
    Step as Step,
)
