"""Readings of recorded runs: their events, figures, differences and checkpoints. Nothing here drives a run.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.runtime.checkpoints import Checkpoint
    from teamwright.runtime.comparison import Comparison, compare
    from teamwright.runtime.gates import Gate, GateResult, check_gates, read_gates
    from teamwright.runtime.history import RunHistory
    from teamwright.runtime.kpis import KpiRow, Kpis, read_kpis, side_by_side

__all__ = [
    "Checkpoint",
    "Comparison",
    "Gate",
    "GateResult",
    "KpiRow",
    "Kpis",
    "RunHistory",
    "check_gates",
    "compare",
    "read_gates",
    "read_kpis",
    "side_by_side",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.runtime.checkpoints": "Checkpoint",
        "teamwright.runtime.comparison": "Comparison compare",
        "teamwright.runtime.gates": "Gate GateResult check_gates read_gates",
        "teamwright.runtime.history": "RunHistory",
        "teamwright.runtime.kpis": "KpiRow Kpis read_kpis side_by_side",
    },
)
