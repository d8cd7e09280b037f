"""One run on a manual loop: its calls stay pending, and the test decides what happens next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Coroutine, Iterator, Mapping
from typing import Any, Literal, TypeVar

from teamwright.errors import AgentError, UsageError
from teamwright.history.fork import point_of_retry
from teamwright.history.run_record import RunRecord
from teamwright.runtime.engine import Engine
from teamwright.runtime.handle import Handle
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentReturned, WorkspaceWritten
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.events.run import PersonAnswered, PersonAsked, RunIntervened, TimerFired
from teamwright.values.people import Answered, Cancel, Intervention
from teamwright.values.run_keys import next_attempt
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.laws.manual_loop import DelayedMemoryJournal, ManualJournal, ManualLoop
from tests.laws.pending_calls import PLAIN, CallResult, PendingCalls, person_answer
from tests.laws.random_teams import TeamSpec

T = TypeVar("T")

EPOCH, SEED = 1_000_000.0, 4711
TASK = "play"
ENDINGS = ("agent.replied", "agent.failed")
REST = 1.0
"""Longer than any backoff of a member."""

Answers = Mapping[tuple[str, int], CallResult | AgentError]
"""The results of calls by key and attempt."""


class DrivenRun:
    """An engine with one run. `close` leaves the run as it is and checks that no task is left behind."""

    def __init__(self, spec: TeamSpec, journal: ManualJournal, run_id: str = "r", began: float = EPOCH) -> None:
        self.spec, self.journal, self.run_id = spec, journal, run_id
        self.loop = ManualLoop()
        if not isinstance(journal, DelayedMemoryJournal):
            self.loop.busy = journal.busy
        self.began = began
        self.pending = PendingCalls(self._objection, self._find_ask)
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
        raise AssertionError("the condition never held")

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that depends on no member to its end."""
        task = self.loop.create_task(work)
        self._until(task.done)
        return task.result()

    def start(self) -> None:
        """Start the run, or resume it if it has a record."""
        team = self.spec.team(self.pending)
        if self.events():
            self._drive(self.do(self.engine.start_resume(self.run_id, team=team)))
        else:
            self._drive(self.do(self.engine.start(team, TASK, run_id=self.run_id)))

    def fork(self, at: int | Literal["retry"] | None, new_id: str, task: str | None) -> None:
        """Fork the run at a point, perhaps with another task, and drive the fork from now on."""
        team, retry = self.spec.team(self.pending), at == "retry"
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

    def _listen(self, item: Event | AnyDelta) -> None:
        assert isinstance(item, Event)
        if item.run_id == self.run_id:
            self.published.append(item.number)
            if isinstance(self.journal, DelayedMemoryJournal):
                assert self.journal._logs[self.run_id][-1].number >= item.number, (
                    "it was published before it was durable"
                )

    @property
    def is_driven(self) -> bool:
        """Whether a driver is attached."""
        return self._result is not None and not self._result.done()

    @property
    def result(self) -> RunResult | None:
        """The result once the run has ended or paused; raises what its driver raised."""
        return self._result.result() if self._result is not None and self._result.done() else None

    @property
    def ended(self) -> bool:
        events = self.events()
        return bool(events) and events[-1].kind == "run.ended"

    def events(self) -> list[Event]:
        """The durable events."""
        if isinstance(self.journal, DelayedMemoryJournal):
            return list(self.journal._logs.get(self.run_id, ()))
        return self.do(self.journal.read(self.run_id))

    @property
    def can_retry(self) -> bool:
        """Whether a fork can retry a failed member."""
        history = self.do(self.engine.runs.history(self.run_id))
        try:
            point_of_retry(history)
        except UsageError:
            return False
        return True

    def questions(self) -> list[str]:
        """The keys of open questions."""
        if run := self.engine.driver.live.get(self.run_id):
            return sorted(run.state.questions)
        paused = RunRecord.from_events(self.events()).paused
        return sorted(paused.waiting_for) if paused else []

    def answer(self, key: str, choice: int) -> None:
        """Answer a question with one of the possible answers."""
        asked = [one.fact for one in self.events() if one.key == key and isinstance(one.fact, PersonAsked)]
        self.intervene(Answered(key=key, answer=person_answer(asked[-1].question, choice)))

    def reply(self, key: str, said: CallResult | AgentError) -> None:
        """Complete a pending call."""
        self.pending.answer(self.pending.calls[key], said)
        self.loop.settle()

    def until_fired(self, key: str) -> None:
        """Advance time until a timer has fired."""
        self._until(lambda: any(one.key == key and isinstance(one.fact, TimerFired) for one in self.events()))

    def intervene(self, intervention: Intervention) -> None:
        """Send an intervention to the run and let it react."""
        self.send(intervention)
        self.loop.wait(0.1)

    def repeat_person_answer(self, event: Event) -> None:
        """Send the answer that a person gave in the earlier run."""
        assert isinstance(event.fact, PersonAnswered)
        self.send(Answered(key=event.key, answer=event.fact.answer))

    def repeat_call_result(self, event: Event, given: Answers) -> None:
        """Complete a call with its result in the earlier run."""
        plain = event.kind in ENDINGS
        key, attempt = (f"{event.key}/{PLAIN}", 0) if plain else (event.key, getattr(event.fact, "attempt", 0))
        if key not in self.pending.calls:
            self.loop.wait(REST)
        said = given.get((key, attempt), given.get((key, 0)))
        assert said is not None
        assert key in self.pending.calls, f"{key} is not called; what waits is {sorted(self.pending.calls)}"
        self.reply(key, said)

    def send(self, intervention: Intervention) -> None:
        """Send an intervention to the inbox of the run."""
        self.do(self.journal.send(self.run_id, intervention))

    def cancel(self, cancel: Cancel) -> None:
        """Cancel the run, whether it is driven or paused."""
        if self.is_driven:
            self.intervene(cancel)
        else:
            self.do(self.engine.runs.cancel(self.run_id, cancel.reason))

    def close(self) -> None:
        """Close the engine, and check that no task is left behind."""
        for task in self._tasks:
            task.cancel()
        self.loop.settle()
        self.loop.call_soon(self._leave.set)
        self._until(self._host.done)
        self._host.result()
        if self._result is not None and not self._result.cancelled():
            self._result.exception()  # the journal is closed, so the status can't be read
        left = asyncio.all_tasks(self.loop)
        assert not left, f"tasks were left behind: {left}"
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _find_ask(self, member: str, turn: Turn) -> str:
        """Find the ask that a plain function answers; it must be durable before the function is called."""
        events, found = self._seen_events(), list[str]()
        for event in events:
            if isinstance(event.fact, AgentAsked) and (event.fact.member, event.fact.digest) == (member, turn.digest):
                found.append(event.key)
            elif event.kind in ENDINGS and event.key in found:
                found.remove(event.key)
            elif isinstance(event.fact, AgentReturned) and event.scope in found:
                found.remove(event.scope)  # it has returned, and waits for a person
        asked = {event.key for event in events if isinstance(event.fact, AgentAsked)}
        free = [key for key in found if f"{key}/{PLAIN}" not in self.pending.calls and not _is_superseded(key, asked)]
        task = asyncio.current_task()
        branch = f"{task.get_name()}/" if task else ""
        free = [key for key in free if key.startswith(branch)] or free  # two members may receive the same turn
        return free[0] if free else f"{member}, asked without a record"

    def _seen_events(self) -> list[Event]:
        if isinstance(self.journal, DelayedMemoryJournal):
            return self.journal._logs.get(self.run_id, [])
        return self.journal.now(self.run_id)

    def _objection(self, key: str, attempt: int) -> str | None:
        """Why a call must not be dispatched now: its intent is not durable, or its result is recorded."""
        scope, ended = None, set[str]()
        if key in self.pending.calls:
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
        return f"{key} is made, but {gone} has ended" if gone else None


def _is_superseded(key: str, asked: Collection[str]) -> bool:
    """Whether a fork has superseded an ask or one of its parents."""
    while key:
        if next_attempt(key) in asked:
            return True
        key = key.rpartition("/")[0]
    return False


def arrivals(events: list[Event]) -> Iterator[Event]:
    """The external events in order: returns, answers, interventions, timers, and endings that are returns."""
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


def repeat_arrivals(
    spec: TeamSpec, journal: DelayedMemoryJournal, run_id: str, events: list[Event], given: Answers
) -> DrivenRun:
    """Drive a run from this journal with the remaining external events, in recorded order."""
    made = DrivenRun(spec, journal, run_id, events[-1].time)
    known = len(made.events())
    heard = [one for one in arrivals(events) if one.number <= known]
    left = deque(one for one in arrivals(events) if one.number > known)
    asked = {event.key: event.number for event in events if isinstance(event.fact, PersonAsked)}

    def answered_together(before: Event) -> bool:
        """Whether the next event is an answer that may have been in the inbox with the one before."""
        both = left and isinstance(before.fact, PersonAnswered) and isinstance(left[0].fact, PersonAnswered)
        return bool(both) and asked[left[0].key] < before.number

    while heard and answered_together(heard[-1]):
        heard.append(left.popleft())
        made.repeat_person_answer(heard[-1])
    made.start()
    while left:
        event = left.popleft()
        if not made.is_driven and not made.ended and not isinstance(event.fact, PersonAnswered | RunIntervened):
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
                made.repeat_person_answer(event)
                if not answered_together(event):
                    made.loop.wait(0.1)
                    if not made.is_driven:
                        made.start()
            case _:
                made.repeat_call_result(event, given)
    made.loop.wait(0.2)
    return made


def workspace_of(events: list[Event]) -> dict[str, tuple[str, int]]:
    """The final workspace: hash and version by name."""
    found: dict[str, tuple[str, int]] = {}
    for event in events:
        if isinstance(event.fact, WorkspaceWritten):
            found[event.fact.name] = (event.fact.body, event.fact.revision)
    return found
