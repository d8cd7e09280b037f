"""`teamwright lab simulate` and `runs what-if`: what a team would cost, and what a recorded run would have cost.

No model is called: a team runs many times on a virtual clock, and a record is computed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal, with_run
from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.options import (
    AllowRoot,
    ManifestPath,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Quiet,
    Run,
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
from teamwright.errors import UsageError
from teamwright.lab.commands.calibrate import Profile
from teamwright.values.text.display import NOTHING, number_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from teamwright.journal.protocol import Journal
    from teamwright.lab.simulation.simulate import SimulatedShape, SimulationReport, Spread
    from teamwright.lab.simulation.simulated_agents import Learnt
    from teamwright.lab.simulation.what_if import Compared, RunFigures, WhatIfReport
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.turns.results import RunSummary


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


ESTIMATE = "≈"
"""Marks a figure that is an estimate."""
HEADS = ("", "ASKS", "TOKENS", "IN", "OUT", "PRICE", "TIME")


def what_if(
    run: Run,
    *,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MEMBER=MODEL", help="Another model for a member; may be repeated."),
    ] = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", min=1, metavar="N", help="Let at most N members work at once.")
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", metavar="NAME", help="single, lead, star or mesh; an estimate.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Compute what a recorded run would have cost otherwise. No call is made, and nothing is written.

    Figures are exact where only prices, limits, widths or time differ, and estimates (≈) where other words would have
    been written.

    Example:
      teamwright runs what-if last --model writer=openai:gpt-5-mini --max-usd 1
    """
    check_out(out)
    models = dict(_model_option(one) for one in model or ())
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.lab.simulation.what_if import RunChanges, what_if

        history = await engine.runs.history(found.id)
        report = await what_if(engine.journal, history, RunChanges(models, limits, at_once, topology))
        if json:
            write_json(report.to_json(), out)
        else:
            write_result(report_text(report), out)
        return 0

    return with_run(run, work)


def _model_option(written: str) -> tuple[str, str]:
    member, equals, model = written.partition("=")
    if not (member and equals and model):
        raise UsageError(f"--model {written!r} names no member and model; write  --model reviewer=openai:gpt-5-mini")
    return member, model


def report_text(report: WhatIfReport) -> str:
    """The report as a table: the run and each member, as recorded and as they would have been."""
    from teamwright.cli.terminal.output import columns

    lines = [
        columns([HEADS, *_compared_rows(report)]),
        "",
        f"recorded  {_ending(report.recorded_status, report.recorded_stop_reason)}",
    ]
    sure = "" if report.total.exact else f"{ESTIMATE} "
    if report.status is None:
        lines.append("what if   it would have gone on beyond its record; the figures are a lower bound")
    else:
        lines.append(f"what if   {sure}{_ending(report.status, report.stop_reason)}")
    if report.stopped is not None:
        lines.append(f"stopped   {sure}at {report.stopped.key}: {report.stopped.why}")
    lines += [f"{ESTIMATE} {note}" for note in report.notes]
    return "\n".join(lines)


def _ending(status: str, reason: str | None) -> str:
    return f"{status} ({reason})" if reason else status


def _compared_rows(report: WhatIfReport) -> Iterator[Sequence[str]]:
    yield from _pair(f"run {report.run_id}", report.total)
    for name, compared in report.members.items():
        yield from _pair(name, compared)


def _pair(name: str, compared: Compared) -> Iterator[Sequence[str]]:
    yield (name, *_cells(compared.recorded, ""))
    yield ("  what if", *_cells(compared.what_if, "" if compared.exact else ESTIMATE))


def _cells(figures: RunFigures, mark: str) -> Iterator[str]:
    from teamwright.values.text.display import seconds_text

    for number in (figures.asks, figures.total_tokens, figures.input_tokens, figures.output_tokens):
        yield f"{mark}{number_text(number)}"
    yield NOTHING if figures.usd is None else f"{mark}${figures.usd:.6f}"
    yield f"{mark}{seconds_text(figures.seconds)}"
