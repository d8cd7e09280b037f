"""Reads recorded runs: their results, KPIs, differences and checkpoints. Nothing here drives a run.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.history.conversation import ConversationHistory, ConversationSummary, ConversationTurn
    from teamwright.history.diff import RunDiff, compare
    from teamwright.history.fork import Checkpoint
    from teamwright.history.history import RunHistory
    from teamwright.history.kpi_gates import GateResult, KpiGate, check_gates, read_gates, total_of
    from teamwright.history.kpis import KpiRow, Kpis, read_kpis, side_by_side

__all__ = [
    "Checkpoint",
    "ConversationHistory",
    "ConversationSummary",
    "ConversationTurn",
    "GateResult",
    "KpiGate",
    "KpiRow",
    "Kpis",
    "RunDiff",
    "RunHistory",
    "check_gates",
    "compare",
    "read_gates",
    "read_kpis",
    "side_by_side",
    "total_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.history.fork": "Checkpoint",
        "teamwright.history.conversation": "ConversationHistory ConversationSummary ConversationTurn",
        "teamwright.history.diff": "RunDiff compare",
        "teamwright.history.kpi_gates": "GateResult KpiGate check_gates read_gates total_of",
        "teamwright.history.history": "RunHistory",
        "teamwright.history.kpis": "KpiRow Kpis read_kpis side_by_side",
    },
)
