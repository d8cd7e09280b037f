"""Tests advice on the published rows and writes the table of the page on its model: `python -m tools.advice_table`.

A cell is one model on one benchmark, alone and in four kinds of teams. Advice for the cells of a benchmark is fitted to
the other benchmarks only. A test computes the table again and compares.
"""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from teamwright.lab.topology_decision import HeldOut, TeamEffect, WorkKind, team_pass_rate, work_kind

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "tests" / "lab" / "published_rows.csv"
PAGE = ROOT / "docs" / "contributing" / "topology-model.md"
BEGIN, END = "<!-- advice table: make tables writes it -->\n", "<!-- end of the advice table -->\n"

ALONE, LEAD, EQUALS = "single", "centralized", "decentralized"
COORDINATED = (LEAD, EQUALS, "hybrid")
DIVISIBLE = {"BrowseComp-Plus": 0.5, "Finance-Agent": 1.0, "PlanCraft": 0.0, "WorkBench": 0.5}
"""The divisible share of each benchmark as we read its description; the authors give no such number."""
OTHER_READINGS = (0.25, 0.4, 0.5, 0.6, 0.75)
"""Other shares that the two benchmarks in the middle could have."""
NEAR = 0.05
SAME = 1e-9


class Cell(NamedTuple):
    """One model on one benchmark: the share of tasks solved in each shape."""

    benchmark: str
    model: str
    solved: Mapping[str, float]

    @property
    def alone(self) -> float:
        """The share that one agent solved."""
        return self.solved[ALONE]

    def loss(self, shape: str) -> float:
        """How much less a shape solved than the best one."""
        return max(self.solved.values()) - self.solved[shape]

    @property
    def team_is_best(self) -> bool:
        """Whether some team solved more than one agent."""
        return self.loss(ALONE) > SAME


Policy = Callable[[Cell], str]
"""Chooses a shape for a cell, of which it may use the benchmark's divisible share and the pass rate of one agent."""
Learner = Callable[[Sequence[Cell]], Policy]
"""Fits a policy to cells."""
Choices = Sequence[tuple[Cell, str]]
"""The shape chosen for each cell."""
Shares = Mapping[str, float]


def read_cells(file: Path = ROWS) -> list[Cell]:
    """Read the published rows."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in csv.DictReader(lines):
        found.setdefault((row["benchmark"], row["model"]), {})[row["shape"]] = float(row["solved"])
    return [Cell(benchmark, model, solved) for (benchmark, model), solved in sorted(found.items())]


def fit_effect(cells: Iterable[Cell], shares: Shares = DIVISIBLE) -> TeamEffect:
    """Fit the effect of a coordinated team by least squares."""
    aa = ab = bb = ay = by = 0.0
    for cell in cells:
        share = shares[cell.benchmark]
        a, b = share * (1 - cell.alone), -(1 - share) * cell.alone
        for shape in COORDINATED:
            gain = cell.solved[shape] - cell.alone
            aa, ab, bb, ay, by = aa + a * a, ab + a * b, bb + b * b, ay + a * gain, by + b * gain
    determinant = aa * bb - ab * ab
    return TeamEffect((ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant)


def advice(cells: Sequence[Cell], team: str = LEAD, shares: Shares = DIVISIBLE) -> Policy:
    """A team if its fitted pass rate is above that of one agent."""
    effect = fit_effect(cells, shares)
    return lambda cell: team if team_pass_rate(shares[cell.benchmark], cell.alone, effect) > cell.alone else ALONE


def divisible_share(cells: Sequence[Cell]) -> Policy:
    """A team if the mean gain, fitted as a line over the divisible share, is positive."""
    points = [(DIVISIBLE[cell.benchmark], cell.solved[shape] - cell.alone) for cell in cells for shape in COORDINATED]
    x, y = mean(share for share, _ in points), mean(gain for _, gain in points)
    slope = sum((share - x) * (gain - y) for share, gain in points) / sum((share - x) ** 2 for share, _ in points)
    return lambda cell: LEAD if y + slope * (DIVISIBLE[cell.benchmark] - x) > 0 else ALONE


def published_rules(cell: Cell) -> str:
    """80 % better on divisible and 54.5 % worse on sequential work, and no gain above 45 % alone."""
    share = DIVISIBLE[cell.benchmark]
    return LEAD if share * 0.80 - (1 - share) * 0.545 > 0 and cell.alone <= 0.45 else ALONE


def always(shape: str) -> Learner:
    """The same shape for every cell."""
    return lambda _cells: lambda _cell: shape


CANDIDATES: Mapping[str, Learner] = {
    "always one agent": always(ALONE),
    "always a team with a lead": always(LEAD),
    "always a team of equals": always(EQUALS),
    "a team unless one agent is right in over 45 %": lambda _: lambda cell: LEAD if cell.alone <= 0.45 else ALONE,
    "the paper's rules (80 %, 39 to 70 %, 45 %)": lambda _: published_rules,
    "divisible share": divisible_share,
    "divisible share × pass rate alone": advice,
    "the same, with a team of equals": lambda cells: advice(cells, EQUALS),
}
CHOSEN = "divisible share × pass rate alone"


def held_out(cells: Sequence[Cell], learner: Learner) -> Choices:
    """The choice for each cell, by a policy fitted to the other benchmarks."""
    policies = {name: learner([one for one in cells if one.benchmark != name]) for name in DIVISIBLE}
    return [(cell, policies[cell.benchmark](cell)) for cell in cells]


class Result(NamedTuple):
    """How good choices are: in how many cells they are right, and how much less they solve than the best shape."""

    best: int
    near: int
    team_or_one: int
    losses: Mapping[str, float]

    @property
    def loss(self) -> float:
        """The mean loss; every benchmark has the same number of cells."""
        return mean(self.losses.values())


def judge(choices: Choices) -> Result:
    """Compare choices with the best shape of each cell, of all five."""
    losses = [cell.loss(shape) for cell, shape in choices]
    return Result(
        best=sum(loss <= SAME for loss in losses),
        near=sum(loss <= NEAR + SAME for loss in losses),
        team_or_one=sum((shape != ALONE) == cell.team_is_best for cell, shape in choices),
        losses={
            name: mean(cell.loss(shape) for cell, shape in choices if cell.benchmark == name) for name in DIVISIBLE
        },
    )


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the mean over all ways of drawing as many benchmarks, with repetition."""
    means = sorted(map(mean, product(differences, repeat=len(differences))))
    cut = round(len(means) * 0.025)
    return means[cut], means[-1 - cut]


def advantage(cells: Sequence[Cell]) -> tuple[float, float, float]:
    """By how much the mean loss of the chosen advice is below that of one agent, with its interval."""
    chosen, alone = (judge(held_out(cells, CANDIDATES[name])).losses for name in (CHOSEN, "always one agent"))
    differences = [alone[name] - chosen[name] for name in DIVISIBLE]
    return mean(differences), *interval(differences)


def loss_by_reading(cells: Sequence[Cell]) -> tuple[float, float]:
    """The least and the greatest mean loss of the chosen advice under other readings of the middle benchmarks."""
    losses: list[float] = []
    for browse, work in product(OTHER_READINGS, repeat=2):
        shares = {**DIVISIBLE, "BrowseComp-Plus": browse, "WorkBench": work}
        losses.append(judge(held_out(cells, partial(advice, shares=shares))).loss)
    return min(losses), max(losses)


def by_kind(cells: Sequence[Cell]) -> dict[WorkKind, HeldOut]:
    """The held-out result of the chosen advice by kind of work."""
    choices, found = held_out(cells, CANDIDATES[CHOSEN]), dict[WorkKind, HeldOut]()
    for name, share in DIVISIBLE.items():
        own = [cell.loss(shape) <= NEAR + SAME for cell, shape in choices if cell.benchmark == name]
        before = found.get(kind := work_kind(share), HeldOut(0, 0, ()))
        found[kind] = HeldOut(before.within + sum(own), before.cells + len(own), (*before.benchmarks, name))
    return found


def failure_ratio(cells: Sequence[Cell], shape: str) -> float:
    """The failures of a shape divided by those of one agent, on average over cells."""
    return mean((1 - cell.solved[shape]) / (1 - cell.alone) for cell in cells)


def gains_above(cells: Sequence[Cell], rate: float) -> dict[str, tuple[int, int]]:
    """Per benchmark: in how many cells some team beats one agent, and of how many where one agent is above a rate."""
    above = {name: [one for one in cells if one.benchmark == name and one.alone > rate] for name in DIVISIBLE}
    return {name: (sum(cell.team_is_best for cell in some), len(some)) for name, some in above.items() if some}


def table(cells: Sequence[Cell]) -> str:
    """The results of all candidates, and what they depend on, as Markdown."""
    many = len(cells)
    lines = [
        f"| choice | best shape | within {NEAR} | team or one | mean loss | {' | '.join(DIVISIBLE)} |",
        f"|{'---|' * (5 + len(DIVISIBLE))}",
    ]
    for name, learner in CANDIDATES.items():
        found = judge(held_out(cells, learner))
        counts = f"{found.best} of {many} | {found.near} of {many} | {found.team_or_one} of {many}"
        losses = " | ".join(f"{loss:.3f}" for loss in found.losses.values())
        label = f"**{name}**" if name == CHOSEN else name
        lines.append(f"| {label} | {counts} | {found.loss:.3f} | {losses} |")
    return "\n".join((*lines, "", *_notes(cells))) + "\n"


def _notes(cells: Sequence[Cell]) -> list[str]:
    effect, (gain, low, high), (least, most) = fit_effect(cells), advantage(cells), loss_by_reading(cells)
    kinds = ", ".join(
        f"{one.within} of {one.cells} on {kind} work ({', '.join(one.benchmarks)})"
        for kind, one in by_kind(cells).items()
    )
    ratios = ", ".join(f"{failure_ratio(cells, one):.2f} {one}" for one in (*COORDINATED, "independent"))
    above = ", ".join(f"{won} of {many} in {name}" for name, (won, many) in gains_above(cells, 0.45).items())
    readings = f"{OTHER_READINGS[0]} to {OTHER_READINGS[-1]}"
    return [
        f"- Fitted to all rows: a coordinated team removes {effect.removed:.1%} of one agent's failures on work that",
        f"  can be divided, and loses {effect.lost:.1%} of its successes on sequential work.",
        f"- Advantage over always one agent: {gain:.3f}, from {low:.3f} to {high:.3f} when benchmarks are drawn again.",
        f"- Within {NEAR}: {kinds}.",
        f"- With {readings} as the share of BrowseComp-Plus and WorkBench, the mean loss is {least:.3f} to {most:.3f}.",
        f"- Failures divided by those of one agent: {ratios}.",
        f"- Some team beats one agent that is right in over 45 %: {above}.",
    ]


def with_table(page: str, made: str) -> str:
    """The page with the table in its place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main() -> None:
    """Write the table."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_table(page, table(read_cells())), encoding="utf-8")


if __name__ == "__main__":
    main()
