from teamwright.strategies.expressions import Condition as Condition, Template as Template
from teamwright.strategies.plan.engine import PlanStrategy as PlanStrategy
from teamwright.strategies.plan.options import options_with as options_with
from teamwright.strategies.plan.schedule import (
    batch_envelopes as batch_envelopes,
    diagnose as diagnose,
    envelopes_tokens as envelopes_tokens,
    validate_schedule as validate_schedule,
)
from teamwright.strategies.plan.schedule_maker import make_schedule as make_schedule
from teamwright.strategies.protocol import (
    Arrow as Arrow,
    Diagram as Diagram,
    Issue as Issue,
    Members as Members,
    Node as Node,
    Settings as Settings,
    Task as Task,
    places as places,
)
from teamwright.strategies.reply_parsing import (
    ParseFailure as ParseFailure,
    read_answer as read_answer,
)
from teamwright.strategies.team_conversation import TeamConversation as TeamConversation
from teamwright.values.limits import ClosingAsk as ClosingAsk
from teamwright.values.turns.messages import (
    Envelope as Envelope,
    EnvelopeLimits as EnvelopeLimits,
    EnvelopeNote as EnvelopeNote,
)
from teamwright.values.turns.results import Outcome as Outcome
from teamwright.values.value import Value as Value
