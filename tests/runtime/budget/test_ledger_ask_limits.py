"""Limits on how many asks a run makes, and how deep they nest."""

from __future__ import annotations

import pytest

from teamwright import Context, Engine, Limits, Reply, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import AgentError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Failure
from tests.kit.records import cut
from tests.kit.strategies import FunctionStrategy, outcome


class Parent(Agent):
    """A member that asks the next generation of its family, for ever if nothing stops it."""

    kind = "function"

    def __init__(self, name: str, asked: list[str], children: int = 1) -> None:
        self.name, self.asked, self.children = name, asked, children

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        self.asked.append(self.name)
        for number in range(self.children):
            child = Parent(f"{self.name}{number}", self.asked, self.children)
            answer = await ctx.ask(child, Turn(turn.task), key=child.name)
            if isinstance(answer, Failure):
                raise AgentError(answer.message)
        return Reply.of(self.name, "done")


def loop(asked: list[str], times: int, limits: Limits | None = None, name: str = "t") -> Team:
    """A team that asks its member so many times, and answers with what came of each."""

    async def run(task: Task, members: Members, ctx: Context) -> Outcome:
        answers = [await ctx.ask(members[0], Turn(task.text), key=f"turn-{n}") for n in range(times)]
        return outcome(" ".join("yes" if isinstance(one, Reply) else one.message for one in answers))

    return Team(name, members=[Parent("m", asked, children=0)], strategy=FunctionStrategy(run), limits=limits)


async def run(team: Team, limits: Limits | None = None, journal: MemoryJournal | None = None) -> RunResult:
    async with Engine(journal or MemoryJournal()) as engine:
        return await engine.run(team, "go", run_id="r", limits=limits)


@pytest.mark.parametrize("of_run", [True, False])
async def test_no_more_asks_are_made_than_the_limit_says(of_run: bool) -> None:
    asked, limits = list[str](), Limits(asks=3)
    ended = await run(loop(asked, 4, None if of_run else limits), limits if of_run else None)
    assert len(asked) == 3
    assert ended.output == "yes yes yes It is not asked: 't' may make 3 asks, which have begun (limits: asks)."


async def test_an_endless_family_ends_at_the_depth_and_the_run_says_why() -> None:
    asked = list[str]()
    team = Team("t", members=[Parent("m", asked)], limits=Limits(depth=3))
    ended = await run(team)
    assert asked == ["m", "m0", "m00"]
    assert (ended.status, ended.stop_reason) == ("failed", "error")
    assert ended.failure is not None
    assert "asks in 't' may nest 3 deep (limits: depth)" in ended.failure.message


async def test_a_refused_ask_stops_a_team_as_a_budget_does() -> None:
    asked = list[str]()
    members = [Parent(name, asked, children=0) for name in "abc"]
    ended = await run(Team("t", members=members, limits=Limits(asks=2)))
    assert (ended.status, ended.stop_reason, ended.exit_code, asked) == ("degraded", "budget", 4, ["a", "b"])


async def test_asks_of_nested_teams_count_at_every_level() -> None:
    asked = list[str]()
    inner = loop(asked, 3, Limits(asks=2), name="inner")
    ended = await run(Team("t", members=[inner, Parent("z", asked, children=0)]), Limits(asks=5))
    assert (asked, ended.output) == (["m", "m", "z"], "done")  # the third of the inner team is refused, and counts
    asked.clear()
    ended = await run(Team("t", members=[loop(asked, 3, name="inner"), Parent("z", asked, children=0)]), Limits(asks=4))
    assert (asked, ended.stop_reason) == (["m", "m", "m"], "budget")


async def test_killed_at_any_event_a_run_is_refused_the_same_ask() -> None:
    journal, asked = MemoryJournal(), list[str]()
    team = loop(asked, 5, Limits(asks=3))
    whole = await run(team, journal=journal)
    for at in range(1, len(await journal.read("r"))):
        asked.clear()
        async with Engine(await cut(journal, at)) as engine:
            resumed = await engine.resume("r", team=team)
        assert (resumed.output, resumed.status) == (whole.output, whole.status)
        assert len(asked) <= 3


async def test_a_fork_goes_on_counting() -> None:
    asked = list[str]()
    team, journal = loop(asked, 5, Limits(asks=3)), MemoryJournal()
    await run(team, journal=journal)
    events = await journal.read("r")
    second = [event.number for event in events if event.kind == "agent.replied"][1]
    asked.clear()
    async with Engine(journal) as engine:
        forked = await engine.fork("r", at=second, team=team)
    assert (len(asked), forked.output) == (1, (await _result(journal)).output)


async def _result(journal: MemoryJournal) -> RunResult:
    async with Engine(journal) as engine:
        return await engine.runs.result("r")
