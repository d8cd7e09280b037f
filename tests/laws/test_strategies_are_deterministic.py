"""Law 8: recorded histories replay, and a strategy that deviates is reported with both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Returned
from teamwright.errors import NonDeterminism, NotResumable
from teamwright.runtime.engine import Engine
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.sequential import Sequential
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.teams.team import Team
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure
from tests.histories.history import FOLDER, RUN_ID, History, comparable
from tests.histories.teams import TEAMS, cases, member, speak
from tests.profiles import sampled

EVERY = sampled(3, 1)
"""From which events a history is continued: from every third, or from every one."""


def nobody(name: str, attempt: Attempt) -> Returned:
    raise AssertionError(f"{name!r} was called, and its answer is recorded")


def test_every_history_has_its_team_and_every_team_its_history() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(TEAMS)


@pytest.mark.parametrize("name", cases())
async def test_a_recorded_history_replays_without_a_call(name: str) -> None:
    history = History.load(name)
    ends = [event.number for event in history.events if event.kind == "team.ended"]
    journal = history.journal(ends[-1] - 1)
    async with Engine(journal) as engine:
        result = await engine.resume(RUN_ID, team=TEAMS[name](nobody))
    assert comparable(result) == history.result
    added = [event.kind for event in (await journal.read(RUN_ID))[ends[-1] - 1 :]]
    assert added[:2] == ["run.resumed", "team.ended"]
    assert len(added) == 4


@pytest.mark.parametrize("name", cases())
async def test_a_recorded_history_continues_from_every_point(name: str) -> None:
    history = History.load(name)
    # The samples of two teams of equal length begin at different events.
    for number in range(1 + list(TEAMS).index(name) % EVERY, len(history.events), EVERY):
        called: list[str] = []

        def answer(who: str, attempt: Attempt, called: list[str] = called) -> Returned:
            called.append(attempt.idempotency_key)
            return speak(who, attempt)

        async with Engine(history.journal(number)) as engine:
            result = await engine.resume(RUN_ID, team=TEAMS[name](answer))
        assert comparable(result) == history.result, f"from event {number}"
        assert len(called) == len(set(called))


def changed(members: Sequence[Agent]) -> Team:
    return Team("chain", members=members, strategy=Backwards())


class Backwards(Sequential):
    """The same name and version with another order."""

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        return await super().run(task, Members(members[::-1]), ctx)


class OtherKeys(Sequential):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        talk = TeamConversation(task)
        for number, one in enumerate(members):
            reply = await ctx.ask(one, talk.turn(number), key=f"place-{number}")
            if isinstance(reply, Failure):
                return talk.failed(reply)
            talk.add(reply)
        return talk.ended("done")


class StopsEarly(Sequential):
    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        return await super().run(task, Members(members[:1]), ctx)


class Newer(Sequential):
    version = 2


def chain(strategy: Sequential) -> Team:
    return Team("chain", members=[member(name, speak) for name in "abc"], strategy=strategy)


async def test_another_member_at_a_place_is_reported_with_both_sides() -> None:
    async with Engine(History.load("sequential").journal(8)) as engine:
        with pytest.raises(NonDeterminism, match=r"the record says that 'a' was asked.* asks 'c' there") as told:
            await engine.resume(RUN_ID, team=changed([member(name, speak) for name in "abc"]))
    assert "'a'" in told.value.recorded
    assert "'c'" in told.value.replayed
    assert "teamwright runs fork" in str(told.value)


@pytest.mark.parametrize(("strategy", "number"), [(OtherKeys(), 8), (StopsEarly(), 12)])
async def test_other_keys_and_missing_asks_are_reported_with_both_sides(strategy: Sequential, number: int) -> None:
    history = History.load("sequential")
    journal = history.journal(number)
    async with Engine(journal) as engine:
        with pytest.raises(NonDeterminism, match=r"came next") as told:
            await engine.resume(RUN_ID, team=chain(strategy))
        assert told.value.recorded
        assert told.value.replayed
        assert await journal.read(RUN_ID) == history.events[:number], "a refused replay must leave the record alone"


async def test_a_turn_that_says_something_else_is_reported() -> None:
    class OtherWords(Sequential):
        async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
            return await super().run(Task(task.text + "!", task.history, task.settings), members, ctx)

    async with Engine(History.load("sequential").journal(8)) as engine:
        with pytest.raises(NonDeterminism, match=r"with the turn [0-9a-f]{8}.*with the turn [0-9a-f]{8}"):
            await engine.resume(RUN_ID, team=chain(OtherWords()))


async def test_another_version_of_a_strategy_is_refused_with_a_clear_message() -> None:
    async with Engine(History.load("sequential").journal(8)) as engine:
        with pytest.raises(
            NotResumable, match=r"began with version 1 of the strategy 'sequential', and this is version 2"
        ):
            await engine.resume(RUN_ID, team=chain(Newer()))


async def test_a_fork_continues_with_the_changed_strategy() -> None:
    history = History.load("sequential")
    async with Engine(history.journal()) as engine:
        handle = await engine.start_fork(RUN_ID, team=changed([member(name, speak) for name in "abc"]), new_id="forked")
        result = await handle.result()
    assert result.status == "completed"
    assert [message.name for message in result.messages] == ["c", "b", "a"]
