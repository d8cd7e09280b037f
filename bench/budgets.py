"""`python -m bench.budgets`: how many runs end with an answer inside a budget that is smaller than what they need.

The need of a run is what it spends without a limit. An answer is the reply to a closing ask, else the last reply; one
that was cut is none. Then it prints how much more than its real tokens a prompt reserves.

`--served` measures teams that ask a provider over HTTP instead, which counts tokens itself: with a tokenizer that is
known, and with an unknown one in a new journal and after one run in it. Each run has an engine of its own and a journal
in a file; with `--commands` it is a command, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NoReturn

from bench.budget_commands import COMMAND_KINDS, run_command
from bench.budget_provider import Tokenizer
from bench.budget_reservations import reservation_table, reservations
from bench.budget_served import KINDS, SHARES as SERVED_SHARES, measure_served, missed_served_goals, serve, served_table
from bench.budget_teams import OPTIONS, Replies, team_of
from teamwright import Engine, RunResult
from teamwright.events import BudgetDegraded
from teamwright.strategies.protocol import Members
from teamwright.values.limits import Degradation

POLICIES: tuple[Degradation, ...] = ("none", "auto", "aggressive")
SHARES = (60, 70, 80, 90, 100, 110, 130, 150)
"""Budgets, in percent of the need."""
RUNS = 10
PLOT = Path("bench/results/budgets.svg")
GOALS = ((80, 0.9), (110, 1.0))
"""The share of runs with an answer that `auto` has to reach, by budget."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one strategy under one policy and budget; all figures but `rungs` are shares."""

    strategy: str
    policy: Degradation
    budget: int
    answered: float
    completed: float
    spent: float
    overspent: int
    rungs: float


async def measure(strategy: str, policy: Degradation, budget: int, runs: int = RUNS) -> Cell:
    """Run a strategy with this budget, in percent of the need, so many times."""
    outcomes = [await _run(strategy, seed, policy, budget) for seed in range(runs)]
    return Cell(
        strategy,
        policy,
        budget,
        answered=fmean(one.answered for one in outcomes),
        completed=fmean(one.completed for one in outcomes),
        spent=fmean(one.spent / one.limit for one in outcomes),
        overspent=sum(one.spent > one.limit for one in outcomes),
        rungs=fmean(one.rungs for one in outcomes),
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    answered: bool
    completed: bool
    spent: float
    limit: float
    rungs: int


async def _run(strategy: str, seed: int, policy: Degradation, budget: int) -> _Outcome:
    need = await _need(strategy, seed)
    limit, replies = round(need * budget / 100, 6), Replies()
    team = team_of(strategy, seed, replies, limit, policy)
    async with Engine("memory") as engine:
        result = await engine.run(team, "Do the work.")
        events = await engine.journal.read(result.run_id)
    closes = bool(team.strategy.closing(team.settings, Members(team.members)))
    return _Outcome(
        answered=_has_answer(result, replies, closes=closes),
        completed=result.stop_reason in ("done", "max_turns"),
        spent=result.usage.usd or 0.0,
        limit=limit,
        rungs=sum(isinstance(event.fact, BudgetDegraded) and not event.fact.undone for event in events),
    )


def _has_answer(result: RunResult, replies: Replies, *, closes: bool) -> bool:
    if not replies.last_is_whole:
        return False
    if result.stop_reason in ("done", "max_turns"):
        return True
    return replies.last_closes and result.failure is None if closes else bool(result.messages)


_needs: dict[tuple[str, int], float] = {}


async def _need(strategy: str, seed: int) -> float:
    if (strategy, seed) not in _needs:
        async with Engine("memory") as engine:
            result = await engine.run(team_of(strategy, seed, Replies(), None, "none"), "Do the work.")
        _needs[strategy, seed] = result.usage.usd or 0.0
    return _needs[strategy, seed]


async def measure_all(strategies: Sequence[str], runs: int) -> list[Cell]:
    """Measure every strategy under every policy and budget."""
    return [
        await measure(strategy, policy, budget, runs)
        for strategy in strategies
        for policy in POLICIES
        for budget in SHARES
    ]


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the lines of the report: runs with an answer, by strategy, policy and budget."""
    shares = " | ".join(f"{share} %" for share in SHARES)
    yield f"| strategy | policy | {shares} | whole work at 80 % | unspent at 110 % | rungs at 80 % |"
    yield "|---|---|" + "---|" * (len(SHARES) + 3)
    for strategy in dict.fromkeys(cell.strategy for cell in cells):
        for policy in POLICIES:
            row = {cell.budget: cell for cell in cells if (cell.strategy, cell.policy) == (strategy, policy)}
            answers = " | ".join(f"{row[share].answered:.0%}" for share in SHARES)
            more = f"{row[80].completed:.0%} | {1 - row[110].spent:.0%} | {row[80].rungs:.1f}"
            yield f"| {strategy} | {policy} | {answers} | {more} |"


def missed_goals(cells: Sequence[Cell]) -> list[str]:
    """Return the cells that miss a goal, and those that spent more than their limit."""
    missed = [
        f"{cell.strategy} at {cell.budget} %: {cell.answered:.0%} of runs with an answer, goal {goal:.0%}"
        for cell in cells
        for budget, goal in GOALS
        if cell.policy == "auto" and cell.budget == budget and cell.answered < goal
    ]
    over = [f"{cell.strategy}, {cell.policy} at {cell.budget} %: over its limit" for cell in cells if cell.overspent]
    return missed + over


CASES: Mapping[str, tuple[str, Tokenizer, bool]] = {
    "known": ("known tokenizer", "known", False),
    "new": ("unknown tokenizer, new journal", "unknown", False),
    "learnt": ("unknown tokenizer, after one run", "unknown", True),
}
"""By name: the title of a table of served teams, the tokenizer, and whether the journal has a run."""


def _measure_served(given: argparse.Namespace) -> NoReturn:
    """Measure served teams, print a table for each tokenizer, and exit with 1 if a goal is missed."""
    missed: list[str] = []
    run, kinds = (run_command, COMMAND_KINDS) if given.commands else (serve, tuple(KINDS))
    shares = given.share or SERVED_SHARES
    for name in given.case or CASES:
        title, tokenizer, warm = CASES[name]
        only = [kind for kind in given.only or kinds if kind in kinds]
        rows = asyncio.run(measure_served(only, given.seeds, tokenizer, warm=warm, shares=shares, run=run))
        print(*served_table(rows, title), "", sep="\n", flush=True)
        if tokenizer == "known" or warm:  # what happens before anything is learnt is no goal
            missed += missed_served_goals(rows, title, hard=tokenizer == "known")
    print("\n".join(["Missed:", *missed] if missed else ["All goals are met."]))
    raise SystemExit(bool(missed))


def _seeds(text: str) -> range:
    """Read `A-B`, the first and the last seed."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    """Measure, print the table, and draw it; exits 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.budgets", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(KINDS), help="measure this kind of team; repeatable")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each cell")
    parser.add_argument("--plot", type=Path, default=PLOT, help=f"the SVG file for the plot ({PLOT})")
    parser.add_argument("--served", action="store_true", help="measure teams that ask a provider over HTTP")
    parser.add_argument("--seeds", type=_seeds, help="with --served: A-B, the seeds of the teams in place of --runs")
    parser.add_argument("--share", type=int, action="append", help="with --served: a limit in %% of the need")
    parser.add_argument("--case", action="append", choices=list(CASES), help="with --served: a table; repeatable")
    parser.add_argument("--commands", action="store_true", help="with --served: a process for each run")
    given = parser.parse_args()
    given.seeds = given.seeds or range(given.runs)
    if given.served:
        _measure_served(given)
    strategies = [name for name in given.only or OPTIONS if name in OPTIONS]
    cells = asyncio.run(measure_all(strategies, given.runs))
    print("\n".join(table(cells)))
    from bench.budget_plot import svg  # here, because it draws what this module measures

    given.plot.parent.mkdir(parents=True, exist_ok=True)
    given.plot.write_text(svg(cells), encoding="utf-8")
    rows = reservations()
    print("", *reservation_table(rows), sep="\n")
    missed = missed_goals(cells) + [
        f"{row.method} on {row.kind}: {row.ratio:.2f}" for row in rows if not row.meets_goal
    ]
    print("\n".join(["", "Missed:", *missed] if missed else ["", "All goals are met."]))
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
