"""What must hold of every run, however it was disturbed, checked in the journal and the counts of the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL, RunResult
from tests.soak.server import CountingServer
from tests.soak.teams import SoakTeam


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as its journal tells it."""

    result: RunResult
    events: tuple[Event, ...]
    driven: bool
    questions: tuple[str, ...]

    @property
    def own(self) -> Sequence[Event]:
        """The events that are not copied from another run."""
        started = self.events[0].fact
        if not isinstance(started, RunStarted) or started.origin is None:
            return self.events
        resumed = [number for number, event in enumerate(self.events) if event.kind == "run.resumed"]
        return self.events[resumed[0] :] if resumed else ()


async def look(journal: SqliteJournal, run_id: str) -> Seen | None:
    """How a run stands, or nothing where there is no such run."""
    async with Engine(journal) as engine:
        if await journal.find(run_id) is None:
            return None
        history = await engine.runs.history(run_id)
        result = await engine.runs.result(run_id)
        waiting = await engine.runs.answers(run_id)
        asked = tuple(key for key in history.questions() if key not in waiting)
        return Seen(result, tuple(history.events), await journal.is_driven(run_id), asked)


def comparable(result: RunResult, team: SoakTeam) -> dict[str, Any]:
    """The part of a result that must not depend on disturbances."""
    said = [(one.name, one.role, one.content) for one in result.messages]
    return {
        "status": result.status,
        "stop_reason": result.stop_reason,
        "output": None if team.last_wins else result.output,
        "data": result.data,
        "messages": said if team.ordered else sorted(said),
    }


def check_record(seen: Seen) -> list[str]:
    """Breaches of the laws that any record of a run must keep, ended or not."""
    found: list[str] = []
    if [event.number for event in seen.events] != list(range(1, len(seen.events) + 1)):
        found.append("the numbers of events have a gap")
    ends = [event.number for event in seen.events if event.kind == "run.ended"]
    if seen.result.status in FINAL and ends != [seen.events[-1].number]:
        found.append(f"an ended run has run.ended at {ends} of {len(seen.events)} events")
    if seen.result.status not in FINAL and ends:
        found.append(f"a run that is {seen.result.status} has run.ended at {ends}")
    return found + check_effects(seen.own)


def check_effects(events: Sequence[Event]) -> list[str]:
    """An effect whose result is recorded is never called again; a second call is in doubt, or follows a failure."""
    found: list[str] = []
    returned: set[str] = set()
    called: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for event in events:
        match event.fact:
            case AgentCalled() as fact:
                if event.key in returned:
                    found.append(f"{event.key} was called after its result was recorded")
                called[event.key] += 1
                if called[event.key] > 1 + failed[event.key] and not fact.in_doubt:
                    found.append(f"{event.key} was called again, and is not marked as in doubt")
            case AgentReturned():
                returned.add(event.key)
            case AgentCallFailed():
                failed[event.key] += 1
            case _:
                pass
    return found


def check_calls(run_id: str, seen: Seen, server: CountingServer) -> list[str]:
    """No call reached the server more often than it was announced."""
    announced = Counter(event.key for event in seen.own if isinstance(event.fact, AgentCalled))
    found: list[str] = []
    for key, times in announced.items():
        if (made := server.calls(digest(run_id, key))) > times:
            found.append(f"{key} reached the server {made} times and was announced {times} times")
    return found


def model_calls(seen: Seen) -> int:
    """How many requests of model agents a run has announced."""
    facts = [event.fact for event in seen.own if isinstance(event.fact, AgentCalled)]
    return sum(fact.effect == "model" and fact.name != "server" for fact in facts)


def check_limits(seen: Seen, team: SoakTeam) -> list[str]:
    """Check that the spending is within the limit."""
    if team.calls is None:
        return []
    spent = sum(isinstance(event.fact, AgentReturned) for event in seen.events)
    return [f"{spent} calls were made and {team.calls} are allowed"] if spent > team.calls else []
