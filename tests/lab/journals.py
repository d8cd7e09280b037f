"""Journals made with known numbers: runs that took exactly what the topology model says for a profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.lab.topology_model import Evaluation, EvaluationSettings, Topology, TopologyProfile, evaluate_topology
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.events.team import TeamEnded, TeamMessageSent, TeamPlanned, TeamStarted
from teamwright.values.specs.manifest import Manifest, Source, TeamSpec
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Purpose
from teamwright.values.usage_and_prices import Usage


@dataclass(frozen=True)
class Record:
    """The events of one run that follows the model, as an engine records them."""

    run_id: str
    topology: Topology
    profile: TopologyProfile
    settings: EvaluationSettings
    participants: int = 5
    failed: int = 0

    @property
    def told(self) -> Evaluation:
        profile = self.profile._replace(participants=self.participants)
        return evaluate_topology(self.topology, self.settings, {self.topology: profile})

    def write(self, journal: MemoryJournal) -> None:
        """Put the run into a journal."""
        source = self._source()
        body = digest(source)
        facts = list(self._facts(body))
        events = [Event(self.run_id, number, time, *place, fact) for number, (time, place, fact) in enumerate(facts, 1)]
        journal.append(Batch(events, {body: source}), lambda error: None)

    def _source(self) -> str:
        tokens = self.settings.average_tokens
        steps = [{"id": f"s{number}", "execution_tokens": tokens} for number in range(self.settings.tasks)]
        spec = TeamSpec.model_validate({"strategy": self.topology, "members": ["lead"], "options": {"steps": steps}})
        return Source(manifest=Manifest(teams={"t": spec}), team="t").model_dump_json(exclude_unset=True)

    def _facts(self, manifest: str) -> Iterator[tuple[float, tuple[str, str], Fact]]:
        told, settings = self.told, self.settings
        workers = tuple(f"w{number}" for number in range(1, self.participants))
        yield 0.0, ("", ""), RunStarted(team="t", task="x", manifest=manifest, seed=1)
        yield 0.0, ("", "t"), _asked("t", "team")
        began = TeamStarted(
            strategy=self.topology, strategy_version=1, members=("lead", *workers), share=settings.protocol
        )
        yield 0.0, ("t", "event-1"), began
        planned = TeamPlanned(
            topology=self.topology, steps=settings.tasks, rounds=settings.rounds, width=told.parallelism,
            lead="lead", workers=workers,
        )  # fmt: skip
        yield 0.0, ("t", "event-2"), planned
        if told.messages:
            yield 0.0, ("t", "event-3"), TeamMessageSent(by="lead", to=("w1",), round=1, count=told.messages)
            yield from _turn("talk", "lead", "coordinate", told.coordination_tokens, told.p95_latency_s)
        for number, tokens in enumerate(_shared(told.execution_tokens, settings.tasks)):
            worker = workers[number % len(workers)] if workers else "lead"
            failed = number < self.failed
            yield from _turn(f"s{number}", worker, "work", tokens, told.p95_latency_s, failed=failed)
        yield told.p95_latency_s, ("t", "event-4"), TeamEnded(stop_reason="done")
        yield told.p95_latency_s, ("", "t"), AgentReplied()
        yield told.p95_latency_s, ("", ""), _ended(told)


def _ended(told: Evaluation) -> RunEnded:
    used = told.execution_tokens + told.coordination_tokens
    usage = Usage(requests=1, input_tokens=used, cached_tokens=told.cache_savings)
    return RunEnded(status="completed", stop_reason="done", usage=usage, seconds=told.p95_latency_s)


def _turn(
    step: str, member: str, purpose: Purpose, tokens: int, seconds: float, *, failed: bool = False
) -> Iterator[tuple[float, tuple[str, str], Fact]]:
    usage = Usage(requests=1, input_tokens=tokens)
    yield 0.0, (f"t/{step}", "work"), _asked(member, "model", purpose)
    yield seconds, (f"t/{step}/work", "request-1"), AgentReturned(body="x", usage=usage)
    if failed:
        yield seconds, (f"t/{step}", "work"), AgentFailed(member=member, error="refused", message="no", usage=usage)
    else:
        yield seconds, (f"t/{step}", "work"), AgentReplied(usage=usage)


def _asked(member: str, kind: str, purpose: Purpose = "work") -> AgentAsked:
    return AgentAsked(member=member, member_kind=kind, turn=1, task="x", length=0, digest="d", purpose=purpose)


def _shared(tokens: int, tasks: int) -> list[int]:
    """Divide tokens over tasks without a remainder."""
    return [tokens // tasks + (place < tokens % tasks) for place in range(tasks)]
