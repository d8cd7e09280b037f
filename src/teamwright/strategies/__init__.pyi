from teamwright.strategies.expressions.conditions_and_templates import (
    Condition as Condition,
    Template as Template,
)
from teamwright.strategies.protocol import (
    Arrow as Arrow,
    Diagram as Diagram,
    ExpectedAsks as ExpectedAsks,
    Issue as Issue,
    Members as Members,
    Node as Node,
    NoOptions as NoOptions,
    Settings as Settings,
    Strategy as Strategy,
    Task as Task,
    places as places,
)
from teamwright.strategies.registry import (
    find_strategy as find_strategy,
    strategy_names as strategy_names,
)
from teamwright.strategies.reply_parsing import (
    ParseFailure as ParseFailure,
    read_answer as read_answer,
)
from teamwright.strategies.team_conversation import TeamConversation as TeamConversation
from teamwright.values.limits import ClosingAsk as ClosingAsk
from teamwright.values.models import Value as Value
from teamwright.values.specs.manifest import (
    AgentName as AgentName,
    MemberName as MemberName,
    Share as Share,
)
from teamwright.values.turns.envelope import (
    Envelope as Envelope,
    EnvelopeLimits as EnvelopeLimits,
    EnvelopeMessage as EnvelopeMessage,
    EnvelopeNote as EnvelopeNote,
    EnvelopeSettings as EnvelopeSettings,
    envelope_tokens as envelope_tokens,
)
from teamwright.values.turns.messages import History as History
from teamwright.values.turns.results import (
    Outcome as Outcome,
    StopReason as StopReason,
)
from teamwright.values.turns.turn import Signal as Signal
