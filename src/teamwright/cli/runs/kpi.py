"""`teamwright runs kpi`: the KPIs of runs side by side, and gates that they must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.output import Json, Out, check_out, report_failed_gates, say, write_json, write_result
from teamwright.values.text.display import NOTHING, count_text, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue

    from teamwright.history.kpis import GateResult, Kpis
    from teamwright.journal.protocol import Journal

PARTS = ("passed", "failed", "stopped", "open", "skipped")
"""The counts that add up to `steps`; they are shown next to it."""

IN_MARKS = ("judged", "assumed")
"""Figures that have no row: a mark beside the pass rate and its gates says that steps were assumed to pass."""
MOST_RUNS = 1000
IF_ANY = ("cached_tokens", "saved_usd", "unmetered")
"""The figures that are shown only where they are not zero."""


def kpi(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN…]", help="Runs: their ids, unique prefixes of them, or `last`."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, max=MOST_RUNS, help="The newest N runs.")
    ] = None,
    team: Annotated[str | None, typer.Option("--team", help="Only runs of this team.")] = None,
    total: Annotated[bool, typer.Option("--total", help="Add all runs up: one column, with the sums.")] = False,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="GATE",
            help="A threshold for a KPI, such as 'pass_rate>=0.8', or `default`; may be repeated.",
        ),
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Measure runs: throughput, pass rate, tokens, coordination, latency.

    The exit code is 1 if a run fails a gate.

    Examples:
      teamwright runs kpi last --gate default
      teamwright runs kpi --limit 20 --total --gate 'pass_rate>=0.9'
    """
    from teamwright.history.kpis import check_gates, read_gates

    check_out(out)
    gates = read_gates(gate or ())

    async def work(journal: Journal) -> int:
        from teamwright.history.kpis import read_kpis, total_of

        ids = await _run_ids(journal, runs or (), limit, team)
        found = [await read_kpis(journal, run) for run in ids]
        if total:
            found = [total_of(found)]
            say(f"the total of {count_text(len(ids), 'run')}")
        checked = [check_gates(gates, one) for one in found]
        if json:
            rows = [_as_json(one, gates) for one, gates in zip(found, checked, strict=True)]
            if total:
                rows[0]["runs"] = [*ids]
            write_json(rows if len(rows) > 1 else rows[0], out)
        else:
            write_result(table(found, checked), out)
        return report_failed_gates(_broken(found, checked))

    return with_journal(work)


async def _run_ids(journal: Journal, named: Sequence[str], limit: int | None, team: str | None) -> list[str]:
    """Return the runs that are named, or else the newest ones; with `team`, those of this team."""
    from teamwright.cli.terminal.command_setup import find_run
    from teamwright.errors import UsageError

    if named and limit is not None:
        raise UsageError("Name runs, or take the newest with --limit; not both.")
    if not named and limit is None and team is None:
        raise UsageError("Name a run, such as  last, or several; --limit N takes the newest, --team those of a team.")
    if named:
        found = [await find_run(journal, run) for run in named]
    else:
        found = await journal.top_runs(limit if team is None else None)
    wanted = list(dict.fromkeys(one.id for one in found if team is None or one.team == team))
    if not wanted:
        raise UsageError(f"There is no run{f' of the team {team!r}' if team else ''}; start one with  teamwright run")
    if named or limit is not None:
        return wanted[:limit]
    if len(wanted) > MOST_RUNS:
        say(f"the newest {number_text(MOST_RUNS)} of {number_text(len(wanted))} runs")
    return wanted[:MOST_RUNS]


def table(runs: Sequence[Kpis], checked: Sequence[Sequence[GateResult]] = ()) -> str:
    """The KPIs of runs as a table, one column per run, with the gates below."""
    from teamwright.cli.terminal.output import columns
    from teamwright.history.kpis import side_by_side

    lines: list[Sequence[str]] = [
        ("", *(one.run_id for one in runs)),
        ("team", *(one.team or "several" for one in runs)),
    ]
    lines.append(("status", *(f"{one.status} ({one.stop_reason})" if one.stop_reason else one.status for one in runs)))
    for row in side_by_side(runs):
        shown = any(row.values) if row.figure in IF_ANY else any(value is not None for value in row.values)
        if shown and row.figure not in (*PARTS, *IN_MARKS):
            cells = (_cell(row.figure, value, one) for value, one in zip(row.values, runs, strict=True))
            lines.append((row.figure, *cells))
    return columns([*lines, *(_gate_row(results) for results in zip(*checked, strict=True))])


def _gate_row(results: Sequence[GateResult]) -> tuple[str, ...]:
    return (str(results[0].gate), *map(_gate_cell, results))


def _gate_cell(result: GateResult) -> str:
    return f"{'passed' if result.passed else 'failed'}{' (assumed)' if result.assumed else ''}"


def _as_json(run: Kpis, gates: Sequence[GateResult]) -> dict[str, JsonValue]:
    measured: dict[str, JsonValue] = run.to_json()
    measured["gates"] = [gate.to_json() for gate in gates]
    return measured


def _cell(figure: str, value: float | None, run: Kpis) -> str:
    from teamwright.values.text.display import price_text

    match figure:
        case _ if value is None:
            return NOTHING
        case "pass_rate" | "defect_escape" if run.assumed and not run.judged:
            return "not reviewed"
        case "pass_rate" | "defect_escape" | "coordination_ratio":
            return f"{value:.4f}{' (assumed)' if figure == 'pass_rate' and run.assumed else ''}"
        case "p95_latency_s" | "seconds":
            return f"{value:.2f} s"
        case "usd" | "saved_usd":
            return price_text(value)
        case "throughput":
            return f"{value:,.2f} per day".replace(",", " ")
        case "steps":
            parts = ", ".join(f"{run.figure(part):g} {part}" for part in PARTS if run.figure(part))
            return f"{number_text(run.steps)} ({parts})" if parts else number_text(run.steps)
        case _:
            return number_text(int(value))


def _broken(runs: Sequence[Kpis], checked: Sequence[Sequence[GateResult]]) -> Iterator[str]:
    from teamwright.history.kpis import TOTAL

    for one, gates in zip(runs, checked, strict=True):
        name = "the total" if one.run_id == TOTAL else f"run {one.run_id!r}"
        yield from (f"{name} fails the gate {gate.words}" for gate in gates if not gate.passed)
