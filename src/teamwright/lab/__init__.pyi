from teamwright.lab.advice import (
    Advice as Advice,
    advise as advise,
)
from teamwright.lab.auto_topology import (
    Bundle as Bundle,
    auto_team as auto_team,
    orchestrate as orchestrate,
)
from teamwright.lab.calibration import (
    Calibration as Calibration,
    calibrate as calibrate,
    read_profile as read_profile,
)
from teamwright.lab.evaluation.report import (
    Comparison as Comparison,
    Report as Report,
    Row as Row,
    compare as compare,
    evaluate as evaluate,
)
from teamwright.lab.evaluation.sweep import (
    Sweep as Sweep,
    sweep as sweep,
)
from teamwright.lab.observations import observe as observe
from teamwright.lab.simulation.simulate import (
    SimulationReport as SimulationReport,
    simulate as simulate,
)
from teamwright.lab.simulation.virtual_loop import run_virtually as run_virtually
from teamwright.lab.simulation.what_if import (
    Compared as Compared,
    RunChanges as RunChanges,
    RunFigures as RunFigures,
    WhatIfReport as WhatIfReport,
    WhatIfStop as WhatIfStop,
    what_if as what_if,
)
from teamwright.lab.topology.model import EvaluationSettings as EvaluationSettings
