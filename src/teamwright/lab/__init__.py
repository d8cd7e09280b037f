"""The lab: estimates the cost, quality and speed of a team without calling a model.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.lab.auto_topology import auto_team
    from teamwright.lab.calibration.advise import Advice, advise
    from teamwright.lab.calibration.calibrate import Calibration, calibrate
    from teamwright.lab.calibration.observations import observe
    from teamwright.lab.calibration.profile_file import read_profile
    from teamwright.lab.evaluation.compare import Comparison, compare
    from teamwright.lab.evaluation.report import Report, Row, evaluate
    from teamwright.lab.parameter_sweep.sweep import Sweep, sweep
    from teamwright.lab.replay.changes import RunChanges
    from teamwright.lab.replay.report import Compared, RunFigures, WhatIfReport, WhatIfStop
    from teamwright.lab.replay.what_if import what_if
    from teamwright.lab.simulation.simulate import SimulationReport, simulate
    from teamwright.lab.simulation.virtual_loop import run_virtually
    from teamwright.lab.topology.bundle import Bundle, orchestrate
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
        "teamwright.lab.auto_topology": "auto_team",
        "teamwright.lab.topology.bundle": "Bundle orchestrate",
        "teamwright.lab.topology.model": "EvaluationSettings",
        "teamwright.lab.calibration.advise": "Advice advise",
        "teamwright.lab.calibration.calibrate": "Calibration calibrate",
        "teamwright.lab.evaluation.compare": "Comparison compare",
        "teamwright.lab.parameter_sweep.sweep": "Sweep sweep",
        "teamwright.lab.calibration.observations": "observe",
        "teamwright.lab.calibration.profile_file": "read_profile",
        "teamwright.lab.evaluation.report": "Report Row evaluate",
        "teamwright.lab.simulation.simulate": "SimulationReport simulate",
        "teamwright.lab.simulation.virtual_loop": "run_virtually",
        "teamwright.lab.replay.changes": "RunChanges",
        "teamwright.lab.replay.report": "Compared RunFigures WhatIfReport WhatIfStop",
        "teamwright.lab.replay.what_if": "what_if",
    },
)
