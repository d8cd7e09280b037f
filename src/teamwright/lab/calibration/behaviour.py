"""Learns the behaviour of members from past runs: the measured time, tokens and failures of their turns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from teamwright.history.kpis import TurnFigures, turns_of
from teamwright.lab.simulation.agents import RIGHT, WRONG, Learnt
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.specs.simulation import Behaviour, Data, Simulation
from teamwright.values.turns.turn import Purpose
from teamwright.values.verdicts import PASSED

MOST_VALUES = 200
"""At most so many values of a distribution are stored, evenly spaced by rank."""
KINDS = {"rate_limit": "rate_limit", "timeout": "timeout"}
"""Failures that a simulation distinguishes; any other one is an `error`."""


@dataclass(slots=True)
class MemberObservations:
    """The observed turns and calls of one member, or of all."""

    turns: dict[Purpose, list[TurnFigures]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[Purpose, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0

    def add(self, turn: TurnFigures, seconds: float) -> None:
        """Add a turn that succeeded."""
        self.turns[turn.purpose].append(turn)
        self.seconds[turn.purpose].append(seconds)

    def simulation(self) -> Simulation:
        """The behaviour that matches the observations; what was not observed stays unset."""
        given: dict[str, object] = dict(self._behaviour("work"))
        for purpose in ("coordinate", "judge"):
            if self.turns[purpose]:
                given[purpose] = Behaviour.model_validate(self._behaviour(purpose))
        if self.calls:
            given |= {kind: self.failures[kind] / self.calls for kind in ("rate_limit", "timeout", "error")}
        if (skill := self._skill()) is not None:
            given["skill"] = skill
        return Simulation.model_validate(given)

    def _skill(self) -> float | None:
        """The share of the work that was right: by the verdicts of evaluators, or in a simulation by its own marks."""
        work = self.turns["work"]
        judged = [turn.verdict in PASSED for turn in work if turn.is_judged]
        if not judged:
            marks = Counter(mark for turn in work for mark in turn.marks)
            judged = [True] * marks[RIGHT] + [False] * marks[WRONG]
        return sum(judged) / len(judged) if judged else None

    def _behaviour(self, purpose: Purpose) -> Mapping[str, object]:
        turns = self.turns[purpose]
        if not turns:
            return {}
        return {
            "latency": from_data(self.seconds[purpose]),
            "input": from_data(turn.usage.input_tokens for turn in turns),
            "output": from_data(turn.usage.output_tokens for turn in turns),
        }


def learn(runs: Iterable[Sequence[Event]]) -> Learnt:
    """Learn the behaviour of members from the records of runs."""
    members: dict[str, MemberObservations] = defaultdict(MemberObservations)
    everybody = MemberObservations()
    for events in runs:
        turns, calls = turns_of(events), fold(events, _CallFold())
        for turn in turns:
            for seen in (members[turn.member], everybody):
                seen.failures.update(calls.failures[turn.key])
                seen.calls += calls.made[turn.key]
                if turn.status == "passed" and turn.ended is not None:
                    seen.add(turn, max(0.0, turn.ended - turn.began - calls.lost[turn.key]))
    known = {name: seen.simulation() for name, seen in sorted(members.items()) if any(seen.turns.values())}
    return Learnt(members=known, everybody=everybody.simulation() if known else None)


def from_data(values: Iterable[float]) -> Data:
    """Values as a distribution, thinned evenly by rank if there are many."""
    ranked = sorted(values)
    if len(ranked) > MOST_VALUES:
        last = len(ranked) - 1
        ranked = [ranked[round(place * last / (MOST_VALUES - 1))] for place in range(MOST_VALUES)]
    return Data(data=tuple(round(value, 6) for value in ranked))


@dataclass(slots=True)
class _CallFold:
    """Folds the calls of each turn: their number, their failures, and the time lost to failures and queues."""

    made: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    lost: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _sent: dict[str, float] = field(default_factory=dict[str, float])

    def apply(self, event: Event) -> None:
        """Apply one event; the scope of an effect is its turn."""
        match event.fact:
            case AgentCalled(effect="model", waited=waited):
                self.made[event.scope] += 1
                self.lost[event.scope] += waited
                self._sent[event.key] = event.time
            case AgentReturned():
                self._sent.pop(event.key, None)
            case AgentCallFailed(error=error, retry_in=again) if event.key in self._sent:
                self.failures[event.scope][KINDS.get(error, "error")] += 1
                self.lost[event.scope] += max(0.0, event.time - self._sent.pop(event.key)) + (again or 0.0)
            case _:
                pass
