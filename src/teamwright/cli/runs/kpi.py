"""`teamwright runs kpi`: the figures of runs, side by side, and gates that they have to keep to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_journal
from teamwright.cli.terminal.output import Json, Out, check_files, result, result_json, say, tell_broken
from teamwright.values.text.display import NOTHING, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue

    from teamwright.history.kpi_gates import GateResult
    from teamwright.history.kpis import Kpis
    from teamwright.journal.protocol import Journal

PARTS = ("passed", "failed", "stopped", "open", "skipped")
"""The figures that make up the steps; they are told beside their number."""


def kpi(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Runs: their ids, unique beginnings of them, or `last`.")
    ],
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="GATE",
            help="What a figure has to keep to, such as 'pass_rate>=0.8', or `default`; may be repeated.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the figures side by side, as .svg or .png.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Measure runs: throughput, pass rate, tokens, coordination, latency.

    Where a figure of a run breaks a gate, the exit code is 1.
    """
    from teamwright.history.kpi_gates import check_gates, read_gates

    check_files(out, plot)
    gates = read_gates(gate or ())

    async def work(journal: Journal) -> int:
        from teamwright.cli.interactive.find_run import find_run
        from teamwright.history.kpis import read_kpis

        found = [await read_kpis(journal, (await find_run(journal, run)).id) for run in runs]
        checked = [check_gates(gates, one) for one in found]
        if json:
            told = [_as_json(one, kept) for one, kept in zip(found, checked, strict=True)]
            result_json(told if len(told) > 1 else told[0], out)
        else:
            result(table(found, checked), out)
        if plot is not None:
            _draw(found, plot)
        return tell_broken(_broken(found, checked))

    return with_journal(work)


def _draw(runs: Sequence[Kpis], file: Path) -> None:
    from teamwright.lab.drawing.kpi_bars import kpi_plot
    from teamwright.lab.drawing.svg import save

    save(kpi_plot(runs), file)
    say(f"drawn in {file}")


def table(runs: Sequence[Kpis], checked: Sequence[Sequence[GateResult]] = ()) -> str:
    """The figures of runs as a table, a run to a column, and below them which gates they keep."""
    from teamwright.cli.text.table import columns
    from teamwright.history.kpis import side_by_side

    lines: list[Sequence[str]] = [("", *(one.run_id for one in runs)), ("team", *(one.team for one in runs))]
    lines.append(("status", *(f"{one.status} ({one.stop_reason})" if one.stop_reason else one.status for one in runs)))
    for row in side_by_side(runs):
        if row.figure not in PARTS and any(value is not None for value in row.values):
            cells = (_cell(row.figure, value, one) for value, one in zip(row.values, runs, strict=True))
            lines.append((row.figure, *cells))
    return columns([*lines, *(_kept(results) for results in zip(*checked, strict=True))])


def _kept(results: Sequence[GateResult]) -> tuple[str, ...]:
    return (str(results[0].gate), *("kept" if one.passed else "broken" for one in results))


def _as_json(run: Kpis, gates: Sequence[GateResult]) -> JsonValue:
    measured: dict[str, JsonValue] = run.to_json()
    measured["gates"] = [gate.to_json() for gate in gates]
    return measured


def _cell(figure: str, value: float | None, run: Kpis) -> str:
    from teamwright.cli.text.events import price_text

    match figure:
        case _ if value is None:
            return NOTHING
        case "pass_rate" | "defect_escape" | "coordination_ratio":
            return f"{value:.4f}{' (assumed)' if figure == 'pass_rate' and run.assumed else ''}"
        case "p95_latency_s" | "seconds":
            return f"{value:.2f} s"
        case "usd":
            return price_text(value)
        case "throughput":
            return f"{value:,.2f} a day".replace(",", " ")
        case "steps":
            parts = ", ".join(f"{run.figure(part):g} {part}" for part in PARTS if run.figure(part))
            return f"{number_text(run.steps)} ({parts})" if parts else number_text(run.steps)
        case _:
            return number_text(int(value))


def _broken(runs: Sequence[Kpis], checked: Sequence[Sequence[GateResult]]) -> Iterator[str]:
    for one, gates in zip(runs, checked, strict=True):
        yield from (f"run {one.run_id!r} breaks the gate {gate.words}" for gate in gates if not gate.passed)
