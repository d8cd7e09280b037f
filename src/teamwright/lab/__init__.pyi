from teamwright.lab.advice import (
    advise as advise,
)
from teamwright.lab.auto_topology import (
    auto_team as auto_team,
    orchestrate as orchestrate,
)
from teamwright.lab.calibration import (
    Calibration as Calibration,
    calibrate as calibrate,
    read_profile as read_profile,
)
from teamwright.lab.observations import observe as observe
from teamwright.lab.simulation.simulate import simulate as simulate
from teamwright.lab.simulation.what_if import (
    RunChanges as RunChanges,
    what_if as what_if,
)
from teamwright.lab.topology_model import EvaluationSettings as EvaluationSettings
from teamwright.lab.topology_report import (
    compare as compare,
    evaluate as evaluate,
)
from teamwright.lab.topology_sweep import sweep as sweep
from teamwright.testing.virtual_loop import run_virtually as run_virtually
