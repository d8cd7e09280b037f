from teamwright.history.checkpoints import Checkpoint as Checkpoint
from teamwright.history.conversation import (
    ConversationHistory as ConversationHistory,
    ConversationSummary as ConversationSummary,
    ConversationTurn as ConversationTurn,
)
from teamwright.history.diff import (
    RunDiff as RunDiff,
    compare as compare,
)
from teamwright.history.history import RunHistory as RunHistory
from teamwright.history.kpi_gates import (
    GateResult as GateResult,
    KpiGate as KpiGate,
    check_gates as check_gates,
    read_gates as read_gates,
    total_of as total_of,
)
from teamwright.history.kpis import (
    KpiRow as KpiRow,
    Kpis as Kpis,
    read_kpis as read_kpis,
    side_by_side as side_by_side,
)
