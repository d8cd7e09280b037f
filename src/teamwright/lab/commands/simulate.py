"""`teamwright lab simulate`: runs a team many times on a virtual clock, without calling a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.options import (
    AllowRoot,
    ManifestPath,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Quiet,
    TeamName,
    With,
    complete_runs,
    run_limits,
)
from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    one_line,
    redirect_prints,
    say,
    write_json,
    write_result,
)
from teamwright.lab.commands.calibrate import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from teamwright.journal.protocol import Journal
    from teamwright.lab.simulation.simulate import SimulatedShape, SimulationReport, Spread
    from teamwright.lab.simulation.simulated_agents import Learnt
    from teamwright.teams.team import Team

ALL = "single,lead,star,mesh"
MOST_PATH = 12

LearnFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Let members behave as in this run; may be repeated.",
        autocompletion=complete_runs,
    ),
]


def simulate(
    manifest: ManifestPath,
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="What the team should do; `-` reads it from stdin.")
    ] = None,
    *,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="How many runs to simulate.")] = 200,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same figures.")] = 0,
    topologies: Annotated[
        str, typer.Option("--topology", metavar="A,B", help="Topologies besides the team's own; empty for none.")
    ] = ALL,
    learn_from: LearnFrom = None,
    profile: Profile = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    team: TeamName = None,
    more: With = None,
    allow_root: AllowRoot = None,
    quiet: Quiet = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Simulate a team: what it costs, how long it takes, how often it is right.

    Your own team, strategies and policies run on a virtual clock, with simulated members. No model or tool is called,
    but code that the manifest names is loaded, as python would: only use manifests that you trust.

    Example:
      teamwright lab simulate team.yaml "Write the report." --from last --runs 500
    """
    from teamwright.cli.terminal.options import read_task
    from teamwright.cli.terminal.output import ProgressCounter
    from teamwright.lab.simulation.simulate import simulate as simulated

    check_out(out)
    with raise_on_interrupt():
        report = simulated(
            read_team(manifest, team, more, allow_root or ()),
            read_task(task, None) or "",
            runs=runs,
            seed=seed,
            topologies=[name for name in topologies.split(",") if name.strip()],
            learnt=_learnt(learn_from, profile),
            limits=run_limits(max_tokens, max_usd, max_calls, max_seconds),
            progress=None if quiet else ProgressCounter("runs simulated"),
        )
    if json:
        write_json(report.to_json(), out)
    else:
        write_result(simulation_text(report), out)
    for name, reason in report.missing.items():
        say(f"{name} is left out: {reason}")
    return 0


@redirect_prints()
def read_team(manifest: Path, team: str | None, more: list[Path] | None, allow_roots: Sequence[Path] = ()) -> Team:
    """The team as its manifest declares it; loads its code, but needs no provider keys."""
    from teamwright.cli.terminal.command_setup import extend_sys_path
    from teamwright.lab.simulation.trials import declared_team
    from teamwright.teams.team_loader import read_manifest, source_of

    extend_sys_path()
    source = source_of(read_manifest([manifest, *(more or ())]), team=team, allow_roots=allow_roots)
    return declared_team(source)


def simulation_text(report: SimulationReport) -> str:
    """The topologies side by side, and the bottleneck of each."""
    from teamwright.cli.terminal.output import columns

    rows = _rows(report.shapes)
    lines = [f"{report.runs} simulated runs of {report.team!r}, seed {report.seed}", "", columns(rows)]
    for one in report.shapes:
        lines += ["", *_bottleneck_lines(one)]
    return "\n".join([*lines, *(("", *report.notes) if report.notes else ())])


def _rows(shapes: Sequence[SimulatedShape]) -> list[Sequence[str]]:
    from teamwright.values.text.display import NOTHING, number_text, price_text, seconds_text

    def tokens(value: float) -> str:
        return number_text(round(value))

    def spread(name: str, found: Sequence[Spread | None], words: Callable[[float], str]) -> tuple[str, ...]:
        cells = (f"{words(one.p50)} / {words(one.p90)}" if one else NOTHING for one in found)
        return (f"{name} p50 / p90", *cells)

    rows: list[Sequence[str]] = [("", *(one.shape for one in shapes)), ("strategy", *(one.strategy for one in shapes))]
    rows.append(spread("tokens", [one.total_tokens for one in shapes], tokens))
    rows.append(spread("time", [one.seconds for one in shapes], seconds_text))
    if any(one.usd for one in shapes):
        rows.append(spread("price", [one.usd for one in shapes], price_text))
    rows.append(("pass rate", *(NOTHING if one.pass_rate is None else f"{one.pass_rate:.4f}" for one in shapes)))
    rows.append(("coordination ratio", *(f"{one.coordination_ratio:.4f}" for one in shapes)))
    rows.append(("messages", *(f"{one.messages:g}" for one in shapes)))
    rows.append(("steps", *(f"{one.steps:g}" for one in shapes)))
    rows.append(("completed", *(f"{one.completed:.1%}" for one in shapes)))
    return rows


def _bottleneck_lines(shape: SimulatedShape) -> list[str]:
    """The bottleneck and the critical path of a topology, and the statuses of runs that did not complete."""
    lines = [shape.shape]
    if slowest := shape.bottleneck:
        lines.append(
            f"  bottleneck: {slowest.step} ({slowest.member}), {slowest.seconds:g} s,"
            f" {slowest.share_of_time:.0%} of all time, in {slowest.share_of_runs:.0%} of the runs"
        )
    if steps := shape.critical_path.steps:
        shown = " → ".join(f"{one.step} {one.seconds:g} s" for one in steps[:MOST_PATH])
        more = f" → … {len(steps) - MOST_PATH} more" if len(steps) > MOST_PATH else ""
        lines.append(f"  critical path in {shape.critical_path.share:.0%} of the runs: {shown}{more}")
    others = [f"{many} {status}" for status, many in shape.statuses.items() if status != "completed"]
    if others:
        lines.append(f"  not completed: {', '.join(others)}")
    return [*lines, *(f"    {many} times: {one_line(problem)}" for problem, many in shape.problems.items())]


def _learnt(runs: Sequence[str] | None, profile: str | None) -> Learnt | None:
    """The behaviour of members, learnt from past runs or else read from a profile."""
    if runs:
        return _from_runs(runs)
    if profile is None:
        return None
    from teamwright.lab.calibration import read_profile

    return read_profile(profile).learnt


def _from_runs(runs: Sequence[str]) -> Learnt:
    from teamwright.cli.terminal.command_setup import find_run
    from teamwright.errors import UsageError
    from teamwright.lab.observations import learn

    async def read(journal: Journal) -> Learnt:
        return learn([await journal.read((await find_run(journal, run)).id) for run in runs])

    learnt = with_journal(read)
    if not learnt.members:
        raise UsageError(f"No member has replied in {', '.join(map(repr, runs))}, so there is nothing to learn from.")
    return learnt
