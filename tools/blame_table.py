"""Measures `runs blame`: on teams with a planted fault, and its naming alone on recorded logs of others.

    python -m tools.blame_table --logs FOLDER

prints the tables of docs/teams/evaluation.md. The logs are JSON files with `history` (each with `name` and `content`),
`question`, `mistake_agent` and `mistake_step`, as in the data set Who&When; they are read, and not copied.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from teamwright.lab.experiments.blame import Blame, Fixed, StepText, baseline_member, steps_of, suspects
from teamwright.lab.experiments.dataset import Case, DataSet
from teamwright.lab.experiments.experiment import Experiment
from teamwright.lab.experiments.grades import Judges
from teamwright.runtime.engine import Engine
from tests.lab.experiments.planted_faults import TEAMS, Planted, planted

TRIES, TRIED_STEPS, FIRST = 10, 3, 3


@dataclass(frozen=True)
class Named:
    """For one run: the steps in the order of suspicion, and the guilty one."""

    ranked: Sequence[tuple[str, int]]
    guilty: tuple[str, int]

    def step_within(self, most: int) -> bool:
        return self.guilty[1] in [place for _, place in self.ranked[:most]]

    def member_within(self, most: int) -> bool:
        return self.guilty[0] in list(dict.fromkeys(name for name, _ in self.ranked))[:most]


def ranked(task: str, steps: Sequence[StepText]) -> list[tuple[str, int]]:
    """The steps by suspicion, as members and places."""
    places = {step.key: place for place, step in enumerate(steps)}
    return [(one.member, places[one.key]) for one in suspects(task, steps)]


def most_frequent(_: str, steps: Sequence[StepText]) -> list[tuple[str, int]]:
    """The most frequent speaker: its steps first, from the first on."""
    name = baseline_member(steps)
    own = [(step.member, place) for place, step in enumerate(steps)]
    return sorted(own, key=lambda one: (one[0] != name, one[1]))


def from_first(_: str, steps: Sequence[StepText]) -> list[tuple[str, int]]:
    """The first step, then the second."""
    return [(step.member, place) for place, step in enumerate(steps)]


GUESSES: dict[str, Callable[[str, Sequence[StepText]], list[tuple[str, int]]]] = {
    "named by `runs blame`": ranked,
    "the most frequent speaker": most_frequent,
    "the first step": from_first,
}


async def measure(case: Planted) -> tuple[dict[str, Named], list[Fixed]]:
    """Run a planted team until it goes wrong, name suspects, and fork before each."""
    async with Engine("memory") as engine:
        result, number = await engine.run(case.team, case.task, run_id="bad-0"), 0
        while case.expected in (result.output or ""):
            number += 1
            result = await engine.run(case.team, case.task, run_id=f"bad-{number}")
        history = await engine.runs.history(result.run_id)
        wanted = Case(id="planted", task=case.task, expected=case.expected)
        grader = Judges(case.team.source).team
        experiment = Experiment(engine, DataSet(cases=(wanted,)), (), grader, limit=1)
        blame = Blame(experiment, history, wanted, lambda _: case.team, TRIES)
        await blame.check()
        steps = steps_of(history)
        guilty = (case.guilty, case.place)
        named = {name: Named(guess(case.task, steps), guilty) for name, guess in GUESSES.items()}
        return named, await blame.tried(blame.named()[:TRIED_STEPS])


def planted_table() -> str:
    """The table of the planted faults."""
    rows: dict[str, list[Named]] = {name: [] for name in GUESSES}
    by_fork: list[Named] = []
    fixed = 0
    for number in range(TEAMS):
        case = planted(number)
        named, tried = anyio.run(measure, case)
        for name, one in named.items():
            rows[name].append(one)
        places = {one.name: place for place, one in enumerate(case.team.members)}
        order = [(one.suspect.member, places[one.suspect.member]) for one in tried]
        by_fork.append(Named(order, (case.guilty, case.place)))
        fixed += any(one.fixed for one in tried if one.suspect.member == case.guilty)
    rows = {f"forked before the first {TRIED_STEPS}, {TRIES} times each": by_fork, **rows}
    lines = ["| | step, first | step, of the first 3 |", "|---|---|---|"]
    lines += [f"| {name} | {_share(one, 1)} | {_share(one, FIRST)} |" for name, one in rows.items()]
    return "\n".join([*lines, "", f"fixed by a fork before the guilty step: {fixed} of {TEAMS}"])


def _share(found: Sequence[Named], most: int) -> str:
    return f"{sum(one.step_within(most) for one in found)} of {len(found)}"


def logs_table(folder: Path) -> str:
    """The table of recorded logs: naming alone."""
    rows: dict[str, list[Named]] = {name: [] for name in GUESSES}
    for file in sorted(folder.glob("*.json"), key=lambda one: one.name):
        log = json.loads(file.read_text(encoding="utf-8"))
        steps = list(_steps(log["history"]))
        for name, guess in GUESSES.items():
            guilty = (log["mistake_agent"], int(log["mistake_step"]))
            rows[name].append(Named(guess(log["question"], steps), guilty))
    lines = ["| | agent, first | agent, of the first 3 | step, first | step, of the first 3 |", "|---|---|---|---|---|"]
    for name, found in rows.items():
        agents = [f"{sum(one.member_within(most) for one in found)} of {len(found)}" for most in (1, FIRST)]
        lines.append(f"| {name} | {' | '.join(agents)} | {_share(found, 1)} | {_share(found, FIRST)} |")
    return "\n".join(lines)


def _steps(history: Sequence[dict[str, Any]]) -> Iterable[StepText]:
    for place, one in enumerate(history):
        text = str(one["content"])
        failed = ("code",) if "execution failed" in text else ()
        yield StepText(str(place), str(one.get("name") or one["role"]), text, failed_tools=failed)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path)
    given = parser.parse_args()
    print(planted_table())
    if given.logs is not None:
        print(logs_table(given.logs))


if __name__ == "__main__":
    main()
