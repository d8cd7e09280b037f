"""The lab: estimates the cost, quality and speed of a team without calling a model.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.lab.advice import Advice, advise
    from teamwright.lab.auto_topology import Bundle, auto_team, orchestrate
    from teamwright.lab.calibration import Calibration, calibrate, read_profile
    from teamwright.lab.evaluation.report import Comparison, Report, Row, compare, evaluate
    from teamwright.lab.evaluation.sweep import Sweep, sweep
    from teamwright.lab.observations import observe
    from teamwright.lab.simulation.simulate import SimulationReport, simulate
    from teamwright.lab.simulation.virtual_loop import run_virtually
    from teamwright.lab.simulation.what_if import Compared, RunChanges, RunFigures, WhatIfReport, WhatIfStop, what_if
    from teamwright.lab.topology.model import EvaluationSettings

__all__ = [
    "Advice",
    "Bundle",
    "Calibration",
    "Compared",
    "Comparison",
    "EvaluationSettings",
    "Report",
    "Row",
    "RunChanges",
    "RunFigures",
    "SimulationReport",
    "Sweep",
    "WhatIfReport",
    "WhatIfStop",
    "advise",
    "auto_team",
    "calibrate",
    "compare",
    "evaluate",
    "observe",
    "orchestrate",
    "read_profile",
    "run_virtually",
    "simulate",
    "sweep",
    "what_if",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.lab.advice": "Advice advise",
        "teamwright.lab.auto_topology": "Bundle auto_team orchestrate",
        "teamwright.lab.calibration": "Calibration calibrate read_profile",
        "teamwright.lab.evaluation.report": "Comparison Report Row compare evaluate",
        "teamwright.lab.evaluation.sweep": "Sweep sweep",
        "teamwright.lab.observations": "observe",
        "teamwright.lab.simulation.simulate": "SimulationReport simulate",
        "teamwright.lab.simulation.virtual_loop": "run_virtually",
        "teamwright.lab.simulation.what_if": "Compared RunChanges RunFigures WhatIfReport WhatIfStop what_if",
        "teamwright.lab.topology.model": "EvaluationSettings",
    },
)
