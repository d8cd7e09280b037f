"""`teamwright runs what-if`: what a recorded run would have cost with another model, limit, width or topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import MaxCalls, MaxSeconds, MaxTokens, MaxUsd, Run, run_limits
from teamwright.cli.terminal.output import Json, Out, check_out, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.text.display import NOTHING, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from teamwright.lab.simulation.what_if import Compared, RunFigures, WhatIfReport
    from teamwright.runtime.engine import Engine
    from teamwright.values.turns.results import RunSummary

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
        columns([HEADS, *_rows(report)]),
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


def _rows(report: WhatIfReport) -> Iterator[Sequence[str]]:
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
