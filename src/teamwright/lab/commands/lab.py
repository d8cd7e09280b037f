"""`teamwright lab`, and `lab evaluate`: topologies estimated without calling a model, for one workload or many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    report_failed_gates,
    write_json,
    write_pieces,
    write_result,
)
from teamwright.lab.commands.calibrate import Profile, advise, calibrate
from teamwright.lab.commands.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from teamwright.lab.topology_model import TopologyProfiles
    from teamwright.lab.topology_options import Options
    from teamwright.lab.topology_report import Comparison, Report
    from teamwright.lab.topology_sweep import SweepOptions

MOST_JSON_CELLS = 100_000
CSV = ".csv"
AXES: Mapping[str, str] = {
    "budget": "budgets", "workload": "workloads", "protocol": "protocols", "degradation": "degradations",
    "tasks": "tasks", "avg_task_tokens": "avg_task_tokens", "coordination_rounds": "coordination_rounds",
}  # fmt: skip
"""The options that may have several values, by what a sweep calls them."""
GATES: Mapping[tuple[str, str], str] = {
    ("coordination_ratio", "<="): "max_coordination_ratio",
    ("pass_rate", ">="): "min_pass_rate",
    ("p95_latency_s", "<="): "max_p95_latency",
}
"""The option of the lab for each gate."""

app = typer.Typer(
    help="Choose a topology before paying for it.\n\nNothing here calls a model.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("simulate")(simulate)
app.command("calibrate")(calibrate)
app.command("advise")(advise)

# Numbers arrive as text: the lab itself checks them, with messages that name the expected range.
ALL = "all"
"""Evaluates every budget level, or compares the protocols."""
Level = Annotated[
    str | None,
    typer.Option("--budget-level", metavar="LEVEL", help="low, medium (the default), high, several, or all."),
]
Tasks = Annotated[str | None, typer.Option("--tasks", metavar="N", help="How many tasks (24).")]
AvgTaskTokens = Annotated[
    str | None, typer.Option("--avg-task-tokens", metavar="N", help="Average tokens per task (1400).")
]
Rounds = Annotated[str | None, typer.Option("--coordination-rounds", metavar="N", help="Rounds of coordination (4).")]
Topologies = Annotated[
    str | None,
    typer.Option("--topology", metavar="A,B", help="Only these: single, lead_subagent, star_team, mesh_team."),
]
Workload = Annotated[
    str | None,
    typer.Option("--workload", metavar="KIND", help="implementation, debugging, research or mixed (the default)."),
]
Protocol = Annotated[
    str | None, typer.Option("--protocol", metavar="NAME", help="a2a_lite (the default), transcript, or all.")
]
Degradation = Annotated[
    str | None, typer.Option("--degradation", metavar="POLICY", help="none (the default), auto or aggressive.")
]
Recommend = Annotated[
    str | None, typer.Option("--recommend", metavar="BY", help="balanced (the default), cost or quality.")
]
Gate = Annotated[
    list[str] | None,
    typer.Option("--gate", metavar="GATE", help="Another bound, such as 'p95_latency_s<=60'; may be repeated."),
]
Enforce = Annotated[bool, typer.Option("--enforce-gates", help="Exit with 1 if any evaluated topology fails a gate.")]


@app.command()
def evaluate(
    *,
    budget: Level = None,
    tasks: Tasks = None,
    avg_task_tokens: AvgTaskTokens = None,
    coordination_rounds: Rounds = None,
    topologies: Topologies = None,
    workload: Workload = None,
    protocol: Protocol = None,
    degradation: Degradation = None,
    recommend: Recommend = None,
    gate: Gate = None,
    enforce_gates: Enforce = False,
    profile: Profile = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Evaluate topologies for a workload and recommend one; `--protocol all` compares the protocols.

    With --enforce-gates, the failed gates follow the report, and the exit code is 1 if there are any. Where an option
    for work or team has several values, separated by commas, or as an inclusive range from:to:step, every combination
    is evaluated: a summary, with `--out FILE.csv` every cell.

    Examples:
      teamwright lab evaluate --tasks 40 --workload debugging
      teamwright lab evaluate --protocol all --enforce-gates
      teamwright lab evaluate --tasks 4:64:4 --budget-level low,high --out cells.csv
    """
    given = _given(
        budget=budget, tasks=tasks, avg_task_tokens=avg_task_tokens, coordination_rounds=coordination_rounds,
        topologies=topologies, workload=workload, protocol=protocol, degradation=degradation, recommend=recommend,
        **_bounds(gate),
    )  # fmt: skip
    from teamwright.errors import UsageError
    from teamwright.lab.calibration import profiles_of

    check_out(out)
    if _is_sweep(given, out):
        if enforce_gates:
            raise UsageError("--enforce-gates is for one workload; leave it out, or give each option one value.")
        return _sweep(given, profiles_of(profile), out, json=json)
    found, failed = _evaluated(given, profiles_of(profile))
    _deliver(found, json, out)
    return report_failed_gates(failed) if enforce_gates else 0


def _is_sweep(given: Mapping[str, str], out: Path | None) -> bool:
    """Whether an option has several values, or cells are asked for; budgets and protocols have reports of `all`."""
    single = {name: value for name, value in given.items() if name in AXES}
    several = any("," in value or ":" in value for value in single.values())
    every = any(single.get(name) == ALL for name in ("workload", "degradation"))
    return several or every or (out is not None and out.suffix.lower() == CSV)


def _evaluated(given: dict[str, str], profiles: TopologyProfiles) -> tuple[Report | Comparison, list[str]]:
    """The report or the comparison that the options ask for, and the gates that it fails."""
    from teamwright.lab.topology_report import compare, evaluate as evaluated

    every = {name for name in ("budget", "protocol") if given.get(name) == ALL}
    options = _options({name: value for name, value in given.items() if name not in every})
    if "protocol" in every:
        compared = compare(all_budgets="budget" in every, profiles=profiles, **options)
        return compared, [f"gate failed: {protocol}, {breach}" for protocol, breach in compared.breaches()]
    report = evaluated(all_budgets="budget" in every, profiles=profiles, **options)
    return report, [f"gate failed: {breach}" for breach in report.breaches()]


def _sweep(given: Mapping[str, str], profiles: TopologyProfiles, out: Path | None, *, json: bool) -> int:
    """Evaluate every combination of the values, and write the summary or the cells."""
    from teamwright.lab.topology_sweep import sweep as swept

    options = cast("SweepOptions", {AXES.get(name, name): one for name, one in given.items()})
    _check_size(options, json)
    found = swept(profiles=profiles, **options)
    if out is not None and out.suffix.lower() == CSV and not json:
        write_pieces(found.csv(), out)
    elif json:
        write_json(found.to_json(), out)
    else:
        write_result(str(found), out)
    return 0


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _bounds(gates: Sequence[str] | None) -> dict[str, str]:
    """The options of the lab that gates set; `runs kpi` takes the same gates, and more."""
    from teamwright.errors import UsageError
    from teamwright.history.kpis import read_gates

    found: dict[str, str] = {}
    for gate in read_gates(gates or ()):
        option = GATES.get((gate.figure, gate.bound))
        if option is None:
            known = ", ".join(f"{figure}{bound}X" for figure, bound in GATES)
            raise UsageError(f"The lab has no gate {str(gate)!r}; it has {known}.")
        found[option] = f"{gate.limit:.10g}"
    return found


def _options(given: Mapping[str, str]) -> Options:
    """Options as the lab expects them, with topologies as a list."""
    found: dict[str, object] = dict(given)
    if "topologies" in given:
        found["topologies"] = [name.strip() for name in given["topologies"].split(",")]
    return cast("Options", found)


def _deliver(found: Report | Comparison, json: bool, out: Path | None) -> None:
    if json:
        write_json(found.to_json(), out)
    else:
        write_result(str(found), out)


def _check_size(options: SweepOptions, json: bool) -> None:
    """Reject a sweep that is too large for JSON, before it is computed."""
    from teamwright.errors import UsageError
    from teamwright.lab.topology_sweep import sweep_axes

    if json and (cells := sweep_axes(options).cells) > MOST_JSON_CELLS:
        raise UsageError(
            f"--json allows at most {MOST_JSON_CELLS} cells, and this sweep has {cells}; use --out FILE.csv instead."
        )
