"""The wing of the lab: evaluation, simulation, calibration, advice and what-if, without calling a model."""

from teamwright.wings import Wing

WING = Wing(
    name="lab",
    commands={
        "lab": "teamwright.lab.commands.lab:app",
        "eval": "teamwright.lab.commands.eval:evaluate",
        "runs blame": "teamwright.lab.commands.blame:blame",
        "runs what-if": "teamwright.lab.commands.simulate:what_if",
    },
    hooks={
        "run_options": "teamwright.lab.commands.auto_topology:OPTIONS",
        "plan_bundle": "teamwright.lab.commands.auto_topology:bundle_plan",
        "routes": "teamwright.lab.routes:router",
        "operations": "teamwright.lab.routes:evaluations_part",
        "forecast": "teamwright.lab.simulation.simulate:forecast_run",
    },
)
