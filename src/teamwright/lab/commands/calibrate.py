"""`teamwright lab calibrate` fits a profile to runs that exist; `lab advise` chooses a topology with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.options import ManifestPath, TeamName, With
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_file, write_json, write_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teamwright.journal.protocol import Journal
    from teamwright.lab.advice import Advice
    from teamwright.lab.calibration import CalibrationReport, Gap
    from teamwright.teams.team import Team


MOST_RUNS = 1000

Profile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME|FILE", help="Use a profile that `lab calibrate` wrote.")
]
Workload = Annotated[
    Literal["implementation", "debugging", "research", "mixed"],
    typer.Option("--workload", help="The kind of work."),
]
Budget = Annotated[Literal["low", "medium", "high"], typer.Option("--budget-level", help="The budget level.")]


def calibrate(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN…]", help="Runs: their ids, prefixes of them, or `last`; by default all."),
    ] = None,
    *,
    name: Annotated[str, typer.Option("--name", help="Save the profile under this name.")] = "default",
    as_topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Read runs of other strategies as runs of this topology."),
    ] = None,
    workload: Workload = "mixed",
    budget: Budget = "medium",
    coordination_rounds: Annotated[
        int, typer.Option("--coordination-rounds", min=0, help="Rounds of coordination that the model assumes.")
    ] = 4,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Save the profile to a file instead.")
    ] = None,
) -> int:
    """Fit the topology model to your own runs, and save the fit as a profile.

    Prints how far the built-in and the fitted predictions are from the measured figures.

    Example:
      teamwright lab calibrate --name own
    """
    from teamwright.lab.topology_model import topology_named

    check_out(out)
    topology = topology_named(as_topology) if as_topology is not None else None

    async def work(journal: Journal) -> int:
        from teamwright.cli.terminal.command_setup import find_run
        from teamwright.lab.calibration import calibrate as fitted
        from teamwright.lab.observations import observe

        found = (
            [(await find_run(journal, run)).id for run in runs]
            if runs
            else [one.id for one in reversed(await journal.top_runs(MOST_RUNS))]
        )
        seen = await observe(journal, found, as_topology=topology)
        report = fitted(
            seen.runs,
            workload=workload,
            budget=budget,
            coordination_rounds=coordination_rounds,
            learnt=seen.learnt,
            left_out=seen.left_out,
        )
        return _save_and_report(report, name, out, as_json=json)

    return with_journal(work)


def _save_and_report(report: CalibrationReport, name: str, out: Path | None, *, as_json: bool) -> int:
    from teamwright.errors import UsageError
    from teamwright.lab.calibration import profile_text, save_profile

    learnt = report.calibration.learnt.members
    for run, reason in list(report.left_out.items())[:10]:
        say(f"run {run} is left out: {reason}")
    if not report.calibration.topologies and not learnt:
        raise UsageError("There is no run to calibrate with; start one with  teamwright run")
    if out is not None:
        write_file(profile_text(report.calibration), out)
    file = save_profile(report.calibration, name) if out is None else out
    write_json(report.to_json()) if as_json else write_result(calibration_text(report))
    used = name if out is None else str(out)
    say(f"saved in {file}; use it with  --profile {used}  of lab evaluate, simulate and advise, and of run --topology")
    return 0


def calibration_text(report: CalibrationReport) -> str:
    """The fitted numbers, and the errors of the predictions before and after."""
    from teamwright.cli.terminal.output import columns
    from teamwright.lab.calibration import FITTED
    from teamwright.lab.topology_model import TOPOLOGIES
    from teamwright.values.text.display import NOTHING

    fits = report.calibration.topologies
    lines: list[str] = []
    if fits:
        rows: list[Sequence[str]] = [("fitted (built in)", *fits)]
        rows.append(("runs", *(str(fit.runs) for fit in fits.values())))
        if any(fit.judged for fit in fits.values()):
            rows.append(("judged steps", *(str(fit.judged) for fit in fits.values())))
        for factor in FITTED:
            cells = ((getattr(fit, factor), getattr(TOPOLOGIES[one], factor)) for one, fit in fits.items())
            rows.append((factor, *(f"{NOTHING if own is None else f'{own:.4g}'} ({built:g})" for own, built in cells)))
        lines += [columns(rows), "", columns(_gaps(report.gaps))]
        if not any(fit.judged for fit in fits.values()):
            lines += ["", "No step in these runs was judged: the pass rate only says that steps were completed."]
    lines += ["", *report.notes] if report.notes else []
    members = ", ".join(report.calibration.learnt.members)
    return "\n".join([*lines, *([""] if lines else []), f"Behaviour learnt for: {members or 'no member'}"])


def _gaps(gaps: Sequence[Gap]) -> list[Sequence[str]]:
    head = ("", "", "actual", "built in", "off by", "fitted", "off by")
    return [
        head,
        *(
            (
                one.topology,
                one.figure,
                f"{one.actual:g}",
                f"{one.built_in:g}",
                f"{one.built_in_off:.1%}",
                f"{one.fitted:g}",
                f"{one.fitted_off:.1%}",
            )
            for one in gaps
        ),
    ]


def advise(
    manifest: ManifestPath,
    task: Annotated[str, typer.Argument(metavar="TASK", help="What the team should do; `-` reads it from stdin.")],
    *,
    profile: Profile = None,
    divisible: Annotated[
        float | None,
        typer.Option(
            "--divisible", min=0, max=1, metavar="SHARE", help="The share of the work that can be divided, 0 to 1."
        ),
    ] = None,
    workload: Workload = "mixed",
    budget: Annotated[
        Literal["low", "medium", "high"] | None,
        typer.Option("--budget-level", help="The budget level; by default that of the team's handoffs, or medium."),
    ] = None,
    recommend: Annotated[
        Literal["balanced", "cost", "quality"], typer.Option("--recommend", help="What to optimise for.")
    ] = "balanced",
    team: TeamName = None,
    more: With = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Recommend a topology for a team's work; it may be a single agent.

    Prints the numbers behind the advice and how certain it is. The more runs of your own there are, the more they
    outweigh published findings: for tokens and time, and for pass rates once their steps are judged. Code that the
    manifest names is listed, not loaded.

    Example:
      teamwright lab advise team.yaml "Write the report." --profile own
    """
    from teamwright.cli.terminal.options import read_task
    from teamwright.lab.advice import advise as advice
    from teamwright.lab.calibration import read_profile

    check_out(out)
    found = advice(
        _team(manifest, team, more),
        read_task(task, None) or "",
        profile=read_profile(profile) if profile is not None else None,
        divisible=divisible,
        budget=budget,
        workload=workload,
        recommend=recommend,
    )
    if json:
        write_json(found.to_json(), out)
    else:
        write_result(advice_text(found), out)
    return 0


def _team(manifest: Path, team: str | None, more: list[Path] | None) -> Team:
    """The team as its manifest declares it, without loading its code."""
    from teamwright.agents.functions.imports import code_not_loaded
    from teamwright.cli.terminal.command_setup import report_unloaded_code
    from teamwright.lab.simulation.trials import declared_team
    from teamwright.teams.team_loader import read_manifest, source_of

    with code_not_loaded():
        source = source_of(read_manifest([manifest, *(more or ())]), team=team)
        made = declared_team(source.model_copy(update={"roots": None}))  # file tools are never called
    report_unloaded_code(source.manifest)
    return made


def advice_text(advice: Advice) -> str:
    """The advice with its reasons, the topologies side by side, and the published findings behind it."""
    from teamwright.cli.terminal.output import columns

    rows: list[Sequence[str]] = [("TOPOLOGY", "SCORE", "PASS RATE", "TOKENS", "TIME", "OWN RUNS")]
    rows += [
        (
            one.topology,
            f"{one.score:.4f}",
            f"{one.pass_rate:.4f}",
            str(one.total_tokens),
            f"{one.seconds:g} s",
            f"{one.own_runs} (weight {one.weight:.2f})",
        )
        for one in advice.shapes
    ]
    reasons = [f"- {reason}" for reason in advice.reasons]
    findings = [f"- {one.finding} ({one.source}): {one.here}" for one in advice.priors]
    return "\n".join([advice.sentence, "", *reasons, "", columns(rows), "", "Published findings:", *findings])
