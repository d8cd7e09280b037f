"""The lab: what a team would cost, how good and how fast it would be, before anybody pays for it.

Names load on first use, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.lab.advice import Advice, advise
    from teamwright.lab.calibration import Calibration, calibrate
    from teamwright.lab.comparison import Comparison, compare
    from teamwright.lab.matrix import Sweep, sweep
    from teamwright.lab.observations import observe
    from teamwright.lab.profile import read_profile
    from teamwright.lab.report import Report, Row, evaluate
    from teamwright.lab.simulation import SimulationReport, simulate
    from teamwright.lab.virtual_time import run_virtually

__all__ = [
    "Advice",
    "Calibration",
    "Comparison",
    "Report",
    "Row",
    "SimulationReport",
    "Sweep",
    "advise",
    "calibrate",
    "compare",
    "evaluate",
    "observe",
    "read_profile",
    "run_virtually",
    "simulate",
    "sweep",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.lab.advice": "Advice advise",
        "teamwright.lab.calibration": "Calibration calibrate",
        "teamwright.lab.comparison": "Comparison compare",
        "teamwright.lab.matrix": "Sweep sweep",
        "teamwright.lab.observations": "observe",
        "teamwright.lab.profile": "read_profile",
        "teamwright.lab.report": "Report Row evaluate",
        "teamwright.lab.simulation": "SimulationReport simulate",
        "teamwright.lab.virtual_time": "run_virtually",
    },
)
