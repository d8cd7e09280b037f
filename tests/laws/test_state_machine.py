"""All laws at once: random teams, driven step by step through answers, failures, crashes, pauses, cancels and forks."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from teamwright.errors import AgentError
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.run import TimerSet
from teamwright.values.limits import Limits
from teamwright.values.people import Cancel, Pause
from teamwright.values.turns.results import FINAL, RunResult
from tests.kit.spans import check_spans
from tests.laws.driven_run import ENDINGS, DrivenRun, repeat_arrivals, workspace_of
from tests.laws.manual_loop import DelayedMemoryJournal, ManualJournal, WatchedSqliteJournal
from tests.laws.pending_calls import CHOICES, HARMLESS, TROUBLE, CallResult, answer_to, error_for, final_answer
from tests.laws.random_teams import TeamSpec, team_specs
from tests.laws.test_every_task_has_a_parent import check_endings
from tests.profiles import is_thorough, sampled

MANY = 1000
MOST_FORKS = 2
LIVELY = 25
OFTEN_YES = (0, 0, 0, 1, 2)
LONG = 70.0
"""Longer than the longest retry-after of a model."""
WHICH = st.integers(0, 5)
DOWNTIME = 1000.0


class Runs(RuleBasedStateMachine):
    """A run, and the rules that drive it."""

    def __init__(self) -> None:
        super().__init__()
        self.driven_run: DrivenRun | None = None
        self.given: dict[tuple[str, int], CallResult | AgentError] = {}
        self.told: list[tuple[str, str]] = []
        self.left: Counter[tuple[str, int]] = Counter()
        self.disturbed = self.changed = self.freed = False
        self.forks = self.tellings = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @initialize(
        spec=team_specs(),
        journal=st.sampled_from(["memory", "memory", "memory", "slow", "sqlite"]),
        luck=st.integers(0, MANY),
    )
    def begin(self, spec: TeamSpec, journal: str, luck: int) -> None:
        self.spec, self.luck = spec, Random(luck)
        self.trouble = self.luck.choice([0.0, 0.1, 0.3])
        made: ManualJournal
        if journal == "sqlite":
            self._folder = tempfile.TemporaryDirectory()
            made = WatchedSqliteJournal(Path(self._folder.name))
        else:
            made = DelayedMemoryJournal(0 if journal == "memory" else 4)
        self.driven_run = DrivenRun(spec, made)
        self.driven_run.start()

    @property
    def now(self) -> DrivenRun:
        assert self.driven_run is not None
        return self.driven_run

    def calls(self) -> list[str]:
        return sorted(self.now.pending.calls)

    @precondition(lambda self: self.calls())
    @rule(which=WHICH, choice=st.integers(0, CHOICES - 1))
    def answer(self, which: int, choice: int) -> None:
        self._answer(which, choice)

    def _answer(self, which: int, choice: int) -> None:
        key = _pick(self.calls(), which)
        self.now.reply(key, answer_to(self.now.pending.calls[key], choice))

    @precondition(lambda self: self.calls())
    @rule(answers=st.lists(st.tuples(WHICH, st.integers(0, CHOICES - 1)), min_size=2, max_size=8))
    def go_on(self, answers: list[tuple[int, int]]) -> None:
        """Answer several calls in sequence."""
        for which, choice in answers:
            if self.calls():
                self._answer(which, choice)

    @precondition(lambda self: self.calls())
    @rule(which=WHICH, choice=st.integers(0, 5))
    def fail(self, which: int, choice: int) -> None:
        key = _pick(self.calls(), which)
        self.now.reply(key, error_for(self.now.pending.calls[key], choice))

    @precondition(lambda self: self.now.questions())
    @rule(which=WHICH, choice=st.integers(0, 2))
    def person_answers(self, which: int, choice: int) -> None:
        key = _pick(self.now.questions(), which)
        self.now.answer(key, choice)

    @rule(seconds=st.sampled_from([0.1, 0.6, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.now.loop.wait(seconds)

    @precondition(lambda self: not self.now.ended)
    @rule(back=st.integers(0, 6))
    def crash(self, back: int) -> None:
        """The driver dies; events that it had not committed are lost, and perhaps the last commits too."""
        self.disturbed = True
        old = self.now
        commit_numbers = [0, *old.journal.commit_numbers(old.run_id)]
        crash_copy = old.journal.crash_copy(old.run_id, commit_numbers[max(0, len(commit_numbers) - 1 - back)])
        self._replace(crash_copy)

    @precondition(lambda self: not self.now.ended)
    @rule()
    def leave(self) -> None:
        """The engine is closed cleanly and opened again."""
        self.disturbed = True
        self._replace(self.now.journal)

    def _replace(self, journal: ManualJournal) -> None:
        old = self.now
        self._close()
        self.driven_run = DrivenRun(self.spec, journal, old.run_id, old.wall + DOWNTIME)
        if not self.driven_run.ended:
            self.driven_run.start()

    @precondition(lambda self: not self.now.is_driven and not self.now.ended)
    @rule()
    def resume(self) -> None:
        self.now.start()

    @precondition(lambda self: self.now.is_driven)
    @rule()
    def pause(self) -> None:
        self.disturbed = True
        self.now.intervene(Pause())

    @precondition(lambda self: not self.now.ended)
    @rule(sure=st.integers(0, 5))
    def cancel(self, sure: int) -> None:
        if not sure:
            self.now.cancel(Cancel(reason="enough"))

    @precondition(lambda self: self.forks < MOST_FORKS and self.now.events())
    @rule(
        at=st.one_of(st.none(), st.just("retry"), *[st.integers(0, MANY)] * 3),
        task=st.sampled_from([None, None, "something else"]),
        free=st.sampled_from([False, False, True]),
    )
    def fork(self, at: int | Literal["retry"] | None, task: str | None, free: bool) -> None:
        """Fork the run at a point, or where it was stopped or failed, and drive the fork.

        With another task most asks are superseded; a `free` fork has no limits for the whole team.
        """
        old = self.now
        if at == "retry" and not old.can_retry:
            return
        self.disturbed, self.changed = True, self.changed or task is not None
        self._close()
        if free:
            self.freed = True
            self.spec = replace(self.spec, settings={**self.spec.settings, "limits": None})
        self.driven_run = DrivenRun(self.spec, old.journal, old.run_id, old.wall + DOWNTIME)
        self.forks += 1
        point = _pick([event.number for event in self.driven_run.events()], at) if isinstance(at, int) else at
        self.driven_run.fork(point, f"fork-{self.forks}", task)

    @precondition(lambda self: self.now.ended and self.tellings < 3)
    @rule(at=st.integers(0, MANY))
    def tell_again(self, at: int) -> None:
        """The same external events in the same order give the same run, from the start or from any commit."""
        self.tellings += 1
        self._repeat_from(_pick([0, *self.now.journal.commit_numbers(self.now.run_id)[:-1]], at))

    def _repeat_from(self, commit_number: int) -> None:
        now, journal = self.now, self.now.journal
        events = now.events()
        if commit_number == 0 and (self.changed or self.freed):
            return
        if not isinstance(journal, DelayedMemoryJournal) or not comparable(
            self.spec, events, disturbed=self.disturbed or commit_number
        ):
            return
        expected = now.do(now.engine.runs.result(now.run_id))
        crash_copy = journal.crash_copy(now.run_id, commit_number, inbox=False)
        again = repeat_arrivals(self.spec, crash_copy, now.run_id, events, {**self.given, **now.pending.answers})
        try:
            assert again.ended, (
                f"from {commit_number}, it waits for {sorted(again.pending.calls)} and {again.questions()}"
            )
            assert said(again.do(again.engine.runs.result(now.run_id))) == said(expected), f"from {commit_number}"
            assert workspace_of(again.events()) == workspace_of(events)
        finally:
            again.close()

    @invariant()
    def the_laws_hold(self) -> None:
        if self.driven_run is None:
            return
        now, events = self.now, self.now.events()
        if not events:
            return
        _ = now.result
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert "run.ended" not in [event.kind for event in events[:-1]]
        for seen in now.followed:
            assert seen[: len(events)] == events[: len(seen)]  # more events may have been published meanwhile
        endings = Counter(event.key for event in events if event.kind in ENDINGS)
        assert not [key for key, count in endings.items() if count > 1]
        assert not now.pending.objections
        check_words([*self.told, *now.pending.prompts])
        if not self.changed:  # else the earlier run paid for the superseded asks
            check_spending(self.spec, events, self.left + now.pending.dispatched)

    def teardown(self) -> None:
        try:
            if self.driven_run is not None:
                self._finish()
                commit_numbers = self.now.journal.commit_numbers(self.now.run_id)[:-1]
                for commit_number in {0, *self.luck.sample(commit_numbers, min(4, len(commit_numbers)))}:
                    self._repeat_from(commit_number)
        finally:
            if self.driven_run is not None:
                self._close()
            if self._folder is not None:
                self._folder.cleanup()

    def _finish(self) -> None:
        """Drive the run to its end from any state."""
        now = self.now
        for step in range(300):
            if now.ended:
                break
            self.the_laws_hold()
            before = len(now.events())
            if not now.is_driven:
                for key in now.questions():
                    now.answer(key, self.luck.choice(OFTEN_YES))
                now.start()
            elif calls := self.calls():
                self._go_on_somehow(calls, lively=step < LIVELY)
            elif questions := now.questions():
                now.answer(questions[0], self.luck.choice(OFTEN_YES))
            else:
                now.loop.wait(LONG)
                assert now.ended or not now.is_driven or now.pending.calls or len(now.events()) > before, (
                    "the run hangs"
                )
        now.loop.wait(0.2)
        self.the_laws_hold()
        self._check_end()

    def _go_on_somehow(self, calls: list[str], *, lively: bool) -> None:
        """Answer a call; after a while only with answers that end the work."""
        call = self.now.pending.calls[self.luck.choice(calls)]
        if not lively:
            self.now.reply(call.key, final_answer(call))
        elif self.luck.random() < self.trouble:
            self.now.reply(call.key, error_for(call, self.luck.randrange(6)))
        else:
            self.now.reply(call.key, answer_to(call, self.luck.choice(HARMLESS)))

    def _check_end(self) -> None:
        now, events = self.now, self.now.events()
        assert now.ended
        check_endings(without_what_gave_way(events) if self.changed else events)
        recorded = now.do(now.engine.runs.result(now.run_id))
        assert recorded.status in FINAL
        assert TROUBLE not in (recorded.output or "")
        assert not [one for one in recorded.messages if TROUBLE in one.content]
        if (told := now.result) is not None and told.status in FINAL:
            assert said(told) == said(recorded)
        for after in range(0, len(events) + 1, 3):
            assert now.do(_follow(now, after)) == events[after:]
        check_spans(events)

    def _close(self) -> None:
        now = self.now
        self.given |= now.pending.answers
        self.told += now.pending.prompts
        self.left += now.pending.dispatched
        now.close()


async def _follow(now: DrivenRun, after: int) -> list[Any]:
    return [item async for item in now.engine.runs.follow(now.run_id, after)]


def _pick(items: list[Any], which: int) -> Any:
    return items[which % len(items)]


def said(result: RunResult) -> tuple[object, ...]:
    """The part of a result that a repetition must reproduce."""
    failure = result.failure and (result.failure.error, result.failure.message)
    return result.status, result.stop_reason, result.output, result.messages, result.data, result.warnings, failure


def comparable(spec: TeamSpec, events: list[Event], *, disturbed: object) -> bool:
    """Whether a repetition must have the same result: not where time or waiting calls decided."""
    napped = any(isinstance(event.fact, TimerSet) for event in events)
    waited = napped or any(isinstance(event.fact, AgentCallFailed) and event.fact.retry_in for event in events)
    if any(event.kind == "run.expired" for event in events) or (spec.has_deadline and waited):
        return False
    if cancelled_while_set_down(events):  # the repetition does not pause there, and gets further
        return False
    return not (disturbed and (spec.has_call_limits or napped))


def cancelled_while_set_down(events: list[Event]) -> bool:
    kinds = [event.kind for event in events if event.kind in ("run.paused", "run.resumed", "run.intervened")]
    return kinds[-2:] == ["run.paused", "run.intervened"]


def without_what_gave_way(events: list[Event]) -> list[Event]:
    """The events without the unfinished asks that a fork superseded, which have no ending."""
    ended = {event.key for event in events if event.kind in ENDINGS}
    begun = next((event.number for event in events if event.kind == "run.resumed"), 0)
    return [one for one in events if one.number > begun or one.kind != "agent.asked" or one.key in ended]


def check_words(told: list[tuple[str, str]]) -> None:
    """Law 5."""
    assert not [(name, words) for name, words in told if TROUBLE in words]


Left = Counter[tuple[str, int]]
"""The number of dispatches per attempt; a plain function has no attempts, so all count as number 0."""


def check_spending(spec: TeamSpec, events: list[Event], left: Left) -> None:
    """Check law 3 at each level that has limits."""
    limits = spec.limits()
    for event in events:
        if isinstance(event.fact, AgentAsked) and event.fact.member in limits:
            check_level(event.key, limits[event.fact.member], events, left.copy())


def check_level(path: str, limit: Limits, events: list[Event], left: Left) -> None:
    held: dict[tuple[str, int], int] = {}
    for event in events:
        if not event.key.startswith(f"{path}/"):
            continue
        match event.fact:
            case AgentCalled() as fact:
                told_apart = (event.key, fact.attempt if (event.key, fact.attempt) in left else 0)
                if left[told_apart] <= 0:  # it was cancelled before its dispatch
                    continue
                left[told_apart] -= 1
                held[event.key, fact.attempt] = fact.reserved
            case AgentReturned() as fact:
                held[event.key, fact.attempt] = fact.usage.total_tokens if fact.usage.requests else 0
            case AgentCallFailed() as fact if not fact.charged:
                held[event.key, fact.attempt] = 0
            case _:
                continue
        assert limit.tokens is None or sum(held.values()) <= limit.tokens, f"{path} at event {event.number}"
        assert limit.calls is None or len(held) <= limit.calls, f"{path} at event {event.number}"


@pytest.mark.timeout(0 if is_thorough() else 300)
def test_the_laws_hold_whatever_happens_to_a_random_team() -> None:
    thorough = is_thorough()
    how = settings(
        max_examples=3000 if thorough else sampled(24, 60),
        stateful_step_count=30 if thorough else 15,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(Runs, settings=how)
