"""The lab: what a team would cost, how good and how fast it would be, before anybody pays for it.

Names load on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teamwright.lab.advice import Advice, advise
    from teamwright.lab.calibration import Calibration, calibrate
    from teamwright.lab.comparison import Comparison, compare
    from teamwright.lab.matrix import Sweep, sweep
    from teamwright.lab.observations import observe
    from teamwright.lab.profile import read_profile
    from teamwright.lab.report import Report, Row, evaluate
    from teamwright.lab.simulation import SimulationReport, simulate

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
    "simulate",
    "sweep",
]

_HOMES = {
    "Advice": "advice",
    "Calibration": "calibration",
    "Comparison": "comparison",
    "Report": "report",
    "Row": "report",
    "SimulationReport": "simulation",
    "Sweep": "matrix",
    "advise": "advice",
    "calibrate": "calibration",
    "compare": "comparison",
    "evaluate": "report",
    "observe": "observations",
    "read_profile": "profile",
    "simulate": "simulation",
    "sweep": "matrix",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
