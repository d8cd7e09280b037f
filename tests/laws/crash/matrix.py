"""Runs a scenario, kills it, resumes it, and compares the result with that of an uninterrupted run."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import anyio
import psycopg

from teamwright.history.run_record import RunRecord
from teamwright.journal.location import resolve_journal
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.testing.model_server import ChatAnswer, ChatRequest, ModelServer
from teamwright.values.events.agent import AgentCalled, AgentCallFailed
from teamwright.values.events.event import Event
from teamwright.values.turns.messages import digest
from tests.kit.killing_journal import When
from tests.kit.postgres import schema_url
from tests.laws.crash.driver import RUN_ID
from tests.laws.crash.fork_server import ForkServer, JobResult
from tests.laws.crash.scenarios import MODEL_TURN, SCENARIOS, Scenario, request_number

DRIVE = "tests.laws.crash.driver:drive"


class ScenarioRuns:
    """The counting server of a scenario and the journals of its runs. The scenario decides the order of answers.

    The journals are files in a folder or, with a Postgres server, schemas of its database.
    """

    def __init__(self, name: str, fork_server: ForkServer, folder: Path, postgres: str = "") -> None:
        self.name, self._fork_server, self._folder, self._postgres = name, fork_server, folder, postgres
        self.scenario: Scenario = SCENARIOS[name]
        self.server = ModelServer(self._answer)
        self.journal = folder / "none.db"
        self._gone = threading.Event()

    def begin(self, name: str) -> None:
        """Use a new journal for the next run, and reset the counts of the server."""
        self.journal = self._folder / f"{name}.db"
        self.server.clear()

    def go_back_to(self, other: Path, name: str) -> None:
        """Use a copy of another journal, with its write-ahead log, for the next driver."""
        self.begin(name)
        for ending in ("", "-wal"):
            if (part := other.with_name(other.name + ending)).exists():
                copyfile(part, self.journal.with_name(self.journal.name + ending))

    @property
    def address(self) -> str:
        """The path or the URL of the journal."""
        return schema_url(self._postgres, self.journal) if self._postgres else str(self.journal)

    def drive(self, *, resume: bool = False, write: int | None = None, when: When = "before", **more: Any) -> JobResult:
        """Drive the run in a child, and wait until the child ends or is killed."""
        self._gone = threading.Event()
        try:
            return self._fork_server.run(
                DRIVE,
                scenario=self.name,
                url=self.server.call_url,
                journal=self.address,
                resume=resume,
                write=write,
                when=when,
                **more,
            )
        finally:
            self._gone.set()

    def events(self) -> list[Event]:
        """The recorded events; none if the run was killed before its first write."""

        async def read() -> list[Event]:
            journal = resolve_journal(self.address)
            await journal.open()
            try:
                return await journal.read(RUN_ID)
            finally:
                await journal.close()

        return anyio.run(read)

    def counts(self) -> Counter[str]:
        """The number of requests per effect, by idempotency key."""
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
        """Whether the member's reply is durable, so that a later answer is recorded after it."""
        name = f'%"member":"{member}"%'
        asked = f"SELECT scope || '/' || place FROM events WHERE kind = 'agent.asked' AND data LIKE '{name}'"
        ended = f"SELECT 1 FROM events WHERE kind = 'agent.replied' AND scope || '/' || place IN ({asked})"
        if self._postgres:
            schema = DatabaseAddress.parse(self.address).schema
            with psycopg.connect(self._postgres, options=f"-csearch_path={schema}") as database:
                return database.execute(ended.encode()).fetchone() is not None
        with closing(sqlite3.connect(self.journal)) as connection:
            return connection.execute(ended).fetchone() is not None


def _model_effect(request: ChatRequest) -> str:
    """Identify a model request by its content, because it carries no idempotency key."""
    return digest(RUN_ID, f"{MODEL_TURN}/request-{request_number(request)}")


@contextmanager
def open_scenario(name: str, fork_server: ForkServer, folder: Path, postgres: str = "") -> Generator[ScenarioRuns]:
    """Open a scenario, and close its server at the end."""
    made = ScenarioRuns(name, fork_server, folder, postgres)
    with made.server:
        yield made


@dataclass(frozen=True)
class StateAtKill:
    """The journal when a driver was killed, and the requests that the server had received."""

    recorded: frozenset[str]
    in_doubt: frozenset[str]
    announced: frozenset[str]
    events: tuple[Event, ...]
    counts: Counter[str]

    @classmethod
    def of(cls, made: ScenarioRuns) -> StateAtKill:
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
    """The idempotency key of each effect."""
    return {key: digest(RUN_ID, key) for key in past.calls}


def check_calls(made: ScenarioRuns, before: StateAtKill, events: Sequence[Event]) -> None:
    """Check that no recorded effect was repeated after the resume, and effects in doubt at most once.

    `events` are those after the resume. An effect with a recorded failure is retried as its policy says.
    """
    after = made.counts()
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
            assert event.fact.in_doubt or not in_doubt, f"{event.key} was in doubt, and the record does not say so"


def _is_retried(event: Event) -> bool:
    return isinstance(event.fact, AgentCallFailed) and event.fact.retry_in is not None


def check_log(before: StateAtKill, after: Sequence[Event]) -> None:
    """Check that the log after the resume begins with the recorded events, has no gap, and has one ending."""
    assert tuple(after[: len(before.events)]) == before.events
    assert [event.number for event in after] == list(range(1, len(after) + 1))
    assert [event.kind for event in after].count("run.ended") == 1
    assert after[-1].kind == "run.ended"
    started, ended = ([event.scope for event in after if event.kind == f"team.{kind}"] for kind in ("started", "ended"))
    assert sorted(started) == sorted(ended), "each team has one ending"


def result_of(report: JobResult) -> dict[str, Any]:
    """The result of a child without the number of its writes."""
    return {key: value for key, value in report.value.items() if key != "writes"}
