"""What every strategy must do, as tests: subclass `StrategyConformance`, say how yours is made, let pytest collect it.

class TestMyStrategy(StrategyConformance):
    def make(self) -> Strategy:
        return MyStrategy()

`check_strategy` does the same in one call. Each check names what went wrong and what to do instead.
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

from teamwright.errors import DuplicateKey, InvalidName, MisplacedEffect, NonDeterminism, TeamwrightError
from teamwright.runtime.engine import Engine
from teamwright.strategies.contract import problems_of
from teamwright.strategies.envelopes.context import policy_of
from teamwright.strategies.protocol import Members, Settings, StrategyLike
from teamwright.teams.team import Team
from teamwright.testing.strategy_trial import (
    HISTORY,
    RUN_ID,
    TASK,
    TEAM,
    TROUBLE,
    Lines,
    Log,
    Player,
    Plot,
    Rehearsal,
    Watched,
)
from teamwright.values.messages import Message
from teamwright.values.names import check_name
from teamwright.values.people import Cancel
from teamwright.values.results import RunResult
from teamwright.values.turns import Turn

FORBIDDEN = {
    "asyncio", "concurrent", "datetime", "multiprocessing", "os", "pathlib", "random", "secrets", "socket",
    "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
"""What gives another answer on a replay, or touches the world."""

INSTEAD = {
    "random": "ctx.clock.random()", "secrets": "ctx.clock.new_id()", "uuid": "ctx.clock.new_id()",
    "time": "ctx.clock.now() and ctx.clock.sleep()", "datetime": "ctx.clock.now()", "asyncio": "ctx.branches()",
    "threading": "ctx.branches()", "concurrent": "ctx.branches()", "multiprocessing": "ctx.branches()",
}  # fmt: skip

AT_LENGTH = "the-end-of-a-long-answer"

Check = Callable[[Rehearsal], Awaitable[None]]


async def check_declaration(trial: Rehearsal) -> None:
    """It has a name, a version that is a number, and nothing against the members it is tried with."""
    strategy = trial.make()
    try:
        check_name("strategy", strategy.name)
    except (InvalidName, TypeError) as error:
        raise AssertionError(f"`name` must be a name: {error}") from error
    version = cast("object", strategy.version)
    assert type(version) is int, f"`version` must be an int that grows when the order of asks changes, not {version!r}."
    found = problems_of(strategy, trial.settings, Members(trial.members(Plot()), trial.helpers(Plot())))
    assert not found, f"problems() refuses the settings it is tried with: {found}; give others to the suite."
    assert trial.make() is not strategy, "`make` must give a new strategy each time, as a resume in a new process does."


async def check_imports(trial: Rehearsal) -> None:
    """As far as can be seen, it uses nothing that gives another answer on a replay."""
    found = list(_forbidden_names(type(trial.make())))
    assert not found, "A strategy reaches time, chance, ids and tasks only through its context. " + " ".join(found)


def _forbidden_names(made: type) -> Iterator[str]:
    module = inspect.getmodule(made)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(made)))
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and (home := _home(module, node.id)):
            instead = INSTEAD.get(home)
            yield f"{made.__name__} uses {node.id!r} of {home!r}{f': use {instead} instead' if instead else ''}."


def _home(module: ModuleType | None, name: str) -> str | None:
    """The forbidden module that a global name of the strategy's module comes from."""
    value: object = getattr(module, name, None)
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    top = str(home).partition(".")[0]
    return top if top in FORBIDDEN else None


async def check_replay(trial: Rehearsal) -> None:
    """Cut after each event and resumed, it comes to the same end and repeats nothing."""
    expected, log = await _run(trial, Plot(), "runs")
    for number in range(1, len(log.events)):
        plot = Plot(order=log.came_back(), recorded=frozenset(log.came_back(number)))
        cut = log.events[number - 1]
        where = f"Cut after event {number} ({cut.kind} at {cut.key!r}) and resumed, the strategy"
        try:
            result = await trial.resume(plot, log.cut(number))
        except NonDeterminism as error:
            raise AssertionError(
                f"{where} does something else: the record says {error.recorded}, the strategy now {error.replayed}."
                " Keys and decisions must come from the task and from replies, never from chance, time, or anything"
                " that outlives a run."
            ) from error
        assert _said(result) == _said(expected), (
            f"{where} comes to another end:\n  {_said(result)}\nwhere an uninterrupted run came to\n  {_said(expected)}"
        )
        again = set(plot.called) & set(log.came_back(number))
        assert not again, f"{where} calls members again whose answers are recorded."


def _said(result: RunResult) -> tuple[object, ...]:
    messages = tuple((message.name, message.content) for message in result.messages)
    return result.status, result.stop_reason, result.output, messages


async def check_telling(trial: Rehearsal) -> None:
    """The task stands last in what a member is told; the history is passed on, left alone, and not returned."""
    plot = Plot()
    team = trial.team(plot)
    result, _ = await _run(trial, plot, "runs", team, HISTORY)
    assert plot.asked, "The strategy asked nobody."
    if trial.settings.share == "transcript":
        for name, turn in plot.asked:
            told = turn.prompt.rstrip()
            assert told.endswith(TASK) if turn.purpose == "work" else TASK in told, (
                f"The task must stand last in what a member is told, and {name!r} was told {told[-80:]!r};"
                " whoever coordinates is told it too, at any place."
            )
    for before, after in cast("Watched", team.strategy).histories:
        assert before == after, "The strategy changed the history that its caller gave it; make a Talk of it instead."
    old = {message.content for message in HISTORY} | {TASK}
    returned = [message.content for message in result.messages if message.content in old]
    assert not returned, f"A run returns only what is new, and this one returned {returned[0]!r} again."


async def check_names(trial: Rehearsal) -> None:
    """Whatever a member said stands under its own name."""
    plot = Plot()
    result, _ = await _run(trial, plot, "runs")
    assert result.messages, "The outcome has no messages: return what members said, `talk.messages` for example."
    speakers = {message.content: message.name for message in plot.said}
    for message in result.messages:
        name = speakers.get(message.content, message.name)
        assert message.name == name, f"What {name!r} said stands under the name {message.name!r}."
        assert message.name, f"The message {message.content!r} has no name."


async def check_failures(trial: Rehearsal) -> None:
    """Whoever fails, the words of the failure reach nobody, and what was said before is kept."""
    whole = Plot()
    await _run(trial, whole, "runs")
    for number in range(1, len(whole.asked) + 1):
        plot = Plot(fails_at=number)
        result, _ = await _run(trial, plot, f"runs while ask {number} fails")
        for name, turn in plot.asked:
            assert TROUBLE not in turn.prompt, (
                f"{name!r} was told the words of another member's failure: a Failure is no Reply, so never pass it on."
            )
        told = [message.content for message in result.messages] + [result.output or ""]
        assert not any(TROUBLE in text for text in told), "The words of a failure became part of the answer."
        _check_kept(plot.before, result, f"when ask {number} failed")


def _check_kept(said: list[Message], result: RunResult, when: str) -> None:
    """Whatever ends a run, the words of its members are not lost."""
    kept = {message.content for message in result.messages}
    lost = [message for message in said if message.content not in kept]
    assert not lost, f"What {lost[0].name!r} had said was lost {when}: an outcome keeps the messages so far."


async def check_cancellation(trial: Rehearsal) -> None:
    """Cancelled before its start it asks nobody; cancelled in the middle it stops and keeps what was said."""
    await _check_cancelled_before(trial)
    whole = Plot()
    await _run(trial, whole, "runs")
    for number in range(1, len(whole.asked) + 1):
        await _check_cancelled_at(trial, number)


async def _check_cancelled_before(trial: Rehearsal) -> None:
    plot = Plot()

    async def work() -> RunResult:
        async with Engine("memory") as engine:
            await engine.journal.send(RUN_ID, Cancel())
            return await engine.run(trial.team(plot), TASK, run_id=RUN_ID)

    result = await trial.in_time(work())
    assert result.status == "cancelled", f"Cancelled before its start, the run ended as {result.status!r}."
    assert not plot.called, "Cancelled before its start, the strategy still called somebody."


async def _check_cancelled_at(trial: Rehearsal, number: int) -> None:
    plot = Plot(hangs_at=number)

    async def work() -> RunResult:
        async with Engine("memory") as engine:
            handle = await engine.start(trial.team(plot), TASK, run_id=RUN_ID)
            await plot.hanging.wait()
            await engine.runs.cancel(RUN_ID)
            return await handle.result()

    result = await trial.in_time(work())
    assert result.status == "cancelled", (
        f"Cancelled during ask {number}, the run ended as {result.status!r}: a strategy must not swallow cancellation."
    )
    _check_kept(plot.before, result, f"when the run was cancelled during ask {number}")


async def check_terminate(trial: Rehearsal) -> None:
    """When a member terminates, the team ends well, with that turn, and nobody else is asked."""
    plot = Plot(terminates_at=1)
    result, log = await _run(trial, plot, "runs while the first member terminates")
    assert result.status in ("completed", "degraded"), f"A member terminated, and the run ended as {result.status!r}."
    ended = next(event.number for event in log.events if getattr(event.fact, "signal", None) == "terminate")
    late = [event.key for event in log.events if event.kind == "agent.asked" and event.number > ended]
    assert not late, f"A member terminated, and {late[0]!r} was asked after that; look at `reply.signal`."
    _check_kept(plot.said[:1], result, "when it terminated")


async def check_handoffs(trial: Rehearsal) -> None:
    """With `share: a2a_lite` nobody is told what another said at length, and the result still holds all of it."""
    settings, plot = replace(trial.settings, share="a2a_lite"), Plot()
    lines = partial(_at_length, trial.lines, policy_of(settings.handoff).max_summary_chars)
    result, _ = await _run(replace(trial, settings=settings, lines=lines), plot, "runs with share: a2a_lite")
    for name, turn in plot.asked:
        assert AT_LENGTH not in turn.prompt, (
            f"{name!r} was told what another member said at length, with share: a2a_lite: pass on `reply.messages` and"
            " `reply.text`, which are envelopes then, and use `reply.full` for decisions and results alone."
        )
    _check_kept(plot.said, result, "with share: a2a_lite")


def _at_length(lines: Lines | None, most: int, member: str, turn: Turn) -> str | None:
    """What a member says anyhow, or else more than an envelope holds."""
    said = lines(member, turn) if lines else None
    if said is not None or turn.purpose != "work":
        return said
    return f"{member} answers {turn.digest[:12]} at length: {'and so on ' * (most // 8)}{AT_LENGTH}"


async def check_nesting(trial: Rehearsal) -> None:
    """A team may be a member, and the strategy's own team may be one; usage rolls up and names stay apart."""
    plot = Plot()
    first, *others = trial.members(plot)
    inner = Team(first.name, members=[Player("inner-1", plot), Player("inner-2", plot)])  # options may name the first
    members = [inner, *others]
    outer = Team("outer-team", members=[trial.team(plot, members), Player("last", plot)])
    result, log = await _run(trial, plot, "runs with a team as its member", outer)
    assert result.status in ("completed", "degraded"), f"With a team as a member, it ended as {result.status!r}."
    assert {message.name for message in result.messages} <= {TEAM, "last"}, "A nested team speaks under its own name."
    effects = sum(event.kind == "agent.returned" for event in log.events)
    assert result.usage.requests == effects, "The usage of nested members does not add up."


async def _run(
    trial: Rehearsal, plot: Plot, what: str, team: Team | None = None, history: tuple[Message, ...] = ()
) -> tuple[RunResult, Log]:
    """Run it, with mistakes in its keys and doors in words."""
    try:
        result, log = await trial.run(plot, team, history)
        failure = result.failure
        assert failure is None or failure.error != "crash", f"The strategy {what}, and crashes: {failure.message}"
        return result, log
    except DuplicateKey as error:
        raise AssertionError(f"The strategy {what}, and uses a key twice: {error}") from error
    except MisplacedEffect as error:
        raise AssertionError(f"The strategy {what}, and touches the world itself: {error}") from error


CHECKS: tuple[Check, ...] = (
    check_declaration,
    check_imports,
    check_telling,
    check_names,
    check_replay,
    check_failures,
    check_cancellation,
    check_terminate,
    check_handoffs,
    check_nesting,
)


def check_strategy(
    make: Callable[[], StrategyLike], settings: Settings | None = None, *, members: int = 3, lines: Lines | None = None
) -> None:
    """Put a strategy on trial; raises one `AssertionError` that tells everything that is wrong with it."""
    trial = Rehearsal(make, settings or Settings(max_turns=2), members, lines=lines)
    found: list[str] = []
    for check in CHECKS:
        try:
            anyio.run(check, trial)
        except (AssertionError, TeamwrightError) as error:
            found.append(f"{check.__name__.removeprefix('check_')}: {error}")
    if found:
        raise AssertionError("\n".join(found))


class StrategyConformance:
    """The tests of a strategy. Override `settings` and `size` where yours needs others than the usual ones.

    Where it reads what members say, `lines` says it for them.
    """

    settings: Settings = Settings(max_turns=2)
    size: int = 3

    def make(self) -> StrategyLike:
        """A new strategy, each time."""
        raise NotImplementedError

    def lines(self, member: str, turn: Turn) -> str | None:
        """What a member says to a turn; `None` where it does not matter."""
        return None

    def check(self, check: Check) -> None:
        """Run one check."""
        anyio.run(check, Rehearsal(self.make, self.settings, self.size, lines=self.lines))

    def test_it_declares_a_name_and_a_version(self) -> None:
        self.check(check_declaration)

    def test_it_reaches_time_and_chance_only_through_its_context(self) -> None:
        self.check(check_imports)

    def test_the_task_stands_last_and_the_history_is_left_alone(self) -> None:
        self.check(check_telling)

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
        self.check(check_handoffs)

    def test_teams_nest_both_ways(self) -> None:
        self.check(check_nesting)
