"""Runs one team in one topology many times with simulated members, and finds the critical path of each run.

Each run is independent and uses the real engine. Putting a team into another topology keeps its members and its work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import anyio
from pydantic import JsonValue

from teamwright.agents.attachments import Attachment
from teamwright.agents.functions.imports import modules_of
from teamwright.errors import ManifestError, UsageError
from teamwright.history.kpis import Kpis, TurnFigures, kpis_of, turns_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab.simulation.simulated_agents import RIGHT, Simulator, bounded_run
from teamwright.lab.topology_model import Topology
from teamwright.runtime.engine import Engine
from teamwright.strategies.plan.options import ANSWER
from teamwright.strategies.plan.steps.step_options import STEPS
from teamwright.strategies.protocol import Settings
from teamwright.strategies.registry import find_strategy, named_agents, strategy_names
from teamwright.teams.builder import Builder
from teamwright.teams.team import Team
from teamwright.testing.virtual_loop import run_virtually, virtual_now
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded
from teamwright.values.limits import Limits
from teamwright.values.retries import Recovery
from teamwright.values.run_keys import SEPARATOR, key_segments, without_attempts
from teamwright.values.specs.manifest import Source, TeamSpec
from teamwright.values.value import Record

SAME_INSTANT = 1e-6
INSIDE = frozenset(("work", "step"))
"""Last parts of a key that add nothing to the part before them."""


class PathStep(Record, frozen=True):
    """A step on the critical path, and how long it took."""

    step: str
    member: str
    seconds: float


class Bottleneck(Record, frozen=True):
    """The step with the most time on critical paths: its average, its share of all time, and its share of runs."""

    step: str
    member: str
    seconds: float
    share_of_time: float
    share_of_runs: float


class CommonPath(Record, frozen=True):
    """The most common critical path, with average times; `share` is the share of runs that have it."""

    steps: tuple[PathStep, ...]
    share: float


def critical_path(turns: Iterable[TurnFigures]) -> tuple[PathStep, ...]:
    """Walk back from the turn that ended last, each time to the latest turn that ended before that one began."""
    ended = [turn for turn in turns if turn.ended is not None]
    ended.sort(key=lambda turn: (-(turn.ended or 0.0), turn.began))
    path: list[PathStep] = []
    until = float("inf")
    for turn in ended:
        if turn.ended is not None and turn.ended <= until + SAME_INSTANT:
            path.append(PathStep(step=step_name(turn.key), member=turn.member, seconds=turn.ended - turn.began))
            until = turn.began
    return tuple(reversed(path))


def step_name(key: str) -> str:
    """The name of the step that a turn belongs to: its key without the team, attempts and redundant parts."""
    parts = [unquote(part) for part in key_segments(without_attempts(key))[1:]]
    while len(parts) > 1 and parts[-1] in INSIDE:
        parts.pop()
    return SEPARATOR.join(parts) or key


def common_path(paths: Sequence[Sequence[PathStep]]) -> CommonPath:
    """The path that most runs have; the first of equally common ones."""
    names = Counter(tuple((one.step, one.member) for one in path) for path in paths)
    if not names:
        return CommonPath(steps=(), share=0.0)
    most, many = names.most_common(1)[0]
    same = [path for path in paths if tuple((one.step, one.member) for one in path) == most]
    steps = [
        PathStep(step=step, member=member, seconds=round(sum(path[place].seconds for path in same) / many, 2))
        for place, (step, member) in enumerate(most)
    ]
    return CommonPath(steps=tuple(steps), share=round(many / len(paths), 4))


def bottleneck(paths: Sequence[Sequence[PathStep]], seconds: float) -> Bottleneck | None:
    """The step with the most time on critical paths; `seconds` is the total time of all runs."""
    held: Counter[tuple[str, str]] = Counter()
    found_in: Counter[tuple[str, str]] = Counter()
    for path in paths:
        for one in path:
            held[one.step, one.member] += one.seconds  # pyright: ignore[reportArgumentType] - a counter of seconds
        found_in.update({(one.step, one.member) for one in path})
    if not held:
        return None
    place = max(held, key=lambda one: held[one])
    return Bottleneck(
        step=place[0],
        member=place[1],
        seconds=round(held[place] / found_in[place], 2),
        share_of_time=round(held[place] / seconds, 4) if seconds else 0.0,
        share_of_runs=round(found_in[place] / len(paths), 4),
    )


OWN = "as declared"
"""The name of the team as declared, beside the names of topologies."""


def declared_team(source: Source) -> Team:
    """Build the team of a source. No model is called, so no provider key is needed."""
    with modules_of(source.module_folder):
        team = Builder(source.manifest, Path(source.base), roots=source.roots).team(source.team)
    team.declared = source
    return team


class SimulatedRun(Record, frozen=True):
    """The figures of one simulated run; `right` counts the steps that were completed and right.

    `problem` is the run's own message if it did not complete.
    """

    kpis: Kpis
    right: int
    messages: int
    path: tuple[PathStep, ...]
    problem: str = ""


SOME_TASK = "…"
"""The task of a simulation that names none, since a run needs one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A team in one topology with a task and a seed, which can be run many times."""

    team: Team
    task: str
    seed: int
    simulator: Simulator
    limits: Limits | None = None
    files: Sequence[Attachment] = ()

    def runs(self, numbers: Iterable[int]) -> Iterable[SimulatedRun]:
        """Simulate the runs with these numbers; no run depends on another."""
        team = self.simulator.team(self.team)
        for number in numbers:
            yield measure_run(self.events(team, number))

    def events(self, team: Team, number: int) -> list[Event]:
        """Simulate one run of a team with simulated members, and return its record."""
        run_id, seed = f"simulated-{number}", seed_of(self.seed, number)

        async def main() -> list[Event]:
            journal = MemoryJournal()
            with bounded_run() as bound:
                async with Engine(journal, wall=virtual_now, seed=lambda: seed, placement="here") as engine:
                    with anyio.CancelScope() as scope:
                        bound.stop = scope.cancel
                        task, files = self.task or SOME_TASK, self.files
                        await engine.run(team, task, run_id=run_id, limits=self.limits, attachments=files)
            bound.check()
            return await journal.read(run_id)

        return run_virtually(main)


def seed_of(seed: int, number: int) -> int:
    """The seed of the run with this number."""
    return int.from_bytes(blake2b(f"{seed}/{number}".encode(), digest_size=6).digest())


def measure_run(events: Sequence[Event]) -> SimulatedRun:
    """Compute the figures of a simulated run from its record."""
    kpis, turns = kpis_of(events), turns_of(events)
    return SimulatedRun(
        kpis=kpis,
        right=_count_right(turns),
        messages=messages_in(kpis, turns),
        path=critical_path(turns),
        problem=next((fact.message or "" for one in reversed(events) if isinstance(fact := one.fact, RunEnded)), ""),
    )


def messages_in(kpis: Kpis, turns: Iterable[TurnFigures]) -> int:
    """The number of messages between members: as the topology's strategy counts them, else coordination turns."""
    return sum(turn.purpose == "coordinate" for turn in turns) if kpis.messages is None else kpis.messages


def _count_right(turns: Iterable[TurnFigures]) -> int:
    """Count the steps that were completed and right; only the last attempt of a step counts."""
    steps = {without_attempts(turn.key): turn for turn in turns if turn.purpose == "work"}
    return sum(turn.status == "passed" and RIGHT in turn.marks for turn in steps.values())


ONE_AFTER_ANOTHER = frozenset(("sequential", "round_robin"))


def in_topology(team: Team, topology: Topology) -> Team:
    """Return the team with the strategy of a topology, and those of its options that both strategies have.

    Raises `UsageError` with the reason if there is no such strategy or the team does not fit it.
    """
    if topology not in strategy_names():
        raise UsageError(f"there is no strategy {topology!r}")
    if team.strategy.name == topology:
        return team
    strategy = find_strategy(topology)
    known = strategy.options
    options = {name: value for name, value in team.settings.options.items() if known and name in known.model_fields}
    if known and STEPS in known.model_fields and STEPS not in options:
        options[STEPS] = cast("JsonValue", _steps(team))
    if known and options.get(STEPS) and not options.get("roles"):
        options |= _without_own_roles(options)
    settings, recovery = team.settings, team.policy.recovery or Recovery()
    named = {one.name for one in named_agents(strategy, options)}
    try:
        return Team(
            team.name,
            members=team.members,
            helpers=[one for one in team.helpers if one.name in named],
            strategy=strategy,
            description=team.description,
            share=spec_of(team).share,
            envelope=settings.envelope,
            limits=team.policy.limits,
            options=options,
            retry=recovery.retry,
            fallback=team.member_fallback,
            too_long=recovery.too_long,
            degradation=team.degradation,
        )
    except ManifestError as error:
        raise UsageError(f"the team does not fit {topology!r}: {error}") from error


def _without_own_roles(options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return options with steps of members where those of the team have roles named after members: a pool has none.

    A step that is named as the answer of a lead is gives the answer itself.
    """
    steps = cast("list[dict[str, JsonValue]]", options[STEPS])
    named = [
        {**{name: value for name, value in step.items() if name != "role"}, "agent": step["role"]}
        if step.get("role") is not None and step.get("agent") is None
        else step
        for step in steps
    ]
    changed: dict[str, JsonValue] = {STEPS: cast("JsonValue", named)}
    if "answer" not in options and any(step.get("id") == ANSWER for step in steps):
        changed["answer"] = ANSWER
    return changed


def spec_of(team: Team) -> TeamSpec:
    """The team's declaration; for a team made in Python, `share` is left out if it is the strategy's default."""
    declared = team.declared.manifest.teams.get(team.declared.team) if team.declared else None
    explicit = team.settings.share != team.strategy.share
    return declared or (team.spec if explicit else team.spec.model_copy(update={"share": None}))


def average_tokens(steps: Iterable[JsonValue]) -> int | None:
    """The average of the tokens that steps declare; None if no step declares any."""
    tokens = [int(cast("int", one.get("execution_tokens", 0))) for one in steps if isinstance(one, dict)]
    return round(sum(tokens) / len(tokens)) or None if tokens else None


def _steps(team: Team) -> list[dict[str, JsonValue]]:
    """The declared steps, or one step per member for strategies that ask members one after another."""
    settings: Settings = team.settings
    if isinstance(given := settings.options.get(STEPS), Iterable):
        return [dict(cast("dict[str, JsonValue]", step)) for step in given]
    if team.strategy.name not in ONE_AFTER_ANOTHER:
        raise UsageError(f"the steps of {team.name!r} are not known in advance: its strategy is {team.strategy.name!r}")
    steps: list[dict[str, JsonValue]] = []
    for number, member in enumerate(team.members, start=1):
        needs: JsonValue = [f"step-{number - 1}"] if number > 1 else []
        steps.append({"id": f"step-{number}", "agent": member.name, "needs": needs})
    return steps
