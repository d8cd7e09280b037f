"""The report of a soak: counts per strategy and action, durations of stops, and every broken law."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Breach:
    """A law that a run has broken."""

    run_id: str
    law: str

    def __str__(self) -> str:
        return f"{self.run_id}: {self.law}"


@dataclass(slots=True)
class Report:
    """Filled by several threads at once."""

    seed: int
    seconds: float = 0.0
    actions: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """How often each action was taken, per team."""
    statuses: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    stops: list[float] = field(default_factory=list[float])
    breaches: list[Breach] = field(default_factory=list[Breach])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, team: str, action: str) -> None:
        with self._lock:
            self.actions.setdefault(team, Counter())[action] += 1

    def ended(self, team: str, status: str) -> None:
        with self._lock:
            self.statuses.setdefault(team, Counter())[status] += 1

    def stopped(self, seconds: float) -> None:
        with self._lock:
            self.stops.append(seconds)

    def breach(self, run_id: str, *laws: str) -> None:
        with self._lock:
            self.breaches += [Breach(run_id, law) for law in laws]

    @property
    def runs(self) -> int:
        """The number of ended runs."""
        return sum(sum(one.values()) for one in self.statuses.values())

    def table(self) -> str:
        """The counts as text: a line for each team, a column for each action."""
        names = sorted({name for one in self.actions.values() for name in one})
        width = [max(len(name), 4) + 2 for name in names]
        lines = [f"{'team':<15}{'runs':>6}" + "".join(f"{name:>{w}}" for name, w in zip(names, width, strict=True))]
        for team in sorted(self.actions):
            ended = sum(self.statuses.get(team, Counter()).values())
            row = "".join(f"{self.actions[team][name]:>{w}}" for name, w in zip(names, width, strict=True))
            lines.append(f"{team:<15}{ended:>6}{row}")
        every = sum(self.actions.values(), Counter[str]())
        lines.append(
            f"{'all':<15}{self.runs:>6}" + "".join(f"{every[n]:>{w}}" for n, w in zip(names, width, strict=True))
        )
        if self.stops:
            lines.append(f"{len(self.stops)} stops, the slowest took {max(self.stops):.1f} s")
        lines.append(f"{len(self.breaches)} broken laws in {self.runs} runs, {self.seconds:.0f} s")
        return "\n".join(lines)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "runs": self.runs,
            "actions": {team: dict(one) for team, one in self.actions.items()},
            "statuses": {team: dict(one) for team, one in self.statuses.items()},
            "stops": len(self.stops),
            "slowest_stop": round(max(self.stops, default=0.0), 2),
            "breaches": [{"run_id": one.run_id, "law": one.law} for one in self.breaches],
        }
