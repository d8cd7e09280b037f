"""Teams of every kind whose members ask a provider over HTTP, under limits in tokens and in money.

The need of a run is what the provider counts without a limit. A run is completed if it has that status. It has an
answer if its last reply is whole, and closes the team where the team declares closing asks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, Protocol, cast

from msgspec import structs
from pydantic import JsonValue

from bench.budget_provider import ECONOMY, INPUT, OUTPUT, Provider, Tokenizer, names_of
from bench.budget_teams import OPTIONS, Options
from teamwright import Context, Engine, Limits, ModelAgent, Reply, RunResult, Team, Turn
from teamwright.agents import ServerModel
from teamwright.journal import Journal
from teamwright.strategies.protocol import Members
from teamwright.values.limits import Degradation
from teamwright.values.usage_and_prices import Price

Unit = Literal["tokens", "usd"]
UNITS: tuple[Unit, ...] = ("tokens", "usd")
SHARES = (80, 105, 110, 150)
TASK = "Work out what our guests complain about, and say in plain words what the house should do about it."
INSTRUCTIONS = (
    "You belong to the staff of a small hotel by a lake, and you know its rooms, its kitchen and its guests well. Read"
    " everything that you are given, say what you make of it in plain sentences, name your sources, and never invent a"
    " fact that nobody has told you. Where others have answered, take up what they said and add what is missing."
)


class Kind(NamedTuple):
    """A kind of team: its strategy, its options, and the lengths of its replies in tokens."""

    strategy: str
    options: Callable[[list[str], random.Random], Options]
    lengths: tuple[int, int] = (120, 480)
    instructions: str = INSTRUCTIONS


def _wide(names: list[str], chance: random.Random) -> Options:
    """Sixty short steps and one that reads them all."""
    steps: list[JsonValue] = [{"id": f"s{n}", "agent": names[n % len(names)]} for n in range(60)]
    steps.append({"id": "answer", "agent": names[0], "needs": [f"s{n}" for n in range(60)]})
    return {"steps": steps}, None


def _phases(names: list[str], chance: random.Random) -> Options:
    steps: list[JsonValue] = [{"id": "p1", "agent": names[1]}]
    steps.extend({"id": f"p{n}", "agent": names[n], "needs": [f"p{n - 1}"]} for n in range(2, len(names)))
    return {"steps": steps}, None


def _roles(names: list[str], chance: random.Random) -> Options:
    steps: list[JsonValue] = [{"id": "s0", "role": names[0]}]
    steps.extend({"id": f"s{n}", "role": name, "needs": ["s0"]} for n, name in enumerate(names[1:], start=1))
    steps.append({"id": "answer", "role": names[0], "needs": [f"s{n}" for n in range(1, len(names))]})
    return {"steps": steps}, None


KINDS: Mapping[str, Kind] = {
    **{name: Kind(name, options) for name, options in OPTIONS.items()},
    "splitter": Kind(
        "fan_out", lambda names, chance: ({"splitter": names[0], "answer": names[0], "max_parallel": 4}, None)
    ),
    "dag_61": Kind("dag", _wide, (12, 32), "Answer in one line."),
    "expert": Kind("expert", _roles),
    "planner": Kind("expert", lambda names, chance: ({"planner": "m0", "roles": {name: {} for name in names}}, None)),
    "collaborate": Kind("collaborate", lambda names, chance: ({**_phases(names, chance)[0], "proposals": 0}, None)),
    "live": Kind("live", _phases),
    "nested": Kind("sequential", lambda names, chance: ({}, None)),
}


class ServedMember(ModelAgent):
    """A model agent that tells the provider, by a tag in its task, which answer is due."""

    def __init__(self, name: str, provider: Provider, kind: Kind, strategy: Callable[[], Any], chance: int) -> None:
        self._provider, self._strategy, self._chance = provider, strategy, chance
        model, economy = names_of(provider.tokenizer)
        super().__init__(
            name,
            model=ServerModel(url=provider.url, name=model, price=Price(input=INPUT, output=OUTPUT)),
            economy=ServerModel(
                url=provider.url, name=economy, price=Price(input=ECONOMY * INPUT, output=ECONOMY * OUTPUT)
            ),
            instructions=kind.instructions,
        )
        self.closes, self.whole = False, False

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer a turn."""
        tag = f"{self.name}.{turn.number}.{turn.purpose}"
        example = self._strategy().example_reply(turn)
        properties = (turn.output_schema or {}).get("properties")
        if isinstance(properties, dict) and "chunks" in properties:
            count = random.Random(self._chance).randint(5, 9)
            example = {"chunks": [f"Look at week {number} of the season." for number in range(count)]}
        if isinstance(example, dict) and "synthesis" in example:
            example = {
                **example,
                "synthesis": "The guests say that the rooms are loud and that breakfast ends too early. " * 12,
            }
        if example is not None:
            self._provider.answers[tag] = json.dumps(example)
        reply = await super().respond(structs.replace(turn, task=f"{turn.task}\n[{tag}]"), ctx)
        self.closes, self.whole = turn.closing, not reply.truncated
        last.append(self)
        return reply


last: list[ServedMember] = []
"""The members that have replied, the last one last."""


def layout_of(name: str, seed: int) -> tuple[list[str], dict[str, JsonValue], int | None]:
    """Return the members of a team of this kind, its options, and `max_turns`; they depend on the seed."""
    chance = random.Random(seed)
    names = [f"m{number}" for number in range(1, chance.randint(3, 5) + 1)]
    return names, *KINDS[name].options(names, chance)


def served_team(name: str, seed: int, provider: Provider, limits: Limits | None, degradation: Degradation) -> Team:
    """Return a team of this kind; its size depends on the seed."""
    kind, (names, options, max_turns) = KINDS[name], layout_of(name, seed)
    made: list[Team] = []
    members: list[Any] = [ServedMember(one, provider, kind, lambda: made[-1].strategy, seed) for one in names]
    helpers = [ServedMember("m0", provider, kind, lambda: made[-1].strategy, seed)] if name == "planner" else []
    if name == "nested":
        inner = Team("inner", members=members[1:], strategy="round_robin", max_turns=2)
        members = [members[0], inner, ServedMember("m9", provider, kind, lambda: made[-1].strategy, seed)]
    team = Team(
        "team",
        members=members,
        helpers=helpers,
        strategy=kind.strategy,
        max_turns=max_turns,
        options=options,
        limits=limits,
        degradation=degradation,
    )
    made.append(team)
    return team


def closing_members(team: Team) -> set[str]:
    """Return the names of the members that answer the closing asks of a team."""
    closing = team.strategy.closing(team.settings, Members(team.members, team.helpers))
    return {ask.member for ask in closing}


@dataclass
class Served:
    """One run."""

    result: RunResult
    tokens: int
    usd: float
    answered: bool
    unit: Unit = "tokens"
    limit: float = 0.0

    @property
    def spent(self) -> float:
        """What the provider has billed, in the unit of the limit."""
        return self.tokens if self.unit == "tokens" else self.usd

    @property
    def completed(self) -> bool:
        """Whether the run did all of its work, and nothing was cut or warned about."""
        return self.result.status == "completed"


async def serve(
    name: str,
    seed: int,
    provider: Provider,
    journal: Journal | Path | str = "memory",
    limits: Limits | None = None,
    degradation: Degradation = "auto",
) -> Served:
    """Run a team of this kind once, in an engine of its own."""
    provider.new_run(seed, KINDS[name].lengths)
    last.clear()
    team = served_team(name, seed, provider, limits, degradation)
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK)
    closes = bool(closing_members(team))
    answered = bool(last) and last[-1].whole and bool(result.output)
    if closes and result.stop_reason not in ("done", "max_turns", "terminated"):
        answered = answered and last[-1].closes and result.failure is None
    return Served(result, provider.bill.tokens, provider.bill.usd, answered)


class Run(Protocol):
    """Runs a team of a kind once, here or in a process of its own."""

    async def __call__(
        self, name: str, seed: int, provider: Provider, journal: Path, limits: Limits | None = None
    ) -> Served:
        """Run it with its journal in a file."""
        ...


@dataclass
class Row:
    """The runs of one kind, unit and share."""

    kind: str
    unit: Unit
    share: int
    runs: list[Served] = field(default_factory=list[Served])

    @property
    def completed(self) -> float:
        """The share of runs that did all of their work."""
        return fmean(one.completed for one in self.runs)

    @property
    def answered(self) -> float:
        """The share of runs with an answer."""
        return fmean(one.answered for one in self.runs)

    @property
    def unspent(self) -> float:
        """The share of the limit that is left at the end."""
        return 1 - fmean(one.spent / one.limit for one in self.runs)

    @property
    def overspent(self) -> int:
        """How many runs were billed more than their limit."""
        return sum(one.spent > one.limit * (1 + 1e-9) for one in self.runs)


async def measure_served(
    kinds: Sequence[str],
    seeds: Sequence[int],
    tokenizer: Tokenizer,
    *,
    warm: bool = False,
    units: Sequence[Unit] = UNITS,
    shares: Sequence[int] = SHARES,
    run: Run = serve,
) -> list[Row]:
    """Run each kind with each limit, in a new journal in a file; `warm` means that it has one unrestricted run."""
    rows: list[Row] = []
    with TemporaryDirectory() as folder:
        async with Provider(tokenizer) as provider:
            for name in kinds:
                found = {(unit, share): Row(name, unit, share) for unit in units for share in shares}
                for seed in seeds:
                    free = await run(name, seed, provider, Path(folder) / f"{name}-{seed}.db")
                    assert free.result.status == "completed", (name, free.result)
                    for (unit, share), row in found.items():
                        journal = Path(folder) / f"{name}-{seed}-{unit}-{share}.db"
                        if warm:
                            await run(name, seed + 1000, provider, journal)
                        need = free.tokens if unit == "tokens" else free.usd
                        limit = round(need * share / 100, 0 if unit == "tokens" else 9)
                        served = await run(name, seed, provider, journal, Limits.model_validate({unit: limit}))
                        served.limit, served.unit = limit, cast("Unit", unit)
                        row.runs.append(served)
                rows += found.values()
    return rows


COMPLETED_AT_110, ANSWERED_AT_80 = 0.95, 0.9
"""The goals: the share of runs that do all of their work, and the share with an answer."""


def served_table(rows: Sequence[Row], title: str) -> Iterator[str]:
    """Yield the lines of a table: what was completed and answered, by kind, unit and share of the need."""
    shares = sorted({row.share for row in rows})
    heads = " | ".join(f"{share} %" for share in shares)
    yield f"| {title} | limit | {heads} | unspent at {shares[-1]} % | over |"
    yield "|---|---|" + "---|" * (len(shares) + 2)
    for name in (*dict.fromkeys(row.kind for row in rows), "all"):
        for unit in UNITS:
            own = [row for row in rows if row.unit == unit and name in (row.kind, "all")]
            if not own:
                continue
            cells = [_cell([run for row in own if row.share == share for run in row.runs]) for share in shares]
            unspent = fmean(row.unspent for row in own if row.share == shares[-1])
            over = sum(row.overspent for row in own)
            yield f"| {name} | {unit} | {' | '.join(cells)} | {unspent:.0%} | {over} |"


def _cell(runs: Sequence[Served]) -> str:
    completed, answered = (fmean(getattr(run, name) for run in runs) for name in ("completed", "answered"))
    return f"{completed:.0%}, answer {answered:.0%}"


def missed_served_goals(rows: Sequence[Row], title: str, *, hard: bool) -> list[str]:
    """Return the goals that all kinds together miss; with a `hard` bound, no run may spend more than its limit."""
    missed: list[str] = []
    for unit in UNITS:
        for share, goal, name in ((110, COMPLETED_AT_110, "completed"), (80, ANSWERED_AT_80, "answered")):
            runs = [run for row in rows if (row.unit, row.share) == (unit, share) for run in row.runs]
            if runs and (reached := fmean(getattr(run, name) for run in runs)) < goal:
                missed.append(f"{title}, {unit} at {share} %: {reached:.0%} {name}, goal {goal:.0%}")
    over = sum(row.overspent for row in rows)
    return [*missed, f"{title}: {over} runs over their limits"] if over and hard else missed
