"""`teamwright lab`: what topologies would cost, how good and how fast they would be, before anybody pays for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from teamwright.cli.lab import advise, calibrate, simulate
from teamwright.cli.terminal.options import Profile
from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_files,
    result,
    result_json,
    result_pieces,
    say,
    tell_broken,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from teamwright.lab.evaluation.compare import Comparison
    from teamwright.lab.evaluation.options import Options
    from teamwright.lab.evaluation.report import Report
    from teamwright.lab.parameter_sweep.sweep import Sweep, SweepOptions

MOST_JSON_CELLS = 100_000

app = typer.Typer(
    help="Choose a topology before paying for it.\n\nNothing here calls a model.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("simulate")(simulate.simulate)
app.command("calibrate")(calibrate.calibrate)
app.command("advise")(advise.advise)

# Numbers come in as text: what does not fit is refused in one place, with the range that was expected.
Budget = Annotated[str | None, typer.Option("--budget", metavar="LEVEL", help="low, medium (the default) or high.")]
AllBudgets = Annotated[bool, typer.Option("--all-budgets", help="Evaluate all three levels of budget.")]
Tasks = Annotated[str | None, typer.Option("--tasks", metavar="N", help="How many tasks (24).")]
AvgTaskTokens = Annotated[
    str | None, typer.Option("--avg-task-tokens", metavar="N", help="Tokens that a task takes on average (1400).")
]
Rounds = Annotated[str | None, typer.Option("--coordination-rounds", metavar="N", help="Rounds of coordination (4).")]
Topologies = Annotated[
    str | None,
    typer.Option("--topologies", metavar="A,B", help="Only these: single, lead_subagent, star_team, mesh_team."),
]
Workload = Annotated[
    str | None,
    typer.Option("--workload", metavar="KIND", help="implementation, debugging, research or mixed (the default)."),
]
Protocol = Annotated[
    str | None, typer.Option("--protocol", metavar="NAME", help="a2a_lite (the default) or transcript.")
]
Degradation = Annotated[
    str | None, typer.Option("--degradation", metavar="POLICY", help="none (the default), auto or aggressive.")
]
Recommend = Annotated[
    str | None, typer.Option("--recommend", metavar="BY", help="balanced (the default), cost or quality.")
]
MaxRatio = Annotated[
    str | None,
    typer.Option("--max-coordination-ratio", metavar="X", help="Gate: coordination over all tokens (0.20)."),
]
MinPassRate = Annotated[
    str | None, typer.Option("--min-pass-rate", metavar="X", help="Gate: share of the tasks that pass (0.80).")
]
MaxLatency = Annotated[
    str | None, typer.Option("--max-p95-latency", metavar="S", help="Gate: seconds at the 95th percentile (180).")
]
Enforce = Annotated[
    bool, typer.Option("--enforce-gates", help="Exit with 1 where any topology that was evaluated fails a gate.")
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw cost against quality: .svg or .png.")]


@app.command()
def evaluate(
    *,
    budget: Budget = None,
    all_budgets: AllBudgets = False,
    tasks: Tasks = None,
    avg_task_tokens: AvgTaskTokens = None,
    coordination_rounds: Rounds = None,
    topologies: Topologies = None,
    workload: Workload = None,
    protocol: Protocol = None,
    degradation: Degradation = None,
    recommend: Recommend = None,
    max_coordination_ratio: MaxRatio = None,
    min_pass_rate: MinPassRate = None,
    max_p95_latency: MaxLatency = None,
    enforce_gates: Enforce = False,
    profile: Profile = None,
    plot: Plot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Evaluate topologies for some work and recommend one.

    With --enforce-gates the report comes first; then every gate that a topology fails is named, and the exit code is 1.
    """
    given = _given(
        budget=budget, tasks=tasks, avg_task_tokens=avg_task_tokens, coordination_rounds=coordination_rounds,
        topologies=topologies, workload=workload, protocol=protocol, degradation=degradation, recommend=recommend,
        max_coordination_ratio=max_coordination_ratio, min_pass_rate=min_pass_rate, max_p95_latency=max_p95_latency,
    )  # fmt: skip
    from teamwright.lab.calibration.profile_file import profiles_of
    from teamwright.lab.evaluation.report import evaluate as evaluated

    check_files(out, plot)
    report = evaluated(all_budgets=all_budgets, profiles=profiles_of(profile), **_options(given))
    _deliver(report, json, out, plot)
    broken = (f"gate broken: {breach}" for breach in report.breaches())
    return tell_broken(broken) if enforce_gates else 0


@app.command()
def compare(
    *,
    budget: Budget = None,
    all_budgets: AllBudgets = False,
    tasks: Tasks = None,
    avg_task_tokens: AvgTaskTokens = None,
    coordination_rounds: Rounds = None,
    topologies: Topologies = None,
    workload: Workload = None,
    degradation: Degradation = None,
    recommend: Recommend = None,
    max_coordination_ratio: MaxRatio = None,
    min_pass_rate: MinPassRate = None,
    max_p95_latency: MaxLatency = None,
    profile: Profile = None,
    enforce_gates: Enforce = False,
    plot: Plot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Compare a2a_lite with transcript for the same work."""
    given = _given(
        budget=budget, tasks=tasks, avg_task_tokens=avg_task_tokens, coordination_rounds=coordination_rounds,
        topologies=topologies, workload=workload, degradation=degradation, recommend=recommend,
        max_coordination_ratio=max_coordination_ratio, min_pass_rate=min_pass_rate, max_p95_latency=max_p95_latency,
    )  # fmt: skip
    from teamwright.lab.calibration.profile_file import profiles_of
    from teamwright.lab.evaluation.compare import compare as compared

    check_files(out, plot)
    found = compared(all_budgets=all_budgets, profiles=profiles_of(profile), **_options(given))
    _deliver(found, json, out, plot)
    broken = (f"gate broken: {protocol}, {breach}" for protocol, breach in found.breaches())
    return tell_broken(broken) if enforce_gates else 0


@app.command()
def sweep(
    *,
    budgets: Annotated[str | None, typer.Option("--budgets", "--budget", metavar="LIST", help="As low,high.")] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", metavar="LIST", help="As 8,16 or 8:64:8.")] = None,
    avg_task_tokens: Annotated[str | None, typer.Option("--avg-task-tokens", metavar="LIST", help="The same.")] = None,
    coordination_rounds: Annotated[
        str | None, typer.Option("--coordination-rounds", "--rounds", metavar="LIST", help="The same.")
    ] = None,
    topologies: Topologies = None,
    workloads: Annotated[
        str | None, typer.Option("--workloads", "--workload", metavar="LIST", help="As debugging,mixed.")
    ] = None,
    protocols: Annotated[
        str | None, typer.Option("--protocols", "--protocol", metavar="LIST", help="As a2a_lite,transcript.")
    ] = None,
    degradations: Annotated[
        str | None, typer.Option("--degradations", "--degradation", metavar="LIST", help="As none,auto.")
    ] = None,
    recommend: Recommend = None,
    max_coordination_ratio: MaxRatio = None,
    min_pass_rate: MinPassRate = None,
    max_p95_latency: MaxLatency = None,
    profile: Profile = None,
    csv: Annotated[bool, typer.Option("--csv", help="Every cell as comma-separated values.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw heat maps: .svg or .png.")] = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="What the heat maps show (coordination_ratio).")
    ] = None,
    x: Annotated[str | None, typer.Option("--x", metavar="DIMENSION", help="Across in the heat maps.")] = None,
    y: Annotated[str | None, typer.Option("--y", metavar="DIMENSION", help="Upwards in the heat maps.")] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Evaluate every combination of lists of values.

    A list is values with commas, a range from:to:step with its end in it, or `all` for words. What is not named has
    its usual value; topologies are all four.
    """
    given = _given(
        budgets=budgets, tasks=tasks, avg_task_tokens=avg_task_tokens, coordination_rounds=coordination_rounds,
        topologies=topologies, workloads=workloads, protocols=protocols, degradations=degradations,
        recommend=recommend, max_coordination_ratio=max_coordination_ratio, min_pass_rate=min_pass_rate,
        max_p95_latency=max_p95_latency,
    )  # fmt: skip
    from teamwright.lab.calibration.profile_file import profiles_of
    from teamwright.lab.parameter_sweep.heatmap import USUAL_VALUE, check_map
    from teamwright.lab.parameter_sweep.sweep import sweep as swept

    check_files(out, plot)
    check_map(value or USUAL_VALUE, x, y)
    _check_form(cast("SweepOptions", given), json, csv)
    found = swept(profiles=profiles_of(profile), **cast("SweepOptions", given))
    if not found.vectorised:
        say("NumPy is not installed, so the cells are computed one by one: pip install 'teamwright[lab]' is faster")
    as_csv = csv or (out is not None and out.suffix.lower() == ".csv" and not json)
    _deliver_cells(found, json, as_csv, out)
    if plot is not None:
        found.plot(plot, value, x, y)
        say(f"the heat maps are in {str(plot)!r}")
    return 0


def _given(**options: str | None) -> dict[str, str]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _options(given: Mapping[str, str]) -> Options:
    """Options as the lab takes them, where topologies are several."""
    found: dict[str, object] = dict(given)
    if "topologies" in given:
        found["topologies"] = [name.strip() for name in given["topologies"].split(",")]
    return cast("Options", found)


def _deliver(found: Report | Comparison, json: bool, out: Path | None, plot: Path | None) -> None:
    if json:
        result_json(found.to_json(), out)
    else:
        result(str(found), out)
    if plot is not None:
        found.plot(plot)
        say(f"the plot is in {str(plot)!r}")


def _check_form(options: SweepOptions, json: bool, csv: bool) -> None:
    """Refuse a sweep as JSON that can't be one, before it is computed."""
    from teamwright.errors import UsageError
    from teamwright.lab.parameter_sweep.sweep import sweep_axes

    if json and csv:
        raise UsageError("--json and --csv are two forms of one result; take one of them.")
    if json and (cells := sweep_axes(options).cells) > MOST_JSON_CELLS:
        raise UsageError(f"--json has room for {MOST_JSON_CELLS} cells, and these are {cells}; take --csv.")


def _deliver_cells(found: Sweep, json: bool, as_csv: bool, out: Path | None) -> None:
    if as_csv:
        result_pieces(found.csv(), out)
    elif json:
        result_json(found.to_json(), out)
    else:
        result(str(found), out)
