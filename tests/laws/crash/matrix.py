"""Runs a scenario, kills it, resumes it, and holds what came out against an uninterrupted run."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import anyio

from teamwright.history.record.run_record import RunRecord
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.chat import ChatAnswer, ChatRequest
from teamwright.testing.model_server import ModelServer
from teamwright.values.events.agent import AgentCalled, AgentCallFailed
from teamwright.values.events.event import Event
from teamwright.values.turns.messages import digest
from tests.laws.crash.driver import RUN_ID, When
from tests.laws.crash.nursery import Nursery, Report
from tests.laws.crash.scenarios import MODEL_TURN, SCENARIOS, Scenario, request_number

DRIVE = "tests.laws.crash.driver:drive"


class Stage:
    """The counting server of a scenario, and the journals of its runs. Answers come in the order the scenario says."""

    def __init__(self, name: str, nursery: Nursery, folder: Path) -> None:
        self.name, self._nursery, self._folder = name, nursery, folder
        self.scenario: Scenario = SCENARIOS[name]
        self.server = ModelServer(self._answer)
        self.journal = folder / "none.db"
        self._gone = threading.Event()

    def begin(self, name: str) -> None:
        """The next run gets a journal of its own, and the server counts anew."""
        self.journal = self._folder / f"{name}.db"
        self.server.clear()

    def go_back_to(self, other: Path, name: str) -> None:
        """The next driver gets a copy of another journal as it was left, with what is still in its log."""
        self.begin(name)
        for ending in ("", "-wal"):
            if (part := other.with_name(other.name + ending)).exists():
                copyfile(part, self.journal.with_name(self.journal.name + ending))

    def drive(self, *, resume: bool = False, write: int | None = None, when: When = "before", **more: Any) -> Report:
        """Drive the run in a child, and wait until it has ended or was killed."""
        self._gone = threading.Event()
        try:
            return self._nursery.run(
                DRIVE,
                scenario=self.name,
                url=self.server.call_url,
                journal=str(self.journal),
                resume=resume,
                write=write,
                when=when,
                **more,
            )
        finally:
            self._gone.set()

    def events(self) -> list[Event]:
        """What is recorded; nothing at all when the run was killed before its first write."""

        async def read() -> list[Event]:
            journal = SqliteJournal(self.journal)
            await journal.open()
            try:
                return await journal.read(RUN_ID)
            finally:
                await journal.close()

        return anyio.run(read)

    def counts(self) -> Counter[str]:
        """How often each effect has reached the server, by its idempotency key."""
        return Counter(one.idempotency_key or _model_effect(one) for one in self.server.requests)

    def _answer(self, request: ChatRequest) -> ChatAnswer:
        gone = self._gone
        if request.model in self.scenario.hanging:
            gone.wait()
        elif before := self.scenario.after.get(request.model):
            while not gone.is_set() and not self._is_recorded(before):
                time.sleep(0.002)
        times = sum(one.idempotency_key == request.idempotency_key for one in self.server.requests)
        return self.scenario.answer(request, times)

    def _is_recorded(self, member: str) -> bool:
        """Whether the member's answer is durable: then whoever is answered now comes after it."""
        with closing(sqlite3.connect(self.journal)) as connection:
            asked = "SELECT scope || '/' || place FROM events WHERE kind = 'agent.asked' AND data LIKE ?"
            ended = f"SELECT 1 FROM events WHERE kind = 'agent.replied' AND scope || '/' || place IN ({asked})"
            return connection.execute(ended, (f'%"member":"{member}"%',)).fetchone() is not None


def _model_effect(request: ChatRequest) -> str:
    """A model request carries no idempotency key; what it asks says which effect it is."""
    return digest(RUN_ID, f"{MODEL_TURN}/request-{request_number(request)}")


@contextmanager
def stage(name: str, nursery: Nursery, folder: Path) -> Generator[Stage]:
    """A stage, with its server closed at the end."""
    made = Stage(name, nursery, folder)
    with made.server:
        yield made


@dataclass(frozen=True)
class Before:
    """What stood in the journal when a driver was killed, and what the server had seen by then."""

    recorded: frozenset[str]
    in_doubt: frozenset[str]
    announced: frozenset[str]
    events: tuple[Event, ...]
    counts: Counter[str]

    @classmethod
    def of(cls, made: Stage) -> Before:
        events = made.events()
        past = RunRecord.from_events(events)
        names = _names(past)
        return cls(
            recorded=frozenset(names[key] for key, call in past.calls.items() if call.outcome is not None),
            in_doubt=frozenset(names[key] for key, call in past.calls.items() if call.in_doubt),
            announced=frozenset(names.values()),
            events=tuple(events),
            counts=made.counts(),
        )


def _names(past: RunRecord) -> dict[str, str]:
    """Each effect as the server knows it: by its idempotency key."""
    return {key: digest(RUN_ID, key) for key in past.calls}


def check_calls(made: Stage, before: Before) -> None:
    """After the resume: what was recorded was not repeated, and what was in doubt at most once.

    An effect whose failure is recorded is made once more for each, as its policy says.
    """
    after, events = made.counts(), made.events()
    retries = Counter(digest(RUN_ID, event.key) for event in events if _is_retried(event))
    for effect, count in after.items():
        told = f"the effect {effect} was made {count} times"
        if effect in before.recorded:
            assert count == before.counts[effect] <= 1 + retries[effect], f"{told}, and it is recorded"
        elif effect in before.in_doubt:
            assert count <= 2 + retries[effect], f"{told}, once in doubt and {retries[effect]} times after a failure"
        else:
            assert count == 1 + retries[effect], told
    called: set[str] = set()
    for event in events[len(before.events) :]:
        if isinstance(event.fact, AgentCalled) and event.key not in called:
            called.add(event.key)
            in_doubt = digest(RUN_ID, event.key) in before.in_doubt
            assert event.fact.in_doubt or not in_doubt, f"nobody can see that {event.key} was in doubt"


def _is_retried(event: Event) -> bool:
    return isinstance(event.fact, AgentCallFailed) and event.fact.retry_in is not None


def check_log(made: Stage, before: Before) -> None:
    """After the resume: what was recorded still stands at the beginning, there is no gap, and one ending."""
    after = made.events()
    assert tuple(after[: len(before.events)]) == before.events
    assert [event.number for event in after] == list(range(1, len(after) + 1))
    assert [event.kind for event in after].count("run.ended") == 1
    assert after[-1].kind == "run.ended"


def result_of(report: Report) -> dict[str, Any]:
    """The result that a child told, without the count of its writes."""
    return {key: value for key, value in report.value.items() if key != "writes"}
