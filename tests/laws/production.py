"""One run under a driver on a still loop: its calls wait at the desk, and whoever directs it says what happens next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Coroutine, Iterator, Mapping
from typing import Any, Literal, TypeVar

from teamwright.errors import AgentError, UsageError
from teamwright.history.record.run_record import RunRecord
from teamwright.runtime.engine import Engine
from teamwright.runtime.handle import Handle
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Delta, Event
from teamwright.values.events.person import PersonAnswered, PersonAsked
from teamwright.values.events.run import RunIntervened, TimerFired
from teamwright.values.events.workspace import WorkspaceWritten
from teamwright.values.key import next_attempt
from teamwright.values.people.interventions import Answered, Cancel, Intervention
from teamwright.values.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.laws.desk import PLAIN, Desk, Said, personal_answer
from tests.laws.shapes import Shape
from tests.laws.still import SlowMemory, StillJournal, StillLoop

T = TypeVar("T")

EPOCH, SEED = 1_000_000.0, 4711
TASK = "play"
ENDINGS = ("agent.replied", "agent.failed")
REST = 1.0
"""Longer than a member waits before it tries again."""

Given = Mapping[tuple[str, int], Said | AgentError]
"""What each call was answered, by key and attempt."""


class Production:
    """An engine with one run, which `close` leaves as it stands; then nothing of it may be left behind."""

    def __init__(self, shape: Shape, journal: StillJournal, run_id: str = "r", began: float = EPOCH) -> None:
        self.shape, self.journal, self.run_id = shape, journal, run_id
        self.loop = StillLoop()
        if not isinstance(journal, SlowMemory):
            self.loop.busy = journal.busy
        self.began = began
        self.desk = Desk(self._objection, self._find_ask)
        self.followed: list[list[Event]] = []
        self.published: list[int] = []
        self._leave = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._result: asyncio.Task[RunResult] | None = None
        self._host = self.loop.create_task(self._open())
        self._until(lambda: hasattr(self, "engine"))

    @property
    def wall(self) -> float:
        return self.began + self.loop.time()

    async def _open(self) -> None:
        async with Engine(self.journal, wall=lambda: self.wall, seed=lambda: SEED) as engine:
            with engine.bus.listening(self._listen):
                self.engine = engine
                await self._leave.wait()

    def _until(self, happened: Any) -> None:
        for _ in range(50):
            self.loop.settle()
            if happened():
                return
            self.loop.wait(0.1)
        raise AssertionError("it never happened")

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Let something that waits for no member come to its end."""
        task = self.loop.create_task(work)
        self._until(task.done)
        return task.result()

    def start(self) -> None:
        """Begin the run, or go on with it if there is something of it."""
        team = self.shape.team(self.desk)
        if self.events():
            self._drive(self.do(self.engine.start_resume(self.run_id, team=team)))
        else:
            self._drive(self.do(self.engine.start(team, TASK, run_id=self.run_id)))

    def fork(self, at: int | Literal["retry"] | None, new_id: str, task: str | None) -> None:
        """Begin another run from a point of this one, with another task if there is one, and turn to that."""
        team, retry = self.shape.team(self.desk), at == "retry"
        cut = None if at == "retry" else at
        made = self.engine.start_fork(self.run_id, at=cut, retry=retry, team=team, task=task, new_id=new_id)
        self.run_id = new_id
        self._drive(self.do(made))

    def _drive(self, handle: Handle) -> None:
        self.followed.append([])
        self._result = self.loop.create_task(handle.result())
        self._tasks.append(self.loop.create_task(self._follow(self.followed[-1])))
        self.loop.settle()

    async def _follow(self, seen: list[Event]) -> None:
        async for item in self.engine.runs.follow(self.run_id):
            assert isinstance(item, Event)
            seen.append(item)

    def _listen(self, item: Event | Delta) -> None:
        assert isinstance(item, Event)
        if item.run_id == self.run_id:
            self.published.append(item.number)
            if isinstance(self.journal, SlowMemory):
                assert self.journal._logs[self.run_id][-1].number >= item.number, "it was published too early"

    @property
    def driven(self) -> bool:
        """Whether the run is under way."""
        return self._result is not None and not self._result.done()

    @property
    def result(self) -> RunResult | None:
        """How the run ended or was set down; raises what its driver raised."""
        return self._result.result() if self._result is not None and self._result.done() else None

    @property
    def ended(self) -> bool:
        events = self.events()
        return bool(events) and events[-1].kind == "run.ended"

    def events(self) -> list[Event]:
        """What is durable."""
        if isinstance(self.journal, SlowMemory):
            return list(self.journal._logs.get(self.run_id, ()))
        return self.do(self.journal.read(self.run_id))

    @property
    def retriable(self) -> bool:
        """Whether there is a failed member that a fork can try again."""
        history = self.do(self.engine.runs.history(self.run_id))
        try:
            history.before_failure()
        except UsageError:
            return False
        return True

    def questions(self) -> list[str]:
        """The questions that somebody waits to have answered."""
        if run := self.engine._live.get(self.run_id):
            return sorted(run._state.questions)
        paused = RunRecord.from_events(self.events()).paused
        return sorted(paused.waiting_for) if paused else []

    def answer(self, key: str, choice: int) -> None:
        """Answer a question as a person might."""
        asked = [one.fact for one in self.events() if one.key == key and isinstance(one.fact, PersonAsked)]
        self.tell(Answered(key=key, answer=personal_answer(asked[-1].question, choice)))

    def reply(self, key: str, said: Said | AgentError) -> None:
        """Answer a call that waits at the desk."""
        self.desk.answer(self.desk.calls[key], said)
        self.loop.settle()

    def until_fired(self, key: str) -> None:
        """Let time pass until a timer has fired."""
        self._until(lambda: any(one.key == key and isinstance(one.fact, TimerFired) for one in self.events()))

    def tell(self, intervention: Intervention) -> None:
        """Send something to the run, and give it the time to notice."""
        self.send(intervention)
        self.loop.wait(0.1)

    def send_again(self, event: Event) -> None:
        """Give the answer that a person gave in another telling."""
        assert isinstance(event.fact, PersonAnswered)
        self.send(Answered(key=event.key, answer=event.fact.answer))

    def hear_again(self, event: Event, given: Given) -> None:
        """Answer a call as it was answered in another telling."""
        plain = event.kind in ENDINGS
        key, attempt = (f"{event.key}/{PLAIN}", 0) if plain else (event.key, getattr(event.fact, "attempt", 0))
        if key not in self.desk.calls:
            self.loop.wait(REST)
        said = given.get((key, attempt), given.get((key, 0)))
        assert said is not None
        assert key in self.desk.calls, f"{key} is not called; what waits is {sorted(self.desk.calls)}"
        self.reply(key, said)

    def send(self, intervention: Intervention) -> None:
        """Put something into the inbox of the run."""
        self.do(self.journal.send(self.run_id, intervention))

    def cancel(self, cancel: Cancel) -> None:
        """End the run, whether it is under way or set down."""
        if self.driven:
            self.tell(cancel)
        else:
            self.do(self.engine.runs.cancel(self.run_id, cancel.reason))

    def close(self) -> None:
        """Leave the run; nothing of it may be left behind."""
        for task in self._tasks:
            task.cancel()
        self.loop.settle()
        self.loop.call_soon(self._leave.set)
        self._until(self._host.done)
        self._host.result()
        if self._result is not None and not self._result.cancelled():
            self._result.exception()  # the journal is closed, so how it stands can't be told any more
        left = asyncio.all_tasks(self.loop)
        assert not left, f"tasks were left behind: {left}"
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _find_ask(self, member: str, turn: Turn) -> str:
        """The ask that a plain function answers: it must be durable before the function is called."""
        events, found = self._seen_events(), list[str]()
        for event in events:
            if isinstance(event.fact, AgentAsked) and (event.fact.member, event.fact.digest) == (member, turn.digest):
                found.append(event.key)
            elif event.kind in ENDINGS and event.key in found:
                found.remove(event.key)
            elif isinstance(event.fact, AgentReturned) and event.scope in found:
                found.remove(event.scope)  # it has answered already, and waits for a person
        asked = {event.key for event in events if isinstance(event.fact, AgentAsked)}
        free = [key for key in found if f"{key}/{PLAIN}" not in self.desk.calls and not _gave_way(key, asked)]
        task = asyncio.current_task()
        branch = f"{task.get_name()}/" if task else ""
        free = [key for key in free if key.startswith(branch)] or free  # two may be told the same
        return free[0] if free else f"{member}, asked without a record"

    def _seen_events(self) -> list[Event]:
        if isinstance(self.journal, SlowMemory):
            return self.journal._logs.get(self.run_id, [])
        return self.journal.now(self.run_id)

    def _objection(self, key: str, attempt: int) -> str | None:
        """Why a call may not leave now: its intent is not durable, or something that makes it needless is recorded."""
        scope, ended = None, set[str]()
        if key in self.desk.calls:
            return f"{key} is made while it is under way"
        for event in self._seen_events():
            fact = event.fact
            if event.kind in ENDINGS:
                ended.add(event.key)
            elif isinstance(fact, AgentAsked) and fact.called and key == f"{event.key}/{PLAIN}":
                scope = event.key
            elif event.key == key and isinstance(fact, AgentCalled) and attempt in (0, fact.attempt):
                scope = event.scope
            elif event.key == key and isinstance(fact, AgentReturned):
                return f"{key} is made again, and what it returned is recorded"
            elif event.key == key and isinstance(fact, AgentCallFailed) and fact.retry_in is None:
                return f"{key} is made again, and it was given up"
        if scope is None:
            return f"{key} is made before its intent is durable"
        gone = [one for one in ended if scope == one or scope.startswith(f"{one}/")]
        # What an ask that failed is summarised for has the key of that ask before its own, and is no part of it.
        return f"{key} is made, but {gone} has ended" if gone and "/summary-" not in scope else None


def _gave_way(key: str, asked: Collection[str]) -> bool:
    """Whether an ask, or one around it, was asked anew by a fork."""
    while key:
        if next_attempt(key) in asked:
            return True
        key = key.rpartition("/")[0]
    return False


def arrivals(events: list[Event]) -> Iterator[Event]:
    """What came from outside, in order: returns, answers, interventions, timers, and endings that are returns too."""
    called = {event.key for event in events if isinstance(event.fact, AgentAsked) and event.fact.called}
    told = {event.key for event in events if isinstance(event.fact, AgentReturned | AgentCallFailed)}
    for event in events:
        match event.fact:
            case AgentReturned() | AgentCallFailed() | PersonAnswered() | RunIntervened() | TimerFired():
                yield event
            case _:
                stopped = getattr(event.fact, "error", "") == "cancelled"
                unheard = event.key in called and f"{event.key}/{PLAIN}" not in told
                if event.kind in ENDINGS and unheard and not stopped:
                    yield event


def retell(shape: Shape, journal: SlowMemory, run_id: str, events: list[Event], given: Given) -> Production:
    """Let a run that begins with this journal hear what else came from outside, in that order and nothing more."""
    made = Production(shape, journal, run_id, events[-1].time)
    known = len(made.events())
    heard = [one for one in arrivals(events) if one.number <= known]
    left = deque(one for one in arrivals(events) if one.number > known)
    asked = {event.key: event.number for event in events if isinstance(event.fact, PersonAsked)}

    def answered_together(before: Event) -> bool:
        """Whether what comes next is an answer that may have been there already when the one before was heard."""
        both = left and isinstance(before.fact, PersonAnswered) and isinstance(left[0].fact, PersonAnswered)
        return bool(both) and asked[left[0].key] < before.number

    while heard and answered_together(heard[-1]):
        heard.append(left.popleft())
        made.send_again(heard[-1])
    made.start()
    while left:
        event = left.popleft()
        if not made.driven and not made.ended and not isinstance(event.fact, PersonAnswered | RunIntervened):
            made.start()
        match event.fact:
            case RunIntervened(intervention=Cancel() as cancel):
                made.cancel(cancel)
            case RunIntervened():
                pass
            case TimerFired():
                made.until_fired(event.key)
            case PersonAnswered():
                assert event.key in made.questions(), f"nobody asks a person at {event.key}"
                made.send_again(event)
                if not answered_together(event):
                    made.loop.wait(0.1)
                    if not made.driven:
                        made.start()
            case _:
                made.hear_again(event, given)
    made.loop.wait(0.2)
    return made


def workspace_of(events: list[Event]) -> dict[str, tuple[str, int]]:
    """The shared values as they were left."""
    found: dict[str, tuple[str, int]] = {}
    for event in events:
        if isinstance(event.fact, WorkspaceWritten):
            found[event.fact.name] = (event.fact.body, event.fact.revision)
    return found
