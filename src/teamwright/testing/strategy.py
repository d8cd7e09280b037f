"""The conformance suite for strategies: subclass `StrategyConformance`, override `make`, and let pytest collect it.

class TestMyStrategy(StrategyConformance):
    def make(self) -> Strategy:
        return MyStrategy()

`check_strategy` runs the same checks in one call. Each failure names the mistake and the fix.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import cast

import anyio

from teamwright.errors import DuplicateKey, InvalidName, MisplacedEffect, NonDeterminism
from teamwright.runtime.engine import Engine
from teamwright.strategies.envelopes import limits_of
from teamwright.strategies.protocol import Members, Settings, Strategy
from teamwright.teams.team import Team
from teamwright.testing.trial import (
    HISTORY,
    INJECTED_ERROR,
    RUN_ID,
    TASK,
    TEAM,
    FakeMember,
    Lines,
    ObservedStrategy,
    StrategyTrial,
    TrialLog,
    TrialScript,
    run_checks,
)
from teamwright.values.names import check_name
from teamwright.values.people import Cancel
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn

FORBIDDEN = {
    "asyncio", "concurrent", "datetime", "multiprocessing", "os", "pathlib", "random", "secrets", "socket",
    "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
"""Modules whose results differ on a replay, or that reach the outside world."""

INSTEAD = {
    "random": "ctx.clock.random()", "secrets": "ctx.clock.new_id()", "uuid": "ctx.clock.new_id()",
    "time": "ctx.clock.now() and ctx.clock.sleep()", "datetime": "ctx.clock.now()", "asyncio": "ctx.branches()",
    "threading": "ctx.branches()", "concurrent": "ctx.branches()", "multiprocessing": "ctx.branches()",
}  # fmt: skip

LONG_ANSWER_END = "the-end-of-a-long-answer"

Check = Callable[[StrategyTrial], Awaitable[None]]


async def check_declaration(trial: StrategyTrial) -> None:
    """Check that it has a name and an integer version, and accepts the suite's settings and members."""
    strategy = trial.make()
    try:
        check_name("strategy", strategy.name)
    except (InvalidName, TypeError) as error:
        raise AssertionError(f"`name` must be a name: {error}") from error
    version = cast("object", strategy.version)
    assert type(version) is int, f"`version` must be an int that grows when the order of asks changes, not {version!r}."
    found = strategy.problems(trial.settings, Members(trial.members(TrialScript()), trial.helpers(TrialScript())))
    assert not found, f"problems() rejects the settings of the suite: {found}; override `settings`."
    assert trial.make() is not strategy, (
        "`make` must return a new strategy on each call, as a resume in a new process does."
    )


async def check_imports(trial: StrategyTrial) -> None:
    """Check that its source uses no module whose results differ on a replay."""
    found = list(_forbidden_names(type(trial.make())))
    assert not found, "A strategy gets time, randomness, ids and tasks only from its context. " + " ".join(found)


def _forbidden_names(made: type) -> Iterator[str]:
    module = inspect.getmodule(made)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(made)))
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and (origin := _forbidden_module(module, node.id)):
            instead = INSTEAD.get(origin)
            yield f"{made.__name__} uses {node.id!r} of {origin!r}{f': use {instead} instead' if instead else ''}."


def _forbidden_module(module: ModuleType | None, name: str) -> str | None:
    """The forbidden module that defines a global name of the strategy's module."""
    value: object = getattr(module, name, None)
    origin = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    top = str(origin).partition(".")[0]
    return top if top in FORBIDDEN else None


async def check_replay(trial: StrategyTrial) -> None:
    """Truncate the record after each event and resume: the result is the same, and no recorded call is repeated."""
    expected, log = await _run(trial, TrialScript(), "runs")
    for number in range(1, len(log.events)):
        recorded = log.returned_effects(number)
        script = TrialScript(return_order=log.returned_effects(), recorded=frozenset(recorded))
        last = log.events[number - 1]
        where = f"Cut after event {number} ({last.kind} at {last.key!r}) and resumed, the strategy"
        try:
            result = await trial.resume(script, log.truncated(number))
        except NonDeterminism as error:
            raise AssertionError(
                f"{where} does something else: the record has {error.recorded}, the strategy now {error.replayed}."
                " Derive keys and decisions from the task and the replies, never from randomness, time, or state that"
                " outlives a run."
            ) from error
        assert _result_of(result) == _result_of(expected), (
            f"{where} returns another result:\n  {_result_of(result)}\nAn uninterrupted run returned\n"
            f"  {_result_of(expected)}"
        )
        assert not set(script.calls) & set(recorded), f"{where} repeats calls whose results are recorded."


def _result_of(result: RunResult) -> tuple[object, ...]:
    messages = tuple((message.name, message.content) for message in result.messages)
    return result.status, result.stop_reason, result.output, messages


async def check_prompts(trial: StrategyTrial) -> None:
    """Check that prompts end with the task, and that the history is passed on, not changed, and not returned."""
    script = TrialScript()
    team = trial.team(script)
    result, _ = await _run(trial, script, "runs", team, HISTORY)
    assert script.asks, "The strategy asked no member."
    if trial.settings.share == "transcript":
        for name, turn in script.asks:
            prompt = turn.prompt.rstrip()
            assert prompt.endswith(TASK) if turn.purpose == "work" else TASK in prompt, (
                f"A member's prompt must end with the task, and that of {name!r} ends with {prompt[-80:]!r}; the prompt"
                " of a coordinator must contain the task anywhere."
            )
    for before, after in cast("ObservedStrategy", team.strategy).histories:
        assert before == after, (
            "The strategy changed the history of its caller; copy it into a TeamConversation instead."
        )
    old = {message.content for message in HISTORY} | {TASK}
    returned = [message.content for message in result.messages if message.content in old]
    assert not returned, f"A run returns only new messages, and this one returned {returned[0]!r} again."


async def check_names(trial: StrategyTrial) -> None:
    """Check that each message carries the name of the member who wrote it."""
    script = TrialScript()
    result, _ = await _run(trial, script, "runs")
    assert result.messages, "The outcome has no messages: return the members' messages, for example `talk.messages`."
    speakers = {message.content: message.name for message in script.replies}
    for message in result.messages:
        name = speakers.get(message.content, message.name)
        assert message.name == name, f"A message of {name!r} carries the name {message.name!r}."
        assert message.name, f"The message {message.content!r} has no name."


async def check_failures(trial: StrategyTrial) -> None:
    """Fail each ask in turn: no prompt or answer contains the error text, and earlier messages are kept."""
    whole = TrialScript()
    await _run(trial, whole, "runs")
    for number in range(1, len(whole.asks) + 1):
        script = TrialScript(fails_at=number)
        result, _ = await _run(trial, script, f"runs while ask {number} fails")
        for name, turn in script.asks:
            assert INJECTED_ERROR not in turn.prompt, (
                f"The prompt of {name!r} contains the error text of another member: never forward a Failure."
            )
        texts = [message.content for message in result.messages] + [result.output or ""]
        assert not any(INJECTED_ERROR in text for text in texts), "The text of a failure became part of the answer."
        _check_kept(script.replies_before, result, f"when ask {number} failed")


def _check_kept(replies: list[Message], result: RunResult, when: str) -> None:
    kept = {message.content for message in result.messages}
    lost = [message for message in replies if message.content not in kept]
    assert not lost, f"A reply of {lost[0].name!r} was lost {when}: an outcome keeps the messages so far."


async def check_cancellation(trial: StrategyTrial) -> None:
    """Cancel before the start: no member is called. Cancel during each ask: the run stops and keeps its messages."""
    await _check_cancelled_before(trial)
    whole = TrialScript()
    await _run(trial, whole, "runs")
    for number in range(1, len(whole.asks) + 1):
        await _check_cancelled_at(trial, number)


async def _check_cancelled_before(trial: StrategyTrial) -> None:
    script = TrialScript()

    async def work() -> RunResult:
        async with Engine("memory") as engine:
            await engine.journal.send(RUN_ID, Cancel())
            return await engine.run(trial.team(script), TASK, run_id=RUN_ID)

    result = await trial.run_within_time(work())
    assert result.status == "cancelled", f"Cancelled before its start, the run ended as {result.status!r}."
    assert not script.calls, "Cancelled before its start, the strategy still called a member."


async def _check_cancelled_at(trial: StrategyTrial, number: int) -> None:
    script = TrialScript(hangs_at=number)

    async def work() -> RunResult:
        async with Engine("memory") as engine:
            handle = await engine.start(trial.team(script), TASK, run_id=RUN_ID)
            await script.hanging.wait()
            await engine.runs.cancel(RUN_ID)
            return await handle.result()

    result = await trial.run_within_time(work())
    assert result.status == "cancelled", (
        f"Cancelled during ask {number}, the run ended as {result.status!r}: a strategy must not swallow cancellation."
    )
    _check_kept(script.replies_before, result, f"when the run was cancelled during ask {number}")


async def check_terminate(trial: StrategyTrial) -> None:
    """Check that the team completes with the turn in which a member terminates, and asks no other member."""
    script = TrialScript(terminates_at=1)
    result, log = await _run(trial, script, "runs while the first member terminates")
    assert result.status in ("completed", "degraded"), f"A member terminated, and the run ended as {result.status!r}."
    ended = next(event.number for event in log.events if getattr(event.fact, "signal", None) == "terminate")
    late = [event.key for event in log.events if event.kind == "agent.asked" and event.number > ended]
    assert not late, f"A member terminated, and {late[0]!r} was asked after that; check `reply.signal`."
    _check_kept(script.replies[:1], result, "when it terminated")


async def check_envelopes(trial: StrategyTrial) -> None:
    """With `share: a2a_lite`, check that no prompt contains another member's full reply, and the result all of them."""
    settings, script = replace(trial.settings, share="a2a_lite"), TrialScript()
    lines = partial(_long_answer, trial.lines, limits_of(settings.envelope).max_summary_chars)
    result, _ = await _run(replace(trial, settings=settings, lines=lines), script, "runs with share: a2a_lite")
    for name, turn in script.asks:
        assert LONG_ANSWER_END not in turn.prompt, (
            f"With share: a2a_lite, the prompt of {name!r} contains the full reply of another member: forward"
            " `reply.messages` and `reply.text`, which are envelopes then; `reply.full` is for decisions and results."
        )
    _check_kept(script.replies, result, "with share: a2a_lite")


def _long_answer(lines: Lines | None, most: int, member: str, turn: Turn) -> str | None:
    """The reply that `lines` gives, else one that is longer than an envelope."""
    text = lines(member, turn) if lines else None
    if text is not None or turn.purpose != "work":
        return text
    return f"{member} answers {turn.digest[:12]} at length: {'and so on ' * (most // 8)}{LONG_ANSWER_END}"


async def check_nesting(trial: StrategyTrial) -> None:
    """Nest teams both ways: usage adds up, and a nested team replies under its own name."""
    script = TrialScript()
    first, *others = trial.members(script)
    inner = Team(
        first.name, members=[FakeMember("inner-1", script), FakeMember("inner-2", script)]
    )  # options may name the first
    members = [inner, *others]
    outer = Team("outer-team", members=[trial.team(script, members), FakeMember("last", script)])
    result, log = await _run(trial, script, "runs with a team as its member", outer)
    assert result.status in ("completed", "degraded"), f"With a team as a member, it ended as {result.status!r}."
    assert {message.name for message in result.messages} <= {TEAM, "last"}, "A nested team replies under its own name."
    effects = sum(event.kind == "agent.returned" for event in log.events)
    assert result.usage.requests == effects, "The usage of nested members does not add up."


async def _run(
    trial: StrategyTrial, script: TrialScript, what: str, team: Team | None = None, history: tuple[Message, ...] = ()
) -> tuple[RunResult, TrialLog]:
    """Run the team; report crashes, duplicate keys and misplaced effects as `AssertionError`."""
    try:
        result, log = await trial.run(script, team, history)
        failure = result.failure
        assert failure is None or failure.error != "crash", f"The strategy {what}, and crashes: {failure.message}"
        return result, log
    except DuplicateKey as error:
        raise AssertionError(f"The strategy {what}, and uses a key twice: {error}") from error
    except MisplacedEffect as error:
        raise AssertionError(f"The strategy {what}, and makes an effect of its own: {error}") from error


CHECKS: tuple[Check, ...] = (
    check_declaration,
    check_imports,
    check_prompts,
    check_names,
    check_replay,
    check_failures,
    check_cancellation,
    check_terminate,
    check_envelopes,
    check_nesting,
)


def check_strategy(
    make: Callable[[], Strategy], settings: Settings | None = None, *, members: int = 3, lines: Lines | None = None
) -> None:
    """Run all checks on a strategy; raises one `AssertionError` that lists every mistake."""
    trial = StrategyTrial(make, settings or Settings(max_turns=2), members, lines=lines)
    run_checks(CHECKS, trial)


class StrategyConformance:
    """The tests of a strategy. Override `settings` and `size` if yours needs other ones.

    If the strategy parses replies, override `lines` to supply them.
    """

    settings: Settings = Settings(max_turns=2)
    size: int = 3

    def make(self) -> Strategy:
        """Return a new strategy on each call."""
        raise NotImplementedError

    def lines(self, member: str, turn: Turn) -> str | None:
        """Return the reply text of a member to a turn, or `None` for the default text."""
        return None

    def check(self, check: Check) -> None:
        """Run one check."""
        anyio.run(check, StrategyTrial(self.make, self.settings, self.size, lines=self.lines))

    def test_it_declares_a_name_and_a_version(self) -> None:
        self.check(check_declaration)

    def test_it_reaches_time_and_chance_only_through_its_context(self) -> None:
        self.check(check_imports)

    def test_the_task_stands_last_and_the_history_is_left_alone(self) -> None:
        self.check(check_prompts)

    def test_messages_carry_the_names_of_who_said_them(self) -> None:
        self.check(check_names)

    def test_it_replays_from_every_point_of_its_record(self) -> None:
        self.check(check_replay)

    def test_a_failure_reaches_nobody_and_loses_nothing(self) -> None:
        self.check(check_failures)

    def test_cancellation_is_honoured(self) -> None:
        self.check(check_cancellation)

    def test_a_member_can_terminate(self) -> None:
        self.check(check_terminate)

    def test_with_envelopes_nobody_is_told_a_transcript(self) -> None:
        self.check(check_envelopes)

    def test_teams_nest_both_ways(self) -> None:
        self.check(check_nesting)
