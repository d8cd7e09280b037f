"""`teamwright lab advise`: recommends a topology for a team's work, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from teamwright.cli.terminal.options import ManifestPath, Profile, TeamName, With
from teamwright.cli.terminal.output import Json, Out, check_out, write_json, write_result
from teamwright.lab.commands.calibrate import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from teamwright.lab.advice import Advice
    from teamwright.teams.team import Team


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
        typer.Option("--budget", help="The budget level; by default that of the team's handoffs, or medium."),
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
    from teamwright.cli.terminal.open import report_unloaded_code
    from teamwright.lab.simulation.trials import declared_team
    from teamwright.teams.load import read_manifest, source_of

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
